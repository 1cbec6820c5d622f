"""A job of steps with three tensors, until its directory has the file `stop`: "late" is small, and the last rank comes
20 ms late to it; to "large" and "small" all come together. At the end rank 0 prints how long its calls for "large" took
in the mean, in microseconds.

tensors.py DIRECTORY"""

import pathlib
import sys
import threading
import time

import farandole.numpy as hvd
import numpy as np

LATE_SECONDS = 0.02
LARGE_ELEMENTS = 1 << 20


def main() -> None:
    stop = pathlib.Path(sys.argv[1]) / "stop"
    hvd.init()
    large, small = np.ones(LARGE_ELEMENTS, np.float32), np.ones(1, np.float32)
    is_over, steps, spent = False, 0, 0.0
    while not is_over:
        if hvd.rank() == hvd.size() - 1:
            threading.Event().wait(LATE_SECONDS)  # as for input
        # The ranks need not find the file in the same step.
        found = np.array([hvd.rank() == 0 and stop.exists()], np.float32)
        is_over = bool(hvd.allreduce(found, name="late", op=hvd.Sum)[0])
        began = time.perf_counter()
        hvd.allreduce(large, name="large")
        spent += time.perf_counter() - began
        hvd.allreduce(small, name="small")
        steps += 1
        if steps == 5:
            print("steps", flush=True)
    if hvd.rank() == 0:
        print(f"large took {1e6 * spent / steps:.0f} us", flush=True)


if __name__ == "__main__":
    main()
