"""Numbers that programs log, in real jobs: averages and ranks, by the command, over HTTP, in TensorBoard, and after every death."""

import csv
import io
import json
import os
import pathlib
import signal
import threading
import urllib.error
import urllib.request
from typing import Any, Callable, Dict, List, Optional, Tuple

import harness
import pytest
from coordinators import Coordinator
from elastic_jobs import ElasticJob
from programs_run import SOON_SECONDS, START_SECONDS, Program
from test_evidence import tool

WORKERS = 3
CPP_PROGRAMS = harness.ROOT / ".venv" / "lib" / "cpp"
Key = Tuple[str, Optional[int]]


def fetch(coordinator: Coordinator, path: str) -> bytes:
    """An answer of /api/v1."""
    token = pathlib.Path(coordinator.token_file).read_text(encoding="utf-8").strip()
    request = urllib.request.Request(f"http://{coordinator.http}{path}", headers={"Authorization": f"Bearer {token}"})
    with urllib.request.urlopen(request, timeout=30) as response:
        return bytes(response.read())


def curves(coordinator: Coordinator, job: str) -> Dict[Key, Any]:
    """The job's curves by name and rank."""
    listed = json.loads(tool(coordinator, "metrics", job, "--json"))
    assert listed["dropped"] == listed["refused"] == 0, listed
    return {(one["name"], one.get("rank")): one for one in listed["series"]}


def await_steps(coordinator: Coordinator, job: str, key: Key, step: int) -> Any:
    """The curve, once it reaches a step."""
    pause = threading.Event()
    for _ in range(START_SECONDS * 4):
        found = curves(coordinator, job).get(key)
        if found is not None and found["last_step"][-1] >= step:
            return found
        pause.wait(0.25)
    raise AssertionError(f"{key} does not reach step {step}: {curves(coordinator, job)}")


def check_loss(loss: Any, size: int) -> None:
    """Of steps of one width: the mean of step + rank over all ranks, each once."""
    before = -1
    for first, last, mean, count in zip(loss["first_step"], loss["last_step"], loss["mean"], loss["count"]):
        assert first == before + 1, loss
        assert count == size * (last - first + 1), (first, last, count, loss)
        assert mean == pytest.approx((first + last) / 2 + (size - 1) / 2), (first, last, mean)
        before = last


def read_events(folder: pathlib.Path) -> Dict[str, List[Tuple[int, float]]]:
    """The scalars that TensorBoard reads in a folder."""
    from tensorboard.backend.event_processing import event_accumulator

    accumulator = event_accumulator.EventAccumulator(str(folder), size_guidance={"scalars": 0, "tensors": 0})
    accumulator.Reload()
    scalars = {tag: [(e.step, e.value) for e in accumulator.Scalars(tag)] for tag in accumulator.Tags()["scalars"]}
    for tag in accumulator.Tags()["tensors"]:  # to which newer versions convert scalars
        scalars[tag] = [(e.step, float(e.tensor_proto.float_val[0])) for e in accumulator.Tensors(tag)]
    return scalars


def test_a_jobs_numbers_are_read_by_command_http_and_tensorboard(
    serve: Callable[..., Coordinator],
    job: Callable[..., Program],
    start: Callable[..., Program],
    tmp_path: pathlib.Path,
) -> None:
    coordinator = serve()
    run = job(WORKERS, "logs_numbers", tmp_path, "--torch", options=coordinator.options("--job", "logs"))
    run.expect("logs", START_SECONDS)
    await_steps(coordinator, "logs", ("loss", None), 30)
    (tmp_path / "stop").touch()
    steps = int(run.expect(r"done after (\d+) steps").group(1))
    run.require_end(0)
    # All that was logged is there when the job has ended.
    found = curves(coordinator, "logs")
    assert set(found) == {("loss", None), ("count", None), *(("time", rank) for rank in range(WORKERS))}, found
    check_loss(found["loss", None], WORKERS)
    assert found["loss", None]["last_step"][-1] == found["count", None]["last_step"][-1] == steps - 1
    assert set(found["time", 2]["mean"]) == {2.0}

    rows = list(
        csv.DictReader(io.StringIO(fetch(coordinator, "/api/v1/jobs/logs/metrics?format=csv&name=time").decode()))
    )
    assert {row["name"] for row in rows} == {"time"} and {row["rank"] for row in rows} == {"0", "1", "2"}, rows[:3]
    assert json.loads(fetch(coordinator, "/api/v1/jobs/logs/metrics?name=loss"))["series"] == [found["loss", None]]
    # A link that somebody else has put where the command writes leads nowhere.
    (tmp_path / "board" / "logs").mkdir(parents=True)
    (tmp_path / "theirs").write_text("kept")
    (tmp_path / "board" / "logs" / "events.out.tfevents.0.farandole.tmp").symlink_to(tmp_path / "theirs")
    told = tool(coordinator, "metrics", "logs", "--tensorboard", str(tmp_path / "board"))
    assert (tmp_path / "theirs").read_text() == "kept"
    assert f"{steps - 1}" in told and "loss" in told and "average" in told, told
    read = read_events(tmp_path / "board" / "logs")
    assert [step for step, _ in read["loss"]] == found["loss", None]["last_step"]
    assert [value for _, value in read["loss"]] == pytest.approx(found["loss", None]["mean"])
    assert set(read) == {"loss", "count"}
    assert {value for _, value in read_events(tmp_path / "board" / "logs.rank2")["time"]} == {2.0}

    # They go with the job.
    start(str(harness.CLI), "job", "delete", "logs", *coordinator.options()).require_end(0)
    with pytest.raises(urllib.error.HTTPError) as refused:
        fetch(coordinator, "/api/v1/jobs/logs/metrics")
    assert refused.value.code == 404


def test_a_killed_ranks_numbers_stay(
    serve: Callable[..., Coordinator], job: Callable[..., Program], tmp_path: pathlib.Path
) -> None:
    coordinator = serve()
    run = job(WORKERS, "logs_numbers", tmp_path, options=coordinator.options("--job", "killed"))
    pid = run.expect(r"\[1\] process (\d+)", START_SECONDS).group(1)
    reached = await_steps(coordinator, "killed", ("time", 1), 60)
    os.kill(int(pid), signal.SIGKILL)
    assert run.end() != 0
    found = curves(coordinator, "killed")
    assert found["time", 1]["last_step"][-1] >= reached["last_step"][-1]
    assert found["loss", None]["last_step"][-1] >= 60
    coordinator.program.signal(signal.SIGKILL)
    coordinator.program.end()
    assert curves(serve(coordinator), "killed") == found


def test_a_killed_coordinator_loses_and_doubles_nothing(
    serve: Callable[..., Coordinator], job: Callable[..., Program], tmp_path: pathlib.Path
) -> None:
    coordinator = serve()
    run = job(WORKERS, "logs_numbers", tmp_path, options=coordinator.options("--job", "restarted"))
    run.expect("logs", START_SECONDS)
    for _ in range(2):
        at = curves(coordinator, "restarted").get(("loss", None), {"last_step": [0]})["last_step"][-1]
        await_steps(coordinator, "restarted", ("loss", None), at + 100)
        coordinator.program.signal(signal.SIGKILL)
        coordinator.program.end()
        coordinator = serve(coordinator)
        coordinator.program.expect("everybody is back")
    await_steps(coordinator, "restarted", ("loss", None), 400)
    (tmp_path / "stop").touch()
    run.require_end(0)
    check_loss(curves(coordinator, "restarted")["loss", None], WORKERS)


def test_steps_that_an_epoch_repeats_have_its_values(
    serve: Callable[..., Coordinator], start: Callable[..., Program], tmp_path: pathlib.Path
) -> None:
    coordinator = serve()
    job = ElasticJob(start, coordinator, "elastic_logs", tmp_path, sizes=(1, 3, 3))
    job.expect_steps(3, 0, 1, 2)
    await_steps(coordinator, "elastic", ("epoch", None), 25)
    job.workers[2].signal(signal.SIGKILL)
    begun = int(job.workers[0].expect(r"epoch 2 from step (\d+)", START_SECONDS).group(1))
    job.expect(r"step \d+ of 2\b", 0, 1)
    (tmp_path / "stop").touch()
    job.require_end(0, 0, 1)
    found = curves(coordinator, "elastic")["epoch", None]
    for first, last, mean, epoch in zip(found["first_step"], found["last_step"], found["mean"], found["epoch"]):
        if last < begun:
            assert mean == 1.0, (first, last, mean, begun)
        if first >= begun:
            assert mean == 2.0 and epoch == 2, (first, last, mean, begun)
    assert found["last_step"][-1] > begun, found


def test_programs_in_cpp_log_too(
    serve: Callable[..., Coordinator], start: Callable[..., Program], tmp_path: pathlib.Path
) -> None:
    coordinator = serve()
    worker = [str(CPP_PROGRAMS / "stepping"), str(tmp_path)]
    run = start(str(harness.CLI), "run", "-np", "2", *coordinator.options("--job", "cpp"), *worker)
    run.expect(r"step 50\n", START_SECONDS)
    (tmp_path / "stop").touch()
    run.require_end(0, SOON_SECONDS)
    found = curves(coordinator, "cpp")
    assert found["rank", None]["mean"][0] == 0.5 and found["rank", None]["count"][0] == 2, found
    assert [found["own", rank]["mean"][0] for rank in range(2)] == [0.0, 1.0], found
