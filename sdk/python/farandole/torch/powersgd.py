"""PowerSGD: gradients travel as matrices of low rank."""

from typing import Dict

import torch

from . import ops
from .exchange import Exchange, GradientExchange, Terms

# What keeps a column of zeros from being divided by zero.
_LEAST_NORM = 1e-30


class _Memory:
    """Of one parameter."""

    def __init__(self, matrix: torch.Tensor, rank: int, seed: int) -> None:
        generator = torch.Generator().manual_seed(seed)
        self.start = torch.randn(matrix.shape[1], rank, generator=generator).to(matrix)
        self.right = self.start
        self.error = torch.zeros_like(matrix)

    def keep(self, right: torch.Tensor) -> None:
        """Begins the next step with these columns, but for those that say nothing: of zeros, or not finite."""
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
    ValueError: an argument is out of bounds.
    """

    def __init__(
        self, rank: int = 4, start_step: int = 1000, min_ratio: float = 2.0, error_feedback: bool = True, seed: int = 0
    ) -> None:
        if rank < 1 or start_step < 0 or min_ratio < 1.0:
            raise ValueError(
                "PowerSGD needs rank >= 1, start_step >= 0 and min_ratio >= 1, "
                f"not rank={rank}, start_step={start_step}, min_ratio={min_ratio}"
            )
        self._rank, self._start_step, self._min_ratio = rank, start_step, min_ratio
        self._keeps_error, self._seed = error_feedback, seed
        self._memories: Dict[str, _Memory] = {}
        self._steps: Dict[str, int] = {}

    def begin_epoch(self) -> None:
        self._memories, self._steps = {}, {}

    def _rank_of(self, gradient: torch.Tensor) -> int:
        """By how many columns the gradient is sent; 0: as it is."""
        if gradient.dim() < 2 or gradient.numel() == 0 or not gradient.is_floating_point():
            return 0
        rows, columns = gradient.shape[0], gradient.numel() // gradient.shape[0]
        rank = min(self._rank, rows, columns)
        return rank if (rows + columns) * rank * self._min_ratio <= rows * columns else 0

    @torch.no_grad()
    def reduce(self, name: str, gradient: torch.Tensor, terms: Terms) -> Exchange:
        step = self._steps[name] = self._steps.get(name, 0) + 1
        rank = self._rank_of(gradient)
        if rank == 0 or step <= self._start_step:
            return (yield ops.allreduce_async(gradient, None, name, *terms[:3], process_set=terms.process_set))
        matrix = gradient.reshape(gradient.shape[0], -1).to(torch.promote_types(gradient.dtype, torch.float32))
        memory = self._memories.get(name)
        if memory is None:
            memory = self._memories[name] = _Memory(matrix, rank, self._seed)
        matrix = matrix + memory.error
        left = yield self._send(f"{name}.left", matrix @ memory.right, terms)
        left = _orthonormal(left)
        right = yield self._send(f"{name}.right", matrix.t() @ left, terms)
        result = left @ right.t()
        if self._keeps_error:
            # By this rank's part of the product. A gradient that is not finite, as a GradScaler meets them, is forgotten.
            memory.error = torch.nan_to_num(matrix - left @ (left.t() @ matrix), nan=0.0, posinf=0.0, neginf=0.0)
        memory.keep(right)
        return result.to(gradient.dtype).view(gradient.shape)

    @staticmethod
    def _send(name: str, tensor: torch.Tensor, terms: Terms) -> ops.Handle:
        return ops.allreduce_async(tensor, None, name, *terms[:3], process_set=terms.process_set)


def _orthonormal(matrix: torch.Tensor) -> torch.Tensor:
    """The columns by Gram and Schmidt, in order: equal matrices give equal bits. Columns that depend on those before
    them become small or zero."""
    result = matrix.clone()
    for index in range(result.shape[1]):
        column = result[:, index : index + 1]
        before = result[:, :index]
        for _ in range(2):  # the second removes what rounding has left
            column -= before @ (before.t() @ column)
        column /= column.norm().clamp_min(_LEAST_NORM)
    return result
