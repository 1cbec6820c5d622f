"""DistributedOptimizer with op=Adasum: each rank makes a step of its own, and the steps are combined."""

from contextlib import contextmanager
from typing import Any, Callable, Dict, Iterator, List, Optional, Set, Tuple, Type

import torch

from ..process_sets import ProcessSet
from ..reduce_ops import Adasum
from . import ops
from .gradients import unnamed
from .participation import Part, Participation, Parts
from .wrapping import SharesGroups

Named = List[Tuple[str, torch.Tensor]]


class DistributedSteps(SharesGroups):
    """Goes before an optimizer's own class: the methods that differ.

    Adasum weighs the changes that the ranks' own steps make to each parameter, which hold learning rate, momentum and
    so on, and not gradients (Maleki et al., 2021). So the learning rate needs no scaling by the number of ranks.
    """

    op: int
    process_set: ProcessSet
    gradient_predivide_factor: float
    sparse_as_dense: bool
    _named: Named
    _compression: Type

    def combine(self, named: Named, compression: Type) -> None:
        """Call it once: it returns the combined tensor."""
        self._named, self._compression = named, compression
        self._participation = Participation(self.process_set)
        # Each of these takes part in each step, also while this rank has frozen it: another one may train it.
        self._trained: Set[torch.Tensor] = {parameter for _, parameter in named if parameter.requires_grad}

    @property
    def _parameter_names(self) -> Dict[torch.Tensor, str]:
        """The name of each parameter, as Horovod's has it."""
        return {parameter: name for name, parameter in self._named}

    @property
    def _requires_update(self) -> Set[torch.Tensor]:
        """Parameters that take part in each step."""
        return set(self._trained)

    @property
    def _handles(self) -> Dict[torch.Tensor, Any]:
        """Nothing travels between two steps."""
        return {}

    def synchronize(self) -> None:
        """Nothing to wait for: gradients do not travel."""

    @contextmanager
    def skip_synchronize(self) -> Iterator[None]:
        """AssertionError: with Adasum, step() is what communicates."""
        raise AssertionError("Skipping synchronization is not supported when using Adasum optimizer.")
        yield  # pylint: disable=unreachable

    def set_backward_passes_per_step(self, passes: int) -> None:
        """Any number of backward passes may go before a step: their gradients are added up as always."""
        if not hasattr(passes, "__index__") or passes <= 0:
            raise ValueError(f"backward_passes_per_step must be a whole number, at least 1, not {passes!r}")

    def step(self, closure: Optional[Callable[[], Any]] = None) -> Any:
        """Makes this rank's step, with its own gradients, and replaces what it has changed by all ranks' changes
        combined. Returns what the closure returns.

        ValueError: ranks disagree about a parameter. EpochEnded: a worker has died or left.
        """
        self._follow()
        self._find_trained()
        trained = [(name, parameter) for name, parameter in self._named if parameter in self._trained]
        starts = [parameter.detach().clone() for _, parameter in trained]
        self._wrapped._opt_called = True  # for schedulers that were made with it, which ask
        loss = super().step() if closure is None else super().step(closure)
        sent = []
        for (name, parameter), start in zip(trained, starts):
            change, context = self._compression.compress(parameter.detach() - start)
            handle = ops.allreduce_async_(
                change, name=f"DistributedOptimizer.step.{name}", op=Adasum, process_set=self.process_set
            )
            sent.append((handle, context))
        with torch.no_grad():
            for (_, parameter), start, (handle, context) in zip(trained, starts, sent):
                parameter.copy_(start + self._compression.decompress(handle.synchronize(), context))
        return loss

    def add_param_group(self, param_group: Any) -> None:
        """As the optimizer's; the new parameters' changes are combined too."""
        self.share_groups()
        super().add_param_group(param_group)
        self._follow()

    def _find_trained(self) -> None:
        """Adds the parameters that this rank, or another one, has begun to train."""
        known = len(self._trained)
        self._trained.update(parameter for _, parameter in self._named if parameter.requires_grad)
        if len(self._trained) > known:
            self._participation.note_change()
        if self._participation.is_open and self.process_set.included() and self.process_set.size() > 1:
            merged = self._participation.agree(self._describe) or {}
            self._trained.update(parameter for name, parameter in self._named if name in merged)
            self._participation.note_change()

    def _describe(self) -> Parts:
        return {name: Part(name, parameter in self._trained) for name, parameter in self._named}

    def _follow(self) -> None:
        """Adds the parameters of groups that have come another way, as through the optimizer that was wrapped."""
        self.share_groups()
        known = {id(parameter) for _, parameter in self._named}
        for index, group in enumerate(self.param_groups):
            for position, parameter in enumerate(group["params"]):
                if id(parameter) not in known:
                    self._named.append((unnamed(index, position), parameter))
                    self._participation.begin()
