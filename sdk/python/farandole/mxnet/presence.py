"""Compares among ranks which parameters a trainer trains: gradients are paired by the places of their parameters."""

import functools
import warnings
from typing import Any, List, Sequence, Tuple

import mxnet as mx

from .. import _epochs
from .._library import lib
from .._presence import compare, shape_of
from ..exceptions import InvalidRequest
from ..objects import allgather_object
from ..process_sets import ProcessSet

Fact = Tuple[str, bool, Tuple[int, ...]]
"""Of a parameter: its name, whether it is trained, and its shape."""


def facts_of(parameters: Sequence[mx.gluon.Parameter]) -> List[Fact]:
    """Of each parameter."""
    return [(each.name, each.grad_req != "null", tuple(each.shape)) for each in parameters]


def expect_equal_parameters(name: str, facts: Sequence[Fact], process_set: ProcessSet) -> None:
    """Returns where all ranks of the set train parameters of the same shapes, in the same order. Makes a warning where
    their names differ. ValueError, on all ranks with the same words: the first parameter in which two ranks differ."""
    are_alike, are_named_alike = compare(name, process_set, [fact[1:] for fact in facts], list(facts))
    if are_named_alike:
        return
    every = allgather_object((lib.farandole_rank(), list(facts)), f"{name}.facts", process_set)
    first_rank, first = every[0]
    rank, other = next(each for each in every if each[1] != first)
    if are_alike:
        one, two = next((one[0], two[0]) for one, two in zip(first, other) if one != two)
        warnings.warn(
            f"{one}: rank {rank} has {two} in the place that this parameter has on rank {first_rank}, and their gradients are "
            "reduced together; if they are not the same parameter, give the trainers the same ones",
            stacklevel=2,
        )
        return
    rank, other = next(each for each in every if [fact[1:] for fact in each[1]] != [fact[1:] for fact in first])
    for one, two in zip(first, other):
        if one[1:] != two[1:]:
            raise InvalidRequest(f"{one[0]}: rank {first_rank} has {_show(one)}, rank {rank} has {_show(two, one[0])}")
    longer = max(first, other, key=len)[min(len(first), len(other))]
    raise InvalidRequest(
        f"{longer[0]}: the trainer of rank {first_rank} has {len(first)} parameters, that of rank {rank} {len(other)}; give it "
        "the same ones on all ranks"
    )


class Comparison:
    """Of a trainer's parameters, in its first step after each init() and each join()."""

    def __init__(self) -> None:
        self._is_due = True
        _epochs.follow(self)

    def leave_epoch(self) -> None:
        """As Follower's."""

    def enter_epoch(self) -> None:
        """As Follower's. Other ranks may have made their trainers since."""
        self._is_due = True

    def all_have_joined(self) -> None:
        """As Follower's. A rank that had no step before it joined has compared nothing, so all compare again."""
        self._is_due = True

    def make(self, name: str, parameters: Sequence[mx.gluon.Parameter], process_set: ProcessSet) -> None:
        """As expect_equal_parameters, where it is due and there are other ranks. Newcomers of an elastic job would
        compare alone."""
        if self._is_due and process_set.size() != 1 and not _epochs.is_elastic():
            expect_equal_parameters(name, facts_of(parameters), process_set)
            self._is_due = False


def _show(fact: Fact, name: str = "") -> str:
    text = f"{'a gradient' if fact[1] else 'no gradient (grad_req null)'} of shape {list(fact[2])}"
    return text if name in ("", fact[0]) else f"{fact[0]} in its place, with {text}"


@functools.lru_cache(maxsize=256)
def marker(names: Tuple[str, ...], number: int, dtype: Any) -> mx.nd.NDArray:
    """An array without elements that travels with the gradients of a group: its shape says which they are. `number`: the
    group's; each has an array of its own, for which MXNet's engine does not wait."""
    del number
    with mx.util.np_shape(True):
        return mx.nd.zeros(shape_of(names), dtype=dtype)
