"""The five lines of the page of Keras, as they stand there."""

import pathlib

import pages
import pytest

# The ranks train on rows of their own, from weights of their own.
BEFORE = """
import os
import keras
import numpy

keras.utils.set_random_seed(int(os.environ["FARANDOLE_LAUNCH_INDEX"]))
numbers = numpy.random.RandomState(1)
inputs, labels = numbers.rand(64, 4).astype("float32"), numbers.randint(0, 3, 64)
model = keras.Sequential([keras.Input([4]), keras.layers.Dense(3)])
first = model.get_weights()
"""
AFTER = """
everyone = hvd.allgather_object([first, model.get_weights()])
for place in range(2):
    assert (everyone[0][1][place] == everyone[1][1][place]).all(), everyone
assert (everyone[0][0][0] != everyone[1][0][0]).any(), "they began apart"
moved = abs(everyone[0][1][0] - everyone[0][0][0]).max()
assert 0 < moved < abs(everyone[1][1][0] - everyone[1][0][0]).max(), "all began where rank 0 did"
"""


def test_its_five_lines_run(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KERAS_BACKEND", "jax")
    monkeypatch.setenv("JAX_PLATFORMS", "cpu")
    pages.require_five_lines(tmp_path, "keras.md", BEFORE, AFTER)
