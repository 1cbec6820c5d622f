"""Real jobs in which something is wrong: the coordinator names the rank or the host, the cause, and the price."""

import json
import os
import pathlib
import signal
import threading
import urllib.request
from typing import Any, Callable, Dict, NamedTuple, Sequence

import pytest
from coordinators import Coordinator
from programs_run import Program

WORKERS = 3
# A judgement comes every 2 s, over half a minute at most; a busy machine starts the jobs one after the other.
VERDICT_SECONDS = 90
# More than is looked at.
WINDOW_SECONDS = 35


class Price(NamedTuple):
    """The price of a fault: seconds that each other rank loses in a minute. Where the machine has other work, steps take
    longer, and the fault's part of them is less."""

    rank: int
    cause: str
    least: float
    most: float


PRICES = {
    # Steps of 10 ms, and 40 ms more on rank 1.
    "busy": Price(1, "slow compute", 12, 49),
    "input": Price(1, "late", 12, 49),
    # 2 s, or one collection more, in each 6 s.
    "garbage": Price(1, "late", 8, 35),
    "validation": Price(0, "late", 8, 30),
    "skip": Price(1, "skipped", 60, 60),
    # 1.4 s in each 3 s.
    "stopped": Price(2, "late", 8, 40),
}
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
    for kind, price in PRICES.items():
        check_the_price(kind, price, show(coordinator, kind))
    check_the_busy_job(show(coordinator, "busy", "?rank=1"))
    balanced = show(coordinator, "balanced")
    check_that_nothing_is_dear(balanced)
    for kind in kinds:
        said = [entry["sentence"] for entry in show(coordinator, kind)["history"]]
        wrong = 0 if kind == "validation" else 2 if kind == "stopped" else 1
        for rank in {0, 1, 2} - ({wrong} if kind != "balanced" else set()):
            told = [line for line in said if line.startswith(f"rank {rank} (") and "was last in" in line]
            assert all(STARVED in line for line in told), (kind, said)


def check_the_price(kind: str, price: Price, job: Dict[str, Any]) -> None:
    """The rank and its price, at the moment of the verdict or later."""
    blockers = [one for one in job["diagnosis"]["blockers"] if one.get("rank") == price.rank]
    assert blockers, (kind, job["diagnosis"])
    blocker = blockers[0]
    assert blocker["cause"] == price.cause, (kind, blocker)
    assert price.least <= blocker["lost_seconds_a_minute"] <= price.most, (kind, blocker)
    # Two of three ranks wait; if the machine has other work, others are late as well, and share the price.
    assert 0.3 * price.least <= blocker["percent"] <= price.most / 60 * 100, (kind, blocker)
    assert blocker["since_unix_ms"] <= job["diagnosis"]["at_unix_ms"], (kind, blocker)


def check_that_nothing_is_dear(job: Dict[str, Any]) -> None:
    """On a machine with more work than cores a rank may get less of them; simulated jobs show none at all."""
    dear = [one for one in job["diagnosis"]["blockers"] if one["percent"] >= 10]
    assert all(STARVED in one["sentence"] for one in dear), dear
    assert job["diagnosis"]["now"]["steps"] > 100, job["diagnosis"]


@pytest.mark.parametrize("seeds", ((1, 2, 3), (4, 5, 6)))
def test_balanced_jobs_raise_no_alarm(
    seeds: Sequence[int], serve: Callable[..., Coordinator], job: Callable[..., Program]
) -> None:
    coordinator = serve()
    names = [f"balanced-{seed}" for seed in seeds]
    runs = [job(WORKERS, "diagnosed", name, options=coordinator.options("--job", name)) for name in names]
    for run in runs:
        run.expect("runs")
    # Judged every two seconds.
    threading.Event().wait(WINDOW_SECONDS)
    for name in names:
        balanced = show(coordinator, name)
        check_that_nothing_is_dear(balanced)
        told = [entry["sentence"] for entry in balanced["history"] if "steps; the others waited" in entry["sentence"]]
        assert all(STARVED in sentence for sentence in told), told


def check_the_busy_job(job: Dict[str, Any]) -> None:
    """The size of it: steps of 10 ms, and 40 ms more on rank 1, which the others wait for."""
    diagnosis = job["diagnosis"]
    blocker = diagnosis["blockers"][0]
    assert (blocker["cause"], blocker["rank"]) == ("slow compute", 1), blocker
    assert job["blocker"] == blocker["sentence"]
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


@pytest.mark.parametrize("section, cause", (("data", "late, as for its input"), ("forward", "slow compute")))
def test_the_section_in_which_a_rank_loses_its_time_is_named(
    section: str, cause: str, serve: Callable[..., Coordinator], job: Callable[..., Program]
) -> None:
    coordinator = serve()
    run = job(WORKERS, "marked_sections", section, options=coordinator.options("--job", section))
    run.expect("runs")
    found = coordinator.program.expect(
        rf"rank 1 \(\S+\) was last in .*: {cause}; its '{section}' section takes (\d+) ms a step, the median (\S+) ms",
        seconds=VERDICT_SECONDS,
    )
    # 60 ms more than the others.
    assert 55 <= float(found.group(1)) - float(found.group(2)) <= 90, found.group(0)
    threading.Event().wait(10)
    shown = show(coordinator, section, "?rank=1")
    assert shown["diagnosis"]["blockers"][0]["section"] == section, shown["diagnosis"]
    sections = {one["name"]: one for one in shown["rank_history"]["sections"]}
    # Those that the optimizer and the loader mark by themselves are among them.
    assert set(sections) == {"data", "forward", "backward", "step"}, sections
    assert list(sections)[0] == section, sections
    assert all(one["seconds_a_step"] > 0 for one in sections.values()), sections
    measured = {worker["rank"]: worker["measured"] for worker in shown["workers"]}[1]
    own_a_step = measured["own_percent"] / 100 * measured["seconds"] / measured["steps"]
    assert 0.7 * own_a_step <= sum(one["seconds_a_step"] for one in sections.values()) <= 1.1 * own_a_step, shown
