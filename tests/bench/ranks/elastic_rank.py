"""Elastic ranks that train a small model and tell when what happened: lines `EVENT SECONDS SIZE`, SECONDS of the host's
monotonic clock.

    elastic_rank.py DIRECTORY

Imports PyTorch once and starts a rank for each line of its input, a launch index. `ready`: the rank is about to join;
`noticed`: its epoch has ended; `step`, `steady`: the first step of an epoch is done, and 50 of them; `new`: a tensor of a
new name was reduced, for which rank 0 had found DIRECTORY/new. The ranks train until they are killed.
"""

import ctypes
import gc
import itertools
import os
import pathlib
import signal
import sys
import time
from typing import Any

import torch
import torch._dynamo  # noqa: F401; optimizers load it, which takes seconds that are not to be counted as a join's
from models import small

# Of the steps of an epoch.
TOLD = {1: "step", 50: "steady"}
PR_SET_PDEATHSIG = 1


def tell(event: str, size: int = 0) -> None:
    """One write, so that the lines of several ranks stay whole."""
    os.write(1, f"{event} {time.monotonic():.6f} {size}\n".encode())


def run(index: str, directory: pathlib.Path) -> None:
    """A rank."""
    os.environ["FARANDOLE_LAUNCH_INDEX"] = index
    import farandole.torch as hvd

    class State(hvd.elastic.TorchState):
        def restore(self) -> None:
            tell("noticed")
            super().restore()

    torch.set_num_threads(1)
    tell("ready")
    hvd.init()
    model, inputs, targets = small()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())

    @hvd.elastic.run
    def train(state: Any) -> None:
        size, rank = hvd.size(), hvd.rank()
        for number in itertools.count(1):
            optimizer.zero_grad()
            torch.nn.functional.mse_loss(model(inputs), targets).backward()
            optimizer.step()
            state.step += 1
            if number in TOLD:
                tell(TOLD[number], size)
            new = torch.tensor(rank == 0 and (directory / "new").exists())
            if hvd.allreduce(new, op=hvd.Max, name="wish").item():
                hvd.allreduce(torch.ones(1), name=f"new at {state.step}")
                (directory / "new").unlink(missing_ok=True)
                tell("new", size)
            state.commit()

    train(State(model=model, optimizer=optimizer, step=0))


def main() -> None:
    directory = pathlib.Path(sys.argv[1])
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    gc.freeze()
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            run(line.strip(), directory)
            os._exit(0)
        os.write(1, f"started {child} {line.strip()}\n".encode())


if __name__ == "__main__":
    main()
