"""Gradients of several backward passes, added up on the rank before they are exchanged."""

from typing import Any, Callable, List, Optional

import tensorflow as tf


class LocalGradients:
    """Adds up lists of gradients, and has every n-th call act on the sum. Eager, in tf.function and in v1 graphs."""

    def __init__(self, passes: int, averages: bool) -> None:
        self.passes = passes
        self._averages = averages
        self._sums: Optional[List[Any]] = None
        self._count: Any = None

    def run(self, gradients: List[Any], step: Callable[[List[Any]], Any]) -> Any:
        """Calls `step` with the gradients, or with their sum at every n-th call."""
        if self.passes == 1:
            return step(gradients)
        dense = [None if each is None else tf.convert_to_tensor(each) for each in gradients]
        if self._sums is None:
            self._make_variables(dense)
        assert self._sums is not None
        added = [total.assign_add(each) for total, each in zip(self._sums, dense) if each is not None]
        with tf.control_dependencies([*added, self._count.assign_add(1)]):
            is_last = tf.equal(self._count.read_value() % self.passes, 0)
        return tf.cond(is_last, lambda: self._act(step), lambda: tf.constant(False))

    def _make_variables(self, dense: List[Any]) -> None:
        with tf.init_scope():
            self._sums = [
                None if each is None else tf.Variable(tf.zeros(each.shape, each.dtype), trainable=False)
                for each in dense
            ]
            self._count = tf.Variable(0, dtype=tf.int64, trainable=False)

    def _act(self, step: Callable[[List[Any]], Any]) -> tf.Tensor:
        sums = self._sums or []
        factor = self.passes if self._averages else 1
        given = [None if each is None else each.read_value() / tf.cast(factor, each.dtype) for each in sums]
        with tf.control_dependencies([each for each in given if each is not None]):
            applied = step(given)
        with tf.control_dependencies([applied] if isinstance(applied, (tf.Operation, tf.Tensor)) else []):
            cleared = [each.assign(tf.zeros_like(each)) for each in sums if each is not None]
        with tf.control_dependencies(cleared):
            return tf.constant(True)
