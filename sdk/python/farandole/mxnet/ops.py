"""The operations on arrays. Each returns at once, with arrays that MXNet's engine fills in as any others: whatever reads
them waits for them.

The contracts are those of `farandole._operations`. All ranks of the process set call an operation with the same name,
element type and, unless it says otherwise, shape; calls without a name are paired in their order. Where ranks disagree,
waiting for a result raises a ValueError on each, which names two of them and both values, and the job goes on; EpochEnded
there: a worker has died or left. The call itself raises errors that can be seen at once.

`priority`: the engine begins operations of higher priority first.
"""

from typing import Any, List, Optional, Sequence

import mxnet as mx
import numpy

from .. import _operations, _ops
from .. import numpy as _numbers
from .._operations import Operations, described_by
from ..process_sets import ProcessSet, global_process_set
from ..reduce_ops import Average, choose
from ._engine import Terms, name_of, push
from .arrays import accept, apart, delivered, empty, on_host, with_rows, written_back


def _reduction(priority: int, op: int, prescale: float, postscale: float, process_set: ProcessSet) -> Terms:
    _ops.check_factors(prescale, postscale)
    return Terms(priority, op, float(prescale), float(postscale), 0, process_set)


def _like(tensors: Sequence[mx.nd.NDArray]) -> List[mx.nd.NDArray]:
    return [empty(tensor, tensor.shape) for tensor in tensors]


def _reduce(tensors: Any, in_place: bool, name: Optional[str], terms: Terms) -> List[mx.nd.NDArray]:
    tensors = [accept(tensor) for tensor in _ops.listed(tensors)]
    own = name_of("allreduce", name, terms.process_set)
    sources = [on_host(tensor) for tensor in tensors]
    outputs = sources if in_place else _like(sources)
    push("allreduce", own, sources, outputs, terms)
    if in_place:
        return written_back(tensors, outputs)
    return [delivered(tensor, output) for tensor, output in zip(tensors, outputs)]


@described_by(Operations.allreduce)
def allreduce(
    tensor: mx.nd.NDArray,
    average: Optional[bool] = None,
    name: Optional[str] = None,
    priority: int = 0,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
    op: Optional[int] = None,
) -> mx.nd.NDArray:
    """`op` may also be Adasum."""
    terms = _reduction(priority, choose(op, average), prescale_factor, postscale_factor, process_set)
    return _reduce([tensor], False, name, terms)[0]


@described_by(Operations.allreduce_)
def allreduce_(
    tensor: mx.nd.NDArray,
    average: Optional[bool] = None,
    name: Optional[str] = None,
    priority: int = 0,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
    op: Optional[int] = None,
) -> mx.nd.NDArray:
    terms = _reduction(priority, choose(op, average), prescale_factor, postscale_factor, process_set)
    return _reduce([tensor], True, name, terms)[0]


@described_by(Operations.grouped_allreduce)
def grouped_allreduce(
    tensors: Sequence[mx.nd.NDArray],
    average: Optional[bool] = None,
    name: Optional[str] = None,
    priority: int = 0,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
    op: Optional[int] = None,
) -> List[mx.nd.NDArray]:
    terms = _reduction(priority, choose(op, average), prescale_factor, postscale_factor, process_set)
    return _reduce(tensors, False, name, terms)


def grouped_allreduce_(
    tensors: Sequence[mx.nd.NDArray],
    average: Optional[bool] = None,
    name: Optional[str] = None,
    priority: int = 0,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
    op: Optional[int] = None,
) -> List[mx.nd.NDArray]:
    """As grouped_allreduce, in place; returns `tensors`. Memory that several of them share is reduced once."""
    terms = _reduction(priority, choose(op, average), prescale_factor, postscale_factor, process_set)
    given = [accept(tensor) for tensor in _ops.listed(tensors)]
    return written_back(given, _reduce(apart(given), True, name, terms))


def reduce_gradients(
    gradients: Sequence[mx.nd.NDArray], name: str, priority: int, op: int, prescale: float, process_set: ProcessSet
) -> None:
    """As grouped_allreduce_ of arrays that share no memory: to see that they do not would take twice as long."""
    _reduce(gradients, True, name, _reduction(priority, op, prescale, 1.0, process_set))


# The shape of a result must be known when the engine gets the operation. So the ranks first tell each other their numbers
# of rows: this waits for their calls, but for none of their arrays.


def _rows_of_all(rows: Sequence[int], name: str, process_set: ProcessSet) -> List[int]:
    """The sums over the ranks of the set of each number."""
    gathered = _numbers.allgather(numpy.array([rows], numpy.int64), f"{name}.rows", process_set)
    return [int(each) for each in gathered.sum(0)]


@described_by(Operations.grouped_allgather)
def grouped_allgather(
    tensors: Sequence[mx.nd.NDArray],
    name: Optional[str] = None,
    priority: int = 0,
    process_set: ProcessSet = global_process_set,
) -> List[mx.nd.NDArray]:
    """It waits until all ranks of the set have called it, but not for their arrays."""
    tensors = [accept(tensor) for tensor in _ops.listed(tensors)]
    own = name_of("allgather", name, process_set)
    totals = _rows_of_all([with_rows(tensor)[0] for tensor in tensors], own, process_set)
    sources = [on_host(tensor) for tensor in tensors]
    outputs = [empty(source, (rows, *with_rows(source)[1:])) for source, rows in zip(sources, totals)]
    push("allgather", own, sources, outputs, Terms(priority, process_set=process_set))
    return [delivered(tensor, output) for tensor, output in zip(tensors, outputs)]


@described_by(Operations.allgather)
def allgather(
    tensor: mx.nd.NDArray,
    name: Optional[str] = None,
    priority: int = 0,
    process_set: ProcessSet = global_process_set,
) -> mx.nd.NDArray:
    """It waits until all ranks of the set have called it, but not for their arrays."""
    return grouped_allgather([tensor], name, priority, process_set)[0]


def _share(total: int, process_set: ProcessSet) -> int:
    """This rank's part of so many rows."""
    size, position = process_set.size(), process_set.rank()
    return total // size + (1 if position < total % size else 0)


def _require_rows(operation: str, tensors: Sequence[mx.nd.NDArray]) -> None:
    if any(len(tensor.shape) == 0 for tensor in tensors):
        raise ValueError(f"{operation} needs an array with rows, not a scalar")


@described_by(Operations.grouped_reducescatter)
def grouped_reducescatter(
    tensors: Sequence[mx.nd.NDArray],
    op: int = Average,
    name: Optional[str] = None,
    priority: int = 0,
    process_set: ProcessSet = global_process_set,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> List[mx.nd.NDArray]:
    tensors = [accept(tensor) for tensor in _ops.listed(tensors)]
    _require_rows("reducescatter", tensors)
    terms = _reduction(priority, choose(op, None), prescale_factor, postscale_factor, process_set)
    own = name_of("reducescatter", name, process_set)
    sources = [on_host(tensor) for tensor in tensors]
    outputs = [empty(source, (_share(source.shape[0], process_set), *source.shape[1:])) for source in sources]
    push("reducescatter", own, sources, outputs, terms)
    return [delivered(tensor, output) for tensor, output in zip(tensors, outputs)]


@described_by(Operations.reducescatter)
def reducescatter(
    tensor: mx.nd.NDArray,
    op: int = Average,
    name: Optional[str] = None,
    priority: int = 0,
    process_set: ProcessSet = global_process_set,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> mx.nd.NDArray:
    factors = (prescale_factor, postscale_factor)
    return grouped_reducescatter([tensor], op, name, priority, process_set, *factors)[0]


def _broadcast(
    tensor: mx.nd.NDArray, in_place: bool, root_rank: int, name: Optional[str], priority: int, process_set: ProcessSet
) -> mx.nd.NDArray:
    tensor = accept(tensor)
    terms = Terms(priority, root=_ops.root_for(root_rank), process_set=process_set)
    own = name_of("broadcast", name, process_set)
    source = on_host(tensor)
    output = source if in_place else empty(source, source.shape)
    push("broadcast", own, [source], [output], terms)
    return written_back([tensor], [output])[0] if in_place else delivered(tensor, output)


@described_by(Operations.broadcast)
def broadcast(
    tensor: mx.nd.NDArray,
    root_rank: int,
    name: Optional[str] = None,
    priority: int = 0,
    process_set: ProcessSet = global_process_set,
) -> mx.nd.NDArray:
    return _broadcast(tensor, False, root_rank, name, priority, process_set)


@described_by(Operations.broadcast_)
def broadcast_(
    tensor: mx.nd.NDArray,
    root_rank: int,
    name: Optional[str] = None,
    priority: int = 0,
    process_set: ProcessSet = global_process_set,
) -> mx.nd.NDArray:
    return _broadcast(tensor, True, root_rank, name, priority, process_set)


def _whole_numbers(splits: Any, rows: int, size: int) -> List[int]:
    """An alltoall's splits. ValueError: they are none for so many rows and ranks."""
    if splits is None:
        if rows % size:
            raise ValueError(f"alltoall without splits: {rows} rows are not a multiple of {size} ranks")
        return [rows // size] * size
    given = splits.asnumpy() if isinstance(splits, mx.nd.NDArray) else numpy.asarray(splits)
    # An array of MXNet's has floats unless it was told otherwise.
    numbers = given.astype(numpy.int64) if given.dtype.kind in "iuf" else given
    if given.ndim != 1 or given.dtype.kind not in "iuf" or (numbers != given).any():
        raise ValueError(f"splits are a list of whole numbers, one for each rank, not {splits!r}")
    if len(numbers) != size or (numbers < 0).any() or numbers.sum() > rows:
        raise ValueError(f"alltoall: splits {numbers.tolist()} do not divide {rows} rows among {size} ranks")
    return [int(number) for number in numbers]


@described_by(Operations.alltoall)
def alltoall(
    tensor: mx.nd.NDArray,
    splits: Any = None,
    name: Optional[str] = None,
    priority: int = 0,
    process_set: ProcessSet = global_process_set,
) -> Any:
    """It waits until all ranks of the set have called it, but not for their arrays."""
    tensor = accept(tensor)
    _require_rows("alltoall", [tensor])
    own = name_of("alltoall", name, process_set)
    size = process_set.size()
    given = _whole_numbers(splits, tensor.shape[0], size)
    counts, ranks = _numbers.alltoall(numpy.array(given, numpy.int64), [1] * size, f"{own}.rows", process_set)
    source = on_host(tensor)
    output = empty(source, (int(counts.sum()), *source.shape[1:]))
    push("alltoall", own, [source], [output], Terms(priority, process_set=process_set), given)
    if splits is None:
        return delivered(tensor, output)
    # A rank that has joined gives none.
    received = numpy.zeros(size, numpy.int32)
    received[ranks > 0] = counts
    like = mx.np.array if isinstance(tensor, mx.np.ndarray) else mx.nd.array
    return delivered(tensor, output), like(received, dtype="int32", ctx=tensor.context)


@described_by(Operations.gather)
def gather(
    tensor: mx.nd.NDArray,
    root_rank: int,
    name: Optional[str] = None,
    priority: int = 0,
    process_set: ProcessSet = global_process_set,
) -> mx.nd.NDArray:
    """It waits until all ranks of the set have called it, but not for their arrays."""
    tensor = accept(tensor)
    terms = Terms(priority, root=_ops.root_for(root_rank), process_set=process_set)
    own = name_of("gather", name, process_set)
    shape = with_rows(tensor)
    (total,) = _rows_of_all([shape[0]], own, process_set)
    source = on_host(tensor)
    is_root = process_set.ranks[process_set.rank()] == terms.root
    output = empty(source, (total if is_root else 0, *shape[1:]))
    push("gather", own, [source], [output], terms)
    return delivered(tensor, output)


@described_by(Operations.scatter)
def scatter(
    tensor: mx.nd.NDArray,
    root_rank: int,
    name: Optional[str] = None,
    priority: int = 0,
    process_set: ProcessSet = global_process_set,
) -> mx.nd.NDArray:
    """It waits until the root has called it, but not for its array."""
    tensor = accept(tensor)
    _require_rows("scatter", [tensor])
    terms = Terms(priority, root=_ops.root_for(root_rank), process_set=process_set)
    own = name_of("scatter", name, process_set)
    rows = numpy.array(tensor.shape[:1], numpy.int64)
    (total,) = _numbers.broadcast(rows, terms.root, f"{own}.rows", process_set)
    source = on_host(tensor)
    output = empty(source, (_share(int(total), process_set), *source.shape[1:]))
    push("scatter", own, [source], [output], terms)
    return delivered(tensor, output)


@described_by(_operations.barrier)
def barrier(process_set: ProcessSet = global_process_set) -> None:
    """Operations in MXNet's engine go on meanwhile; to wait for them, use mxnet.nd.waitall()."""
    _operations.barrier(process_set)


@described_by(_operations.join)
def join() -> int:
    """It first waits for what MXNet's engine still has to do."""
    mx.nd.waitall()
    return _operations.join()
