"""Plain `mpirun` and `srun`: rank 0 brings the coordinator, which ends with it; nothing else has to be started."""

import os
import pathlib
import re
import shutil
import signal
import sys
from typing import Callable, Dict, List

import pytest
from programs_run import SOON_SECONDS, Program

PROGRAMS = pathlib.Path(__file__).parent / "programs"
# Its processes may be more than the machine's cores, and their user may be root, in a container.
MPIRUN = ["mpirun", "--oversubscribe"]
AS_ROOT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}

needs_mpirun = pytest.mark.skipif(shutil.which("mpirun") is None, reason="openmpi-bin is not installed")


def worker(name: str, *arguments: object) -> List[str]:
    """The command of one worker."""
    return [sys.executable, str(PROGRAMS / f"{name}.py"), *map(str, arguments)]


def step(rank: int, size: int, nodes: int = 1) -> Dict[str, str]:
    """What srun tells a process. Slurm itself needs its daemons, a database and a user of its own."""
    return {
        "SLURM_JOB_ID": "77",
        "SLURM_STEP_ID": "3",
        "SLURM_STEP_NUM_TASKS": str(size),
        "SLURM_STEP_NUM_NODES": str(nodes),
        "SLURM_PROCID": str(rank),
    }


@needs_mpirun
def test_mpirun_alone_starts_a_job(start: Callable[..., Program]) -> None:
    run = start(*MPIRUN, "-np", "4", *worker("over_hosts"), **AS_ROOT)
    run.require_end(0)
    # mpirun mixes the lines of its processes.
    assert run.output.count("sum 10.0 of 4 without TLS") == 4, run.output


@needs_mpirun
def test_a_killed_rank_zero_is_named_under_mpirun_and_nothing_stays(
    start: Callable[..., Program], tmp_path: pathlib.Path
) -> None:
    run = start(*MPIRUN, "-np", "2", *worker("stepping", tmp_path), **AS_ROOT)
    victim = int(run.expect(r"process (\d+)").group(1))
    run.expect(r"step \d+")
    os.kill(victim, signal.SIGKILL)
    assert run.end() != 0
    run.require_nothing_left()


def test_the_processes_of_a_step_of_slurm_are_one_job(start: Callable[..., Program], tmp_path: pathlib.Path) -> None:
    # They meet in the temporary directory, which the processes of a step on one host share.
    temporary = {"TMPDIR": str(tmp_path)}
    ranks = [start(*worker("over_hosts"), **step(rank, 3), **temporary) for rank in range(3)]
    for run in ranks:
        run.require_end(0)
        assert run.output == "sum 6.0 of 3 without TLS\n"
    meeting = list(tmp_path.glob("farandole-*"))
    assert len(meeting) == 1 and not list(meeting[0].iterdir()), "nothing is left in it"


def test_a_killed_rank_zero_is_named_before_its_coordinator_ends(
    start: Callable[..., Program], tmp_path: pathlib.Path
) -> None:
    temporary = {"TMPDIR": str(tmp_path)}
    ranks = [start(*worker("stepping", tmp_path), **step(rank, 2), **temporary) for rank in range(2)]
    for run in ranks:
        run.expect(r"step \d+")
    ranks[0].signal(signal.SIGKILL)
    ranks[1].expect(r"EpochEnded: .*rank 0\b", SOON_SECONDS)
    ranks[1].end()
    ranks[0].end()
    for run in ranks:
        run.require_nothing_left()


def test_several_hosts_are_refused_with_what_to_do_instead(
    start: Callable[..., Program], tmp_path: pathlib.Path
) -> None:
    run = start(*worker("over_hosts"), **step(0, 4, nodes=2), TMPDIR=str(tmp_path))
    run.require_end(1)
    assert re.search(r"srun has started 4 processes on several hosts.*`farandole run -H HOST:SLOTS", run.output)


def test_a_directory_that_others_can_write_is_refused(start: Callable[..., Program], tmp_path: pathlib.Path) -> None:
    meeting = tmp_path / f"farandole-{os.geteuid()}"
    meeting.mkdir()
    meeting.chmod(0o777)
    run = start(*worker("over_hosts"), **step(0, 2), TMPDIR=str(tmp_path))
    run.require_end(1)
    assert f"{meeting}, where the processes of this job would meet, is not a directory that only" in run.output


def test_a_program_that_is_not_found_is_said(start: Callable[..., Program], tmp_path: pathlib.Path) -> None:
    run = start(*worker("over_hosts"), **step(0, 2), TMPDIR=str(tmp_path), FARANDOLE_PROGRAM="/no/such/farandole")
    run.require_end(1)
    assert "cannot start the job's coordinator, /no/such/farandole: No such file or directory" in run.output
