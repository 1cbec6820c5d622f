"""Lets `farandole diagnose` read the stacks of this program's threads, without a signal and without stopping them.

The library calls read() on a thread of its own, which takes the interpreter's lock as any thread of Python does. Where a
thread keeps that lock in a function of C, the library calls the C handler that faulthandler has installed for a
real-time signal, which writes the stacks without the lock. Nobody sends the signal.
"""

import atexit
import ctypes
import faulthandler
import os
import signal
import sys
import threading
from typing import List, Optional, Tuple

from ._library import OK, failure, ffi, lib

_MOST_FRAMES = 100

_read: Optional[object] = None


def describe() -> str:
    """All threads' stacks but this one's, in faulthandler's form, with the threads' names and numbers in the kernel."""
    known = {thread.ident: thread for thread in threading.enumerate()}
    lines: List[str] = []
    for ident, innermost in sys._current_frames().items():
        if ident == threading.get_ident():
            continue
        thread = known.get(ident)
        name = f" [{thread.name}]" if thread else ""
        number = f" tid={thread.native_id}" if thread and thread.native_id else ""
        lines.append(f"Thread 0x{ident:016x}{name}{number} (most recent call first):")
        frame = innermost
        for _ in range(_MOST_FRAMES):
            code = frame.f_code
            function = getattr(code, "co_qualname", code.co_name)
            lines.append(f'  File "{code.co_filename}", line {frame.f_lineno} in {function}')
            if frame.f_back is None:
                break
            frame = frame.f_back
        lines.append("")
    return "\n".join(lines)


@ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.c_int64)
def _write(text: int, most: int) -> int:
    written = describe().encode("utf-8", "replace")[:most]
    ctypes.memmove(text, written, len(written))
    return len(written)


def _without_lock() -> Tuple[int, int]:
    """A signal whose handler is faulthandler's, and the file in memory that it writes to; (0, -1): there is none."""
    for number in range(signal.SIGRTMAX - 4, signal.SIGRTMIN, -1):
        if signal.getsignal(number) is not signal.SIG_DFL:
            continue
        try:
            descriptor = os.memfd_create("farandole-stacks")
            faulthandler.register(number, file=descriptor, all_threads=True, chain=False)
        except (AttributeError, OSError, RuntimeError, ValueError):
            break
        return number, descriptor
    return 0, -1


def register() -> None:
    """Tells the library how to read this program's stacks. Once; later calls do nothing."""
    global _read
    if _read is not None:
        return
    _read = _write
    number, descriptor = _without_lock()
    address = ctypes.cast(_write, ctypes.c_void_p).value
    main = threading.main_thread().ident or 0
    code = lib.farandole_set_stack_source(ffi.cast("farandole_stack_reader", address), number, descriptor, main)
    if code != OK:
        raise failure(code)
    # The interpreter must not be called when it is gone.
    atexit.register(lib.farandole_set_stack_source, ffi.NULL, 0, -1, 0)
