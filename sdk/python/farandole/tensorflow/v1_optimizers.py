"""Optimizers of tf.compat.v1 that work with those of the other ranks: in graphs and sessions, in tf.function, and eager."""

from typing import Any, Callable, List, Optional, Sequence, Tuple

import tensorflow as tf

from .._sections import marked
from .aggregation import LocalGradients, ops_of, own_variable, ran
from .gradient_exchange import GradientExchange
from .ops import epoch_op


class _Wrapping(tf.compat.v1.train.Optimizer):
    """An optimizer around another one, whose slots and variables are shown as its own."""

    def __init__(self, optimizer: Any, exchange: GradientExchange, name: str) -> None:
        super().__init__(name=name, use_locking=False)
        exchange.keep_presence()
        self._optimizer, self._exchange = optimizer, exchange

    def register_local_var(self, variable: Any) -> None:
        """The gradient of this variable stays this rank's own."""
        self._exchange.register_local([variable])

    def get_slot(self, *arguments: Any, **options: Any) -> Any:
        """As the optimizer's."""
        return self._optimizer.get_slot(*arguments, **options)

    def get_slot_names(self, *arguments: Any, **options: Any) -> Any:
        """As the optimizer's."""
        return self._optimizer.get_slot_names(*arguments, **options)

    def variables(self, *arguments: Any, **options: Any) -> Any:
        """As the optimizer's."""
        return self._optimizer.variables(*arguments, **options)


class ReducedGradients(_Wrapping):
    """Its gradients are reduced where they are computed, as Horovod's programs expect."""

    def __init__(self, optimizer: Any, exchange: GradientExchange, local: LocalGradients, name: Optional[str]) -> None:
        super().__init__(optimizer, exchange, name or f"Distributed{type(optimizer).__name__}")
        self._local = local

    def compute_gradients(self, *arguments: Any, **options: Any) -> Any:
        """As the optimizer's; the gradients of all ranks. With several passes: those of the sums at every n-th call, and
        this rank's own at the others, whose apply_gradients() applies nothing. In eager code it is the section "backward" of
        the program (docs/diagnosis.md)."""
        with marked("backward", tf.executing_eagerly()):
            gradients, variables = zip(*self._optimizer.compute_gradients(*arguments, **options))
        given = self._exchange.complete(gradients, variables) if self._local.passes > 1 else gradients
        reduced = self._local.aggregate(given, lambda given: self._exchange.reduce(given, variables))
        return list(zip(reduced, variables))

    def apply_gradients(self, grads_and_vars: Any, global_step: Any = None, name: Optional[str] = None) -> Any:
        """As the optimizer's, at every n-th call. `global_step` counts all calls. In eager code it is the section "step" of
        the program (docs/diagnosis.md)."""
        pairs = list(grads_and_vars)

        def count() -> List[Any]:
            return [] if global_step is None else [global_step.assign_add(1, read_value=False)]

        def step() -> Any:
            return self._optimizer.apply_gradients(pairs, global_step=global_step, name=name)

        with marked("step", tf.executing_eagerly()):
            return self._local.apply([gradient for gradient, _ in pairs], step, count)


def _copied(variable: Any) -> tf.Tensor:
    """A variable's value, which no later step changes."""
    if tf.executing_eagerly() or hasattr(variable, "handle"):
        return variable.read_value()  # a write into memory that is shared copies it first
    return tf.raw_ops.DeepCopy(x=variable)  # of a reference variable a read is the variable's own memory


class CombinedSteps(_Wrapping):
    """With op=Adasum: each rank makes steps of its own, and what they have changed is combined.

    Adasum weighs the changes of each variable, which hold learning rate, momentum and so on, and not gradients (Maleki et
    al., 2021). So the learning rate needs no scaling by the number of ranks.
    """

    def __init__(self, optimizer: Any, exchange: GradientExchange, passes: int, name: Optional[str]) -> None:
        """`passes`: how many steps go before what they have changed together is combined."""
        super().__init__(optimizer, exchange, name or f"DistributedDelta{type(optimizer).__name__}")
        self._passes = passes
        self._starts: List[Any] = []
        self._count: Any = None
        self._epoch: Any = None

    def compute_gradients(self, *arguments: Any, **options: Any) -> Any:
        """As the optimizer's: this rank's own. A section as ReducedGradients'."""
        with marked("backward", tf.executing_eagerly()):
            return self._optimizer.compute_gradients(*arguments, **options)

    def apply_gradients(self, grads_and_vars: Any, global_step: Any = None, name: Optional[str] = None) -> Any:
        """Makes this rank's step, and after every n-th one replaces what the n have changed by all ranks' changes combined.
        A section as ReducedGradients'."""
        with marked("step", tf.executing_eagerly()):
            return self._step(grads_and_vars, global_step, name)

    def _step(self, grads_and_vars: Any, global_step: Any, name: Optional[str]) -> Any:
        pairs = list(grads_and_vars)
        # Also those without a gradient, which another rank, or another of the steps, may have.
        shared = [
            variable
            for gradient, variable in pairs
            if not self._exchange.is_local(variable) and (gradient is not None or variable.dtype.base_dtype.is_floating)
        ]
        given = ops_of([gradient for gradient, _ in pairs])

        def step() -> Any:
            return self._optimizer.apply_gradients(pairs, global_step=global_step, name=name)

        if self._passes > 1:
            return self._step_of_several(shared, given, step)
        starts = [_copied(variable) for variable in shared]
        with tf.control_dependencies([*starts, *given]):
            stepped = step()
        with tf.control_dependencies(ops_of(stepped)):
            combined = self._combine(shared, starts)
        return None if tf.executing_eagerly() else tf.group(*combined)

    def _combine(self, variables: Sequence[Any], starts: Sequence[tf.Tensor]) -> List[Any]:
        """The ops that give the variables their values at the start and all ranks' changes since."""
        changes = [variable.read_value() - start for variable, start in zip(variables, starts)]
        combined = self._exchange.reduce(changes, variables)
        values = [start + change for start, change in zip(starts, combined)]
        return [variable.assign(value, read_value=False) for variable, value in zip(variables, values)]

    def _step_of_several(self, variables: List[Any], given: List[Any], step: Callable[[], Any]) -> Any:
        if self._count is None:
            with tf.init_scope():
                self._starts = [
                    own_variable(tf.zeros(v.shape, v.dtype.base_dtype), v.dtype.base_dtype) for v in variables
                ]
                self._count, self._epoch = own_variable(0, tf.int64), own_variable(-1, tf.int64)
        # A new epoch begins with the first of the steps, as a worker that has come meanwhile does.
        epoch = tf.cast(epoch_op(), tf.int64)
        is_old = tf.logical_and(tf.equal(self._epoch.read_value(), epoch), self._count.read_value() > 0)
        begun = tf.cond(is_old, lambda: ran(lambda: None), lambda: ran(lambda: self._begin(variables, epoch)))
        with tf.control_dependencies([begun, *given]):
            stepped = step()
        with tf.control_dependencies(ops_of(stepped)):
            counted = self._count.assign_add(1, read_value=False)
        with tf.control_dependencies(ops_of(counted)):
            is_last = tf.equal(self._count.read_value(), self._passes)
        return tf.cond(is_last, lambda: ran(lambda: self._end(variables)), lambda: ran(lambda: None))

    def _begin(self, variables: Sequence[Any], epoch: tf.Tensor) -> List[Any]:
        values: List[Tuple[Any, Any]] = [(self._count, 0), (self._epoch, epoch)]
        values += zip(self._starts, (_copied(variable) for variable in variables))
        return [variable.assign(value, read_value=False) for variable, value in values]

    def _end(self, variables: Sequence[Any]) -> List[Any]:
        counted = self._count.assign(0, read_value=False)  # also where the steps cannot be combined
        with tf.control_dependencies(ops_of(counted)):
            return self._combine(variables, [start.read_value() for start in self._starts])
