"""A worker that is killed within fit(), in a job that is not elastic."""

import pathlib

import harness
from conftest import BACKENDS

PROGRAM = """
import os, signal
import numpy
from keras_checks.chosen import BACKEND, hvd, keras

hvd.init()
model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)])
options = {} if BACKEND == "jax" else {"jit_compile": False}
model.compile(hvd.DistributedOptimizer(keras.optimizers.SGD(0.1)), loss="mse", **options)


class Killed(keras.callbacks.Callback):
    ended = 0

    def on_train_batch_begin(self, batch, logs=None):
        if hvd.rank() == 1 and batch == 3:
            os.kill(os.getpid(), signal.SIGKILL)

    def on_train_batch_end(self, batch, logs=None):
        self.ended = batch + 1


killed, ones = Killed(), numpy.ones([50, 1], numpy.float32)
try:
    model.fit(ones, ones, batch_size=1, verbose=0, callbacks=[killed])
except Exception as error:
    print(f"told after {killed.ended} batches: {error}", flush=True)
"""


def test_a_killed_worker_is_named_by_fit(one_backend: str, tmp_path: pathlib.Path) -> None:
    """The others end with its name, in the step that it has no part in."""
    variables = {"OMP_NUM_THREADS": "1", "KERAS_BACKEND": "tensorflow", **BACKENDS[one_backend]}
    result = harness.run_program(tmp_path, PROGRAM, workers=3, **variables)
    told = [line for line in result.stdout.splitlines() if "told after 3 batches: " in line]
    assert len(told) == 2 and result.stdout.count("rank 1 (pid") >= 2, result.stdout + result.stderr
    assert result.returncode != 0, result.stdout
