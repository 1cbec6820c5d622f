"""Gradients of all ranks: an Optax transformation, and forms of jax.grad and jax.value_and_grad that reduce."""

import functools
from typing import Any, Callable, NamedTuple, Optional, Type

import jax
import jax.numpy as jnp

from .. import _ops
from ..process_sets import ProcessSet, global_process_set
from ..reduce_ops import Average, choose
from .compression import Compression, Compressor
from .ops import grouped_allreduce, is_traced


class GradientReduction:
    """How gradients are reduced: in one call for each pytree, so that all of them travel together."""

    def __init__(
        self,
        name: Optional[str] = None,
        compression: Type[Compressor] = Compression.none,
        op: Optional[int] = None,
        gradient_predivide_factor: float = 1.0,
        process_set: ProcessSet = global_process_set,
    ) -> None:
        """ValueError: gradient_predivide_factor with another op than Average."""
        self._op = choose(op, None)
        _ops.check_factors(gradient_predivide_factor, 1.0)
        if gradient_predivide_factor != 1.0 and self._op != Average:
            raise ValueError("gradient_predivide_factor not supported with op != Average")
        self._name, self._compression, self._process_set = name, compression, process_set
        self._factor = float(gradient_predivide_factor)

    def __call__(self, gradients: Any) -> Any:
        """The pytree of all ranks. None stays None, and so does the float0 of what has no gradient."""
        leaves, structure = jax.tree.flatten(gradients)
        places = [index for index, leaf in enumerate(leaves) if getattr(leaf, "dtype", None) != jax.dtypes.float0]
        reduced = grouped_allreduce(
            [leaves[index] for index in places],
            name=self._name,
            compression=self._compression,
            op=self._op,
            prescale_factor=1.0 / self._factor,
            postscale_factor=self._factor,
            process_set=self._process_set,
        )
        for index, leaf in zip(places, reduced):
            leaves[index] = leaf
        return jax.tree.unflatten(structure, leaves)


def _optax() -> Any:
    try:
        import optax
    except ImportError as error:
        raise ImportError(
            f"DistributedOptimizer wraps transformations of Optax, which is missing ({error}); pip install optax"
        ) from None
    return optax


def allreduce_gradients(
    name: Optional[str] = None,
    compression: Type[Compressor] = Compression.none,
    op: Optional[int] = None,
    gradient_predivide_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> Any:
    """An optax.GradientTransformation whose updates are those of all ranks, reduced: for optax.chain, at whatever place the
    program wants it. The arguments are those of DistributedOptimizer."""
    optax = _optax()
    reduction = GradientReduction(name, compression, op, gradient_predivide_factor, process_set)

    def update(updates: Any, state: Any, params: Any = None, **_extra: Any) -> Any:
        del params
        return reduction(updates), state

    return optax.GradientTransformationExtraArgs(lambda _params: optax.EmptyState(), update)


def DistributedOptimizer(
    optimizer: Any,
    name: Optional[str] = None,
    compression: Type[Compressor] = Compression.none,
    op: Optional[int] = None,
    backward_passes_per_step: int = 1,
    average_aggregated_gradients: bool = False,
    gradient_predivide_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> Any:
    """The optimizer, an optax.GradientTransformation, which reduces gradients over the ranks before it uses them.

    With `backward_passes_per_step` n, a rank adds up the gradients of n calls, and the last of them reduces and applies the
    sum (with `average_aggregated_gradients` the mean); the updates of the others are zero. All ranks' updates are equal to the bit where their parameters are.
    ValueError: it is no such transformation.
    """
    optax = _optax()
    if not (hasattr(optimizer, "init") and hasattr(optimizer, "update")):
        raise ValueError(f"DistributedOptimizer needs a gradient transformation of Optax, not {optimizer!r}")
    if backward_passes_per_step < 1:
        raise ValueError(f"backward_passes_per_step is a number of at least 1, not {backward_passes_per_step!r}")
    reducing = allreduce_gradients(name, compression, op, gradient_predivide_factor, process_set)
    chained = optax.chain(reducing, optimizer)
    if backward_passes_per_step == 1:
        return chained
    return _Passes(chained, backward_passes_per_step, average_aggregated_gradients).transformation(optax)


class AddedGradients(NamedTuple):
    """The state of an optimizer with backward_passes_per_step."""

    passes: jax.Array
    """How many there were since the last step."""
    gradients: Any
    """Their sum."""
    inner_state: Any


class _Passes:
    """Adds up the gradients of several calls for one step of an optimizer; the other calls reduce nothing."""

    def __init__(self, optimizer: Any, passes: int, is_mean: bool) -> None:
        self._optimizer, self._passes, self._scale = optimizer, passes, 1.0 / passes if is_mean else 1.0

    def transformation(self, optax: Any) -> Any:
        """As Optax wants it."""
        return optax.GradientTransformationExtraArgs(self._init, self._update)

    def _init(self, params: Any) -> AddedGradients:
        zeros = jax.tree.map(jnp.zeros_like, params)
        return AddedGradients(jnp.zeros((), jnp.int32), zeros, self._optimizer.init(params))

    def _update(self, updates: Any, state: AddedGradients, params: Any = None, **extra: Any) -> Any:
        added = jax.tree.map(jnp.add, state.gradients, updates)

        def step() -> Any:
            scaled = jax.tree.map(lambda each: each * jnp.asarray(self._scale, each.dtype), added)
            made, inner = self._optimizer.update(scaled, state.inner_state, params, **extra)
            return made, AddedGradients(jnp.zeros_like(state.passes), jax.tree.map(jnp.zeros_like, added), inner)

        def wait() -> Any:
            zeros = jax.tree.map(lambda each: jnp.zeros(each.shape, each.dtype), jax.eval_shape(step)[0])
            return zeros, AddedGradients(state.passes + 1, added, state.inner_state)

        is_last = state.passes == self._passes - 1
        if is_traced(is_last):
            return jax.lax.cond(is_last, step, wait)
        return step() if is_last else wait()


def value_and_grad(
    function: Callable[..., Any],
    *arguments: Any,
    name: Optional[str] = None,
    compression: Type[Compressor] = Compression.none,
    op: Optional[int] = None,
    gradient_predivide_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
    **options: Any,
) -> Callable[..., Any]:
    """As jax.value_and_grad, whose further arguments it takes: the value is this rank's own, the gradients are those of all
    ranks, reduced (Average)."""
    reduction = GradientReduction(name, compression, op, gradient_predivide_factor, process_set)
    differentiated = jax.value_and_grad(function, *arguments, **options)

    @functools.wraps(function)
    def reduced(*given: Any, **named: Any) -> Any:
        value, gradients = differentiated(*given, **named)
        return value, reduction(gradients)

    return reduced


def grad(
    function: Callable[..., Any],
    argnums: Any = 0,
    has_aux: bool = False,
    *,
    name: Optional[str] = None,
    compression: Type[Compressor] = Compression.none,
    op: Optional[int] = None,
    gradient_predivide_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
    **options: Any,
) -> Callable[..., Any]:
    """As jax.grad, whose further arguments it takes, with the gradients of all ranks, reduced (Average)."""
    reduction = GradientReduction(name, compression, op, gradient_predivide_factor, process_set)
    differentiated = jax.grad(function, argnums, has_aux, **options)

    @functools.wraps(function)
    def reduced(*given: Any, **named: Any) -> Any:
        found = differentiated(*given, **named)
        return (reduction(found[0]), found[1]) if has_aux else reduction(found)

    return reduced
