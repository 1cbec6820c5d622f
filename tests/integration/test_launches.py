"""Launches with a shared coordinator: each has its job's name for itself, and its workers a credential of that run."""

import os
import pathlib
import re
import signal
import subprocess
import sys
from typing import Callable, List

import harness
import hosts
import pytest
from coordinators import Coordinator
from gates import Gate
from programs_run import SOON_SECONDS, Program

PROGRAMS = pathlib.Path(__file__).resolve().parent / "programs"
RUN = [str(harness.CLI), "run", "-np", "1"]
Start = Callable[..., Program]
Serve = Callable[..., Coordinator]


def _staying(gate: Gate) -> List[str]:
    # It never joins, as a program that reads its data before.
    return ["sh", "-c", f"echo staying; head -c 1 <{gate}"]


def _children(pid: int) -> List[int]:
    listed = subprocess.run(["pgrep", "-P", str(pid)], stdout=subprocess.PIPE, text=True, check=True).stdout
    return [int(line) for line in listed.split()]


def test_a_second_launch_of_a_name_is_told_who_runs_it_since_when(start: Start, serve: Serve, gate: Gate) -> None:
    options = serve().options("--job", "shared.name")
    first = start(*RUN, *options, *_staying(gate), USER="alice")
    first.expect(r"\[0\] staying")
    second = start(*RUN, *options, "echo", "started", USER="bob")
    second.require_end(1)
    refusal = (
        r"farandole: coordinator \S+ refused the launch of job shared\.name: job shared\.name is started by alice on "
        r"\S+ \(process \d+\), at 20\d\d-\d\d-\d\dT\d\d:\d\d:\d\dZ; this is another launch, by bob on \S+ \(process \d+\): "
        r"give the job another name \(--job\), or take part in that run \(--attach\)\n"
    )
    assert re.fullmatch(refusal, second.output), second.output
    start(*RUN, *options, "--attach", "echo", "takes part").require_end(0)
    # The end of a launch that takes part is not the end of the run.
    start(*RUN, *options, "echo", "started").require_end(1)
    first.signal(signal.SIGTERM)
    assert first.end() == 128 + signal.SIGTERM
    start(*RUN, *options, "echo", "started").require_end(0)


def test_elastic_launches_of_one_job_number_their_workers_apart(start: Start, serve: Serve, gate: Gate) -> None:
    options = serve().options("--job", "shared", "--min-np", "1", "--max-np", "2")
    first = start(*RUN, *options, "sh", "-c", f"echo index $FARANDOLE_LAUNCH_INDEX; head -c 1 <{gate}")
    assert first.expect(r"\[0\] index (\d+)").group(1) == "0"
    # None of the first one's workers has joined; the job does not form yet.
    second = start(*RUN, *options, "--attach", "sh", "-c", "echo index $FARANDOLE_LAUNCH_INDEX")
    index = int(second.expect(r"\[0\] index (\d+)").group(1))
    assert index > 0 and index % 65536 == 0, index
    second.require_end(0)
    gate.let_through(1)
    first.require_end(0)


def test_the_launch_of_workers_that_run_is_known_after_a_restart(
    job: Callable[..., Program], start: Start, serve: Serve, tmp_path: pathlib.Path
) -> None:
    coordinator = serve()
    options = coordinator.options("--job", "known")
    first = job(2, "stepping", tmp_path, options=options, USER="alice")
    first.expect(r"\[0\] step \d+")
    coordinator.program.signal(signal.SIGKILL)
    coordinator.program.end()
    serve(coordinator)
    second = start(*RUN, *options, "echo", "started", USER="bob")
    second.require_end(1)
    assert "job known is started by alice on " in second.output and "[0] started" not in second.output, second.output
    (tmp_path / "stop").touch()
    first.require_end(0)
    start(*RUN, *options, "echo", "started").require_end(0)


def test_workers_hold_a_credential_of_their_run_and_not_the_users_token(start: Start, serve: Serve, gate: Gate) -> None:
    coordinator = serve()
    script = f'stat -c "mode %a" $FARANDOLE_TOKEN_FILE; echo "file $FARANDOLE_TOKEN_FILE"; head -c 1 <{gate}'
    run = start(*RUN, *coordinator.options("--job", "mine"), "sh", "-c", script)
    run.expect(r"\[0\] mode 600")
    held = run.expect(r"\[0\] file (.*)").group(1)
    credential = pathlib.Path(held).read_text(encoding="ascii").strip()
    token = pathlib.Path(coordinator.token_file).read_text(encoding="ascii").strip()
    assert credential.startswith("fdl_j_") and token not in credential, credential
    where = ["--coordinator", coordinator.address, "--token-file", held]
    for command in (
        ["job", "list", *where],
        ["job", "show", *where, "mine"],
        ["run", *where, "-np", "1", "--attach", "--job", "mine", "true"],
    ):
        denied = start(str(harness.CLI), *command)
        assert denied.end() != 0
        of_the_run = "the credential of a run of job mine of tenant default is for its workers' calls only"
        assert of_the_run in denied.output and "no jobs" not in denied.output, denied.output
    gate.let_through(1)
    run.require_end(0)
    assert not os.path.exists(held)


def test_with_a_coordinator_of_its_own_workers_hold_a_credential_too(start: Start, tmp_path: pathlib.Path) -> None:
    state = tmp_path / "state"
    run = start(*RUN, "--state-dir", str(state), "sh", "-c", "head -c 6 $FARANDOLE_TOKEN_FILE; echo")
    run.require_end(0)
    assert "[0] fdl_j_\n" in run.output, run.output
    assert not (state / "credential").exists() and (state / "token").exists()


@pytest.mark.parametrize("which", ("guard", "launcher"))
def test_a_killed_launch_leaves_no_credential(which: str, start: Start, serve: Serve, gate: Gate) -> None:
    run = start(*RUN, *serve().options(), *_staying(gate))
    run.expect(r"\[0\] staying")
    (launcher,) = _children(run.pid)
    os.kill(run.pid if which == "guard" else launcher, signal.SIGKILL)
    assert run.end() != 0
    run.require_nothing_left()


def test_a_launch_waits_for_its_coordinator_and_a_signal_ends_that(
    start: Start, serve: Serve, tmp_path: pathlib.Path
) -> None:
    coordinator = serve()
    coordinator.program.signal(signal.SIGTERM)
    coordinator.program.require_end(0)
    waits = rf"farandole: coordinator {coordinator.address} does not answer yet; the launch waits for it for up to 10m"
    ended = start(*RUN, *coordinator.options(), "echo", "started")
    ended.expect(waits, SOON_SECONDS)
    ended.signal(signal.SIGTERM)
    ended.require_end(128 + signal.SIGTERM)
    given_up = start(*RUN, *coordinator.options("--start-timeout", "1"), "echo", "started")
    given_up.require_end(1)
    assert f"coordinator {coordinator.address} " in given_up.output and "started" not in given_up.output, (
        given_up.output
    )
    served = start(*RUN, *coordinator.options(), "sh", "-c", "head -c 6 $FARANDOLE_TOKEN_FILE; echo")
    served.expect(waits, SOON_SECONDS)
    serve(coordinator)
    served.require_end(0)
    assert "[0] fdl_j_\n" in served.output, served.output


def test_a_replacement_on_another_host_joins_with_the_credential(
    start: Start, serve: Serve, aliases: hosts.Aliases, tmp_path: pathlib.Path
) -> None:
    worker = (sys.executable, str(PROGRAMS / "elastic_stepping.py"), str(tmp_path))
    run = start(
        *(str(harness.CLI), "run", *serve().options("-np", "2", "--min-np", "1", "--max-np", "2")),
        *aliases.options(1, 1),
        *worker,
    )
    run.expect(r"step \d+ of 2")
    pids = subprocess.run(["pgrep", "-f", "^" + " ".join(worker)], stdout=subprocess.PIPE, text=True, check=True).stdout
    os.kill(int(pids.split()[0]), signal.SIGKILL)
    run.expect(r"worker 2 is started on host ")
    run.expect(r"\[2\] step \d+ of 2")
    (tmp_path / "stop").touch()
    run.require_end(0)
