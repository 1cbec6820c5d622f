"""The fault matrix: who fails and how, what all the others say of it, within how long, and that nothing stays behind.

`--write-faults` writes the outcomes to docs/faults.md; `--rounds N` plays it N times.
"""

import json
import os
import pathlib
import re
import select
import signal
import sys
import threading
import time
from typing import Any, Callable, Dict, Iterator, List, Optional

import harness
import pytest
from clocks import WallClock
from coordinators import Coordinator
from hosts import Namespaces
from impostors import Impostor
from matrix import Seen, page_of, plain
from programs_run import SOON_SECONDS, Program

PROGRAM = pathlib.Path(__file__).resolve().parents[1] / "programs" / "faulty.py"
PAGE = pathlib.Path(__file__).resolve().parents[3] / "docs" / "faults.md"
# Ranks 0 and 1 are on one host, 2 and 3 on the other, of which rank 2 is the leader.
SIZE = 4
WHO = {"worker": 3, "leader of a host": 2, "rank 0": 0}
# Seen by a process of the same host, or by one that had a connection to it, in either order.
DIED = r"(its process ended without leaving the job|connection (to|of) rank \d)"


_seen: Dict[str, List[Seen]] = {}


class Job:
    """A job of four workers on two hosts, in the middle of its training."""

    def __init__(self, run: Program, stop: pathlib.Path) -> None:
        self.run = run
        self.stop = stop
        self.pids = {}
        for rank in range(SIZE):
            found = run.expect(rf"\[{rank}\] process (\d+) rank (\d+)")
            self.pids[int(found.group(2))] = int(found.group(1))
        self.expect_steps()
        self.since = len(run.output)
        self.began = time.monotonic()

    def expect_steps(self) -> None:
        """All ranks go on from here."""
        since = len(self.run.output)
        for rank in range(SIZE):
            self.run.expect(rf"\[{rank}\] step \d+", SOON_SECONDS, since)

    def strike(self, act: Callable[[], None]) -> None:
        """Lets the fault happen; times are counted from here."""
        self.since = len(self.run.output)
        self.began = time.monotonic()
        act()

    def finish(self) -> None:
        """Ends the training, which must be well."""
        self.stop.touch()
        self.run.require_end(0)

    def expect_from(self, ranks: Iterator[int], pattern: str, seconds: float) -> "tuple[str, float]":
        """Waits until each rank has written it; returns the last one's words, and when it came."""
        said = ""
        for rank in ranks:
            said = self.run.expect(rf"\[{rank}\] (\w+: .*{pattern}.*)", seconds, self.since).group(1)
        return said, time.monotonic() - self.began


def others(rank: int) -> Iterator[int]:
    """All ranks but one."""
    return (other for other in range(SIZE) if other != rank)


@pytest.fixture
def note() -> Callable[..., None]:
    """Keeps a row for the page."""

    def keep(subject: str, fault: str, said: str, by: str, seconds: float, code: object) -> None:
        _seen.setdefault(f"{subject}, {fault}", []).append(Seen(subject, fault, plain(said), by, seconds, str(code)))
        print(f"{subject}, {fault}: after {seconds:.3f} s: {said}")

    return keep


@pytest.fixture(scope="module", autouse=True)
def page(request: pytest.FixtureRequest) -> Iterator[None]:
    """Writes the page at the end, where it is wanted."""
    _seen.clear()
    yield
    if request.config.getoption("--write-faults"):
        PAGE.write_text(page_of(_seen), encoding="utf-8")


@pytest.fixture
def job(
    start: Callable[..., Program], two_hosts: Namespaces, tmp_path: pathlib.Path, in_round: int
) -> Callable[..., Job]:
    """job(**environment) starts the job and waits until it trains."""
    del in_round

    def begin(hosts: Optional[Namespaces] = None, **environment: str) -> Job:
        worker = [sys.executable, str(PROGRAM), str(tmp_path / "stop")]
        options = [part for name, value in environment.items() for part in ("-x", f"{name}={value}")]
        run = start(str(harness.CLI), "run", *options, *(hosts or two_hosts).options(2, 2), *worker)
        return Job(run, tmp_path / "stop")

    return begin


@pytest.mark.parametrize("subject", WHO)
@pytest.mark.parametrize(
    "fault, number, words",
    (
        ("SIGKILL", signal.SIGKILL, DIED),
        ("exit without shutdown", signal.SIGUSR1, DIED),
        ("exception in the training code", signal.SIGUSR2, "failed: .*Failure: the training code is wrong"),
    ),
)
def test_a_worker_that_ends_is_named_by_all(
    subject: str, fault: str, number: int, words: str, job: Callable[..., Job], note: Callable[..., None]
) -> None:
    running = job()
    rank = WHO[subject]
    running.strike(lambda: os.kill(running.pids[rank], number))
    said, seconds = running.expect_from(others(rank), rf"rank {rank} .*{words}", SOON_SECONDS)
    assert said.startswith("EpochEnded: "), said
    code = running.run.end()
    # The launcher's code is that of the worker that failed first; one that ends with 0 has not failed by itself.
    assert code == {signal.SIGKILL: 137, signal.SIGUSR1: 3, signal.SIGUSR2: 1}[number], running.run.output
    running.run.require_nothing_left()
    note(subject, fault, said, "all other ranks", seconds, code)


@pytest.mark.parametrize("subject", WHO)
def test_a_stopped_worker_is_named_by_all_and_told_when_it_goes_on(
    subject: str, job: Callable[..., Job], note: Callable[..., None]
) -> None:
    running = job()
    rank = WHO[subject]
    running.strike(lambda: os.kill(running.pids[rank], signal.SIGSTOP))
    # It goes on when others have ended already, and is not to take their end for the cause.
    running.run.expect(r"worker \d .* ended with exit code 3", SOON_SECONDS, running.since)
    os.kill(running.pids[rank], signal.SIGCONT)
    went_on = time.monotonic()
    said, seconds = running.expect_from(others(rank), rf"rank {rank} .*nothing was heard of it", SOON_SECONDS)
    assert said.startswith("EpochEnded: "), said
    note(subject, "SIGSTOP", said, "all other ranks", seconds, "")
    said, _ = running.expect_from(iter([rank]), rf"rank {rank}\b", SOON_SECONDS)
    seconds = time.monotonic() - went_on
    assert said.startswith("EpochEnded: "), said
    code = running.run.end()
    assert code == 3, running.run.output
    running.run.require_nothing_left()
    note(subject, "then SIGCONT", said, "itself", seconds, code)


def test_a_worker_without_memory_is_named_by_all(
    job: Callable[..., Job], note: Callable[..., None], tmp_path: pathlib.Path
) -> None:
    group = pathlib.Path("/sys/fs/cgroup/memory")
    if not (group / "memory.limit_in_bytes").exists() or os.geteuid() != 0:
        pytest.skip("no cgroup (v1) of memory can be made here")
    group = group / f"farandole-{os.getpid()}"
    running = job()
    rank = WHO["worker"]
    group.mkdir()
    try:
        (group / "memory.limit_in_bytes").write_text(str(512 << 20), encoding="ascii")
        (group / "cgroup.procs").write_text(str(running.pids[rank]), encoding="ascii")
        running.strike(lambda: os.kill(running.pids[rank], signal.SIGALRM))
        said, seconds = running.expect_from(others(rank), rf"rank {rank} .*{DIED}", SOON_SECONDS)
        code = running.run.end()
        assert code == 137, running.run.output
        running.run.require_nothing_left()
        note("worker", "out of memory (killed by the kernel)", said, "all other ranks", seconds, code)
    finally:
        group.rmdir()


def test_full_disk_at_a_checkpoint_keeps_the_earlier_one(
    start: Callable[..., Program], note: Callable[..., None], tmp_path: pathlib.Path, in_round: int
) -> None:
    del in_round
    disk, state = tmp_path / "disk", tmp_path / "state"
    disk.mkdir()
    program = PROGRAM.with_name("full_disk.py")
    # A mount that no other process sees, and that ends with the last process in it.
    script = 'mount -t tmpfs -o size=1m none "$2" || exit 9; "$1" run -np 1 --state-dir "$3" "$4" "$5" "$2" || exit 8; '
    script += '"$1" checkpoint verify --state-dir "$3"; code=$?; ls -A "$2"; exit $code'
    arguments = [str(harness.CLI), str(disk), str(state), sys.executable, str(program)]
    run = start("unshare", "--user", "--map-root-user", "--mount", "sh", "-c", script, "sh", *arguments)
    run.require_end(0, 200)
    said = run.expect(r"CheckpointError: .*").group()
    assert "No space left on device" in said and str(disk) in said, said
    path = run.expect(r"written: (\S+)").group(1)
    assert run.expect(r"latest: (\S+)").group(1) == path
    assert re.search(rf"{re.escape(path)}.*OK|OK.*{re.escape(path)}", run.output), run.output
    assert "1 good, 0 bad" in run.output and not re.search(r"^\.checkpoint", run.output, re.M), run.output
    note(
        "rank 0",
        "full disk at a checkpoint",
        re.sub(r"\.[0-9a-f]{16}\.partial", ".CATALOGUE.partial", said.replace(str(tmp_path), "")),
        "itself (earlier checkpoints stay)",
        0.0,
        0,
    )


@pytest.fixture
def served_job(
    start: Callable[..., Program], serve: Callable[..., Coordinator], tmp_path: pathlib.Path, in_round: int
) -> "Callable[..., tuple[Job, Coordinator]]":
    """served_job(begun, workers, under, **environment) starts a job on one host, whose processes have the environment
    `workers`, with a coordinator of its own process, which has the other one and runs under the command `under`, calls
    `begun` with it, and waits until the job trains."""
    del in_round

    def begin(
        begun: Callable[[Coordinator], None] = lambda _: None,
        workers: "Dict[str, str] | None" = None,
        **environment: Any,
    ) -> "tuple[Job, Coordinator]":
        coordinator = serve(**environment)
        worker = [sys.executable, str(PROGRAM), str(tmp_path / "stop")]
        options = ["-np", str(SIZE), "--job", "faulty", *coordinator.options()]
        run = start(str(harness.CLI), "run", *options, *worker, **(workers or {}))
        begun(coordinator)
        return Job(run, tmp_path / "stop"), coordinator

    return begin


def test_training_goes_on_beside_a_stopped_coordinator(
    served_job: "Callable[..., tuple[Job, Coordinator]]", note: Callable[..., None]
) -> None:
    running, coordinator = served_job()
    running.strike(lambda: coordinator.program.signal(signal.SIGSTOP))
    running.expect_steps()
    seconds = time.monotonic() - running.began
    coordinator.program.signal(signal.SIGCONT)
    running.expect_steps()
    running.finish()
    note("coordinator", "SIGSTOP, then SIGCONT", "(the job goes on)", "", seconds, 0)


def kill(coordinator: Coordinator) -> None:
    coordinator.program.signal(signal.SIGKILL)
    coordinator.program.end()


def drain(coordinator: Coordinator) -> None:
    """Has it end in order."""
    coordinator.program.signal(signal.SIGTERM)
    coordinator.program.require_end(0)


def test_training_goes_on_beside_a_killed_coordinator_and_its_successor(
    served_job: "Callable[..., tuple[Job, Coordinator]]", serve: Callable[..., Coordinator], note: Callable[..., None]
) -> None:
    running, coordinator = served_job()

    running.strike(lambda: kill(coordinator))
    running.expect_steps()
    seconds = time.monotonic() - running.began
    successor = serve(coordinator)
    running.expect_steps()
    running.finish()
    drain(successor)
    note("coordinator", "SIGKILL, then another takes its place", "(the job goes on)", "", seconds, 0)


def test_training_goes_on_beside_another_users_program_on_the_coordinators_port(
    served_job: "Callable[..., tuple[Job, Coordinator]]",
    serve: Callable[..., Coordinator],
    start: Callable[..., Program],
    note: Callable[..., None],
) -> None:
    running, coordinator = served_job()
    impostors: List[Impostor] = []

    def replace() -> None:
        kill(coordinator)
        impostors.append(Impostor(start, int(coordinator.address.split(":")[1])))

    running.strike(replace)
    running.expect_steps()
    seconds = time.monotonic() - running.began
    impostors[0].require_nothing_but_a_greeting()
    impostors[0].program.kill_all()
    successor = serve(coordinator)
    running.expect_steps()
    running.finish()
    drain(successor)
    note("coordinator", "SIGKILL, then another user's program on its port", "(the job goes on)", "", seconds, 0)


def train_for_a_while(running: Job) -> float:
    """Lets a job train for longer than the silence limit after the fault, by a clock that has not jumped."""
    while time.monotonic() - running.began < 4:
        running.expect_steps()
    return time.monotonic() - running.began


def expect_silence_seen(running: Job, note: Callable[..., None], after: str) -> None:
    """Stops the last rank, which the others must name."""
    running.strike(lambda: os.kill(running.pids[SIZE - 1], signal.SIGSTOP))
    said, seconds = running.expect_from(others(SIZE - 1), f"rank {SIZE - 1} .*nothing was heard of it", SOON_SECONDS)
    os.kill(running.pids[SIZE - 1], signal.SIGCONT)
    assert running.run.end() == 3, running.run.output
    note("worker", f"SIGSTOP, after {after}", said, "all other ranks", seconds, 3)


@pytest.mark.parametrize(
    ("whose", "jump"),
    [
        *(("coordinator", jump) for jump in ("-1 minute", "-2 hours", "+2 hours")),
        *(("whole job", jump) for jump in ("-2 hours", "+2 hours")),
    ],
)
def test_a_clock_that_jumps_is_no_fault_and_hides_none(
    served_job: "Callable[..., tuple[Job, Coordinator]]",
    note: Callable[..., None],
    tmp_path: pathlib.Path,
    whose: str,
    jump: str,
) -> None:
    clock = WallClock(tmp_path)
    running, _ = served_job(workers=clock.environment if whose == "whole job" else {}, **clock.environment)
    running.strike(lambda: clock.jump(jump))
    note(whose, f"its wall clock jumps by {jump}", "(the job goes on)", "", train_for_a_while(running), 0)
    expect_silence_seen(running, note, f"the wall clock of the {whose} has jumped by {jump}")


def test_a_clock_that_jumps_forward_does_not_end_a_job_that_forms(
    served_job: "Callable[..., tuple[Job, Coordinator]]", note: Callable[..., None], tmp_path: pathlib.Path
) -> None:
    clock = WallClock(tmp_path)
    door = tmp_path / "door"
    os.mkfifo(door)
    began = 0.0

    def jump(coordinator: Coordinator) -> None:
        nonlocal began
        coordinator.program.expect(r"a run with 4 workers begins to form")
        began = time.monotonic()
        clock.jump("+2 hours")
        door.write_bytes(b"")

    running, _ = served_job(jump, **clock.environment)
    seconds = time.monotonic() - began
    running.finish()
    note(
        "coordinator",
        "its wall clock jumps by +2 hours while the job forms",
        "(the job forms and trains)",
        "",
        seconds,
        0,
    )


def test_a_reboot_of_the_coordinators_machine_is_no_fault_and_hides_none(
    served_job: "Callable[..., tuple[Job, Coordinator]]",
    serve: Callable[..., Coordinator],
    start: Callable[..., Program],
    note: Callable[..., None],
) -> None:
    if os.geteuid() != 0:
        pytest.skip("time namespaces need root")
    # The first one's CLOCK_MONOTONIC is ten days ahead of its successor's.
    running, coordinator = served_job(under=["unshare", "--time", "--monotonic", "864000"])
    space = pathlib.Path("/proc/self/ns/time").readlink()
    assert pathlib.Path(f"/proc/{coordinator.program.pid}/ns/time").readlink() != space

    running.strike(lambda: kill(coordinator))
    successor = serve(coordinator)
    successor.program.expect(r"everybody is back after the coordinator's restart")
    fault = "SIGKILL, then another takes its place, whose CLOCK_MONOTONIC is ten days behind"
    note("coordinator", fault, "(the job goes on)", "", train_for_a_while(running), 0)
    expect_silence_seen(running, note, "a reboot of the coordinator's machine")
    shown = start(str(harness.CLI), "job", "show", "--json", *successor.options(), "faulty")
    shown.require_end(0)
    record = json.loads(shown.output)
    times = [record["created_unix_ms"], *(entry["at_unix_ms"] for entry in record["history"])]
    assert times == sorted(times) and time.time() - 600 < times[0] / 1000 <= times[-1] / 1000 <= time.time(), record


def test_a_killed_launcher_takes_its_workers_along(job: Callable[..., Job], note: Callable[..., None]) -> None:
    running = job()
    running.strike(lambda: running.run.signal(signal.SIGKILL))
    code = running.run.end()
    running.run.require_nothing_left()
    note("launcher", "SIGKILL", "(its workers are ended on all hosts)", "", time.monotonic() - running.began, code)


def test_a_stopped_launcher_holds_nothing_up(
    job: Callable[..., Job], note: Callable[..., None], tmp_path: pathlib.Path
) -> None:
    pulse = tmp_path / "pulse"
    os.mkfifo(pulse)
    # For writing too: the pipe has a reader's and a writer's end from the start.
    steps = os.open(pulse, os.O_RDWR)
    running = job()
    launcher = int(pathlib.Path(f"/proc/{running.run.pid}/task/{running.run.pid}/children").read_text().split()[0])
    running.strike(lambda: os.kill(launcher, signal.SIGSTOP))
    # More than lay in the pipe before. The workers' words wait in the launcher's pipes meanwhile.
    for _ in range(len(os.read(steps, 65536)) + 3):
        assert select.select([steps], [], [], SOON_SECONDS)[0], "the workers do not go on"
        os.read(steps, 1)
    seconds = time.monotonic() - running.began
    os.kill(launcher, signal.SIGCONT)
    running.expect_steps()
    running.finish()
    os.close(steps)
    note("launcher", "SIGSTOP, then SIGCONT", "(the job goes on)", "", seconds, 0)


def test_a_host_that_is_cut_off_is_named_by_the_others(
    job: Callable[..., Job], note: Callable[..., None], own_hosts: Namespaces
) -> None:
    running = job(own_hosts, FARANDOLE_OUTAGE_LIMIT_MS="5000")
    running.strike(lambda: own_hosts.cut_off(1))
    said, seconds = running.expect_from(iter([0, 1]), r"rank [23] .*", SOON_SECONDS)
    assert said.startswith("EpochEnded: "), said
    note("host", "partition", said, "the ranks of the other host", seconds, "")
    running.run.expect(rf"host {re.escape(own_hosts.names[1])} is lost: ", 60, running.since)
    code = running.run.end()
    running.run.require_nothing_left(60)
    note(
        "host",
        "partition, on the side that is cut off",
        "(its workers are ended)",
        "",
        time.monotonic() - running.began,
        code,
    )


def test_a_slow_link_is_no_fault(job: Callable[..., Job], note: Callable[..., None], own_hosts: Namespaces) -> None:
    running = job(own_hosts)
    running.strike(lambda: own_hosts.slow_down(1, "20mbit"))
    running.expect_steps()
    running.expect_steps()
    seconds = time.monotonic() - running.began
    running.finish()
    note("link", "20 Mbit/s", "(the job goes on)", "", seconds, 0)


def test_a_link_that_is_down_for_a_moment_is_no_fault(
    job: Callable[..., Job], note: Callable[..., None], own_hosts: Namespaces
) -> None:
    running = job(own_hosts)
    running.strike(lambda: own_hosts.cut_off(1))
    threading.Event().wait(1.5)
    own_hosts.put_back(1)
    running.expect_steps()
    running.expect_steps()
    seconds = time.monotonic() - running.began
    running.finish()
    note("link", "down for 1.5 s", "(the job goes on)", "", seconds, 0)
