"""A job in which all that a program can name has a name that would be a page's markup, or turn its text around.

hostile_names.py NAME SECTION DIRECTORY GATE: steps until there is a file DIRECTORY/stall; then rank 1 waits at the gate, and
rank 0 for its tensor. The checkpoint is in a folder of that name, too."""

import itertools
import pathlib
import sys
import threading

import farandole.numpy as hvd
import numpy as np
from at_gate import wait_at
from farandole import checkpoint

STEP_SECONDS = 0.02


def write(path: str) -> None:
    """The file of a checkpoint."""
    pathlib.Path(path).write_text("weights", encoding="utf-8")


def main() -> None:
    name, section, directory, gate = sys.argv[1:]
    hvd.init()
    gradient = np.ones(8192, np.float32)
    checkpoint.save(write, str(pathlib.Path(directory) / name), 1, extension="txt", wait=True)
    print("runs", flush=True)
    for step in itertools.count():
        with hvd.section(section):
            threading.Event().wait(STEP_SECONDS)
        if hvd.rank() == 1 and (pathlib.Path(directory) / "stall").exists():
            wait_at(gate)
        hvd.allreduce(gradient, name=name)
        hvd.log({section: step}, step=step)


if __name__ == "__main__":
    main()
