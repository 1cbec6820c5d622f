"""Broadcasts of many tensors under few names: each name is negotiated once, and there is a bound on how many there are."""

from collections import deque
from typing import Deque, List, Sequence, Tuple

import torch

from .._agreement import Facts
from .._handles import Handle
from ..process_sets import ProcessSet
from . import ops

# So many broadcasts are pending at most, and take turns on their names, each of which the first one negotiates. With 64
# names 1,000 tensors of 1 KiB take 120 ms, as ranks wait for each other; with 256 no more than with a name for each.
NAMES = 256


def describe(named: Sequence[Tuple[str, torch.Tensor]]) -> Facts:
    """The facts that ranks must agree about. ValueError: a tensor cannot be sent."""
    for _, tensor in named:
        ops.check_tensor(tensor)
    return [(name, (list(tensor.shape), str(tensor.dtype))) for name, tensor in named]


def broadcast_all(name: str, tensors: Sequence[torch.Tensor], root: int, process_set: ProcessSet) -> None:
    """Gives the root's tensors to all ranks, in place. They agree about number, shapes and element types.

    All that were begun are waited for, also when one fails. Raises the first one's exception.
    """
    pending: Deque[Handle] = deque()
    errors: List[Exception] = []
    try:
        for index, tensor in enumerate(tensors):
            if len(pending) == NAMES:
                pending.popleft().synchronize()
            pending.append(ops.broadcast_async_(tensor, root, f"{name}.{index % NAMES}", process_set))
    except Exception as failed:  # pylint: disable=broad-except; raised below
        errors.append(failed)
    for handle in pending:
        try:
            handle.synchronize()
        except Exception as failed:  # pylint: disable=broad-except; raised below
            errors.append(failed)
    if errors:
        raise errors[0]
