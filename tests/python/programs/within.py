"""Calls of a signal handler while its process waits inside of the library, at each moment: rank 0 waits in a call that
rank 1 has not made yet, and a timer's signal comes. One line tells what became of the handler's call and of the outer one.

    farandole run -np 2 python within.py FIFO MOMENT:CALL,...
"""

import os
import signal
import sys
import threading
from typing import Any, Callable, Dict

import farandole.numpy as hvd
import numpy
from farandole import _epochs
from farandole._library import lib

# In place of a call: the handler raises an exception, and the call is made again at once, or when all that the first one
# has asked for is done.
RAISE = "raise"
RAISE_AND_WAIT = "raise_and_wait"


def reduce() -> None:
    hvd.allreduce(numpy.ones(2, "float32"), name="within")


# Rank 0 waits in one of these calls, and a handler makes one.
CALLS: Dict[str, Callable[[], Any]] = {
    "init": hvd.init,
    "shutdown": hvd.shutdown,
    "rejoin": lambda: (_epochs.leave_and_join(), _epochs.enter()),
    "add": lambda: hvd.add_process_set([0]),
    "remove": lambda: hvd.remove_process_set(process_set),
    "arena": lambda: hvd.arena((4,), "float32", "within"),
    "allreduce": reduce,
    "look": lambda: (hvd.is_initialized(), hvd.rank(), hvd.size(), hvd.counters()),
}


def attempt(call: Callable[[], Any]) -> str:
    """The outcome of a call, in a few words."""
    try:
        call()
    except BaseException as error:
        return f"{type(error).__name__}({error})"
    return "ok"


class Interruption:
    """Makes one call within the library's callback, and remembers what became of it."""

    def __init__(self, moment: str, call: str) -> None:
        self.result = ""
        self._moment, self._call = moment, call
        # The peer must not come before an outer call has given up, and must come for the others.
        self.frees_later = moment != "allreduce" and (
            call.startswith(RAISE) or (call == "shutdown" and moment == "init")
        )

    def __call__(self, _number: int, frame: Any) -> None:
        if self._moment != "allreduce" and frame.f_code.co_name != "_interrupted":
            return  # the call has not begun to wait; the timer comes again
        signal.setitimer(signal.ITIMER_REAL, 0)
        if not self.frees_later:
            free_peer()
        if self._call.startswith(RAISE):
            self.result = RAISE
            raise KeyboardInterrupt
        self.result = attempt(CALLS[self._call])


def free_peer() -> None:
    fifo.write("x")
    fifo.flush()


def wait_and_be_interrupted(moment: str, call: str) -> None:
    """Rank 0's part."""
    handler = Interruption(moment, call)
    signal.signal(signal.SIGALRM, handler)
    signal.setitimer(signal.ITIMER_REAL, 0.2, 0.05)
    outer = attempt(CALLS[moment])
    signal.setitimer(signal.ITIMER_REAL, 0)
    if handler.frees_later:
        free_peer()
    while call == RAISE_AND_WAIT and lib.farandole_group_size(process_set.process_set_id) >= 0:
        threading.Event().wait(0.01)
    if outer != "ok" and (moment == "init" or (call.startswith(RAISE) and moment in ("add", "remove"))):
        outer += f", then {attempt(CALLS[moment])}"
    print(f"{moment}:{call} inner {handler.result}; outer {outer}", flush=True)


is_first = os.environ["FARANDOLE_LAUNCH_INDEX"] == "0"
fifo = open(sys.argv[1], "w" if is_first else "r", encoding="ascii")
for case in sys.argv[2].split(","):
    moment, call = case.split(":")
    if moment != "init":
        hvd.init()
        process_set = hvd.add_process_set([1])
    if is_first:
        wait_and_be_interrupted(moment, call)
    else:
        fifo.read(1)
        attempt(CALLS[moment])  # its peer may have left, or come back
    if moment != "rejoin":
        attempt(hvd.shutdown)
