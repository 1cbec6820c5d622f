"""Farandole for JAX, with Horovod's names: the operations on arrays and pytrees, outside of jit, grad and vmap and within,
a transformation for Optax, and everything of `farandole`.

import farandole.jax as hvd

hvd.init()
optimizer = hvd.DistributedOptimizer(optax.adam(1e-3))
params = hvd.broadcast_parameters(params, root_rank=0)
"""

try:
    import jax as _jax
    import jaxlib as _jaxlib
except ImportError as _error:
    raise ImportError(
        f"farandole.jax needs JAX, which {__import__('sys').executable} cannot import ({_error}); "
        "install it with `pip install jax`"
    ) from None

if min(tuple(map(int, each.__version__.split(".")[:3])) for each in (_jax, _jaxlib)) < (0, 4, 38):
    raise ImportError(
        f"farandole.jax needs JAX and jaxlib 0.4.38 or later, and these are {_jax.__version__} and {_jaxlib.__version__}"
    )

import farandole as _farandole

# The names of the package are names of each of its views.
from .. import *  # noqa: F401,F403
from .. import __version__ as __version__
from ..objects import allgather_object, broadcast_object  # noqa: F401
from . import elastic  # noqa: F401
from .compression import Compression  # noqa: F401
from .gradients import DistributedOptimizer, allreduce_gradients, grad, value_and_grad  # noqa: F401
from .ops import (  # noqa: F401
    allgather,
    allgather_async,
    allreduce,
    allreduce_async,
    alltoall,
    barrier,
    broadcast,
    broadcast_async,
    gather,
    grouped_allgather,
    grouped_allreduce,
    grouped_allreduce_async,
    grouped_reducescatter,
    join,
    reducescatter,
    scatter,
)
from .parameters import broadcast_parameters  # noqa: F401

broadcast_optimizer_state = broadcast_parameters
distributed = DistributedOptimizer

# The public names, by which type checkers go; the package's own names follow.
__all__ = [
    "Compression",
    "DistributedOptimizer",
    "allgather",
    "allgather_async",
    "allgather_object",
    "allreduce",
    "allreduce_async",
    "allreduce_gradients",
    "alltoall",
    "barrier",
    "broadcast",
    "broadcast_async",
    "broadcast_object",
    "broadcast_optimizer_state",
    "broadcast_parameters",
    "distributed",
    "elastic",
    "gather",
    "grad",
    "grouped_allgather",
    "grouped_allreduce",
    "grouped_allreduce_async",
    "grouped_reducescatter",
    "join",
    "reducescatter",
    "scatter",
    "value_and_grad",
]
__all__ += _farandole.__all__
