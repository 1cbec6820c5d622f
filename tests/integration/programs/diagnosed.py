"""A job of steps, each of which is a little work and a collective, and in which something is wrong.

diagnosed.py KIND [STEPS]: the kind says what; most of it is rank 1's fault, and nothing is wrong in "balanced" and
"network". "balanced-7" is the one of seed 7, whose steps differ. Without STEPS it goes on until the test ends the job."""

import gc
import itertools
import random
import sys
import threading
import time

import farandole.numpy as hvd
import numpy as np

BASE_SECONDS = 0.01
# So that the network takes little of the time where it is as quick as it should be.
NETWORK_BASE_SECONDS = 0.05
EXTRA_SECONDS = 0.04
PAUSE_SECONDS = 2.0
BETWEEN_PAUSES = 4.0
SKIPPED_STEP = 100
# Objects in cycles that live on, which each full collection looks at, and that are garbage each time.
LIVING_CYCLES = 1_000_000
DEAD_CYCLES = 50_000
# Of steps without a fault, as a part of them.
NOISE = 0.2


def compute(seconds: float) -> None:
    """Keeps a core busy."""
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        pass


def idle(seconds: float) -> None:
    """Waits as for input that does not come."""
    threading.Event().wait(seconds)


class Cycle:
    """An object that only the garbage collector can free."""

    def __init__(self) -> None:
        self.itself = self


def collect(seconds: float) -> None:
    """Has Python's garbage collector work."""
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        for _ in range(DEAD_CYCLES):
            Cycle()
        gc.collect()


class Fault:
    """The fault of a rank, step by step."""

    def __init__(self, kind: str, rank: int) -> None:
        self.kind, _, seed = kind.partition("-")
        self.rank = rank
        self.noise = random.Random(f"{seed}/{rank}")
        self.living = [Cycle() for _ in range(LIVING_CYCLES)] if self.kind == "garbage" and rank == 1 else []
        self.paused = time.perf_counter()

    def work(self) -> None:
        """The work of one step."""
        base = NETWORK_BASE_SECONDS if self.kind == "network" else BASE_SECONDS
        idle(base * (self.noise.uniform(1 - NOISE, 1 + NOISE) if self.kind == "balanced" else 1))
        if self.kind == "busy" and self.rank == 1:
            compute(EXTRA_SECONDS)
        elif self.kind == "input" and self.rank == 1:
            idle(EXTRA_SECONDS)
        elif self.pauses() and time.perf_counter() > self.paused + BETWEEN_PAUSES:
            (collect if self.kind == "garbage" else compute)(PAUSE_SECONDS)
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
        begun = time.perf_counter()
        fault.work()
        # The price of the fault is known from it, also where a rank waits for a core.
        hvd.log({"worked": time.perf_counter() - begun}, step=step, by_rank=True)
        hvd.allreduce(gradient, name="gradient")
        hvd.log({"loss": 1 / (1 + step / 10)}, step=step)
        hvd.log({"samples": 32 + hvd.rank()}, step=step, by_rank=True)
        if not fault.skips(step):
            hvd.allreduce(np.ones(4, np.float32), name="loss")


if __name__ == "__main__":
    main()
