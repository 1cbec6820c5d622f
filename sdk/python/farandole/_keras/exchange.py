"""How gradients travel that are arrays which the host can read: what JAX and PyTorch share."""

import itertools
import re
from typing import Any, Callable, Dict, Iterable, List, NamedTuple, Optional, Sequence, Tuple, Type

from .. import _epochs, _ops
from .._presence import Plan, Presence, Variables, is_disagreement
from .._sections import marked
from ..exceptions import InvalidRequest
from ..process_sets import ProcessSet
from ..reduce_ops import Average, choose
from .derived import counter_of
from .owners import fitting_model


class Terms(NamedTuple):
    """How an optimizer's gradients are reduced; docs of DistributedOptimizer."""

    compression: Type
    sparse_as_dense: bool
    op: int
    predivide: float
    groups: Any
    passes: int
    averages_passes: bool
    process_set: ProcessSet
    scales_local: bool

    def check(self) -> None:
        """ValueError: one of them is none."""
        choose(self.op, None)
        _ops.check_factors(self.predivide, 1.0)
        if self.predivide != 1.0 and self.op != Average:
            raise ValueError("gradient_predivide_factor not supported with op != Average")
        if not isinstance(self.passes, int) or self.passes < 1:
            raise ValueError(f"backward_passes_per_step is a number of at least 1, not {self.passes!r}")
        if self.groups is not None and not isinstance(self.groups, (int, list, tuple)):
            raise ValueError(f"groups is a number of groups, or a list of lists of variables, not {self.groups!r}")


class LocalSums:
    """Adds up the gradients of several passes. A follower of the job's epochs: a new one begins with the first pass."""

    def __init__(self, terms: Terms) -> None:
        self._passes, self._averages = terms.passes, terms.averages_passes
        self._sums: List[Any] = []
        self._count = 0
        _epochs.follow(self)

    def leave_epoch(self) -> None:
        """Drops the passes of a step that will not be finished: a worker that comes has had none of them."""
        self._sums, self._count = [], 0

    def enter_epoch(self) -> None:
        """Nothing is to be made."""

    def all_have_joined(self) -> None:
        """Passes are each rank's own."""

    def add(self, gradients: Sequence[Any]) -> Optional[List[Any]]:
        """At every n-th call the sums since the last one, or the means; else None. `gradients`: in an order.Order, in which a
        call may have more of them than those before."""
        if self._passes == 1:
            return list(gradients)
        totals = self._sums if self._count else []
        self._sums = [_added(total, each) for total, each in itertools.zip_longest(totals, gradients)]
        self._count = (self._count + 1) % self._passes
        if self._count:
            return None
        sums, self._sums = self._sums, []
        return [None if each is None else each / self._passes for each in sums] if self._averages else sums


def _added(total: Any, gradient: Any) -> Any:
    """A new array with the sum; None for no gradient at all."""
    if gradient is None:
        return total
    return gradient + (0 if total is None else total)


def name_of(optimizer: Any) -> str:
    """The name by which ranks know the optimizer. One that Keras has made of the class's name has no number then, which in
    each process is another one."""
    made = optimizer.__class__.__name__
    for pattern in ("(.)([A-Z][a-z]+)", "([a-z])([A-Z])"):
        made = re.sub(pattern, r"\1_\2", made)
    return made.lower() if re.fullmatch(rf"{re.escape(made.lower())}_\d+", optimizer.name) else str(optimizer.name)


class ArrayExchange:
    """A derived.Exchange for arrays; to be derived from, for each kind. One thread at a time."""

    def __init__(self, terms: Terms) -> None:
        terms.check()
        self.terms = terms
        self.sums = LocalSums(terms)
        self._local: Dict[int, Any] = {}
        self._skips_together = False
        self._presence = Presence(terms.process_set)

    def register_local(self, variables: Iterable[Any]) -> None:
        """Variables that each rank has for itself."""
        # As values, so that no other variable gets their ids.
        self._local.update((id(variable), variable) for variable in variables)

    def is_local(self, variable: Any) -> bool:
        """See derived.Exchange."""
        return id(variable) in self._local

    def skip_together(self) -> None:
        """See derived.Exchange."""
        self._skips_together = True

    def split(self, gradients: Sequence[Any], variables: Sequence[Any]) -> Tuple[List[int], List[int]]:
        """The places of the gradients that all ranks share, and of those of local variables."""
        given = [index for index, gradient in enumerate(gradients) if gradient is not None]
        local = [index for index in given if id(variables[index]) in self._local]
        return [index for index in given if id(variables[index]) not in self._local], local

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
        with marked("step", not self.is_traced(gradients)):
            total = self.sums.add(gradients)
            if total is None:
                return counter_of(optimizer).assign_add(1)
            return step(self.reduce(name_of(optimizer), total, variables, listed))

    def reduce(
        self, name: str, gradients: List[Any], variables: Sequence[Any], listed: Optional[Sequence[int]] = None
    ) -> List[Any]:
        """The gradients of all ranks; None stays None where no rank has one, and those of local variables are divided by the
        number of ranks, as the terms say. `listed`: as derived.Exchange's; None: all. ValueError: a rank has a gradient of a
        variable that another one does not train."""
        outputs = list(gradients)
        shared, local = self.split(gradients, variables)
        if self.terms.scales_local and local:
            scale = 1.0 / (self.terms.process_set.size() or 1)
            for index in local:
                outputs[index] = gradients[index] * scale
        known, is_eager = Variables(variables, listed, shared), not self.is_traced(gradients)
        # Where a call gives no variables, another rank's may.
        if all(id(variables[index]) in self._local for index in known.listed or range(len(variables))):
            return outputs
        facts = (f"{name}.gradients", known, dict.fromkeys(shared, ""))
        compiled_for = None if is_eager else fitting_model()
        if is_eager or compiled_for is not None:  # else one rank may trace a function alone
            self._presence.ask_once(*facts, compiled_for=compiled_for)
        plan = self._presence.plan(known, shared, is_eager, compiled_for=compiled_for)
        try:
            return self._reduce_planned(name, plan, outputs, variables)
        except InvalidRequest as error:
            if not is_eager or not is_disagreement(error) or not self._presence.ask(*facts, refused=plan.mark):
                raise
        return self._reduce_planned(name, self._presence.plan(known, shared, is_eager), outputs, variables)

    def _reduce_planned(self, name: str, plan: Plan, gradients: List[Any], variables: Sequence[Any]) -> List[Any]:
        outputs = list(gradients)
        for index in plan.missing:
            outputs[index] = self.zeros(variables[index])
        local = self.split(gradients, variables)[1] if self._skips_together else []
        if local and plan.places:
            # The reduced gradient is then not a number on any rank, and all leave out the step.
            first = plan.places[0]
            outputs[first] = self.spoiled(outputs[first], [gradients[index] for index in local])
        sent = [self.terms.compression.compress(outputs[index]) for index in plan.places]
        reduced = self.allreduce(name, [each for each, _ in sent], plan.mark)
        for index, each, (_, context) in zip(plan.places, reduced, sent):
            outputs[index] = self.terms.compression.decompress(each, context)
        return outputs

    def is_traced(self, gradients: Sequence[Any]) -> bool:
        """Whether the gradients are those of a function that is being compiled."""
        raise NotImplementedError

    def zeros(self, variable: Any) -> Any:
        """An array like the variable's gradient."""
        raise NotImplementedError

    def spoiled(self, array: Any, others: List[Any]) -> Any:
        """The array; not a number where one of the others has an element that is not finite."""
        raise NotImplementedError

    def allreduce(self, name: str, arrays: List[Any], marked: Tuple[int, ...]) -> List[Any]:
        """The arrays, reduced together by the terms, and with an array of the shape `marked`, which has no elements."""
        raise NotImplementedError
