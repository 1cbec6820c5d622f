"""Keras 3 on TensorFlow, and tf-keras: gradients and values travel by the ops of this package."""

from typing import Any, Optional, Sequence, Tuple, Type

import tensorflow as tf

from .._keras.exchange import Terms
from ..process_sets import ProcessSet
from . import ops, variables
from ._ops_library import why_not_compiled as why_not_compiled
from .aggregation import LocalGradients
from .compression import Compression as Compression
from .gradient_exchange import GradientExchange
from .ops import join as join
from .optimizer import KerasExchange


def make_exchange(terms: Terms) -> KerasExchange:
    """How an optimizer exchanges its gradients."""
    terms.check()
    exchange = GradientExchange(
        terms.compression,
        terms.sparse_as_dense,
        terms.op,
        terms.predivide,
        0,
        terms.groups,
        terms.process_set,
        terms.scales_local,
    )
    return KerasExchange(exchange, LocalGradients(terms.passes, terms.averages_passes))


def _run(outputs: Any) -> Any:
    """In v1's graphs, which run when they are told to, the session's result; else the tensor."""
    if tf.executing_eagerly() or tf.inside_function():
        return outputs
    return tf.compat.v1.keras.backend.get_session().run(outputs)


def allreduce(
    value: Any, op: int, factors: Tuple[float, float], name: Optional[str], compression: Type, process_set: ProcessSet
) -> Any:
    """See farandole.keras.ops."""
    terms = {"op": op, "prescale_factor": factors[0], "postscale_factor": factors[1], "process_set": process_set}
    return _run(ops.allreduce(tf.convert_to_tensor(value), name=name, compression=compression, **terms))


def allgather(value: Any, name: Optional[str], process_set: ProcessSet) -> Any:
    """See farandole.keras.ops."""
    return _run(ops.allgather(tf.convert_to_tensor(value), name, process_set=process_set))


def broadcast(value: Any, root_rank: int, name: Optional[str], process_set: ProcessSet) -> Any:
    """See farandole.keras.ops."""
    return _run(ops.broadcast(tf.convert_to_tensor(value), root_rank, name, process_set=process_set))


def reducescatter(value: Any, op: int, name: Optional[str], process_set: ProcessSet) -> Any:
    """See farandole.keras.ops."""
    return _run(ops.reducescatter(tf.convert_to_tensor(value), op=op, name=name, process_set=process_set))


def broadcast_variables(given: Sequence[Any], root_rank: int, process_set: ProcessSet) -> None:
    """Gives the root's values to all ranks."""
    _run(variables.broadcast_variables(given, root_rank, process_set))


def broadcast_global_variables(root_rank: int) -> Any:
    """See farandole.keras.state; it runs in Keras's session."""
    return _run(variables.broadcast_global_variables(root_rank))
