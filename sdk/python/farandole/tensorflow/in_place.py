"""Broadcasts that write into a variable's own memory.

A kernel of TensorFlow's C interface gets no variable, but it may write into an input that nobody else holds. So the
variable's memory is taken out of it: the variable is read and gets an empty tensor, which leaves the value that was read
as the only one that holds the memory. The broadcast takes that as its output, and the variable gets it back. If somebody
else holds it, as a program may that has read the variable, TensorFlow makes new memory, as it does for an assignment.

The variable gets its memory back also if the broadcast fails, and the error comes then. A thread that reads it meanwhile
finds it empty, where Horovod's waits.
"""

import functools
from typing import Any, Dict, Optional

import tensorflow as tf
from tensorflow.python.ops.resource_variable_ops import BaseResourceVariable

from .. import _ops
from ..process_sets import ProcessSet, group_of
from ._ops_library import ops
from ._xla import check_element_types, is_compiled
from .errors import raise_as_elsewhere
from .graph_names import name_for
from .placement import has_gpus


def receive_in_place(variable: Any, root_rank: int, name: Optional[str], process_set: ProcessSet) -> Any:
    """The op that gives the variable the root's value; eager None, when it has it. NotImplemented: a variable whose memory
    nobody gets, or that is in a GPU."""
    has_handle = isinstance(variable, BaseResourceVariable)
    is_reference = not has_handle and getattr(variable.dtype, "_is_ref_dtype", False)
    if not (has_handle or is_reference) or is_compiled():
        return NotImplemented
    if has_gpus() and "cpu:" not in variable.device.lower():
        return NotImplemented
    check_element_types([variable])
    terms = (_ops.root_for(root_rank), group_of(process_set))
    if tf.executing_eagerly():
        if name is not None:
            _ops.encode_name(name)
        return _receive_eagerly(variable.handle, variable.dtype, name or "broadcast_", terms)
    graph_name = name_for(tf.compat.v1.get_default_graph(), "broadcast", name)
    if is_reference:
        # A read of such a variable is its memory, so that all writes go there.
        _, failure = _broadcast(variable._ref(), graph_name, terms, has_references=1)
        return ops.farandole_fail(failure)
    return _through_handle(variable.handle, variable.dtype, graph_name, terms)


def _receive_eagerly(handle: Any, dtype: tf.DType, name: str, terms: Any) -> None:
    """In a function, which alone lets go of what it has read: eager tensors live as long as Python's."""
    try:
        _function(dtype, name, terms)(handle)
    except (tf.errors.InvalidArgumentError, tf.errors.FailedPreconditionError) as error:
        raise_as_elsewhere(error)


@functools.lru_cache(maxsize=256)
def _function(dtype: tf.DType, name: str, terms: Any) -> Any:
    def give(handle: tf.Tensor) -> None:
        _through_handle(handle, dtype, name, terms)

    # Traced at once: calls of many functions that are traced then make TensorFlow warn of retracing.
    signature = [tf.TensorSpec([], tf.resource)]
    return tf.function(give, input_signature=signature, autograph=False).get_concrete_function()


def _broadcast(value: tf.Tensor, name: str, terms: Any, has_references: int = 0) -> Any:
    root, group = terms
    attributes: Dict[str, Any] = {"tensor_name": name, "root_rank": root, "process_set_id": group, "waits": 0}
    (received,), failure = ops.farandole_broadcast_in_place([value], has_references=has_references, **attributes)
    return received, failure


def _through_handle(handle: tf.Tensor, dtype: tf.DType, name: str, terms: Any) -> Any:
    value = tf.raw_ops.ReadVariableOp(resource=handle, dtype=dtype)
    # Of unknown shape: TensorFlow compares known ones with the variable's.
    nothing = tf.raw_ops.PlaceholderWithDefault(input=tf.zeros([0], dtype), shape=tf.TensorShape(None))
    with tf.control_dependencies([value]):
        emptied = tf.raw_ops.AssignVariableOp(resource=handle, value=nothing)
    with tf.control_dependencies([emptied]):
        received, failure = _broadcast(value, name, terms)
    assigned = tf.raw_ops.AssignVariableOp(resource=handle, value=received)
    with tf.control_dependencies([assigned]):
        return ops.farandole_fail(failure)
