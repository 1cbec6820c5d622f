"""Horovod's modules that Farandole does not have yet."""

from typing import NoReturn


def refuse(name: str) -> NoReturn:
    """Raises the ImportError of a module that is not there."""
    raise ImportError(
        f"{name} is not in this version of farandole, which has PyTorch (horovod.torch), TensorFlow (horovod.tensorflow), Keras (horovod.keras), MXNet (horovod.mxnet) and NumPy (farandole.numpy)"
    )
