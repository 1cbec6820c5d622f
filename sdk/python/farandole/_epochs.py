"""From one epoch of an elastic job to the next, in this process. Programs use farandole.elastic."""

import weakref
from typing import List, NamedTuple, Optional, Protocol

from . import process_sets
from ._handles import run, sweep
from ._library import OK, SURFACE_MS, failure, ffi, interruptible, lib


class Follower(Protocol):
    """Holds the objects of an epoch: names, groups, submissions, arenas."""

    def leave_epoch(self) -> None:
        """Lets go of it; may be told again before enter_epoch."""

    def enter_epoch(self) -> None:
        """A new epoch has formed. Not collective."""

    def all_have_joined(self) -> None:
        """Ranks that have had different numbers of steps go on together. Not collective."""


_followers: "weakref.WeakSet[Follower]" = weakref.WeakSet()
_forgotten: List[process_sets.ProcessSet] = []


def follow(follower: Follower) -> None:
    """Has an object told of each further epoch, as long as it lives."""
    _followers.add(follower)


def is_elastic() -> bool:
    """Whether this process is in a job that outlives its epochs."""
    return lib.farandole_is_elastic() == 1


def leave_and_join() -> None:
    """Leaves the present epoch and joins the next one, in which enter() is to follow. Collective where it has not ended.

    Dismissed: the job has no place for this process any more. EpochEnded: the job has failed. ConnectionError: the
    coordinator was away for too long.
    """
    for follower in list(_followers):
        follower.leave_epoch()
    _forgotten.extend(process_sets.forget_all())
    interruptible(lib.farandole_rejoin)
    sweep()


def begin() -> None:
    """After init(): what has outlived an earlier shutdown() is made anew. Not collective. Raises the first one's exception
    when all have been told."""
    followers = list(_followers)
    for follower in followers:
        follower.leave_epoch()
    errors: List[Exception] = []
    for follower in followers:
        try:
            follower.enter_epoch()
        except Exception as error:  # pylint: disable=broad-except; raised when all have been told
            errors.append(error)
    if errors:
        raise errors[0]


def enter() -> None:
    """Makes anew, in an epoch that was just joined, what lasts. EpochEnded: it has ended meanwhile."""
    process_sets.enter_epoch(_forgotten)
    _forgotten.clear()
    for follower in list(_followers):
        follower.enter_epoch()


def all_have_joined() -> None:
    """To be called when join() returns."""
    for follower in list(_followers):
        follower.all_have_joined()


class Change(NamedTuple):
    """The coordinator's last notice of workers that are to come and go."""

    serial: int
    """Counts up within an epoch, from 1."""
    joining: int
    """Workers that wait to join."""
    leaving: int
    """Ranks that are to leave."""


def wanted_change() -> Optional[Change]:
    """The last of this epoch; None: nothing is wanted. Some 0.2 us."""
    if lib.farandole_change_wanted(_change) != OK or _change.serial == 0:
        return None
    return Change(_change.serial, _change.joining, _change.leaving)


def depart(grace_ms: int, reason: str) -> None:
    """Tells the coordinator that another program will end this process. RuntimeError: not in an elastic job."""
    code = lib.farandole_depart(grace_ms, reason.encode(errors="replace")[:1024])
    if code != OK:
        raise failure(code)


_change = ffi.new("farandole_change*", {"struct_bytes": ffi.sizeof("farandole_change")})


def agree_on_most(name: str, values: List[int], group: int = process_sets.GLOBAL_ID) -> List[int]:
    """The greatest of each value over all ranks of a group, which all call it. EpochEnded: a worker has died or left."""
    return _reduce(lib.FARANDOLE_MAX, name, values, group)


def all_are_present(name: str, group: int) -> bool:
    """Whether no rank of a group has joined. Those that have not call it. EpochEnded: a worker has died or left."""
    return _reduce(lib.FARANDOLE_SUM, name, [1], group) == [lib.farandole_group_size(group)]


def _reduce(op: int, name: str, values: List[int], group: int) -> List[int]:
    memory, shape = ffi.new("int64_t[]", values), ffi.new("int64_t[]", [len(values)])
    address = int(ffi.cast("uintptr_t", memory))
    call = (shape, 1, lib.FARANDOLE_I64, op, 1.0, 1.0, group, SURFACE_MS)
    run(lib.farandole_allreduce, (memory, shape), name.encode(), address, address, *call)
    return list(memory)
