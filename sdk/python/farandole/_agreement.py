"""Compares facts among ranks by one small collective, before tensors travel, and names the first that differs."""

import hashlib
from typing import Any, Sequence, Tuple

from . import _epochs
from ._library import lib
from .exceptions import InvalidRequest
from .objects import allgather_object
from .process_sets import ProcessSet, group_of

# Pairs of what a fact is about, and a value: a text, a number, or of a tensor its shape and element type.
Facts = Sequence[Tuple[str, Any]]


def expect_agreement(name: str, facts: Facts, process_set: ProcessSet) -> None:
    """Returns where all ranks of the set have equal facts.

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
            place = f"{name}{subject}" if subject.startswith(("[", ".")) else f"{name}.{subject}"
            raise InvalidRequest(
                f"{place}: rank {first_rank} has {_show(one, subject)}, rank {rank} has {_show(two, subject)}"
            )


def _show(found: Facts, subject: str) -> str:
    if not found:
        return "no such tensor"
    name, value = found[0]
    text = str(value)
    if isinstance(value, tuple):
        shape, dtype = value
        text = f"shape [{','.join(map(str, shape))}] of {dtype}"
    return text if name == subject else f"{name} in its place, with {text}"


def expect_equal_tensors(
    name: str, root_rank: int, shapes: Sequence[Tuple[Sequence[int], str]], process_set: ProcessSet
) -> None:
    """expect_agreement on a root and on tensors that are paired by their order: the shape and element type of each."""
    described = [(str(index), (list(shape), dtype)) for index, (shape, dtype) in enumerate(shapes)]
    expect_agreement(name, [("root_rank", root_rank), *described], process_set)
