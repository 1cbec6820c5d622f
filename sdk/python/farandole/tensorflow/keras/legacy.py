"""Operations on values, variables and models for tf-keras. The operations take numbers, arrays of NumPy and tensors, and return
tensors, or within v1's graphs what Keras's session makes of them."""

from typing import Any, Dict, Iterable, Optional, Type

from ..._keras import optimizers
from ...process_sets import ProcessSet, global_process_set
from ...reduce_ops import Average, choose
from .. import keras_backend
from ..compression import Compression as Compression
from ..keras_backend import broadcast_global_variables as broadcast_global_variables
from ..keras_backend import join as join
from ._choice import keras


def allreduce(
    value: Any,
    name: Optional[str] = None,
    average: Optional[bool] = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    op: Optional[int] = None,
    compression: Type = Compression.none,
    process_set: ProcessSet = global_process_set,
) -> Any:
    """Returns postscale_factor * op over ranks (prescale_factor * value); `op` is Average by default."""
    factors = (prescale_factor, postscale_factor)
    return keras_backend.allreduce(value, choose(op, average), factors, name, compression, process_set)


def allgather(value: Any, name: Optional[str] = None, process_set: ProcessSet = global_process_set) -> Any:
    """Returns the ranks' values, concatenated along the first dimension, in which they may differ."""
    return keras_backend.allgather(value, name, process_set)


def broadcast(
    value: Any, root_rank: int, name: Optional[str] = None, process_set: ProcessSet = global_process_set
) -> Any:
    """Returns the value of `root_rank`."""
    return keras_backend.broadcast(value, root_rank, name, process_set)


def reducescatter(
    value: Any, name: Optional[str] = None, op: int = Average, process_set: ProcessSet = global_process_set
) -> Any:
    """As allreduce, but returns only this rank's part of the rows."""
    return keras_backend.reducescatter(value, choose(op, None), name, process_set)


def broadcast_variables(variables: Iterable[Any], root_rank: int, process_set: ProcessSet = global_process_set) -> None:
    """Gives the root's values to the variables of all ranks, in the same order on all."""
    keras_backend.broadcast_variables(list(variables), root_rank, process_set)


def load_model(
    filepath: Any,
    custom_optimizers: Optional[Iterable[Type]] = None,
    custom_objects: Optional[Dict[str, Any]] = None,
    compression: Type = Compression.none,
    legacy_opts: bool = False,
    **options: Any,
) -> Any:
    """Loads a model that was saved with a DistributedOptimizer or without; its optimizer is a distributed one, with the state
    that was saved. ValueError: no such model, or none with an optimizer."""
    del legacy_opts
    return optimizers.load_model(
        keras, keras_backend, filepath, custom_optimizers, custom_objects, compression, options
    )
