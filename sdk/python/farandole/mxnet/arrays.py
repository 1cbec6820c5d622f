"""MXNet's arrays: those that callers give, those that results are made in, and those of a GPU."""

import ctypes
import warnings
from typing import Any, List, Sequence, Tuple

import mxnet as mx
import numpy
from mxnet.base import _LIB, check_call

from .._operations import share_memory

_has_told = False


def accept(given: Any) -> mx.nd.NDArray:
    """An array of MXNet's that can travel. ValueError: it is none."""
    if not isinstance(given, mx.nd.NDArray):
        raise ValueError(f"farandole.mxnet's operations take an mxnet.nd.NDArray, not a {type(given).__name__}")
    if given.stype != "default":
        raise ValueError(
            f"the array is sparse ({given.stype}): farandole does not send sparse arrays of MXNet; give "
            "array.tostype('default')"
        )
    return given


def is_on_host(array: mx.nd.NDArray) -> bool:
    """Whether the worker library can read it where it is."""
    return not array.context.device_type == "gpu"


def on_host(array: mx.nd.NDArray) -> mx.nd.NDArray:
    """The array itself, or a copy of it in the host's memory: MXNet's C interface gives no stream of a GPU."""
    global _has_told
    if is_on_host(array):
        return array
    if not _has_told:
        _has_told = True
        warnings.warn(
            f"arrays of MXNet in {array.context} travel through the host's memory: its C interface gives no stream of "
            "a GPU",
            stacklevel=4,
        )
    return _copied(array, mx.cpu())


def _copied(array: mx.nd.NDArray, context: mx.Context) -> mx.nd.NDArray:
    # Without it, 0 rows would mean that their number is not known.
    with mx.util.np_shape(True):
        return array.copyto(context)


def empty(like: mx.nd.NDArray, shape: Sequence[int]) -> mx.nd.NDArray:
    """A new array in the host's memory, of the kind and element type of `like`."""
    with mx.util.np_shape(True):
        if isinstance(like, mx.np.ndarray):
            return mx.np.empty(tuple(shape), like.dtype, ctx=mx.cpu())
        return mx.nd.empty(tuple(shape), mx.cpu(), like.dtype)


def delivered(array: mx.nd.NDArray, output: mx.nd.NDArray) -> mx.nd.NDArray:
    """`output`, where `array` is."""
    return output if is_on_host(array) else _copied(output, array.context)


def written_back(arrays: Sequence[mx.nd.NDArray], outputs: Sequence[mx.nd.NDArray]) -> List[mx.nd.NDArray]:
    """The arrays of an operation in place, whose results lie in `outputs`."""
    for array, output in zip(arrays, outputs):
        if output is not array:
            output.copyto(array)
    return list(arrays)


def _address_of(array: mx.nd.NDArray) -> int:
    """Of its memory; what writes it may still be on its way."""
    address = ctypes.c_void_p()
    check_call(_LIB.MXNDArrayGetData(array.handle, ctypes.byref(address)))
    return address.value or 0


def apart(arrays: Sequence[mx.nd.NDArray]) -> Sequence[mx.nd.NDArray]:
    """Arrays that one operation may write: copies in the host's memory, if some of these share memory."""
    if len(arrays) < 2:
        return arrays
    sizes = [array.size * numpy.dtype(array.dtype).itemsize for array in arrays]
    if not share_memory(list(map(_address_of, arrays)), sizes):
        return arrays
    return [_copied(array, mx.cpu()) for array in arrays]


def with_rows(array: mx.nd.NDArray) -> Tuple[int, ...]:
    """Its shape; a scalar counts as [1]."""
    return tuple(array.shape) or (1,)
