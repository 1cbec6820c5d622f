"""Reductions of gradients that are more than one operation."""

from typing import Any, Generator, NamedTuple, Optional, Tuple

import torch

from .._handles import Handle
from ..process_sets import ProcessSet


class Terms(NamedTuple):
    """How gradients are reduced."""

    op: int
    """Average or Sum."""
    prescale: float
    postscale: float
    process_set: ProcessSet


class Settings(NamedTuple):
    """How gradients are reduced."""

    compression: Any
    op: int
    prescale: float
    postscale: float
    sparse_as_dense: bool
    process_set: ProcessSet
    gradient_arena: bool


# Gives operations that were begun, takes their outputs, and returns the reduced gradient.
Exchange = Generator[Handle, Any, torch.Tensor]


class GradientExchange:
    """Reduces gradients by operations of its own, and remembers values for the next step. Derive a class from it, and
    give an object of that class to one DistributedOptimizer.

    Its memory is not part of the optimizer's state: it is lost with the process, and stays where another state
    is loaded.
    """

    def begin_epoch(self) -> None:
        """The ranks are others than before, or have had different numbers of steps: forgets what ranks must know alike."""

    def reduce(self, name: str, gradient: torch.Tensor, terms: Terms) -> Exchange:
        """Reduces a dense gradient, which does not change meanwhile. All ranks do so with equal names and shapes,
        except for those that have joined; these contribute to operations as join() says. `name` is the parameter's, and
        unique. Where the first operation is refused it is called again: until then it changes nothing.
        """
        raise NotImplementedError

    def opening(self, name: str, like: torch.Tensor) -> Optional[str]:
        """The name of the operation with which reduce() will begin for the gradient of that name, which has the shape and
        the element type of `like`. None: not known. Then ranks that add parameters wait for those that do not."""
        del name, like
        return None

    @classmethod
    def compress(cls, _tensor: torch.Tensor) -> Tuple[torch.Tensor, Any]:
        """ValueError: only gradients of an optimizer can be reduced so."""
        raise ValueError(f"{cls.__name__} compresses the gradients of a DistributedOptimizer, and no other tensors")


def remainder(is_finite: torch.Tensor, new: torch.Tensor, old: Optional[torch.Tensor]) -> Optional[torch.Tensor]:
    """A step's remainder: a gradient that is not finite, as a GradScaler meets them, changes nothing, as its step is
    left out. A device is not waited for."""
    if is_finite.is_cpu:
        return new if is_finite else old
    return torch.where(is_finite, new, torch.zeros_like(new) if old is None else old)
