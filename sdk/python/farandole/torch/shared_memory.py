"""Gradients of several parameters in the same memory: each travels from memory of its own, when all are complete."""

from operator import attrgetter
from typing import Callable, Iterable, List, Sequence, Tuple

import torch

from ..reduce_ops import Sum
from .exchange import Settings
from .extents import end_of
from .gradients import Gradient, Unit

_grad_of = attrgetter("grad")


class SharedMemory:
    """Such gradients of a Reducer, in a step."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._seen: List[int] = []  # the gradients that were there when a backward pass began, by addresses
        self._waiting: List[List[Gradient]] = []  # of these, those that share memory
        self._has_looked = False  # in this step
        self._apart: List[Tuple[Gradient, torch.Tensor]] = []  # those that travel as copies, with the originals

    def keep_back(self, parameters: Sequence[torch.Tensor], gradients: Iterable[Gradient]) -> None:
        """In a step's first hook: backward is to add to all gradients in a piece of memory before one of them travels. Most
        programs have none then, and the others mostly those of the step before."""
        if self._has_looked:
            return
        self._has_looked = True
        grads = [grad for grad in map(_grad_of, parameters) if grad is not None]
        if len(grads) < 2:
            return
        if all(map(_has_own_place, gradients)):
            return
        there = [each for each in gradients if each.parameter.grad is not None]
        seen = [number for each in there for number in (id(each), _address(each.parameter.grad))]
        if seen != self._seen:
            self._seen, self._waiting = seen, overlapping(there)
        for gradient in (each for piece in self._waiting for each in piece):
            gradient.unit.waiting += 1

    def part(
        self, late: Sequence[Unit], units: Sequence[Unit], take: Callable[[Unit], None], errors: List[Exception]
    ) -> None:
        """Gives gradients that are about to travel memory of their own. Where theirs travels already, `take` waits for it,
        and what has come is what they send. Those that autograd has put together stay apart: on other ranks, they may be so
        from the first. Adds to the errors."""
        there = [each for unit in late for each in unit.gradients if each.parameter.grad is not None]
        if not there:
            return
        travelling = {each: unit for unit in units if unit.is_sent() for each in unit.gradients}
        every = [*travelling, *there]
        for piece in [] if all(map(_has_own_place, every)) else overlapping(every):
            sent = {travelling[each] for each in piece if each in travelling}
            for unit in sent:
                try:
                    take(unit)
                except Exception as error:  # pylint: disable=broad-except; raised when all are collected
                    errors.append(error)
            for gradient in [each for each in piece if each not in travelling][0 if sent else 1 :]:
                grad = gradient.parameter.grad
                if not gradient.is_lent:
                    self._apart.append((gradient, grad))
                gradient.parameter.grad = self._as_sent(grad) if sent else grad.detach().clone()

    def _as_sent(self, reduced: torch.Tensor) -> torch.Tensor:
        """A copy of what has come, which becomes the same when all ranks send it."""
        divides = self._settings.op == Sum and reduced.is_floating_point()
        return reduced.detach() / self._settings.process_set.size() if divides else reduced.detach().clone()

    def join(self) -> None:
        """All have come: puts gradients that have travelled as copies where they were."""
        self._has_looked = False
        if not self._apart:
            return
        with torch.no_grad():
            for gradient, original in self._apart:
                copy, gradient.parameter.grad = gradient.parameter.grad, original
                if copy is not None and copy is not original:
                    gradient.deliver(copy)
        self._apart.clear()


def _has_own_place(gradient: Gradient) -> bool:
    """Whether it lies in an arena, where no other one does, if this is so of all."""
    return gradient.place is not None and gradient.place.view is gradient.parameter.grad


def _address(grad: torch.Tensor) -> int:
    try:
        return grad.data_ptr()
    except RuntimeError:  # it is sparse, or made of other tensors
        return 0


def overlapping(gradients: Iterable[Gradient]) -> List[List[Gradient]]:
    """Those that reach into a piece of memory that several have, for each such piece. Strides may interleave them."""
    extents = []
    for gradient in gradients:
        grad = gradient.parameter.grad
        begin = 0 if grad is None else _address(grad)
        if grad is not None and begin != 0 and grad.numel() > 0:
            extents.append((begin, end_of(grad, begin), gradient))
    extents.sort(key=lambda extent: extent[:2])
    pieces: List[List[Gradient]] = []
    reach = 0
    for begin, end, gradient in extents:
        if begin < reach:
            pieces[-1].append(gradient)
        else:
            pieces.append([gradient])
        reach = max(reach, end)
    return [piece for piece in pieces if len(piece) > 1]
