"""Which parameters take part in a step: those that any rank trains, also where others have frozen them."""

import contextlib
import hashlib
import re
from typing import Any, Callable, Dict, Iterable, List, NamedTuple, Optional, Set, Tuple

import torch

from .. import _epochs
from .._handles import Handle
from .._library import lib
from ..exceptions import EpochEnded, InvalidRequest
from ..objects import allgather_object
from ..process_sets import ProcessSet, group_of
from ..reduce_ops import Sum
from . import ops
from .exchange import GradientExchange, Settings
from .gradients import Gradient, Unit

_NAME = "gradients.parts"
# In the sentence of a refused operation, where ranks have called different ones.
_OPERATIONS = re.compile(r"rank \d+ has op \w+, rank \d+ has op \w+")


class Part(NamedTuple):
    """How one rank has a parameter take part."""

    unit: str
    """With which gradients its own travels."""
    is_trained: bool
    """This rank trains it, or another one does and has said so."""
    sparse_dim: int = 0
    """How many dimensions of its gradient are sparse; 0: none, as far as this rank knows."""
    order: Tuple[int, ...] = ()
    """The dimensions in the order in which elements follow each other in memory; empty: as they are counted."""


Parts = Dict[str, Part]


def parts_of(gradients: Iterable[Gradient]) -> Parts:
    """This rank's parts, by the parameters' names."""
    return {
        each.name: Part(each.unit.name, each.takes_part(), each.sparse_dim, each.wanted_order()) for each in gradients
    }


def _digest_of(value: Any) -> int:
    return int.from_bytes(hashlib.blake2b(repr(value).encode(), digest_size=7).digest(), "little")


def names_operations(error: Exception) -> bool:
    """Whether ranks have called different operations. All of them have this error then."""
    return isinstance(error, InvalidRequest) and _OPERATIONS.search(str(error)) is not None


class Participation:
    """Has the ranks of a set agree about the parts of all parameters of an optimizer, once in an epoch; and in each step
    as long as some rank does not train all, since it may begin to."""

    def __init__(self, process_set: ProcessSet) -> None:
        self._process_set = process_set
        self._has_frozen = False
        self._parts: Parts = {}  # of this rank, as others know them
        self.orders: Dict[str, Tuple[int, ...]] = {}
        """Of the gradients' dimensions as they travel, by the parameters' names, as was agreed last."""
        self.is_in_one_order = True
        """Whether all ranks have described their parameters in the same order when they agreed last."""
        self.begin()
        _epochs.follow(self)

    def begin(self) -> None:
        """Ranks are others than before."""
        self.is_open, self._name = True, _NAME  # the next step is to ask
        # Of this rank's parts, and of the order in which it has them; None: they have changed.
        self._digest: Optional[Tuple[int, int]] = None
        self._is_late = False  # other ranks are a step further

    def enter_epoch(self) -> None:
        """As Follower's."""
        self.begin()

    def leave_epoch(self) -> None:
        """As Follower's."""

    def all_have_joined(self) -> None:
        """As Follower's. A rank that had no step before it joined has not asked yet, so all ask again."""
        self.is_open, self._name = True, _NAME

    def note_change(self) -> None:
        """This rank's parts are others than before."""
        self._digest = None

    def wait_for_others(self) -> None:
        """Parameters were added on this rank, and the next step is to ask. It waits for the ranks that do not know of it;
        warnings of a stall show the name of what it waits for."""
        if not self.is_open:
            self.is_open, self._name = True, "gradients.parts of an optimizer that was given more parameters"
        self._digest = None

    def ask_again(self) -> None:
        """All ranks are about to ask in this step."""
        self.is_open, self._name, self._digest = True, _NAME, None

    def note_late(self) -> None:
        """Parameters were added on this rank after all gradients had travelled, and a rank has added none in that step."""
        self._is_late = True

    def agree(self, describe: Callable[[], Parts]) -> Optional[Parts]:
        """Returns the parts of all parameters that any rank trains, over all ranks; None where all ranks have the same.
        `describe` gives this rank's, by the parameters' names. All ranks of the set call it at once.

        ValueError, on all ranks with the same words: a rank trains a parameter that the optimizer of another one does
        not have, or had not in that step. EpochEnded: a worker has died or left.
        """
        if self._digest is None:
            self._parts = describe()
            self._has_frozen = not all(part.is_trained for part in self._parts.values())
            self._digest = _digest_of(sorted(self._parts.items())), _digest_of(list(self._parts))
        late, self._is_late = lib.farandole_rank() + 1 if self._is_late else 0, False
        parts, order = self._digest
        values = [parts, -parts, order, -order, int(self._has_frozen), late]
        agreed = _epochs.agree_on_most(self._name, values, group_of(self._process_set))
        most, least, last, first, has_frozen, late = agreed
        self.is_open, self._name, self.is_in_one_order = bool(has_frozen), _NAME, last == -first
        merged = None if most == -least else self._merge(describe())
        if late > 0:
            raise InvalidRequest(
                f"rank {late - 1} has added parameters to its optimizer between backward() and step(), and another rank a "
                "step later: all ranks add them in the same step"
            )
        self.orders = {name: part.order for name, part in (self._parts if merged is None else merged).items()}
        return merged

    def _merge(self, parts: Parts) -> Parts:
        every = dict(allgather_object((lib.farandole_rank(), parts), _NAME, self._process_set))
        merged: Parts = {}
        common = set(parts).intersection(*every.values())
        orders: Dict[str, Set[Tuple[int, ...]]] = {}
        for known in every.values():
            for name, part in known.items():
                orders.setdefault(name, set()).add(part.order)
        for rank, theirs in every.items():
            for name, part in theirs.items():
                if not part.is_trained:
                    continue
                if name not in common:
                    other = next(other for other, known in every.items() if name not in known)
                    raise InvalidRequest(
                        f"{name}: rank {rank} trains this parameter, and the optimizer of rank {other} does not have it"
                    )
                sparse_dim = max(part.sparse_dim, merged[name].sparse_dim if name in merged else 0)
                merged[name] = part._replace(sparse_dim=sparse_dim, order=part.order if len(orders[name]) == 1 else ())
        return merged


class Question:
    """Parameters were added on this rank, and ranks that do not know of it would not come to an agreement: it calls an
    operation by the name of a gradient that these are about to send, which is refused there. Ranks that have added
    some, too, call it as well.
    """

    def __init__(self, agreed: List[Unit], settings: Settings) -> None:
        """`agreed`: those that travel on all ranks in each step."""
        self._compression, self._process_set = settings.compression, settings.process_set
        self._agreed = [unit for unit in agreed if self._opening(unit) is not None]
        self._unit = min(self._agreed, key=lambda each: each.name, default=None)
        self._handles: List[Handle] = []
        if self._unit is not None and not self._unit.is_sent():
            self._unit.waiting += 1  # for the answer

    def _opening(self, unit: Unit) -> Optional[str]:
        """The name of the operation with which the others begin to send a gradient; None: not known."""
        if isinstance(self._compression, GradientExchange):
            return self._compression.opening(unit.name, unit.parameter)
        return unit.name

    def ask(self, agreed: List[Unit]) -> List[Unit]:
        """Asks, unless the gradient has travelled in this step already. Returns the units that the others wait for before
        they answer."""
        if self._unit is None or self._unit.is_sent():
            return agreed
        with contextlib.suppress(EpochEnded):  # so says the agreement
            nothing, name = torch.empty(0), self._opening(self._unit)
            self._handles.append(ops.reducescatter_async(nothing, name, Sum, self._process_set))
        return [unit for unit in agreed if unit is not self._unit]

    def _begin_nothing(self, name: str, opening: Optional[str]) -> Handle:
        """Begins another operation than those by which gradients begin to travel. It has no root, which may have joined.
        Under `name` dense gradients are reduced and sparse ones gathered; Compression.int8 begins with an alltoall."""
        nothing = torch.empty(0)
        if opening == name:
            return ops.alltoall_async(nothing, None, opening, self._process_set)
        return ops.allgather_async(nothing, opening, self._process_set)

    def is_answered(self) -> bool:
        """Waits for the answer. Whether it has asked: then all ranks come to an agreement."""
        self._is_refused()
        return bool(self._handles)

    def _is_refused(self) -> bool:
        """Waits for all answers. Whether a rank has not asked the same."""
        refused = False
        for handle in self._handles:
            try:
                handle.synchronize()
            except InvalidRequest as error:
                if not names_operations(error):
                    raise
                refused = True
        return refused

    def ask_of_next_step(self, participation: "Participation") -> None:
        """All gradients of this step have travelled: asks for each of them. Ranks that have added parameters in this step,
        too, do the same; the others come to it in their next step, and then no rank goes on."""
        if self._unit is None:
            participation.wait_for_others()
            return
        with contextlib.suppress(EpochEnded):
            self._handles = [self._begin_nothing(each.name, self._opening(each)) for each in self._agreed]
        if self._is_refused():
            participation.note_late()
