"""Which parameters take part in a step: those that any rank trains, also where others have frozen them."""

import hashlib
from typing import Callable, Dict, Iterable, NamedTuple, Optional

from .. import _epochs
from .._library import lib
from ..exceptions import InvalidRequest
from ..objects import allgather_object
from ..process_sets import ProcessSet, group_of
from .gradients import Gradient


class Part(NamedTuple):
    """How one rank has a parameter take part."""

    unit: str
    """With which gradients its own travels."""
    is_trained: bool
    """This rank trains it, or another one does and has said so."""
    sparse_dim: int = 0
    """How many dimensions of its gradient are sparse; 0: none, as far as this rank knows."""


Parts = Dict[str, Part]


def parts_of(gradients: Iterable[Gradient]) -> Parts:
    """This rank's parts, by the parameters' names."""
    return {each.name: Part(each.unit.name, each.takes_part(), each.sparse_dim) for each in gradients}


class Participation:
    """Has the ranks of a set agree about the parts of all parameters of an optimizer, once in an epoch; and in each step
    as long as some rank does not train all, since it may begin to."""

    def __init__(self, process_set: ProcessSet) -> None:
        self._process_set = process_set
        self._has_frozen = False
        self.begin()
        _epochs.follow(self)

    def begin(self) -> None:
        """Ranks, or parameters, are others than before."""
        self.is_open = True  # the next step is to ask
        self._digest: Optional[int] = None  # of this rank's parts; None: they have changed

    def enter_epoch(self) -> None:
        """As Follower's."""
        self.begin()

    def leave_epoch(self) -> None:
        """As Follower's."""

    def all_have_joined(self) -> None:
        """As Follower's. A rank that had no step before it joined has not asked yet, so all ask again."""
        self.is_open = True

    def note_change(self) -> None:
        """This rank's parts are others than before."""
        self._digest = None

    def agree(self, describe: Callable[[], Parts]) -> Optional[Parts]:
        """Returns the parts of all parameters that any rank trains, over all ranks; None where all ranks have the same.
        `describe` gives this rank's, by the parameters' names. All ranks of the set call it at once.

        ValueError, on all ranks with the same words: a rank trains a parameter that the optimizer of another one does
        not have. EpochEnded: a worker has died or left.
        """
        if self._digest is None:
            parts = describe()
            self._has_frozen = not all(part.is_trained for part in parts.values())
            text = repr(sorted(parts.items())).encode()
            self._digest = int.from_bytes(hashlib.blake2b(text, digest_size=7).digest(), "little")
        values = [self._digest, -self._digest, int(self._has_frozen)]
        most, least, has_frozen = _epochs.agree_on_most("gradients.parts", values, group_of(self._process_set))
        self.is_open = bool(has_frozen)
        if most == -least:
            return None
        return self._merge(describe())

    def _merge(self, parts: Parts) -> Parts:
        every = dict(allgather_object((lib.farandole_rank(), parts), "gradients.parts", self._process_set))
        merged: Parts = {}
        for rank, theirs in every.items():
            for name, part in theirs.items():
                if not part.is_trained:
                    continue
                other = next((other for other, known in every.items() if name not in known), None)
                if other is not None:
                    raise InvalidRequest(
                        f"{name}: rank {rank} trains this parameter, and the optimizer of rank {other} does not have it"
                    )
                sparse_dim = max(part.sparse_dim, merged[name].sparse_dim if name in merged else 0)
                merged[name] = part._replace(sparse_dim=sparse_dim)
        return merged
