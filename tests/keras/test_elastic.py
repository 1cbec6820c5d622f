"""A worker that is killed within fit(), on each backend of Keras 3 and with tf-keras: the other goes on, and no batch counts twice."""

import pathlib

import harness
import pytest
from conftest import SETUPS

PROGRAM = """
import os, signal
import numpy
from keras_checks.chosen import BACKEND, hvd, keras

hvd.init()
model = keras.Sequential([keras.layers.Dense(1, use_bias=False, kernel_initializer="zeros")])
model.build((None, 1))
options = {} if BACKEND == "jax" else {"jit_compile": False}
# The gradient of each step is -1 on all ranks: a step adds 1 to the weight.
model.compile(hvd.DistributedOptimizer(keras.optimizers.SGD(1.0)), loss=lambda wanted, found: -found, **options)
state = hvd.elastic.KerasState(model, batch=0, epoch=0)


class Killed(keras.callbacks.Callback):
    def on_train_batch_begin(self, batch, logs=None):
        if hvd.rank() == 1 and state.epoch == 1 and batch == 2:
            os.kill(os.getpid(), signal.SIGKILL)


@hvd.elastic.run
def train(state):
    ones = numpy.ones([5, 1], numpy.float32)
    elastic = hvd.elastic
    callbacks = [
        Killed(),
        elastic.UpdateEpochStateCallback(state),
        elastic.UpdateBatchStateCallback(state),
        elastic.CommitStateCallback(state),
    ]
    print(f"epoch {state.epoch}, batch {state.batch}", flush=True)
    model.fit(ones, ones, batch_size=1, epochs=3 - state.epoch, verbose=0, callbacks=callbacks)


train(state)
print(f"ended with {hvd.size()} ranks, epoch {state.epoch}, weight {model.get_weights()[0][0, 0]:g}", flush=True)
"""


@pytest.mark.parametrize("backend", SETUPS)
def test_fit_goes_on_after_a_loss(backend: str, tmp_path: pathlib.Path) -> None:
    variables = {"OMP_NUM_THREADS": "1", "KERAS_BACKEND": "tensorflow", **SETUPS[backend]}
    # Nobody comes in the place of the one that is lost.
    options = ["--min-np", "1", "--max-np", "2", "--reset-limit", "1"]
    result = harness.run_program(tmp_path, PROGRAM, *options, **variables)
    said = result.stdout + result.stderr
    assert "epoch 1, batch 2" in result.stdout and "epoch 3, weight 15" in result.stdout, said[-5000:]
