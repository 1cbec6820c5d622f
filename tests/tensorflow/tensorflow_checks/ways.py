"""The ways in which a program of TensorFlow runs an operation: eager, in tf.function, and in a session of tf.compat.v1."""

from typing import Any, Callable, List

import tensorflow as tf

INTEGERS = ("uint8", "int8", "uint16", "int16", "int32", "int64")
FLOATS = ("float16", "bfloat16", "float32", "float64")
SHORT_FLOATS = ("float8_e4m3fn", "float8_e5m2")
NUMBERS = (*INTEGERS, *FLOATS, *SHORT_FLOATS)
"""All element types that travel, but for bool."""


def in_session(call: Callable[..., Any], *arguments: tf.Tensor) -> Any:
    """The results of a call in a graph and a session, as eager tensors; those of an op without results are None."""
    with tf.Graph().as_default() as graph:
        places = [tf.compat.v1.placeholder(each.dtype, each.shape) for each in arguments]
        results = call(*places)
        made = tf.nest.flatten(results, expand_composites=True)
        with tf.compat.v1.Session(graph=graph) as session:
            values = session.run(made, {place: each.numpy() for place, each in zip(places, arguments)})
    tensors = [None if value is None else tf.convert_to_tensor(value) for value in values]
    return tf.nest.pack_sequence_as(results, tensors, expand_composites=True)


def everywhere(call: Callable[..., Any], *arguments: tf.Tensor) -> List[Any]:
    """The results of a call: eager, in a function, and in a session."""
    return [call(*arguments), tf.function(call)(*arguments), in_session(call, *arguments)]


def cast(tensor: tf.Tensor, dtype: str) -> tf.Tensor:
    """By way of a type from which TensorFlow makes each of the others."""
    return tf.cast(tf.cast(tensor, tf.float32), dtype)


def values_of(tensor: tf.Tensor) -> List[float]:
    wide = tensor if tensor.dtype.size >= 4 else tf.cast(tensor, tf.float32)
    return tf.reshape(tf.cast(wide, tf.float64), [-1]).numpy().tolist()
