"""Ranks that are asked for a checkpoint while they do not take the same steps.

    asked_apart.py joined GATE DIRECTORY       rank 2 takes fewer steps than the others, and joins
    asked_apart.py interrupted GATE DIRECTORY  SIGUSR1 ends the call of rank 0 while it waits for rank 1

Each rank prints at which step it was told, and all write a checkpoint of it.
"""

import os
import pathlib
import signal
import sys
import threading
from types import FrameType
from typing import Optional

import farandole.numpy as hvd
import numpy as np
from at_gate import wait_at
from farandole import checkpoint

KIND, GATE, DIRECTORY = sys.argv[1:]
PAUSE = threading.Event()


class Interrupted(Exception):
    """The test's signal came."""


def on_signal(_: int, frame: Optional[FrameType]) -> None:
    """Ends the call, if the signal came within it."""
    while frame is not None and frame.f_code is not hvd.checkpoint_requested.__code__:
        frame = frame.f_back
    if frame is None:
        os.write(1, b"came early\n")  # print() may be running
        return
    raise Interrupted


def is_told() -> bool:
    """checkpoint_requested(), again after an interruption."""
    while True:
        try:
            return hvd.checkpoint_requested()
        except Interrupted:
            print("was interrupted", flush=True)


def step_until_told(step: int) -> None:
    """Each step until all are told; then a checkpoint."""
    while not is_told():
        step += 1
    print(f"told at step {step}", flush=True)
    checkpoint.save(
        lambda path: pathlib.Path(path).write_text("weights", encoding="utf-8"),
        DIRECTORY,
        step,
        extension="txt",
        wait=True,
    )


def step_with_a_joined_rank() -> None:
    """The other ranks ask 300 times while rank 2 has joined."""
    for _ in range(3):
        assert not hvd.checkpoint_requested()
    if hvd.rank() != 2:
        # Complete when rank 2 has joined, and only then.
        alone = hvd.allreduce(np.ones(1), op=hvd.Sum, name="alone")
        print(f"goes on with {alone[0]:.0f} of {hvd.size()}", flush=True)
        wait_at(GATE)
        told = 0
        for _ in range(300):
            told += hvd.checkpoint_requested()
            PAUSE.wait(0.002)
        print(f"told {told} times beside a rank that has joined", flush=True)
    hvd.join()


hvd.init()
if KIND == "joined":
    step_with_a_joined_rank()
else:
    signal.signal(signal.SIGUSR1, on_signal)
    print(f"runs as rank {hvd.rank()}", flush=True)
    if hvd.rank() == 1:
        wait_at(GATE)
step_until_told(0)
