"""PowerSGD: gradients travel as matrices of low rank."""

import numbers
from typing import Dict, Optional, Set

import torch

from ..reduce_ops import Max
from . import ops
from .exchange import Exchange, GradientExchange, Terms, remainder


class _Memory:
    """Of one parameter."""

    def __init__(self, matrix: torch.Tensor, rank: int, seed: int) -> None:
        generator = torch.Generator().manual_seed(seed)
        self.shape = matrix.shape
        self.start = torch.randn(matrix.shape[1], rank, generator=generator).to(matrix)
        self.right = self.start
        self.error: Optional[torch.Tensor] = None

    def keep(self, right: torch.Tensor) -> None:
        """Begins the next step with these columns, except for useless ones: of zeros, or not finite."""
        norms = right.norm(dim=0)
        self.right = torch.where(torch.isfinite(norms) & (norms > 0), right, self.start)


class PowerSGD(GradientExchange):
    """Sends the gradient of each matrix as two matrices of `rank` columns, whose product it is nearly; what it lacks is
    added to the next step's gradient (Vogels, Karimireddy, Jaggi: PowerSGD: Practical Low-Rank Gradient Compression for
    Distributed Optimization, 2019).

    A gradient of shape (n, a, b, ...) is a matrix of n rows. As float32, n * rank + a * b * ... * rank numbers travel
    instead of n * a * b * ...; gradients that do not become smaller by `min_ratio` travel as they are, vectors among
    them.

    rank: 1 or more; more is more exact. start_step: so many steps go before in which all gradients travel as they are,
    as the first ones differ most from each other. min_ratio: at least 1. error_feedback: what the product lacks is kept,
    at the cost of memory of the gradient's size as float32. seed: of the first matrices, the same on all ranks.
    Ranks make the product of what all have sent by themselves: of other CPUs or numbers of threads it may differ in the
    last bits, as with DDP's; broadcast_parameters() now and then makes parameters equal again.
    ValueError: an argument is out of bounds.
    """

    def __init__(
        self, rank: int = 4, start_step: int = 1000, min_ratio: float = 2.0, error_feedback: bool = True, seed: int = 0
    ) -> None:
        are_numbers = all(isinstance(each, numbers.Real) for each in (rank, start_step, min_ratio))
        if not are_numbers or rank < 1 or start_step < 0 or min_ratio < 1.0:
            raise ValueError(
                "PowerSGD needs rank >= 1, start_step >= 0 and min_ratio >= 1, "
                f"not rank={rank!r}, start_step={start_step!r}, min_ratio={min_ratio!r}"
            )
        self._rank, self._start_step, self._min_ratio = rank, start_step, min_ratio
        self._keeps_error, self._seed = error_feedback, seed
        self._memories: Dict[str, _Memory] = {}
        # Steps by names, and those of which all ranks know the same.
        self._steps: Dict[str, int] = {}
        self._agreed: Set[str] = set()

    def begin_epoch(self) -> None:
        self._memories, self._agreed = {}, set()

    def _rank_of(self, gradient: torch.Tensor) -> int:
        """By how many columns the gradient is sent; 0: as it is."""
        if gradient.dim() < 2 or gradient.numel() == 0 or not gradient.is_floating_point():
            return 0
        rows, columns = gradient.shape[0], gradient.numel() // gradient.shape[0]
        rank = min(self._rank, rows, columns)
        return rank if (rows + columns) * rank * self._min_ratio <= rows * columns else 0

    def opening(self, name: str, like: torch.Tensor) -> Optional[str]:
        if self._rank_of(like) == 0:
            return name
        if name not in self._agreed:
            return f"{name}.steps"
        return name if self._steps[name] < self._start_step else f"{name}.left"

    @torch.no_grad()
    def reduce(self, name: str, gradient: torch.Tensor, terms: Terms) -> Exchange:
        rank = self._rank_of(gradient)
        if rank > 0 and name not in self._agreed:
            mine = torch.tensor([self._steps.get(name, 0)])
            most = yield ops.allreduce_async(mine, None, f"{name}.steps", Max, process_set=terms.process_set)
            self._steps[name] = int(most)
            self._agreed.add(name)
        if rank == 0 or self._steps[name] < self._start_step:
            reduced = yield ops.allreduce_async(gradient, None, name, *terms[:3], process_set=terms.process_set)
            self._steps[name] = self._steps.get(name, 0) + 1
            return reduced
        matrix = gradient.reshape(gradient.shape[0], -1).to(torch.promote_types(gradient.dtype, torch.float32))
        memory = self._memories.get(name)
        if memory is None or memory.shape != matrix.shape:
            memory = _Memory(matrix, rank, self._seed)
        if memory.error is not None:
            matrix = matrix + memory.error
        left = yield self._send(f"{name}.left", _product(matrix, memory.right), terms)
        self._memories[name] = memory
        left = _orthonormal(left)
        right = yield self._send(f"{name}.right", _product(matrix.t(), left), terms)
        result = _product(left, right.t())
        if self._keeps_error:
            # Of this rank's part of the product.
            lacking = matrix - _product(left, _product(left.t(), matrix))
            memory.error = remainder(torch.isfinite(right).all(), lacking, memory.error)
        memory.keep(right)
        return result.to(gradient.dtype).view(gradient.shape)

    @staticmethod
    def _send(name: str, tensor: torch.Tensor, terms: Terms) -> ops.Handle:
        return ops.allreduce_async(tensor, None, name, *terms[:3], process_set=terms.process_set)


def _product(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    """In their own type, also where the program has torch.autocast choose another one."""
    with torch.autocast(left.device.type, enabled=False):
        return left @ right


def _orthonormal(matrix: torch.Tensor) -> torch.Tensor:
    """The columns by Gram and Schmidt, in order. Those that depend on columns before them are zero: what rounding leaves
    of them may have any direction."""
    result = matrix.clone()
    least = torch.finfo(matrix.dtype).eps ** 0.5
    for index in range(result.shape[1]):
        column = result[:, index : index + 1]
        before, norm = result[:, :index], column.norm()
        for _ in range(2):  # the second removes what rounding has left
            column -= _product(before, _product(before.t(), column))
        rest = column.norm()
        # Values that are not finite stay so, too.
        column.copy_(torch.where(rest <= least * norm, torch.zeros_like(column), column / rest))
    return result
