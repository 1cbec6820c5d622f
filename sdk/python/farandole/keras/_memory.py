"""Gradients of PyTorch in memory of their own. autograd.grad gives one tensor twice, and expanded ones; of ranks that give
such gradients in place, each element would be reduced several times."""

from typing import List, Sequence

import torch

from ..torch.extents import end_of, overlaps_itself


def in_own_memory(tensors: Sequence[torch.Tensor]) -> List[torch.Tensor]:
    """The tensors; in place of those that share memory with others, or within themselves, copies. The first one of each
    piece of memory stays."""
    made = [tensor.detach().contiguous() if overlaps_itself(tensor) else tensor for tensor in tensors]
    extents = sorted((tensor.data_ptr(), place) for place, tensor in enumerate(made) if tensor.numel() > 0)
    reach = 0
    for begin, place in extents:
        tensor = made[place]
        end = end_of(tensor, begin)
        if begin < reach:
            made[place] = tensor.detach().clone()
        reach = max(reach, end)
    return made
