"""The worker library as Python sees it: `lib` has the functions of worker/farandole.h, `ffi` makes their arguments.

Loaded on import, once a process. Calls release the interpreter's lock. In a forked child every call fails: a child is
no worker.
"""

import ctypes
import os
import sys
import threading
from typing import Any, Callable, Dict, Optional, Type

from . import _options, exceptions

_REMEDY = "install the wheel again, or run `make install` in the checkout"

try:
    from ._native import ffi, lib
except ImportError as error:
    raise ImportError(
        f"farandole is not built: farandole/_native.abi3.so is missing or cannot be loaded ({error}); {_REMEDY}"
    ) from None

__all__ = ["check", "failure", "ffi", "forked", "interruptible", "lib"]

# How long one wait inside the library lasts before Python looks for signals, in milliseconds.
SURFACE_MS = 100

OK = 0
STILL_PENDING = 1


def _load() -> None:
    path = _options.library_path()
    if not os.path.exists(path):
        raise ImportError(f"farandole is not built: there is no worker library at {path}; {_REMEDY}")
    reason = lib.farandole_native_load(path.encode(), _options.deepbind())
    if reason != ffi.NULL:
        raise ImportError(f"the worker library {path} cannot be loaded: {ffi.string(reason).decode()}")
    found = lib.farandole_abi_version()
    if found != lib.FARANDOLE_ABI_VERSION:
        raise ImportError(
            f"the worker library {path} has ABI version {found}, but this package was built for "
            f"{lib.FARANDOLE_ABI_VERSION}; {_REMEDY}"
        )


_load()

EXCEPTIONS: Dict[int, Type[Exception]] = {
    lib.FARANDOLE_CANCELLED: exceptions.Dismissed,
    lib.FARANDOLE_INVALID_ARGUMENT: exceptions.InvalidRequest,
    lib.FARANDOLE_DEADLINE_EXCEEDED: exceptions.StallError,
    lib.FARANDOLE_NOT_FOUND: LookupError,
    lib.FARANDOLE_ALREADY_EXISTS: FileExistsError,
    lib.FARANDOLE_PERMISSION_DENIED: PermissionError,
    lib.FARANDOLE_RESOURCE_EXHAUSTED: exceptions.QuotaError,
    lib.FARANDOLE_FAILED_PRECONDITION: exceptions.NotReady,
    lib.FARANDOLE_ABORTED: exceptions.EpochEnded,
    lib.FARANDOLE_UNIMPLEMENTED: NotImplementedError,
    lib.FARANDOLE_INTERNAL: exceptions.InternalError,
    lib.FARANDOLE_UNAVAILABLE: ConnectionError,
    lib.FARANDOLE_DATA_LOSS: exceptions.CheckpointError,
    lib.FARANDOLE_UNAUTHENTICATED: PermissionError,
}

_NOT_INITIALIZED = "farandole is not initialized"

NOT_DIRECT = -1


def direct(name: str) -> Callable[..., Any]:
    """A function of direct_calls.c: (inputs, outputs, types, name, op, prescale, postscale, group, pending) -> code.

    `types` has the numbers of the element types, `name` is encoded or None. The code is the library's, or NOT_DIRECT if
    the library cannot read an array as it is, and nothing was submitted. An asynchronous one adds the library's handle
    to the list `pending`, and gives 0, or the library's error (negative); None stands for NOT_DIRECT. An exception: a
    signal's handler raised it, and `pending` has the handle of what was submitted and goes on; or an argument has no
    C form.
    """
    make: Any = ctypes.pythonapi.PyCFunction_NewEx
    make.restype, make.argtypes = ctypes.py_object, [ctypes.c_void_p] * 3
    return make(lib.farandole_native_direct(name.encode()), None, None)


_forked = False


def _mark_forked() -> None:
    global _forked
    _forked = True


os.register_at_fork(after_in_child=_mark_forked)


def forked() -> bool:
    """True in a child that was forked from a process that had loaded the library."""
    return _forked


def failure(code: int) -> Exception:
    """The exception for an error code (> 0) that this thread's last call returned."""
    if _forked:
        return exceptions.NotReady(
            "this process was forked from a worker and is none itself: call farandole only in the "
            "process that called init()"
        )
    message = ffi.string(lib.farandole_last_error()).decode(errors="replace")
    if message.startswith(_NOT_INITIALIZED) and "horovod" in sys.modules:
        message = "Horovod has not been initialized; use hvd.init()."  # libraries compare the whole sentence
    return EXCEPTIONS.get(code, exceptions.InternalError)(message or f"the worker library failed with code {code}")


def check(result: int) -> int:
    """The result of a call that returns a value >= 0 or minus a code. Raises its exception."""
    if result < 0:
        raise failure(-result)
    return result


class _Call(threading.local):
    """The thread's innermost call of interruptible()."""

    raised: Optional[BaseException] = None
    """By a signal handler that ran within it."""


_call = _Call()


def _stash(_kind: object, exception: BaseException, _traceback: object) -> int:
    _call.raised = exception
    return 1


@ffi.def_extern(name="farandole_native_interrupted", error=1, onerror=_stash)
def _interrupted() -> int:
    # Entering Python runs the handlers of pending signals; their exceptions go to _stash. Asked again, the answer
    # stays.
    return int(_call.raised is not None)


def interruptible(function: Callable[..., int], *arguments: Any) -> None:
    """Calls one of the library's blocking functions (the code is its result, `interrupted` its last argument).

    Raises the exception of a signal handler that ran meanwhile (KeyboardInterrupt), or that of the call's code. A
    handler may make such calls too.
    """
    outer, _call.raised = _call.raised, None
    try:
        code = function(*arguments, lib.farandole_native_interrupted)
        raised = _call.raised
    finally:
        _call.raised = outer
    if raised is not None:
        raise raised
    if code != OK:
        raise failure(code)
