"""Batch normalization by the statistics of all ranks."""

from typing import Any, Tuple

import tensorflow as tf

from ..process_sets import ProcessSet, global_process_set
from ..reduce_ops import Average
from .ops import grouped_allreduce


class SyncBatchNormalization(tf.keras.layers.BatchNormalization):
    """tf.keras.layers.BatchNormalization whose mean and variance are those of the batches of all ranks, each of which counts
    alike. Works with Keras 3 and with tf-keras."""

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
        squares = variance + tf.square(mean)
        mean, squares = grouped_allreduce([mean, squares], op=Average, process_set=self._process_set)
        return mean, squares - tf.square(mean)
