"""Elastic programs of TensorFlow whose workers come and go while the state is given to all."""

import pathlib
import re

import harness
import pytest

LOST = """
import os, signal
import farandole.tensorflow as hvd
import tensorflow as tf
from farandole.elastic import HostUpdateResult
from farandole.tensorflow import variables

hvd.init()


def end(*_):
    os.kill(os.getpid(), signal.SIGKILL)


if hvd.rank() == 1 and "PLACE" == "sync":
    variables.broadcast_all = end  # called when the ranks have agreed on the variables
weights = tf.Variable([0.0])
state = hvd.elastic.TensorFlowState([weights], step=0)


def on_reset():
    if hvd.rank() == 1:
        end()
    hvd.allreduce(tf.constant(1.0), name="reset")


@hvd.elastic.run
def train(state):
    while state.step < 3:
        weights.assign_add([hvd.allreduce(tf.constant(1.0), op=hvd.Average, name="step")])
        state.step += 1
        if hvd.size() == 2:
            state.on_hosts_updated(1, HostUpdateResult.removed)  # all ranks go on in a new epoch
        state.commit()


state.register_reset_callbacks([on_reset])
train(state)
print(f"ended with {hvd.size()} ranks, step {state.step}, weights {weights.numpy()[0]:.0f}", flush=True)
"""


@pytest.mark.parametrize("place", ["sync", "reset"])
def test_a_worker_may_die_between_two_calls_of_the_function(place: str, tmp_path: pathlib.Path) -> None:
    options = ["--min-np", "1", "--max-np", "2", "--reset-limit", "1"]
    result = harness.run_program(tmp_path, LOST.replace("PLACE", place), *options)
    assert "ended with 1 ranks, step 3, weights 3" in result.stdout, result.stdout + result.stderr


JOINED = """
import farandole.tensorflow as hvd
import tensorflow.compat.v1 as tf

tf.disable_eager_execution()
hvd.init()
weights = tf.get_variable("weights", [2], initializer=tf.zeros_initializer())
step = weights.assign_add(hvd.allreduce(tf.ones([2]), op=hvd.Average, name="step"))
session = tf.Session()
session.run(tf.global_variables_initializer())
state = hvd.elastic.TensorFlowState(session=session, step=0)


@hvd.elastic.run
def train(state):
    while state.step < 6:
        # The first one waits there until the other has come.
        if state.step < 3 or hvd.size() == 2:
            session.run(step)
            state.step += 1
        state.commit()


train(state)
print(f"ended with {hvd.size()} ranks, step {state.step}, weights {session.run(weights).tolist()}", flush=True)
"""


def test_a_session_gives_its_state_to_a_newcomer(tmp_path: pathlib.Path) -> None:
    """Which has synchronized it less often."""
    options = ["--min-np", "1", "--max-np", "2", "--slots-per-host", "2", "--reset-limit", "1"]
    options += ["--stall-check-shutdown-time-seconds", "30"]
    result = harness.run_program(tmp_path, JOINED, *options, workers=1)
    wanted = "ended with 2 ranks, step 6, weights [6.0, 6.0]"
    assert result.stdout.count(wanted) == 2, result.stdout + result.stderr


KERAS_STATE = """
import os, signal
import farandole.tensorflow as hvd
import tensorflow as tf

hvd.init()
model = tf.keras.Sequential([tf.keras.layers.Dense(1, use_bias=False, kernel_initializer="zeros")])
model.build((None, 1))
optimizer = tf.keras.optimizers.SGD(1.0, momentum=0.5)
optimizer.build(model.trainable_variables)
state = hvd.elastic.TensorFlowKerasState(model, optimizer, step=0)


@hvd.elastic.run
def train(state):
    print(f"{hvd.size()} ranks from step {state.step}", flush=True)

    # The gradient is -1 on all ranks.
    @tf.function
    def step():
        with tf.GradientTape() as tape:
            loss = -tf.reduce_sum(model(tf.ones([1, 1])))
        gradients = hvd.DistributedGradientTape(tape).gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables))

    while state.step < 6:
        # The first one waits there until the other has come, which is killed later.
        if state.step == 2 and hvd.size() == 1:
            state.commit()
            continue
        if state.step == 4 and hvd.rank() == 1:
            print(f"lost with weight {model.get_weights()[0][0, 0]:g}", flush=True)
            os.kill(os.getpid(), signal.SIGKILL)
        step()
        state.step += 1
        state.commit()


train(state)
told = (hvd.size(), model.get_weights()[0][0, 0], int(optimizer.iterations))
print("ended with %d ranks, weight %.9g, %d iterations" % told, flush=True)
"""


def test_a_keras_model_and_its_optimizer_go_to_a_newcomer_and_outlive_a_loss(tmp_path: pathlib.Path) -> None:
    """Weights tell by momentum whether the newcomer has got the optimizer's."""
    options = ["--min-np", "1", "--max-np", "2", "--slots-per-host", "2", "--reset-limit", "1"]
    options += ["--stall-check-shutdown-time-seconds", "30"]
    result = harness.run_program(tmp_path, KERAS_STATE, *options, workers=1)
    said = result.stdout + result.stderr
    # It comes while the first one waits, or a step before.
    begins = re.findall(r"2 ranks from step (\d)", result.stdout)
    assert begins in (["1", "1"], ["2", "2"]) and "lost with weight 6.125" in result.stdout, said
    assert "1 ranks from step 4" in result.stdout, said
    assert "ended with 1 ranks, weight 10.03125, 6 iterations" in result.stdout, said
