"""How JAX's arrays lie in memory, and the operations on those that are there: outside of jit, grad and vmap the calling
thread gives them to the worker library itself, which is several times as fast as a compiled program of one operation.
"""

import functools
import warnings
from typing import Any, List, Sequence, Tuple

import jax
import numpy

from .._operations import Operations
from ..numpy import _element_type, _NumpyAdapter, _refuse_masks

# A result that begins at such an address becomes an array of JAX's without a copy.
_ALIGNMENT = 64


_has_told = False
_has_told_of_floats = False


@functools.lru_cache(maxsize=None)
def has_gpus() -> bool:
    """Whether JAX puts arrays into one, unless it is told otherwise."""
    return str(jax.default_backend()) != "cpu"


@functools.lru_cache(maxsize=256)
def kept_zeros(shape: Tuple[int, ...], dtype: Any) -> jax.Array:
    """An array without elements, which is made once; to be called outside of jit."""
    return jax.device_put(numpy.zeros(shape, dtype))


def is_on_host(array: jax.Array) -> bool:
    """Whether the worker library can read it where it is."""
    return all(device.platform == "cpu" for device in array.devices())


def as_array(given: Any) -> jax.Array:
    """An array of JAX's. Without jax_enable_x64 those have 32 bits at most: rounding floats makes a warning, the first time.
    ValueError: an integer or a float does not fit into 32 bits; the array is masked; JAX has no such arrays."""
    _refuse_masks(given)
    if isinstance(given, (numpy.ndarray, numpy.generic)) and given.dtype.kind in "iuf" and given.dtype.itemsize == 8:
        narrow = jax.dtypes.canonicalize_dtype(given.dtype)
        if narrow != given.dtype:
            _check_narrowing(numpy.asarray(given), narrow)
    try:
        return jax.numpy.asarray(given)
    except TypeError:
        if isinstance(given, (numpy.ndarray, numpy.generic)):
            _element_type(given.dtype)
        raise


def _check_narrowing(given: numpy.ndarray, dtype: Any) -> None:
    global _has_told_of_floats
    with numpy.errstate(over="ignore"):
        narrow = given.astype(dtype)
    kept = (narrow == given) | (given != given)
    if kept.all():
        return
    if given.dtype.kind == "f" and numpy.isfinite(narrow[~kept]).all():
        if not _has_told_of_floats:
            _has_told_of_floats = True
            warnings.warn(
                f"NumPy's float64 is rounded to JAX's {dtype}, as by jax.numpy.asarray(): set jax_enable_x64, or use "
                "farandole.numpy, to keep all digits",
                stacklevel=4,
            )
        return
    raise ValueError(
        f"{given[~kept].flat[0]} of NumPy's {given.dtype} does not fit into JAX's {dtype}: set jax_enable_x64, or use "
        "farandole.numpy"
    )


def _tell_of_copies(array: jax.Array) -> None:
    """The first array that is in a GPU makes a warning."""
    global _has_told
    if _has_told or not has_gpus() or is_on_host(array):
        return
    _has_told = True
    places = ", ".join(sorted(map(str, array.devices())))
    warnings.warn(
        f"outside of jax.jit, arrays in {places} travel through the host's memory: call the operation in a function under "
        "jax.jit, where they stay in their device",
        stacklevel=5,
    )


class _JaxAdapter(_NumpyAdapter):
    """The view of a jax.Array: that of NumPy, which shares its memory on a processor and is a copy of what a GPU holds."""

    def empty(self, like: numpy.ndarray, shape: Sequence[int]) -> numpy.ndarray:
        size = int(numpy.prod(shape, dtype=numpy.int64)) * like.dtype.itemsize
        memory = numpy.empty(size + _ALIGNMENT, numpy.uint8)
        begin = -memory.ctypes.data % _ALIGNMENT
        return memory[begin : begin + size].view(like.dtype).reshape(shape)

    def deliver(self, array: numpy.ndarray, output: numpy.ndarray) -> jax.Array:
        # Nobody writes into `output` any more, so that the array may be made of its memory.
        return jax.device_put(output)

    def accept(self, given: Any) -> numpy.ndarray:
        """The caller's array, with the element type that it has in JAX."""
        array = given if isinstance(given, jax.Array) else as_array(given)
        _tell_of_copies(array)
        return numpy.asarray(array)

    def received(self, rows: List[int], splits: Any) -> jax.Array:
        return jax.numpy.asarray(super().received(rows, splits))


operations = Operations[Any, jax.Array](_JaxAdapter())
"""The functions on arrays that are there."""
