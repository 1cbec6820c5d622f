"""Writes a checkpoint that fits on its disk and one that does not."""

import sys

import farandole.checkpoint
import farandole.torch as hvd
import torch


def main() -> None:
    directory = sys.argv[1]
    hvd.init()
    print("written:", farandole.checkpoint.save({"weight": torch.ones(50_000)}, directory, 1))
    try:
        farandole.checkpoint.save({"weight": torch.ones(5_000_000)}, directory, 2)
    except hvd.CheckpointError as error:
        print(f"CheckpointError: {error}")
    print("latest:", farandole.checkpoint.latest(directory))


if __name__ == "__main__":
    main()
