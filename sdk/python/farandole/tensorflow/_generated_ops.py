"""The functions that make the ops of libfarandole_tensorflow.so, which TensorFlow loads: one library for all its versions from
2.13 on. The package imports this module first, so that an older TensorFlow is told before anything else of it is needed."""

import ctypes
from typing import Any

import tensorflow as tf

from .. import _options
from .._adapter_library import connected


def _load() -> Any:
    path = str(_options.library_beside("libfarandole_tensorflow.so"))
    try:
        ops = tf.load_op_library(path)
    except tf.errors.NotFoundError as error:
        raise ImportError(f"farandole's TensorFlow ops cannot be loaded: {error}") from None
    library = connected("libfarandole_tensorflow.so", "farandole's TensorFlow ops")
    library.farandole_tensorflow_missing.restype = ctypes.c_char_p
    missing = library.farandole_tensorflow_missing()
    if missing is not None:
        raise ImportError(
            f"farandole.tensorflow needs TensorFlow 2.13 or later; {tf.__version__} lacks the function {missing.decode()}"
        )
    return ops


generated: Any = _load()
