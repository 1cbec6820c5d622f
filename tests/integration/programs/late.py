"""Rank 1 submits a tensor only when its test lets it."""

import sys

import farandole.numpy as hvd
import numpy as np
from at_gate import wait_at


def main() -> None:
    hvd.init()
    hvd.allreduce(np.ones(2), name="before")
    if hvd.rank() == 1:
        print("waits", flush=True)
        wait_at(sys.argv[1])
    assert hvd.allreduce(np.ones(2), op=hvd.Sum, name="late")[0] == 2
    assert hvd.allreduce(np.ones(2), op=hvd.Sum, name="after")[0] == 2
    print("done")


if __name__ == "__main__":
    main()
