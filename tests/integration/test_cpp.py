"""C++ programs in whole jobs: kill -9 of their ranks, and epochs that workers join and leave."""

import os
import pathlib
import re
import signal
from typing import Callable, Sequence

import harness
import pytest
from coordinators import Coordinator
from elastic_jobs import ElasticJob
from programs_run import SOON_SECONDS, START_SECONDS, Program

PROGRAMS = harness.ROOT / ".venv" / "lib" / "cpp"
# Of a coordinator that does not take a busy machine for a loss: its peers miss a killed worker at once.
PATIENT = {"FARANDOLE_SILENCE_LIMIT_MS": "8000"}

Start = Callable[..., Program]
Serve = Callable[..., Coordinator]


class CppElasticJob(ElasticJob):
    """An elastic job of a C++ program."""

    def command_of(self, name: str, arguments: Sequence[str]) -> "tuple[str, ...]":
        return (str(PROGRAMS / name), *arguments)


def run(start: Start, size: int, directory: pathlib.Path, hosts: int = 1, **environment: str) -> Program:
    """Starts a job of stepping.cc, which lasts until there is a file `stop`."""
    worker = harness.split(hosts, [str(PROGRAMS / "stepping"), str(directory)])
    launch = (str(harness.CLI), "run", "-np", str(size), "--state-dir", str(directory / "state"))
    return start(*launch, *worker, **environment)


def kill_rank(program: Program, victim: int, size: int) -> None:
    """Kills a rank when all of them have stepped."""
    for rank in range(size):
        program.expect(rf"\[{rank}\] step 50\n", START_SECONDS)
    pid = program.expect(rf"\[{victim}\] process (\d+)").group(1)
    os.kill(int(pid), signal.SIGKILL)


@pytest.mark.parametrize(
    ("size", "hosts", "transport", "victim"),
    ((3, 1, "auto", 0), (3, 1, "auto", 2), (2, 1, "tcp", 1), (4, 2, "auto", 2)),
)
def test_killed_rank_is_named_to_all_others(
    size: int, hosts: int, transport: str, victim: int, start: Start, tmp_path: pathlib.Path
) -> None:
    program = run(start, size, tmp_path, hosts, FARANDOLE_TRANSPORT=transport)
    kill_rank(program, victim, size)
    for rank in set(range(size)) - {victim}:
        program.expect(rf"\[{rank}\] code 10: .*rank {victim}\b", SOON_SECONDS)
    program.require_end(128 + signal.SIGKILL, SOON_SECONDS)


def test_job_of_a_cpp_program_ends_in_order(start: Start, tmp_path: pathlib.Path) -> None:
    program = run(start, 2, tmp_path)
    program.expect(r"\[0\] step 50\n", START_SECONDS)
    (tmp_path / "stop").touch()
    program.require_end(0, SOON_SECONDS)
    assert len(re.findall(r"\[\d\] done", program.output)) == 2, program.output


def finish(job: ElasticJob, directory: pathlib.Path, size: int, *indices: int) -> None:
    """Has the job stop; fails unless these workers, all of its epoch, have each step once and end in order."""
    (directory / "stop").touch()
    job.expect(rf"done after \d+ steps, in an epoch of {size}$", *indices)
    job.require_end(0, *indices)


def test_elastic_job_outlives_killed_workers_and_takes_newcomers(
    start: Start, serve: Serve, tmp_path: pathlib.Path
) -> None:
    job = CppElasticJob(start, serve(**PATIENT), "elastic_stepping", tmp_path, sizes=(1, 3, 4))
    job.expect_steps(3, 0, 1, 2)
    os.kill(job.workers[0].pid, signal.SIGKILL)
    job.expect_steps(2, 1, 2)
    assert "epoch of 2 as rank 0 from step " in job.workers[1].output, "survivors keep their order"
    job.add()
    job.expect_steps(3, 1, 2, 3)
    assert "epoch of 3 as rank 2 from step 0" not in job.workers[3].output, "a newcomer gets the state"
    finish(job, tmp_path, 3, 1, 2, 3)


def test_elastic_job_over_hosts_outlives_a_killed_worker(start: Start, serve: Serve, tmp_path: pathlib.Path) -> None:
    # The first host has the workers 0 and 1, the second one 2 and 3: state and steps cross the network.
    places = [("env", f"FARANDOLE_HOST_ID={index // 2}") for index in range(4)]
    job = CppElasticJob(start, serve(**PATIENT), "elastic_stepping", tmp_path, sizes=(1, 3, 4), prefixes=places)
    job.expect_steps(3, 0, 1, 2)
    os.kill(job.workers[0].pid, signal.SIGKILL)
    job.expect_steps(2, 1, 2)
    job.add()
    job.expect_steps(3, 1, 2, 3)
    assert "epoch of 3 as rank 2 from step 0" not in job.workers[3].output, "a newcomer gets the state"
    finish(job, tmp_path, 3, 1, 2, 3)


def test_terminated_worker_leaves_in_order(start: Start, serve: Serve, tmp_path: pathlib.Path) -> None:
    job = CppElasticJob(start, serve(**PATIENT), "elastic_stepping", tmp_path, sizes=(1, 3, 3))
    job.expect_steps(3, 0, 1, 2)
    job.workers[1].signal(signal.SIGTERM)
    job.require_end(0, 1)
    assert "farandole: SIGTERM" in job.workers[1].output, job.workers[1].output
    job.expect_steps(2, 0, 2)
    finish(job, tmp_path, 2, 0, 2)


def test_spare_ends_in_order_with_its_job(start: Start, serve: Serve, tmp_path: pathlib.Path) -> None:
    job = CppElasticJob(start, serve(**PATIENT), "elastic_stepping", tmp_path, sizes=(1, 2, 2))
    job.expect_steps(2, 0, 1)
    job.add()
    finish(job, tmp_path, 2, 0, 1)
    job.require_end(0, 2)
