"""Elastic training of JAX's programs: docs/elastic.md, with pytrees as the state."""

import copy
from typing import Any, Callable, Dict, Optional, Tuple

import jax

from .. import _epochs
from .. import elastic as _elastic
from .._library import lib
from ..basics import before_shutdown
from ..elastic import HostsUpdatedInterrupt, ObjectState, State
from ..process_sets import ranks_by_id
from .parameters import broadcast_parameters

__all__ = ["HostsUpdatedInterrupt", "JaxState", "ObjectState", "State", "run"]


class _CompiledPrograms:
    """Programs have the place of this rank, the number of ranks and the process sets in them: those of another epoch are
    compiled again. Where a lost worker was replaced, and nothing else has changed, they stay."""

    def __init__(self) -> None:
        self._left: Optional[Tuple[int, int, Dict[int, Any]]] = None  # where no epoch was left

    @staticmethod
    def _present() -> Optional[Tuple[int, int, Dict[int, Any]]]:
        rank = lib.farandole_rank()
        return (rank, lib.farandole_size(), ranks_by_id()) if rank >= 0 else None

    def leave_epoch(self) -> None:
        self._left = self._left or self._present()

    def enter_epoch(self) -> None:
        if self._present() != self._left:
            jax.clear_caches()
        self._left = None

    def all_have_joined(self) -> None:
        """Names follow from programs."""


_programs = _CompiledPrograms()
_epochs.follow(_programs)
before_shutdown(_programs.leave_epoch)


# Of a program, and of an array that it has not made: JAX raises the one or the other, by the way on which it finds out.
_OF_PROGRAMS = (jax.errors.JaxRuntimeError, ValueError)


def _settle(state: State, result: Any) -> None:
    """A program may have donated arrays of the state since it has committed."""
    held = [getattr(state, name) for name in state._saved_state] if isinstance(state, JaxState) else []
    arrays = [leaf for leaf in jax.tree.leaves([result, held]) if isinstance(leaf, jax.Array)]
    jax.block_until_ready([array for array in arrays if not array.is_deleted()])


def run(func: Callable[..., Any]) -> Callable[..., Any]:
    """As farandole.elastic.run, for programs whose collectives are compiled: an error that those raise when the epoch ends
    is the epoch's end. Waits for the arrays that the function returns, and for those of a JaxState."""
    return _elastic.run_with_errors(func, _OF_PROGRAMS, _settle)


def _copy(leaf: Any) -> Any:
    return leaf.copy() if isinstance(leaf, jax.Array) else copy.deepcopy(leaf)


class JaxState(ObjectState):
    """A state of pytrees, each an attribute: JaxState(params=params, opt_state=opt_state, step=0).

    save() copies arrays, so that a program may donate those that the attributes hold. sync() sends arrays as they are, and
    pickles other leaves. All ranks' pytrees have the same structure and shapes. restore() and sync() replace the
    attributes: use what the state holds, and no other name of it.
    """

    def _settle(self) -> None:
        with _elastic.converted(_OF_PROGRAMS):
            jax.block_until_ready([getattr(self, name) for name in self._saved_state])

    def save(self) -> None:
        self._saved_state = {name: jax.tree.map(_copy, getattr(self, name)) for name in self._saved_state}

    def restore(self) -> None:
        for name, value in self._saved_state.items():
            setattr(self, name, jax.tree.map(_copy, value))

    def sync_from(self, root_rank: int) -> None:
        values = {name: getattr(self, name) for name in self._saved_state}
        for name, value in broadcast_parameters(values, root_rank, name="farandole.elastic.state").items():
            setattr(self, name, value)
