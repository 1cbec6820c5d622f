"""DistributedOptimizer with op=Adasum: each rank makes a step of its own, and the steps are combined."""

import operator
from contextlib import contextmanager
from typing import Any, Callable, Dict, Iterable, Iterator, List, Optional, Sequence, Set, Tuple, Type

import torch

from .. import _epochs
from .._handles import Handle
from ..basics import is_initialized
from ..exceptions import InvalidRequest
from ..process_sets import ProcessSet, group_of
from ..reduce_ops import Adasum, Sum
from . import ops
from .ownership import Ownership
from .parameter_names import SpareNames
from .participation import Part, Participation, Parts, names_operations
from .wrapping import SharesGroups

Named = List[Tuple[str, torch.Tensor]]

# Of what a parameter's change travels by.
_NAME = "DistributedOptimizer.step.{}"
# The attributes that torch.amp.GradScaler sets for a step; without them it leaves the step out.
_OF_SCALER = ("found_inf", "grad_scale")


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
    _passes: int
    _should_synchronize = True
    _synchronized = False  # nothing but step() reduces

    def combine(self, named: Named, compression: Type, passes: int = 1, names: Optional[SpareNames] = None) -> None:
        """To be called once. `passes` is kept for programs that read it. `names`: of parameters that may be added."""
        self._named, self._compression, self._passes = named, compression, passes
        self._names = names or SpareNames()
        # Those that do not take part in it are skipped by a GradScaler, on one rank and not on others.
        self._scales_itself = getattr(self, "_step_supports_amp_scaling", False)
        self._step_supports_amp_scaling = True
        for name, parameter in named:
            ops.require_shape(f"parameter {name}", parameter)
        self._participation = Participation(self.process_set)
        self._ownership = Ownership(self, acts_in_backward=False)
        self._ownership.take(named)
        # Each of these takes part in each step, also while this rank has frozen it: another one may train it.
        self._trained: Set[torch.Tensor] = {parameter for _, parameter in named if parameter.requires_grad}
        self._agreed: List[str] = []  # those of which all ranks send changes
        self._added: List[torch.Tensor] = []  # of which the other ranks may not know
        self._followed = [parameter for group in self.param_groups for parameter in group["params"]]
        _epochs.follow(self)

    def leave_epoch(self) -> None:
        """As Follower's: drops gradients, which are of a step that will not be finished."""
        if _epochs.is_elastic() or self.active:
            for _, parameter in self._named:
                parameter.grad = None

    def enter_epoch(self) -> None:
        """As Follower's."""

    def all_have_joined(self) -> None:
        """As Follower's."""

    @property
    def active(self) -> bool:
        """As Owner's. A set that is not registered, as before init() or after remove_process_set(), has no ranks."""
        is_known = is_initialized() and self.process_set.process_set_id is not None
        return is_known and bool(self.process_set.included()) and self.process_set.size() > 1

    def give_up(self, parameters: Set[torch.Tensor]) -> None:
        """The changes of these are not combined any more, on any rank."""
        self._named = [(name, parameter) for name, parameter in self._named if parameter not in parameters]
        self._trained -= parameters
        self._added = [parameter for parameter in self._added if parameter not in parameters]
        self._participation.ask_again()

    def forget(self, parameters: Iterable[torch.Tensor]) -> None:
        """As SharesGroups'."""
        self._ownership.forget(parameters)
        self.give_up(set(parameters))
        self._follow()

    @property
    def _parameter_names(self) -> Dict[torch.Tensor, str]:
        """The name of each parameter, as Horovod's has it."""
        return {parameter: name for name, parameter in self._named}

    @property
    def backward_passes_per_step(self) -> int:
        """The number that was set. Any number of them may go before a step."""
        return self._passes

    @property
    def _allreduce_delay(self) -> Dict[torch.Tensor, int]:
        """Of each parameter, backward_passes_per_step."""
        return {parameter: self._passes for _, parameter in self._named}

    @property
    def _grad_accs(self) -> List[Any]:
        """None of autograd's nodes is watched."""
        return []

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
        raise AssertionError(
            "Skipping synchronization is not supported when using Adasum optimizer. Leave it out: step() and a GradScaler's "
            "step() change what gradients there are."
        )
        yield  # pylint: disable=unreachable

    def set_backward_passes_per_step(self, passes: int) -> None:
        """Any number of backward passes may go before a step: their gradients are added up as always."""
        if not hasattr(passes, "__index__") or passes <= 0:
            raise ValueError(f"backward_passes_per_step must be a whole number, at least 1, not {passes!r}")
        self._passes = operator.index(passes)

    def step(self, closure: Optional[Callable[[], Any]] = None) -> Any:
        """Makes this rank's step, with its own gradients, and replaces what it has changed by all ranks' changes
        combined. Returns what the closure returns. A rank outside of the process set only makes its own.

        A rank whose GradScaler has found infinities has no step of its own, and gets those of the others.
        ValueError: ranks disagree about a parameter, or the process set is not registered. EpochEnded: a worker has
        died or left.
        """
        self._follow()
        if self.process_set.included() is not False:
            group_of(self.process_set)
        if self.active:
            self._ownership.require(self._followed)
        if any(parameter.requires_grad for parameter in self._added):
            self._ask()
        self._find_trained()
        if not self.active:
            return self._step_alone(closure)
        trained = [(name, parameter) for name, parameter in self._named if parameter in self._trained]
        starts = [parameter.detach().clone() for _, parameter in trained]
        loss = self._step_alone(closure)
        sent = []
        for (name, parameter), start in zip(trained, starts):
            change, context = self._compression.compress(parameter.detach() - start)
            handle = ops.allreduce_async_(change, name=_NAME.format(name), op=Adasum, process_set=self.process_set)
            sent.append((handle, context))
        changes, refused = self._received(sent)
        with torch.no_grad():
            for (_, parameter), start, change in zip(trained, starts, changes):
                parameter.copy_(start + change)
        if refused is not None:
            # Another rank asks whether this one has added parameters as well, and learns that it has not.
            self._agree()
            raise refused
        return loss

    def _step_alone(self, closure: Optional[Callable[[], Any]]) -> Any:
        """This rank's own step. A GradScaler has set attributes for it, which the optimizer itself may know."""
        self._wrapped._opt_called = True  # for schedulers that were made with it, which ask
        is_scaled = not self._scales_itself and "found_inf" in vars(self)
        hidden = {name: vars(self).pop(name) for name in _OF_SCALER if is_scaled and name in vars(self)}
        try:
            scale = hidden.get("grad_scale")  # of some scalers, and None where the program has unscaled the gradients
            # The scale of a rank that finds infinities in each step becomes 0.
            if float(hidden.get("found_inf", 0)) > 0 or (scale is not None and float(scale) == 0):
                return None
            if scale is not None:
                self._unscale(float(scale))
            return super().step() if closure is None else super().step(closure)
        finally:
            vars(self).update(hidden)

    def _unscale(self, scale: float) -> None:
        """As GradScaler.unscale_(), which the program has not called."""
        grads = [parameter.grad for parameter in self._followed if parameter.grad is not None]
        if any(grad.dtype is torch.float16 for grad in grads):
            raise ValueError("Attempting to unscale FP16 gradients.")
        with torch.no_grad():
            for grad in grads:
                grad.mul_(1 / scale)

    def _received(self, sent: List[Tuple[Handle, Any]]) -> Tuple[List[Any], Optional[InvalidRequest]]:
        """The combined changes; zeros, with the error, where ranks have called different operations."""
        changes: List[Any] = []
        refused = None
        for handle, context in sent:
            try:
                changes.append(self._compression.decompress(handle.synchronize(), context))
            except InvalidRequest as error:
                if not names_operations(error):
                    raise
                refused = error
        return changes if refused is None else [0] * len(sent), refused

    def _ask(self) -> None:
        """Parameters were added on this rank: it calls other operations by the names under which ranks that do not know of it
        send changes in this step, so that these are refused there. Those that have added some, too, call them as well."""
        self._added.clear()
        if not self.active or self._participation.is_open:
            return
        nothing = torch.empty(0)
        handles = [ops.reducescatter_async(nothing, _NAME.format(name), Sum, self.process_set) for name in self._agreed]
        for handle in handles:
            try:
                handle.synchronize()
            except InvalidRequest as error:
                if not names_operations(error):
                    raise
        self._participation.ask_again()

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
        if self._participation.is_open and self.active:
            self._agree()

    def _agree(self) -> None:
        merged = self._participation.agree(self._describe) or {}
        self._trained.update(parameter for name, parameter in self._named if name in merged)
        self._participation.note_change()
        self._agreed = [name for name, parameter in self._named if parameter in self._trained]

    def _describe(self) -> Parts:
        return {name: Part(name, parameter in self._trained) for name, parameter in self._named}

    def _follow(self) -> None:
        """Adds the parameters of groups that have come another way, as through the optimizer that was wrapped."""
        self.share_groups()
        known = self._ownership.names(self._followed)
        self._add(self._names.name_unknown(self.param_groups, known))
        self._followed = [parameter for group in self.param_groups for parameter in group["params"]]

    def _add(self, named: Sequence[Tuple[str, torch.Tensor]]) -> None:
        for name, parameter in named:
            ops.require_shape(f"parameter {name}", parameter)
            self._named.append((name, parameter))
            self._participation.note_change()
            self._added.append(parameter)
        if named:
            self._ownership.take(named)
