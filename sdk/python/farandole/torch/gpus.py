"""Tensors in CUDA GPUs, which travel from there where the library has a way between GPUs (worker/device)."""

from typing import Optional, Set

import torch

from .._handles import Place
from .._library import OK, failure, ffi, lib
from .._ops import Reduction, barrier
from ..process_sets import global_process_set
from ..reduce_ops import Adasum, Average

# Tensors of these types take the way through the host: NCCL cannot reduce them (worker/device/nccl/nccl_reduction.h).
_NOT_REDUCED = {getattr(torch, name) for name in ("int16", "uint16") if hasattr(torch, name)}
_FLOATS_8 = {getattr(torch, name) for name in ("float8_e4m3fn", "float8_e5m2") if hasattr(torch, name)}
# From which on they are reduced.
_FLOATS_8_NCCL, _FLOATS_8_CAPABILITY = (2, 24), (9, 0)
# Numbers of the GPUs whose tensors have travelled; a worker has one.
_used: Set[int] = set()


def takes(tensor: torch.Tensor, reduction: Optional[Reduction]) -> bool:
    """Whether the tensor travels from where it is: the same on all ranks that call alike. `reduction`: None where it is
    only moved."""
    if not tensor.is_cuda or lib.farandole_gpu_transport()[0] == b"\0":
        return False
    if reduction is None:
        return True
    op, prescale, postscale = reduction
    if op == Adasum or tensor.dtype in _NOT_REDUCED:
        return False
    if tensor.dtype in _FLOATS_8:
        # A factor, and the average's, would be of the tensor's type.
        return op != Average and prescale == postscale == 1.0 and _reduces_floats_8(tensor)
    return True


def _reduces_floats_8(tensor: torch.Tensor) -> bool:
    version = ffi.string(lib.farandole_gpu_transport()).decode().split()[-1]  # of "nccl 2.30.7"
    return (
        tuple(map(int, version.split("."))) >= _FLOATS_8_NCCL
        and torch.cuda.get_device_capability(tensor.get_device()) >= _FLOATS_8_CAPABILITY
    )


def place(tensor: torch.Tensor) -> Place:
    """Of a tensor in a GPU."""
    index = tensor.get_device()
    _used.add(index)
    return index, lambda: torch.cuda.current_stream(index).cuda_stream


def announce_more(tensor: torch.Tensor) -> None:
    """Others will follow soon, until this thread waits: so they travel together, where each would be a collective of its
    own."""
    if tensor.is_cuda and lib.farandole_gpu_transport()[0] != b"\0":
        lib.farandole_announce_more()


def agree() -> None:
    """As settle(), on all ranks at once: NCCL's kernels end also if a peer has aborted them and this rank does not know
    of it yet, but such a peer does not come to a barrier. Nothing where no rank has tensors in a GPU."""
    settle()
    if lib.farandole_gpu_transport()[0] != b"\0":
        barrier(global_process_set)


def wait() -> None:
    """Until GPUs have finished their work, also if the epoch has ended: then NCCL's kernels end by an abort."""
    for index in _used:
        torch.cuda.synchronize(index)


def settle() -> None:
    """Call it before keeping results: waits until GPUs have finished their work. If the epoch has ended meanwhile,
    NCCL's kernels have left the outputs undefined.

    EpochEnded: so it is.
    """
    wait()
    code = lib.farandole_epoch_ended() if _used else OK
    if code != OK:
        raise failure(code)
