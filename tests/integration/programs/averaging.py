"""Sums tensors of a known pattern until a file is there, and says whether each sum is right."""

import pathlib
import sys

import farandole.numpy as hvd
import numpy as np
from outcome import run_and_report

PATTERN = bytes.fromhex("5ca1ab1e0ddba11c0ffee123456789ab")
# Too large for what travels beside the tensors' order, and small enough for it.
SIZES = {"large": 1 << 20, "small": 64}


def main() -> None:
    end = pathlib.Path(sys.argv[1])
    hvd.init()
    inputs = {name: np.frombuffer(PATTERN * (size // len(PATTERN)), dtype=np.int32) for name, size in SIZES.items()}
    is_over = False
    while not is_over:
        for name, values in inputs.items():
            total = hvd.allreduce(values, op=hvd.Sum, name=name)
            # In 32 bits, as the elements are added.
            print(f"{name} {'right' if (total == values * np.int32(hvd.size())).all() else 'WRONG'}", flush=True)
        is_over = bool(hvd.allreduce(np.array([int(end.exists())]), op=hvd.Max, name="end")[0])
    hvd.shutdown()
    print("done")


if __name__ == "__main__":
    run_and_report(main)
