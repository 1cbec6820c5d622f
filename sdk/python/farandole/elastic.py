"""Elastic training: workers may come and go, and the program goes on in the same processes.

    state = hvd.elastic.ObjectState(weights=weights, step=0)

    @hvd.elastic.run
    def train(state):
        while state.step < steps:
            state.weights -= rate * hvd.allreduce(gradient(state.weights), name="gradient")
            state.step += 1
            state.commit()

    train(state)

The function is called again in each epoch. After a loss it gets the state of the last commit, which the surviving rank
with the most commits sends to all. After workers have joined or left in order, it gets the state as it was. The
function's actions must follow from `state`, rank() and size(). docs/elastic.md is the guide.
"""

import contextlib
import copy
import enum
import functools
import signal
import sys
import threading
from typing import TYPE_CHECKING, Any, Callable, Dict, Iterator, List, Optional, Tuple, Type, TypeVar

from . import _epochs, _options
from ._library import OK, failure, lib
from .basics import dismissal, is_initialized, rank
from .exceptions import Dismissed, EpochEnded, HostsUpdatedInterrupt
from .objects import broadcast_object

__all__ = ["HostUpdateResult", "HostsUpdatedInterrupt", "ObjectState", "State", "run"]

Result = TypeVar("Result")
Errors = Tuple[Type[Exception], ...]

# Of ranks that have committed equally often the lowest is the most advanced.
_MAX_RANKS = 1 << 16


class HostUpdateResult(enum.IntFlag):
    """The argument of on_hosts_updated, as bits."""

    no_update = 0
    removed = 1
    added = 2
    mixed = removed | added


class State:
    """The values that all ranks share and a newcomer needs. To be derived from: save, restore, and sync or sync_from.

    One thread at a time.
    """

    def __init__(self, bcast_object: Callable[..., Any] = broadcast_object, get_rank: Callable[[], int] = rank) -> None:
        """`bcast_object(obj, root_rank=...)` returns the root's object, and without a root that of rank 0; `get_rank()`
        is this worker's."""
        self._bcast_object = bcast_object
        self._rank = get_rank
        self._reset_callbacks: List[Callable[[], Any]] = []
        self._commits = 0
        self._last_update = 0
        self._updates = HostUpdateResult.no_update

    def register_reset_callbacks(self, callbacks: List[Callable[[], Any]]) -> None:
        """Has functions called in each new epoch, before the state is synchronized: for what depends on size()."""
        self._reset_callbacks.extend(callbacks)

    def on_reset(self) -> None:
        """A new epoch has formed; `run` calls it."""
        self._last_update = 0
        self._updates = HostUpdateResult.no_update
        self.reset()
        for callback in self._reset_callbacks:
            callback()

    def on_hosts_updated(self, timestamp: int, update_res: int) -> None:
        """Workers want to join, or are to leave: the next check_host_updates of all ranks interrupts.

        `timestamp` grows from change to change; one that is known is ignored. `update_res`: see HostUpdateResult.
        """
        if timestamp > self._last_update:
            self._last_update = timestamp
            self._updates |= update_res

    def commit(self) -> None:
        """Saves the state, to which ranks return after a loss, and checks for changes as check_host_updates does.

        All ranks call it at the same points of the program. Costs a copy of the state in memory.
        """
        self._settle()
        self.save()
        self._commits += 1
        try:
            self.check_host_updates()
        except HostsUpdatedInterrupt as interrupt:
            interrupt.at_commit = True
            raise

    def check_host_updates(self) -> None:
        """Agrees among all ranks whether workers want to join or leave: some microseconds, and nothing where the job
        is not elastic.

        HostsUpdatedInterrupt, on all ranks at once: they do. EpochEnded: a worker has died.
        """
        if not _epochs.is_elastic():
            # Only the program itself may have set it.
            if self._updates:
                raise HostsUpdatedInterrupt(skip_sync=self._updates == HostUpdateResult.removed)
            return
        change = _epochs.wanted_change()
        if change is not None:
            added = HostUpdateResult.added if change.joining else 0
            self.on_hosts_updated(change.serial, added | (HostUpdateResult.removed if change.leaving else 0))
        added, removed = _epochs.agree_on_most(
            "farandole.elastic.check",
            [self._updates & HostUpdateResult.added, self._updates & HostUpdateResult.removed],
        )
        if added or removed:
            # The state is saved next, and all ranks are here.
            self._settle()
            raise HostsUpdatedInterrupt(skip_sync=not added)

    def _settle(self) -> None:
        """Waits on all ranks until the results of collectives are complete and valid; called before save(), which keeps
        them. Here it does nothing: they are when a collective has returned.

        EpochEnded: they are not.
        """

    def save(self) -> None:
        """Keeps a copy of the state in this process's memory."""
        raise NotImplementedError

    def restore(self) -> None:
        """Takes the state back to the last save()."""
        raise NotImplementedError

    def _leave(self, interrupt: HostsUpdatedInterrupt) -> None:
        """The interrupt has left the function: keeps the state as it is now."""
        del interrupt
        self.save()

    def sync(self) -> None:
        """Sends the state of the most advanced rank to all ranks, which save it. Collective.

        That is the one with the most commits, and the lowest of equals: rank 0 where nothing was lost.
        """
        commits, root = self._most_advanced()
        self.sync_from(root)
        self._settle()
        self.save()
        self._commits = commits

    def sync_from(self, root_rank: int) -> None:
        """Gives the state of a rank to all. Collective."""
        raise NotImplementedError

    def reset(self) -> None:
        """Makes anew what depends on rank() and size(); before the reset callbacks."""

    def _most_advanced(self) -> "tuple[int, int]":
        (most,) = _epochs.agree_on_most(
            "farandole.elastic.advanced", [self._commits * _MAX_RANKS + _MAX_RANKS - 1 - rank()]
        )
        return most // _MAX_RANKS, _MAX_RANKS - 1 - most % _MAX_RANKS


class ObjectState(State):
    """A state of Python objects, each an attribute: ObjectState(step=0, weights=numpy.zeros(8)).

    save() and restore() copy them (copy.deepcopy), sync() pickles them.
    """

    def __init__(
        self,
        bcast_object: Callable[..., Any] = broadcast_object,
        get_rank: Callable[[], int] = rank,
        **kwargs: Any,
    ) -> None:
        super().__init__(bcast_object, get_rank)
        self._saved_state: Dict[str, Any] = {}
        for name, value in kwargs.items():
            if callable(getattr(type(self), name, None)):
                raise ValueError(f"a state cannot have an attribute {name!r}: {type(self).__name__}.{name} is taken")
            setattr(self, name, value)
            self._saved_state[name] = copy.deepcopy(value)

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """The program's own attributes, with the types that it has given them."""

    def save(self) -> None:
        self._saved_state = {name: copy.deepcopy(getattr(self, name)) for name in self._saved_state}

    def restore(self) -> None:
        for name, value in self._saved_state.items():
            setattr(self, name, copy.deepcopy(value))

    def sync_from(self, root_rank: int) -> None:
        if self._saved_state:
            current = {name: getattr(self, name) for name in self._saved_state}
            # A program's own function, as Horovod calls it, takes the object only.
            received = self._bcast_object(current, **({"root_rank": root_rank} if root_rank else {}))
            if self._rank() != root_rank:
                for name, value in received.items():
                    setattr(self, name, value)


def run(func: Callable[..., Result]) -> Callable[..., Result]:
    """Decorates func(state, ...), which is called anew in each epoch until it returns; the result is its own.

    A collective before it, other than those of init(), would wait forever on a worker that joins later. A process that
    the job has no place for any more, drained or told to end by SIGTERM, ends in order: SystemExit with code 0. In a
    job that is not elastic EpochEnded is raised as ever, after the state was restored. EpochEnded in one that is: the
    job has failed; the text says why.
    """
    return run_with_errors(func, ())


def run_with_errors(
    func: Callable[..., Result], errors: Errors, settle: Optional[Callable[[State, Result], None]] = None
) -> Callable[..., Result]:
    """As run, for a framework whose collectives raise errors of its own where an epoch ends. An error of one of these
    types is then taken for EpochEnded, in the function as well as in the state's methods and reset callbacks. `settle`:
    waits for what the function has begun and not awaited, so that a loss in its last steps is noticed while there is a
    commit to go back to."""
    if not callable(func):
        raise ValueError(f"elastic.run decorates a function of a state, not {func!r}")

    @functools.wraps(func)
    def elastic(state: State, *args: Any, **kwargs: Any) -> Result:
        def call() -> Result:
            result = func(state, *args, **kwargs)
            if settle is not None:
                settle(state, result)
            return result

        with _departing_on_sigterm():
            return _call_in_each_epoch(state, call, errors)

    return elastic


def _call_in_each_epoch(state: State, call: Callable[[], Result], errors: Errors) -> Result:
    wants_sync, is_torn, is_first = True, False, True
    while True:
        # A job that is not elastic stays in its epoch; its program has interrupted itself.
        moves_on = not is_first and _epochs.is_elastic()
        if moves_on:
            _leave_and_join()
        try:
            with converted(errors):
                if moves_on:
                    _epochs.enter()
                if not is_first:
                    if is_torn:
                        state.restore()
                        is_torn = False
                    state.on_reset()
                if _any_rank(wants_sync):
                    state.sync()
                return call()
        except EpochEnded:
            is_torn = not _restored(state, errors)
            if not _epochs.is_elastic():
                raise
            wants_sync = True
        except HostsUpdatedInterrupt as interrupt:
            # All ranks leave with the same agreed state: a later loss goes back to it, and newcomers get it.
            wants_sync = not interrupt.skip_sync
            try:
                with converted(errors):
                    state._leave(interrupt)
            except EpochEnded:
                is_torn = not _restored(state, errors)
                wants_sync = True
        is_first = False


@contextlib.contextmanager
def converted(errors: Errors) -> Iterator[None]:
    """Raises EpochEnded in the place of a framework's error, if the epoch has ended."""
    try:
        yield
    except (EpochEnded, HostsUpdatedInterrupt):
        raise
    except errors as error:
        code = lib.farandole_epoch_ended()
        if code != OK:
            raise failure(code) from error
        raise


def _leave_and_join() -> None:
    try:
        _epochs.leave_and_join()
    except Dismissed as error:
        raise dismissal(error) from error


def _any_rank(wants_sync: bool) -> bool:
    """Ranks come to an epoch in different ways; one that needs the state gets it from those that have it."""
    return _epochs.agree_on_most("farandole.elastic.sync", [int(wants_sync)]) == [1]


def _restored(state: State, errors: Errors) -> bool:
    try:
        with converted(errors):
            state.restore()
    except EpochEnded:
        return False  # a state of the program's own, whose restore() needs its peers
    return True


@contextlib.contextmanager
def _departing_on_sigterm() -> Iterator[None]:
    """Within it the first SIGTERM has this rank leave in order at a commit, and the second ends the process. Where the
    program handles SIGTERM itself, or this is not its main thread, nothing is changed."""
    if (
        not (is_initialized() and _epochs.is_elastic())
        or threading.current_thread() is not threading.main_thread()
        or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL
    ):
        yield
        return
    grace_ms = _options.depart_grace_ms()

    def depart() -> None:
        with contextlib.suppress(RuntimeError):  # the program has left the job meanwhile
            _epochs.depart(grace_ms, "its process was sent SIGTERM")

    def on_sigterm(_number: int, _frame: Optional[Any]) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        print("farandole: SIGTERM: this worker leaves the job at its next commit", file=sys.stderr, flush=True)
        # Python runs this in the main thread, which may be inside the library, waiting for its peers.
        threading.Thread(target=depart, daemon=True).start()

    signal.signal(signal.SIGTERM, on_sigterm)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
