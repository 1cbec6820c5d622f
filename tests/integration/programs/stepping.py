"""Steps until its test wishes otherwise, by files in a directory: `new` for a tensor of a new name, then `stop`.

Rank 0 looks for them and tells the others in what it reduces, so that all do the same in the same step.
"""

import os
import pathlib
import sys

import farandole.numpy as hvd
import numpy as np
from outcome import run_and_report

NEW, STOP = 1.0, 2.0


def wish(directory: pathlib.Path) -> float:
    """The wish that rank 0 finds; each `new` counts once."""
    if hvd.rank() != 0:
        return 0.0
    try:
        (directory / "new").unlink()
        return NEW
    except FileNotFoundError:
        return STOP if (directory / "stop").exists() else 0.0


def main() -> None:
    directory = pathlib.Path(sys.argv[1])
    hvd.init()
    # One write: under mpirun the ranks share a stream.
    print(f"process {os.getpid()}")
    values = np.ones(10_000, dtype=np.float32)
    step = 0
    while True:
        values[:] = 1.0
        values[0] = wish(directory)
        total = hvd.allreduce(values, op=hvd.Sum, name="known")
        assert total[1] == hvd.size()
        if total[0] == STOP:
            break
        if total[0] == NEW:
            hvd.allreduce(np.ones(3), op=hvd.Sum, name=f"new at {step}")
            print("a new tensor at step", step)
        step += 1
        if step % 50 == 0:
            print(f"step {step}")
    hvd.shutdown()
    print("done")


if __name__ == "__main__":
    run_and_report(main)
