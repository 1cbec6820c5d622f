"""The attributes that libraries read of Horovod's optimizers, to know one and to see what travels."""

from typing import Any, Dict, List, Sequence, Set, Tuple, Union

import torch

from .._handles import Handle
from .._library import lib
from .gradients import Unit
from .reducer import Reducer
from .wrapping import SharesGroups

Groups = Union[int, Sequence[Sequence[torch.Tensor]], None]


class Travelling(Handle):
    """A gradient that travels, or a group of them: what Horovod's programs call a handle."""

    __slots__ = ("_reducer", "_unit")

    def __init__(self, reducer: Reducer, unit: Unit) -> None:
        super().__init__(None, list)
        self._reducer, self._unit = reducer, unit

    def poll(self) -> bool:
        """Whether synchronize() would not wait."""
        if self._unit.number:
            return lib.farandole_poll(self._unit.number) != 0
        return self._unit.handle is None or self._unit.handle.poll()

    def synchronize(self) -> Any:
        """Waits, and returns the reduced gradient, which the parameter has; of a group the list."""
        if self._unit.is_sent():
            self._reducer.take(self._unit)
        grads = [gradient.parameter.grad for gradient in self._unit.gradients]
        return grads[0] if len(grads) == 1 else grads


class HorovodAttributes(SharesGroups):
    """Attributes of Horovod's _DistributedOptimizer, for reading; they are made when they are asked for."""

    _reducer: Reducer
    _groups: Groups
    """As DistributedOptimizer() was given them."""

    @property
    def _num_groups(self) -> int:
        """The number that was given; 0: none was, or lists."""
        return self._groups if isinstance(self._groups, int) else 0

    @property
    def _p_to_group(self) -> Dict[torch.Tensor, Tuple[torch.Tensor, ...]]:
        """With which other parameters each has its gradient travel; none where the program has asked for no groups."""
        return {parameter: group for group in self._units() for parameter in group}

    @property
    def _group_counts(self) -> Dict[Tuple[torch.Tensor, ...], int]:
        """For each group, how many gradients are there while it waits for others."""
        return {
            group: max(0, len(group) - unit.waiting) if unit.waiting > 0 else 0 for group, unit in self._units().items()
        }

    def _units(self) -> Dict[Tuple[torch.Tensor, ...], Unit]:
        if self._groups is None:
            return {}
        return {tuple(each.parameter for each in unit.gradients): unit for unit in self._reducer.taking_part()}

    @property
    def _grad_accs(self) -> List[Any]:
        """The nodes of autograd whose gradients travel when backward has added to them."""
        watched = [gradient.parameter for gradient in self._reducer.gradients() if gradient.hook is not None]
        with torch.enable_grad():
            # A parameter that was frozen meanwhile has none.
            made = [parameter.expand_as(parameter).grad_fn for parameter in watched if parameter.requires_grad]
        return [node.next_functions[0][0] for node in made]

    @property
    def _parameter_names(self) -> Dict[torch.Tensor, str]:
        """The name of each parameter."""
        return {gradient.parameter: gradient.name for gradient in self._reducer.gradients()}

    @property
    def _requires_update(self) -> Set[torch.Tensor]:
        """Parameters that take part in each step, as they have been trained; none where nothing travels."""
        return {gradient.parameter for gradient in self._reducer.gradients() if gradient.takes_part()}

    @property
    def _allreduce_delay(self) -> Dict[torch.Tensor, int]:
        """How many backward passes there are before the gradient of each parameter travels."""
        return {gradient.parameter: gradient.passes_left for gradient in self._reducer.gradients()}

    @property
    def _handles(self) -> Dict[Any, Tuple[Travelling, None]]:
        """Travelling units: for each parameter, or tuple of those of a group, what synchronize() and poll() take."""
        return {
            unit.parameter if len(unit.gradients) == 1 else tuple(each.parameter for each in unit.gradients): (
                Travelling(self._reducer, unit),
                None,
            )
            for unit in self._reducer.travelling()
        }

    @property
    def _compression(self) -> Any:
        return self._reducer.settings.compression

    @property
    def _synchronized(self) -> bool:
        """Whether the gradients are reduced, for the step that follows."""
        return self._reducer.synchronized

    @_synchronized.setter
    def _synchronized(self, is_so: bool) -> None:
        self._reducer.synchronized = is_so

    def _allreduce_grad_async(self, p: torch.Tensor) -> Tuple[Travelling, None]:
        """Sends the gradient of a parameter now (of a group: those of all), zeros where there is none."""
        return Travelling(self._reducer, self._reducer.send(p)), None
