"""Operations on values: numbers, arrays of NumPy, tensors of the backend. They return tensors of the backend; on TensorFlow
and JAX they run within compiled functions as well."""

from typing import Any, Optional, Type

from ..reduce_ops import Average, choose
from ._backend import backend


def allreduce(
    value: Any,
    name: Optional[str] = None,
    average: Optional[bool] = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    op: Optional[int] = None,
    compression: Type = backend.Compression.none,
) -> Any:
    """Returns postscale_factor * op over ranks (prescale_factor * value); `op` is Average by default."""
    return backend.allreduce(value, choose(op, average), prescale_factor, postscale_factor, name, compression)


def allgather(value: Any, name: Optional[str] = None) -> Any:
    """Returns the ranks' values, concatenated along the first dimension, in which they may differ."""
    return backend.allgather(value, name)


def broadcast(value: Any, root_rank: int, name: Optional[str] = None) -> Any:
    """Returns the value of `root_rank`."""
    return backend.broadcast(value, root_rank, name)


def reducescatter(value: Any, name: Optional[str] = None, op: int = Average) -> Any:
    """As allreduce, but returns only this rank's part of the rows."""
    return backend.reducescatter(value, choose(op, None), name)
