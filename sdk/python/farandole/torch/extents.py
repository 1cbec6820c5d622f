"""Where the elements of a tensor lie in memory."""

import torch


def end_of(tensor: torch.Tensor, begin: int) -> int:
    """The address behind its last element, of a tensor with elements that begins at this one. Strides may leave gaps."""
    last = sum(stride * (count - 1) for stride, count in zip(tensor.stride(), tensor.shape))
    return begin + (last + 1) * tensor.element_size()


def overlaps_itself(tensor: torch.Tensor) -> bool:
    """Whether elements may share memory, as those of an expanded tensor do: they cannot be written one by one."""
    if tensor.numel() == 0 or tensor.is_contiguous():
        return False
    reach = 0
    for stride, count in sorted((stride, count) for stride, count in zip(tensor.stride(), tensor.shape) if count != 1):
        if stride <= reach:
            return True
        reach += stride * (count - 1)
    return False
