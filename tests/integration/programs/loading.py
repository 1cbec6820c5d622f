"""Trains with a DataLoader of two processes until it learns that the epoch has ended."""

import os
import sys

import farandole.torch as hvd
import torch
from torch.utils.data import DataLoader, Dataset


class Points(Dataset):
    """Points without end, for a test. Numbers, which cross a pipe: a tensor crosses in a file of /dev/shm, which
    PyTorch leaves behind when it is killed between making and unlinking it."""

    def __len__(self) -> int:
        return 1_000_000

    def __getitem__(self, index: int) -> float:
        return index / 1_000_000


def main() -> None:
    torch.set_num_threads(1)
    hvd.init()
    model = torch.nn.Linear(8, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
    hvd.broadcast_parameters(model.state_dict(), 0)
    loader = DataLoader(Points(), batch_size=16, num_workers=2, multiprocessing_context="fork", collate_fn=list)
    batches = iter(loader)
    print("process", os.getpid(), "loaders", *(child.pid for child in batches._workers))
    for step, batch in enumerate(batches):
        optimizer.zero_grad()
        try:
            model(torch.tensor(batch).unsqueeze(1).expand(-1, 8)).sum().backward()
            optimizer.step()
        except hvd.EpochEnded as error:
            print(f"EpochEnded: {error}")
            sys.exit(3)
        if step % 10 == 0:
            print("step", step)


if __name__ == "__main__":
    main()
