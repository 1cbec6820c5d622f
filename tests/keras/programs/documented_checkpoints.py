"""The rows of docs/checkpoints.md for Keras and TensorFlow, run as they stand there. Its word is the page."""

import pathlib
import re
import sys

import farandole.keras as hvd
import keras
import numpy  # the rows use it
from farandole import checkpoint

PAGE = pathlib.Path(sys.argv[1]).read_text(encoding="utf-8")

hvd.init()
model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
directory = "checkpoints"
if hvd.rank() == 0:
    pathlib.Path(directory).mkdir()
hvd.allreduce(0.0)
for step, framework in enumerate(("Keras", "TensorFlow")):
    (code,) = re.findall(rf"^\| {framework} \| `(.*?)` \|$", PAGE, re.M)
    exec(code, {**globals(), "step": step})  # pylint: disable=exec-used
    hvd.allreduce(0.0)
    path = checkpoint.latest(directory)
    if framework == "Keras":
        found = keras.models.load_model(path).get_weights()
    else:
        found = list(numpy.load(path).values())
    if hvd.rank() == 0:
        assert all((a == b).all() for a, b in zip(found, model.get_weights())) and len(found) == 2, found
        print(framework, "has its weights")
hvd.allreduce(0.0)
