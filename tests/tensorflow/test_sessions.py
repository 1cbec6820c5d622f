"""TensorFlow v1's MonitoredTrainingSession in a job that ends before its training: it ends as well."""

import pathlib

import harness
import pytest

ENDING = """
import os, signal, sys
import horovod.tensorflow as hvd
import numpy
import tensorflow.compat.v1 as tf

tf.disable_eager_execution()
hvd.init()
weights = tf.get_variable("weights", [4], initializer=tf.ones_initializer())
inputs = tf.placeholder(tf.float32, [4])
step = tf.train.get_or_create_global_step()
optimizer = hvd.DistributedOptimizer(tf.train.GradientDescentOptimizer(0.1))
train = optimizer.minimize(tf.reduce_sum(weights * inputs), global_step=step)

class Told(tf.train.SessionRunHook):
    def after_create_session(self, session, coord):
        print(hvd.rank(), "session", flush=True)

hooks = [hvd.BroadcastGlobalVariablesHook(0), tf.train.StopAtStepHook(last_step=1000000), Told()]
count = 0
try:
    with tf.train.MonitoredTrainingSession(hooks=hooks) as session:
        while not session.should_stop():
            session.run(train, {inputs: numpy.ones(4)})
            count += 1
            if hvd.rank() == 1 and count == 20:
                if "HOW" == "leaves":
                    break
                if "HOW" == "raises":
                    raise RuntimeError("no more data")
                os.kill(os.getpid(), signal.SIGKILL)
except tf.errors.OpError as error:
    print(hvd.rank(), type(error).__name__, repr(error.message), flush=True)
print(hvd.rank(), "good", flush=True)
"""


@pytest.mark.parametrize("how", ["leaves", "raises", "is killed"])
def test_a_session_ends_where_another_rank(how: str, tmp_path: pathlib.Path) -> None:
    """TensorFlow makes a new session, for ever, after errors that it takes for a preemption."""
    result = harness.run_program(tmp_path, ENDING.replace("HOW", how), "--horovod")
    text = result.stdout + result.stderr
    assert result.stdout.count("0 session") == 1 and "0 good" in result.stdout, text
    told = next((line for line in result.stdout.splitlines() if "0 UnknownError" in line), text)
    assert "rank 1 (" in told and ("no more data" in told) == (how == "raises"), text
