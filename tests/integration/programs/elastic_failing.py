"""An elastic job whose program has a fault: rank 0 fails at its fifth step, each time."""

import farandole.numpy as hvd
import numpy as np


@hvd.elastic.run
def train(state: hvd.elastic.ObjectState) -> None:
    while True:
        hvd.allreduce(np.zeros(10), name="step")
        state.step += 1
        if state.step == 5 and hvd.rank() == 0:
            raise KeyError("a fault of the program")


hvd.init()
train(hvd.elastic.ObjectState(step=0))
