"""kill -9, and stop, of every part of a job in mid-training: a named error or a continued run, and nothing left."""

import os
import pathlib
import re
import signal
import sys
from typing import Callable, List

import harness
import pytest
from coordinators import Coordinator
from gates import Gate
from programs_run import EARLY, SOON_SECONDS, START_SECONDS, Program
from relay import Relay


def process_of(program: Program, rank: int) -> List[int]:
    """Ids of a rank's process and of its data loaders, when it has told them."""
    found = program.expect(rf"\[{rank}\] process (\d+)(?: loaders ([\d ]+))?")
    return [int(pid) for pid in " ".join(filter(None, found.groups())).split()]


def expect_steps(program: Program, ranks: int, since: int = 0) -> None:
    """Waits until all ranks have told of two steps after that offset of the output."""
    for rank in range(ranks):
        found = re.compile(rf"\[{rank}\] step \d+\n(?s:.*?)\[{rank}\] step")
        program.expect(found.pattern, START_SECONDS, since)


def launcher_of(guard: int) -> int:
    """The only child of the process that the user starts."""
    children = pathlib.Path(f"/proc/{guard}/task/{guard}/children").read_text(encoding="ascii").split()
    assert len(children) == 1, children
    return int(children[0])


def test_killed_worker_ends_the_job_with_its_name(job: Callable[..., Program]) -> None:
    run = job(2, "loading")
    victims = process_of(run, 1)
    process_of(run, 0)
    expect_steps(run, 2)
    assert len(victims) == 3 and set(victims) <= set(run.descendants()), "its data loaders are alive"
    os.kill(victims[0], signal.SIGKILL)
    run.expect(r"\[0\] EpochEnded: .*rank 1\b", SOON_SECONDS)
    run.require_end(128 + signal.SIGKILL, SOON_SECONDS)
    assert f"worker 1 (pid {victims[0]}" in run.output and "SIGKILL" in run.output, run.output


@pytest.mark.parametrize("victim", (0, 2))
def test_killed_rank_is_named_to_all_others(victim: int, job: Callable[..., Program], tmp_path: pathlib.Path) -> None:
    run = job(3, "stepping", tmp_path)
    pids = [process_of(run, rank)[0] for rank in range(3)]
    expect_steps(run, 3)
    os.kill(pids[victim], signal.SIGKILL)
    for rank in {0, 1, 2} - {victim}:
        run.expect(rf"\[{rank}\] EpochEnded: .*rank {victim}\b", SOON_SECONDS)
    run.require_end(128 + signal.SIGKILL, SOON_SECONDS)


# Of four ranks on two hosts: rank 0, the other host's first rank, which carries the log for it, and one that leads none.
@pytest.mark.parametrize("transport", ("auto", "tcp"))
@pytest.mark.parametrize("victim", (0, 2, 3))
def test_killed_rank_is_named_on_all_hosts(
    victim: int, transport: str, job: Callable[..., Program], tmp_path: pathlib.Path
) -> None:
    run = job(4, "stepping", tmp_path, hosts=2, FARANDOLE_TRANSPORT=transport)
    pids = [process_of(run, rank)[0] for rank in range(4)]
    expect_steps(run, 4)
    os.kill(pids[victim], signal.SIGKILL)
    for rank in {0, 1, 2, 3} - {victim}:
        run.expect(rf"\[{rank}\] EpochEnded: rank {victim}\b", SOON_SECONDS)
    run.require_end(128 + signal.SIGKILL, SOON_SECONDS)


@pytest.mark.parametrize("victim", (0, 2))
def test_stopped_leader_of_a_host_is_named_on_all_hosts(
    victim: int, job: Callable[..., Program], tmp_path: pathlib.Path
) -> None:
    run = job(4, "stepping", tmp_path, hosts=2)
    pid = process_of(run, victim)[0]
    expect_steps(run, 4)
    os.kill(pid, signal.SIGSTOP)
    for rank in {0, 1, 2, 3} - {victim}:
        run.expect(rf"\[{rank}\] EpochEnded: rank {victim}\b", SOON_SECONDS)
    os.kill(pid, signal.SIGCONT)
    run.require_end(3, SOON_SECONDS)


@pytest.mark.parametrize("which", ("the process that the user started", "its child"))
def test_killed_launcher_takes_all_along(which: str, job: Callable[..., Program]) -> None:
    run = job(2, "loading")
    expect_steps(run, 2)
    assert len(process_of(run, 0)) == len(process_of(run, 1)) == 3
    os.kill(launcher_of(run.pid) if which == "its child" else run.pid, signal.SIGKILL)
    run.require_nothing_left()
    assert run.end(SOON_SECONDS) != 0


@pytest.mark.parametrize("number", (signal.SIGINT, signal.SIGTERM))
def test_signalled_launcher_ends_its_workers(number: int, job: Callable[..., Program], tmp_path: pathlib.Path) -> None:
    run = job(2, "stepping", tmp_path)
    expect_steps(run, 2)
    run.signal(number)
    run.require_end(128 + number, SOON_SECONDS)


def test_job_goes_on_beside_a_killed_coordinator_and_with_its_successor(
    job: Callable[..., Program], serve: Callable[..., Coordinator], tmp_path: pathlib.Path
) -> None:
    first = serve()
    run = job(2, "stepping", tmp_path, options=first.options())
    expect_steps(run, 2)
    first.program.signal(signal.SIGKILL)
    assert first.program.end() == -signal.SIGKILL
    expect_steps(run, 2, since=len(run.output))
    second = serve(first)
    (tmp_path / "new").touch()
    for rank in range(2):
        run.expect(rf"\[{rank}\] a new tensor at step", SOON_SECONDS)
    expect_steps(run, 2, since=len(run.output))
    (tmp_path / "stop").touch()
    run.require_end(0)
    second.program.signal(signal.SIGTERM)
    second.program.require_end(0)


def test_what_needs_a_killed_coordinator_ends_with_a_named_error(
    job: Callable[..., Program], serve: Callable[..., Coordinator], tmp_path: pathlib.Path
) -> None:
    coordinator = serve()
    run = job(2, "stepping", tmp_path, options=coordinator.options(), FARANDOLE_OUTAGE_LIMIT_MS="2000")
    expect_steps(run, 2)
    coordinator.program.signal(signal.SIGKILL)
    coordinator.program.require_end(-signal.SIGKILL)
    expect_steps(run, 2, since=len(run.output))
    (tmp_path / "new").touch()
    for rank in range(2):
        run.expect(rf"\[{rank}\] ConnectionError: .*{coordinator.address}", SOON_SECONDS)
    run.require_end(3, SOON_SECONDS)


@pytest.mark.parametrize("victim", (0, 1))
def test_stopped_worker_is_named_and_ends_when_it_goes_on(
    victim: int, job: Callable[..., Program], tmp_path: pathlib.Path
) -> None:
    run = job(2, "stepping", tmp_path)
    pid = process_of(run, victim)[0]
    expect_steps(run, 2)
    os.kill(pid, signal.SIGSTOP)
    run.expect(rf"\[{1 - victim}\] EpochEnded: .*rank {victim}\b", SOON_SECONDS)
    os.kill(pid, signal.SIGCONT)
    run.expect(rf"\[{victim}\] EpochEnded: .*rank {victim}\b", SOON_SECONDS)
    run.require_end(3, SOON_SECONDS)


def test_workers_join_the_successor_of_a_coordinator_that_was_killed_meanwhile(
    job: Callable[..., Program], serve: Callable[..., Coordinator], gate: Gate
) -> None:
    first = serve()
    run = job(2, "absent", gate, options=first.options())
    first.program.expect("begins to form: the first is worker")
    first.program.signal(signal.SIGKILL)
    first.program.require_end(-signal.SIGKILL)
    second = serve(first)
    gate.let_through(1)
    run.require_end(0)
    second.program.signal(signal.SIGTERM)
    second.program.require_end(0)


@pytest.mark.parametrize("rank", (0, 1))
def test_a_worker_that_exits_with_a_code_is_named_though_its_peer_fails_by_that(
    rank: int, start: Callable[..., Program], tmp_path: pathlib.Path
) -> None:
    program = tmp_path / "exits.py"
    lines = (
        "import sys, farandole.numpy as hvd, numpy",
        "hvd.init()",
        f"if hvd.rank() == {rank}: sys.exit(3)",
        "hvd.allreduce(numpy.ones(1))",
    )
    program.write_text("\n".join(lines), encoding="ascii")
    run = start(str(harness.CLI), "run", "-np", "2", "--state-dir", str(tmp_path), sys.executable, str(program))
    run.require_end(3, START_SECONDS)
    named = rf"worker {rank} \(pid \d+, host \S+\) failed first, with exit code 3"
    assert re.search(named, run.output), run.output


@pytest.mark.parametrize("also_lost", ("its stream", "the coordinator"))
def test_a_refusal_that_was_lost_is_told_again(
    also_lost: str, job: Callable[..., Program], serve: Callable[..., Coordinator], gate: Gate
) -> None:
    coordinator = serve()
    relay = Relay(coordinator.address)
    run = job(2, "refused_set", gate, relay.address, options=coordinator.options())
    for rank in range(2):
        run.expect(rf"\[{rank}\] has joined")
    relay.lose_answers()
    gate.let_through(1)
    run.expect(r"\[0\] refused: ranks ask for different groups: ", SOON_SECONDS)
    assert "[1] refused" not in run.output, run.output
    if also_lost == "the coordinator":
        coordinator.program.signal(signal.SIGKILL)
        coordinator.program.end()
        serve(coordinator)
    relay.renew()
    run.expect(r"\[1\] refused: ranks ask for different groups: ", SOON_SECONDS)
    run.require_end(0)
    assert "[0] made\n" in run.output and "[1] made\n" in run.output, run.output
    relay.close()


def test_a_launch_asks_for_the_cause_of_a_failure_in_the_session_that_it_has(
    start: Callable[..., Program], serve: Callable[..., Coordinator], tmp_path: pathlib.Path
) -> None:
    coordinator = serve()
    token = tmp_path / "token"
    token.write_bytes(pathlib.Path(coordinator.token_file).read_bytes())
    failed = tmp_path / "failed"
    os.mkfifo(failed)
    program = tmp_path / "exits.py"
    # Rank 1 is the cause, although it ends after rank 0 has failed by that.
    lines = (
        "import atexit, os, sys, farandole.numpy as hvd, numpy",
        "hvd.init()",
        "hvd.barrier()",
        f"if hvd.rank() == 0: os.remove({str(token)!r})",
        "hvd.barrier()",
        "if hvd.rank() == 1:",
        "    hvd.shutdown()",
        f"    open({str(failed)!r}).close()",
        "    sys.exit(3)",
        "try:",
        "    hvd.allreduce(numpy.ones(1))",
        "finally:",
        f"    atexit.register(open, {str(failed)!r}, 'w')",
    )
    program.write_text("\n".join(lines), encoding="ascii")
    where = ["--coordinator", coordinator.address, "--token-file", str(token)]
    run = start(str(harness.CLI), "run", "-np", "2", *where, sys.executable, str(program))
    run.require_end(3, START_SECONDS)
    assert re.search(r"worker 1 \(pid \d+, host \S+\) failed first, with exit code 3", run.output), run.output


def test_worker_killed_before_it_joins_ends_the_job(job: Callable[..., Program]) -> None:
    run = job(2, "absent", "killed")
    run.require_end(128 + signal.SIGKILL)
    assert "farandole: worker 1 (pid" in run.output, run.output


@pytest.mark.parametrize("kind", ("of its own coordinator", "elastic", "of a shared coordinator"))
def test_worker_that_ends_well_before_it_joins_ends_the_job_at_once(
    kind: str, start: Callable[..., Program], serve: Callable[..., Coordinator], tmp_path: pathlib.Path
) -> None:
    options = {
        "of its own coordinator": ["--state-dir", str(tmp_path / "state")],
        "elastic": ["--state-dir", str(tmp_path / "state"), "--min-np", "2"],
    }
    where = options[kind] if kind in options else serve().options()
    run = start(str(harness.CLI), "run", "-np", "2", *where, sys.executable, str(EARLY))
    run.require_end(1, START_SECONDS)
    ended = r"farandole: (?:the job has failed: )?worker 1 \(pid \d+\) ended with exit code 0 after [\d.]+ m?s, but job early waits for 1 "
    assert len(re.findall(ended, run.output)) == 1, run.output
    assert "operator" not in run.output, run.output


def test_worker_that_ends_well_before_it_joins_others_in_a_job_of_their_own_ends_the_run(
    start: Callable[..., Program], tmp_path: pathlib.Path
) -> None:
    command = [sys.executable, str(EARLY), "0-1", "2-3"]
    run = start(str(harness.CLI), "run", "-np", "4", "--state-dir", str(tmp_path), *command)
    run.require_end(1, START_SECONDS)
    ended = r"farandole: (?:the job has failed: )?worker 1 \(pid \d+\) ended with exit code 0 after [\d.]+ m?s, but job early\.0-1 waits for 1 "
    assert len(re.findall(ended, run.output)) == 1, run.output


AWAITED = (
    r"farandole: worker 1 \(pid \d+[^)]*\) ended with exit code 0 after [\d.]+ m?s, but job early waits for 1 of 2 workers: "
    r".*; the job keeps waiting, because more workers may join"
)


def test_worker_that_ends_well_before_it_joins_is_told_where_hosts_may_still_be_found(
    start: Callable[..., Program], tmp_path: pathlib.Path
) -> None:
    listed = tmp_path / "listed"
    listed.write_text("localhost:2\n", encoding="ascii")
    options = ["--state-dir", str(tmp_path / "state"), "--host-discovery-script", f"cat {listed}", "--max-np", "3"]
    run = start(str(harness.CLI), "run", "-np", "2", "--min-np", "2", *options, sys.executable, str(EARLY))
    run.expect(AWAITED)
    listed.write_text("localhost:3\n", encoding="ascii")
    run.require_end(0, START_SECONDS)
    assert len(re.findall("ended with exit code 0", run.output)) == 1, run.output
    assert "[0] joined a job of 2\n" in run.output and "[2] joined a job of 2\n" in run.output, run.output


def test_worker_that_ends_well_before_it_joins_is_told_where_another_launch_may_bring_more(
    start: Callable[..., Program], serve: Callable[..., Coordinator]
) -> None:
    options = serve().options("--min-np", "2", "--max-np", "3")
    command = [sys.executable, str(EARLY)]
    first = start(str(harness.CLI), "run", "-np", "2", *options, *command)
    first.expect(AWAITED)
    second = start(str(harness.CLI), "run", "-np", "2", "--attach", *options, *command)
    for run in (first, second):
        run.require_end(0, START_SECONDS)
        assert re.search(r"\[[01]\] joined a job of [23]\n", run.output), run.output
    assert len(re.findall("ended with exit code 0", first.output)) == 1, first.output


@pytest.fixture
def draining(
    job: Callable[..., Program], serve: Callable[..., Coordinator], tmp_path: pathlib.Path
) -> "tuple[Coordinator, Program]":
    """A coordinator that was told to end while a job steps, and that job."""
    coordinator = serve()
    run = job(2, "stepping", tmp_path, options=coordinator.options())
    expect_steps(run, 2)
    coordinator.program.signal(signal.SIGTERM)
    coordinator.program.expect("SIGTERM: draining", SOON_SECONDS)
    return coordinator, run


def test_coordinator_drains_at_sigterm(draining: "tuple[Coordinator, Program]", tmp_path: pathlib.Path) -> None:
    coordinator, run = draining
    expect_steps(run, 2, since=len(run.output))
    (tmp_path / "stop").touch()
    run.require_end(0)
    coordinator.program.require_end(0)


def test_a_second_signal_ends_the_draining_and_the_job_goes_on(
    draining: "tuple[Coordinator, Program]", tmp_path: pathlib.Path
) -> None:
    coordinator, run = draining
    coordinator.program.signal(signal.SIGTERM)
    coordinator.program.expect("SIGTERM: the grace period is over", SOON_SECONDS)
    # Sooner than the grace of 20 s, at which it would end with the job still there.
    coordinator.program.require_end(0, 15)
    expect_steps(run, 2, since=len(run.output))
    (tmp_path / "stop").touch()
    run.require_end(0)
