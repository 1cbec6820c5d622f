"""Ranks of different speeds that write a checkpoint whenever somebody asks for one; each prints at which step it was told.

    asked_checkpoint.py DIRECTORY [--times N] [--fails]

Ends when it was told N times. With --fails, the file cannot be written.
"""

import argparse
import os
import pathlib
import threading

import farandole.numpy as hvd
from farandole import checkpoint
from farandole.exceptions import CheckpointError

PAUSE = threading.Event()
INDEX = int(os.environ.get("FARANDOLE_LAUNCH_INDEX", "0"))


def write(path: str) -> None:
    """The file of a checkpoint."""
    if ARGUMENTS.fails:
        raise OSError("the ink is dry")
    pathlib.Path(path).write_text("weights", encoding="utf-8")


@hvd.elastic.run
def train(state: hvd.elastic.ObjectState) -> None:
    """Steps in which ranks wait for each other only where the library has them do so."""
    print(f"runs as rank {hvd.rank()} of {hvd.size()}", flush=True)
    while state.told < ARGUMENTS.times:
        state.step += 1
        # Some 1, 4 and 7 ms.
        PAUSE.wait(0.001 + 0.003 * (INDEX % 3))
        if state.step % 10 == 0:
            state.commit()
        if not hvd.checkpoint_requested():
            continue
        print(f"told at step {state.step} of {hvd.size()}", flush=True)
        try:
            path = checkpoint.save(write, str(ARGUMENTS.directory), state.step, extension="txt", wait=True)
            print(f"written: {path}", flush=True)
        except CheckpointError as error:
            print(f"failed: {error}", flush=True)
        state.told += 1


parser = argparse.ArgumentParser()
parser.add_argument("directory", type=pathlib.Path)
parser.add_argument("--times", type=int, default=1)
parser.add_argument("--fails", action="store_true")
ARGUMENTS = parser.parse_args()
hvd.init()
train(hvd.elastic.ObjectState(step=0, told=0))
print("done", flush=True)
