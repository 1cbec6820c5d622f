"""Elastic jobs of real processes: for every worker that is killed, stopped, drained or added, no step is lost or done
twice."""

import os
import pathlib
import signal
import sys
from typing import Callable

import harness
import pytest
from coordinators import Coordinator
from elastic_jobs import ElasticJob
from programs_run import START_SECONDS, Program

# Of a coordinator that does not take a busy machine for a loss: its peers miss a killed worker at once.
PATIENT = {"FARANDOLE_SILENCE_LIMIT_MS": "8000"}

Start = Callable[..., Program]
Serve = Callable[..., Coordinator]


def kill(worker: Program) -> None:
    os.kill(worker.pid, signal.SIGKILL)
    worker.end()


def finish(job: ElasticJob, directory: pathlib.Path, size: int, *indices: int) -> None:
    """Has the job stop; fails unless these workers, all of its epoch, have each step once and end in order."""
    (directory / "stop").touch()
    job.expect(rf"done after \d+ steps, in an epoch of {size}$", *indices)
    job.require_end(0, *indices)


@pytest.mark.parametrize("victims", ((0,), (2,), (0, 3), (1, 2)), ids=str)
def test_killed_workers_are_gone_without(
    victims: "tuple[int, ...]", start: Start, serve: Serve, tmp_path: pathlib.Path
) -> None:
    job = ElasticJob(start, serve(**PATIENT), "elastic_stepping", tmp_path, sizes=(1, 4, 4))
    job.expect_steps(4, 0, 1, 2, 3)
    for victim in victims:
        os.kill(job.workers[victim].pid, signal.SIGKILL)
    left = sorted({0, 1, 2, 3} - set(victims))
    job.expect_steps(len(left), *left)
    for rank, index in enumerate(left):
        assert f"epoch of {len(left)} as rank {rank} from step " in job.workers[index].output, (
            "survivors keep their order"
        )
    finish(job, tmp_path, len(left), *left)


@pytest.mark.parametrize("place", ("sync", "reset", "step"))
def test_worker_may_die_anywhere(place: str, start: Start, serve: Serve, tmp_path: pathlib.Path) -> None:
    job = ElasticJob(start, serve(**PATIENT), "elastic_stepping", tmp_path, "--die", place, sizes=(1, 4, 4))
    job.expect_steps(4, 0, 1, 2, 3)
    (tmp_path / "die-0").touch()  # while the loss of worker 3 is dealt with, or at once
    kill(job.workers[3])
    job.expect_steps(2, 1, 2)
    finish(job, tmp_path, 2, 1, 2)


def test_worker_may_die_while_its_epoch_is_left(start: Start, serve: Serve, tmp_path: pathlib.Path) -> None:
    job = ElasticJob(start, serve(**PATIENT), "elastic_stepping", tmp_path, "--die", "save", sizes=(1, 3, 4))
    job.expect_steps(3, 0, 1, 2)
    (tmp_path / "die-0").touch()
    job.add()  # the worker for which all leave
    job.expect_steps(3, 1, 2, 3)
    finish(job, tmp_path, 3, 1, 2, 3)


def test_job_that_falls_below_its_minimum_waits_and_goes_on(start: Start, serve: Serve, tmp_path: pathlib.Path) -> None:
    job = ElasticJob(start, serve(**PATIENT), "elastic_stepping", tmp_path, sizes=(3, 3, 3))
    job.expect_steps(3, 0, 1, 2)
    kill(job.workers[0])
    job.add()
    job.expect_steps(3, 1, 2, 3)
    assert "epoch of 3 as rank 2 from step " in job.workers[3].output, "newcomers stand behind survivors"
    assert "epoch of 2" not in job.workers[1].output
    finish(job, tmp_path, 3, 1, 2, 3)


def test_newcomer_gets_the_state(start: Start, serve: Serve, tmp_path: pathlib.Path) -> None:
    job = ElasticJob(start, serve(**PATIENT), "elastic_stepping", tmp_path, sizes=(1, 2, 3))
    job.expect_steps(2, 0, 1)
    job.add()
    job.expect_steps(3, 0, 1, 2)
    assert "epoch of 3 as rank 2 from step 0" not in job.workers[2].output
    finish(job, tmp_path, 3, 0, 1, 2)


def test_spare_ends_in_order_with_its_job(start: Start, serve: Serve, tmp_path: pathlib.Path) -> None:
    job = ElasticJob(start, serve(**PATIENT), "elastic_stepping", tmp_path, sizes=(1, 2, 2))
    job.expect_steps(2, 0, 1)
    job.add()
    job.expect_steps(2, 0, 1)
    finish(job, tmp_path, 2, 0, 1)
    job.require_end(0, 2)
    assert "farandole: " in job.workers[2].output and "Traceback" not in job.workers[2].output


def test_spare_takes_the_place_of_a_killed_worker(start: Start, serve: Serve, tmp_path: pathlib.Path) -> None:
    job = ElasticJob(start, serve(**PATIENT), "elastic_stepping", tmp_path, sizes=(2, 2, 2))
    job.expect_steps(2, 0, 1)
    job.add()
    job.expect_steps(2, 0, 1)
    kill(job.workers[0])
    job.expect_steps(2, 1, 2)
    finish(job, tmp_path, 2, 1, 2)


def test_stopped_worker_is_gone_without_and_comes_back_as_a_newcomer(
    start: Start, serve: Serve, tmp_path: pathlib.Path
) -> None:
    job = ElasticJob(start, serve(), "elastic_stepping", tmp_path, sizes=(1, 3, 3))
    job.expect_steps(3, 0, 1, 2)
    os.kill(job.workers[0].pid, signal.SIGSTOP)
    job.expect_steps(2, 1, 2)
    os.kill(job.workers[0].pid, signal.SIGCONT)
    job.expect_steps(3, 0, 1, 2)
    assert job.workers[0].output.count("as rank 0 from step ") == 1, "it stands behind the survivors"
    finish(job, tmp_path, 3, 0, 1, 2)


def test_terminated_worker_leaves_in_order(start: Start, serve: Serve, tmp_path: pathlib.Path) -> None:
    job = ElasticJob(start, serve(**PATIENT), "elastic_stepping", tmp_path, sizes=(1, 3, 3))
    job.expect_steps(3, 0, 1, 2)
    job.workers[1].signal(signal.SIGTERM)
    job.require_end(0, 1)
    assert "farandole: SIGTERM" in job.workers[1].output and "Traceback" not in job.workers[1].output
    job.expect_steps(2, 0, 2)
    finish(job, tmp_path, 2, 0, 2)


def test_second_sigterm_ends_the_process(start: Start, serve: Serve, tmp_path: pathlib.Path) -> None:
    job = ElasticJob(start, serve(**PATIENT), "elastic_stepping", tmp_path, sizes=(1, 2, 2))
    job.expect_steps(2, 0, 1)
    os.kill(job.workers[0].pid, signal.SIGSTOP)  # so that worker 1 does not come to a commit
    job.workers[1].signal(signal.SIGTERM)
    job.expect("farandole: SIGTERM", 1)
    job.workers[1].signal(signal.SIGTERM)
    job.require_end(-signal.SIGTERM, 1)
    os.kill(job.workers[0].pid, signal.SIGCONT)
    job.expect_steps(1, 0)
    finish(job, tmp_path, 1, 0)


def test_every_sample_counts_once_in_each_pass(start: Start, serve: Serve, tmp_path: pathlib.Path) -> None:
    job = ElasticJob(start, serve(**PATIENT), "elastic_training", tmp_path, sizes=(1, 3, 4))
    job.expect_steps(3, 0, 1, 2)
    job.add()
    job.expect_steps(4, 0, 1, 2, 3)
    for victim in (0, 2):
        kill(job.workers[victim])
        left = sorted({1, 2, 3} - {victim})
        job.expect_steps(len(left), *left)
    job.workers[3].signal(signal.SIGTERM)
    job.require_end(0, 3)
    job.expect_steps(1, 1)
    (tmp_path / "stop").touch()
    job.expect(r"done after \d+ passes, in an epoch of 1$", 1)
    job.require_end(0, 1)


@pytest.mark.parametrize("op", ("Average", "Adasum"))
def test_every_pass_counts_once_in_an_optimizer_of_pytorch(
    op: str, start: Start, serve: Serve, tmp_path: pathlib.Path
) -> None:
    job = ElasticJob(start, serve(**PATIENT), "elastic_gradients", tmp_path, op, sizes=(1, 1, 3))
    job.expect("step 20 of 1$", 0)  # it has its second group, and newcomers come with both
    job.add()
    job.expect_steps(2, 0, 1)
    job.add()
    job.expect_steps(3, 0, 1, 2)
    kill(job.workers[1])
    job.expect_steps(2, 0, 2)
    finish(job, tmp_path, 2, 0, 2)


def test_process_sets_of_init_are_there_in_each_epoch_that_has_their_ranks(
    start: Start, serve: Serve, tmp_path: pathlib.Path
) -> None:
    job = ElasticJob(start, serve(**PATIENT), "elastic_sets", tmp_path, sizes=(2, 3, 3))
    job.expect(r"epoch of 3 with sets \[\[0\], \[1, 2\], \[0, 1\]\]", 0, 1, 2)
    kill(job.workers[1])
    job.expect(r"epoch of 2 with sets \[\[0\]\]", 0, 2)
    for gone in (r"\[1, 2\] \(the epoch has 2 ranks\)", r"\[0, 1\] \(add_process_set\(\) is to be called again\)"):
        job.expect(rf"UserWarning: process sets that are not included in this epoch: .*{gone}", 0, 2)
    job.add()
    job.expect(r"epoch of 3 with sets \[\[0\], \[1, 2\]\]", 0, 2, 3)
    (tmp_path / "stop").touch()
    job.expect("done", 0, 2, 3)
    job.require_end(0, 0, 2, 3)


def test_a_loss_while_init_registers_its_process_sets_ends_no_other_worker(
    start: Start, serve: Serve, tmp_path: pathlib.Path
) -> None:
    job = ElasticJob(start, serve(**PATIENT), "elastic_sets", tmp_path, sizes=(2, 3, 3), DIES_BEFORE_ITS_SETS="2")
    job.expect(r"epoch of 2 with sets \[\[0\]\]", 0, 1)
    job.add()
    job.expect(r"epoch of 3 with sets \[\[0\], \[1, 2\]\]", 0, 1, 3)
    (tmp_path / "stop").touch()
    job.require_end(0, 0, 1, 3)


def test_program_of_horovods_documentation_runs_with_its_import_changed(
    start: Start, serve: Serve, tmp_path: pathlib.Path
) -> None:
    job = ElasticJob(start, serve(**PATIENT), "../../python/programs/documented_elastic", 400, sizes=(1, 3, 3))
    job.expect(r"epoch \d+ of rank \d with 3 ranks", 0, 1, 2)
    kill(job.workers[0])
    job.expect(r"epoch \d+ of rank \d with 2 ranks", 1, 2)
    job.add()
    job.expect(r"epoch \d+ of rank \d with 3 ranks", 3)
    job.expect("done with 3 ranks", 1, 2, 3)
    job.require_end(0, 1, 2, 3)


def test_what_a_failed_launch_has_left_is_no_part_of_the_next(start: Start, tmp_path: pathlib.Path) -> None:
    program = tmp_path / "train.py"
    program.write_text("import os, farandole\nfarandole.init()\nassert 'WELL' in os.environ\n", encoding="ascii")
    launch = [str(harness.CLI), "run", "-np", "2", "--state-dir", str(tmp_path / "state")]
    command = [sys.executable, str(program)]
    # Each loss of the first one would count.
    elastic = ["--min-np", "1", "--reset-limit", "1"]
    failed = start(*launch, *elastic, *command)
    failed.require_end(1, START_SECONDS)
    for options in ((), elastic):
        well = start(*launch, *options, *command, WELL="1")
        well.require_end(0, START_SECONDS)
        assert "is lost" not in well.output, well.output


@pytest.mark.parametrize("elastic", (False, True))
def test_a_launch_after_a_killed_one_says_nothing_of_it(elastic: bool, start: Start, tmp_path: pathlib.Path) -> None:
    program = tmp_path / "train.py"
    lines = (
        "import os, signal, farandole",
        "farandole.init()",
        "print('is in', flush=True)",
        "if 'HOLD' in os.environ: signal.pause()",
    )
    program.write_text("\n".join(lines), encoding="ascii")
    options = ["--state-dir", str(tmp_path / "state"), *(["--min-np", "2"] if elastic else [])]
    launch = [str(harness.CLI), "run", "-np", "2", *options, sys.executable, str(program)]
    killed = start(*launch, HOLD="1")
    for rank in (0, 1):
        killed.expect(rf"\[{rank}\] is in", START_SECONDS)
    killed.signal(signal.SIGKILL)
    killed.require_nothing_left()
    run = start(*launch)
    run.require_end(0, START_SECONDS)
    assert sorted(run.output.splitlines()) == ["[0] is in", "[1] is in"], run.output
