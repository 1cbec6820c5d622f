"""A job of PyTorch whose program marks sections, and in which rank 1 loses 60 ms a step in one of them.

marked_sections.py SECTION: "data" (it sleeps in its loader), "forward" (it computes) or "none"."""

import sys
import threading
import time
from typing import Any, Iterable

import farandole.torch as hvd
import torch
from farandole.data import BaseDataLoader

BASE_SECONDS = 0.02
EXTRA_SECONDS = 0.06


class Batches(BaseDataLoader):
    """Batches without end, which rank 1 gets late."""

    def __init__(self, extra_seconds: float) -> None:
        self.seconds = BASE_SECONDS + extra_seconds

    def __len__(self) -> int:
        return sys.maxsize

    def _iterate(self) -> Iterable[Any]:
        while True:
            threading.Event().wait(self.seconds)
            yield torch.ones(8, 64)


@hvd.section("forward")
def forward(model: torch.nn.Module, batch: torch.Tensor, extra_seconds: float) -> torch.Tensor:
    """The loss; keeps a core busy besides."""
    end = time.perf_counter() + extra_seconds
    while time.perf_counter() < end:
        pass
    return model(batch).sum()


def main() -> None:
    hvd.init()
    torch.set_num_threads(1)
    extra = {
        section: EXTRA_SECONDS if hvd.rank() == 1 and sys.argv[1] == section else 0 for section in ("data", "forward")
    }
    model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 8))
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=1e-6), model.named_parameters())
    print("runs", flush=True)
    for batch in Batches(extra["data"]):
        optimizer.zero_grad()
        loss = forward(model, batch, extra["forward"])
        loss.backward()
        optimizer.step()


if __name__ == "__main__":
    main()
