"""Which of the DistributedOptimizers of this process reduces a parameter's gradient: the one that was given it last."""

import itertools
import weakref
from typing import Dict, Iterable, Protocol, Sequence, Set, Tuple

import torch

_count = itertools.count()


class Owner(Protocol):
    """The optimizer that an Ownership is of."""

    active: bool
    """Whether there are other ranks to reduce with."""

    def give_up(self, parameters: Set[torch.Tensor]) -> None:
        """Another optimizer reduces these from now on."""


class Ownership:
    """Of one optimizer. A program may make another one for the same parameters while the first one lives: for its next
    phase, or as it wraps the same optimizer again. Two that reduce a gradient would write it at the same time."""

    _all: "weakref.WeakSet[Ownership]" = weakref.WeakSet()

    def __init__(self, owner: Owner, acts_in_backward: bool) -> None:
        """`acts_in_backward`: it reduces gradients, not steps. Those that reduce steps may take turns."""
        self._owner = weakref.ref(owner)
        self._acts_in_backward = acts_in_backward
        self._names: Dict[torch.Tensor, str] = {}
        self._times: Dict[torch.Tensor, int] = {}  # when the optimizer was given each, as a number that grows
        self._given_up: Set[torch.Tensor] = set()  # of these parameters
        self._all.add(self)

    def take(self, named: Sequence[Tuple[str, torch.Tensor]]) -> None:
        """The optimizer was given these parameters; others that have them give them up."""
        for name, parameter in named:
            self._names[parameter], self._times[parameter] = name, next(_count)
            self._given_up.discard(parameter)
        self.settle()

    def settle(self) -> None:
        """To be called where the optimizer may reduce now and did not before: decides between it and the others."""
        owner = self._owner()
        if owner is None or not owner.active:
            return
        for other in list(self._all):
            theirs = other._owner()
            may_meet = self._acts_in_backward or other._acts_in_backward
            if other is self or theirs is None or not (may_meet and self._times.keys() & other._times.keys()):
                continue
            if theirs.active:
                other._yield_to(self)
                self._yield_to(other)

    def _yield_to(self, other: "Ownership") -> None:
        shared = self._times.keys() & other._times.keys() - self._given_up - other._given_up
        given = {parameter for parameter in shared if self._times[parameter] < other._times[parameter]}
        owner = self._owner()
        if given and owner is not None:
            self._given_up |= given
            owner.give_up(given)

    def forget(self, parameters: Iterable[torch.Tensor]) -> None:
        """The optimizer does not have these any more."""
        for parameter in parameters:
            self._names.pop(parameter, None)
            self._times.pop(parameter, None)
            self._given_up.discard(parameter)

    def names(self, known: Iterable[torch.Tensor]) -> Dict[torch.Tensor, str]:
        """Those of the parameters that the optimizer has, and has given up. Of the latter only those that are `known` to
        be in its groups: others have gone to another optimizer, and may come back."""
        gone = self._given_up.difference(known)
        return {parameter: name for parameter, name in self._names.items() if parameter not in gone}

    def require(self, parameters: Iterable[torch.Tensor]) -> None:
        """ValueError: another optimizer was given one of the parameters later."""
        if not self._given_up:
            return
        for parameter in parameters:
            if parameter in self._given_up:
                raise ValueError(
                    f"parameter {self._names[parameter]}: a DistributedOptimizer that was made later has it too, and "
                    "alone reduces its gradient. Step with that one; to go back to this one, wrap its optimizer again"
                )
