"""Which tensors cost a job time, of real jobs: the command names the tensor, the rank that comes late to it, and a
bandwidth that the program's own clock confirms."""

import json
import os
import pathlib
import re
import signal
import subprocess
import threading
import time
import urllib.error
from typing import Any, Callable, Dict

import harness
import pytest
from coordinators import Coordinator
from programs_run import SOON_SECONDS, START_SECONDS, Program
from test_diagnosis import pid_of, show

WORKERS = 3
LATE_MS = 20
LARGE_BYTES = 4 << 20


def collectives(coordinator: Coordinator, job: str, *options: str) -> str:
    """The output of `farandole collectives`."""
    command = [str(harness.CLI), "collectives", *coordinator.options(job, *options)]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


def survey(coordinator: Coordinator, job: str) -> Dict[str, Any]:
    """The same over HTTP."""
    return show(coordinator, job, "/collectives")


def costs_of(found: Dict[str, Any]) -> Dict[str, Any]:
    """The tensors, by name."""
    return {one["name"]: one for one in found["collectives"]}


def await_steps(coordinator: Coordinator, job: str, steps: int) -> Dict[str, Any]:
    """The answer from when each tensor has been reduced so often."""
    until = time.monotonic() + START_SECONDS
    while True:
        found = survey(coordinator, job)
        if all(costs_of(found).get(name, {"count": 0})["count"] >= steps for name in ("late", "large", "small")):
            return found
        assert time.monotonic() < until, found
        threading.Event().wait(1)


def test_the_late_tensor_is_named_with_its_rank_and_the_large_one_with_its_bandwidth(
    serve: Callable[..., Coordinator], job: Callable[..., Program], tmp_path: pathlib.Path
) -> None:
    coordinator = serve()
    run = job(WORKERS, "tensors", tmp_path, options=coordinator.options("--job", "net"))
    run.expect("steps", START_SECONDS)
    found = await_steps(coordinator, "net", 50)
    assert (found["state"], found["size"], found["answered"], found["silent"]) == ("asked", WORKERS, WORKERS, []), found
    late, large, small = (costs_of(found)[name] for name in ("late", "large", "small"))
    # Two of three ranks wait for the third, which does not wait.
    assert late["mean_wait_ms"] > 0.5 * LATE_MS, late
    assert late["wait_percent"] > 50 and late["wait_percent"] > 2 * small["wait_percent"], (late, small)
    assert late["last"][0]["rank"] == WORKERS - 1, late
    assert late["compared"] >= 20 and late["last"][0]["times"] > 0.8 * late["compared"], late
    assert late["least_wait_rank"] == WORKERS - 1 and late["least_wait_ms"] < 0.5 * late["mean_wait_ms"], late
    assert late["bus_bytes_per_second"] == 0, "its data travels with the ranks' readiness"
    assert (large["op"], large["bytes"], late["bytes"]) == ("allreduce", LARGE_BYTES, 4), large
    assert abs(large["bus_bytes_per_second"] / large["algorithm_bytes_per_second"] - 4 / 3) < 1e-6, large

    told = collectives(coordinator, "net")
    assert re.search(rf"rank {WORKERS - 1}, \d+ of \d+ +allreduce +late\n", told), told
    by_size = collectives(coordinator, "net", "--order", "size").splitlines()
    assert next(line for line in by_size if "allreduce" in line).endswith("large"), by_size
    answer = json.loads(collectives(coordinator, "net", "--json"))
    assert {one["name"] for one in answer["costs"]} == {"late", "large", "small"}, answer

    (tmp_path / "stop").touch()
    took_us = float(run.expect(r"large took (\d+) us", SOON_SECONDS).group(1))
    run.require_end(0)
    # The call is the wait and the transfer.
    rate = LARGE_BYTES / (took_us / 1e6)
    assert 0.5 * rate < large["algorithm_bytes_per_second"] < 20 * rate, (large, took_us)
    # The last answer stays.
    kept = survey(coordinator, "net")
    assert kept["state"] == "kept" and set(costs_of(kept)) == {"late", "large", "small"}, kept
    assert ", last 2" in collectives(coordinator, "net")


def test_what_is_not_known_is_said(
    serve: Callable[..., Coordinator], job: Callable[..., Program], tmp_path: pathlib.Path
) -> None:
    """A rank that is stopped; a job that nobody has looked at, and one that there is not."""
    coordinator = serve(FARANDOLE_SILENCE_LIMIT_MS="20000")
    run = job(WORKERS, "tensors", tmp_path, options=coordinator.options("--job", "net"))
    run.expect("steps", START_SECONDS)
    stopped = pid_of(coordinator, "net", 1)
    os.kill(stopped, signal.SIGSTOP)
    told = collectives(coordinator, "net")
    assert "2 of 3 ranks have answered" in told, told
    assert "rank 1: it did not answer within 4 s: its process is stopped, or cut off" in told, told
    os.kill(stopped, signal.SIGCONT)
    (tmp_path / "stop").touch()
    run.require_end(0)
    # It is over before anybody looks.
    brief = job(1, "tensors", tmp_path, options=coordinator.options("--job", "brief"))
    brief.require_end(0)
    found = survey(coordinator, "brief")
    assert found["state"] == "none" and found["why"].startswith("no epoch of job brief runs, and "), found
    with pytest.raises(urllib.error.HTTPError, match="404"):
        survey(coordinator, "nothing")


def test_of_a_job_that_fails_what_its_launcher_reads_is_shown(
    serve: Callable[..., Coordinator], job: Callable[..., Program]
) -> None:
    coordinator = serve()
    run = job(WORKERS, "stuck", "sleep", options=coordinator.options("--job", "dead"))
    run.expect("stuck", START_SECONDS)
    os.kill(pid_of(coordinator, "dead", 2), signal.SIGKILL)
    assert run.end() != 0
    found = survey(coordinator, "dead")
    assert (found["state"], found["asked_unix_ms"], found["answered"]) == ("kept", 0, WORKERS), found
    assert set(costs_of(found)) == {"grad.17", "grad.18"}, found
    assert "as their launchers read it when they ended" in collectives(coordinator, "dead")
