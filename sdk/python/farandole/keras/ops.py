"""Operations on values: numbers, arrays of NumPy, tensors of the backend. They return tensors of the backend; on TensorFlow
and JAX they run within compiled functions as well. `process_set`: the ranks that take part; roots are ranks of the job."""

from typing import Any, Optional, Type

from ..process_sets import ProcessSet, global_process_set
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
    process_set: ProcessSet = global_process_set,
) -> Any:
    """Returns postscale_factor * op over ranks (prescale_factor * value); `op` is Average by default."""
    factors = (prescale_factor, postscale_factor)
    return backend.allreduce(value, choose(op, average), factors, name, compression, process_set)


def allgather(value: Any, name: Optional[str] = None, process_set: ProcessSet = global_process_set) -> Any:
    """Returns the ranks' values, concatenated along the first dimension, in which they may differ."""
    return backend.allgather(value, name, process_set)


def broadcast(
    value: Any, root_rank: int, name: Optional[str] = None, process_set: ProcessSet = global_process_set
) -> Any:
    """Returns the value of `root_rank`."""
    return backend.broadcast(value, root_rank, name, process_set)


def reducescatter(
    value: Any, name: Optional[str] = None, op: int = Average, process_set: ProcessSet = global_process_set
) -> Any:
    """As allreduce, but returns only this rank's part of the rows."""
    return backend.reducescatter(value, choose(op, None), name, process_set)


def join() -> int:
    """Says that this rank has no more batches, after its last fit(). While the others go on, it takes part in their reductions
    with zeros. Returns when all ranks have joined, with the last one: broadcast_variables() from that, as this rank's
    variables have missed the others' steps. EpochEnded: a worker has died or left."""
    last: int = backend.join()
    return last
