"""Real jobs in which something is wrong: the coordinator names the rank or the host, the cause, and the price."""

import json
import os
import pathlib
import signal
import threading
import urllib.request
from typing import Any, Callable, Dict

import pytest
from coordinators import Coordinator
from programs_run import Program

WORKERS = 3
# A judgement comes every 2 s, over half a minute at most; a busy machine starts the jobs one after the other.
VERDICT_SECONDS = 90
# It may be true of any rank where the machine has other work.
STARVED = "(stopped, or without a CPU)"


def show(coordinator: Coordinator, job: str, query: str = "") -> Dict[str, Any]:
    """The job, as /api/v1 has it."""
    token = pathlib.Path(coordinator.token_file).read_text(encoding="utf-8").strip()
    request = urllib.request.Request(
        f"http://{coordinator.http}/api/v1/jobs/{job}{query}", headers={"Authorization": f"Bearer {token}"}
    )
    with urllib.request.urlopen(request, timeout=30) as response:
        return json.load(response)


def pid_of(coordinator: Coordinator, job: str, rank: int) -> int:
    """Of a job's worker."""
    return {worker["rank"]: worker["pid"] for worker in show(coordinator, job)["workers"]}[rank]


def stop_now_and_then(pid: int, over: threading.Event) -> None:
    """Stops a process for 1.4 s, which is less than the silence limit, every 3 s."""
    while not over.wait(1.6):
        os.kill(pid, signal.SIGSTOP)
        over.wait(1.4)
        os.kill(pid, signal.SIGCONT)


def test_each_cause_is_named_with_its_rank_and_nothing_else(
    serve: Callable[..., Coordinator], job: Callable[..., Program]
) -> None:
    coordinator = serve()
    kinds = ("busy", "input", "garbage", "validation", "skip", "stopped", "balanced")
    runs = {}
    for kind in kinds:
        runs[kind] = job(WORKERS, "diagnosed", kind, options=coordinator.options("--job", kind))
    for run in runs.values():
        run.expect("runs")
    over = threading.Event()
    stopped = pid_of(coordinator, "stopped", 2)
    stopper = threading.Thread(target=stop_now_and_then, args=(stopped, over))
    stopper.start()
    try:
        for line in (
            r"default/busy: rank 1 \(\S+\) was last in \d+ of the last \d+ steps; .*: slow compute",
            r"default/input: rank 1 \(\S+\) was last in \d+ of the last \d+ steps; .*CPU idle .*: late",
            r"default/garbage: rank 1 \(\S+\) .*: late, as for garbage collection",
            r"default/validation: rank 0 \(\S+\) .*: late, as for a validation",
            r"default/skip: rank 1 \(\S+\) waits in 'gradient' .*2 others wait in 'loss': skipped",
            r"default/stopped: rank 2 \(\S+\) .*its process stood still for up to",
        ):
            coordinator.program.expect(line, seconds=VERDICT_SECONDS)
    finally:
        over.set()
        stopper.join()
    check_the_busy_job(show(coordinator, "busy", "?rank=1"))
    balanced = show(coordinator, "balanced")
    # On a machine with more work than cores a rank may get less of them; simulated jobs show none at all.
    dear = [one for one in balanced["diagnosis"]["blockers"] if one["percent"] >= 10]
    assert all(STARVED in one["sentence"] for one in dear), dear
    assert balanced["diagnosis"]["now"]["steps"] > 100, balanced["diagnosis"]
    for kind in kinds:
        said = [entry["sentence"] for entry in show(coordinator, kind)["history"]]
        wrong = 0 if kind == "validation" else 2 if kind == "stopped" else 1
        for rank in {0, 1, 2} - ({wrong} if kind != "balanced" else set()):
            told = [line for line in said if line.startswith(f"rank {rank} (") and "was last in" in line]
            assert all(STARVED in line for line in told), (kind, said)


def check_the_busy_job(job: Dict[str, Any]) -> None:
    """The size of it: steps of 10 ms, and 40 ms more on rank 1, which the others wait for."""
    diagnosis = job["diagnosis"]
    blocker = diagnosis["blockers"][0]
    assert (blocker["cause"], blocker["rank"]) == ("slow compute", 1), blocker
    assert job["blocker"] == blocker["sentence"]
    # 80 % of a minute, on a machine that has nothing else to do: on others all that ranks do takes longer.
    assert 8 <= blocker["lost_seconds_a_minute"] <= 58, blocker
    assert 5 <= blocker["percent"] <= 65, blocker
    assert blocker["own_ratio"] >= 1.2, blocker
    assert blocker["last_steps"] >= 0.7 * blocker["steps"], blocker
    assert diagnosis["worst"]["rank"] == 1, diagnosis
    measured = {worker["rank"]: worker["measured"] for worker in job["workers"]}
    assert measured[1]["own_percent"] > measured[0]["own_percent"] + 10, measured
    assert measured[0]["waited_percent"] > measured[1]["waited_percent"] + 10, measured
    assert measured[1]["cpu_percent"] > 40, measured
    for shares in measured.values():
        total = shares["own_percent"] + shares["waited_percent"] + shares["transfer_percent"]
        assert total == pytest.approx(100, abs=1), measured
    history = job["rank_history"]
    assert len(history["at_unix_ms"]) == len(history["waited"]) == len(history["steps"]), history


def test_a_run_ends_with_where_its_time_went(job: Callable[..., Program]) -> None:
    run = job(2, "diagnosed", "busy", 200, options=("--job", "summed"))
    run.require_end(0)
    lines = run.output.strip().splitlines()[-3:]
    assert "steps: " in lines[0] and "% waiting for ranks" in lines[0], lines
    assert "rank 1 (" in lines[1] and "the others waited" in lines[1], lines
    assert "farandole job show summed" in lines[2] and "docs/diagnosis.md" in lines[2], lines
