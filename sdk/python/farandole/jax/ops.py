"""The operations on arrays and pytrees of them, outside of JAX's transformations and within.

All ranks of the process set call an operation with the same name, element type and, unless it says otherwise, shape.
Outside of jit, grad and vmap, calls without a name are paired in their order; in a compiled program a call without a
name gets one from its place in the program, which all ranks have alike. Where ranks disagree, each gets a ValueError, or
from a compiled program a jax.errors.JaxRuntimeError (INVALID_ARGUMENT), that names two of them and both values, and the
job goes on. EpochEnded, or JaxRuntimeError (ABORTED): a worker has died or left.
"""

from typing import Any, Callable, List, Optional, Sequence, Tuple, Type

import jax
import jax.numpy as jnp

try:
    from jax.extend.core import get_opaque_trace_state
except ImportError:  # before 0.5
    from jax.core import get_opaque_trace_state

from .. import _operations, _ops
from .._operations import Operations, described_by
from ..numpy import _element_type
from ..process_sets import ProcessSet, global_process_set, group_of
from ..reduce_ops import NAMES, Average, Product, Sum, choose
from .arrays import as_array, operations
from .compression import Compression, Compressor
from .primitives import PRIMITIVES, Terms

allreduce_async = operations.allreduce_async
grouped_allreduce_async = operations.grouped_allreduce_async
allgather_async = operations.allgather_async
broadcast_async = operations.broadcast_async

_SIGNED = {"uint32": jnp.int32, "uint64": jnp.int64}
Restore = Callable[[Any], Any]

# Of a thread in which JAX traces nothing.
_NO_TRACE = get_opaque_trace_state(convention="flax")


def _is_tracing() -> bool:
    return not bool(get_opaque_trace_state(convention="flax") == _NO_TRACE)


def is_traced(*arrays: Any) -> bool:
    """Whether JAX traces a function now, or one of them is no array yet, but stands for one in a trace."""
    return _is_tracing() or any(isinstance(array, jax.core.Tracer) for array in arrays)


def as_sent(given: Any) -> Tuple[Any, Restore]:
    """The array that travels for the given one, and a function that turns a result into an array like the given one:
    random keys travel as their data, and unsigned integers of 32 and 64 bits as signed ones."""
    if not isinstance(given, jax.Array):
        given = as_array(given)
    if jax.dtypes.issubdtype(given.dtype, jax.dtypes.prng_key):
        kind = jax.random.key_impl(given)
        data, restore_data = as_sent(jax.random.key_data(given))
        return data, lambda sent: jax.random.wrap_key_data(restore_data(sent), impl=kind)
    signed = _SIGNED.get(given.dtype.name)
    if signed is None:
        return given, lambda sent: sent
    dtype = given.dtype
    return jax.lax.bitcast_convert_type(given, signed), lambda sent: jax.lax.bitcast_convert_type(sent, dtype)


def _as_reduced(given: Any, op: int, prescale: float, postscale: float) -> Tuple[Any, Restore]:
    """As as_sent, for a reduction: of signed integers sums and products have the same bits."""
    sent, restore = as_sent(given)
    dtype = jnp.asarray(given).dtype
    if dtype != sent.dtype and (op not in (Sum, Product) or (prescale, postscale) != (1.0, 1.0)):
        raise ValueError(
            f"an array of {dtype} is reduced by Sum or Product without factors only, not by {NAMES[op]}: farandole has no "
            "such element type"
        )
    return sent, restore


def _rows_in_front(array: Any) -> Any:
    return array.reshape(1) if array.ndim == 0 else array


def _bind(operation: str, arrays: Sequence[Any], terms: Terms) -> List[Any]:
    group_of(terms.process_set)
    _ops.name_for(terms.name)
    for array in arrays:
        _element_type(array.dtype)
    return PRIMITIVES[operation].bind(*arrays, terms=terms)


def _factors(prescale: float, postscale: float) -> Tuple[float, float]:
    _ops.check_factors(prescale, postscale)
    return float(prescale), float(postscale)


@described_by(Operations.allreduce)
def allreduce(
    tensor: Any,
    average: Optional[bool] = None,
    name: Optional[str] = None,
    compression: Type[Compressor] = Compression.none,
    op: Optional[int] = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> jax.Array:
    """`op` may be Adasum as well. `compression` says in which form the array travels. Derivatives: of Average and Sum those of
    the ranks, reduced alike; of Min and Max those of the ranks that have the extremum."""
    return grouped_allreduce([tensor], average, name, compression, op, prescale_factor, postscale_factor, process_set)[
        0
    ]


@described_by(Operations.grouped_allreduce)
def grouped_allreduce(
    tensors: Any,
    average: Optional[bool] = None,
    name: Optional[str] = None,
    compression: Type[Compressor] = Compression.none,
    op: Optional[int] = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> Any:
    """`tensors` is a pytree of arrays (a list is one). Returns a pytree of the same structure."""
    reduction = choose(op, average)
    prescale, postscale = _factors(prescale_factor, postscale_factor)
    leaves, structure = jax.tree.flatten(tensors)
    compressed = [compression.compress(as_array(leaf)) for leaf in leaves]
    pairs = [_as_reduced(leaf, reduction, prescale, postscale) for leaf, _ in compressed]
    sent = [array for array, _ in pairs]
    if is_traced(*sent):
        reduced = _bind("allreduce", sent, Terms(name, reduction, prescale, postscale, 0, process_set))
    elif len(sent) == 1:
        reduced = [operations.allreduce(sent[0], None, name, reduction, prescale, postscale, process_set)]
    else:
        reduced = operations.grouped_allreduce(sent, None, name, reduction, prescale, postscale, process_set)
    restored = [restore(array) for array, (_, restore) in zip(reduced, pairs)]
    made = [compression.decompress(array, context) for array, (_, context) in zip(restored, compressed)]
    return jax.tree.unflatten(structure, made)


@described_by(Operations.grouped_allgather)
def grouped_allgather(tensors: Any, name: Optional[str] = None, process_set: ProcessSet = global_process_set) -> Any:
    """`tensors` is a pytree of arrays, and so is the result."""
    leaves, structure = jax.tree.flatten(tensors)
    pairs = [as_sent(leaf) for leaf in leaves]
    sent = [_rows_in_front(array) for array, _ in pairs]
    if is_traced(*sent):
        gathered = _bind("allgather", sent, Terms(name, process_set=process_set))
    else:
        gathered = operations.grouped_allgather(sent, name, process_set)
    return jax.tree.unflatten(structure, [restore(array) for array, (_, restore) in zip(gathered, pairs)])


@described_by(Operations.allgather)
def allgather(tensor: Any, name: Optional[str] = None, process_set: ProcessSet = global_process_set) -> jax.Array:
    """In jit, grad and vmap, where shapes are known before, all ranks give equally many rows."""
    return grouped_allgather([tensor], name, process_set)[0]


@described_by(Operations.grouped_reducescatter)
def grouped_reducescatter(
    tensors: Any,
    name: Optional[str] = None,
    compression: Type[Compressor] = Compression.none,
    op: int = Average,
    process_set: ProcessSet = global_process_set,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> Any:
    """`tensors` is a pytree of arrays, and so is the result."""
    reduction = choose(op, None)
    prescale, postscale = _factors(prescale_factor, postscale_factor)
    leaves, structure = jax.tree.flatten(tensors)
    compressed = [compression.compress(as_array(leaf)) for leaf in leaves]
    pairs = [_as_reduced(leaf, reduction, prescale, postscale) for leaf, _ in compressed]
    sent = [array for array, _ in pairs]
    if is_traced(*sent):
        _require_rows("reducescatter", sent)
        reduced = _bind("reducescatter", sent, Terms(name, reduction, prescale, postscale, 0, process_set))
    else:
        reduced = operations.grouped_reducescatter(sent, name, reduction, process_set, prescale, postscale)
    restored = [restore(array) for array, (_, restore) in zip(reduced, pairs)]
    made = [compression.decompress(array, context) for array, (_, context) in zip(restored, compressed)]
    return jax.tree.unflatten(structure, made)


@described_by(Operations.reducescatter)
def reducescatter(
    tensor: Any,
    name: Optional[str] = None,
    compression: Type[Compressor] = Compression.none,
    op: int = Average,
    process_set: ProcessSet = global_process_set,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> jax.Array:
    """`compression` and derivatives are as in allreduce."""
    return grouped_reducescatter([tensor], name, compression, op, process_set, prescale_factor, postscale_factor)[0]


def _require_rows(operation: str, arrays: Sequence[Any]) -> None:
    if any(array.ndim == 0 for array in arrays):
        raise ValueError(f"{operation} needs an array with rows, not a scalar")


@described_by(Operations.broadcast)
def broadcast(
    tensor: Any, root_rank: int, name: Optional[str] = None, process_set: ProcessSet = global_process_set
) -> jax.Array:
    sent, restore = as_sent(tensor)
    if is_traced(sent):
        terms = Terms(name, root=_ops.root_for(root_rank), process_set=process_set)
        return restore(_bind("broadcast", [sent], terms)[0])
    return restore(operations.broadcast(sent, root_rank, name, process_set))


@described_by(Operations.alltoall)
def alltoall(
    tensor: Any,
    splits: Any = None,
    name: Optional[str] = None,
    process_set: ProcessSet = global_process_set,
) -> Any:
    """In jit, grad and vmap, where shapes are known before, there are no `splits`, and only the rows are returned."""
    sent, restore = as_sent(tensor)
    if not is_traced(sent, splits):
        received = operations.alltoall(sent, splits, name, process_set)
        return restore(received) if splits is None else (restore(received[0]), received[1])
    if splits is not None:
        raise ValueError(
            "alltoall with splits cannot be in jit, grad or vmap, where the shape of the result is known before"
        )
    _require_rows("alltoall", [sent])
    size = process_set.size() or 1
    if sent.shape[0] % size:
        raise ValueError(f"alltoall without splits: {sent.shape[0]} rows are not a multiple of {size} ranks")
    return restore(_bind("alltoall", [sent], Terms(name, process_set=process_set))[0])


@described_by(Operations.gather)
def gather(
    tensor: Any, root_rank: int, name: Optional[str] = None, process_set: ProcessSet = global_process_set
) -> jax.Array:
    sent, restore = as_sent(tensor)
    if not is_traced(sent):
        return restore(operations.gather(sent, root_rank, name, process_set))
    terms = Terms(name, root=_ops.root_for(root_rank), process_set=process_set)
    return restore(_bind("gather", [_rows_in_front(sent)], terms)[0])


@described_by(Operations.scatter)
def scatter(
    tensor: Any, root_rank: int, name: Optional[str] = None, process_set: ProcessSet = global_process_set
) -> jax.Array:
    """In jit, grad and vmap the other ranks give an array of the root's shape."""
    sent, restore = as_sent(tensor)
    if not is_traced(sent):
        return restore(operations.scatter(sent, root_rank, name, process_set))
    _require_rows("scatter", [sent])
    terms = Terms(name, root=_ops.root_for(root_rank), process_set=process_set)
    return restore(_bind("scatter", [sent], terms)[0])


def _refuse_tracing(operation: str) -> None:
    if _is_tracing():
        raise RuntimeError(
            f"{operation}() would run when jit, grad or vmap traces the function, and not when that runs: call it outside"
        )


@described_by(_operations.barrier)
def barrier(process_set: ProcessSet = global_process_set) -> None:
    """Programs that JAX runs meanwhile go on; to wait for them, use jax.block_until_ready. RuntimeError: within jit, grad or
    vmap."""
    _refuse_tracing("barrier")
    _operations.barrier(process_set)


@described_by(_operations.join)
def join() -> int:
    """RuntimeError: called within jit, grad or vmap."""
    _refuse_tracing("join")
    return _operations.join()
