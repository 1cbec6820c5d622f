"""A job for test_clients.py to look at: one that waits for its rank 1, or an elastic one that goes on until one rank is
left and has a checkpoint.

client_job.py stall
client_job.py shrink FOLDER
client_job.py save FOLDER STEP...    keeps these checkpoints of the state "net", and waits
client_job.py late GATE FOLDER COUNT waits at the test's gate, keeps so many checkpoints, and ends
client_job.py asked FOLDER           goes on until it is asked for a checkpoint, keeps one, and ends
client_job.py leave                  ends at once
"""

import pathlib
import signal
import sys

import farandole.numpy as hvd
import numpy as np
from at_gate import wait_at
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


def save_one(folder: str, step: int) -> None:
    checkpoint.save(lambda path: pathlib.Path(path).write_text("state"), folder, step, name="net", extension="txt")


def save(folder: str, steps: "list[str]") -> None:
    for step in map(int, steps):
        save_one(folder, step)
    signal.pause()


def asked(folder: str) -> None:
    step = 1
    while not hvd.checkpoint_requested():
        step += 1
    save_one(folder, step)


if __name__ == "__main__":
    hvd.init()
    if sys.argv[1] == "stall":
        stall()
    elif sys.argv[1] == "save":
        save(sys.argv[2], sys.argv[3:])
    elif sys.argv[1] == "late":
        print("waits")
        wait_at(sys.argv[2])
        for step in range(1, int(sys.argv[4]) + 1):
            save_one(sys.argv[3], step)
            print(f"saved {step}")
    elif sys.argv[1] == "asked":
        asked(sys.argv[2])
    elif sys.argv[1] == "leave":
        hvd.shutdown()
    else:
        shrink(hvd.elastic.ObjectState(step=0), sys.argv[2])
