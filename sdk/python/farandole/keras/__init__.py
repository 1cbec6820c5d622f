"""Farandole for Keras 3 on TensorFlow, JAX and PyTorch, with Horovod's names: DistributedOptimizer, callbacks, operations
on values, and everything of `farandole`.

import farandole.keras as hvd

hvd.init()
model.compile(hvd.DistributedOptimizer(keras.optimizers.SGD(0.01 * hvd.size())), loss)
model.fit(..., callbacks=[hvd.callbacks.BroadcastGlobalVariablesCallback(0)])

For tf-keras see farandole.tensorflow.keras.
"""

try:
    import keras as _keras_itself
except ImportError as _error:
    raise ImportError(
        f"farandole.keras needs Keras, which {__import__('sys').executable} cannot import ({_error}); "
        "install it with `pip install keras`"
    ) from None
if int(_keras_itself.__version__.split(".", maxsplit=1)[0]) < 3:
    raise ImportError(
        f"farandole.keras is for Keras 3, and this is Keras {_keras_itself.__version__}: use farandole.tensorflow.keras"
    )

import farandole as _farandole

# The names of the package are names of each of its views.
from .. import *  # noqa: F401,F403
from .. import __version__ as __version__
from ..objects import allgather_object, broadcast_object  # noqa: F401
from . import callbacks, elastic  # noqa: F401
from .ops import allgather, allreduce, broadcast, join, reducescatter  # noqa: F401
from .optimizer import (  # noqa: F401
    Compression,
    DistributedOptimizer,
    PartialDistributedOptimizer,
    load_model,
)
from .state import broadcast_global_variables, broadcast_variables  # noqa: F401

# The public names, by which type checkers go; the package's own names follow.
__all__ = [
    "Compression",
    "DistributedOptimizer",
    "PartialDistributedOptimizer",
    "allgather",
    "allgather_object",
    "allreduce",
    "broadcast",
    "broadcast_global_variables",
    "broadcast_object",
    "broadcast_variables",
    "callbacks",
    "elastic",
    "join",
    "load_model",
    "reducescatter",
]
__all__ += _farandole.__all__
