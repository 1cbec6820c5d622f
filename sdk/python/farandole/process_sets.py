"""Process sets: subsets of a job's ranks (the C interface and the coordinator call them groups)."""

import warnings
from typing import Any, Dict, Iterable, List, Optional, Sequence, Union

from . import _communicators
from ._library import check, failure, ffi, interruptible, lib
from .exceptions import InvalidRequest

GLOBAL_ID = 0


def _known(result: int) -> int:
    # In these queries -1 means "not in it", so that an unknown group has a number of its own.
    if result == -lib.FARANDOLE_NOT_FOUND - 1:
        raise failure(lib.FARANDOLE_NOT_FOUND)
    return check(result)


class ProcessSet:
    """Some ranks of the job that run collectives among themselves.

    Made by the program, and registered by init(process_sets=[...]) or add_process_set(); before that, and after
    remove_process_set(), `process_set_id` is None, and size() and rank() return None.
    """

    process_set_id: Optional[int] = None
    ranks: Optional[List[int]] = None
    mpi_comm: Any = None

    def __init__(self, ranks_or_comm: Union[Sequence[int], Any]) -> None:
        """`ranks_or_comm`: ranks of the job, in any order, or an mpi4py communicator of which all processes are in the
        job; init() finds their ranks. ValueError: neither, or not different numbers >= 0."""
        if _communicators.is_communicator(ranks_or_comm):
            self.mpi_comm = ranks_or_comm
            return
        try:
            ranks = sorted(ranks_or_comm)
        except TypeError:
            ranks = [None]
        if any(not hasattr(rank, "__index__") for rank in ranks):
            raise ValueError(
                "ProcessSet should be initialized with a list of process ranks or an mpi4py Comm object, "
                f"not {ranks_or_comm!r}"
            )
        ranks = [rank.__index__() for rank in ranks]
        if not ranks or ranks[0] < 0 or len(set(ranks)) != len(ranks):
            raise ValueError(f"the ranks of a process set must be different numbers >= 0, at least one: got {ranks}")
        self.ranks = ranks

    def size(self) -> Optional[int]:
        """Number of ranks in the set."""
        if self.process_set_id is None:
            return None
        return _known(lib.farandole_group_size(self.process_set_id))

    def rank(self) -> Optional[int]:
        """This worker's position in the set. Arguments such as root_rank are ranks of the job all the same.

        ValueError: it is not in the set.
        """
        if self.process_set_id is None:
            return None
        found = lib.farandole_group_rank(self.process_set_id)
        if found == -1:
            raise ValueError(f"Process is not part of provided process set: rank {check(lib.farandole_rank())}, {self}")
        return _known(found)

    def included(self) -> Optional[bool]:
        """Whether this worker is in the set, registered or not; None where init() is to find its ranks."""
        if self.ranks is None:
            return None
        return check(lib.farandole_rank()) in self.ranks

    def __repr__(self) -> str:
        return f"ProcessSet(process_set_id={self.process_set_id}, ranks={self.ranks}, mpi_comm={self.mpi_comm})"


class _GlobalProcessSet(ProcessSet):
    def __init__(self) -> None:
        self.process_set_id = GLOBAL_ID

    @property
    def ranks(self) -> List[int]:
        """All; none before init()."""
        return list(range(max(0, lib.farandole_size())))

    def included(self) -> bool:
        return check(lib.farandole_rank()) >= 0


global_process_set: ProcessSet = _GlobalProcessSet()
"""All ranks of the job. Always registered."""

_registered: List[ProcessSet] = []


def ranks_by_id() -> Dict[int, List[int]]:
    """The ranks of each registered set, by process_set_id."""
    return {each.process_set_id: list(each.ranks) for each in (global_process_set, *_registered)}


def add_process_set(process_set: Union[ProcessSet, Sequence[int]]) -> ProcessSet:
    """Registers a process set, on all ranks of the job: all call it with the same ranks, in the same order. Blocks
    until all have.

    Returns the set, which is the argument if that was a ProcessSet. ValueError: it, or one of the same ranks, is
    registered already, a rank is not in the job, or ranks disagree (both are named). NotImplementedError: it is made of
    a communicator. EpochEnded: a worker has died meanwhile.
    """
    if not isinstance(process_set, ProcessSet):
        process_set = ProcessSet(process_set)
    if process_set.ranks is None:
        raise NotImplementedError(
            "Dynamically adding process sets defined by an MPI communicator is not implemented: "
            "build the process set via a list of ranks, or pass it to init(process_sets=[...])"
        )
    if process_set.ranks == global_process_set.ranks:
        raise ValueError(
            f"Attempted to add a duplicate process set: {process_set} has all ranks, as global_process_set"
        )
    return _register(process_set)


def _register(process_set: ProcessSet) -> ProcessSet:
    if process_set.process_set_id is not None:
        raise ValueError(f"Attempted to add a duplicate process set: {process_set} is registered already")
    ranks = process_set.ranks
    for other in _registered:
        if other.ranks == ranks:
            raise ValueError(f"Attempted to add a duplicate process set: {ranks} is registered already: {other}")
    group = ffi.new("int32_t*")
    try:
        interruptible(lib.farandole_add_group, ffi.new("int32_t[]", ranks), len(ranks), group)
    finally:
        if group[0] != GLOBAL_ID:  # also where a signal's handler has raised an exception just then
            process_set.process_set_id = group[0]
            _registered.append(process_set)
    return process_set


def remove_process_set(process_set: ProcessSet) -> bool:
    """Ends a process set, on all ranks of the job, and invalidates it. False for the global one, which stays, and for one
    that is not registered.

    RuntimeError: operations of it are pending. ValueError: it is no ProcessSet.
    """
    if not isinstance(process_set, ProcessSet):
        raise ValueError(f"process_set is a ProcessSet, not {process_set!r}")
    if process_set.process_set_id in (GLOBAL_ID, None):
        return False
    group = process_set.process_set_id
    try:
        interruptible(lib.farandole_remove_group, group)
    except InvalidRequest:
        # An earlier call, which a signal's handler interrupted, has ended it meanwhile.
        if lib.farandole_group_size(group) >= 0:
            raise
    finally:
        if lib.farandole_group_size(group) < 0:  # also where a signal's handler has raised an exception just then
            process_set.process_set_id = None
            _registered[:] = [each for each in _registered if each is not process_set]
    return True


# Those of init(), which each epoch of an elastic job gets again.
_lasting: List[ProcessSet] = []


def register_lasting(process_sets: Iterable[ProcessSet]) -> None:
    """Registers the sets of init(), and in each further epoch of an elastic job those of them whose ranks are there.

    ValueError: two of them have the same ranks.
    """
    process_sets = list(process_sets)
    for number, process_set in enumerate(process_sets):
        if any(process_set.ranks == other.ranks for other in process_sets[:number]):
            raise ValueError(
                f"init() could not register its process sets: process_sets entry number {number} is a duplicate: {process_set}"
            )
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
                _register(process_set)
        else:
            absent.append(f"{process_set.ranks} (the epoch has {size} ranks)")
    lasting = set(map(id, _lasting))
    absent += [
        f"{each.ranks} (add_process_set() is to be called again)" for each in forgotten if id(each) not in lasting
    ]
    if absent:
        warnings.warn(f"process sets that are not included in this epoch: {', '.join(absent)}", stacklevel=2)


def group_of(process_set: ProcessSet) -> int:
    """The library's number of a registered set. ValueError: it is not registered, or no set."""
    if not isinstance(process_set, ProcessSet):
        raise ValueError(f"process_set is a ProcessSet, not {process_set!r}")
    group = process_set.process_set_id
    if group is None:
        raise ValueError(f"{process_set} is not registered; pass it to init(process_sets=[...]) or add_process_set()")
    return group
