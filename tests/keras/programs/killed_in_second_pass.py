"""Runs an elastic example, the first argument, with the others as its own, and kills a worker in the second pass."""

import os
import pathlib
import runpy
import signal
import sys
from typing import Any

import farandole.keras as hvd


class Killed(hvd.elastic.UpdateBatchStateCallback):
    """Kills the second worker. The one that comes in its place has another number."""

    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        if os.environ["FARANDOLE_LAUNCH_INDEX"] == "1" and self.state.epoch == 1 and batch == 3:
            os.kill(os.getpid(), signal.SIGKILL)


hvd.elastic.UpdateBatchStateCallback = Killed
sys.argv = sys.argv[1:]
sys.path.insert(0, str(pathlib.Path(sys.argv[0]).parent))
runpy.run_path(sys.argv[0], run_name="__main__")
