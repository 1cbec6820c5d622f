"""How the gradients of a step become those of all ranks: what the tapes and the optimizers share."""

from typing import Any, Iterable, List, Optional, Sequence, Set, Type

import tensorflow as tf

from .. import _ops
from ..process_sets import ProcessSet, global_process_set
from ..reduce_ops import Average, choose
from ._xla import is_compiled
from .compression import Compression
from .ops import allreduce, grouped_allreduce, size_op


def variable_of(variable: Any) -> Any:
    """The tf.Variable of a Keras 3 variable; anything else itself."""
    inner = getattr(variable, "value", None)
    return inner if isinstance(inner, tf.Variable) else variable


def key_of(variable: Any) -> Any:
    """A key for a variable: tensors and variables of TensorFlow have no hash."""
    variable = variable_of(variable)
    return variable.ref() if hasattr(variable, "ref") else id(variable)


def per_rank(gradient: Any, process_set: ProcessSet) -> Any:
    """As Horovod: the average over all ranks of a gradient that the others have as zero."""
    count = process_set.size() if tf.executing_eagerly() else size_op(process_set.process_set_id)
    if isinstance(gradient, tf.IndexedSlices):
        values = gradient.values / tf.cast(count, gradient.values.dtype)
        return tf.IndexedSlices(values, gradient.indices, gradient.dense_shape)
    return gradient / tf.cast(count, gradient.dtype)


class GradientExchange:
    """Reduces lists of gradients, each list in the order of the same variables on all ranks."""

    def __init__(
        self,
        compression: Type = Compression.none,
        sparse_as_dense: bool = False,
        op: int = Average,
        gradient_predivide_factor: float = 1.0,
        num_groups: int = 0,
        groups: Any = None,
        process_set: ProcessSet = global_process_set,
        scale_local_gradients: bool = True,
    ) -> None:
        """`groups`: a number of groups, or lists of variables whose gradients are reduced together; None: each by itself
        in a graph, where they overlap, and all together where one would wait for the other: eager, and compiled by XLA.

        ValueError: gradient_predivide_factor with another op than Average.
        """
        self._op = choose(op, None)
        _ops.check_factors(gradient_predivide_factor, 1.0)
        if gradient_predivide_factor != 1.0 and self._op != Average:
            raise ValueError("gradient_predivide_factor not supported with op != Average")
        self._factor = float(gradient_predivide_factor)
        self._compression = compression
        self._sparse_as_dense = sparse_as_dense
        self._groups = groups if groups is not None else (num_groups or None)
        self._process_set = process_set
        self._scales_local = scale_local_gradients
        self._local: Set[Any] = set()

    def register_local(self, variables: Iterable[Any]) -> None:
        """Variables that each rank has for itself: their gradients are not reduced."""
        self._local.update(key_of(variable) for variable in variables)

    def is_local(self, variable: Any) -> bool:
        """Whether the variable was registered."""
        return key_of(variable) in self._local

    def reduce(self, gradients: Sequence[Any], variables: Optional[Sequence[Any]] = None) -> List[Any]:
        """The gradients of all ranks; None stays None. Those of local variables stay this rank's, divided by the number of
        ranks unless the exchange was told otherwise."""
        outputs = list(gradients)
        variables = list(variables) if variables is not None else [None] * len(outputs)
        chosen = []
        for index, (gradient, variable) in enumerate(zip(outputs, variables)):
            if gradient is None:
                continue
            if variable is not None and self.is_local(variable):
                outputs[index] = per_rank(gradient, self._process_set) if self._scales_local else gradient
                continue
            if self._sparse_as_dense and isinstance(gradient, tf.IndexedSlices):
                outputs[index] = tf.convert_to_tensor(gradient)
            chosen.append(index)
        for part in self._parts(chosen, variables):
            for index, reduced in zip(part, self._reduced([outputs[index] for index in part])):
                outputs[index] = reduced
        return outputs

    def _parts(self, chosen: List[int], variables: Sequence[Any]) -> List[List[int]]:
        """The places of gradients that are reduced together."""
        if self._groups is None:
            is_together = tf.executing_eagerly() or is_compiled()
            return [chosen] if is_together and chosen else [[index] for index in chosen]
        if isinstance(self._groups, int):
            count = max(1, min(self._groups, len(chosen)))
            return [
                part
                for part in (chosen[i * len(chosen) // count : (i + 1) * len(chosen) // count] for i in range(count))
                if part
            ]
        places = {key_of(variables[index]): index for index in chosen if variables[index] is not None}
        parts = [[places[key_of(v)] for v in group if key_of(v) in places] for group in self._groups]
        grouped = {index for part in parts for index in part}
        return [part for part in parts if part] + [[index] for index in chosen if index not in grouped]

    def _reduced(self, gradients: List[Any]) -> List[Any]:
        terms = {
            "compression": self._compression,
            "op": self._op,
            "prescale_factor": 1.0 / self._factor,
            "postscale_factor": self._factor,
            "process_set": self._process_set,
        }
        if len(gradients) == 1:
            return [allreduce(gradients[0], **terms)]
        return grouped_allreduce(gradients, **terms)
