"""The module for the backend that Keras has: its Compression, its exchange of gradients, its operations on values."""

import importlib
from typing import Any

import keras

_MODULES = {"tensorflow": "..tensorflow.keras_backend", "jax": "._jax", "torch": "._torch"}


def _module() -> Any:
    name = keras.backend.backend()
    if name not in _MODULES:
        raise ImportError(
            f"farandole.keras works on Keras's backends {', '.join(_MODULES)}, and this is {name!r}; "
            "set KERAS_BACKEND, or the backend in ~/.keras/keras.json"
        )
    return importlib.import_module(_MODULES[name], __package__)


backend: Any = _module()
