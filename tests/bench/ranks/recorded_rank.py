"""A rank of a job whose timeline is recorded in turns: each time that the gate lets it through it times allreduces of two
sizes, and rank 0 prints the median and the mean of each, in seconds. Ends after so many turns.

farandole run ... recorded_rank.py GATE TURNS
"""

import json
import pathlib
import statistics
import sys
import time
from typing import List

import farandole.numpy as hvd
import numpy as np

sys.path.append(str(pathlib.Path(__file__).resolve().parents[2] / "integration" / "programs"))
from at_gate import wait_at  # noqa: E402  pylint: disable=wrong-import-position

# By bytes: how many calls are timed. Together they take some tenths of a second.
CALLS = {4: 20_000, 1 << 20: 500}


def times(tensor: np.ndarray, name: str, calls: int) -> List[float]:
    """The seconds of each call; a tenth more of them go before."""
    taken = []
    for call in range(-calls // 10, calls):
        begun = time.perf_counter()
        hvd.allreduce_(tensor, name=name, op=hvd.Max)
        if call >= 0:
            taken.append(time.perf_counter() - begun)
    return taken


def main() -> None:
    """Measures in each turn."""
    hvd.init()
    tensors = {size: np.ones(size // 4, np.float32) for size in CALLS}
    for _ in range(int(sys.argv[2])):
        if hvd.rank() == 0:
            print("ready", flush=True)
        wait_at(sys.argv[1])
        measured = {}
        for size, tensor in tensors.items():
            taken = times(tensor, f"tensor{size}", CALLS[size])
            measured[size] = [statistics.median(taken), statistics.fmean(taken)]
        if hvd.rank() == 0:
            print("measured", json.dumps(measured), flush=True)
    hvd.shutdown()


if __name__ == "__main__":
    main()
