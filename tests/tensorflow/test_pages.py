"""The five lines of TensorFlow's page, as they stand there."""

import pathlib

import pages

BEFORE = """
import os
import tensorflow as tf

rank = int(os.environ["FARANDOLE_LAUNCH_INDEX"])
inputs, targets = tf.ones([4, 2]) * (1.0 + 2 * rank), tf.zeros([4, 1])
model = tf.keras.Sequential([tf.keras.Input([2]), tf.keras.layers.Dense(1, use_bias=False)])
model.set_weights([tf.fill([2, 1], 1.0 + rank).numpy()])


def loss_of(outputs, targets):
    return tf.reduce_mean(outputs - targets)
"""
# The gradient is 1 on rank 0, and 3 on rank 1.
AFTER = """
assert abs(model.get_weights()[0] - (1 - 0.02 * 2)).max() < 1e-6, model.get_weights()
"""


def test_its_five_lines_run(tmp_path: pathlib.Path) -> None:
    pages.require_five_lines(tmp_path, "tensorflow.md", BEFORE, AFTER)
