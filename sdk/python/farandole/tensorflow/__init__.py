"""Farandole for TensorFlow, with Horovod's names: the operations on tensors, DistributedGradientTape,
DistributedOptimizer, and everything of `farandole`.

import farandole.tensorflow as hvd

hvd.init()
tape = hvd.DistributedGradientTape(tape)
hvd.broadcast_variables(model.variables, root_rank=0)
"""

try:
    import tensorflow as _tensorflow  # noqa: F401
except ImportError as _error:
    raise ImportError(
        f"farandole.tensorflow needs TensorFlow, which {__import__('sys').executable} cannot import ({_error}); "
        "install it with `pip install tensorflow`"
    ) from None

import farandole as _farandole

# The names of the package are names of each of its views.
from .. import *  # noqa: F401,F403
from .. import __version__ as __version__
from . import _generated_ops as _generated_ops  # noqa: F401  # first: it says which TensorFlow is too old
from . import elastic  # noqa: F401
from . import gradients as _gradients  # noqa: F401
from .compression import Compression  # noqa: F401
from .gradient_aggregation import (  # noqa: F401
    LocalGradientAggregationHelper,
    LocalGradientAggregationHelperEager,
)
from .gradient_exchange import GradientExchange  # noqa: F401
from .ops import (  # noqa: F401
    allgather,
    allreduce,
    alltoall,
    barrier,
    broadcast,
    gather,
    grouped_allgather,
    grouped_allreduce,
    grouped_reducescatter,
    join,
    local_rank_op,
    local_size_op,
    process_set_included_op,
    rank_op,
    reducescatter,
    scatter,
    size_op,
)
from .optimizer import DistributedOptimizer  # noqa: F401
from .sync_batch_norm import SyncBatchNormalization  # noqa: F401
from .tape import DistributedGradientTape, PartialDistributedGradientTape  # noqa: F401
from .variables import (  # noqa: F401
    BroadcastGlobalVariablesHook,
    allgather_object,
    broadcast_,
    broadcast_global_variables,
    broadcast_object,
    broadcast_object_fn,
    broadcast_variables,
)

# The public names, by which type checkers go; the package's own names follow.
__all__ = [
    "BroadcastGlobalVariablesHook",
    "Compression",
    "DistributedGradientTape",
    "DistributedOptimizer",
    "GradientExchange",
    "LocalGradientAggregationHelper",
    "LocalGradientAggregationHelperEager",
    "PartialDistributedGradientTape",
    "SyncBatchNormalization",
    "allgather",
    "allgather_object",
    "allreduce",
    "alltoall",
    "barrier",
    "broadcast",
    "broadcast_",
    "broadcast_global_variables",
    "broadcast_object",
    "broadcast_object_fn",
    "broadcast_variables",
    "elastic",
    "gather",
    "grouped_allgather",
    "grouped_allreduce",
    "grouped_reducescatter",
    "join",
    "local_rank_op",
    "local_size_op",
    "process_set_included_op",
    "rank_op",
    "reducescatter",
    "scatter",
    "size_op",
]
__all__ += _farandole.__all__
