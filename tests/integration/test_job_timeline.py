"""Timelines of whole jobs, by command: all ranks in one file, also of two hosts whose clocks differ, and of a killed rank."""

import json
import os
import pathlib
import re
import signal
import statistics
import subprocess
import sys
from typing import Any, Callable, Dict, List

import harness
import pytest
from coordinators import Coordinator
from elastic_jobs import ElasticJob
from hosts import Namespaces
from programs_run import START_SECONDS, Program
from test_diagnosis import show

PROGRAMS = pathlib.Path(__file__).parent / "programs"


def timeline(coordinator: Coordinator, verb: str, job: str, *more: str) -> str:
    """The output of `farandole timeline VERB JOB`."""
    command = [str(harness.CLI), "timeline", verb, job, *coordinator.options(*more)]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert ran.returncode == 0, (command, ran.stdout, ran.stderr)
    return ran.stdout + ran.stderr


def spans(path: pathlib.Path) -> Dict[int, List[Any]]:
    """The events of each rank that last, in their order."""
    found: Dict[int, List[Any]] = {}
    for event in json.loads(path.read_text(encoding="utf-8"))["traceEvents"]:
        if event["ph"] == "X":
            found.setdefault(event["pid"], []).append(event)
    for events in found.values():
        events.sort(key=lambda event: event["ts"])
    return found


def test_a_running_jobs_ranks_come_into_one_file(
    serve: Callable[..., Coordinator], job: Callable[..., Program], tmp_path: pathlib.Path
) -> None:
    coordinator = serve()
    run = job(3, "stepping", tmp_path, options=coordinator.options("--job", "steps"))
    run.expect("process", START_SECONDS)
    assert "timeline 1 of job steps begins" in timeline(coordinator, "start", "steps", "--mark-cycles")
    (tmp_path / "new").touch()
    file = tmp_path / "all.json"
    # While it records, and after it has ended.
    for _ in range(START_SECONDS):
        told = timeline(coordinator, "get", "steps", "-o", str(file))
        if len(spans(file)) == 3:
            break
    assert "which goes on" in told and "of 3 ranks on 1 host" in told, told
    assert "timeline 1 of job steps has ended;" in timeline(coordinator, "stop", "steps")
    told = timeline(coordinator, "get", "steps", "-o", str(file))
    found = spans(file)
    assert set(found) == {0, 1, 2}, told
    for events in found.values():
        assert {"NEGOTIATE_ALLREDUCE", "ALLREDUCE"} <= {event["name"] for event in events}
    names = {
        event["args"]["name"]
        for event in json.loads(file.read_text())["traceEvents"]
        if event["ph"] == "M" and event["name"] == "thread_name"
    }
    assert "allreduce.known" in names, names
    history = [entry["sentence"] for entry in show(coordinator, "steps")["history"]]
    assert "an operator started timeline 1" in history and "an operator stopped timeline 1" in history, history
    (tmp_path / "stop").touch()
    run.require_end(0)
    # It can be read for an hour, and is not changed by the end.
    timeline(coordinator, "get", "steps", "-o", str(tmp_path / "later.json"))
    assert (tmp_path / "later.json").read_bytes() == file.read_bytes()


def test_a_killed_ranks_last_moments_are_in_it_and_the_next_epoch_too(
    serve: Callable[..., Coordinator], start: Callable[..., Program], tmp_path: pathlib.Path
) -> None:
    coordinator = serve()
    job = ElasticJob(start, coordinator, "elastic_logs", tmp_path, sizes=(1, 3, 3))
    job.expect_steps(3, 0, 1, 2)
    timeline(coordinator, "start", "elastic")
    job.expect_steps(3, 0, 1, 2)
    job.workers[2].signal(signal.SIGKILL)
    job.expect_steps(2, 0, 1)
    timeline(coordinator, "stop", "elastic")
    timeline(coordinator, "get", "elastic", "-o", str(tmp_path / "all.json"))
    found = spans(tmp_path / "all.json")
    ended = {
        rank: [event["ts"] + event["dur"] for event in events if "error" not in event["args"]]
        for rank, events in found.items()
    }
    # Rank 0 saw the loss within the next step: that is the gap in its own events which is followed by the new epoch.
    gaps = [(after - before, before) for before, after in zip(ended[0], ended[0][1:])]
    last_of_epoch = max(gaps)[1]
    # 0.1 s, and what a busy machine adds.
    assert last_of_epoch - max(ended[2]) < 500_000, (last_of_epoch, max(ended[2]))
    (tmp_path / "stop").touch()
    job.require_end(0, 0, 1)


def ends_of_new_tensors(path: pathlib.Path) -> List[Dict[int, float]]:
    """Of each tensor that was reduced once, when that ended on each rank, in microseconds."""
    events = json.loads(path.read_text(encoding="utf-8"))["traceEvents"]
    rows = {(e["pid"], e["tid"]): e["args"]["name"] for e in events if e["name"] == "thread_name"}
    ends: Dict[str, Dict[int, float]] = {}
    for event in events:
        name = rows.get((event["pid"], event.get("tid")), "")
        if event["name"] == "ALLREDUCE" and name.startswith("allreduce.new at"):
            ends.setdefault(name, {})[event["pid"]] = event["ts"] + event["dur"]
    return list(ends.values())


def test_two_hosts_with_different_clocks_stand_in_one_time(
    start: Callable[..., Program], two_hosts: Namespaces, tmp_path: pathlib.Path
) -> None:
    if os.geteuid() != 0:
        pytest.skip("time namespaces need root")
    program = [sys.executable, str(PROGRAMS / "other_clock.py"), str(PROGRAMS / "stepping.py"), str(tmp_path)]
    run = start(str(harness.CLI), "run", "--job", "clocks", *two_hosts.options(1, 1), *program)
    run.expect("step 50", START_SECONDS)
    environment = {**os.environ, "XDG_STATE_HOME": str(run.directory / "state"), "HOME": str(run.directory)}

    def ask(*arguments: str) -> str:
        command = [str(harness.CLI), "timeline", *arguments]
        ran = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)
        assert ran.returncode == 0, ran.stderr
        return ran.stdout + ran.stderr

    ask("start", "clocks")
    for count in range(1, 6):
        (tmp_path / "new").touch()
        run.expect("(?s)" + "a new tensor at step.*" * 2 * count, START_SECONDS)
    ask("stop", "clocks")
    told = ask("get", "clocks", "-o", str(tmp_path / "all.json"))
    found = re.search(r"are at most (\S+) ms wrong", told)
    assert found and "of 2 ranks on 2 hosts" in told, told
    error = float(found.group(1))
    # A busy machine takes long to answer; 5,000 s are between the two clocks.
    assert 0 < error < 200, told
    ends = ends_of_new_tensors(tmp_path / "all.json")
    assert ends and all(set(one) == {0, 1} for one in ends), ends
    # An allreduce ends on both ranks at nearly the same time.
    apart = [abs(one[0] - one[1]) / 1000 for one in ends]
    print(f"clocks known within {error} ms; allreduces end {statistics.median(apart):.3f} ms apart")
    assert min(apart) < error + 20, (error, apart)
    (tmp_path / "stop").touch()
    run.require_end(0)


def test_what_cannot_be_recorded_is_refused_in_a_sentence(serve: Callable[..., Coordinator]) -> None:
    coordinator = serve()
    for verb in ("start", "stop", "get"):
        command = [str(harness.CLI), "timeline", verb, "nothing", *coordinator.options()]
        ran = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        assert ran.returncode != 0 and "nothing" in ran.stderr, ran.stderr
