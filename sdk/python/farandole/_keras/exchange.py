"""How gradients travel that are arrays which the host can read: what JAX and PyTorch share."""

from typing import Any, Callable, Dict, Iterable, List, NamedTuple, Optional, Sequence, Tuple, Type

from .. import _epochs, _ops
from ..process_sets import ProcessSet
from ..reduce_ops import Average, choose
from .derived import counter_of


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
        """At every n-th call the sums since the last one, or the means; else None."""
        if self._passes == 1:
            return list(gradients)
        if self._count == 0:
            self._sums = [None if each is None else each + 0 for each in gradients]
        else:
            self._sums = [total if each is None else total + each for total, each in zip(self._sums, gradients)]
        self._count = (self._count + 1) % self._passes
        if self._count:
            return None
        sums, self._sums = self._sums, []
        return [each / self._passes for each in sums] if self._averages else sums


class ArrayExchange:
    """A derived.Exchange for arrays; to be derived from, for each kind. One thread at a time."""

    def __init__(self, terms: Terms) -> None:
        terms.check()
        self.terms = terms
        self.sums = LocalSums(terms)
        self._local: Dict[int, Any] = {}

    def register_local(self, variables: Iterable[Any]) -> None:
        """Variables that each rank has for itself."""
        # As values, so that no other variable gets their ids.
        self._local.update((id(variable), variable) for variable in variables)

    def split(self, gradients: Sequence[Any], variables: Sequence[Any]) -> Tuple[List[int], List[int]]:
        """The places of the gradients that all ranks share, and of those of local variables."""
        given = [index for index, gradient in enumerate(gradients) if gradient is not None]
        local = [index for index in given if id(variables[index]) in self._local]
        return [index for index in given if id(variables[index]) not in self._local], local

    def run(
        self, optimizer: Any, gradients: List[Any], variables: Sequence[Any], step: Callable[[List[Any]], Any]
    ) -> Any:
        """Calls `step` with the gradients of all ranks, at every n-th call where the passes are n."""
        total = self.sums.add(gradients)
        if total is None:
            return counter_of(optimizer).assign_add(1)
        return step(self.reduce(optimizer.name, total, variables))

    def reduce(self, name: str, gradients: List[Any], variables: Sequence[Any]) -> List[Any]:
        """The gradients of all ranks; None stays None, and those of local variables are divided by the number of ranks,
        as the terms say."""
        outputs = list(gradients)
        shared, local = self.split(gradients, variables)
        if self.terms.scales_local and local:
            scale = 1.0 / (self.terms.process_set.size() or 1)
            for index in local:
                outputs[index] = gradients[index] * scale
        sent = [self.terms.compression.compress(gradients[index]) for index in shared]
        for index, reduced, (_, context) in zip(shared, self.allreduce(name, [each for each, _ in sent]), sent):
            outputs[index] = self.terms.compression.decompress(reduced, context)
        return outputs

    def allreduce(self, name: str, arrays: List[Any]) -> List[Any]:
        """The arrays, reduced together by the terms."""
        raise NotImplementedError
