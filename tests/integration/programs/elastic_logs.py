"""An elastic job that commits every ten steps and logs the number of its epoch, until there is a file `stop`.

elastic_logs.py DIRECTORY
"""

import os
import pathlib
import sys
import threading

import farandole.numpy as hvd
import numpy as np

PAUSE = threading.Event()
DIRECTORY = pathlib.Path(sys.argv[1])


@hvd.elastic.run
def train(state: hvd.elastic.ObjectState) -> None:
    state.epochs += 1
    print(f"process {os.getpid()} epoch {state.epochs} from step {state.step}")
    while not state.stop:
        hvd.log({"epoch": state.epochs}, step=state.step)
        wish = 1.0 if hvd.rank() == 0 and (DIRECTORY / "stop").exists() else 0.0
        state.stop = hvd.allreduce(np.array(wish), op=hvd.Sum, name="wish") > 0
        state.step += 1
        if state.step % 10 == 0:
            state.commit()
        if state.step % 25 == 0:
            print(f"step {state.step} of {hvd.size()}")
        PAUSE.wait(0.02)


hvd.init()
train(hvd.elastic.ObjectState(step=0, epochs=0, stop=False))
print("done")
