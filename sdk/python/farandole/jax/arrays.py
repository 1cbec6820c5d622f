"""How JAX's arrays lie in memory, and the operations on those that are there: outside of jit, grad and vmap the calling
thread gives them to the worker library itself, which is several times as fast as a compiled program of one operation.
"""

import functools
import warnings
from typing import Any, List, Sequence

import jax
import numpy

from .._operations import Operations
from ..numpy import _NumpyAdapter

# A result that begins at such an address becomes an array of JAX's without a copy.
_ALIGNMENT = 64


_has_told = False


@functools.lru_cache(maxsize=None)
def has_gpus() -> bool:
    """Whether JAX puts arrays into one, unless it is told otherwise."""
    return str(jax.default_backend()) != "cpu"


def is_on_host(array: jax.Array) -> bool:
    """Whether the worker library can read it where it is."""
    return all(device.platform == "cpu" for device in array.devices())


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
        array = given if isinstance(given, jax.Array) else jax.numpy.asarray(given)
        _tell_of_copies(array)
        return numpy.asarray(array)

    def received(self, rows: List[int], splits: Any) -> jax.Array:
        return jax.numpy.asarray(super().received(rows, splits))


operations = Operations[Any, jax.Array](_JaxAdapter())
"""The functions on arrays that are there."""
