"""Processes that tests and benchmarks start: they are found by a mark in their environment, and end with their parent."""

import contextlib
import ctypes
import os
import pathlib
import select
import signal
from typing import List

_PR_SET_PDEATHSIG = 1


def marked(name: str, value: str) -> List[int]:
    """Processes that have this variable in their environment, as descendants inherit it, in every session and under
    every parent. Zombies have no environment any more."""
    found = []
    for directory in pathlib.Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # ended meanwhile
            if f"{name}={value}".encode() in (directory / "environ").read_bytes().split(b"\0"):
                found.append(int(directory.name))
    return found


def kill_marked(name: str, value: str, seconds: float) -> None:
    """Kills all of them; returns when none is left. Looks again as soon as one has ended, or the time is over."""
    while left := marked(name, value):
        for pid in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        wait_for_end(left[0], seconds)


def wait_for_end(pid: int, seconds: float) -> None:
    """Returns when a process of any parent has ended, or the time is over."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        poll = select.poll()
        poll.register(descriptor, select.POLLIN)
        poll.poll(seconds * 1000)
    finally:
        os.close(descriptor)


def die_with_parent() -> None:
    """Called in a child before it runs its program: it gets SIGTERM when the thread that started it ends."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
