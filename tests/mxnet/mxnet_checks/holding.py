"""An operation of MXNet's engine that waits until it is told to end, so that others wait for it, or for its thread."""

import contextlib
import ctypes
import threading
from typing import Any, Iterator, List, Sequence

import mxnet as mx
from mxnet.base import _LIB, check_call

_FUNCTION = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)
# mxnet::FnProperty: the threads that run operators, and those that run operations by their priority.
NORMAL, PRIORITIZED = 0, 3


class _Context(ctypes.Structure):
    """mxnet::Context."""

    _fields_ = [("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32)]


# The engine may still be within one when its caller goes on.
_functions: List[Any] = []


@contextlib.contextmanager
def held(written: Sequence[mx.nd.NDArray] = (), threads: int = NORMAL) -> Iterator[None]:
    """Within it one of these threads is at work, and `written` are not there."""
    begun, ended = threading.Event(), threading.Event()

    def wait(_run_context: Any, _parameter: Any) -> None:
        begun.set()
        ended.wait()

    _functions.append(_FUNCTION(wait))
    handles = (ctypes.c_void_p * len(written))(*[array.handle for array in written])
    terms = (ctypes.byref(_Context(1, 0)), None, 0, handles, len(written), ctypes.byref(ctypes.c_int(threads)), 0)
    check_call(_LIB.MXEnginePushSyncND(_functions[-1], None, None, *terms, b"Held"))
    begun.wait()
    try:
        yield
    finally:
        ended.set()
