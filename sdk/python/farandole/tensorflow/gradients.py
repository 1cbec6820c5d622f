"""Gradients of the ops. They are Horovod's, but for Min and Max, of which Horovod's are none of theirs.

Of an allreduce: the allreduce of the gradients by the same op and factors; for Min and Max the sum of the gradients, on
the ranks that have the extremum, which share it. Of an allgather: the average over ranks,
each rank's own rows. Of an alltoall, gather and scatter: the gradients go back to where the rows came from. Of a
reducescatter: the allgather of the gradients, times the factors, and for Sum times the number of ranks. Of a
broadcast: the average over ranks on the root, zero elsewhere. The rows of a rank that has joined have zeros.
"""

from typing import Any, List, Sequence

import tensorflow as tf

from ..reduce_ops import Sum
from ._ops_library import attribute, bits, ops
from ._xla import EXTREMA, factor_of, gradients_of_extrema, require_gradient
from .ops import mean_of, rank_op, reduce_with, run_attributes, set_rank_op, size_op


@tf.RegisterGradient("FarandoleAllreduce")
def _allreduce(op: Any, *gradients: Any) -> List[Any]:
    require_gradient("allreduce", op.get_attr("reduce_op"))
    if op.get_attr("reduce_op") in EXTREMA:
        return _of_extrema(op, gradients)
    return reduce_with(op, gradients)[0]


def _reduced(op: Any, tensors: Sequence[Any], reduce_op: int, suffix: str) -> List[Any]:
    """By the ranks of the op's process set, without factors."""
    attributes = run_attributes("allreduce", op)
    if attributes["tensor_name"]:
        attributes["tensor_name"] += suffix
    one = bits(1.0)
    return ops.farandole_allreduce(
        list(tensors), reduce_op=reduce_op, prescale_bits=one, postscale_bits=one, **attributes
    )


def _of_extrema(op: Any, gradients: Sequence[Any]) -> List[Any]:
    return gradients_of_extrema(
        list(op.inputs),
        list(op.outputs),
        gradients,
        (factor_of(attribute(op, "prescale_bits")), factor_of(attribute(op, "postscale_bits"))),
        lambda tensors: _reduced(op, tensors, op.get_attr("reduce_op"), ".extremum"),
        lambda tensors: _reduced(op, tensors, Sum, ""),
    )


def _shares(op: Any, rows: tf.Tensor) -> tf.Tensor:
    """How many of so many rows each rank of the op's process set gets, where they are shared out evenly."""
    size = size_op(attribute(op, "process_set_id"))
    return rows // size + tf.cast(tf.range(size) < rows % size, rows.dtype)


def _placed(found: tf.Tensor, given: Any, sent: Any, shape: tf.Tensor) -> tf.Tensor:
    """A gradient of this shape: `found` has `given` rows of each rank, for the `sent` rows that the rank got of it. The
    rows that come back from nowhere have zeros: those of ranks that have joined, and those that nobody got."""
    given, sent = tf.cast(given, tf.int32), tf.cast(sent, tf.int32)
    # How far the rows of each rank move towards the end.
    shifts = tf.cumsum(sent, exclusive=True) - tf.cumsum(given, exclusive=True)
    rows = tf.range(tf.shape(found)[0])
    places = rows + tf.gather(shifts, tf.searchsorted(tf.cumsum(given), rows, side="right"))
    return tf.scatter_nd(places[:, tf.newaxis], found, shape)


@tf.RegisterGradient("FarandoleAllgather")
def _allgather(op: Any, *gradients: Any) -> List[Any]:
    rows = op.outputs[-1]
    position = set_rank_op(attribute(op, "process_set_id"))
    owns = []
    for index, mean in enumerate(mean_of(op, gradients[:-1])):
        begin = tf.reduce_sum(rows[index, :position])
        own = mean[begin : begin + rows[index, position]]
        owns.append(tf.reshape(own, tf.shape(op.inputs[index])))
    return owns


@tf.RegisterGradient("FarandoleBroadcast")
def _broadcast(op: Any, *gradients: Any) -> List[Any]:
    is_root = tf.equal(rank_op(), op.get_attr("root_rank"))
    return [mean * tf.cast(is_root, mean.dtype) for mean in mean_of(op, gradients)]


@tf.RegisterGradient("FarandoleReducescatter")
def _reducescatter(op: Any, *gradients: Any) -> List[Any]:
    reduce_op = op.get_attr("reduce_op")
    require_gradient("reducescatter", reduce_op)
    factor = factor_of(attribute(op, "prescale_bits")) * factor_of(attribute(op, "postscale_bits"))
    scale = tf.cast(factor, gradients[0].dtype)
    if reduce_op == Sum:
        scale *= tf.cast(size_op(attribute(op, "process_set_id")), scale.dtype)
    gathered, rows = ops.farandole_allgather([each * scale for each in gradients], **run_attributes("allgather", op))
    shapes = [tf.shape(each) for each in op.inputs]
    return [
        _placed(each, rows[index], _shares(op, shape[0]), shape)
        for index, (each, shape) in enumerate(zip(gathered, shapes))
    ]


@tf.RegisterGradient("FarandoleAlltoall")
def _alltoall(op: Any, gradient: Any, _rows: Any) -> List[Any]:
    received = tf.reshape(op.outputs[1], [-1])
    own, given = ops.farandole_alltoall(gradient, received, **run_attributes("alltoall", op))
    shape, splits = tf.shape(op.inputs[0]), op.inputs[1]
    sent = tf.cond(tf.size(splits) > 0, lambda: tf.cast(splits, tf.int32), lambda: _shares(op, shape[0]))
    return [_placed(own, tf.reshape(given, [-1]), sent, shape), None]


@tf.RegisterGradient("FarandoleGather")
def _gather(op: Any, gradient: Any, _rows: Any) -> Any:
    gathered = tf.reshape(op.outputs[1], [-1])
    own, _ = ops.farandole_alltoall(gradient, gathered, **run_attributes("alltoall", op))
    given = op.inputs[0]
    # A root that has joined since gives nothing back.
    return tf.cond(
        tf.equal(tf.size(own), tf.size(given)), lambda: tf.reshape(own, tf.shape(given)), lambda: tf.zeros_like(given)
    )


@tf.RegisterGradient("FarandoleScatter")
def _scatter(op: Any, gradient: Any, _rows: Any) -> Any:
    root = op.get_attr("root_rank")
    gathered, rows = ops.farandole_gather(gradient, root_rank=root, **run_attributes("gather", op))
    given = op.inputs[0]
    shape = tf.shape(given)
    # Only the root's rows have gone anywhere.
    return tf.cond(
        tf.equal(rank_op(), root),
        lambda: _placed(gathered, tf.reshape(rows, [-1]), _shares(op, shape[0]), shape),
        lambda: tf.zeros_like(given),
    )


for _name in ("FarandoleJoin", "FarandoleBarrier", "FarandoleNumber"):
    tf.no_gradient(_name)
