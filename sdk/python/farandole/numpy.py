"""Farandole for NumPy arrays: the operations, and everything of `farandole`.

Arrays are of uint8, int8, uint16, int16, int32, int64, float16, float32, float64, bool, or ml_dtypes' bfloat16,
float8_e4m3fn and float8_e5m2, of any shape and strides. All ranks of the process set call an operation with the same name, element type and, unless it
says otherwise, shape; without a name, calls are paired in their order. Where ranks disagree, each gets a ValueError
that names two of them and both values, and the job goes on. EpochEnded: a worker has died or left.
"""

from typing import Any, List, Optional, Sequence, Tuple

import numpy

import farandole as _farandole

# The names of the package are names of each of its views.
from . import *  # noqa: F401,F403
from . import __version__ as __version__
from . import _arena, _ops, elastic
from ._handles import Handle, at_once
from ._library import lib
from .objects import allgather_object, broadcast_object
from .process_sets import ProcessSet, global_process_set
from .reduce_ops import Average, choose

# With it come the names of the package.
__all__ = [
    "allgather",
    "allgather_async",
    "allgather_object",
    "allreduce",
    "allreduce_",
    "allreduce_async",
    "allreduce_async_",
    "alltoall",
    "alltoall_async",
    "arena",
    "barrier",
    "broadcast",
    "broadcast_",
    "broadcast_async",
    "broadcast_async_",
    "broadcast_object",
    "elastic",
    "grouped_allgather",
    "grouped_allgather_async",
    "grouped_allreduce",
    "grouped_allreduce_async",
    "grouped_reducescatter",
    "grouped_reducescatter_async",
    "join",
    "reducescatter",
    "reducescatter_async",
]
__all__ += _farandole.__all__

_DTYPES = {
    numpy.dtype(numpy.uint8): lib.FARANDOLE_U8,
    numpy.dtype(numpy.int8): lib.FARANDOLE_I8,
    numpy.dtype(numpy.uint16): lib.FARANDOLE_U16,
    numpy.dtype(numpy.int16): lib.FARANDOLE_I16,
    numpy.dtype(numpy.int32): lib.FARANDOLE_I32,
    numpy.dtype(numpy.int64): lib.FARANDOLE_I64,
    numpy.dtype(numpy.float16): lib.FARANDOLE_F16,
    numpy.dtype(numpy.float32): lib.FARANDOLE_F32,
    numpy.dtype(numpy.float64): lib.FARANDOLE_F64,
    numpy.dtype(numpy.bool_): lib.FARANDOLE_BOOL,
}
# Of ml_dtypes, which need not be there.
_NAMED_DTYPES = {
    "bfloat16": lib.FARANDOLE_BF16,
    "float8_e4m3fn": lib.FARANDOLE_F8E4M3,
    "float8_e5m2": lib.FARANDOLE_F8E5M2,
}


class _NumpyAdapter:
    """The view of a numpy.ndarray."""

    def describe(self, array: numpy.ndarray) -> Tuple[int, Tuple[int, ...], int]:
        dtype = _DTYPES.get(array.dtype)
        if dtype is None:
            dtype = _NAMED_DTYPES.get(array.dtype.name)
            if not array.dtype.isnative:
                raise ValueError(
                    f"an array of {array.dtype.str} has another machine's order of bytes: "
                    "use array.astype(array.dtype.newbyteorder('='))"
                )
            if dtype is None:
                raise ValueError(f"an array of {array.dtype} cannot be sent: farandole has no such element type")
        return array.__array_interface__["data"][0], array.shape, dtype

    def contiguous(self, array: numpy.ndarray, reduction: Optional[_ops.Reduction] = None) -> numpy.ndarray:
        del reduction
        return array if array.flags.c_contiguous and array.flags.aligned else numpy.array(array, order="C")

    def empty(self, like: numpy.ndarray, shape: Sequence[int]) -> numpy.ndarray:
        return numpy.empty(shape, like.dtype)

    def place(self, source: numpy.ndarray) -> None:
        return None

    def deliver(self, array: numpy.ndarray, output: numpy.ndarray) -> numpy.ndarray:
        return output

    def assign(self, target: numpy.ndarray, source: numpy.ndarray) -> None:
        target[...] = source


_adapter = _NumpyAdapter()


def _array(array: Any) -> numpy.ndarray:
    if isinstance(array, numpy.ma.MaskedArray):
        raise ValueError("the array is masked: farandole does not send masks; give array.filled(value), or its .data")
    return numpy.asarray(array)


def _writable(array: Any) -> numpy.ndarray:
    if not isinstance(array, numpy.ndarray):
        raise ValueError(f"an operation in place needs a numpy.ndarray, not a {type(array).__name__}")
    if not array.flags.writeable:
        raise ValueError("an operation in place needs an array that can be written; this one is read-only")
    return _array(array)


def allreduce_async(
    array: Any,
    average: Optional[bool] = None,
    name: Optional[str] = None,
    op: Optional[int] = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> Handle:
    """As allreduce, but returns at once; give the handle to synchronize() for the output. `array` must not change
    until then."""
    return _ops.allreduce(
        _adapter, _array(array), False, name, choose(op, average), prescale_factor, postscale_factor, process_set
    )


def allreduce_async_(
    array: numpy.ndarray,
    average: Optional[bool] = None,
    name: Optional[str] = None,
    op: Optional[int] = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> Handle:
    """As allreduce_, but returns at once."""
    return _ops.allreduce(
        _adapter, _writable(array), True, name, choose(op, average), prescale_factor, postscale_factor, process_set
    )


def allreduce(
    array: Any,
    average: Optional[bool] = None,
    name: Optional[str] = None,
    op: Optional[int] = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> numpy.ndarray:
    """Returns postscale_factor * op over ranks (prescale_factor * array), of the shape and element type of `array`.

    `op` is Average (default; of integers it truncates towards zero), Sum, Min, Max or Product; of bool Sum and Max are
    "or", Product and Min "and". Added in the order of ranks, so that all ranks get the same bits. `average` is
    Horovod's older form of `op`.
    """
    return at_once(allreduce_async, array, average, name, op, prescale_factor, postscale_factor, process_set)


def allreduce_(
    array: numpy.ndarray,
    average: Optional[bool] = None,
    name: Optional[str] = None,
    op: Optional[int] = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> numpy.ndarray:
    """As allreduce, in place; returns `array`."""
    return at_once(allreduce_async_, array, average, name, op, prescale_factor, postscale_factor, process_set)


def grouped_allreduce_async(
    arrays: Sequence[Any],
    average: Optional[bool] = None,
    name: Optional[str] = None,
    op: Optional[int] = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> Handle:
    """As grouped_allreduce, but returns at once."""
    return _ops.grouped_allreduce(
        _adapter,
        [_array(array) for array in _ops.listed(arrays)],
        False,
        name,
        choose(op, average),
        prescale_factor,
        postscale_factor,
        process_set,
    )


def grouped_allreduce(
    arrays: Sequence[Any],
    average: Optional[bool] = None,
    name: Optional[str] = None,
    op: Optional[int] = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> List[numpy.ndarray]:
    """As allreduce for several arrays, which may differ in shape and element type; those of one element type are
    reduced as one."""
    return at_once(grouped_allreduce_async, arrays, average, name, op, prescale_factor, postscale_factor, process_set)


def allgather_async(array: Any, name: Optional[str] = None, process_set: ProcessSet = global_process_set) -> Handle:
    """As allgather, but returns at once. `array` must not change until synchronize()."""
    return _ops.allgather(_adapter, _array(array), name, process_set, with_rows=False)


def allgather(array: Any, name: Optional[str] = None, process_set: ProcessSet = global_process_set) -> numpy.ndarray:
    """Returns the ranks' arrays, concatenated along the first dimension, in which they may differ (0 too). A scalar
    counts as [1]."""
    return at_once(allgather_async, array, name, process_set)


def grouped_allgather_async(
    arrays: Sequence[Any], name: Optional[str] = None, process_set: ProcessSet = global_process_set
) -> Handle:
    """As grouped_allgather, but returns at once."""
    return _ops.grouped_allgather(_adapter, [_array(array) for array in _ops.listed(arrays)], name, process_set)


def grouped_allgather(
    arrays: Sequence[Any], name: Optional[str] = None, process_set: ProcessSet = global_process_set
) -> List[numpy.ndarray]:
    """As allgather for several arrays, which may differ in shape and element type."""
    return at_once(grouped_allgather_async, arrays, name, process_set)


def reducescatter_async(
    array: Any,
    name: Optional[str] = None,
    op: int = Average,
    process_set: ProcessSet = global_process_set,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> Handle:
    """As reducescatter, but returns at once. `array` must not change until synchronize()."""
    arrays = [_array(array)]
    factors = (prescale_factor, postscale_factor)
    return _ops.reducescatter(_adapter, arrays, name, choose(op, None), *factors, process_set, is_grouped=False)


def reducescatter(
    array: Any,
    name: Optional[str] = None,
    op: int = Average,
    process_set: ProcessSet = global_process_set,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> numpy.ndarray:
    """As allreduce, but returns only this rank's part of the rows (first dimension): rows // size of them, in the
    order of the set's ranks, and one more on the first rows % size. ValueError: `array` is a scalar."""
    return at_once(reducescatter_async, array, name, op, process_set, prescale_factor, postscale_factor)


def grouped_reducescatter_async(
    arrays: Sequence[Any],
    name: Optional[str] = None,
    op: int = Average,
    process_set: ProcessSet = global_process_set,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> Handle:
    """As grouped_reducescatter, but returns at once."""
    sources = [_array(array) for array in _ops.listed(arrays)]
    factors = (prescale_factor, postscale_factor)
    return _ops.reducescatter(_adapter, sources, name, choose(op, None), *factors, process_set, is_grouped=True)


def grouped_reducescatter(
    arrays: Sequence[Any],
    name: Optional[str] = None,
    op: int = Average,
    process_set: ProcessSet = global_process_set,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> List[numpy.ndarray]:
    """As reducescatter for several arrays, which may differ in shape and element type."""
    return at_once(grouped_reducescatter_async, arrays, name, op, process_set, prescale_factor, postscale_factor)


def _whole_numbers(splits: Optional[Sequence[int]]) -> Optional[List[int]]:
    if splits is None:
        return None
    numbers = numpy.asarray(splits)
    if numbers.ndim != 1 or (numbers.size and numbers.dtype.kind not in "iu"):
        raise ValueError(f"splits are a list of whole numbers, one for each rank, not {splits!r}")
    return numbers.tolist()


def alltoall_async(
    array: Any,
    splits: Optional[Sequence[int]] = None,
    name: Optional[str] = None,
    process_set: ProcessSet = global_process_set,
) -> Handle:
    """As alltoall, but returns at once; the handle's output is the pair, also without `splits`."""
    numbers = _whole_numbers(splits)
    return _ops.alltoall(
        _adapter, _array(array), numbers, name, process_set, lambda rows: numpy.array(rows, numpy.int32)
    )


def alltoall(
    array: Any,
    splits: Optional[Sequence[int]] = None,
    name: Optional[str] = None,
    process_set: ProcessSet = global_process_set,
) -> Any:
    """Gives the first splits[0] rows of `array` to the set's rank 0, the next splits[1] to rank 1, ..., and returns
    what this rank gets, in the order of the ranks that it comes from, and the array of int32 of how many rows each has
    given.

    Without `splits` all get equally many, and only the rows are returned. The ranks' arrays may differ in the first
    dimension. ValueError: `array` is a scalar; there is not a split for each rank; they take more rows than there are;
    without them, the number of rows is not a multiple of the number of ranks.
    """
    output = at_once(alltoall_async, array, splits, name, process_set)
    return output if splits is not None else output[0]


def broadcast_async(
    array: Any, root_rank: int, name: Optional[str] = None, process_set: ProcessSet = global_process_set
) -> Handle:
    """As broadcast, but returns at once."""
    return _ops.broadcast(_adapter, _array(array), False, root_rank, name, process_set)


def broadcast_async_(
    array: numpy.ndarray, root_rank: int, name: Optional[str] = None, process_set: ProcessSet = global_process_set
) -> Handle:
    """As broadcast_, but returns at once."""
    return _ops.broadcast(_adapter, _writable(array), True, root_rank, name, process_set)


def broadcast(
    array: Any, root_rank: int, name: Optional[str] = None, process_set: ProcessSet = global_process_set
) -> numpy.ndarray:
    """Returns the array of `root_rank`, a rank of the job that is in the process set; others give one of its shape and
    element type."""
    return at_once(broadcast_async, array, root_rank, name, process_set)


def broadcast_(
    array: numpy.ndarray, root_rank: int, name: Optional[str] = None, process_set: ProcessSet = global_process_set
) -> numpy.ndarray:
    """As broadcast, in place; returns `array`."""
    return at_once(broadcast_async_, array, root_rank, name, process_set)


def arena(shape: Sequence[int], dtype: Any, name: str, process_set: ProcessSet = global_process_set) -> numpy.ndarray:
    """Returns an array of zeros that the ranks of the set, which are on one host, reduce in place: allreduce_ of it,
    or of equal parts of it on all ranks, copies nothing, and is several times as fast as that of other arrays.

    Collective: all ranks of the set call it with the same name, shape and element type, in the same order among their
    calls. The memory stays as long as an array refers to it. It serves one epoch: when that has ended by an error,
    copy what is to live. ValueError: ranks ask for different sizes. NotImplementedError: the set's ranks are on
    several hosts, or on one of them but exchange data over the network. QuotaError: a rank has not so much memory.
    """
    kind = numpy.dtype(dtype)
    count = int(numpy.prod(shape, dtype=numpy.int64))
    memory = _arena.make(name, count * kind.itemsize, process_set)
    return numpy.frombuffer(memory, kind, count).reshape(shape)


def join() -> int:
    """Says that this rank has no more data. While the other ranks go on, it takes part in all that they do, in every
    process set, without data of its own; returns when all ranks have joined, with the rank that was the last.

    To a reduction it contributes what changes nothing (Average still divides by the number of ranks of the set), to
    allgather and alltoall no rows; what alltoall has for it is dropped. A broadcast from it is a ValueError on all
    others. EpochEnded: a worker has died or left.
    """
    return _ops.join()


def barrier(process_set: ProcessSet = global_process_set) -> None:
    """Returns when all ranks of the process set have called it."""
    _ops.barrier(process_set)
