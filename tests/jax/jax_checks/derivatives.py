"""Derivatives: those of the sum of all ranks' losses, which a numerical derivative shows."""

from typing import Any, Callable, List

import farandole.jax as hvd
import jax
import jax.numpy as jnp
import numpy
from harness import Checks, expect_error

check = Checks()


def weights(shape: Any) -> jax.Array:
    """Numbers by which this rank's loss weighs a result: other ones on each rank."""
    return jnp.cos(jnp.arange(numpy.prod(shape), dtype="float64") + 10 * hvd.rank()).reshape(shape)


def rows_for(rows: int) -> jax.Array:
    return jnp.sin(jnp.arange(2.0 * rows, dtype="float64") + hvd.rank()).reshape(rows, 2)


CALLS = {
    "sum": lambda x: hvd.allreduce(x, op=hvd.Sum),
    "average": lambda x: hvd.allreduce(x, prescale_factor=3.0, postscale_factor=0.5),
    "max": lambda x: hvd.allreduce(x, op=hvd.Max, prescale_factor=2.0),
    "min": lambda x: hvd.allreduce(x, op=hvd.Min),
    "grouped": lambda x: hvd.grouped_allreduce({"a": x, "b": x[:1]}, op=hvd.Sum)["a"],
    "allgather": hvd.allgather,
    "broadcast": lambda x: hvd.broadcast(x, hvd.size() - 1),
    "reducescatter": lambda x: hvd.reducescatter(x, op=hvd.Sum),
    "reducescatter_average": lambda x: hvd.reducescatter(x, prescale_factor=2.0),
    "alltoall": lambda x: hvd.alltoall(x[: hvd.size()]),
    "gather": lambda x: hvd.gather(x, 0),
    "scatter": lambda x: hvd.scatter(x, hvd.size() - 1),
}


def loss_of(call: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def loss(x: Any) -> Any:
        result = call(jnp.sin(x))
        return (weights(result.shape) * result**2).sum()

    return loss


def numerical(loss: Callable[[Any], Any], x: jax.Array) -> numpy.ndarray:
    """The derivative of the sum of all ranks' losses by this rank's numbers; the ranks take turns."""
    step, found = 1e-6, numpy.zeros(x.shape)
    for rank in range(hvd.size()):
        for index in numpy.ndindex(*x.shape):
            moved: List[Any] = []
            for sign in (1, -1):
                there = x.at[index].add(sign * step) if rank == hvd.rank() else x
                moved.append(hvd.allreduce(loss(there), op=hvd.Sum))
            if rank == hvd.rank():
                found[index] = (moved[0] - moved[1]) / (2 * step)
    return found


@check.each(*CALLS)
def gradients_are_those_of_the_sum_of_losses(name: str) -> None:
    loss = loss_of(CALLS[name])
    x = rows_for(hvd.size() + 1)
    wanted = numerical(jax.jit(loss), x)
    for way in (jax.grad(loss), jax.jit(jax.grad(loss))):
        numpy.testing.assert_allclose(way(x), wanted, rtol=1e-5, atol=1e-6)


@check.each(*CALLS)
def forward_and_reverse_agree(name: str) -> None:
    loss = loss_of(CALLS[name])
    x, direction = rows_for(hvd.size() + 1), jnp.cos(rows_for(hvd.size() + 1))
    for way in (lambda f: f, jax.jit):
        _, forward = way(lambda x, d: jax.jvp(loss, (x,), (d,)))(x, direction)
        gradient = way(jax.grad(loss))(x)
        reverse = hvd.allreduce((gradient * direction).sum(), op=hvd.Sum)
        numpy.testing.assert_allclose(hvd.allreduce(forward, op=hvd.Sum), reverse, rtol=1e-9)


@check.each("sum", "allgather", "broadcast", "reducescatter", "max")
def hessians_are_symmetric(name: str) -> None:
    loss = loss_of(CALLS[name])
    x = rows_for(hvd.size() + 1).ravel()

    def flat(v: Any) -> Any:
        return loss(v.reshape(-1, 2))

    forward = jax.jit(jax.hessian(flat))(x)
    reverse = jax.jit(jax.jacrev(jax.jacrev(flat)))(x)
    assert forward.shape == (x.size, x.size)
    numpy.testing.assert_allclose(forward, reverse, atol=1e-9)
    numpy.testing.assert_allclose(forward, forward.T, atol=1e-9)


@check
def a_gradient_through_scan_and_vmap() -> None:
    x = rows_for(3)

    def through_scan(v: Any) -> Any:
        end, _ = jax.lax.scan(lambda c, _: (jnp.sin(hvd.allreduce(c, op=hvd.Sum)), None), v, None, length=3)
        return end.sum()

    numpy.testing.assert_allclose(jax.jit(jax.grad(through_scan))(x), numerical(jax.jit(through_scan), x), atol=1e-6)

    def through_vmap(v: Any) -> Any:
        return jax.vmap(lambda row: (hvd.allgather(jnp.sin(row)) ** 2).sum())(v).sum()

    numpy.testing.assert_allclose(jax.jit(jax.grad(through_vmap))(x), numerical(jax.jit(through_vmap), x), atol=1e-6)


@check
def the_extremum_is_shared_where_several_have_it() -> None:
    gradient = jax.grad(lambda x: hvd.allreduce(x, op=hvd.Max).sum())(jnp.ones(3))
    numpy.testing.assert_allclose(gradient, numpy.ones(3))


@check
def what_has_no_derivative_says_so() -> None:
    for op, word in ((hvd.Product, "Product"), (hvd.Adasum, "Adasum")):
        expect_error(
            NotImplementedError,
            lambda op=op: jax.grad(lambda x: hvd.allreduce(x, op=op).sum())(jnp.ones(3)),
            word,
            "stop_gradient",
        )
    x = jnp.ones(3)
    gradient = jax.grad(lambda v: (v * hvd.allreduce(jax.lax.stop_gradient(v), op=hvd.Product)).sum())(x)
    numpy.testing.assert_allclose(gradient, numpy.ones(3))


@check
def integers_have_none() -> None:
    def loss(x: Any) -> Any:
        both = hvd.grouped_allreduce([x, jnp.arange(3)], op=hvd.Sum)
        return (both[0] * both[1]).sum()

    wanted = numpy.arange(3) * hvd.size() ** 2
    for way in (jax.grad(loss), jax.jit(jax.grad(loss))):
        numpy.testing.assert_allclose(way(jnp.ones(3)), wanted)
