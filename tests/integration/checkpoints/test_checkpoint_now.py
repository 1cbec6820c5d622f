"""Somebody asks a running job for a checkpoint: all its ranks are told at the same call, and who asked hears of it."""

import json
import os
import pathlib
import re
import signal
import subprocess
from typing import Any, Callable, List

import harness
from coordinators import Coordinator
from elastic_jobs import ElasticJob
from gates import Gate
from programs_run import START_SECONDS, Program
from test_diagnosis import pid_of

# Of a coordinator that does not take a rank that a test has stopped, or a busy machine, for a loss.
PATIENT = {"FARANDOLE_SILENCE_LIMIT_MS": "20000"}

Start = Callable[..., Program]
Serve = Callable[..., Coordinator]


def checkpoint_words(coordinator: Coordinator, job: str, *more: str) -> List[str]:
    return [str(harness.CLI), "job", "checkpoint", job, *coordinator.options(*more)]


def ask(coordinator: Coordinator, job: str, *more: str) -> "subprocess.CompletedProcess[str]":
    """`farandole job checkpoint`."""
    words = checkpoint_words(coordinator, job, *more)
    return subprocess.run(words, capture_output=True, text=True, timeout=START_SECONDS, check=False)


def wanted(coordinator: Coordinator, job: str) -> Any:
    """The last request, as the job's view has it."""
    words = [str(harness.CLI), "job", "show", job, "--json", *coordinator.options()]
    shown = json.loads(subprocess.check_output(words, text=True, timeout=START_SECONDS))
    return shown.get("wanted_checkpoint")


def told_steps(output: str) -> List[int]:
    return [int(step) for step in re.findall(r"told at step (\d+) of", output)]


def test_all_ranks_are_told_at_the_same_call(serve: Serve, job: Callable[..., Program], tmp_path: pathlib.Path) -> None:
    coordinator = serve(**PATIENT)
    run = job(3, "asked_checkpoint", tmp_path, "--times", 3, options=coordinator.options("--job", "asked"))
    for _ in range(3):
        run.expect("runs as rank")
    steps = []
    for _ in range(3):
        done = ask(coordinator, "asked", "--wait")
        assert done.returncode == 0, done
        found = re.fullmatch(r"job asked: checkpoint of step (\d+) is written: (\S+)\n", done.stdout)
        assert found, done.stdout
        assert pathlib.Path(found.group(2)).read_text(encoding="utf-8") == "weights"
        steps.append(int(found.group(1)))
    run.require_end(0)
    assert steps == sorted(set(steps)), "each request is a checkpoint of its own"
    told = told_steps(run.output)
    assert sorted(told) == sorted(3 * steps), "each rank was told once a request, at the step of the checkpoint"
    last = wanted(coordinator, "asked")
    assert (last["state"], last["serial"], last["checkpoint"]["step"]) == ("written", 3, steps[-1])
    history = subprocess.check_output(
        [str(harness.CLI), "job", "show", "asked", *coordinator.options()], text=True, timeout=START_SECONDS
    )
    assert "asks the program for a checkpoint" in history and "written at step" in history, history


def test_twice_asked_is_one_checkpoint_also_over_a_coordinator_that_is_killed(
    serve: Serve, job: Callable[..., Program], tmp_path: pathlib.Path
) -> None:
    coordinator = serve(**PATIENT)
    run = job(3, "asked_checkpoint", tmp_path, options=coordinator.options("--job", "asked"))
    for _ in range(3):
        run.expect("runs as rank")
    # While a rank stands still, no other can be told.
    stopped = pid_of(coordinator, "asked", 2)
    os.kill(stopped, signal.SIGSTOP)
    assert ask(coordinator, "asked").stdout.startswith("job asked: its program is asked for a checkpoint")
    assert "a checkpoint was asked for already, by token" in ask(coordinator, "asked").stdout
    pending = wanted(coordinator, "asked")
    assert (pending["state"], pending["times"], pending["told_unix_ms"]) == ("pending", 2, 0)
    coordinator.program.signal(signal.SIGKILL)
    coordinator.program.end()
    again = serve(coordinator, **PATIENT)
    assert wanted(again, "asked") == pending
    os.kill(stopped, signal.SIGCONT)
    run.require_end(0)
    told = told_steps(run.output)
    assert len(told) == 3 and len(set(told)) == 1, told
    done = wanted(again, "asked")
    assert (done["state"], done["serial"], done["checkpoint"]["step"]) == ("written", 1, told[0])


def test_a_request_outlives_a_rank_that_is_killed(start: Start, serve: Serve, tmp_path: pathlib.Path) -> None:
    coordinator = serve(**PATIENT)
    elastic = ElasticJob(start, coordinator, "asked_checkpoint", tmp_path, sizes=(2, 3, 3))
    elastic.expect("runs as rank . of 3", 0, 1, 2)
    os.kill(elastic.workers[0].pid, signal.SIGSTOP)
    assert ask(coordinator, "elastic").returncode == 0
    os.kill(elastic.workers[0].pid, signal.SIGKILL)
    elastic.expect("runs as rank . of 2", 1, 2)
    elastic.require_end(0, 1, 2)
    told = [told_steps(elastic.workers[index].output) for index in (1, 2)]
    assert told[0] == told[1] and len(told[0]) == 1, told
    done = wanted(coordinator, "elastic")
    assert (done["state"], done["checkpoint"]["step"], done["checkpoint"]["epoch"]) == ("written", told[0][0], 2)


def test_nobody_is_told_while_a_rank_has_joined(
    serve: Serve, job: Callable[..., Program], gate: Gate, tmp_path: pathlib.Path
) -> None:
    coordinator = serve(**PATIENT)
    run = job(3, "asked_apart", "joined", gate, tmp_path, options=coordinator.options("--job", "apart"))
    run.expect("goes on with 2 of 3")
    assert ask(coordinator, "apart").returncode == 0
    gate.let_through(2)
    run.require_end(0)
    assert run.output.count("told 0 times beside a rank that has joined") == 2, run.output
    told = re.findall(r"told at step (\d+)\n", run.output)
    assert len(told) == 3 and len(set(told)) == 1, run.output
    done = wanted(coordinator, "apart")
    assert (done["state"], done["checkpoint"]["step"]) == ("written", int(told[0]))


def test_a_call_that_a_signal_ended_has_its_answer_when_it_is_made_again(
    serve: Serve, job: Callable[..., Program], gate: Gate, tmp_path: pathlib.Path
) -> None:
    coordinator = serve(**PATIENT)
    run = job(2, "asked_apart", "interrupted", gate, tmp_path, options=coordinator.options("--job", "twice"))
    for rank in range(2):
        run.expect(f"runs as rank {rank}")
    waiting = pid_of(coordinator, "twice", 0)
    for number in range(1, 4):
        seen = 0
        while run.output.count("was interrupted") < number:
            os.kill(waiting, signal.SIGUSR1)
            run.expect("was interrupted|came early", since=seen)
            seen = len(run.output)
    assert ask(coordinator, "twice").returncode == 0
    gate.let_through(1)
    run.require_end(0)
    told = re.findall(r"told at step (\d+)\n", run.output)
    assert len(told) == 2 and len(set(told)) == 1, run.output
    assert wanted(coordinator, "twice")["checkpoint"]["step"] == int(told[0])


def test_who_asked_hears_why_there_is_none(serve: Serve, job: Callable[..., Program], tmp_path: pathlib.Path) -> None:
    coordinator = serve(**PATIENT)
    run = job(2, "asked_checkpoint", tmp_path, "--fails", options=coordinator.options("--job", "dry"))
    run.expect("runs as rank")
    done = ask(coordinator, "dry", "--wait")
    assert done.returncode == 1
    assert "job dry has written no checkpoint: the program could not write it: " in done.stderr, done
    assert "the ink is dry" in done.stderr, done
    run.require_end(0)
    late = ask(coordinator, "dry", "--wait")
    assert late.returncode == 1 and "job dry has ended already" in late.stderr, late


def test_a_program_that_never_asks_is_said_to(
    start: Start, serve: Serve, job: Callable[..., Program], tmp_path: pathlib.Path
) -> None:
    coordinator = serve(**PATIENT)
    (tmp_path / "silent").mkdir()
    run = job(2, "elastic_logs", tmp_path / "silent", options=coordinator.options("--job", "silent"))
    run.expect("from step 0")
    done = ask(coordinator, "silent", "--wait", "--timeout", "1")
    assert done.returncode == 1
    assert (
        "job silent: its program does not know of the request after 1 s: its ranks have not all called" in done.stderr
    )
    waits = start(*checkpoint_words(coordinator, "silent", "--wait"))
    while waits.is_running() and wanted(coordinator, "silent")["times"] < 2:
        pass  # each look is a process of its own
    (tmp_path / "silent" / "stop").touch()
    run.require_end(0)
    waits.expect("job silent has written no checkpoint: the job ended before: all 2 workers of epoch 1 left in order")
    waits.require_end(1)
    assert wanted(coordinator, "silent")["state"] == "failed"


def test_a_wait_outlives_the_coordinator_that_ends_with_its_job(
    start: Start, job: Callable[..., Program], tmp_path: pathlib.Path
) -> None:
    home = {"XDG_STATE_HOME": str(tmp_path / "home")}
    run = job(2, "asked_checkpoint", tmp_path, options=("--job", "own"), **home)
    run.expect("runs as rank")
    waits = start(str(harness.CLI), "job", "checkpoint", "own", "--wait", **home)
    run.expect("told at step")
    # The command does not see the checkpoint before the coordinator is gone.
    waits.signal(signal.SIGSTOP)
    run.require_end(0)
    waits.signal(signal.SIGCONT)
    waits.expect(rf"job own: checkpoint of step {told_steps(run.output)[0]} is written: ")
    waits.require_end(0)


def test_a_request_needs_the_right_and_is_audited(
    serve: Serve, job: Callable[..., Program], tmp_path: pathlib.Path
) -> None:
    coordinator = serve(**PATIENT)
    run = job(1, "asked_checkpoint", tmp_path, options=coordinator.options("--job", "alone"))
    run.expect("runs as rank 0 of 1")
    for role, why in (
        ("viewer", "may not end jobs, drain their workers or ask them for checkpoints"),
        ("launcher", "which may change its own jobs only"),
    ):
        token = tmp_path / role
        words = ("token", "create", "--tenant", "default", "--role", role, "--out", str(token))
        subprocess.check_call([str(harness.CLI), *words, *coordinator.options()], timeout=START_SECONDS)
        refused = subprocess.run(
            [str(harness.CLI), "job", "checkpoint", "alone", "--coordinator", coordinator.address]
            + ["--token-file", str(token)],
            capture_output=True,
            text=True,
            timeout=START_SECONDS,
            check=False,
        )
        assert refused.returncode == 1 and why in refused.stderr, refused
    assert wanted(coordinator, "alone") is None
    assert ask(coordinator, "alone", "--wait").returncode == 0
    run.require_end(0)
    words = ("audit", "tail", "--changes", "--json", "--state-dir", str(coordinator.state))
    lines = subprocess.check_output([str(harness.CLI), *words], text=True, timeout=START_SECONDS).splitlines()
    audited = [line for line in map(json.loads, lines) if line["method"] == "AdminService.RequestCheckpoint"]
    assert [(line["target"], line["outcome"]) for line in audited[-1:]] == [("job default/alone", "allowed")]
