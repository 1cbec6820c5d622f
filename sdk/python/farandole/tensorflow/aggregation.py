"""Gradients of several backward passes, added up on the rank before they are exchanged."""

from typing import Any, Callable, List, Sequence

import tensorflow as tf

from .ops import epoch_op


def ops_of(made: Any) -> List[Any]:
    """The tensors and ops among what a function has returned."""
    found = [each.values if isinstance(each, tf.IndexedSlices) else each for each in tf.nest.flatten(made)]
    return [each for each in found if isinstance(each, (tf.Operation, tf.Tensor))]


def ran(call: Callable[[], Any]) -> tf.Tensor:
    """Has a branch of tf.cond call it: the branches return the same."""
    with tf.control_dependencies(ops_of(call())):
        return tf.constant(True)


def own_variable(value: Any, dtype: tf.DType) -> Any:
    """In a v1 graph one that is no part of checkpoints, and that each rank has for itself: a local one, as Horovod's."""
    if tf.executing_eagerly():
        return tf.Variable(value, trainable=False, dtype=dtype)
    local = [tf.compat.v1.GraphKeys.LOCAL_VARIABLES]
    return tf.compat.v1.Variable(value, trainable=False, dtype=dtype, collections=local, use_resource=True)


def _own(gradient: Any, total: Any, shows_sums: bool) -> tf.Tensor:
    """The result of a pass that only adds up. Without a gradient: zeros."""
    if shows_sums:
        return total.read_value()
    return tf.zeros_like(total) if gradient is None else tf.identity(gradient)


class LocalGradients:
    """Adds up lists of gradients, and has every n-th call act on the sum. Eager, in tf.function and in v1 graphs.

    A new epoch begins with the first of n calls: a worker that has come meanwhile does, and what was added up before may
    have been half exchanged.
    """

    def __init__(self, passes: int, averages: bool) -> None:
        if passes < 1:
            raise ValueError(f"backward_passes_per_step is a number of at least 1, not {passes!r}")
        self.passes = passes
        self.count: Any = None
        """A variable: how many calls there were since the last one that acted."""
        self.sums: List[Any] = []
        """Variables, None where a gradient is None."""
        self._averages = averages
        self._epoch: Any = None

    def run(self, gradients: List[Any], step: Callable[[List[Any]], Any], skip: Callable[[], Any]) -> Any:
        """Calls `step` with the sum of the gradients at every n-th call, and `skip` at the others."""
        if self.passes == 1:
            return step(gradients)
        is_last = self._add(self._dense(gradients))

        def take() -> Any:
            # With a tensor that waits for what is done before: `step` may return none.
            return self._take(lambda sums: [step(sums), tf.constant(True)])

        return tf.cond(is_last, lambda: ran(take), lambda: ran(skip))

    def aggregate(
        self, gradients: Sequence[Any], reduce: Callable[[List[Any]], List[Any]], shows_sums: bool = False
    ) -> List[Any]:
        """At every n-th call what `reduce` makes of the sum of the gradients; at the others the given gradients, or, where
        `shows_sums` is set, their sum up to now. None stays None."""
        if self.passes == 1:
            return reduce(list(gradients))
        outputs = self._dense(gradients)
        is_last = self._add(outputs)
        # A variable's gradient may have come in an earlier pass only.
        places = [index for index, each in enumerate(self.sums) if each is not None]

        def reduced() -> List[Any]:
            made = self._take(reduce)
            return [made[index] for index in places]

        def own() -> List[Any]:
            return [_own(outputs[index], self.sums[index], shows_sums) for index in places]

        with tf.control_dependencies([is_last]):
            for index, each in zip(places, tf.cond(is_last, reduced, own)):
                outputs[index] = each
        return outputs

    def apply(self, gradients: Sequence[Any], step: Callable[[], Any], skip: Callable[[], Any]) -> Any:
        """Calls `step` where aggregate(), whose results `gradients` were made of, has acted, and else `skip`."""
        if self.passes == 1:
            return step()
        if self.count is None:
            raise RuntimeError("backward_passes_per_step > 1 needs compute_gradients() before apply_gradients()")
        with tf.control_dependencies(ops_of(list(gradients))):
            has_acted = tf.equal(self.count.read_value(), 0)
        return tf.cond(has_acted, lambda: ran(step), lambda: ran(skip))

    def initialize_in_keras_session(self) -> None:
        """In v1's graphs, where a session of Keras's gives their first values to Keras's own variables only."""
        with tf.init_scope():
            if self.count is None or tf.executing_eagerly():
                return
            session = tf.compat.v1.keras.backend.get_session(op_input_list=())
            variables = [each for each in [*self.sums, self.count, self._epoch] if each is not None]
            session.run([each.initializer for each in variables])

    @staticmethod
    def _dense(gradients: Sequence[Any]) -> List[Any]:
        return [None if each is None else tf.convert_to_tensor(each) for each in gradients]

    def _add(self, dense: List[Any]) -> tf.Tensor:
        """Adds them to the sums; whether this is the last pass."""
        self._make_variables(dense)
        # Asked where the graph runs: no other place can assign to the variables of a v1 session.
        epoch = tf.cast(epoch_op(), tf.int64)
        is_known = tf.equal(self._epoch.read_value(), epoch)
        with tf.control_dependencies([tf.cond(is_known, lambda: tf.constant(False), lambda: self._begin(epoch))]):
            pairs = [(total, each) for total, each in zip(self.sums, dense) if each is not None]
            added = [total.assign_add(each, read_value=False) for total, each in [*pairs, (self.count, 1)]]
        with tf.control_dependencies(ops_of(added)):
            return tf.equal(self.count.read_value(), self.passes)

    def _make_variables(self, dense: List[Any]) -> None:
        """Those that are missing: a gradient that was None before, or of a new variable, gets one when it comes."""
        with tf.init_scope():
            if self.count is None:
                self.count = own_variable(0, tf.int64)
                self._epoch = own_variable(-1, tf.int64)
            self.sums.extend([None] * (len(dense) - len(self.sums)))
            for index, each in enumerate(dense):
                if each is not None and self.sums[index] is None:
                    self.sums[index] = own_variable(tf.zeros(each.shape, each.dtype), each.dtype)

    def _begin(self, epoch: tf.Tensor) -> tf.Tensor:
        with tf.control_dependencies(ops_of([*self._clear(), self._epoch.assign(epoch, read_value=False)])):
            return tf.constant(True)

    def _clear(self) -> List[Any]:
        pairs = [(each, tf.zeros_like(each)) for each in self.sums if each is not None]
        return [variable.assign(value, read_value=False) for variable, value in [*pairs, (self.count, 0)]]

    def _take(self, act: Callable[[List[Any]], Any]) -> Any:
        """Calls `act` with the sums, and returns its results. The sums are zero before: what fails is not added to again."""
        given = [None if each is None else each.read_value() for each in self.sums]
        if self._averages:
            given = [None if each is None else each / tf.cast(self.passes, each.dtype) for each in given]
        with tf.control_dependencies(ops_of(given)):
            cleared = self._clear()
        with tf.control_dependencies(ops_of(cleared)):
            return act([None if each is None else tf.identity(each) for each in given])
