"""Logs numbers of each step until its test wishes it to stop, by a file: `loss` = step + rank of all ranks, `time` by rank.

logs_numbers.py DIRECTORY
"""

import os
import pathlib
import sys
import threading
import time

import farandole.numpy as hvd
import numpy as np

PAUSE = threading.Event()


def main() -> None:
    directory = pathlib.Path(sys.argv[1])
    hvd.init()
    print(f"process {os.getpid()}")
    kinds = [float, np.float32]
    if "--torch" in sys.argv:
        import torch

        kinds.append(torch.tensor)
    stop = np.zeros(1)
    step = 0
    while stop.item() == 0:
        # Scalars of several kinds.
        value = kinds[step % len(kinds)](float(step))
        before = time.perf_counter()
        hvd.log({"loss": value + hvd.rank()}, step=step)
        hvd.log({"time": hvd.rank()}, step=step, by_rank=True)
        hvd.log({"count": 1})
        assert time.perf_counter() - before < 0.5
        stop[0] = 1.0 if hvd.rank() == 0 and (directory / "stop").exists() else 0.0
        stop = hvd.allreduce(stop, op=hvd.Sum, name="stop")
        step += 1
        if step == 30:
            print("logs")
        PAUSE.wait(0.01)
    print(f"done after {step} steps")


main()
