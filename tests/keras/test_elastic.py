"""Workers that come and are killed within fit(), on each backend of Keras 3 and with tf-keras: the others go on, and no
batch counts twice."""

import pathlib

import harness
import pytest
from conftest import BACKENDS

PROGRAM = """
import os, signal
import numpy
from keras_checks.chosen import BACKEND, hvd, keras

hvd.init()
# The dropout keeps all, and has a state: JAX deletes it in a step that fails.
layers = [keras.layers.Dropout(1e-9), keras.layers.Dense(1, use_bias=False, kernel_initializer="zeros")]
model = keras.Sequential(layers)
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


@pytest.mark.parametrize("backend", BACKENDS)
def test_fit_goes_on_after_a_loss(backend: str, tmp_path: pathlib.Path) -> None:
    variables = {"OMP_NUM_THREADS": "1", "KERAS_BACKEND": "tensorflow", **BACKENDS[backend]}
    # Nobody comes in the place of the one that is lost.
    options = ["--min-np", "1", "--max-np", "2", "--reset-limit", "1"]
    result = harness.run_program(tmp_path, PROGRAM, *options, **variables)
    said = result.stdout + result.stderr
    assert "epoch 1, batch 2" in result.stdout and "epoch 3, weight 15" in result.stdout, said[-5000:]


PASSES = """
import os, signal, time
import numpy
from keras_checks.chosen import BACKEND, hvd, keras
from farandole import _epochs

hvd.init()
model = keras.Sequential([keras.layers.Dense(1, use_bias=False, kernel_initializer="zeros")])
model.build((None, 1))
options = {} if BACKEND == "jax" else {"jit_compile": False}
# The gradient of each pass is -1 on all ranks: two of them add 2 to the weight.
optimizer = hvd.DistributedOptimizer(keras.optimizers.SGD(1.0), backward_passes_per_step=2)
model.compile(optimizer, loss=lambda wanted, found: -found, **options)
state = hvd.elastic.KerasState(model, batch=0, epoch=0)


class Changes(keras.callbacks.Callback):
    def on_train_batch_begin(self, batch, logs=None):
        if hvd.rank() == 1 and state.batch == 4:
            os.kill(os.getpid(), signal.SIGKILL)

    def on_train_batch_end(self, batch, logs=None):
        # The first one is to be alone until the other waits for a place.
        end = time.monotonic() + 120
        while hvd.size() == 1 and state.batch == 1 and _epochs.wanted_change() is None and time.monotonic() < end:
            time.sleep(0.01)
        if state.batch < 3 or state.batch % 2 == 1:
            state.commit()


@hvd.elastic.run
def train(state):
    ones = numpy.ones([7, 1], numpy.float32)
    print(f"{hvd.size()} ranks from batch {state.batch}", flush=True)
    callbacks = [hvd.elastic.UpdateEpochStateCallback(state), hvd.elastic.UpdateBatchStateCallback(state), Changes()]
    model.fit(ones, ones, batch_size=1, epochs=1 - state.epoch, verbose=0, callbacks=callbacks)


train(state)
print(f"ended with {hvd.size()} ranks, weight {model.get_weights()[0][0, 0]:g}", flush=True)
"""


@pytest.mark.parametrize("backend", BACKENDS)
def test_passes_of_a_step_that_is_not_finished_do_not_count(backend: str, tmp_path: pathlib.Path) -> None:
    """A worker joins between two passes: if the other counted on, each would wait for the other. Later it dies while the
    gradients of a step travel, which is had again."""
    variables = {"OMP_NUM_THREADS": "1", "KERAS_BACKEND": "tensorflow", **BACKENDS[backend]}
    options = ["--min-np", "1", "--max-np", "2", "--slots-per-host", "2", "--reset-limit", "1"]
    options += ["--stall-check-shutdown-time-seconds", "30"]
    result = harness.run_program(tmp_path, PASSES, *options, workers=1, **variables)
    said = result.stdout + result.stderr
    assert result.stdout.count("2 ranks from batch 1") == 2 and "1 ranks from batch 3" in result.stdout, said[-5000:]
    # Of the batches 2 to 7, as one process would have it that begins with the second one.
    assert "ended with 1 ranks, weight 6" in result.stdout, said[-5000:]


LOST = """
import os, signal
import numpy
from farandole.tensorflow import variables
from keras_checks.chosen import hvd, keras

hvd.init()
if hvd.rank() == 1:
    # It is called when the ranks have agreed on the variables.
    variables.broadcast_all = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
model = keras.Sequential([keras.layers.Dense(1, use_bias=False, kernel_initializer="zeros")])
model.build((None, 1))
model.compile(hvd.DistributedOptimizer(keras.optimizers.SGD(1.0)), loss=lambda wanted, found: -found)
state = hvd.elastic.KerasState(model, batch=0, epoch=0)


@hvd.elastic.run
def train(state):
    ones = numpy.ones([3, 1], numpy.float32)
    model.fit(ones, ones, batch_size=1, verbose=0, callbacks=[hvd.elastic.UpdateEpochStateCallback(state)])


train(state)
print(f"ended with {hvd.size()} ranks, epoch {state.epoch}, weight {model.get_weights()[0][0, 0]:g}", flush=True)
"""


@pytest.mark.parametrize("backend", ["tensorflow", "legacy"])
def test_a_worker_may_die_while_the_state_is_given_to_all(backend: str, tmp_path: pathlib.Path) -> None:
    """The survivor gets an error of TensorFlow."""
    variables = {"OMP_NUM_THREADS": "1", "KERAS_BACKEND": "tensorflow", **BACKENDS[backend]}
    options = ["--min-np", "1", "--max-np", "2", "--reset-limit", "1"]
    result = harness.run_program(tmp_path, LOST, *options, **variables)
    said = result.stdout + result.stderr
    assert "ended with 1 ranks, epoch 1, weight 3" in result.stdout, said[-5000:]
