"""Gradients of all ranks: an Optax transformation, and forms of jax.grad and jax.value_and_grad that reduce."""

import functools
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence, Type

import jax
import jax.numpy as jnp
import numpy

from .. import _ops
from .._presence import Paths, Plan, Presence, is_disagreement
from .._sections import marked
from ..exceptions import InvalidRequest
from ..process_sets import ProcessSet, global_process_set
from ..reduce_ops import Average, Sum, choose
from .arrays import kept_zeros
from .compression import Compression, Compressor
from .ops import grouped_allreduce, is_traced


def _is_none(leaf: Any) -> bool:
    return leaf is None


_LEAF = jax.tree.structure(0)
_paths: Dict[Any, Paths] = {}
# So many structures are kept.
_MOST_STRUCTURES = 256


def _is_float0(leaf: Any) -> bool:
    """Whether it stands for the gradient of an integer, which has none."""
    return getattr(leaf, "dtype", None) == jax.dtypes.float0


def _travels(leaf: Any) -> bool:
    return leaf is not None and not _is_float0(leaf)


def _leaves_of(tree: Any, count: int) -> List[Any]:
    """So many leaves, all of them None where the pytree has another number."""
    leaves = jax.tree.leaves(tree, is_leaf=_is_none)
    return leaves if len(leaves) == count else [None] * count


def _key_of(entry: Any) -> str:
    """Of an entry of a path: the same in a dict, a dataclass and a list, as a pytree that is restored may have others."""
    for attribute in ("key", "name", "idx"):
        if hasattr(entry, attribute):
            return str(getattr(entry, attribute))
    return str(entry)


def _paths_of(tree: Any, structure: Any) -> Paths:
    """The leaves' names; None is a leaf."""
    try:
        known = _paths.get(structure)
    except TypeError:  # a node's data has no hash
        known, structure = None, None
    if known is None:
        paths, _ = jax.tree_util.tree_flatten_with_path(tree, is_leaf=_is_none)
        names = tuple(f"gradients{jax.tree_util.keystr(path)}" for path, _ in paths)
        known = Paths(names, tuple("/".join(map(_key_of, path)) for path, _ in paths))
        if len(_paths) >= _MOST_STRUCTURES:
            _paths.clear()
        if structure is not None:
            _paths[structure] = known
    return known


def _is_eager(*trees: Any) -> bool:
    return not is_traced(*jax.tree.leaves(trees))


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
        self._presence = Presence(process_set)

    def __call__(self, gradients: Any, like: Any = None) -> Any:
        """The pytree of all ranks. None stays None, and so does the float0 of what has no gradient, where no rank has one.
        Outside of jit, a rank that lacks a gradient sends zeros of the shape that `like`, a pytree of the same structure, has in
        its place. ValueError: it has none, or within jit a jax.errors.JaxRuntimeError: ranks lack different gradients."""
        leaves, structure = jax.tree.flatten(gradients, is_leaf=_is_none)
        places = [index for index, leaf in enumerate(leaves) if _travels(leaf)]
        if structure == _LEAF and places:
            return self._reduce(leaves)[0]
        paths = _paths_of(gradients, structure)
        shapes = leaves if len(places) == len(leaves) else _leaves_of(like, len(leaves))
        can_ask = not is_traced(*leaves)
        without = [place for place, leaf in enumerate(shapes) if not _travels(leaf) and place not in places]
        plan = self._presence.plan(paths, places, can_ask, without)
        try:
            made = self._reduce_planned(plan, leaves, shapes)
        except InvalidRequest as error:
            facts = (self._name or "gradients", paths, dict.fromkeys(places, ""), without)
            if not can_ask or not is_disagreement(error) or not self._presence.ask(*facts, refused=plan.mark):
                raise
            made = self._reduce_planned(self._presence.plan(paths, places, can_ask, without), leaves, shapes)
        return jax.tree.unflatten(structure, made)

    def of_value(self, value: Any) -> Any:
        """The loss of all ranks: the sum where gradients are summed, else the mean. It travels uncompressed. None and
        integers stay as they are."""
        if value is None or not jnp.issubdtype(jnp.result_type(value), jnp.floating):
            return value
        name = f"{self._name}.value" if self._name else None
        op = Sum if self._op == Sum else Average
        return grouped_allreduce([jnp.asarray(value)], name=name, op=op, process_set=self._process_set)[0]

    def _reduce_planned(self, plan: Plan, leaves: Sequence[Any], shapes: Sequence[Any]) -> List[Any]:
        """The leaves of all ranks. With them travels a mark of which they are."""
        made = list(leaves)
        for place in plan.missing:
            made[place] = jnp.zeros_like(shapes[place])
        dtype = jnp.result_type(made[plan.places[0]]) if plan.places else jnp.dtype("float32")
        marker = (jnp.zeros if is_traced(*leaves) else kept_zeros)(plan.mark, dtype)
        for place, leaf in zip(plan.places, self._reduce([marker, *(made[place] for place in plan.places)])[1:]):
            made[place] = leaf
        return made

    def _reduce(self, arrays: List[Any]) -> List[Any]:
        return list(
            grouped_allreduce(
                arrays,
                name=self._name,
                compression=self._compression,
                op=self._op,
                prescale_factor=1.0 / self._factor,
                postscale_factor=self._factor,
                process_set=self._process_set,
            )
        )


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
    program wants it. The arguments are those of DistributedOptimizer. Other links of the chain get `value` as it is
    given: give that of all ranks, allreduce(value)."""
    optax = _optax()
    reduction = GradientReduction(name, compression, op, gradient_predivide_factor, process_set)

    def update(updates: Any, state: Any, params: Any = None, **_extra: Any) -> Any:
        return reduction(updates, params), state

    return optax.GradientTransformationExtraArgs(lambda _params: optax.EmptyState(), update)


class _Reducing:
    """An optimizer whose update reduces the gradients, and what its caller says of the loss."""

    def __init__(self, optax: Any, optimizer: Any, reduction: GradientReduction) -> None:
        self._optimizer, self._reduction = optax.with_extra_args_support(optimizer), reduction
        self._no_state = optax.EmptyState()  # of the reduction, in its place as in optax.chain

    def init(self, params: Any) -> Any:
        """As a gradient transformation's."""
        return self._no_state, self._optimizer.init(params)

    def update(self, updates: Any, state: Any, params: Any = None, **extra: Any) -> Any:
        """As a gradient transformation's. Outside of jit it is the section "step" of the program (docs/diagnosis.md).
        ValueError: the caller gives `value_fn`."""
        with marked("step", _is_eager(updates)):
            return self._update(updates, state, params, **extra)

    def _update(self, updates: Any, state: Any, params: Any, **extra: Any) -> Any:
        if extra.get("value_fn") is not None:
            raise ValueError(
                "DistributedOptimizer takes no value_fn: each rank would search along the loss of its own data, and "
                "parameters would differ. Take an optimizer without a line search, such as optax.lbfgs(linesearch=None)"
            )
        reduced = self._reduction(updates, params)
        if "grad" in extra:
            extra["grad"] = reduced
        if "value" in extra:
            extra["value"] = self._reduction.of_value(extra["value"])
        made, inner = self._optimizer.update(reduced, state[1], params, **extra)
        return made, (self._no_state, inner)


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
    An update may be given `value`, this rank's loss, and `grad`: the optimizer gets those of all ranks.
    ValueError: it is no such transformation; an update is given `value_fn`.
    """
    optax = _optax()
    if not (hasattr(optimizer, "init") and hasattr(optimizer, "update")):
        raise ValueError(f"DistributedOptimizer needs a gradient transformation of Optax, not {optimizer!r}")
    if backward_passes_per_step < 1:
        raise ValueError(f"backward_passes_per_step is a number of at least 1, not {backward_passes_per_step!r}")
    reduction = GradientReduction(name, compression, op, gradient_predivide_factor, process_set)
    reducing = _Reducing(optax, optimizer, reduction)
    if backward_passes_per_step == 1:
        return optax.GradientTransformationExtraArgs(reducing.init, reducing.update)
    return _Passes(reducing, backward_passes_per_step, average_aggregated_gradients).transformation(optax)


class AddedGradients(NamedTuple):
    """The state of an optimizer with backward_passes_per_step."""

    passes: jax.Array
    """How many there were since the last step."""
    gradients: Any
    """Their sum."""
    inner_state: Any


def _added(update: Any, total: Any) -> Any:
    return jnp.add(total, update) if _travels(update) else total


def _zeros(like: Any) -> Any:
    return (numpy if _is_float0(like) else jnp).zeros(like.shape, like.dtype)


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
        added = jax.tree.map(_added, updates, state.gradients, is_leaf=_is_none)

        def scaled(update: Any, total: Any) -> Any:
            if total is None or _is_float0(update):
                return update
            return total * jnp.asarray(self._scale, total.dtype)

        def step() -> Any:
            gradients = jax.tree.map(scaled, updates, added, is_leaf=_is_none)
            made, inner = self._optimizer.update(gradients, state.inner_state, params, **extra)
            return made, AddedGradients(jnp.zeros_like(state.passes), jax.tree.map(jnp.zeros_like, added), inner)

        def wait() -> Any:
            zeros = jax.tree.map(_zeros, jax.eval_shape(step)[0])
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
    ranks, reduced (Average). Outside of jit, computing the rank's own is the section "backward" of the program
    (docs/diagnosis.md)."""
    reduction = GradientReduction(name, compression, op, gradient_predivide_factor, process_set)
    differentiated = jax.value_and_grad(function, *arguments, **options)

    @functools.wraps(function)
    def reduced(*given: Any, **named: Any) -> Any:
        with marked("backward", _is_eager(given, named)):
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
    """As jax.grad, whose further arguments it takes, with the gradients of all ranks, reduced (Average). A section as
    value_and_grad's."""
    reduction = GradientReduction(name, compression, op, gradient_predivide_factor, process_set)
    differentiated = jax.grad(function, argnums, has_aux, **options)

    @functools.wraps(function)
    def reduced(*given: Any, **named: Any) -> Any:
        with marked("backward", _is_eager(given, named)):
            found = differentiated(*given, **named)
        return (reduction(found[0]), found[1]) if has_aux else reduction(found)

    return reduced
