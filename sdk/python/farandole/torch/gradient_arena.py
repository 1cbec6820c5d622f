"""Gradients in an arena: memory that all ranks of the host reduce in place."""

import functools
import warnings
from typing import TYPE_CHECKING, Any, Callable, Iterable, List, Optional, Sequence, Set

import torch

from .. import _arena
from .._library import lib
from ..exceptions import NotReady, QuotaError
from ..process_sets import ProcessSet

if TYPE_CHECKING:
    from .gradients import Gradient

# Places begin at multiples of a cache line.
_LINE = 64

# How many tensors, and other objects, have a storage.
_users: Callable[[int], int] = torch._C._storage_Use_Count


def users_of(tensor: torch.Tensor) -> int:
    """How many tensors, and other objects, have the storage of this one."""
    storage = tensor.untyped_storage()
    return _users(storage._cdata)


@functools.lru_cache(maxsize=None)
def users_in_hook(device: torch.device, is_view: bool = False) -> int:
    """The users of the storage of a gradient that autograd has just made, in the hook: by itself, or as a view of another
    tensor (`is_view`), as those of linear layers. Versions of PyTorch differ in what they still hold then."""
    found = []
    with torch.enable_grad():
        probe = torch.zeros(1, device=device, requires_grad=True)
        probe.register_post_accumulate_grad_hook(lambda owner: found.append(users_of(owner.grad)))
        ((probe.view(1, 1) if is_view else probe) * 2).backward()
    return max(found[0], users_of(torch.empty(1, device=device)))


class Place:
    """Where one parameter's gradient lies in an arena."""

    __slots__ = ("view", "_home", "_storage", "_address", "_own_users", "_most_users")

    def __init__(self, memory: Any, offset: int, like: torch.Tensor) -> None:
        flat = torch.frombuffer(memory, dtype=like.dtype, count=like.numel(), offset=offset)
        self._storage = flat.untyped_storage()
        # Not a view of `flat`: programs detach gradients in place, which views refuse.
        self._home = torch.empty(0, dtype=like.dtype).set_(self._storage, 0, like.shape, like.stride())
        del flat
        self._address = self._storage.data_ptr()
        self._own_users = _users(self._storage._cdata)
        self._most_users = users_in_hook(like.device)
        # The gradient that lies here: a tensor of the program, which may give it another shape or other attributes.
        self.view: Optional[torch.Tensor] = None

    def _is_free(self) -> bool:
        """Whether the program has released the gradient of an earlier step, which lay here. Its storage may also have
        moved, as share_memory_() does it."""
        self.view = None
        return _users(self._storage._cdata) == self._own_users and self._storage.data_ptr() == self._address

    def settle(self, grad: torch.Tensor) -> torch.Tensor:
        """Moves a gradient that autograd has made anew, because there was none, into its place, and returns it: the same
        tensor, in other memory. It stays where it is if it does not fit, if it lies in a buffer of the program, or if
        the program still has the gradient of an earlier step, which lies there."""
        home = self._home
        if (
            grad.layout is not torch.strided
            or grad.requires_grad
            or grad.dtype is not home.dtype
            or grad.shape != home.shape
            or _is_in_buffer(grad, self._most_users)
            or not self._is_free()
        ):
            return grad
        home.copy_(grad)
        # The program may know the tensor already, and is to see what becomes of its gradient.
        grad.data = home
        self.view = grad
        return grad

    def clear(self, parameter: torch.Tensor) -> None:
        """Gives a parameter without a gradient one of zeros."""
        if parameter.shape == self._home.shape and self._is_free():
            self.view = self._home.data
            parameter.grad = self.view.zero_()
        else:
            parameter.grad = torch.zeros_like(parameter)

    def vacate(self, parameter: torch.Tensor) -> None:
        """Moves the gradient out."""
        grad = parameter.grad
        if grad is None or grad.layout is not torch.strided:
            return
        if grad.untyped_storage().data_ptr() == self._address:
            grad.data = grad.detach().clone()


def _fits(parameter: torch.Tensor) -> bool:
    grad = parameter.grad
    return (
        grad is not None
        and grad.layout is torch.strided
        and grad.is_cpu
        and grad.numel() > 0
        and not grad.requires_grad
        and _is_dense(grad)
        and not grad.is_shared()  # with other processes
        and not _is_in_buffer(grad, users_of(torch.empty(1)))
    )


def is_part(grad: torch.Tensor) -> bool:
    """Whether the gradient is a part of a larger tensor."""
    if grad._is_view():
        return True
    if grad.layout is not torch.strided:
        return False
    return grad.untyped_storage().nbytes() != grad.numel() * grad.element_size()


def _is_in_buffer(grad: torch.Tensor, most_users: int) -> bool:
    """Whether others may read and write the gradient where it lies: programs make gradients parts of one buffer, which
    they zero, clip or send as a whole. Such a gradient stays there."""
    return is_part(grad) or users_of(grad) > most_users


def _is_dense(tensor: torch.Tensor) -> bool:
    """Whether the elements lie one after the other, in any order of the dimensions."""
    expected = 1
    for stride, count in sorted((stride, count) for stride, count in zip(tensor.stride(), tensor.shape) if count != 1):
        if stride != expected:
            return False
        expected *= count
    return True


def place_all(
    name: str, parameters: Sequence[torch.Tensor], wanted: bool, process_set: ProcessSet
) -> Optional[List[Optional[Place]]]:
    """Makes an arena and moves the gradients into it; gives each parameter's place, None where it has none.

    Collective: all ranks of the set call it with the same name, those that do not want one too. Places are in the
    order of the list. Without an arena, if ranks do not want one or cannot share one, all have none. None: a rank has
    joined, so that it is to be called again.
    """
    nowhere: List[Optional[Place]] = [None] * len(parameters)
    offsets, size = [], 0
    for parameter in parameters:
        fits = wanted and _fits(parameter)
        offsets.append(size if fits else -1)
        if fits:
            used = parameter.grad.numel() * parameter.grad.element_size()
            size += (used + _LINE - 1) // _LINE * _LINE
    try:
        memory = _arena.make(name, size, process_set)
    except NotReady:
        return None
    except (NotImplementedError, ValueError):
        return nowhere  # over several hosts; or not wanted, or gradients differ, by a rank
    except QuotaError as error:
        if lib.farandole_rank() == min(process_set.ranks):
            warnings.warn(f"gradients stay in ordinary memory: {error}", ResourceWarning, stacklevel=2)
        return nowhere
    places = list(nowhere)
    for index, (parameter, offset) in enumerate(zip(parameters, offsets)):
        if offset >= 0:
            place = places[index] = Place(memory, offset, parameter.grad)
            place.settle(parameter.grad)
    return places


class Places:
    """The places of an optimizer's gradients. Those that have begun to take part in the same step share an arena."""

    def __init__(self, wanted: bool, process_set: ProcessSet) -> None:
        """`wanted`: without it, there are none."""
        self._wanted, self._process_set = wanted, process_set
        self._unplaced: Set["Gradient"] = set()  # those that may get a place yet

    def add(self, gradients: Iterable["Gradient"]) -> None:
        """These may get a place after the step."""
        self._unplaced.update(gradients)

    def remove(self, gradients: Iterable["Gradient"]) -> None:
        """These have no place from now on. Those that are there keep their memory, which may be written yet."""
        for gradient in gradients:
            gradient.place = None
        self._unplaced.difference_update(gradients)

    def fill(self, gradients: Iterable["Gradient"]) -> None:
        """Moves gradients into an arena: of all of the optimizer's those that take part and have none yet. All ranks are
        here with the same ones in the same order, however each has come to them. Others may be known to one rank only."""
        if not self._unplaced:
            return
        new = [gradient for gradient in gradients if gradient in self._unplaced and gradient.takes_part()]
        if not new:
            return
        # The last layers' gradients come first, and lie side by side.
        parameters = [gradient.parameter for gradient in reversed(new)]
        places = place_all(f"gradients.{new[0].name[:400]}", parameters, self._wanted, self._process_set)
        if places is None:
            return
        for gradient, place in zip(reversed(new), places):
            gradient.place = place
        self._unplaced.difference_update(new)

    def vacate(self, gradients: Iterable["Gradient"]) -> None:
        """Moves all gradients out of arenas, which serve one epoch: peers that were stopped may still write there. The
        next epoch has its own."""
        for gradient in gradients:
            if gradient.place is not None:
                gradient.place.vacate(gradient.parameter)
                gradient.place = None
            self._unplaced.add(gradient)

    def drop(self, gradients: Iterable["Gradient"]) -> None:
        """Takes all gradients away from their parameters, with their places."""
        for gradient in gradients:
            gradient.parameter.grad = gradient.place = None
            self._unplaced.add(gradient)
