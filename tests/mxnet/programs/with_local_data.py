"""Runs a program, the first argument, in which MXNet's MNIST is a part of Debian's Fashion-MNIST: nothing is downloaded."""

import pathlib
import runpy
import sys
from typing import Any, Dict

import mxnet as mx
import numpy

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "examples"))
import fashion_mnist_data  # noqa: E402

IMAGES = 600


def get_mnist() -> Dict[str, Any]:
    """As mxnet.test_utils.get_mnist."""
    found = {}
    for prefix, name in (("train", "train"), ("t10k", "test")):
        images, labels = fashion_mnist_data.read(fashion_mnist_data.DATA, prefix)
        found[f"{name}_data"] = images[:IMAGES].reshape(-1, 1, 28, 28).astype(numpy.float32) / 255
        found[f"{name}_label"] = labels[:IMAGES].astype(numpy.float32)
    return found


class Dataset(mx.gluon.data.ArrayDataset):
    """As mxnet.gluon.data.vision.MNIST."""

    def __init__(self, root: str = "", train: bool = True, transform: Any = None) -> None:
        del root, transform
        images, labels = fashion_mnist_data.read(fashion_mnist_data.DATA, "train" if train else "t10k")
        given = mx.nd.array(images[:IMAGES].reshape(-1, 28, 28, 1), dtype="uint8")
        super().__init__(given, labels[:IMAGES].astype(numpy.int32))


mx.test_utils.get_mnist = get_mnist
mx.gluon.data.vision.MNIST = Dataset
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
