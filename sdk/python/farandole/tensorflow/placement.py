"""Tensors in a GPU: they travel through the host's memory, as TensorFlow's C interface gives no stream of a GPU to ops."""

import functools
import warnings
from typing import Any

import tensorflow as tf

from ._xla import is_compiled

_has_told = False


@functools.lru_cache(maxsize=None)
def has_gpus() -> bool:
    """Whether TensorFlow may put tensors into one. Asking starts no GPU."""
    return bool(tf.config.get_visible_devices("GPU"))


def is_on_host(tensor: Any) -> bool:
    """Whether the worker library can read it where it is. In a graph a tensor that has been told no device goes to the GPU,
    and XLA has it in one."""
    if isinstance(tensor, tf.__internal__.EagerTensor):
        return ":GPU:" not in tensor.device
    return ":CPU:" in tensor.device or is_compiled()


def tell_of_copies(tensor: Any) -> None:
    """The first tensor that is in a GPU makes a warning."""
    global _has_told
    if _has_told or not has_gpus() or is_on_host(tensor):
        return
    _has_told = True
    warnings.warn(
        f"tensors in {tensor.device or 'a GPU'} travel through the host's memory: TensorFlow's C interface gives ops no "
        "stream of a GPU",
        stacklevel=4,
    )
