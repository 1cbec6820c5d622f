"""Collectives in compiled programs: what JAX does with them, their names, memory and order."""

import threading
from typing import Any

import farandole.jax as hvd
import jax
import jax.numpy as jnp
import numpy
from harness import Checks, expect_error

check = Checks()

TELLS_INSTANCES = jax.__version_info__ >= (0, 6)
"""Whether a function within a program may be called several times: not with the oldest jaxlib."""


def total() -> int:
    return sum(range(1, hvd.size() + 1))


@check
def scan_cond_and_while_hold_collectives() -> None:
    mine = jnp.full((3,), hvd.rank() + 1.0)

    def body(carry: Any, _: Any) -> Any:
        return hvd.allreduce(carry, op=hvd.Average) + 1, hvd.allgather(carry[:1])

    for scan in (jax.lax.scan, jax.jit(jax.lax.scan, static_argnums=(0,), static_argnames=("length", "unroll"))):
        for unroll in (1, 2) if TELLS_INSTANCES else (1,):
            end, rows = scan(body, mine, None, length=4, unroll=unroll)
            numpy.testing.assert_allclose(end, numpy.full(3, total() / hvd.size() + 4))
            assert rows.shape == (4, hvd.size())

    @jax.jit
    def choose(flag: Any, array: Any) -> Any:
        return jax.lax.cond(flag, lambda x: hvd.allreduce(x, op=hvd.Sum), lambda x: hvd.allreduce(x, op=hvd.Max), array)

    assert choose(True, mine)[0] == total() and choose(False, mine)[0] == hvd.size()

    @jax.jit
    def grow(array: Any) -> Any:
        # The condition is the same on all ranks, as it is of what all have.
        return jax.lax.while_loop(
            lambda x: hvd.allreduce(x, op=hvd.Max)[0] < 100, lambda x: hvd.allreduce(x, op=hvd.Average) * 2, array
        )

    assert 100 <= grow(mine)[0] < 200


@check
def vmap_makes_one_call_of_a_batch() -> None:
    batch = jnp.arange(12.0).reshape(4, 3) + hvd.rank()
    shift = sum(range(hvd.size()))
    for way in (lambda f: f, jax.jit):
        result = way(jax.vmap(lambda x: hvd.allreduce(x, op=hvd.Sum)))(batch)
        numpy.testing.assert_allclose(result, numpy.arange(12.0).reshape(4, 3) * hvd.size() + shift)
        before = hvd.counters().submissions
        result = way(jax.vmap(hvd.allgather, in_axes=1, out_axes=1))(batch).block_until_ready()
        assert hvd.counters().submissions == before + 1
        assert result.shape == (4 * hvd.size(), 3)
        numpy.testing.assert_allclose(result[:4], numpy.arange(12.0).reshape(4, 3))
        both = way(
            jax.vmap(lambda x, y: hvd.grouped_allreduce([x, y], op=hvd.Max), in_axes=(0, None), out_axes=[0, None])
        )
        first, second = both(batch, batch[0])
        assert first.shape == (4, 3) and second.shape == (3,)
        nested = way(jax.vmap(jax.vmap(hvd.reducescatter)))(jnp.ones((2, 3, hvd.size() + 1)))
        assert nested.shape == (2, 3, 2 if hvd.rank() == 0 or hvd.size() == 1 else 1)
        assert way(jax.vmap(lambda x: hvd.broadcast(x, 0)))(batch)[0, 0] == 0
        assert way(jax.vmap(hvd.alltoall))(jnp.ones((5, hvd.size()))).shape == (5, hvd.size())
    expect_error(NotImplementedError, lambda: jax.vmap(lambda x: hvd.allreduce(x, op=hvd.Adasum))(batch), "Adasum")


@check
def equal_calls_are_neither_merged_nor_dropped() -> None:
    @jax.jit
    def step(array: Any) -> Any:
        for _ in range(4):
            result = hvd.allreduce(array, op=hvd.Sum)
        return result

    step(jnp.ones(3)).block_until_ready()
    before = hvd.counters().submissions
    assert step(jnp.ones(3))[0] == hvd.size()
    made = hvd.counters().submissions - before
    assert made == 4, made


@check
def a_constant_is_reduced_when_the_program_runs() -> None:
    constant = jnp.ones(3)
    step = jax.jit(lambda x: x + hvd.allreduce(constant, op=hvd.Sum))
    step(constant).block_until_ready()
    before = hvd.counters().submissions
    assert step(constant)[0] == 1 + hvd.size()
    assert hvd.counters().submissions == before + 1


@check
def a_jitted_function_that_is_called_twice_has_two_names() -> None:
    @jax.jit
    def mean(array: Any) -> Any:
        return hvd.allreduce(array, op=hvd.Sum)

    def late(array: Any, rounds: Any) -> Any:
        """The array, after so many rounds of work."""
        done = jax.lax.fori_loop(0, rounds, lambda _, m: m @ m * 0.5, jnp.eye(200))
        return array + 0 * done[0, 0]

    @jax.jit
    def step(first: Any, second: Any, rounds: Any) -> Any:
        return mean(late(first, rounds[0])), mean(late(second, rounds[1]))

    if not TELLS_INSTANCES:
        arrays = jnp.ones(400), jnp.ones(400), jnp.zeros(2, int)
        expect_error(
            jax.errors.JaxRuntimeError, lambda: step(*arrays)[0].block_until_ready(), "several times", "inline=True"
        )
        return
    # Of the two each rank has another one ready first.
    rounds = jnp.asarray([200, 0] if hvd.rank() % 2 == 0 else [0, 200])
    for number in range(5):
        one, two = step(jnp.full(400, float(number)), jnp.full(400, 1000.0 + number), rounds)
        assert (one[0], two[0]) == (number * hvd.size(), (1000 + number) * hvd.size())


@check
def calls_run_in_the_order_of_the_program() -> None:
    """Although on each rank another one of them is ready first."""
    slow = hvd.rank()

    @jax.jit
    def step(arrays: Any) -> Any:
        reduced = []
        for place, array in enumerate(arrays):
            if place % hvd.size() == slow:
                array = array * jnp.linalg.matrix_power(jnp.eye(200) * (1 + 0 * array[0]), 9)[0, 0]
            reduced.append(hvd.allreduce(array, op=hvd.Sum))
        # Without rows, so that on the other ranks nothing of the program needs it.
        root = hvd.gather(arrays[0], 0)
        return [*reduced, hvd.allreduce(jnp.sum(root) * 0 + 1.0, op=hvd.Sum)]

    for number in range(5):
        results = step([jnp.full(100, float(place + number)) for place in range(20)])
        wanted = [(place + number) * hvd.size() for place in range(20)]
        assert [result[0].item() for result in results[:-1]] == wanted and results[-1] == hvd.size()


@check
def programs_of_one_name_follow_each_other() -> None:
    first = jax.jit(lambda x: hvd.allreduce(x, op=hvd.Sum))
    second = jax.jit(lambda x: hvd.allreduce(x, op=hvd.Max))
    array, pair = jnp.ones(3), jnp.full((2, 2), hvd.rank())
    for _ in range(20):
        results = first(array), second(pair)
        assert results[0][0] == hvd.size() and results[1][0, 0] == hvd.size() - 1


@check
def calls_outside_of_programs_go_on_beside_them() -> None:
    step = jax.jit(lambda x: hvd.allreduce(jnp.linalg.matrix_power(x, 9), op=hvd.Sum))
    eye = jnp.eye(200)
    for number in range(10):
        pending = step(eye)
        assert hvd.allreduce(jnp.asarray(float(number)), op=hvd.Sum) == number * hvd.size()
        assert pending[0, 0] == hvd.size()


@check
def a_donated_argument_may_be_the_result() -> None:
    step = jax.jit(lambda x: hvd.allreduce(x, op=hvd.Sum), donate_argnums=0)
    array = jnp.ones(1 << 16)
    for _ in range(3):
        array = step(array)
    assert array[0] == hvd.size() ** 3


@check
def checkpointed_functions_hold_collectives() -> None:
    @jax.jit
    def loss(x: Any) -> Any:
        return jax.checkpoint(lambda y: jnp.sin(hvd.allreduce(jnp.sin(y), op=hvd.Sum)).sum())(x)

    plain = jax.jit(lambda x: jnp.sin(hvd.allreduce(jnp.sin(x), op=hvd.Sum)).sum())
    x = jnp.arange(3.0)
    numpy.testing.assert_allclose(jax.grad(loss)(x), jax.grad(plain)(x))


@check
def shapes_are_known_without_a_run() -> None:
    before = hvd.counters().submissions
    assert jax.eval_shape(hvd.allgather, jnp.ones((2, 5))).shape == (2 * hvd.size(), 5)
    text = jax.jit(lambda x: hvd.allreduce(x, name="seen")).lower(jnp.ones(2)).as_text()
    assert "farandole_allreduce" in text and '"seen"' in text
    assert hvd.counters().submissions == before


@check
def what_does_not_run_with_the_program_is_refused_in_it() -> None:
    for name in ("barrier", "join"):
        call = getattr(hvd, name)
        expect_error(RuntimeError, lambda call=call: jax.jit(lambda x: call() or x)(1.0), name, "outside")
    expect_error(RuntimeError, lambda: jax.jit(hvd.broadcast_parameters)(jnp.ones(2)), "broadcast_parameters")


@check
def threads_may_run_programs_of_process_sets() -> None:
    if hvd.size() == 1:
        return
    ours = hvd.add_process_set([0])
    step = jax.jit(lambda x: hvd.allreduce(x, op=hvd.Sum, process_set=ours))
    results = []
    if hvd.rank() == 0:
        thread = threading.Thread(target=lambda: results.append(step(jnp.ones(4))[0].item()))
        thread.start()
    assert jax.jit(lambda x: hvd.allreduce(x, op=hvd.Max))(jnp.ones(4))[0] == 1
    if hvd.rank() == 0:
        thread.join()
        assert results == [1]
    hvd.remove_process_set(ours)


@check.each("int16", "uint16", "float8_e4m3fn", "float8_e5m2")
def types_that_nccl_cannot_reduce_are_reduced_as_others_in_gpus(dtype: str) -> None:
    def step(short: Any, long: Any) -> Any:
        reduced = hvd.grouped_allreduce([short, long], op=hvd.Average)
        return [*reduced, hvd.reducescatter(short), hvd.broadcast(short, 0)]

    arrays = jnp.ones(4, dtype), jnp.ones(4)
    wide = "tensor<4xi32>" if "int" in dtype else "tensor<4xf32>"
    traced = jax.jit(step).trace(*arrays)
    for platform, is_wide in (("cuda", True), ("cpu", False)):
        lines = traced.lower(lowering_platforms=(platform,)).as_text().splitlines()
        calls = {
            operation: [line for line in lines if f"@farandole_{operation}" in line]
            for operation in ("allreduce", "reducescatter", "broadcast")
        }
        assert all(len(found) == 1 for found in calls.values()), calls
        assert (wide in calls["allreduce"][0]) == is_wide, calls["allreduce"]
        assert (wide in calls["reducescatter"][0]) == is_wide, calls["reducescatter"]
        assert wide not in calls["broadcast"][0], calls["broadcast"]
