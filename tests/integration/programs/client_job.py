"""A job for test_clients.py to look at: one that waits for its rank 1, or an elastic one that goes on until one rank is
left and has a checkpoint.

client_job.py stall
client_job.py shrink FOLDER
"""

import pathlib
import signal
import sys

import farandole.numpy as hvd
import numpy as np
from farandole import checkpoint


def stall() -> None:
    if hvd.rank() == 1:
        signal.pause()
    hvd.allreduce(np.ones(1), name="late")


@hvd.elastic.run
def shrink(state: hvd.elastic.ObjectState, folder: str) -> None:
    if state.step == 0:
        checkpoint.save(lambda path: pathlib.Path(path).write_text("state"), folder, 7, name="net", extension="txt")
        state.step = 1
    while hvd.size() > 1:
        hvd.allreduce(np.ones(1), name="gradient")
        state.commit()


if __name__ == "__main__":
    hvd.init()
    if sys.argv[1] == "stall":
        stall()
    else:
        shrink(hvd.elastic.ObjectState(step=0), sys.argv[2])
