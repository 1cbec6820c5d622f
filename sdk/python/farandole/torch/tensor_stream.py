"""Broadcasts of many tensors under few names: each name is negotiated once, and there is a bound on how many there are."""

import hashlib
from collections import deque
from typing import Any, Deque, List, Sequence, Tuple

import torch

from .. import _epochs
from .._handles import Handle
from .._library import lib
from ..exceptions import InvalidRequest
from ..objects import allgather_object
from ..process_sets import ProcessSet, group_of
from . import ops

# So many broadcasts are pending at most, and take turns on their names, each of which the first one negotiates. With 64
# names 1,000 tensors of 1 KiB take 120 ms, as ranks wait for each other; with 256 no more than with a name for each.
NAMES = 256

Facts = Sequence[Tuple[str, Any]]


def describe(named: Sequence[Tuple[str, torch.Tensor]]) -> Facts:
    """The facts that ranks must agree about. ValueError: a tensor cannot be sent."""
    for _, tensor in named:
        ops.check_tensor(tensor)
    return [(name, (list(tensor.shape), str(tensor.dtype))) for name, tensor in named]


def expect_agreement(name: str, facts: Facts, process_set: ProcessSet) -> None:
    """Returns where all ranks of the set have equal facts: pairs of what they are about, and a value.

    ValueError, on all ranks with the same words: two ranks and the first fact in which they differ.
    """
    digest = int.from_bytes(hashlib.blake2b(repr(facts).encode(), digest_size=7).digest(), "little")
    most, least = _epochs.agree_on_most(f"{name}.agreement", [digest, -digest], group_of(process_set))
    if most == -least:
        return
    every = allgather_object((lib.farandole_rank(), list(facts)), f"{name}.facts", process_set)
    (first_rank, first), (rank, other) = every[0], next(each for each in every if each[1] != every[0][1])
    for index in range(max(len(first), len(other))):
        one, two = first[index : index + 1], other[index : index + 1]
        if one != two:
            subject = (one or two)[0][0]
            raise InvalidRequest(
                f"{name}.{subject}: rank {first_rank} has {_show(one, subject)}, rank {rank} has {_show(two, subject)}"
            )


def _show(found: Facts, subject: str) -> str:
    if not found:
        return "no such tensor"
    name, value = found[0]
    if not isinstance(value, tuple):
        return str(value)
    shape, dtype = value
    text = f"shape [{','.join(map(str, shape))}] of {dtype}"
    return text if name == subject else f"{name} in its place, with {text}"


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
