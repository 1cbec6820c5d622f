"""A job that loses its rank 1 in the way that it is told, or whose worker 1 ends before it joins.

dying.py WAY GATE: "exits", with no traceback; "leaves", by sys.exit; "stands", stopped; "never joins", after the gate;
"waits": for its end.
"""

import os
import signal
import sys

import farandole.numpy as hvd
import numpy as np
from at_gate import wait_at

STEPS = 10


def end(way: str) -> None:
    if way == "exits":
        os._exit(3)
    elif way == "leaves":
        sys.exit(3)
    elif way == "stands":
        os.kill(os.getpid(), signal.SIGSTOP)


def main() -> None:
    way, gate = sys.argv[1:]
    if way == "never joins" and os.environ["FARANDOLE_LAUNCH_INDEX"] == "1":
        wait_at(gate)
        os._exit(5)
    hvd.init()
    values = np.ones(1000, np.float32)
    step = 0
    while True:
        if step == STEPS:
            print(f"process {os.getpid()}", flush=True)
            if hvd.rank() == 1:
                end(way)
        hvd.allreduce(values, name="values")
        step += 1


if __name__ == "__main__":
    main()
