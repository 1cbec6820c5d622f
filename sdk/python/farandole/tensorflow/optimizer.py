"""Optimizers that apply the gradients of all ranks."""

from typing import Any, Dict, List, Optional, Type

import tensorflow as tf

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
    kind = type(optimizer)
    if hasattr(kind, "apply") and hasattr(kind, "from_config"):
        return _derive(optimizer, exchange, local, {"apply": _apply})
    if hasattr(kind, "apply_gradients") and hasattr(kind, "from_config"):
        return _derive(optimizer, exchange, local, {"apply_gradients": _apply_gradients})
    raise ValueError(f"DistributedOptimizer needs an optimizer of TensorFlow or Keras, not {optimizer!r}")


def _derive(optimizer: Any, exchange: GradientExchange, local: LocalGradients, methods: Dict[str, Any]) -> Any:
    """An optimizer of the same name and module, so that a model saved with it loads where there is no farandole."""
    base = type(optimizer)
    members = {**methods, "register_local_var": _register_local_var, "__module__": base.__module__}
    made = type(base.__name__, (base,), members).from_config(optimizer.get_config())
    # Not of those attributes that Keras keeps track of and saves.
    object.__setattr__(made, "_farandole", (base, exchange, local))
    return made


def _register_local_var(self: Any, variable: Any) -> None:
    """The gradient of this variable stays this rank's own."""
    self._farandole[1].register_local([variable])


def _apply(self: Any, grads: Any, trainable_variables: Any = None) -> Any:
    """Of Keras 3."""
    base, exchange, local = self._farandole
    variables = self._trainable_variables if trainable_variables is None else list(trainable_variables)
    if not self.built:
        with tf.init_scope():
            self.build(variables)

    def step(gradients: List[Any]) -> None:
        base.apply(self, exchange.reduce(gradients, variables), trainable_variables)

    return local.run(list(grads), step)


def _apply_gradients(self: Any, grads_and_vars: Any, *arguments: Any, **options: Any) -> Any:
    """Of tf-keras, also of its legacy optimizers."""
    base, exchange, local = self._farandole
    gradients, variables = zip(*grads_and_vars)

    def step(given: List[Any]) -> None:
        base.apply_gradients(self, zip(exchange.reduce(given, variables), variables), *arguments, **options)

    if hasattr(self, "build") and not getattr(self, "_built", True):
        with tf.init_scope():
            self.build(list(variables))
    return local.run(list(gradients), step)


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
