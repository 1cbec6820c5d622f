"""A training loop over the ranks, and the same one in one process."""

from typing import Any, Optional

import farandole.torch as hvd
import torch
from torch import nn
from torch.nn import functional

BATCH = 24  # divisible by the sizes of these jobs
STEPS = 6


class Loop:
    """A training loop: alone, with the whole batch and the optimizer itself; or on a rank, with its share and
    the DistributedOptimizer."""

    def __init__(self, on_rank: bool, **options: Any) -> None:
        torch.manual_seed(3)
        self.on_rank, self.options = on_rank, options
        self.model = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 4)).double()
        self.inner = torch.optim.SGD(self.model.parameters(), lr=0.1, momentum=0.9, weight_decay=0.01)
        self.optimizer: Any = self.wrap(self.inner)

    def wrap(self, optimizer: torch.optim.Optimizer) -> Any:
        if not self.on_rank:
            return optimizer
        return hvd.DistributedOptimizer(optimizer, named_parameters=self.model.named_parameters(), **self.options)

    def loss(self, step: int, part: slice = slice(None), model: Optional[nn.Module] = None) -> torch.Tensor:
        generator = torch.Generator().manual_seed(step)
        images = torch.randn(BATCH, 6, generator=generator, dtype=torch.float64)
        labels = torch.randint(0, 4, (BATCH,), generator=generator)
        if self.on_rank:
            count = BATCH // hvd.size()
            mine = slice(hvd.rank() * count, (hvd.rank() + 1) * count)
            images, labels = images[mine], labels[mine]
        return functional.cross_entropy((model or self.model)(images[part]), labels[part])

    def synchronize(self) -> None:
        """The step that only a program for several ranks has."""
        if self.on_rank:
            self.optimizer.synchronize()

    def step(self) -> None:
        """After synchronize()."""
        if self.on_rank:
            with self.optimizer.skip_synchronize():
                self.optimizer.step()
        else:
            self.optimizer.step()

    def first(self) -> Any:
        """A parameter."""
        return self.model[0].weight

    def numbers(self) -> torch.Tensor:
        return torch.cat([parameter.detach().flatten() for parameter in self.model.parameters()])


def expect_same_bits(loop: Loop) -> None:
    mine = loop.numbers()
    for other in hvd.allgather(mine.view(1, -1)):
        assert torch.equal(other, mine), "replicas differ"
