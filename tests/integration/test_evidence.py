"""Real jobs that stand still or die: which collective was finished last, which is missing on whom, and what each rank does."""

import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tarfile
from typing import Any, Callable, Dict

import harness
import pytest
from coordinators import Coordinator
from hosts import Namespaces
from programs_run import SOON_SECONDS, START_SECONDS, Program
from test_diagnosis import pid_of, show

PROGRAMS = pathlib.Path(__file__).parent / "programs"
WORKERS = 3
# The fault is in the last rank.
MISSING = (
    r"rank 2 finished 'grad\.17' \(batch \d+\) last and has not submitted allreduce 'grad\.18', for which ranks 0,1 "
    r"wait since \d+\.\d s"
)


def tool(coordinator: Coordinator, command: str, *arguments: str) -> str:
    """The output of a command of farandole's about the coordinator's jobs."""
    ran = subprocess.run(
        [str(harness.CLI), command, *coordinator.options(*arguments)],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    return ran.stdout


def stacks_of(coordinator: Coordinator, job: str) -> Dict[int, Any]:
    """The evidence of each rank, by `farandole diagnose --json`."""
    answer = json.loads(tool(coordinator, "diagnose", job, "--json"))
    return {one.get("rank", 0): one.get("evidence", {}) for one in answer["ranks"]}


@pytest.mark.parametrize("end", (signal.SIGKILL, signal.SIGSTOP))
def test_of_a_dead_rank_the_last_collective_is_told(
    end: int, serve: Callable[..., Coordinator], job: Callable[..., Program]
) -> None:
    coordinator = serve()
    run = job(WORKERS, "stuck", "sleep", options=coordinator.options("--job", "dead"))
    run.expect("stuck", START_SECONDS)
    os.kill(pid_of(coordinator, "dead", 2), end)
    run.expect(f"farandole: {MISSING}\n", START_SECONDS)
    assert run.end() != 0
    run.require_nothing_left()
    found = show(coordinator, "dead")
    assert "has not submitted allreduce 'grad.18'" in found["flight"], found
    assert found["flight"] in [entry["sentence"] for entry in found["history"]], found
    told = tool(coordinator, "diagnose", "dead")
    assert found["flight"] in told and "ranks 0,1 --- allreduce 'grad.18'" in told and "--> rank 2" in told, told


def test_of_a_rank_that_waits_in_python_the_line_is_shown(
    serve: Callable[..., Coordinator], job: Callable[..., Program], tmp_path: pathlib.Path
) -> None:
    coordinator = serve()
    run = job(WORKERS, "stuck", "sleep", options=coordinator.options("--job", "sleep"))
    run.expect("stuck", START_SECONDS)
    archive = tmp_path / "evidence.tar.gz"
    told = tool(coordinator, "diagnose", "sleep", "--archive", str(archive))
    assert "rank 2 finished 'grad.17'" in told and "has not submitted allreduce 'grad.18'" in told, told
    outlier = told[told.index("stack of rank 2,") :]
    assert "load_batch (" in outlier and "stuck.py:" in outlier, told
    assert "stack of ranks 0,1 (most)" in told, told
    check_the_archive(archive, pathlib.Path(coordinator.token_file).read_text(encoding="utf-8").strip())
    # It was not stopped or changed by it, and can be asked again.
    assert "load_batch (" in tool(coordinator, "diagnose", "sleep")
    run.signal(signal.SIGINT)
    run.end()


def check_the_archive(archive: pathlib.Path, token: str) -> None:
    """It has everything, and no secret."""
    with tarfile.open(archive) as tar:
        texts = {pathlib.Path(name).name: tar.extractfile(name).read().decode() for name in tar.getnames()}  # type: ignore[union-attr]
    assert sorted(texts) == ["README.txt", "diagnosis.json", "job.json", "rank-0.json", "rank-1.json", "rank-2.json"]
    assert not any(token in text for text in texts.values())
    one = json.loads(texts["rank-2.json"])["evidence"]
    assert "load_batch" in [frame["function"] for frame in one["threads"][0]["frames"]], one
    assert any(setting.startswith("farandole=") for setting in one["settings"]), one
    assert any(setting.startswith("kernel=Linux") for setting in one["settings"]), one
    assert len(one["flight"]["records"]) > 20, one
    assert one["kernel_threads"][0]["state"] == "sleeping", one


def test_of_a_rank_that_keeps_the_interpreters_lock_in_c_the_caller_is_shown(
    serve: Callable[..., Coordinator], job: Callable[..., Program]
) -> None:
    coordinator = serve()
    run = job(WORKERS, "stuck", "native", options=coordinator.options("--job", "native"))
    run.expect("stuck", START_SECONDS)
    evidence = stacks_of(coordinator, "native")
    assert evidence[2]["threads"][0]["frames"][0]["function"] == "wait_in_c", evidence[2]
    assert "without the interpreter's lock" in evidence[2]["about_stacks"], evidence[2]
    assert "with the interpreter's lock" in evidence[0]["about_stacks"], evidence[0]
    native = [frame["function"] for frame in evidence[2]["threads"][0]["native_frames"]]
    assert "sleep" in native and not any("PyEval" in name for name in native), evidence[2]
    assert "which stopped each thread for" in evidence[2]["about_native_stacks"], evidence[2]
    outlier = tool(coordinator, "diagnose", "native").partition("stack of rank 2,")[2]
    assert re.search(r"  sleep \(.*  wait_in_c \(.*stuck\.py:", outlier, re.DOTALL), outlier
    run.signal(signal.SIGINT)
    run.end()


def test_without_native_stacks_the_reason_is_shown(
    serve: Callable[..., Coordinator], job: Callable[..., Program]
) -> None:
    coordinator = serve()
    run = job(2, "stuck", "sleep", options=coordinator.options("--job", "off"), FARANDOLE_NATIVE_STACKS="0")
    run.expect("stuck", START_SECONDS)
    told = tool(coordinator, "diagnose", "off")
    assert "ranks 0,1: no native stacks: FARANDOLE_NATIVE_STACKS is 0: native stacks are not read\n" in told, told
    assert "load_batch (" in told, told
    run.signal(signal.SIGINT)
    run.end()


def test_a_program_in_cpp_is_shown_in_its_functions(
    serve: Callable[..., Coordinator], start: Callable[..., Program]
) -> None:
    coordinator = serve()
    program = str(harness.ROOT / ".venv" / "lib" / "cpp" / "hanging")
    run = start(str(harness.CLI), "run", "-np", str(WORKERS), *coordinator.options("--job", "cpp"), program)
    run.expect("stuck", START_SECONDS)
    told = tool(coordinator, "diagnose", "cpp")
    most, _, outlier = told.partition("stack of rank 2, read by ptrace")
    assert "stack of ranks 0,1 (most), read by ptrace" in most and "::Train (" in most, told
    assert "::LoadBatch (" in outlier and "  main (" in outlier, told
    assert "LoadBatch" not in most, told
    # It was not stopped or changed by it, and can be asked again.
    assert "::LoadBatch (" in tool(coordinator, "diagnose", "cpp")
    run.signal(signal.SIGINT)
    run.end()


def test_a_stall_is_looked_into_once_and_told_when_the_job_is_over(
    serve: Callable[..., Coordinator], job: Callable[..., Program]
) -> None:
    coordinator = serve()
    options = coordinator.options("--job", "stall")
    run = job(WORKERS, "stuck", "sleep", options=options, FARANDOLE_STALL_WARNING_MS="1000")
    run.expect("stuck", START_SECONDS)
    coordinator.program.expect("at the stall, rank 2 finished 'grad", SOON_SECONDS)
    assert "at the last stall, rank 2 finished 'grad.17'" in show(coordinator, "stall")["flight"]
    run.signal(signal.SIGINT)
    run.end()
    for told in (tool(coordinator, "diagnose", "stall"), tool(coordinator, "diagnose", "stall", "--last-stall")):
        assert "has not submitted allreduce 'grad.18'" in told, told
        outlier = told[told.index("stack of rank 2,") :]
        assert "load_batch (" in outlier and "when the job stalled" in told, told


def test_ranks_of_two_hosts_are_diagnosed_alike_and_read_when_they_are_dead(
    start: Callable[..., Program], two_hosts: Namespaces
) -> None:
    stuck = [sys.executable, str(PROGRAMS / "stuck.py"), "sleep"]
    run = start(str(harness.CLI), "run", "--job", "far", *two_hosts.options(1, 2), *stuck)
    run.expect("stuck", START_SECONDS)

    def diagnose(*options: str) -> str:
        """The launch's own coordinator is found in its state directory."""
        environment = {**os.environ, "XDG_STATE_HOME": str(run.directory / "state"), "HOME": str(run.directory)}
        return subprocess.check_output(
            [str(harness.CLI), "diagnose", "far", *options], env=environment, text=True, timeout=60
        )

    told = diagnose()
    assert "rank 2 finished 'grad.17'" in told and "3 ranks, 3 asked" in told, told
    assert "stack of ranks 0,1 (most)" in told and "load_batch (" in told, told
    ranks = {one.get("rank", 0): one["evidence"]["flight"] for one in json.loads(diagnose("--json"))["ranks"]}
    os.kill(int(ranks[2]["pid"]), signal.SIGKILL)
    run.expect(f"farandole: {MISSING}\n", START_SECONDS)
    assert run.end() != 0


def test_a_rank_that_skips_a_collective_is_told_apart(
    serve: Callable[..., Coordinator], job: Callable[..., Program]
) -> None:
    coordinator = serve()
    run = job(WORKERS, "stuck", "skip", options=coordinator.options("--job", "skip"))
    run.expect("stuck", START_SECONDS)
    told = tool(coordinator, "diagnose", "skip")
    assert "waits in 'grad.17' itself and has not submitted allreduce 'grad.18', for which ranks 0,1 wait" in told, told
    assert "ranks 0,1 --- allreduce 'grad.18'" in told and "rank 2 --- allreduce 'grad.17'" in told, told
    top = tool(coordinator, "top", "skip", "--once")
    assert "job skip, running" in top and "RANK" in top, top
    assert json.loads(tool(coordinator, "top", "skip", "--json"))["job"] == "skip"
    assert "skip" in tool(coordinator, "top"), "in a pipe it prints once"
    run.signal(signal.SIGINT)
    run.end()
