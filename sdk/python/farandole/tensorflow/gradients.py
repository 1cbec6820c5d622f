"""Gradients of the ops. They are Horovod's.

Of an allreduce: the allreduce of the gradients by the same op and factors. Of an allgather: the average over ranks,
each rank's own rows. Of an alltoall, gather and scatter: the gradients go back to where the rows came from. Of a
reducescatter: the allgather of the gradients, times the factors, and for Sum times the number of ranks. Of a
broadcast: the average over ranks on the root, zero elsewhere.
"""

from typing import Any, List

import tensorflow as tf

from ..reduce_ops import Sum
from ._ops_library import ops
from ._xla import factor_of, require_gradient
from .ops import mean_of, rank_op, reduce_with, run_attributes, size_op


@tf.RegisterGradient("FarandoleAllreduce")
def _allreduce(op: Any, *gradients: Any) -> List[Any]:
    require_gradient("allreduce", op.get_attr("reduce_op"))
    return reduce_with(op, gradients)[0]


def _position(op: Any, size: tf.Tensor) -> tf.Tensor:
    """This rank's position in the op's process set: how many of the set's ranks come before it."""
    group = op.get_attr("process_set_id")
    if group == 0:
        return rank_op()
    # All ranks of a set ask for it, so that it is an allgather of their ranks.
    attributes = run_attributes("allgather", op)
    if attributes["tensor_name"]:
        attributes["tensor_name"] += ".ranks"
    (ranks,), _ = ops.farandole_allgather([tf.reshape(rank_op(), [1])], **attributes)
    del size
    return tf.reduce_sum(tf.cast(ranks < rank_op(), tf.int32))


@tf.RegisterGradient("FarandoleAllgather")
def _allgather(op: Any, *gradients: Any) -> List[Any]:
    rows = op.outputs[-1]
    position = _position(op, size_op(op.get_attr("process_set_id")))
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
    factor = factor_of(op.get_attr("prescale_bits")) * factor_of(op.get_attr("postscale_bits"))
    scale = tf.cast(factor, gradients[0].dtype)
    if reduce_op == Sum:
        scale *= tf.cast(size_op(op.get_attr("process_set_id")), scale.dtype)
    gathered, _ = ops.farandole_allgather([each * scale for each in gradients], **run_attributes("allgather", op))
    return [tf.reshape(each, tf.shape(given)) for each, given in zip(gathered, op.inputs)]


@tf.RegisterGradient("FarandoleAlltoall")
def _alltoall(op: Any, gradient: Any, _rows: Any) -> List[Any]:
    received = tf.reshape(op.outputs[1], [-1])
    own, _ = ops.farandole_alltoall(gradient, received, **run_attributes("alltoall", op))
    # The splits may have left rows out.
    shape = tf.shape(op.inputs[0])
    rest = tf.zeros(tf.concat([[shape[0] - tf.shape(own)[0]], shape[1:]], 0), own.dtype)
    return [tf.reshape(tf.concat([own, rest], 0), shape), None]


@tf.RegisterGradient("FarandoleGather")
def _gather(op: Any, gradient: Any, _rows: Any) -> Any:
    gathered = tf.reshape(op.outputs[1], [-1])
    own, _ = ops.farandole_alltoall(gradient, gathered, **run_attributes("alltoall", op))
    return tf.reshape(own, tf.shape(op.inputs[0]))


@tf.RegisterGradient("FarandoleScatter")
def _scatter(op: Any, gradient: Any, _rows: Any) -> Any:
    root = op.get_attr("root_rank")
    gathered, _ = ops.farandole_gather(gradient, root_rank=root, **run_attributes("gather", op))
    given = op.inputs[0]
    # Only the root's rows have gone anywhere.
    return tf.cond(
        tf.equal(rank_op(), root), lambda: tf.reshape(gathered, tf.shape(given)), lambda: tf.zeros_like(given)
    )


for _name in ("FarandoleJoin", "FarandoleBarrier", "FarandoleNumber"):
    tf.no_gradient(_name)
