"""Process sets: subsets of a job's ranks (the C interface and the coordinator call them groups)."""

import warnings
from typing import Iterable, List, Optional, Sequence, Union

from ._library import check, failure, ffi, interruptible, lib

GLOBAL_ID = 0


def _known(result: int) -> int:
    # In these queries -1 means "not in it", so that an unknown group has a number of its own.
    if result == -lib.FARANDOLE_NOT_FOUND - 1:
        raise failure(lib.FARANDOLE_NOT_FOUND)
    return check(result)


class ProcessSet:
    """Some ranks of the job that run collectives among themselves.

    Made by the program, and registered by init(process_sets=[...]) or add_process_set(); before that, and after
    remove_process_set(), `process_set_id` is None and the queries below return None.
    """

    process_set_id: Optional[int] = None
    ranks: Optional[List[int]] = None

    def __init__(self, ranks_or_comm: Sequence[int]) -> None:
        """`ranks_or_comm`: ranks of the job, in any order. ValueError: not a sequence of different numbers >= 0."""
        try:
            ranks = sorted(int(rank) for rank in ranks_or_comm)
        except TypeError:
            raise ValueError(
                f"a process set is made of a sequence of ranks, not of {ranks_or_comm!r}; "
                "MPI communicators are not supported by this version of farandole"
            ) from None
        if not ranks or ranks[0] < 0 or len(set(ranks)) != len(ranks):
            raise ValueError(f"the ranks of a process set must be different numbers >= 0, at least one: got {ranks}")
        self.ranks = ranks

    def size(self) -> Optional[int]:
        """Number of ranks in the set."""
        if self.process_set_id is None:
            return None
        return _known(lib.farandole_group_size(self.process_set_id))

    def rank(self) -> Optional[int]:
        """This worker's position in the set, -1 if it is not in it. Arguments such as root_rank are ranks of the job
        all the same."""
        if self.process_set_id is None:
            return None
        found = lib.farandole_group_rank(self.process_set_id)
        return found if found == -1 else _known(found)

    def included(self) -> Optional[bool]:
        """Whether this worker is in the set."""
        found = self.rank()
        return None if found is None else found >= 0

    def __repr__(self) -> str:
        return f"ProcessSet(process_set_id={self.process_set_id}, ranks={self.ranks})"


class _GlobalProcessSet(ProcessSet):
    def __init__(self) -> None:
        self.process_set_id = GLOBAL_ID

    @property
    def ranks(self) -> List[int]:
        return list(range(check(lib.farandole_size())))


global_process_set: ProcessSet = _GlobalProcessSet()
"""All ranks of the job. Always registered."""

_registered: List[ProcessSet] = []


def add_process_set(process_set: Union[ProcessSet, Sequence[int]]) -> ProcessSet:
    """Registers a process set, on all ranks of the job: all call it with the same ranks, in the same order. Blocks
    until all have.

    Returns the set, which is the argument if that was a ProcessSet. ValueError: it is registered already, a rank is
    not in the job, or ranks disagree (both are named). EpochEnded: a worker has died meanwhile.
    """
    if not isinstance(process_set, ProcessSet):
        process_set = ProcessSet(process_set)
    if process_set.process_set_id is not None:
        raise ValueError(f"{process_set} is registered already")
    ranks = process_set.ranks
    for other in _registered:
        if other.ranks == ranks:
            raise ValueError(f"a process set with the ranks {ranks} is registered already: {other}")
    group = ffi.new("int32_t*")
    interruptible(lib.farandole_add_group, ffi.new("int32_t[]", ranks), len(ranks), group)
    process_set.process_set_id = group[0]
    _registered.append(process_set)
    return process_set


def remove_process_set(process_set: ProcessSet) -> bool:
    """Ends a process set, on all ranks of the job, and invalidates it. False for the global one, which stays.

    ValueError: it is not registered. RuntimeError: operations of it are pending.
    """
    if process_set.process_set_id == GLOBAL_ID:
        return False
    if process_set.process_set_id is None:
        raise ValueError(f"{process_set} is not registered; it may have been removed already")
    interruptible(lib.farandole_remove_group, process_set.process_set_id)
    process_set.process_set_id = None
    _registered.remove(process_set)
    return True


# Those of init(), which each epoch of an elastic job gets again.
_lasting: List[ProcessSet] = []


def register_lasting(process_sets: Iterable[ProcessSet]) -> None:
    """Registers the sets of init(), and in each further epoch of an elastic job those of them whose ranks are there."""
    _lasting.extend(each for each in process_sets if not any(each is other for other in _lasting))
    enter_epoch(())


def forget_all() -> List[ProcessSet]:
    """Invalidates all sets but the global one, whose epoch has ended, and returns them."""
    forgotten = _registered[:]
    for process_set in forgotten:
        process_set.process_set_id = None
    _registered.clear()
    return forgotten


def forget_lasting() -> None:
    """The next init() says anew which sets there are."""
    _lasting.clear()


def enter_epoch(forgotten: Iterable[ProcessSet]) -> None:
    """Registers the lasting sets in a new epoch, as all its ranks do. One warning names those that it goes without: lasting
    ones that lack a rank, and of `forgotten`, the sets of the epoch before, those that add_process_set() made.
    """
    size = check(lib.farandole_size())
    absent = []
    for process_set in _lasting:
        if process_set.ranks[-1] < size or not lib.farandole_is_elastic():
            if process_set.process_set_id is None:
                add_process_set(process_set)
        else:
            absent.append(f"{process_set.ranks} (the epoch has {size} ranks)")
    lasting = set(map(id, _lasting))
    absent += [
        f"{each.ranks} (add_process_set() is to be called again)" for each in forgotten if id(each) not in lasting
    ]
    if absent:
        warnings.warn(f"process sets that are not included in this epoch: {', '.join(absent)}", stacklevel=2)


def group_of(process_set: ProcessSet) -> int:
    """The library's number of a registered set. ValueError: it is not registered."""
    group = process_set.process_set_id
    if group is None:
        raise ValueError(f"{process_set} is not registered; pass it to init(process_sets=[...]) or add_process_set()")
    return group
