"""Farandole for MXNet 1.9.1, with Horovod's names: the operations on arrays, DistributedTrainer for Gluon,
DistributedOptimizer for Module, and everything of `farandole`.

import farandole.mxnet as hvd

hvd.init()
hvd.broadcast_parameters(net.collect_params(), root_rank=0)
trainer = hvd.DistributedTrainer(net.collect_params(), "sgd", {"learning_rate": 0.1})
"""

try:
    import mxnet as _mxnet  # noqa: F401
except (ImportError, AttributeError) as _error:  # an AttributeError: of a NumPy that is too new for it
    raise ImportError(
        f"farandole.mxnet needs MXNet 1.9.1, which {__import__('sys').executable} cannot import ({_error}); "
        "install it with `pip install mxnet==1.9.1 numpy==1.23.5`"
    ) from None

import farandole as _farandole

# The names of the package are names of each of its views.
from .. import *  # noqa: F401,F403
from .. import __version__ as __version__
from . import elastic  # noqa: F401
from .compression import Compression  # noqa: F401
from .ops import (  # noqa: F401
    allgather,
    allreduce,
    allreduce_,
    alltoall,
    barrier,
    broadcast,
    broadcast_,
    gather,
    grouped_allgather,
    grouped_allreduce,
    grouped_allreduce_,
    grouped_reducescatter,
    join,
    reducescatter,
    scatter,
)
from .optimizer import DistributedOptimizer, DistributedTrainer  # noqa: F401
from .parameters import allgather_object, broadcast_object, broadcast_parameters  # noqa: F401

# The public names, by which type checkers go; the package's own names follow.
__all__ = [
    "Compression",
    "DistributedOptimizer",
    "DistributedTrainer",
    "allgather",
    "allgather_object",
    "allreduce",
    "allreduce_",
    "alltoall",
    "barrier",
    "broadcast",
    "broadcast_",
    "broadcast_object",
    "broadcast_parameters",
    "elastic",
    "gather",
    "grouped_allgather",
    "grouped_allreduce",
    "grouped_allreduce_",
    "grouped_reducescatter",
    "join",
    "reducescatter",
    "scatter",
]
__all__ += _farandole.__all__
