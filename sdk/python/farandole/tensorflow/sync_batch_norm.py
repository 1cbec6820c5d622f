"""Batch normalization by the statistics of all ranks."""

from typing import Any, List, Tuple

import tensorflow as tf

from ..process_sets import ProcessSet, global_process_set
from ..reduce_ops import Sum
from .ops import grouped_allreduce


class SyncBatchNormalization(tf.keras.layers.BatchNormalization):
    """tf.keras.layers.BatchNormalization of a batch that lies on all ranks together: mean and variance are theirs.

    Ranks may have batches of different sizes, of which some may be empty; each element counts alike. The gradients of gamma
    and beta are this rank's own, as DistributedOptimizer wants them. Works with Keras 3 and with tf-keras.
    """

    def __init__(self, fused: bool = False, process_set: ProcessSet = global_process_set, **options: Any) -> None:
        if fused in (True, None):
            raise ValueError("SyncBatchNormalization does not support fused=True.")
        if not options.get("name"):
            options["name"] = "sync_batch_normalization"
        super().__init__(**options)
        self.fused = False
        self._process_set = process_set

    def _moments(self, inputs: Any, *arguments: Any, **options: Any) -> Tuple[Any, Any]:
        mean, variance = super()._moments(inputs, *arguments, **options)
        # A traced step runs on in later epochs, which may have more ranks.
        if self._process_set.size() == 1 and tf.executing_eagerly():
            return mean, variance
        # Keras 3 gives the mask alone; tf-keras gives axes before it, and by name whether the mean keeps them, and the mask.
        axes, mask = (arguments[0], options.get("mask")) if options else (self._reduction_axes, arguments[0])
        return self._join(mean, variance, _count(inputs, mean, mask, axes))

    def _sum(self, tensors: List[Any]) -> List[Any]:
        return grouped_allreduce(tensors, op=Sum, process_set=self._process_set)

    def _join(self, mean: Any, variance: Any, count: Any) -> Tuple[Any, Any]:
        """Mean and variance over all ranks' elements, of those over each rank's and of how many it has."""
        # Sums of squares, of which one allreduce makes the variance. Their 53 bits keep that of each channel whose variance
        # shows in the 24 bits of a float32. (An allgather would as well, but what XLA compiles ties it to the number of
        # ranks.) Means of float64 are taken from the mean of all first, as their squares would not fit.
        center = tf.zeros([], tf.float64)
        if mean.dtype == tf.float64:
            total, weighted = self._sum([count, tf.stop_gradient(_times(mean, count))])
            center = tf.stop_gradient(weighted / total)
        far = tf.cast(mean, tf.float64) - center
        squares = tf.cast(variance, tf.float64) + tf.square(far)
        total, far, squares = self._sum([count, _times(far, count), _times(squares, count)])
        total = tf.stop_gradient(total)
        far /= total
        # Rounding may take a variance of zero below it.
        joined = tf.maximum(squares / total - tf.square(far), 0.0)
        return tf.cast(center + far, mean.dtype), tf.cast(joined, variance.dtype)


def _times(values: Any, count: Any) -> Any:
    """Zero where the count is: the mean of no elements is not a number."""
    return tf.math.multiply_no_nan(values, count)


def _count(inputs: Any, mean: Any, mask: Any, axes: Any) -> Any:
    """How many elements each number of the mean is of, in the mean's shape."""
    if mask is None:
        sizes = [tf.cast(tf.size(each, tf.int64), tf.float64) for each in (inputs, mean)]
        return tf.fill(tf.shape(mean), sizes[0] / sizes[1])
    kept = tf.broadcast_to(tf.expand_dims(tf.cast(mask, tf.float64), -1), tf.shape(inputs))
    return tf.reshape(tf.reduce_sum(kept, axes), tf.shape(mean))
