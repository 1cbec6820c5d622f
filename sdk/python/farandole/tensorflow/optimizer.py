"""Optimizers that apply the gradients of all ranks."""

from typing import Any, Callable, Iterable, List, Optional, Sequence, Type

import tensorflow as tf

from .._keras import derived
from ..process_sets import ProcessSet, global_process_set
from ..reduce_ops import Average
from .aggregation import LocalGradients
from .compression import Compression
from .gradient_exchange import GradientExchange


def DistributedOptimizer(
    optimizer: Any,
    name: Optional[str] = None,
    use_locking: bool = False,
    device_dense: str = "",
    device_sparse: str = "",
    compression: Type = Compression.none,
    sparse_as_dense: bool = False,
    backward_passes_per_step: int = 1,
    op: int = Average,
    gradient_predivide_factor: float = 1.0,
    average_aggregated_gradients: bool = False,
    num_groups: int = 0,
    groups: Any = None,
    process_set: ProcessSet = global_process_set,
    scale_local_gradients: bool = True,
) -> Any:
    """The optimizer, a v1, tf-keras or Keras 3 one, which reduces gradients over the ranks before it applies them.

    With `backward_passes_per_step` n, a rank adds up the gradients of n calls, and the last of them reduces and applies
    the sum (with `average_aggregated_gradients` the mean). register_local_var(variable) keeps a variable's gradient this rank's own.
    ValueError: it is none of these optimizers.
    """
    del use_locking, device_dense, device_sparse
    exchange = GradientExchange(
        compression,
        sparse_as_dense,
        op,
        gradient_predivide_factor,
        num_groups,
        groups,
        process_set,
        scale_local_gradients,
    )
    if backward_passes_per_step < 1:
        raise ValueError(f"backward_passes_per_step is a number of at least 1, not {backward_passes_per_step!r}")
    local = LocalGradients(backward_passes_per_step, average_aggregated_gradients)
    if isinstance(optimizer, tf.compat.v1.train.Optimizer):
        return _V1Optimizer(optimizer, exchange, local, name)
    methods = derived.methods_for(optimizer)
    if not methods:
        raise ValueError(f"DistributedOptimizer needs an optimizer of TensorFlow or Keras, not {optimizer!r}")
    return derived.derive(optimizer, KerasExchange(exchange, local), methods)


class KerasExchange:
    """How optimizers of Keras exchange gradients on TensorFlow: a derived.Exchange."""

    def __init__(self, exchange: GradientExchange, local: LocalGradients) -> None:
        self._exchange = exchange
        self._local = local

    def register_local(self, variables: Iterable[Any]) -> None:
        """Variables that each rank has for itself."""
        self._exchange.register_local(variables)

    def run(
        self, optimizer: Any, gradients: List[Any], variables: Sequence[Any], step: Callable[[List[Any]], Any]
    ) -> Any:
        """Calls `step` with the gradients of all ranks, at every n-th call where the passes are n."""
        if self._local.passes > 1 and not getattr(optimizer, "built", getattr(optimizer, "_built", True)):
            with tf.init_scope():  # what tf.cond runs cannot
                optimizer.build(list(variables))
        return self._local.run(gradients, lambda given: step(self._exchange.reduce(given, variables)))

    def run_stateless(
        self,
        optimizer: Any,
        gradients: List[Any],
        variables: Sequence[Any],
        step: Callable[[List[Any]], Any],
        unchanged: Any,
    ) -> Any:
        """As run, without variables that remember. NotImplementedError: passes are to be added up."""
        del optimizer, unchanged
        if self._local.passes > 1:
            raise NotImplementedError("backward_passes_per_step on TensorFlow needs apply(), not stateless_apply()")
        return step(self._exchange.reduce(gradients, variables))


class _V1Optimizer(tf.compat.v1.train.Optimizer):
    """Wraps one of v1: its gradients are reduced where they are computed, as Horovod's programs expect."""

    def __init__(self, optimizer: Any, exchange: GradientExchange, local: LocalGradients, name: Optional[str]) -> None:
        super().__init__(name=name or f"Distributed{type(optimizer).__name__}", use_locking=False)
        self._optimizer, self._exchange, self._local = optimizer, exchange, local

    def register_local_var(self, variable: Any) -> None:
        """The gradient of this variable stays this rank's own."""
        self._exchange.register_local([variable])

    def compute_gradients(self, *arguments: Any, **options: Any) -> Any:
        """As the optimizer's; the gradients of all ranks, unless they are added up first."""
        found = self._optimizer.compute_gradients(*arguments, **options)
        if self._local.passes > 1:
            return found
        gradients, variables = zip(*found)
        return list(zip(self._exchange.reduce(gradients, variables), variables))

    def apply_gradients(self, grads_and_vars: Any, *arguments: Any, **options: Any) -> Any:
        """As the optimizer's."""
        if self._local.passes == 1:
            return self._optimizer.apply_gradients(grads_and_vars, *arguments, **options)
        gradients, variables = zip(*grads_and_vars)

        def step(given: List[Any]) -> Any:
            reduced = self._exchange.reduce(given, variables)
            return self._optimizer.apply_gradients(zip(reduced, variables), *arguments, **options)

        return self._local.run(list(gradients), step)

    def get_slot(self, *arguments: Any, **options: Any) -> Any:
        """As the optimizer's."""
        return self._optimizer.get_slot(*arguments, **options)

    def get_slot_names(self, *arguments: Any, **options: Any) -> Any:
        """As the optimizer's."""
        return self._optimizer.get_slot_names(*arguments, **options)

    def variables(self, *arguments: Any, **options: Any) -> Any:
        """As the optimizer's."""
        return self._optimizer.variables(*arguments, **options)
