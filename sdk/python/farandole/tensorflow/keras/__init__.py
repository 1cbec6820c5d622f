"""Farandole for tf.keras, with Horovod's names: DistributedOptimizer, callbacks, operations on values, and everything of
`farandole`.

import farandole.tensorflow.keras as hvd

tf.keras is tf-keras up to TensorFlow 2.15, and later where TF_USE_LEGACY_KERAS=1 is set; else it is Keras 3, and these names are those
of farandole.keras.
"""

import farandole as _farandole

from ... import *  # noqa: F401,F403
from ... import __version__ as __version__
from ...objects import allgather_object, broadcast_object  # noqa: F401
from ._choice import IS_KERAS_3 as _IS_KERAS_3

if _IS_KERAS_3:
    from ...keras import (  # noqa: F401
        Compression,
        allgather,
        allreduce,
        broadcast,
        broadcast_global_variables,
        broadcast_variables,
        join,
        load_model,
        reducescatter,
    )
else:
    from .legacy import (  # noqa: F401
        Compression,
        allgather,
        allreduce,
        broadcast,
        broadcast_global_variables,
        broadcast_variables,
        join,
        load_model,
        reducescatter,
    )
from . import callbacks, elastic  # noqa: F401
from .optimizer import DistributedOptimizer, PartialDistributedOptimizer  # noqa: F401

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
