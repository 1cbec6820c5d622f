"""How the gradients of a step become those of all ranks: what the tapes and the optimizers share."""

import contextlib
from typing import Any, Dict, Iterable, List, Optional, Sequence, Set, Tuple, Type

import tensorflow as tf

from .. import _ops
from .._keras.owners import fitting_model
from .._presence import Plan, Presence, Variables, is_disagreement
from ..process_sets import ProcessSet, global_process_set
from ..reduce_ops import Adasum, Average, Sum, choose
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


def _zeros(variable: Any, kind: str) -> Any:
    """As the gradient of a variable, dense or with indices of this element type. ValueError: TensorFlow does not know its
    shape."""
    variable = variable_of(variable)
    if not kind:
        return tf.zeros_like(variable)
    if not variable.shape.is_fully_defined():
        raise ValueError(
            f"{variable.name}: this rank has no gradient, and the variable's shape {variable.shape} is not known"
        )
    nothing = tf.zeros([0, *variable.shape[1:]], variable.dtype)
    return tf.IndexedSlices(nothing, tf.zeros([0], kind), tf.constant(variable.shape.as_list(), kind))


def _spoiled(gradient: Any, others: Sequence[Any]) -> Any:
    """The gradient; not a number, and so that of all ranks, where one of the others is not finite."""
    are_finite = [tf.reduce_all(tf.math.is_finite(getattr(each, "values", each))) for each in others]
    spoil = tf.cast(tf.where(tf.reduce_all(are_finite), 0.0, float("nan")), gradient.dtype)
    if not isinstance(gradient, tf.IndexedSlices):
        return gradient + spoil
    # In a row of its own, as there may be none.
    row = tf.fill(tf.concat([[1], tf.shape(gradient.values)[1:]], 0), spoil)
    indices = tf.concat([gradient.indices, tf.zeros([1], gradient.indices.dtype)], 0)
    return tf.IndexedSlices(tf.concat([gradient.values, row], 0), indices, gradient.dense_shape)


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
        self._presence: Optional[Presence] = None
        self.skips_together = False
        """See derived.Exchange.skip_together."""

    def keep_presence(self) -> None:
        """To be called for an optimizer, which lives for many steps: its ranks compare in the first one which gradients they
        have, where that is run by all of them. Those of a tape do where they find that they differ, outside of functions."""
        self._presence = Presence(self._process_set)

    def register_local(self, variables: Iterable[Any]) -> None:
        """Variables that each rank has for itself: their gradients are not reduced."""
        self._local.update(key_of(variable) for variable in variables)

    def is_local(self, variable: Any) -> bool:
        """Whether the variable was registered."""
        return key_of(variable) in self._local

    # AutoGraph is not to rewrite it, and all that it calls.
    @tf.autograph.experimental.do_not_convert
    def reduce(
        self,
        gradients: Sequence[Any],
        variables: Optional[Sequence[Any]] = None,
        listed: Optional[Sequence[int]] = None,
    ) -> List[Any]:
        """The gradients of all ranks; None stays None where no rank has one. Those of local variables stay this rank's,
        divided by the number of ranks unless the exchange was told otherwise. `listed`: as derived.Exchange's; None: all.
        ValueError: a rank has a gradient of a variable that another one does not have."""
        outputs = list(gradients)
        variables = list(variables) if variables is not None else [None] * len(outputs)
        chosen = self._choose(outputs, variables, listed)
        if chosen is None:
            return outputs
        known, presence, is_eager = (
            Variables(variables, listed, chosen),
            self._presence or Presence(self._process_set),
            tf.executing_eagerly(),
        )
        compiled_for = self._ask_once(known, outputs, chosen)
        plan = presence.plan(known, chosen, is_eager, compiled_for=compiled_for)
        try:
            return self._reduce_planned(plan, outputs, variables)
        except tf.errors.FailedPreconditionError as error:
            facts = self._facts(known, outputs, chosen)
            if not is_eager or not is_disagreement(error) or not presence.ask(*facts, refused=plan.mark):
                raise
        return self._reduce_planned(presence.plan(known, chosen, is_eager), outputs, variables)

    @tf.autograph.experimental.do_not_convert
    def complete(
        self, gradients: Sequence[Any], variables: Sequence[Any], listed: Optional[Sequence[int]] = None
    ) -> List[Any]:
        """The gradients, with zeros for those that another rank has; to be called before several passes are added up."""
        outputs = list(gradients)
        chosen = self._choose(list(gradients), variables, listed)
        if chosen is not None and self._presence is not None:
            known = Variables(variables, listed, chosen)
            compiled_for = self._ask_once(known, outputs, chosen)
            plan = self._presence.plan(known, chosen, tf.executing_eagerly(), compiled_for=compiled_for)
            for index, kind in plan.missing.items():
                outputs[index] = _zeros(variables[index], kind)
        return outputs

    def _choose(
        self, outputs: List[Any], variables: Sequence[Any], listed: Optional[Sequence[int]] = None
    ) -> Optional[List[int]]:
        """The places of the gradients to be reduced, which become dense where the exchange is told so; finishes those of
        local variables. None: all listed variables are local. Where none are listed, which another rank's may be, all
        variables are."""
        chosen, are_local, given = [], bool(outputs), set(listed) if listed else None
        for index, (gradient, variable) in enumerate(zip(outputs, variables)):
            is_local = variable is not None and self.is_local(variable)
            if given is None or index in given or gradient is not None:
                are_local = are_local and is_local
            if gradient is None:
                continue
            if is_local:
                outputs[index] = per_rank(gradient, self._process_set) if self._scales_local else gradient
                continue
            if self._sparse_as_dense and isinstance(gradient, tf.IndexedSlices):
                outputs[index] = tf.convert_to_tensor(gradient)
            chosen.append(index)
        return None if are_local or not outputs else chosen

    def _ask_once(self, variables: Variables, outputs: List[Any], chosen: List[int]) -> Optional[Any]:
        """Of an optimizer, where all ranks run what they make now: one rank may trace a function, or build a graph, alone.
        Returns the model whose fit() compiles it; None: it is not compiled so."""
        if self._presence is None:
            return None
        compiled_for = None if tf.executing_eagerly() else fitting_model()
        if tf.executing_eagerly() or compiled_for is not None:
            self._presence.ask_once(*self._facts(variables, outputs, chosen), compiled_for=compiled_for)
        return compiled_for

    @staticmethod
    def _facts(variables: Variables, outputs: List[Any], chosen: List[int]) -> Tuple[str, Variables, Dict[int, str]]:
        kinds = {
            index: outputs[index].indices.dtype.name if isinstance(outputs[index], tf.IndexedSlices) else ""
            for index in chosen
        }
        return "gradients", variables, kinds

    def _reduce_planned(self, plan: Plan, gradients: Sequence[Any], variables: List[Any]) -> List[Any]:
        outputs = list(gradients)
        for index, kind in plan.missing.items():
            outputs[index] = _zeros(variables[index], kind)
        dense = [index for index in plan.places if not isinstance(outputs[index], tf.IndexedSlices)]
        if self.skips_together:
            local = [each for each, of in zip(gradients, variables) if each is not None and self.is_local(of)]
            for index in (dense or plan.places)[:1] if local else []:
                outputs[index] = _spoiled(outputs[index], local)
        parts = self._parts(dense, variables)
        lead = self._take_lead(parts, outputs)
        marker, *reduced = self._marked(plan.mark, [outputs[index] for index in lead])
        for index, each in zip(lead, reduced):
            outputs[index] = each
        # Where ranks differ, a graph's other ops would wait for ones that other ranks do not have.
        with contextlib.nullcontext() if tf.executing_eagerly() else tf.control_dependencies([marker]):
            for part in [*parts, *([index] for index in plan.places if index not in dense)]:
                for index, each in zip(part, self._reduced([outputs[index] for index in part])):
                    outputs[index] = each
        return outputs

    def _take_lead(self, parts: List[List[int]], gradients: Sequence[Any]) -> List[int]:
        """Takes the part that is to travel first: in a graph the last one, whose gradients are ready before the others'."""
        if not parts or self._op == Adasum:
            return []
        if tf.executing_eagerly():
            return parts.pop(0)
        # Gradients of several element types are several ops, of which a rank may lack one.
        is_one = len({gradients[index].dtype for index in parts[-1]}) == 1 or is_compiled()
        return parts.pop() if is_one else []

    def _marked(self, shape: Tuple[int, ...], gradients: List[Any]) -> List[Any]:
        """A tensor of that shape, which has no elements, and the gradients of all ranks. An error: ranks give other shapes."""
        marker = tf.zeros(shape, gradients[0].dtype if gradients else tf.float32)
        if gradients:
            return self._reduced([marker, *gradients])
        return [allreduce(marker, op=Sum, process_set=self._process_set)]

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
