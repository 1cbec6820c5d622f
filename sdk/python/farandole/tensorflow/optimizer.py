"""Optimizers that apply the gradients of all ranks."""

from typing import Any, Callable, Iterable, List, Optional, Sequence, Type

import tensorflow as tf

from .._keras import derived
from .._sections import marked
from ..process_sets import ProcessSet, global_process_set
from ..reduce_ops import Adasum, Average
from .aggregation import LocalGradients
from .compression import Compression
from .gradient_exchange import GradientExchange, variable_of
from .v1_optimizers import CombinedSteps, ReducedGradients


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
    With Adasum each rank's v1 optimizer makes n steps of its own, and what they have changed is combined; of Keras's
    optimizers the gradients are.
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
    local = LocalGradients(backward_passes_per_step, average_aggregated_gradients)
    if op == Adasum and average_aggregated_gradients:
        raise ValueError("Adasum does not support average_aggregated_gradients == True")
    if isinstance(optimizer, tf.compat.v1.train.Optimizer):
        if op == Adasum:
            return CombinedSteps(optimizer, exchange, backward_passes_per_step, name)
        return ReducedGradients(optimizer, exchange, local, name)
    methods = derived.methods_for(optimizer)
    if not methods:
        raise ValueError(f"DistributedOptimizer needs an optimizer of TensorFlow or Keras, not {optimizer!r}")
    return derived.derive(optimizer, KerasExchange(exchange, local), methods)


class KerasExchange:
    """How optimizers of Keras exchange gradients on TensorFlow: a derived.Exchange."""

    def __init__(self, exchange: GradientExchange, local: LocalGradients) -> None:
        exchange.keep_presence()
        self._exchange = exchange
        self._local = local

    def register_local(self, variables: Iterable[Any]) -> None:
        """Variables that each rank has for itself."""
        self._exchange.register_local(variables)

    def is_local(self, variable: Any) -> bool:
        """See derived.Exchange."""
        return self._exchange.is_local(variable)

    def skip_together(self) -> None:
        """See derived.Exchange."""
        self._exchange.skips_together = True

    def run(
        self,
        optimizer: Any,
        gradients: List[Any],
        variables: Sequence[Any],
        step: Callable[[List[Any]], Any],
        listed: Sequence[int],
    ) -> Any:
        """Calls `step` with the gradients of all ranks, at every n-th call where the passes are n. In eager code it is the
        section "step" of the program."""
        with marked("step", tf.executing_eagerly()):
            return self._run(optimizer, gradients, variables, step, listed)

    def _run(
        self,
        optimizer: Any,
        gradients: List[Any],
        variables: Sequence[Any],
        step: Callable[[List[Any]], Any],
        listed: Sequence[int],
    ) -> Any:
        if self._local.passes == 1:
            return step(self._exchange.reduce(gradients, variables, listed))
        with tf.init_scope():  # what tf.cond runs cannot make variables
            if not getattr(optimizer, "built", getattr(optimizer, "_built", True)):
                optimizer.build(list(variables))
            counter = variable_of(derived.counter_of(optimizer))
        is_first = self._local.count is None
        made = self._local.run(
            self._exchange.complete(gradients, variables, listed),
            lambda given: step(self._exchange.reduce(given, variables, listed)),
            lambda: counter.assign_add(1, read_value=False),
        )
        if is_first:
            self._local.initialize_in_keras_session()
        return made

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
