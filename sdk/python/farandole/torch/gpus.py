"""Tensors in CUDA GPUs, which travel from there where the library has a way between GPUs (worker/device)."""

from typing import Optional, Set

import torch

from .._handles import Place
from .._library import OK, failure, lib
from .._ops import Reduction, barrier
from ..process_sets import global_process_set
from ..reduce_ops import Adasum

# What NCCL cannot reduce (worker/device/nccl_reduction.h) takes the way through the host.
_NOT_REDUCED = {getattr(torch, name) for name in ("int16", "uint16") if hasattr(torch, name)}
# Numbers of the GPUs whose tensors have travelled; a worker has one.
_used: Set[int] = set()


def takes(tensor: torch.Tensor, reduction: Optional[Reduction]) -> bool:
    """Whether the tensor travels from where it is: the same on all ranks that call alike. `reduction`: None where it is
    only moved."""
    if not tensor.is_cuda or lib.farandole_gpu_transport()[0] == b"\0":
        return False
    return reduction is None or (reduction[0] != Adasum and tensor.dtype not in _NOT_REDUCED)


def place(tensor: torch.Tensor) -> Place:
    """Of a tensor in a GPU."""
    index = tensor.get_device()
    _used.add(index)
    return index, lambda: torch.cuda.current_stream(index).cuda_stream


def agree() -> None:
    """As settle(), on all ranks at once: NCCL's kernels end also where a peer has aborted them and this rank has not heard
    of it yet, but such a peer does not come to a barrier. Nothing where no rank has tensors in a GPU."""
    settle()
    if lib.farandole_gpu_transport()[0] != b"\0":
        barrier(global_process_set)


def settle() -> None:
    """To be called before results are kept: waits until GPUs have done what they were given. Where the epoch has ended
    meanwhile, NCCL's kernels have left whatever was there.

    EpochEnded: so it is.
    """
    for index in _used:
        torch.cuda.synchronize(index)
    code = lib.farandole_epoch_ended() if _used else OK
    if code != OK:
        raise failure(code)
