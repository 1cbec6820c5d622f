"""The adding up of gradients over several backward passes by Horovod's names, for optimizers of a program's own."""

from typing import Any, Callable, Dict, List, Sequence

import tensorflow as tf

from ..process_sets import ProcessSet, global_process_set
from .aggregation import LocalGradients
from .gradient_exchange import key_of, per_rank, variable_of

AllreduceFunction = Callable[[List[Any], List[Any]], Sequence[Any]]
"""Takes gradients and their variables, and returns the gradients of all ranks."""


def apply_op_to_not_none_tensors(tensor_op: Callable[..., Any], tensors: Sequence[Any], *args: Any) -> List[Any]:
    """The function's result for each tensor; None stays None."""
    return [None if tensor is None else tensor_op(tensor, *args) for tensor in tensors]


def get_not_none_from_list(tensor_list: Sequence[Any]) -> List[Any]:
    """The list without None."""
    return [tensor for tensor in tensor_list if tensor is not None]


class _Aggregation:
    """The part that both helpers share."""

    _shows_sums = False

    def __init__(
        self,
        backward_passes_per_step: int,
        allreduce_func: AllreduceFunction,
        sparse_as_dense: bool,
        average_aggregated_gradients: bool,
        process_set: ProcessSet = global_process_set,
        scale_local_gradients: bool = True,
    ) -> None:
        """`allreduce_func`: as AllreduceFunction. ValueError: backward_passes_per_step is not above 0."""
        if backward_passes_per_step <= 0:
            raise ValueError("backward_passes_per_step must be > 0")
        self.backward_passes_per_step = backward_passes_per_step
        self.average_aggregated_gradients = average_aggregated_gradients
        self.sparse_as_dense = sparse_as_dense
        self.process_set = process_set
        self.scale_local_gradients = scale_local_gradients
        self._allreduce = allreduce_func
        self._local_vars: Dict[Any, Any] = {}
        self._gradients = LocalGradients(backward_passes_per_step, average_aggregated_gradients)

    @property
    def counter(self) -> Any:
        """The variable that counts the passes since the last reduction; None before the first pass."""
        return self._gradients.count

    def register_local_var(self, var: Any) -> None:
        """The gradient of this variable stays this rank's own."""
        self._local_vars[key_of(var)] = var

    def compute_gradients(self, grads: Sequence[Any], vars: Sequence[Any]) -> List[Any]:
        """Adds up the gradients. At every n-th call: those of all ranks. tf.IndexedSlices become dense.

        ValueError: there are tf.IndexedSlices, and `sparse_as_dense` is not set.
        """
        if not self.sparse_as_dense and any(isinstance(grad, tf.IndexedSlices) for grad in grads):
            raise ValueError(
                "IndexedSlices are not supported when `backward_passes_per_step` > 1 and `sparse_as_dense` is False."
            )
        return self._gradients.aggregate(list(grads), lambda sums: self._reduce(sums, vars), self._shows_sums)

    def _reduce(self, sums: List[Any], variables: Sequence[Any]) -> List[Any]:
        outputs = list(sums)
        local = [index for index, variable in enumerate(variables) if key_of(variable) in self._local_vars]
        shared = [index for index in range(len(outputs)) if index not in local]
        reduced = self._allreduce([sums[index] for index in shared], [variables[index] for index in shared])
        for index, gradient in zip(shared, reduced):
            outputs[index] = gradient
        for index in local if self.scale_local_gradients else []:
            outputs[index] = None if sums[index] is None else per_rank(sums[index], self.process_set)
        return outputs

    def apply_gradients(self, apply_grads_closure: Callable[[], Any], optimizer: Any, *args: Any, **kwargs: Any) -> Any:
        """Calls the closure after the n-th compute_gradients(). At the others the optimizer's `iterations`, and the
        `global_step` among the arguments, go on by one. The first of `args` are the pairs of gradients and variables."""
        global_step = kwargs.get("global_step")

        def count() -> List[Any]:
            counters = [getattr(optimizer, "iterations", None), global_step]
            return [variable_of(each).assign_add(1, read_value=False) for each in counters if each is not None]

        return self._gradients.apply([gradient for gradient, _ in args[0]], apply_grads_closure, count)


class LocalGradientAggregationHelper(_Aggregation):
    """Adds up gradients, and has every n-th call of compute_gradients() reduce them over the ranks. For graphs; at the
    other calls compute_gradients() returns the gradients that it is given."""

    _OPTIMIZER_TYPE_KERAS = "optimizer_type_keras"
    _OPTIMIZER_TYPE_LEGACY = "optimizer_type_legacy"

    def __init__(
        self,
        backward_passes_per_step: int,
        allreduce_func: AllreduceFunction,
        sparse_as_dense: bool,
        average_aggregated_gradients: bool,
        rank: int,
        optimizer_type: str,
        process_set: ProcessSet = global_process_set,
        scale_local_gradients: bool = True,
        name: str = "",
    ) -> None:
        """`allreduce_func`: as AllreduceFunction. Of the Keras type, the variables get their first values in Keras's session.
        ValueError: backward_passes_per_step is not above 0."""
        super().__init__(
            backward_passes_per_step,
            allreduce_func,
            sparse_as_dense,
            average_aggregated_gradients,
            process_set,
            scale_local_gradients,
        )
        self.rank, self.optimizer_type, self.name = rank, optimizer_type, name

    @property
    def locally_aggregated_grads(self) -> List[Any]:
        """The variables of the sums: one for each gradient that is not None."""
        return get_not_none_from_list(self._gradients.sums)

    def compute_gradients(self, grads: Sequence[Any], vars: Sequence[Any]) -> List[Any]:
        """See the base."""
        is_first = self.counter is None
        made = super().compute_gradients(grads, vars)
        if is_first and self.optimizer_type == self._OPTIMIZER_TYPE_KERAS:
            self._gradients.initialize_in_keras_session()
        return made


class LocalGradientAggregationHelperEager(_Aggregation):
    """As LocalGradientAggregationHelper, for eager code and tf.function; at the calls that reduce nothing,
    compute_gradients() returns the sums up to now."""

    _shows_sums = True

    @property
    def locally_aggregated_grads(self) -> Dict[int, Any]:
        """The variables of the sums, by the places of their gradients."""
        return {index: each for index, each in enumerate(self._gradients.sums) if each is not None}
