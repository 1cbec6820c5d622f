"""Farandole: data-parallel training with Horovod's programming model.

    import farandole.torch as hvd

`farandole.torch`, `numpy`, `tensorflow`, `keras`, `jax` and `mxnet` have the operations of their framework and everything that is here;
`farandole.checkpoint` writes and finds checkpoints, and `farandole.elastic` keeps a program going while workers come and go. Importing this package needs no framework.
"""

from . import elastic as elastic
from ._handles import Handle, poll, synchronize
from ._library import ffi as _ffi
from ._library import lib as _lib
from ._sections import section
from .basics import (
    Counters,
    ccl_built,
    checkpoint_requested,
    counters,
    cross_rank,
    cross_size,
    cuda_built,
    ddl_built,
    gloo_built,
    gloo_enabled,
    init,
    is_homogeneous,
    is_initialized,
    local_rank,
    local_size,
    log,
    mpi_built,
    mpi_enabled,
    mpi_threads_supported,
    nccl_built,
    rank,
    rocm_built,
    shutdown,
    size,
    start_timeline,
    stop_timeline,
)
from .exceptions import (
    CheckpointError,
    Dismissed,
    EpochEnded,
    HorovodInternalError,
    HostsUpdatedInterrupt,
    InternalError,
    InvalidRequest,
    NotReady,
    QuotaError,
    StallError,
)
from .process_sets import ProcessSet, add_process_set, global_process_set, remove_process_set
from .reduce_ops import Adasum, Average, Max, Min, Product, Sum
from .runner import run

__version__: str = _ffi.string(_lib.farandole_version()).decode()

__all__ = [
    "Adasum",
    "Average",
    "CheckpointError",
    "Counters",
    "Dismissed",
    "EpochEnded",
    "Handle",
    "HorovodInternalError",
    "HostsUpdatedInterrupt",
    "InternalError",
    "InvalidRequest",
    "Max",
    "Min",
    "NotReady",
    "ProcessSet",
    "Product",
    "QuotaError",
    "StallError",
    "Sum",
    "add_process_set",
    "ccl_built",
    "checkpoint_requested",
    "counters",
    "cross_rank",
    "cross_size",
    "cuda_built",
    "ddl_built",
    "global_process_set",
    "gloo_built",
    "gloo_enabled",
    "init",
    "is_homogeneous",
    "is_initialized",
    "local_rank",
    "local_size",
    "log",
    "mpi_built",
    "mpi_enabled",
    "mpi_threads_supported",
    "nccl_built",
    "poll",
    "rank",
    "remove_process_set",
    "rocm_built",
    "run",
    "section",
    "shutdown",
    "size",
    "start_timeline",
    "stop_timeline",
    "synchronize",
]
