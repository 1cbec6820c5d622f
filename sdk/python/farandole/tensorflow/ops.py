"""The operations on tensors, eager and in graphs, with gradients.

The contracts are those of `farandole._operations`, where a ValueError of one rank is a tf.errors.InvalidArgumentError
here, and EpochEnded is a tf.errors.UnknownError. All ranks of the process set call an operation with the same name,
element type and, unless it says otherwise, shape. Eager calls without a name are paired in their order; in a graph an
op without a name gets one from its place in the graph, which all ranks have alike. If ranks disagree, each gets a
tf.errors.FailedPreconditionError that names two of them and both values, and the job goes on.
"""

import math
from typing import Any, Dict, Iterator, List, Optional, Sequence, Tuple, Type

import tensorflow as tf

from .. import _epochs, _operations, _ops
from .._operations import Operations, described_by
from ..numpy import _refuse_masks
from ..process_sets import ProcessSet, global_process_set, group_of
from ..reduce_ops import Adasum, Average, Sum, choose
from ._ops_library import attribute, bits, ops
from .compression import Compression
from .eager_allreduce import allreduce_now
from .graph_names import name_for
from .placement import tell_of_copies


def _attributes(kind: str, name: Optional[str]) -> Dict[str, Any]:
    """The attributes `tensor_name` and `waits` of an op that is made now."""
    if name is not None:
        _ops.encode_name(name)
    if tf.executing_eagerly():
        return {"tensor_name": name or "", "waits": 1}
    return {"tensor_name": name_for(tf.compat.v1.get_default_graph(), kind, name), "waits": 0}


# tf.convert_to_tensor needs 4 us to find that a tensor is one.
_EagerTensor = tf.__internal__.EagerTensor


def _converted(given: Any) -> tf.Tensor:
    """As a dense tensor. ValueError: that would lose a part of it."""
    _refuse_masks(given)
    if isinstance(given, tf.RaggedTensor):
        raise ValueError(
            "farandole does not send a tf.RaggedTensor: give its to_tensor(), or its values and row_splits"
        )
    if isinstance(given, tf.SparseTensor):
        raise ValueError("farandole does not send a tf.SparseTensor: give tf.sparse.to_dense(tensor), or its parts")
    return tf.convert_to_tensor(given)


def _dense(tensor: Any) -> tf.Tensor:
    dense = tensor if type(tensor) is _EagerTensor else _converted(tensor)
    tell_of_copies(dense)
    return dense


def _by_dtype(tensors: Sequence[tf.Tensor]) -> List[List[int]]:
    """The places of the tensors of each element type, in an order that all ranks have alike."""
    if len(tensors) == 1:
        return [[0]]
    found: Dict[tf.DType, List[int]] = {}
    for index, tensor in enumerate(tensors):
        found.setdefault(tensor.dtype, []).append(index)
    return [found[dtype] for dtype in sorted(found, key=lambda dtype: dtype.name)]


def _named(parts: Sequence[List[int]], name: Optional[str]) -> Iterator[Tuple[List[int], Optional[str]]]:
    """The parts of a call with a name for each."""
    for number, part in enumerate(parts):
        yield part, f"{name}.{number}" if name and len(parts) > 1 else name


def _reduce(
    tensors: Sequence[tf.Tensor],
    name: Optional[str],
    op: int,
    prescale: float,
    postscale: float,
    process_set: ProcessSet,
) -> List[tf.Tensor]:
    """Allreduce of several tensors together; those of one element type are one op."""
    _ops.check_factors(prescale, postscale)
    group = group_of(process_set)
    parts = [[index] for index in range(len(tensors))] if op == Adasum else _by_dtype(tensors)
    outputs: List[Any] = [None] * len(tensors)
    for part, own_name in _named(parts, name):
        reduced = ops.farandole_allreduce(
            [tensors[index] for index in part],
            reduce_op=op,
            prescale_bits=bits(prescale),
            postscale_bits=bits(postscale),
            process_set_id=group,
            **_attributes("allreduce", own_name),
        )
        for index, output in zip(part, reduced):
            outputs[index] = output
    return outputs


@described_by(Operations.allreduce)
def allreduce(
    tensor: Any,
    average: Optional[bool] = None,
    device_dense: str = "",
    device_sparse: str = "",
    compression: Type = Compression.none,
    op: Optional[int] = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    name: Optional[str] = None,
    process_set: ProcessSet = global_process_set,
    ignore_name_scope: bool = False,
) -> Any:
    """`op` may also be Adasum. tf.IndexedSlices, with Sum or Average, become those of all ranks one after the other; integers
    that a factor or an average truncates are added up before, so that each index comes once.
    `compression` says in which form the tensor travels."""
    del device_dense, device_sparse, ignore_name_scope
    op = choose(op, average)
    if type(tensor) is _EagerTensor:
        if compression is Compression.none and tf.executing_eagerly():
            return allreduce_now(tensor, name, op, prescale_factor, postscale_factor, process_set)
    elif isinstance(tensor, tf.IndexedSlices):
        return _allreduce_slices(tensor, name, op, prescale_factor, postscale_factor, process_set)
    sent, context = compression.compress(_dense(tensor))
    reduced = _reduce([sent], name, op, prescale_factor, postscale_factor, process_set)[0]
    return compression.decompress(reduced, context)


def _added_up(slices: tf.IndexedSlices) -> tf.IndexedSlices:
    """With one row for each index."""
    indices, places = tf.unique(slices.indices)
    return tf.IndexedSlices(
        tf.math.unsorted_segment_sum(slices.values, places, tf.size(indices)), indices, slices.dense_shape
    )


def _scaled(slices: tf.IndexedSlices, factor: float) -> tf.IndexedSlices:
    """Times the factor. Integers are truncated as those of dense tensors are: after rows of one index are added up."""
    if factor == 1.0:
        return slices
    values = slices.values
    if values.dtype.is_integer:
        slices = _added_up(slices)
        values = tf.cast(tf.cast(slices.values, tf.float64) * factor, values.dtype)
    else:
        values = values * tf.cast(factor, values.dtype)
    return tf.IndexedSlices(values, slices.indices, slices.dense_shape)


def _divided(slices: tf.IndexedSlices, size: Any) -> tf.IndexedSlices:
    if slices.values.dtype.is_integer:
        slices = _added_up(slices)
        values = tf.truncatediv(slices.values, tf.cast(size, slices.values.dtype))
    else:
        values = slices.values / tf.cast(size, slices.values.dtype)
    return tf.IndexedSlices(values, slices.indices, slices.dense_shape)


def _allreduce_slices(
    slices: tf.IndexedSlices,
    name: Optional[str],
    op: int,
    prescale: float,
    postscale: float,
    process_set: ProcessSet,
) -> tf.IndexedSlices:
    if op not in (Average, Sum):
        raise NotImplementedError("tf.IndexedSlices are reduced by Average or Sum only")
    _ops.check_factors(prescale, postscale)
    if not (math.isfinite(prescale) and math.isfinite(postscale)):
        raise ValueError(f"scale factors must be finite, not {prescale} and {postscale}")
    is_bool = slices.values.dtype == tf.bool
    if op == Average and is_bool:
        raise ValueError("there is no average of bool; reduce with sum")
    if not slices.values.dtype.is_integer:
        prescale, postscale = 1.0 if is_bool else prescale * postscale, 1.0
    slices = _scaled(slices, prescale)
    own = [f"{name}.values", f"{name}.indices"] if name else [None, None]
    values = allgather(slices.values, own[0], process_set=process_set)
    indices = allgather(slices.indices, own[1], process_set=process_set)
    slices = tf.IndexedSlices(values, indices, slices.dense_shape)
    if op == Average:
        slices = _divided(slices, _set_size(process_set))
    return _scaled(slices, postscale)


def _set_size(process_set: ProcessSet) -> Any:
    return process_set.size() if tf.executing_eagerly() else size_op(group_of(process_set))


@described_by(Operations.grouped_allreduce)
def grouped_allreduce(
    tensors: Sequence[Any],
    average: Optional[bool] = None,
    device_dense: str = "",
    device_sparse: str = "",
    compression: Type = Compression.none,
    op: Optional[int] = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
    ignore_name_scope: bool = False,
    name: Optional[str] = None,
) -> List[Any]:
    """tf.IndexedSlices among them travel by themselves."""
    tensors, op = _ops.listed(tensors), choose(op, average)
    outputs: List[Any] = list(tensors)
    dense = [index for index, tensor in enumerate(tensors) if not isinstance(tensor, tf.IndexedSlices)]
    for index, tensor in enumerate(tensors):
        if isinstance(tensor, tf.IndexedSlices):
            own_name = f"{name}.slices{index}" if name else None
            outputs[index] = _allreduce_slices(tensor, own_name, op, prescale_factor, postscale_factor, process_set)
    compressed = [compression.compress(_dense(tensors[index])) for index in dense]
    sent = [tensor for tensor, _ in compressed]
    reduced = _reduce(sent, name, op, prescale_factor, postscale_factor, process_set)
    for index, output, (_, context) in zip(dense, reduced, compressed):
        outputs[index] = compression.decompress(output, context)
    return outputs


def _gathered_shape(output: tf.Tensor, tensor: tf.Tensor) -> None:
    if not tf.executing_eagerly() and tensor.shape.rank is not None:
        output.set_shape([None, *tensor.shape[1:]])


@described_by(Operations.grouped_allgather)
def grouped_allgather(
    tensors: Sequence[Any],
    name: Optional[str] = None,
    ignore_name_scope: bool = False,
    process_set: ProcessSet = global_process_set,
) -> List[tf.Tensor]:
    del ignore_name_scope
    tensors = [_dense(tensor) for tensor in _ops.listed(tensors)]
    outputs: List[Any] = [None] * len(tensors)
    for part, own_name in _named(_by_dtype(tensors), name):
        gathered, _ = ops.farandole_allgather(
            [tensors[index] for index in part],
            process_set_id=group_of(process_set),
            **_attributes("allgather", own_name),
        )
        for index, output in zip(part, gathered):
            _gathered_shape(output, tensors[index])
            outputs[index] = output
    return outputs


@described_by(Operations.allgather)
def allgather(
    tensor: Any,
    name: Optional[str] = None,
    ignore_name_scope: bool = False,
    process_set: ProcessSet = global_process_set,
) -> tf.Tensor:
    return grouped_allgather([tensor], name, ignore_name_scope, process_set)[0]


@described_by(Operations.broadcast)
def broadcast(
    tensor: Any,
    root_rank: int,
    name: Optional[str] = None,
    ignore_name_scope: bool = False,
    process_set: ProcessSet = global_process_set,
) -> tf.Tensor:
    del ignore_name_scope
    return broadcast_all([_dense(tensor)], root_rank, name, process_set)[0]


def broadcast_all(
    tensors: Sequence[tf.Tensor], root_rank: int, name: Optional[str], process_set: ProcessSet
) -> List[tf.Tensor]:
    """As broadcast for several tensors, which travel at the same time."""
    outputs: List[Any] = [None] * len(tensors)
    for part, own_name in _named(_by_dtype(tensors), name):
        received = ops.farandole_broadcast(
            [tensors[index] for index in part],
            root_rank=_ops.root_for(root_rank),
            process_set_id=group_of(process_set),
            **_attributes("broadcast", own_name),
        )
        for index, output in zip(part, received):
            outputs[index] = output
    return outputs


@described_by(Operations.alltoall)
def alltoall(
    tensor: Any,
    splits: Any = None,
    name: Optional[str] = None,
    ignore_name_scope: bool = False,
    process_set: ProcessSet = global_process_set,
) -> Any:
    del ignore_name_scope
    tensor = _dense(tensor)
    given = tf.zeros([0], tf.int64) if splits is None else _dense(splits)
    received, rows = ops.farandole_alltoall(
        tensor, tf.cast(given, tf.int64), process_set_id=group_of(process_set), **_attributes("alltoall", name)
    )
    _gathered_shape(received, tensor)
    return received if splits is None else (received, tf.cast(tf.reshape(rows, [-1]), given.dtype))


def _rooted(op: Any, tensor: Any, root_rank: int, name: Optional[str], process_set: ProcessSet, kind: str) -> tf.Tensor:
    """The rows that this rank gets by a gather or scatter."""
    tensor = _dense(tensor)
    rows, _ = op(
        tensor,
        root_rank=_ops.root_for(root_rank),
        process_set_id=group_of(process_set),
        **_attributes(kind, name),
    )
    _gathered_shape(rows, tensor)
    return rows


@described_by(Operations.gather)
def gather(
    tensor: Any,
    root_rank: int,
    name: Optional[str] = None,
    ignore_name_scope: bool = False,
    process_set: ProcessSet = global_process_set,
) -> tf.Tensor:
    del ignore_name_scope
    return _rooted(ops.farandole_gather, tensor, root_rank, name, process_set, "gather")


@described_by(Operations.scatter)
def scatter(
    tensor: Any,
    root_rank: int,
    name: Optional[str] = None,
    ignore_name_scope: bool = False,
    process_set: ProcessSet = global_process_set,
) -> tf.Tensor:
    del ignore_name_scope
    return _rooted(ops.farandole_scatter, tensor, root_rank, name, process_set, "scatter")


@described_by(Operations.grouped_reducescatter)
def grouped_reducescatter(
    tensors: Sequence[Any],
    device_dense: str = "",
    compression: Type = Compression.none,
    op: int = Average,
    process_set: ProcessSet = global_process_set,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    ignore_name_scope: bool = False,
    name: Optional[str] = None,
) -> List[tf.Tensor]:
    del device_dense, ignore_name_scope
    _ops.check_factors(prescale_factor, postscale_factor)
    compressed = [compression.compress(_dense(tensor)) for tensor in _ops.listed(tensors)]
    outputs: List[Any] = [None] * len(compressed)
    for part, own_name in _named(_by_dtype([tensor for tensor, _ in compressed]), name):
        reduced = ops.farandole_reducescatter(
            [compressed[index][0] for index in part],
            reduce_op=choose(op, None),
            prescale_bits=bits(prescale_factor),
            postscale_bits=bits(postscale_factor),
            process_set_id=group_of(process_set),
            **_attributes("reducescatter", own_name),
        )
        for index, output in zip(part, reduced):
            _gathered_shape(output, compressed[index][0])
            outputs[index] = compression.decompress(output, compressed[index][1])
    return outputs


@described_by(Operations.reducescatter)
def reducescatter(
    tensor: Any,
    device_dense: str = "",
    compression: Type = Compression.none,
    op: int = Average,
    name: Optional[str] = None,
    process_set: ProcessSet = global_process_set,
    ignore_name_scope: bool = False,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> tf.Tensor:
    return grouped_reducescatter(
        [tensor], device_dense, compression, op, process_set, prescale_factor, postscale_factor, ignore_name_scope, name
    )[0]


@described_by(_operations.join)
def join() -> Any:
    """In a graph it returns a tensor."""
    if not tf.executing_eagerly():
        return ops.farandole_join(waits=0)
    last = int(ops.farandole_join(waits=1))
    _epochs.all_have_joined()
    return last


@described_by(_operations.barrier)
def barrier(process_set: ProcessSet = global_process_set) -> Any:
    return ops.farandole_barrier(process_set_id=group_of(process_set), **_attributes("barrier", None))


_NUMBERS = (
    "rank",
    "size",
    "local_rank",
    "local_size",
    "cross_rank",
    "cross_size",
    "set_size",
    "set_includes",
    "set_rank",
    "epoch",
)


def _number(which: str, group: int, name: Optional[str]) -> tf.Tensor:
    return ops.farandole_number(which=_NUMBERS.index(which), process_set_id=group, name=name)


def rank_op(name: Optional[str] = None) -> tf.Tensor:
    """rank(), read when the graph runs: in an elastic job it may be another one each time."""
    return _number("rank", 0, name)


def size_op(process_set_id: int = 0, name: Optional[str] = None) -> tf.Tensor:
    """The number of ranks of a process set, read when the graph runs."""
    return _number("set_size", process_set_id, name)


def set_rank_op(process_set_id: int) -> tf.Tensor:
    """For gradients.py: this rank's position in a process set, read when the graph runs."""
    return _number("set_rank", process_set_id, None)


def epoch_op() -> tf.Tensor:
    """For aggregation.py: the number of the epoch, read when the graph runs."""
    return _number("epoch", 0, None)


def local_rank_op(name: Optional[str] = None) -> tf.Tensor:
    """local_rank(), read when the graph runs."""
    return _number("local_rank", 0, name)


def local_size_op(name: Optional[str] = None) -> tf.Tensor:
    """local_size(), read when the graph runs."""
    return _number("local_size", 0, name)


def process_set_included_op(process_set_id: int = 0, name: Optional[str] = None) -> tf.Tensor:
    """1 if this rank is in the process set, else 0, read when the graph runs."""
    return _number("set_includes", process_set_id, name)


def reduce_with(op: Any, gradients: Sequence[Any]) -> Tuple[List[tf.Tensor], int]:
    """For gradients.py: the gradients of an allreduce, reduced as the op itself has done."""
    reduced = ops.farandole_allreduce(
        list(gradients),
        reduce_op=op.get_attr("reduce_op"),
        prescale_bits=attribute(op, "prescale_bits"),
        postscale_bits=attribute(op, "postscale_bits"),
        process_set_id=attribute(op, "process_set_id"),
        **_attributes("allreduce", gradient_name(op)),
    )
    return reduced, op.get_attr("reduce_op")


def gradient_name(op: Any) -> Optional[str]:
    """The name of an op's gradient; of an op without one there is none."""
    name = attribute(op, "tensor_name").decode()
    return f"{name}.gradient" if name else None


def mean_of(op: Any, gradients: Sequence[Any]) -> List[tf.Tensor]:
    """For gradients.py: their averages over the ranks of the op's process set."""
    return ops.farandole_allreduce(
        list(gradients),
        reduce_op=Average,
        prescale_bits=bits(1.0),
        postscale_bits=bits(1.0),
        process_set_id=attribute(op, "process_set_id"),
        **_attributes("allreduce", gradient_name(op)),
    )


def run_attributes(kind: str, op: Any) -> Dict[str, Any]:
    """For gradients.py: the attributes of the op that is an op's gradient."""
    return {"process_set_id": attribute(op, "process_set_id"), **_attributes(kind, gradient_name(op))}
