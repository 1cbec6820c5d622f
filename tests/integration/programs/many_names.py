"""A model of many parameters is broadcast, trains a step, gets its AdamW state from rank 0, and goes on.

Each tensor has a name of its own, also in the broadcasts: 20,000 parameters are 100,000 names, more than an epoch knows at
a time. Says how long each part took.
"""

import sys
import time
from typing import List

import farandole.torch as hvd
import torch

PARAMETERS = int(sys.argv[1])


def broadcast_by_name(tensors: List[torch.Tensor], prefix: str) -> None:
    """All at once, as Horovod's broadcast_parameters does it."""
    handles = [hvd.broadcast_async_(tensor, root_rank=0, name=f"{prefix}.{i}") for i, tensor in enumerate(tensors)]
    for handle in handles:
        hvd.synchronize(handle)


def digest(tensors: List[torch.Tensor]) -> torch.Tensor:
    return torch.cat([tensor.reshape(-1) for tensor in tensors]).double()


def train(parameters: List[torch.nn.Parameter], optimizer: torch.optim.Optimizer) -> None:
    optimizer.zero_grad()
    (torch.cat([p.reshape(-1) for p in parameters]) * (hvd.rank() + 1)).square().sum().backward()
    optimizer.step()


def state_of(optimizer: torch.optim.Optimizer) -> List[torch.Tensor]:
    return [tensor for state in optimizer.state.values() for tensor in state.values()]


def main() -> None:
    hvd.init()
    torch.manual_seed(hvd.rank())
    parameters = [torch.nn.Parameter(torch.randn(2)) for _ in range(PARAMETERS)]
    adam = torch.optim.AdamW(parameters, lr=0.01)
    optimizer = hvd.DistributedOptimizer(adam, named_parameters=[(f"p{i}", p) for i, p in enumerate(parameters)])
    since = time.monotonic()
    broadcast_by_name([p.data for p in parameters], "parameter")
    print(f"parameters are broadcast after {time.monotonic() - since:.2f} s", flush=True)
    since = time.monotonic()
    train(parameters, optimizer)
    print(f"the first step took {time.monotonic() - since:.2f} s", flush=True)
    # A resume: rank 0 alone knows the state.
    if hvd.rank() != 0:
        for tensor in state_of(adam):
            tensor.zero_()
    since = time.monotonic()
    broadcast_by_name(state_of(adam), "state")
    print(f"{len(state_of(adam))} tensors of state are broadcast after {time.monotonic() - since:.2f} s", flush=True)
    since = time.monotonic()
    train(parameters, optimizer)
    print(f"another step took {time.monotonic() - since:.2f} s", flush=True)
    for of_all in (digest(parameters), digest(state_of(adam))):
        assert torch.equal(of_all, hvd.broadcast(of_all, root_rank=0, name="digest")), "the ranks differ"
    print("resumed", flush=True)
    hvd.shutdown()


if __name__ == "__main__":
    main()
