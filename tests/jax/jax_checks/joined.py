"""The others' operations beside ranks that have joined; an optimizer in a process set; arrays of a GPU."""

import warnings
from typing import Any, List

import farandole.jax as hvd
import jax
import jax.numpy as jnp
import numpy
import optax
from farandole.jax import arrays
from harness import Checks, expect_error

check = Checks()


def mine(*shape: int) -> jax.Array:
    return jnp.full(shape, float(hvd.rank() + 1))


def take_part(present: List[int], step: int) -> None:
    """Each operation once, among the ranks that are left; under names that all ranks have from the first step."""
    size, numbers = hvd.size(), [rank + 1 for rank in present]
    wanted = {hvd.Sum: sum(numbers), hvd.Min: min(numbers), hvd.Max: max(numbers), hvd.Product: numpy.prod(numbers)}
    wanted[hvd.Average] = sum(numbers) / size
    for op, value in wanted.items():
        for call in (hvd.allreduce, jax.jit(hvd.allreduce, static_argnames=("op", "name"))):
            assert (call(mine(3), op=op, name=f"joined.{op}") == value).all(), (step, op)
    grouped = hvd.grouped_allreduce({"a": mine(5), "b": mine(7).astype(int)}, op=hvd.Sum, name="joined.group")
    assert (grouped["a"] == sum(numbers)).all() and (grouped["b"] == sum(numbers)).all()
    gathered = hvd.allgather(mine(hvd.rank() + 1), name="joined.rows")
    assert gathered.tolist() == [rank + 1.0 for rank in present for _ in range(rank + 1)]
    both = hvd.grouped_allgather([mine(1), mine(2)], name="joined.both")
    assert [each.shape for each in both] == [(len(present),), (2 * len(present),)]
    part = hvd.reducescatter(mine(2 * size), op=hvd.Sum, name="joined.part")
    assert part.tolist() == [float(sum(numbers))] * 2
    found, received = hvd.alltoall(mine(size), splits=[1] * size, name="joined.exchange")
    assert found.tolist() == numbers and received.tolist() == [int(rank in present) for rank in range(size)]
    root = present[0]
    rows = hvd.gather(mine(hvd.rank() + 1), root, name="joined.gather")
    assert rows.tolist() == (gathered.tolist() if hvd.rank() == root else [])
    assert hvd.scatter(mine(2 * size), root, name="joined.scatter").tolist() == [root + 1.0] * 2
    for call in (hvd.broadcast, jax.jit(hvd.broadcast, static_argnums=(1, 2))):
        assert call(mine(4), root, "joined.broadcast").tolist() == [root + 1.0] * 4
    assert hvd.allgather_object(hvd.rank(), name="joined.object") == present


@check
def ranks_that_have_joined_take_part_in_every_operation() -> None:
    size = hvd.size()
    for step in range(hvd.rank() + 1):
        take_part(list(range(step, size)), step)
    assert hvd.join() == size - 1


@check
def a_compiled_allgather_says_that_a_rank_has_joined() -> None:
    if hvd.size() == 1:
        return
    step = jax.jit(lambda array: hvd.allgather(array, name="joined.compiled"))
    step(mine(2)).block_until_ready()
    if hvd.rank() > 0:
        expect_error((ValueError, jax.errors.JaxRuntimeError), lambda: step(mine(2)).block_until_ready(), "rows")
    hvd.join()


@check.each(1, 2)
def an_optimizer_reduces_within_its_process_set(passes: int) -> None:
    if hvd.size() < 3:
        return
    pair = hvd.add_process_set([0, hvd.size() - 1])
    if pair.included():
        options = {"process_set": pair, "backward_passes_per_step": passes}
        optimizer = hvd.DistributedOptimizer(optax.sgd(1.0), **options)
        for update in (optimizer.update, jax.jit(optimizer.update)):
            params = {"w": jnp.zeros(3)}
            state = optimizer.init(params)
            for _ in range(passes):
                updates, state = update({"w": mine(3)}, state, params)
                params = optax.apply_updates(params, updates)
            assert params["w"].tolist() == [-passes * (1 + hvd.size()) / 2] * 3
    hvd.barrier()
    hvd.remove_process_set(pair)


@check
def arrays_in_a_gpu_are_told_of_once() -> None:
    """By an imitation: outside of programs they travel through the host's memory, within them they do not."""
    real = arrays.has_gpus, arrays.is_on_host
    arrays._has_told = False
    arrays.has_gpus, arrays.is_on_host = (lambda: True), (lambda _array: False)
    try:
        told: List[Any] = []
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            jax.jit(hvd.allgather)(jnp.ones(1)).block_until_ready()
            for number in range(2):
                told.append([str(each.message) for each in caught if "travel through the host" in str(each.message)])
                hvd.allreduce(jnp.ones(1), name=f"told.{number}")
                hvd.allgather(jnp.ones(1))
        told.append([str(each.message) for each in caught if "travel through the host" in str(each.message)])
        assert [len(each) for each in told] == [0, 1, 1] and "jax.jit" in told[2][0], told
    finally:
        arrays.has_gpus, arrays.is_on_host = real
    assert arrays.is_on_host(jnp.ones(1)) and not arrays.has_gpus()
