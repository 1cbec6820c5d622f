"""A rank of torchrun that trains the small model of elastic_rank.py with DistributedDataParallel over Gloo, and tells
when its first steps are done: lines `EVENT SECONDS ATTEMPT`, and `started PID ATTEMPT`. ATTEMPT is how often torchrun has
started all ranks before. It goes on until it is killed, or until a peer's end fails its step.

    torchrun ... torchrun_rank.py
"""

import itertools
import os
import time

import torch
import torch.distributed
from models import small

# Of the steps after a start.
TOLD = {1: "step", 50: "steady"}


def main() -> None:
    attempt = os.environ["TORCHELASTIC_RESTART_COUNT"]
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo")
    os.write(1, f"started {os.getpid()} {attempt}\n".encode())
    model, inputs, targets = small()
    model = torch.nn.parallel.DistributedDataParallel(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    for number in itertools.count(1):
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(model(inputs), targets).backward()
        optimizer.step()
        if number in TOLD:
            os.write(1, f"{TOLD[number]} {time.monotonic():.6f} {attempt}\n".encode())


if __name__ == "__main__":
    main()
