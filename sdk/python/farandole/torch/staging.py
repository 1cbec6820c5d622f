"""Tensors in the memory of a device (CUDA, XPU, ...), which travel through that of the host."""

import warnings

import torch

from .._library import lib

_told = False


def on_host(tensor: torch.Tensor) -> torch.Tensor:
    """A contiguous copy of a device's tensor in the host's memory. Waits for the work of the current stream, of which
    the tensor is a result. Rank 0 warns once that this is not the fast way."""
    _tell(tensor.device)
    # CUDA copies from and to memory that cannot be swapped several times as fast; torch keeps it for the next step.
    host = torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=tensor.is_cuda)
    host.copy_(tensor.detach())
    return host


def _tell(device: torch.device) -> None:
    global _told
    if not _told and lib.farandole_rank() == 0:
        warnings.warn(
            f"tensors on {device} are copied to the host's memory for each operation, and back: this version of farandole "
            "has no transport between devices",
            RuntimeWarning,
            stacklevel=2,
        )
    _told = True
