"""Signal handlers, hooks and finalizers that call the library while it waits: each call returns, and says what it must."""

import os
import pathlib
import subprocess
import sys
from typing import Any, Callable, Dict, List

import harness
import pytest

PROGRAM = pathlib.Path(__file__).resolve().parent / "programs" / "within.py"
# A case takes half a second.
SECONDS = 90

REFUSED = "NotReady({} was called within {}, by a signal handler or other code that runs while that waits; call it when that has returned)"
NAMES = {
    "init": "init()",
    "shutdown": "shutdown()",
    "rejoin": "the join of the job's next epoch",
    "add": "add_process_set()",
    "remove": "remove_process_set()",
    "arena": "the making of an arena",
}
NO_WORKER = "NotReady(farandole is not initialized; call init() first (in C: farandole_init))"
STOPPED = "NotReady(shutdown() was called meanwhile)"
INTERRUPTED = "KeyboardInterrupt()"


def refused(call: str, moment: str) -> str:
    return REFUSED.format(NAMES[call], NAMES[moment])


def expected(moment: str, call: str) -> str:
    """The line for a case."""
    inner, outer = "ok", "ok"
    waits = call in NAMES and call != "shutdown"
    if call.startswith("raise"):
        inner, outer = "raise", INTERRUPTED
    elif call == "shutdown":
        if moment in ("init", "rejoin"):
            outer = STOPPED
        elif moment in ("add", "remove", "arena"):
            outer = f"NotReady({NAMES[moment]} has ended: shutdown() was called meanwhile)"
        elif moment == "allreduce":
            outer = NO_WORKER
    elif waits and not (call == "init" and moment not in ("init", "shutdown")):
        inner = refused(call, moment)
    elif moment == "init":
        inner = NO_WORKER
    if outer != "ok" and (moment == "init" or (call.startswith("raise") and moment in ("add", "remove"))):
        outer += ", then ok"
    return f"{moment}:{call} inner {inner}; outer {outer}"


CASES: Dict[str, str] = {
    "init": "init add arena rejoin allreduce look raise shutdown",
    "shutdown": "init add remove arena rejoin look shutdown raise",
    "add": "init add remove arena rejoin look raise shutdown",
    "remove": "add remove raise raise_and_wait shutdown",
    "arena": "add arena raise shutdown",
    "allreduce": "init look raise shutdown",
}


def run(cases: str, tmp_path: pathlib.Path, *options: str) -> "subprocess.CompletedProcess[str]":
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    launch = [str(harness.CLI), "run", "-np", "2", *options, "--state-dir", str(tmp_path / "state")]
    process = subprocess.Popen(
        [*launch, sys.executable, str(PROGRAM), str(fifo), cases],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        cwd=harness.ROOT,
    )
    try:
        output, _ = process.communicate(timeout=SECONDS)
    except subprocess.TimeoutExpired:
        process.terminate()  # the launcher ends its workers
        output, _ = process.communicate()
        raise AssertionError(f"a call hangs; before it:\n{output}") from None
    return subprocess.CompletedProcess(launch, process.returncode, output)


def check(moment: str, calls: List[str], result: "subprocess.CompletedProcess[str]") -> None:
    told = [line[4:] for line in result.stdout.splitlines() if line.startswith(f"[0] {moment}:")]
    assert told == [expected(moment, call) for call in calls], result.stdout
    assert result.returncode == 0, result.stdout


@pytest.mark.parametrize("moment", CASES)
def test_what_a_signal_handler_calls_within_a_call_returns(moment: str, tmp_path: pathlib.Path) -> None:
    calls = CASES[moment].split()
    result = run(",".join(f"{moment}:{call}" for call in calls), tmp_path)
    check(moment, calls, result)


def test_what_a_signal_handler_calls_within_the_join_of_the_next_epoch_returns(tmp_path: pathlib.Path) -> None:
    calls = "init add arena rejoin look".split()
    check("rejoin", calls, run(",".join(f"rejoin:{call}" for call in calls), tmp_path, "--min-np", "1"))


@pytest.mark.parametrize("call", ("raise", "shutdown"))
def test_a_handler_ends_the_join_of_the_next_epoch(call: str, tmp_path: pathlib.Path) -> None:
    result = run(f"rejoin:{call}", tmp_path, "--min-np", "1")
    assert f"[0] rejoin:{call} inner {'raise' if call == 'raise' else 'ok'}; outer " in result.stdout, result.stdout
    outer = INTERRUPTED if call == "raise" else STOPPED
    assert f"outer {outer}" in result.stdout, result.stdout


def test_collectives_of_a_signal_handler_leave_the_outer_one_its_own(tmp_path: pathlib.Path) -> None:
    program = PROGRAM.with_name("submit_within.py")
    result = harness.run(harness.Setup(2), tmp_path / "state", sys.executable, str(program))
    assert result.returncode == 0 and "reducescatter with raise after 0.15" in result.stdout, result.stdout


HOOKS = """
import atexit, sys

def told(call):
    try:
        return call()
    except Exception as error:
        return type(error).__name__

def at_exit():
    calls = (lambda: hvd.allreduce(numpy.ones(1)), hvd.rank, hvd.shutdown, hvd.is_initialized)
    print("after shutdown:", *[told(call) for call in calls], flush=True)

atexit.register(at_exit)  # runs after the library's own
import numpy
import farandole.numpy as hvd

class Finalized:
    def __del__(self):
        print("finalizer:", told(hvd.shutdown), told(hvd.rank), told(hvd.init), told(hvd.rank), flush=True)

def hook(*_):
    print("hook:", told(hvd.rank), told(hvd.shutdown), told(hvd.init), flush=True)

hvd.init()
Finalized()
atexit.register(lambda: print("at exit:", told(lambda: hvd.add_process_set([7])), told(hvd.rank), flush=True))
sys.excepthook = hook
raise ValueError
"""


def test_hooks_finalizers_and_functions_at_exit_may_call_anything(job: Callable[..., Any]) -> None:
    result = job(1, HOOKS)
    assert [line[4:] for line in result.stdout.splitlines() if line.startswith("[0] ")] == [
        "finalizer: None NotReady None 0",
        "hook: 0 None None",
        "at exit: InvalidRequest 0",
        "after shutdown: NotReady NotReady None False",
    ], result.stdout
