"""Gradients that a rank lacks and another one has, and arrays of NumPy that JAX would cut."""

import warnings
from typing import Any, Dict, NamedTuple

import farandole.jax as hvd
import jax
import jax.numpy as jnp
import numpy
import optax
from harness import Checks, expect_error

check = Checks()


def parameters() -> Dict[str, Any]:
    return {name: jnp.zeros(2) for name in "abc"}


def gradients() -> Dict[str, Any]:
    """Rank 0 lacks b, and the others lack a."""
    rank = hvd.rank()
    return {"a": jnp.full(2, 10.0) if rank == 0 else None, "b": jnp.full(2, 20.0) if rank else None, "c": jnp.ones(2)}


def values_of(updates: Any) -> Dict[str, float]:
    return {name: float(value[0]) for name, value in updates.items() if value is not None}


@check.each("1", "2")
def an_optimizer_sends_zeros_for_a_gradient_that_it_lacks(passes: str) -> None:
    if hvd.size() != 2:
        return
    optimizer = hvd.DistributedOptimizer(optax.sgd(1.0), backward_passes_per_step=int(passes))
    state, count = optimizer.init(parameters()), int(passes)
    for _ in range(count):
        updates, state = optimizer.update(gradients(), state, parameters())
    assert values_of(updates) == {"a": -5.0 * count, "b": -10.0 * count, "c": -1.0 * count}
    both = {"a": None, "b": None, "c": jnp.ones(2)}
    plain = hvd.DistributedOptimizer(optax.sgd(1.0))
    assert values_of(plain.update(both, plain.init(parameters()), parameters())[0]) == {"c": -1.0}


@check.each(*((passes, way) for passes in (1, 2) for way in ("eager", "compiled")))
def an_integer_has_no_gradient_in_any_pass(passes: int, way: str) -> None:
    """JAX gives it one of float0, which travels nowhere."""
    given = {"steps": jnp.arange(2), "w": jnp.arange(3.0), "static": None}
    inner = optax.masked(optax.sgd(1.0), {"steps": False, "w": True, "static": None})
    optimizer = hvd.DistributedOptimizer(inner, backward_passes_per_step=passes)

    def step(params: Any, state: Any) -> Any:
        slopes = jax.grad(lambda each: (each["w"] ** 2).sum() * (hvd.rank() + 1), allow_int=True)(params)
        return optimizer.update(slopes, state, params)

    stepped = jax.jit(step) if way == "compiled" else step
    state, mean = optimizer.init(given), (hvd.size() + 1) / 2
    for number in range(2 * passes):
        is_last = number % passes == passes - 1
        updates, state = stepped(given, state)
        assert updates["steps"].dtype == jax.dtypes.float0 and updates["steps"].shape == (2,)
        assert updates["static"] is None
        wanted = -2.0 * passes * mean * given["w"] if is_last else jnp.zeros(3)
        numpy.testing.assert_allclose(updates["w"], wanted)


@check
def without_its_parameter_a_gradient_is_named() -> None:
    if hvd.size() != 2:
        return
    optimizer = hvd.DistributedOptimizer(optax.sgd(1.0))
    words = ("gradients['a']: rank 0 has a gradient of this variable, and rank 1 has none",)
    expect_error(ValueError, lambda: optimizer.update(gradients(), optimizer.init(parameters())), *words)


class Pair(NamedTuple):
    a: Any
    b: Any


@check.each("eager", "compiled")
def a_pytree_that_rank_0_has_restored_may_be_of_dicts(way: str) -> None:
    value = jnp.full(2, hvd.rank() + 1.0)
    given: Any = {"net": {"a": value, "b": value}} if hvd.rank() == 0 else {"net": Pair(value, value)}
    reduction = hvd.allreduce_gradients()

    def reduced(updates: Any) -> Any:
        return reduction.update(updates, reduction.init(updates))[0]

    step = jax.jit(reduced) if way == "compiled" else reduced
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = jax.tree.leaves(step(given))
    assert [each.tolist() for each in found] == [[(hvd.size() + 1) / 2] * 2] * 2


@check
def a_compiled_step_is_told() -> None:
    if hvd.size() != 2:
        return
    optimizer = hvd.DistributedOptimizer(optax.sgd(1.0))
    state = optimizer.init(parameters())
    step = jax.jit(lambda given: optimizer.update(given, state, parameters())[0])
    expect_error(jax.errors.JaxRuntimeError, lambda: jax.block_until_ready(step(gradients())), "rank 0 has shape [0,2,")


@check
def numbers_that_do_not_fit_are_refused() -> None:
    with jax.enable_x64(False):
        for given in (numpy.int64(2**40), numpy.array([1, 2**40]), numpy.array([1e300])):
            words = ("does not fit into JAX's", "jax_enable_x64")
            expect_error(ValueError, lambda: hvd.broadcast(given, 0), *words)  # noqa: B023
            expect_error(ValueError, lambda: hvd.allreduce(given), *words)  # noqa: B023
            expect_error(ValueError, lambda: hvd.broadcast_parameters({"step": given}), *words)  # noqa: B023
        assert int(hvd.broadcast(numpy.int64(7), 0)) == 7
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            hvd.allreduce(numpy.array([1 / 3]))
            hvd.allreduce(numpy.array([0.5, numpy.inf, numpy.nan]))
        assert ["jax_enable_x64" in str(each.message) for each in told] == [True]
    assert int(hvd.broadcast(numpy.int64(2**40), 0)) == 2**40


@check
def masks_do_not_travel() -> None:
    masked = numpy.ma.array([1.0, 2.0], mask=[False, True])
    expect_error(ValueError, lambda: hvd.allreduce(masked), "the array is masked")
