"""A rank of a job that pages look at: steps of 10 ms, each with four allreduces, until the gate opens. Rank 0 then writes
each step's beginning and its allreduces' time, in seconds of CLOCK_MONOTONIC, to a file.

farandole run ... paged_rank.py GATE FILE
"""

import json
import pathlib
import sys
import threading
import time

import farandole.numpy as hvd
import numpy as np

sys.path.append(str(pathlib.Path(__file__).resolve().parents[2] / "integration" / "programs"))
from at_gate import wait_at  # noqa: E402  pylint: disable=wrong-import-position

STEP_SECONDS = 0.01
COUNTS = (1, 1024, 16 << 10, 256 << 10)


def main() -> None:
    """Steps until told to end, at the same step on all ranks."""
    hvd.init()
    ended, computes = threading.Event(), threading.Event()
    if hvd.rank() == 0:
        threading.Thread(target=lambda: (wait_at(sys.argv[1]), ended.set()), daemon=True).start()
        print("steps begin", flush=True)
    tensors = [np.ones(count, np.float32) for count in COUNTS]
    steps = []
    while True:
        computes.wait(STEP_SECONDS)
        begun = time.monotonic()
        for number, tensor in enumerate(tensors):
            hvd.allreduce(tensor, name=f"gradient{number}", op=hvd.Sum)
        steps.append((begun, time.monotonic() - begun))
        if hvd.allreduce(np.array([ended.is_set()], np.float32), name="ended", op=hvd.Sum)[0] > 0:
            break
    if hvd.rank() == 0:
        pathlib.Path(sys.argv[2]).write_text(json.dumps(steps), encoding="utf-8")
    hvd.shutdown()


if __name__ == "__main__":
    main()
