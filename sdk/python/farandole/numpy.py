"""Farandole for NumPy arrays: the operations, and everything of `farandole`.

Arrays are of uint8, int8, uint16, int16, int32, int64, float16, float32, float64, bool, or ml_dtypes' bfloat16,
float8_e4m3fn and float8_e5m2, of any shape and strides. All ranks of the process set call an operation with the same name, element type and, unless it
says otherwise, shape; without a name, calls are paired in their order. Where ranks disagree, each gets a ValueError
that names two of them and both values, and the job goes on. EpochEnded: a worker has died or left.
"""

import operator
import threading
from typing import Any, List, Optional, Sequence, Tuple

import numpy

import farandole as _farandole

# The names of the package are names of each of its views.
from . import *  # noqa: F401,F403
from . import __version__ as __version__
from . import _arena, _handles, _ops, elastic
from ._library import direct, failure, lib
from ._operations import Operations, barrier, described_by, join
from .objects import allgather_object, broadcast_object
from .process_sets import ProcessSet, global_process_set
from .reduce_ops import choose

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
    "gather",
    "gather_async",
    "grouped_allgather",
    "grouped_allgather_async",
    "grouped_allreduce",
    "grouped_allreduce_async",
    "grouped_reducescatter",
    "grouped_reducescatter_async",
    "join",
    "reducescatter",
    "reducescatter_async",
    "scatter",
    "scatter_async",
]
__all__ += _farandole.__all__

DTYPES = {
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


def _element_type(dtype: numpy.dtype) -> int:
    """The library's. ValueError: it has none."""
    found = DTYPES.get(dtype, _NAMED_DTYPES.get(dtype.name))
    if not dtype.isnative:
        raise ValueError(
            f"an array of {dtype.str} has another machine's order of bytes: "
            "use array.astype(array.dtype.newbyteorder('='))"
        )
    if found is None:
        raise ValueError(f"an array of {dtype} cannot be sent: farandole has no such element type")
    return found


def _refuse_masks(given: Any) -> None:
    """ValueError: an array is masked, or one in a list, where NumPy and others would drop the mask."""
    if isinstance(given, numpy.ma.MaskedArray):
        raise ValueError("the array is masked: farandole does not send masks; give array.filled(value), or its .data")
    if isinstance(given, (list, tuple)):
        # Long lists are mostly of numbers.
        if any(issubclass(kind, (list, tuple, numpy.ma.MaskedArray)) for kind in set(map(type, given))):
            for each in given:
                _refuse_masks(each)


class _NumpyAdapter:
    """The view of a numpy.ndarray."""

    def describe(self, array: numpy.ndarray) -> Tuple[int, Tuple[int, ...], int]:
        dtype = DTYPES.get(array.dtype)
        if dtype is None:
            dtype = _element_type(array.dtype)
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
        numpy.asarray(target)[...] = source

    def accept(self, given: Any) -> numpy.ndarray:
        _refuse_masks(given)
        return numpy.asarray(given)

    def accept_writable(self, given: Any) -> numpy.ndarray:
        if not isinstance(given, numpy.ndarray):
            raise ValueError(f"an operation in place needs a numpy.ndarray, not a {type(given).__name__}")
        if not given.flags.writeable:
            raise ValueError("an operation in place needs an array that can be written; this one is read-only")
        _refuse_masks(given)
        return given

    def whole_numbers(self, splits: Any) -> Optional[List[int]]:
        if splits is None:
            return None
        numbers = numpy.asarray(splits)
        if numbers.ndim != 1 or (numbers.size and numbers.dtype.kind not in "iu"):
            raise ValueError(f"splits are a list of whole numbers, one for each rank, not {splits!r}")
        return numbers.tolist()

    def received(self, rows: List[int], splits: Any) -> numpy.ndarray:
        del splits
        return numpy.array(rows, numpy.int32)


_operations = Operations[Any, numpy.ndarray](_NumpyAdapter())
allgather = _operations.allgather
allgather_async = _operations.allgather_async
allreduce_async = _operations.allreduce_async
allreduce_async_ = _operations.allreduce_async_
alltoall = _operations.alltoall
alltoall_async = _operations.alltoall_async
broadcast = _operations.broadcast
broadcast_ = _operations.broadcast_
broadcast_async = _operations.broadcast_async
broadcast_async_ = _operations.broadcast_async_
gather = _operations.gather
gather_async = _operations.gather_async
grouped_allgather = _operations.grouped_allgather
grouped_allgather_async = _operations.grouped_allgather_async
grouped_allreduce = _operations.grouped_allreduce
grouped_allreduce_async = _operations.grouped_allreduce_async
grouped_reducescatter = _operations.grouped_reducescatter
grouped_reducescatter_async = _operations.grouped_reducescatter_async
reducescatter = _operations.reducescatter
reducescatter_async = _operations.reducescatter_async
scatter = _operations.scatter
scatter_async = _operations.scatter_async


_allreduce_array = direct("allreduce_array")

# Submissions that go on after an exception of a signal's handler, which only the main thread runs.
_interrupted: List[int] = []


def reduce_now(
    source: numpy.ndarray,
    output: numpy.ndarray,
    name: Optional[str],
    op: int,
    prescale: float,
    postscale: float,
    process_set: ProcessSet,
) -> Optional[int]:
    """An allreduce by the shortest way; `output` may be `source`. Returns 0, the ranks' error, or minus the error of a
    call that the library has refused. None: it cannot read these arrays where they lie, and nothing was submitted."""
    try:
        encoded = _ops.encode_name(name) if name else None
        group = process_set.process_set_id
        code: Optional[int] = _allreduce_array(
            source, output, DTYPES, encoded, op, prescale, postscale, group, _interrupted
        )
        return code
    except BaseException as error:
        if threading.current_thread() is threading.main_thread():
            _handles.rescue(_interrupted, (source, output))
            _interrupted.clear()
        _ops.explain(error, prescale, postscale, process_set)
        raise


def _is_reduced(code: Optional[int]) -> bool:
    """False: the call takes the other way. Raises its error."""
    if code:
        raise failure(abs(code))
    return code == 0


@described_by(Operations.allreduce)
def allreduce(
    tensor: Any,
    average: Optional[bool] = None,
    name: Optional[str] = None,
    op: Optional[int] = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> numpy.ndarray:
    op = choose(op, average)
    if type(tensor) is numpy.ndarray:
        output = numpy.empty_like(tensor)
        if _is_reduced(reduce_now(tensor, output, name, op, prescale_factor, postscale_factor, process_set)):
            return output
    return _operations.allreduce(tensor, None, name, op, prescale_factor, postscale_factor, process_set)


@described_by(Operations.allreduce_)
def allreduce_(
    tensor: numpy.ndarray,
    average: Optional[bool] = None,
    name: Optional[str] = None,
    op: Optional[int] = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> numpy.ndarray:
    op = choose(op, average)
    if type(tensor) is numpy.ndarray:
        if _is_reduced(reduce_now(tensor, tensor, name, op, prescale_factor, postscale_factor, process_set)):
            return tensor
    return _operations.allreduce_(tensor, None, name, op, prescale_factor, postscale_factor, process_set)


def arena(shape: Sequence[int], dtype: Any, name: str, process_set: ProcessSet = global_process_set) -> numpy.ndarray:
    """Returns an array of zeros that the ranks of the set, which are on one host, reduce in place: allreduce_ of it,
    or of equal parts of it on all ranks, copies nothing, and is several times as fast as that of other arrays.

    Collective: all ranks of the set call it with the same name, shape and element type, in the same order among their
    calls. The memory stays as long as an array refers to it. It serves one epoch: if the epoch has ended by an error,
    copy the arrays that must live. ValueError: ranks ask for different sizes. NotImplementedError: the set's ranks are
    on several hosts, or on one of them but exchange data over the network. QuotaError: a rank has not so much memory.
    """
    try:
        kind = numpy.dtype(dtype)
    except TypeError:
        raise ValueError(f"an arena's element type is one of NumPy's, not {dtype!r}") from None
    try:
        count = int(numpy.prod([operator.index(each) for each in numpy.atleast_1d(shape)], dtype=numpy.int64))
    except TypeError:
        raise ValueError(f"an arena's shape is made of whole numbers, not {shape!r}") from None
    memory = _arena.make(name, count * kind.itemsize, process_set)
    return numpy.frombuffer(memory, kind, count).reshape(shape)
