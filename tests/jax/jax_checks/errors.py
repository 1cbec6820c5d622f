"""Ranks that disagree get both values in a sentence, and the job goes on."""

import farandole.jax as hvd
import jax
import jax.numpy as jnp
import numpy
from harness import Checks, expect_error

check = Checks()


def last() -> bool:
    return hvd.rank() == hvd.size() - 1


def goes_on() -> None:
    assert jax.jit(lambda x: hvd.allreduce(x, op=hvd.Sum, name="goes_on"))(jnp.ones(2))[0] == hvd.size()


@check
def shapes_that_differ_are_told_in_a_program_and_outside() -> None:
    if hvd.size() == 1:
        return
    mine = jnp.ones((2, 3) if last() else (3, 2))
    words = ("shape", "[3,2]", "[2,3]")
    expect_error(ValueError, lambda: hvd.allreduce(mine, name="shapes"), *words)
    program = jax.jit(lambda x: hvd.allreduce(x, name="compiled_shapes"))
    expect_error(jax.errors.JaxRuntimeError, lambda: program(mine).block_until_ready(), "INVALID_ARGUMENT", *words)
    goes_on()


@check
def a_program_without_names_tells_its_own() -> None:
    if hvd.size() == 1:
        return

    def step(x: jax.Array) -> jax.Array:
        return hvd.allreduce(x)

    mine = jnp.ones(2, "float32" if last() else "float64")
    expect_error(
        jax.errors.JaxRuntimeError, lambda: jax.jit(step)(mine).block_until_ready(), "jit_step/allreduce", "dtype"
    )
    goes_on()


@check.each("grouped_allreduce", "grouped_allgather", "grouped_reducescatter")
def numbers_of_grouped_arrays_that_differ_are_told(operation: str) -> None:
    if hvd.size() == 1:
        return
    call = getattr(hvd, operation)
    arrays = [jnp.ones(hvd.size())] * (2 if last() else 3)
    expect_error(ValueError, lambda: call(arrays, name="counts"), "3 grouped", "2 grouped")
    program = jax.jit(lambda *given: call(list(given), name="compiled_counts"))
    expect_error(jax.errors.JaxRuntimeError, lambda: jax.block_until_ready(program(*arrays)), "3 grouped", "2 grouped")
    goes_on()


@check
def parameters_that_differ_are_told() -> None:
    if hvd.size() == 1:
        return
    layers = {f"layer{index}": jnp.ones(3) for index in range(2 if last() else 3)}
    expect_error(
        ValueError, lambda: hvd.broadcast_parameters(layers), "parameters['layer2']", "no such tensor", "shape [3]"
    )
    step = {"step": 7 if last() else jnp.ones((), "int32")}
    expect_error(
        ValueError, lambda: hvd.broadcast_parameters(step), "parameters['step']", "no array", "shape [] of int32"
    )
    nothing = {} if last() else {"w": jnp.ones(2)}
    expect_error(ValueError, lambda: hvd.broadcast_parameters(nothing, name="nothing"), "nothing['w']")
    root = 1 if last() else 0
    expect_error(ValueError, lambda: hvd.broadcast_parameters(jnp.ones(2), root), "root_rank", "has 0", "has 1")
    goes_on()


@check
def types_of_grouped_arrays_that_differ_are_told() -> None:
    if hvd.size() == 1:
        return
    arrays = [jnp.ones(2), jnp.ones(2, "int32" if last() else "float64")]
    program = jax.jit(lambda *given: hvd.grouped_allreduce(list(given), op=hvd.Sum, name="compiled_types"))
    expect_error(jax.errors.JaxRuntimeError, lambda: jax.block_until_ready(program(*arrays)), "compiled_types")
    goes_on()


@check
def reductions_and_roots_that_differ_are_told() -> None:
    if hvd.size() == 1:
        return
    op = hvd.Max if last() else hvd.Sum
    program = jax.jit(lambda x: hvd.allreduce(x, op=op, name="ops"))
    expect_error(jax.errors.JaxRuntimeError, lambda: program(jnp.ones(2)).block_until_ready(), "ops")
    root = 1 if last() else 0
    program = jax.jit(lambda x: hvd.broadcast(x, root, name="roots"))
    expect_error(jax.errors.JaxRuntimeError, lambda: program(jnp.ones(2)).block_until_ready(), "root")
    goes_on()


@check
def rows_that_differ_in_a_program_are_told() -> None:
    if hvd.size() == 1:
        return
    mine = jnp.ones((3 if last() else 2, 2))
    program = jax.jit(lambda x: hvd.allgather(x, name="rows"))
    expect_error(
        jax.errors.JaxRuntimeError, lambda: program(mine).block_until_ready(), "rows", "2", "3", "outside of jit"
    )
    expect_error(ValueError, lambda: jax.grad(lambda x: hvd.allgather(x).sum())(mine), "equally many rows")
    goes_on()


@check
def arrays_that_cannot_be_sent_are_refused_by_the_names_of_their_types() -> None:
    """In a program when it is traced, on the rank that has one."""
    swapped, structured = numpy.arange(3).astype(">f4"), numpy.zeros(3, [("a", "f4")])
    for given, words in (
        (swapped, "another machine's order of bytes"),
        (structured, "no such element type"),
        (numpy.array(["a"]), "no such element type"),
        (numpy.array([None]), "no such element type"),
    ):
        for call in (hvd.allreduce, hvd.allgather, lambda array: hvd.broadcast(array, 0)):
            expect_error(ValueError, lambda: call(given), words)  # noqa: B023
    for kind in ("complex64", "int4"):
        array = jnp.ones(2, kind)
        for call in (hvd.allreduce, hvd.allgather, lambda array: hvd.broadcast(array, 0)):
            expect_error(ValueError, lambda: call(array), f"an array of {kind} cannot be sent")  # noqa: B023
            expect_error(ValueError, lambda: jax.jit(call)(array), f"an array of {kind} cannot be sent")  # noqa: B023
    for kind in ("bool", "int8", "uint8", "uint16", "uint32", "bfloat16", "float8_e5m2", "float8_e4m3fn"):
        assert jax.jit(lambda x: hvd.allgather(x))(jnp.ones(2, kind)).dtype == kind
    goes_on()


@check
def arguments_that_are_wrong_are_named() -> None:
    array = jnp.ones(2)
    expect_error(ValueError, lambda: hvd.allreduce(array, op=77), "77")
    expect_error(ValueError, lambda: jax.jit(lambda x: hvd.allreduce(x, op=77))(array), "77")
    expect_error(ValueError, lambda: jax.jit(lambda x: hvd.allreduce(x, prescale_factor="a"))(array), "prescale_factor")
    expect_error(ValueError, lambda: jax.jit(lambda x: hvd.broadcast(x, "a"))(array), "root_rank")
    expect_error(ValueError, lambda: jax.jit(lambda x: hvd.allreduce(x, name=7))(array), "name")
    expect_error(ValueError, lambda: jax.jit(lambda x: hvd.allreduce(x, process_set=3))(array), "ProcessSet")
    expect_error(
        jax.errors.JaxRuntimeError,
        lambda: jax.jit(lambda x: hvd.broadcast(x, 99))(array).block_until_ready(),
        "99",
    )
    goes_on()
