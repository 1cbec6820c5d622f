"""Gradients of several backward passes, added up on the rank before they are exchanged."""

from typing import Any, Callable, List, Optional

import tensorflow as tf

from .ops import epoch_op


class LocalGradients:
    """Adds up lists of gradients, and has every n-th call act on the sum. Eager, in tf.function and in v1 graphs.

    A new epoch begins with the first of n calls: a worker that has come meanwhile does, and what was added up before may
    have been half exchanged.
    """

    def __init__(self, passes: int, averages: bool) -> None:
        self.passes = passes
        self._averages = averages
        self._sums: Optional[List[Any]] = None
        self._count: Any = None
        self._epoch: Any = None

    def run(self, gradients: List[Any], step: Callable[[List[Any]], Any]) -> Any:
        """Calls `step` with the gradients, or with their sum at every n-th call."""
        if self.passes == 1:
            return step(gradients)
        dense = [None if each is None else tf.convert_to_tensor(each) for each in gradients]
        if self._sums is None:
            self._make_variables(dense)
        assert self._sums is not None
        # Asked where the graph runs: no other place can assign to the variables of a v1 session.
        epoch = tf.cast(epoch_op(), tf.int64)
        is_known = tf.equal(self._epoch.read_value(), epoch)
        with tf.control_dependencies([tf.cond(is_known, lambda: tf.constant(False), lambda: self._begin(epoch))]):
            added = [total.assign_add(each) for total, each in zip(self._sums, dense) if each is not None]
            added.append(self._count.assign_add(1))
        with tf.control_dependencies(added):
            is_last = tf.equal(self._count.read_value() % self.passes, 0)
        return tf.cond(is_last, lambda: self._act(step), lambda: tf.constant(False))

    def _make_variables(self, dense: List[Any]) -> None:
        with tf.init_scope():
            self._sums = [
                None if each is None else tf.Variable(tf.zeros(each.shape, each.dtype), trainable=False)
                for each in dense
            ]
            self._count = tf.Variable(0, dtype=tf.int64, trainable=False)
            self._epoch = tf.Variable(-1, dtype=tf.int64, trainable=False)

    def _begin(self, epoch: tf.Tensor) -> tf.Tensor:
        with tf.control_dependencies([*self._clear(), self._count.assign(0), self._epoch.assign(epoch)]):
            return tf.constant(True)

    def _clear(self) -> List[Any]:
        return [each.assign(tf.zeros_like(each)) for each in self._sums or [] if each is not None]

    def _act(self, step: Callable[[List[Any]], Any]) -> tf.Tensor:
        sums = self._sums or []
        factor = self.passes if self._averages else 1
        given = [None if each is None else each.read_value() / tf.cast(factor, each.dtype) for each in sums]
        with tf.control_dependencies([each for each in given if each is not None]):
            applied = step(given)
        with tf.control_dependencies([applied] if isinstance(applied, (tf.Operation, tf.Tensor)) else []):
            cleared = self._clear()
        with tf.control_dependencies(cleared):
            return tf.constant(True)
