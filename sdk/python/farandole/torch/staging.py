"""Tensors in the memory of a device (CUDA, XPU, ...), which travel through that of the host."""

import warnings

import torch

from .._library import failure, lib

_told = False


def on_host(tensor: torch.Tensor) -> torch.Tensor:
    """A contiguous copy of a device's tensor in the host's memory. Waits for the work of the current stream, of which
    the tensor is a result. Rank 0 warns once that this is not the fast way."""
    _tell(tensor.device)
    # Not pinned, although that would be copied faster: torch never gives pinned memory back, and all gradients of a step,
    # or all of a model, are on their way at once.
    host = torch.empty(tensor.shape, dtype=tensor.dtype, device="cpu")
    host.copy_(tensor.detach())
    return host


def _tell(device: torch.device) -> None:
    global _told
    rank = lib.farandole_rank()
    is_first, _told = not _told and rank == 0, _told or rank >= 0
    if is_first:
        warnings.warn(
            f"tensors on {device} are copied to the host's memory for each operation, and back: {_why(device)}",
            RuntimeWarning,
            stacklevel=2,
        )


def _why(device: torch.device) -> str:
    if device.type != "cuda":
        return "between such devices there is no other way"
    if lib.farandole_gpu_transport()[0] != b"\0":
        return "NCCL does not have this operation for these elements"
    # Refused; the text says why.
    return str(failure(lib.farandole_use_stream(device.index or 0, 0)))
