"""A job of steps with two collectives, in which the last rank stops taking part: between "grad.17" and "grad.18" of its
step 20.

stuck.py KIND: "skip" leaves "grad.18" out once and goes on; "sleep" waits in Python, in load_batch(); "native" waits in C
and keeps the interpreter's lock."""

import ctypes
import itertools
import sys
import threading

import farandole.numpy as hvd
import numpy as np

STEP = 20
SECONDS = 600


def load_batch() -> None:
    """Waits as for input that does not come."""
    threading.Event().wait(SECONDS)


def wait_in_c() -> None:
    """Waits in a function of C that does not release the interpreter's lock."""
    ctypes.PyDLL(None).sleep(SECONDS)


def main() -> None:
    kind = sys.argv[1]
    hvd.init()
    # Too large for the exchange of small tensors, which belong to no batch.
    gradient = np.ones(8192, np.float32)
    for step in itertools.count():
        hvd.allreduce(gradient, name="grad.17")
        is_stuck = hvd.rank() == hvd.size() - 1 and step == STEP
        if is_stuck:
            print("stuck", flush=True)
            {"skip": int, "sleep": load_batch, "native": wait_in_c}[kind]()
        if not is_stuck:
            hvd.allreduce(gradient, name="grad.18")


if __name__ == "__main__":
    main()
