"""Waiting for submissions, and keeping borrowed memory alive until the library gives it back."""

import contextlib
import threading
from typing import Any, Callable, Dict, Iterable, Iterator, List, Optional, Sequence, Set, Tuple

from ._library import OK, STILL_PENDING, SURFACE_MS, check, failure, ffi, forked, lib

# Memory that the library may still read or write although no thread waits for it, by the handle. No lock: an object's
# __del__ and a signal's handler may run inside any of the functions below, and call them.
_borrowed: Dict[int, List[Any]] = {}

_CELL = ffi.typeof("farandole_handle[1]")

# At hand for each submission.
_new = object.__new__


def cell() -> Any:
    """Where a submission writes its handle; 0 until then. A signal's handler may raise, or submit something itself, before
    the submission's result has a name: rescue() finds it here."""
    return ffi.new(_CELL)


def keep(handle: int, memory: Any) -> None:
    """Keeps `memory` alive until `handle` is complete, and then releases the handle. Nothing for one that is none."""
    if handle > 0:
        _borrowed.setdefault(handle, []).append(memory)


def sweep() -> None:
    """Releases completed handles. Called at each asynchronous submission; free when there is nothing."""
    if not _borrowed:
        return
    for handle in list(_borrowed):
        # An entry goes last: an exception of a signal's handler, anywhere here, leaves it for the next sweep.
        if lib.farandole_poll(handle) != 0:
            lib.farandole_release(handle)
            _borrowed.pop(handle, None)


def borrowed_count() -> int:
    """Number of submissions without a waiting thread."""
    return len(_borrowed)


def rescue(submitted: Iterable[int], memory: Any) -> None:
    """For an exception out of a call that submits: keeps `memory` alive until what it has submitted is complete.

    `submitted` is the call's cell, or its list of handles; those that are complete, or were released, do no harm.
    """
    for handle in submitted:
        keep(handle, memory)
    sweep()


def finish(handle: int, memory: Any) -> None:
    """Waits for a handle and releases it.

    `handle` is the result of a submission: an error there (negative) is raised too. `memory` is the memory that the
    library has borrowed; it is kept alive beyond an interrupted wait. Raises the submission's exception, and
    KeyboardInterrupt.
    """
    if handle < 0:
        raise failure(-handle)
    try:
        code = lib.farandole_finish(handle, SURFACE_MS)
        while code == STILL_PENDING:
            code = lib.farandole_finish(handle, SURFACE_MS)
    except BaseException:
        keep(handle, memory)
        raise
    if code != OK:
        raise failure(code)


def wait(handle: int) -> int:
    """Waits for a handle, which stays. Its code."""
    code: int = lib.farandole_wait(handle, SURFACE_MS)
    while code == STILL_PENDING:
        code = lib.farandole_wait(handle, SURFACE_MS)
    return code


# A GPU's number in this process, and a function that returns the stream of it that the thread uses now, as a number.
Place = Tuple[int, Callable[[], int]]

# By thread: the GPU and the stream that its submissions and waits are told to be of, while they are. Signals' handlers
# run on such threads, too. Mostly empty.
told_streams: Dict[int, Tuple[int, int]] = {}
_HOST = (-1, 0)


def has_stream() -> bool:
    """Whether this thread has told the library a stream: then tensors of the host's memory go through on_host()."""
    return threading.get_ident() in told_streams


def on_host(function: Callable[..., int], *arguments: Any) -> int:
    """Calls a function of the library that submits tensors of the host's memory, or none."""
    outer = told_streams.get(threading.get_ident()) if told_streams else None
    if outer is None:
        return function(*arguments)
    lib.farandole_use_stream(*_HOST)
    try:
        return function(*arguments)
    finally:
        lib.farandole_use_stream(*outer)


@contextlib.contextmanager
def _on_stream(gpu: int, stream: int) -> Iterator[None]:
    """Within it, this thread's submissions and waits are of that stream. An entry is in the table before the library has
    what it says, and until the library has something else: a handler that runs in between puts that back."""
    thread = threading.get_ident()
    outer = told_streams.get(thread)
    told_streams[thread] = (gpu, stream)
    try:
        check(-lib.farandole_use_stream(gpu, stream))
        yield
    finally:
        told_streams[thread] = outer or _HOST
        lib.farandole_use_stream(*(outer or _HOST))
        if outer is None:
            told_streams.pop(thread, None)


class Streams:
    """The GPU in which an operation's tensors are, if they are in one, and its streams that have given them."""

    __slots__ = ("_place", "_given")

    def __init__(self) -> None:
        self._place: Optional[Place] = None
        self._given: Set[int] = set()

    @property
    def are_used(self) -> bool:
        """Whether some have given tensors since the last clear()."""
        return bool(self._given)

    def submit(self, place: Place, function: Callable[..., int], *arguments: Any) -> int:
        """Calls a function of the library that submits tensors which this thread's stream there gives."""
        stream = place[1]()
        with _on_stream(place[0], stream):
            self._place = place
            self._given.add(stream)
            return function(*arguments)

    @contextlib.contextmanager
    def waiting(self) -> Iterator[None]:
        """Within it, this thread's waits have its stream in that GPU wait."""
        if self._place is None:
            yield
            return
        with _on_stream(self._place[0], self._place[1]()):
            yield

    def others(self) -> Iterator[None]:
        """While waiting(): goes through the other streams that have given tensors, for each of which the thread is to wait
        as well: memory goes back to them, and they may give it to others."""
        if self._place is None:
            return
        for stream in self._given - {told_streams[threading.get_ident()][1]}:
            with _on_stream(self._place[0], stream):
                yield

    def clear(self) -> None:
        """Nothing of theirs is on its way any more."""
        self._given.clear()


_mode = threading.local()


def wait_ms(is_last: bool = True) -> int:
    """For how long a submission waits before it returns: not at all, but inside of at_once where it `is_last`."""
    return getattr(_mode, "wait_ms", 0) if is_last else 0


def at_once(call: Callable[..., "Handle"], *arguments: Any) -> Any:
    """The output of an asynchronous call, by the shortest way: this thread does the work from the start, and no other one
    need be woken."""
    _mode.wait_ms = SURFACE_MS
    try:
        handle = call(*arguments)
    finally:
        _mode.wait_ms = 0
    return handle.synchronize()


def run(submit: Callable[..., int], memory: Any, *arguments: Any) -> None:
    """Submits a call and finishes it. `submit` is the library's function, without its last argument; `memory` is what the
    library borrows. Raises the submission's exception, and KeyboardInterrupt."""
    submitted = cell()
    try:
        finish(on_host(submit, *arguments, submitted), memory)
    except BaseException:
        rescue(submitted, memory)
        raise


class Handle:
    """One asynchronous call: one or several submissions, and how to make the call's output of them.

    Memory that the library has borrowed stays alive until it is complete, also when the handle is dropped before. Any
    thread may wait.
    """

    __slots__ = ("_ids", "_memory", "_collect", "_output", "_error", "_done", "_streams", "_collecting")

    def __init__(self, memory: Any, collect: Optional[Callable[[Sequence[int]], Any]]) -> None:
        """`collect` gets the complete handles before they are released and returns the output; None: there is one."""
        self._ids: List[int] = []
        self._memory = memory
        self._collect = collect
        self._output: Any = None
        self._error: Optional[BaseException] = None
        self._done = False  # before the library's handles are released, after the output and the error
        self._collecting = threading.RLock()  # a signal's handler may wait for the handle that its thread collects
        self._streams: Optional[Streams] = None  # of those of its tensors that are in a GPU

    @classmethod
    def of_submitted(cls, handles: List[int], memory: Any, output: Any) -> "Handle":
        """Of one submission, in a list, that writes `output` where it lies, in the host's memory."""
        made = _new(cls)  # __init__ would take as long as the rest
        made._ids = handles
        made._memory = memory
        made._output = output
        made._collect = made._error = made._streams = None
        made._done = False
        return made

    def submit(self, place: Optional[Place], function: Callable[..., int], *arguments: Any) -> int:
        """Adds a submission of tensors that are in a GPU (None: not): calls `function` of the library, whose last argument
        is not among these, and returns the library's handle. Raises its exception where it is refused."""
        sweep()
        submitted = cell()
        try:
            if place is None:
                handle = on_host(function, *arguments, submitted)
            else:
                self._streams = self._streams or Streams()
                handle = self._streams.submit(place, function, *arguments, submitted)
            if handle >= 0:
                self._ids.append(handle)
        except BaseException:
            rescue(submitted, self._memory)
            raise
        if handle < 0:
            raise failure(-handle)
        return handle

    def poll(self) -> bool:
        """True when synchronize() would not wait."""
        if self._done:
            return True
        for handle in self._ids:
            state = lib.farandole_poll(handle)
            if self._done:  # another thread has released it meanwhile
                return True
            if state < 0:
                raise failure(-state)
            if state == 0:
                return False
        return True

    def synchronize(self) -> Any:
        """Waits, at most 100 ms at a time inside the library, and returns the output; again and again the same. An
        output in a GPU may not be there yet: the thread's stream waits for it.

        Of several submissions all are waited for, also when one fails. Raises the first one's exception.
        """
        if not self._done:
            if self._streams is None and self._collect is None and len(self._ids) == 1:
                # As _settle(_await()), of one submission whose output lies where it was given: the usual case.
                code = lib.farandole_wait(self._ids[0], SURFACE_MS)
                if code == STILL_PENDING:
                    code = wait(self._ids[0])
                if not self._done:  # otherwise another thread has released it meanwhile
                    self._error, self._done = None if code == OK else failure(code), True
                    lib.farandole_release(self._ids[0])
                    self._memory = None
            elif self._streams is None:
                self._settle(self._await())
            else:
                with self._streams.waiting():
                    error = self._await()
                    for _ in self._streams.others():
                        self._await()
                    self._settle(error)
        if self._error is not None:
            raise self._error
        return self._output

    def _await(self) -> Optional[BaseException]:
        error = None
        for handle in self._ids:
            code = wait(handle)
            if code != OK and error is None:
                error = failure(code)
        return error

    def _settle(self, error: Optional[BaseException]) -> None:
        with self._collecting:
            if self._done:  # another thread has released them meanwhile
                return
            try:
                if error is None and self._collect is not None:
                    output = self._collect(self._ids)
                    if not self._done:
                        self._output = output
            except BaseException as failed:
                if self._done:  # a signal's handler has collected the output within
                    return
                error = failed
                raise
            finally:
                if not self._done:
                    self._error, self._done = error, True
                    for handle in self._ids:
                        lib.farandole_release(handle)
                    self._memory = self._collect = None

    def __del__(self) -> None:
        if not self._done and self._ids and not forked():
            for handle in self._ids:
                keep(handle, self._memory)
            sweep()


def _require_handle(handle: Any) -> None:
    if not isinstance(handle, Handle):
        raise ValueError(f"a handle that an asynchronous operation has returned is needed, not {handle!r}")


def poll(handle: Handle) -> bool:
    """True when the call is complete, so that synchronize(handle) returns without waiting."""
    _require_handle(handle)
    return handle.poll()


def synchronize(handle: Handle) -> Any:
    """Waits for an asynchronous call and returns its output.

    ValueError: this call was wrong, or ranks disagree about it (the message names two ranks and both values); the job
    goes on. EpochEnded: a worker has died or left. KeyboardInterrupt within a second of Ctrl-C; the handle stays valid.
    """
    if not isinstance(handle, Handle):
        _require_handle(handle)
    return handle.synchronize()
