"""A job of steps, each of which is a little work and a collective, and in which something is wrong.

diagnosed.py KIND [STEPS]: the kind says what; most of it is rank 1's fault. Without STEPS it goes on until the test ends
the job."""

import itertools
import sys
import threading
import time

import farandole.numpy as hvd
import numpy as np

BASE_SECONDS = 0.01
EXTRA_SECONDS = 0.04
PAUSE_SECONDS = 2.0
BETWEEN_PAUSES = 4.0
SKIPPED_STEP = 100


def compute(seconds: float) -> None:
    """Keeps a core busy."""
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        pass


def idle(seconds: float) -> None:
    """Waits as for input that does not come."""
    threading.Event().wait(seconds)


class Fault:
    """The fault of a rank, step by step."""

    def __init__(self, kind: str, rank: int) -> None:
        self.kind = kind
        self.rank = rank
        self.paused = time.perf_counter()

    def work(self) -> None:
        """The work of one step."""
        idle(BASE_SECONDS)
        if self.kind == "busy" and self.rank == 1:
            compute(EXTRA_SECONDS)
        elif self.kind == "input" and self.rank == 1:
            idle(EXTRA_SECONDS)
        elif self.pauses() and time.perf_counter() > self.paused + BETWEEN_PAUSES:
            compute(PAUSE_SECONDS)
            self.paused = time.perf_counter()

    def pauses(self) -> bool:
        """Whether it does something now and then that the others do not."""
        return (self.kind == "validation" and self.rank == 0) or (self.kind == "garbage" and self.rank == 1)

    def skips(self, step: int) -> bool:
        """Whether it leaves out the step's second collective."""
        return self.kind == "skip" and self.rank == 1 and step == SKIPPED_STEP


def main() -> None:
    kind = sys.argv[1]
    hvd.init()
    fault = Fault(kind, hvd.rank())
    gradient = np.ones(262144 if kind == "network" else 1024, np.float32)
    print("runs", flush=True)
    for step in range(int(sys.argv[2])) if len(sys.argv) > 2 else itertools.count():
        fault.work()
        hvd.allreduce(gradient, name="gradient")
        hvd.log({"loss": 1 / (1 + step / 10)}, step=step)
        hvd.log({"samples": 32 + hvd.rank()}, step=step, by_rank=True)
        if not fault.skips(step):
            hvd.allreduce(np.ones(4, np.float32), name="loss")


if __name__ == "__main__":
    main()
