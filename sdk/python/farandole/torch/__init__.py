"""Farandole for PyTorch, with Horovod's names: the operations on tensors, DistributedOptimizer, and everything of
`farandole`.

import farandole.torch as hvd

hvd.init()
optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
hvd.broadcast_parameters(model.state_dict(), root_rank=0)
hvd.broadcast_optimizer_state(optimizer, root_rank=0)
"""

try:
    import torch as _torch  # noqa: F401
except ImportError as _error:
    raise ImportError(
        f"farandole.torch needs PyTorch, which {__import__('sys').executable} cannot import ({_error}); "
        "install it with `pip install torch`"
    ) from None

import farandole as _farandole

# The names of the package are names of each of its views.
from .. import *  # noqa: F401,F403
from .. import __version__ as __version__
from ..objects import allgather_object, broadcast_object  # noqa: F401
from . import elastic  # noqa: F401
from ._compile import tell_compiler as _tell_compiler
from .compression import Compression  # noqa: F401
from .differentiable import (  # noqa: F401
    allgather,
    allreduce,
    alltoall,
    broadcast,
    gather,
    gather_async,
    grouped_allgather,
    grouped_allreduce,
    grouped_reducescatter,
    reducescatter,
    scatter,
    scatter_async,
)
from .exchange import GradientExchange  # noqa: F401
from .ops import (  # noqa: F401
    allgather_async,
    allreduce_,
    allreduce_async,
    allreduce_async_,
    alltoall_async,
    barrier,
    broadcast_,
    broadcast_async,
    broadcast_async_,
    grouped_allgather_async,
    grouped_allreduce_,
    grouped_allreduce_async,
    grouped_allreduce_async_,
    grouped_reducescatter_async,
    join,
    reducescatter_async,
    sparse_allreduce_async,
)
from .optimizer import DistributedOptimizer  # noqa: F401
from .replicas import ReplicaCheck, ReplicasDiffer, check_replicas  # noqa: F401
from .state import broadcast_optimizer_state, broadcast_parameters  # noqa: F401
from .sync_batch_norm import SyncBatchNorm, convert_sync_batchnorm  # noqa: F401

# The names that a program may use; type checkers go by them. With it come the names of the package.
__all__ = [
    "Compression",
    "DistributedOptimizer",
    "GradientExchange",
    "ReplicaCheck",
    "ReplicasDiffer",
    "SyncBatchNorm",
    "allgather",
    "allgather_async",
    "allgather_object",
    "allreduce",
    "allreduce_",
    "allreduce_async",
    "allreduce_async_",
    "alltoall",
    "alltoall_async",
    "barrier",
    "broadcast",
    "broadcast_",
    "broadcast_async",
    "broadcast_async_",
    "broadcast_object",
    "broadcast_optimizer_state",
    "broadcast_parameters",
    "check_replicas",
    "convert_sync_batchnorm",
    "elastic",
    "gather",
    "gather_async",
    "grouped_allgather",
    "grouped_allgather_async",
    "grouped_allreduce",
    "grouped_allreduce_",
    "grouped_allreduce_async",
    "grouped_allreduce_async_",
    "grouped_reducescatter",
    "grouped_reducescatter_async",
    "join",
    "reducescatter",
    "reducescatter_async",
    "scatter",
    "scatter_async",
    "sparse_allreduce_async",
]
__all__ += _farandole.__all__

_tell_compiler()
