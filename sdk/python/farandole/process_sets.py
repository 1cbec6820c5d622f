"""Process sets: subsets of a job's ranks (the C interface and the coordinator call them groups)."""

from typing import List, Optional, Sequence, Union

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


def forget_all() -> None:
    """Invalidates all sets but the global one: the library forgot them at shutdown."""
    for process_set in _registered:
        process_set.process_set_id = None
    _registered.clear()


def group_of(process_set: ProcessSet) -> int:
    """The library's number of a registered set. ValueError: it is not registered."""
    group = process_set.process_set_id
    if group is None:
        raise ValueError(f"{process_set} is not registered; pass it to init(process_sets=[...]) or add_process_set()")
    return group
