"""Real jobs in which something is wrong: the coordinator names the rank or the host, the cause, and the price."""

import json
import os
import pathlib
import signal
import threading
import time
import urllib.request
from typing import Any, Callable, Dict, Iterable, List, NamedTuple, Sequence

import pytest
from coordinators import Coordinator
from elastic_jobs import ElasticJob
from programs_run import Program

WORKERS = 3
# A judgement comes every 2 s, over half a minute at most; a busy machine starts the jobs one after the other.
VERDICT_SECONDS = 90
# More than is looked at, and nearly all of it.
WINDOW_SECONDS = 35
WHOLE_WINDOW_SECONDS = 28
# Many balanced jobs, of three ranks each, so that 100 of them take ten minutes on two cores.
SEEDS_AT_ONCE = 4
JUDGED_SECONDS = 15


class Price(NamedTuple):
    """The price of a fault: seconds that each other rank loses in a minute, where the program cannot measure it itself, and
    how far the price may be from the true one, as a part of it."""

    rank: int
    cause: str
    a_minute: float = 0
    tolerance: float = 0.25


# Chance decides how much of its first and of its last pause the window has.
PAUSES = 0.35
PRICES = {
    # Steps of 10 ms, and 40 ms more on rank 1: 48 s, where the machine has no other work.
    "busy": Price(1, "slow compute"),
    "input": Price(1, "late"),
    # 2 s, or one collection more, in each 6 s.
    "garbage": Price(1, "late", tolerance=PAUSES),
    "validation": Price(0, "late", tolerance=PAUSES),
    "skip": Price(1, "skipped", a_minute=60, tolerance=0),
    # 1.4 s in each 3 s, less the others' own work meanwhile, for which a busy machine takes long.
    "stopped": Price(2, "late", a_minute=28, tolerance=0.5),
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


@pytest.mark.alone
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
        shown = await_whole_windows(coordinator, PRICES)
    finally:
        over.set()
        stopper.join()
    for kind, price in PRICES.items():
        check_the_price(
            kind, price, shown[kind], price.a_minute or true_price(coordinator, kind, price.rank, shown[kind])
        )
    check_the_busy_job(show(coordinator, "busy", "?rank=1"))
    balanced = show(coordinator, "balanced")
    check_that_nothing_is_dear(balanced)
    for kind in kinds:
        said = [entry["sentence"] for entry in show(coordinator, kind)["history"]]
        wrong = 0 if kind == "validation" else 2 if kind == "stopped" else 1
        for rank in {0, 1, 2} - ({wrong} if kind != "balanced" else set()):
            told = [line for line in said if line.startswith(f"rank {rank} (") and "was last in" in line]
            assert all(STARVED in line for line in told), (kind, said)


def true_price(coordinator: Coordinator, kind: str, rank: int, job: Dict[str, Any]) -> float:
    """By the program's own clock: how much longer the rank has worked in the window's steps than the others."""
    token = pathlib.Path(coordinator.token_file).read_text(encoding="utf-8").strip()
    request = urllib.request.Request(
        f"http://{coordinator.http}/api/v1/jobs/{kind}/metrics?name=worked",
        headers={"Authorization": f"Bearer {token}"},
    )
    with urllib.request.urlopen(request, timeout=30) as response:
        series = json.load(response)["series"]
    now = job["diagnosis"]["now"]
    worked = {}
    for one in series:
        first = one["last_step"][-1] - now["steps"]
        points = [
            (mean, count) for mean, count, last in zip(one["mean"], one["count"], one["last_step"]) if last > first
        ]
        worked[one["rank"]] = sum(mean * count for mean, count in points) / sum(count for _, count in points)
    others = [seconds for other, seconds in worked.items() if other != rank]
    return 60 * (worked[rank] - sum(others) / len(others)) * now["steps"] / now["seconds"]


def check_the_price(kind: str, price: Price, job: Dict[str, Any], true: float) -> None:
    """The rank and its price, which must be what the fault costs."""
    diagnosis = job["diagnosis"]
    blockers = [one for one in diagnosis["blockers"] if one.get("rank") == price.rank]
    assert blockers, (kind, diagnosis)
    blocker = blockers[0]
    assert blocker["cause"] == price.cause, (kind, blocker)
    told = blocker["lost_seconds_a_minute"]
    print(f"{kind}: {told:.1f} s a minute, {true:.1f} s are true; {blocker['percent']:.0f} %")
    assert told == pytest.approx(true, rel=price.tolerance), (kind, diagnosis)
    # Two of three ranks wait; if the machine has other work, others are late as well, and share the price.
    assert 0.3 * true <= blocker["percent"] <= (1 + price.tolerance) * true / 60 * 100, (kind, blocker)
    assert blocker["since_unix_ms"] <= diagnosis["at_unix_ms"], (kind, blocker)


def await_whole_windows(coordinator: Coordinator, kinds: Iterable[str]) -> Dict[str, Dict[str, Any]]:
    """The jobs, when the judgement of each looks at its whole window, which has several pauses."""
    found: Dict[str, Dict[str, Any]] = {}
    for kind in kinds:
        for _ in range(600):
            found[kind] = show(coordinator, kind)
            if found[kind]["diagnosis"]["now"]["seconds"] >= WHOLE_WINDOW_SECONDS:
                break
            threading.Event().wait(0.2)
    return found


def check_that_nothing_is_dear(job: Dict[str, Any]) -> None:
    """On a machine with more work than cores a rank may get less of them; simulated jobs show none at all."""
    dear = [one for one in job["diagnosis"]["blockers"] if one["percent"] >= 10]
    assert all(STARVED in one["sentence"] for one in dear), dear
    assert job["diagnosis"]["now"]["steps"] > 100, job["diagnosis"]


def test_balanced_jobs_raise_no_alarm(serve: Callable[..., Coordinator], job: Callable[..., Program]) -> None:
    coordinator = serve()
    names = [f"balanced-{seed}" for seed in (1, 2, 3)]
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


def test_many_balanced_jobs_have_no_blocker(
    pytestconfig: pytest.Config, serve: Callable[..., Coordinator], job: Callable[..., Program]
) -> None:
    """A few at a time; no judgement of any of them may name anybody."""
    seeds = pytestconfig.getoption("--balanced")
    if seeds == 0:
        pytest.skip("`make soak` plays 100 seeds, by --balanced=100")
    coordinator = serve()
    for first in range(0, seeds, SEEDS_AT_ONCE):
        names = [f"balanced-{seed}" for seed in range(first, min(seeds, first + SEEDS_AT_ONCE))]
        runs = [job(WORKERS, "diagnosed", name, options=coordinator.options("--job", name)) for name in names]
        for run in runs:
            run.expect("runs")
        await_judged(coordinator, names)
        for name, run in zip(names, runs):
            told = show(coordinator, name)["history"]
            assert not [one for one in told if "steps; the others waited" in one["sentence"]], (name, told)
            run.kill_all()


def await_judged(coordinator: Coordinator, names: Sequence[str]) -> None:
    """Returns when each job was measured for a while, and looks meanwhile at each judgement that comes."""
    short = set(names)
    while short:
        for name in names:
            found = show(coordinator, name)
            assert found["state"] == "running" and not found["diagnosis"]["blockers"], (name, found["diagnosis"])
            if found["diagnosis"]["now"]["seconds"] >= JUDGED_SECONDS:
                short.discard(name)
        threading.Event().wait(1)


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


def await_history(coordinator: Coordinator, job: str, rank: int, points: int) -> Dict[str, Any]:
    """A rank's history, when it has so many points: one for each ten seconds."""
    for _ in range(600):
        history = show(coordinator, job, f"?rank={rank}")["rank_history"]
        if len(history["steps"]) >= points:
            return history
        threading.Event().wait(0.2)
    raise AssertionError(f"rank {rank} has {history} after two minutes")


def networks_of(coordinator: Coordinator, job: str) -> List[Dict[str, Any]]:
    """The networks on the pages of a job's hosts."""
    hosts = show(coordinator, job, "?view=hosts")["hosts"]
    words = ("received_bytes_per_second", "sent_bytes_per_second", "retransmits_per_second", "retransmits")
    return [{word: host[word] for word in words if word in host} for host in hosts]


def check_the_end(history: Dict[str, Any], killed_at: float) -> None:
    """A history goes on to the last ten seconds before the rank was killed."""
    assert history["steps"][-1] > 0, history
    assert killed_at - 20 < history["at_unix_ms"][-1] / 1000 <= killed_at, (history, killed_at)


def test_a_killed_ranks_charts_outlive_the_job_and_the_coordinator(
    serve: Callable[..., Coordinator], job: Callable[..., Program]
) -> None:
    coordinator = serve()
    run = job(WORKERS, "diagnosed", "balanced", options=coordinator.options("--job", "killed"))
    run.expect("runs")
    # The first may be of a second, and the last judgement is some seconds old when the job ends.
    await_history(coordinator, "killed", 1, 2)
    os.kill(pid_of(coordinator, "killed", 1), signal.SIGKILL)
    killed_at = time.time()
    assert run.end() != 0
    found = show(coordinator, "killed", "?rank=1")
    assert found["state"] == "failed", found
    assert {worker["rank"]: worker["state"] for worker in found["workers"]}[1].startswith("lost"), found
    assert len(found["rank_history"]["steps"]) >= 2, found
    check_the_end(found["rank_history"], killed_at)
    assert found["diagnosis"]["total"]["steps"] > 100, found
    whole = show(coordinator, "killed", "?rank=all")["rank_history"]
    assert len(whole["steps"]) == len(found["rank_history"]["steps"]), whole
    network = networks_of(coordinator, "killed")
    assert network and all(network), network
    coordinator.program.signal(signal.SIGKILL)
    coordinator.program.end()
    coordinator = serve(coordinator)
    again = show(coordinator, "killed", "?rank=1")
    assert again["rank_history"] == found["rank_history"]
    assert again["diagnosis"] == found["diagnosis"]
    assert networks_of(coordinator, "killed") == network


def test_history_goes_on_over_a_loss_and_a_restart_of_the_coordinator(
    serve: Callable[..., Coordinator], start: Callable[..., Program], tmp_path: pathlib.Path
) -> None:
    coordinator = serve()
    job = ElasticJob(start, coordinator, "elastic_logs", tmp_path, sizes=(1, 3, 3))
    job.expect_steps(3, 0, 1, 2)
    await_history(coordinator, "elastic", 0, 1)
    job.workers[2].signal(signal.SIGKILL)
    killed_at = time.time()
    job.workers[0].expect(r"epoch 2 from step (\d+)", VERDICT_SECONDS)
    check_the_end(show(coordinator, "elastic", "?rank=2&epoch=1")["rank_history"], killed_at)
    before = show(coordinator, "elastic", "?rank=0")["rank_history"]
    assert before["at_unix_ms"][0] / 1000 < killed_at, before
    coordinator.program.signal(signal.SIGKILL)
    coordinator.program.end()
    coordinator = serve(coordinator)
    coordinator.program.expect("everybody is back")
    kept = show(coordinator, "elastic", "?rank=0")["rank_history"]
    # The first epoch's, which were written at its end.
    first = [at for at in before["at_unix_ms"] if at < 1000 * killed_at]
    assert kept["at_unix_ms"][: len(first)] == first, (before, kept)
    check_the_end(show(coordinator, "elastic", "?rank=2&epoch=1")["rank_history"], killed_at)
    await_history(coordinator, "elastic", 0, len(kept["steps"]) + 1)
    (tmp_path / "stop").touch()
    job.require_end(0, 0, 1)


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
    # 60 ms more than the others, but for one of the first steps, which may have begun before the measuring.
    assert 50 <= float(found.group(1)) - float(found.group(2)) <= 90, found.group(0)
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
