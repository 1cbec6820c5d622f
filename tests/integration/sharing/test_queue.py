"""Launches over their tenant's quota wait in the queue: with real launchers, workers and coordinators."""

import json
import pathlib
import re
import signal
import statistics
import subprocess
import sys
import time
from typing import Any, Callable, Dict, List

import harness
import pytest
from coordinators import Coordinator
from gates import Gate
from programs_run import SOON_SECONDS, Program

Start = Callable[..., Program]
Serve = Callable[..., Coordinator]
WAITS = r"farandole: job '{}' waits in the queue, place {} of {}: "


class Team:
    """A tenant of a coordinator, whose quota is one job of two workers, and a launcher's token."""

    def __init__(self, coordinator: Coordinator, directory: pathlib.Path) -> None:
        self.coordinator = coordinator
        self.admin, self.launcher = directory / "admin", directory / "launcher"
        quota = ["--jobs", "1", "--workers", "2"]
        self.ask("tenant", "create", "team", *quota, "--out", str(self.admin), *coordinator.options())
        self.ask("token", "create", "--role", "launcher", "--out", str(self.launcher), *self.options(self.admin))

    @staticmethod
    def ask(*words: str, code: int = 0) -> str:
        """Runs a command; returns its output on both streams."""
        done = subprocess.run(
            [str(harness.CLI), *words],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == code, done.stdout
        return done.stdout

    def options(self, token_file: pathlib.Path) -> List[str]:
        return ["--coordinator", self.coordinator.address, "--token-file", str(token_file)]

    def run(self, name: str, *more: str, np: int = 1) -> List[str]:
        """`farandole run` for this tenant; options, then the command."""
        return [str(harness.CLI), "run", "-np", str(np), "--job", name, *self.options(self.launcher), *more]

    def jobs(self) -> Dict[str, Any]:
        listed = json.loads(self.ask("job", "list", "--json", *self.options(self.admin)))
        return {job["job"]: job for job in listed}


@pytest.fixture
def team(serve: Serve, tmp_path: pathlib.Path) -> Team:
    return Team(serve(), tmp_path)


def _at(gate: Gate) -> List[str]:
    return ["sh", "-c", f"echo runs; head -c 1 <{gate} >/dev/null"]


def test_a_launch_waits_with_its_place_and_reason_and_starts_in_its_turn(start: Start, team: Team, gate: Gate) -> None:
    first = start(*team.run("first", *_at(gate)))
    first.expect(r"\[0\] runs")
    second = start(*team.run("second", *_at(gate)))
    reason = "tenant team runs 1 jobs, its quota is 1"
    second.expect(WAITS.format("second", 1, 1) + reason)
    third = start(*team.run("third", *_at(gate)))
    third.expect(WAITS.format("third", 2, 2) + reason)
    urgent = start(*team.run("urgent", "--priority", "1", *_at(gate)))
    urgent.expect(WAITS.format("urgent", 1, 3) + reason)
    second.expect(WAITS.format("second", 2, 3) + reason)
    third.expect(WAITS.format("third", 3, 3) + reason)
    jobs = team.jobs()
    assert jobs["third"]["state"] == "queued" and jobs["third"]["queue"] == {
        "position": 3,
        "length": 3,
        "reason": reason,
    }
    table = team.ask("job", "list", *team.options(team.admin))
    assert re.search(rf"third +queued +0/1 .*place 3 of 3 in the queue: {reason}", table), table
    shown = team.ask("job", "show", "third", *team.options(team.admin))
    assert f"state        queued: place 3 of 3 in the queue: {reason}" in shown, shown
    quota = team.ask("quota", "show", *team.options(team.admin))
    assert re.search(r"team +1/1 +1/2 +[\d.]+ \w+/1\.0 GiB +- +- +- +3 +3\n", quota), quota
    for waiting in (urgent, second, third):
        assert "runs" not in waiting.output.replace("tenant team runs", ""), waiting.output
    for over, then in ((first, urgent), (urgent, second), (second, third)):
        gate.let_through(1)
        over.require_end(0)
        then.expect(r"farandole: job '\w+' starts, after \d+m?\d*s? in the queue")
        then.expect(r"\[0\] runs")
    gate.let_through(1)
    third.require_end(0)
    # A place is told when it has changed, and only then.
    assert len(re.findall("waits in the queue", urgent.output)) == 1, urgent.output


def test_without_the_queue_a_launch_is_refused_at_once(start: Start, team: Team, gate: Gate) -> None:
    first = start(*team.run("first", *_at(gate)))
    first.expect(r"\[0\] runs")
    refused = start(*team.run("second", "--no-queue", "echo", "started"))
    refused.require_end(1)
    assert "job second: tenant team runs 1 jobs, its quota is 1" in refused.output, refused.output
    never = start(*team.run("large", "echo", "started", np=3))
    never.require_end(1)
    assert "it wants 3 workers, and tenant team may have 2 at most: its quota is 2" in never.output, never.output
    assert "started" not in refused.output + never.output
    alone = start(str(harness.CLI), "run", "-np", "1", "--no-queue", "true")
    alone.require_end(2)
    assert "--no-queue belongs to a --coordinator" in alone.output, alone.output
    gate.let_through(1)
    first.require_end(0)


def test_a_launch_that_waits_is_cancelled_by_its_launcher_and_by_an_operator(
    start: Start, team: Team, gate: Gate, tmp_path: pathlib.Path
) -> None:
    first = start(*team.run("first", *_at(gate)))
    first.expect(r"\[0\] runs")
    second = start(*team.run("second", "echo", "started"))
    second.expect(WAITS.format("second", 1, 1))
    third = start(*team.run("third", "echo", "started"))
    third.expect(WAITS.format("third", 2, 2))
    second.signal(signal.SIGINT)
    second.require_end(128 + signal.SIGINT)
    third.expect(WAITS.format("third", 1, 1), SOON_SECONDS)
    assert "second" not in team.jobs()
    # Another launcher may not, its own may, and so may an operator.
    other = tmp_path / "other"
    team.ask("token", "create", "--role", "launcher", "--out", str(other), *team.options(team.admin))
    denied = team.ask("job", "abort", "third", "--reason", "mine now", *team.options(other), code=1)
    assert "is of a launcher, which may change its own jobs only" in denied, denied
    assert team.jobs()["third"]["state"] == "queued"
    team.ask("job", "abort", "third", "--reason", "not today", *team.options(team.admin))
    third.require_end(1)
    assert "has waited in the queue, and does not start: an operator ended the job: not today" in third.output
    assert "started" not in second.output + third.output
    fourth = start(*team.run("fourth", "echo", "started"))
    fourth.expect(WAITS.format("fourth", 1, 1))
    team.ask("job", "abort", "fourth", "--reason", "changed my mind", *team.options(team.launcher))
    fourth.require_end(1)
    gate.let_through(1)
    first.require_end(0)


def test_places_outlive_a_coordinator_that_is_killed(
    job: Callable[..., Program], start: Start, serve: Serve, team: Team, tmp_path: pathlib.Path
) -> None:
    first = job(1, "stepping", tmp_path, options=[*team.options(team.launcher), "--job", "first"])
    first.expect(r"\[0\] step \d+")
    second = start(*team.run("second", "sh", "-c", "echo started"))
    second.expect(WAITS.format("second", 1, 1))
    third = start(*team.run("third", "sh", "-c", "echo started"))
    third.expect(WAITS.format("third", 2, 2))
    team.coordinator.program.signal(signal.SIGKILL)
    team.coordinator.program.end()
    # A launch that comes later has a later place.
    late = start(*team.run("late", "--priority", "0", "sh", "-c", "echo started"))
    late.expect(r"farandole: coordinator \S+ does not answer yet", SOON_SECONDS)
    serve(team.coordinator)
    late.expect(WAITS.format("late", 3, 3))
    jobs = team.jobs()
    assert [jobs[name]["queue"]["position"] for name in ("second", "third", "late")] == [1, 2, 3]
    (tmp_path / "stop").touch()
    first.require_end(0)
    for waiting in (second, third, late):
        waiting.require_end(0)
        assert "[0] started" in waiting.output, waiting.output
    assert not [name for name, one in team.jobs().items() if one["state"] == "queued"]


def test_a_launcher_that_was_killed_loses_its_place(start: Start, team: Team, gate: Gate) -> None:
    first = start(*team.run("first", *_at(gate)))
    first.expect(r"\[0\] runs")
    gone = start(*team.run("gone", "echo", "started"))
    gone.expect(WAITS.format("gone", 1, 1))
    # Without its guard a launcher gives its place up at once; as if the host had gone, both are killed.
    gone.kill_all()
    second = start(*team.run("second", "sh", "-c", "echo started"))
    second.expect(WAITS.format("second", 2, 2))
    # 30 s after its last call.
    second.expect(WAITS.format("second", 1, 1), 60)
    gate.let_through(1)
    first.require_end(0)
    second.require_end(0)


def test_a_launch_begins_promptly_after_the_one_before(start: Start, team: Team, gate: Gate) -> None:
    rounds = 5
    before = start(*team.run("run0", *_at(gate)))
    before.expect(r"\[0\] runs")
    pauses = []
    for number in range(1, rounds + 1):
        then = start(*team.run(f"run{number}", *_at(gate)))
        then.expect(WAITS.format(f"run{number}", 1, 1))
        gate.let_through(1)
        ending = time.monotonic()
        then.expect(r"\[0\] runs")
        pauses.append(time.monotonic() - ending)
        before.require_end(0)
        before = then
    gate.let_through(1)
    before.require_end(0)
    print("seconds from a program's end to the first line of the next:", sorted(pauses), file=sys.stderr)
    assert statistics.median(pauses) < SOON_SECONDS


def test_a_larger_quota_and_a_cohort_let_a_launch_start(start: Start, team: Team, gate: Gate) -> None:
    first = start(*team.run("first", *_at(gate), np=2))
    first.expect(r"\[1\] runs")
    team.ask("quota", "set", "team", "--jobs", "9", *team.coordinator.options())
    second = start(*team.run("second", *_at(gate)))
    second.expect(
        WAITS.format("second", 1, 1) + "it wants 1 workers, tenant team has 2 in its other jobs, and its quota is 2"
    )
    owner = team.coordinator.options()
    lender = ["tenant", "create", "lender", "--workers", "4", "--cohort", "research"]
    team.ask(*lender, "--out", str(team.admin.parent / "lender"), *owner)
    denied = team.ask("quota", "set", "team", "--workers", "9", *team.options(team.admin), code=1)
    assert "refused to set the quota of tenant team" in denied, denied
    told = team.ask("quota", "set", "team", "--cohort", "research", "--borrow", "1", *owner)
    lent = "up to 1 more workers from cohort research; weight 1"
    assert told == f"tenant team: 9 jobs, 2 workers, 1.0 GiB in the store; {lent}\n", told
    second.expect(r"\[0\] runs")
    gate.let_through(3)
    first.require_end(0)
    second.require_end(0)
