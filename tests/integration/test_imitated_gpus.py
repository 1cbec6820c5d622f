"""Whole jobs whose tensors are in imitated GPUs, with an imitated NCCL between the processes (worker/device/fake_*): the
libraries are found and used as those of a machine with GPUs are."""

import contextlib
import json
import pathlib
import signal
import socket
import subprocess
import sys
import threading
from typing import Any, Callable, Dict, Iterator

import harness
import pytest
from coordinators import Coordinator
from programs_run import START_SECONDS, Program

PROGRAM = pathlib.Path(__file__).parent / "programs" / "imitated_gpus.py"


@pytest.fixture
def gpu_job(start: Callable[..., Program], tmp_path: pathlib.Path) -> Callable[..., Program]:
    """Starts a job with imitated GPUs: arguments of the program, options of `farandole run`, its variables."""

    def runs(*arguments: str, options: "tuple[str, ...]" = (), ranks: int = 2, **variables: str) -> Program:
        given: Dict[str, Any] = {**harness.imitate_gpus(tmp_path / "gpus"), **variables}
        state = () if "--coordinator" in options else ("--state-dir", str(tmp_path))
        command = ["run", "-np", str(ranks), *state, *options, sys.executable, str(PROGRAM), *arguments]
        return start(str(harness.CLI), *command, **given)

    return runs


RAS_STATUS = """\
NCCL version 2.30.7 compiled with CUDA 13.3

Errors
======

#0-0 (27a079b828ff1a75) INCOMPLETE
  Missing communicator data from 1 rank
  Rank 1 -- GPU 0 managed by process 41 on node 10.0.0.1

Warnings
========

"""


@pytest.fixture
def ras() -> Iterator[str]:
    """HOST:PORT of what answers as NCCL's RAS does."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        while True:
            try:
                caller, _ = listener.accept()
            except OSError:  # the test is over
                return
            # The process that has asked may be killed meanwhile.
            with contextlib.suppress(OSError), caller, caller.makefile("rw", encoding="ascii", newline="\n") as words:
                for question, answer in (("CLIENT PROTOCOL ", "SERVER PROTOCOL 2\n"), ("TIMEOUT ", "OK\n")):
                    if words.readline().startswith(question):
                        words.write(answer)
                        words.flush()
                if words.readline() == "VERBOSE STATUS\n":
                    words.write(RAS_STATUS)

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    yield f"127.0.0.1:{listener.getsockname()[1]}"
    listener.shutdown(socket.SHUT_RDWR)
    listener.close()
    thread.join()


@pytest.mark.parametrize("check", ("operations", "process_sets", "training", "compressed"))
def test_a_check_of_gpus_holds(check: str, gpu_job: Callable[..., Program]) -> None:
    run = gpu_job(check)
    run.require_end(0, START_SECONDS)
    assert f"{check}: well on 2 ranks" in run.output
    assert "copied to the host's memory" not in run.output


def test_process_sets_have_communicators_split_and_made_alone(
    gpu_job: Callable[..., Program], tmp_path: pathlib.Path
) -> None:
    run = gpu_job("splits", ranks=4, FARANDOLE_NCCL_SPLIT="1")
    run.require_end(0, START_SECONDS)
    assert "splits: well on 4 ranks" in run.output
    assert len(list((tmp_path / "gpus").glob("*.split.*"))) == 2 * 4, "pairs of a grid are two splits"


def test_a_death_during_a_split_is_told(gpu_job: Callable[..., Program]) -> None:
    run = gpu_job("split_death", ranks=3, FARANDOLE_NCCL_SPLIT="1")
    run.require_end(128 + signal.SIGKILL, START_SECONDS)
    assert run.output.count("told: rank 1 (") == 2


def test_gpus_that_cannot_load_kernels_do_without(gpu_job: Callable[..., Program], tmp_path: pathlib.Path) -> None:
    run = gpu_job("bare", str(tmp_path))
    run.expect(r"cannot run Farandole's kernels \(cuModuleLoadData: ")
    (tmp_path / "stop").touch()
    run.require_end(0, START_SECONDS)
    assert run.output.count("cannot run Farandole's kernels") <= 2, "each rank says it once"


def test_a_death_is_told_to_who_waits_for_it_on_a_gpu(gpu_job: Callable[..., Program]) -> None:
    run = gpu_job("death")
    run.require_end(128 + signal.SIGKILL, START_SECONDS)
    assert "told: rank 1 (" in run.output


def test_an_elastic_job_goes_on_with_communicators_made_anew(gpu_job: Callable[..., Program]) -> None:
    run = gpu_job("elastic", options=("--min-np", "1"))
    run.require_end(0, START_SECONDS)
    assert "ended with SIGKILL" in run.output and "elastic: well on" in run.output


def test_what_hangs_on_a_gpu_is_named_and_ends_by_the_limit(gpu_job: Callable[..., Program]) -> None:
    run = gpu_job("hang", FARANDOLE_STALL_WARNING_MS="500", FARANDOLE_STALL_LIMIT_MS="2000")
    run.require_end(1, START_SECONDS)
    assert "'hung' is on the GPU of rank 0 (" in run.output
    assert "its tensors are there, and it waits for peers" in run.output
    assert "s is the most (FARANDOLE_STALL_LIMIT_MS)" in run.output
    assert "it did not hang" not in run.output


def test_what_nccl_knows_of_it_is_in_the_log(gpu_job: Callable[..., Program], ras: str) -> None:
    run = gpu_job("hang", FARANDOLE_STALL_WARNING_MS="500", FARANDOLE_STALL_LIMIT_MS="3000", NCCL_RAS_ADDR=ras)
    run.require_end(1, START_SECONDS)
    named = run.output.index("'hung' is on the GPU of rank 0 (")
    told = run.output.index(f" rank 0: NCCL's RAS at {ras} says of its communicators:")
    assert named < told < run.output.index("s is the most (FARANDOLE_STALL_LIMIT_MS)")
    assert " rank 0: NCCL's RAS:   Rank 1 -- GPU 0 managed by process 41 on node 10.0.0.1" in run.output
    assert "NCCL's RAS: Warnings" not in run.output and "NCCL version" not in run.output


def test_it_is_not_asked_where_it_is_off(gpu_job: Callable[..., Program], ras: str) -> None:
    off = {"NCCL_RAS_ADDR": ras, "NCCL_RAS_ENABLE": "0"}
    run = gpu_job("hang", FARANDOLE_STALL_WARNING_MS="500", FARANDOLE_STALL_LIMIT_MS="2000", **off)
    run.require_end(1, START_SECONDS)
    assert "'hung' is on the GPU of rank 0 (" in run.output and "RAS" not in run.output


def test_nccls_version_is_known_before_init(start: Callable[..., Program], tmp_path: pathlib.Path) -> None:
    gpus = harness.imitate_gpus(tmp_path / "gpus")
    # So that a system's own cannot be found.
    (tmp_path / "gpus" / "libnccl.so.2").touch()
    run = start(sys.executable, str(PROGRAM.parent / "nccl_version.py"), **gpus)
    run.require_end(0, START_SECONDS)


def test_collectives_are_captured_in_graphs(gpu_job: Callable[..., Program]) -> None:
    run = gpu_job("graph")
    run.require_end(0, START_SECONDS)
    assert "graph: well on 2 ranks" in run.output


def test_the_timeline_shows_what_is_on_a_gpu(gpu_job: Callable[..., Program], tmp_path: pathlib.Path) -> None:
    file = tmp_path / "timeline.json"
    run = gpu_job("training", options=("--timeline-filename", str(file)))
    run.require_end(0, START_SECONDS)
    for path in (file, tmp_path / "timeline.rank1.json"):
        events = json.loads(path.read_text(encoding="utf-8"))
        spans = [event for event in events if event.get("name") == "ON_GPU"]
        assert len({event["tid"] for event in spans}) == 1
        assert sum("allreduce." in event["args"]["tensors"] for event in spans) >= 20, "of as many steps"
        others = [event["ts"] for event in events if event["ph"] == "X" and event not in spans]
        assert all(min(others) <= event["ts"] <= max(others) + 1e6 for event in spans), "microseconds, of one clock"


def test_gpus_are_shown_while_a_job_uses_them(
    gpu_job: Callable[..., Program], serve: Callable[..., Coordinator], tmp_path: pathlib.Path
) -> None:
    coordinator = serve()
    options = coordinator.options()
    run = gpu_job("stay", str(tmp_path), options=("--job", "imitated", *options))
    command = [str(harness.CLI), "job", "show", "imitated", "--json", *options]
    shown: Dict[str, Any] = {}
    while "gpus" not in shown or shown["gpus"]["gpus"] < 2:
        assert run.is_running(), run.output
        said = subprocess.run(command, capture_output=True, text=True, check=False)
        shown = json.loads(said.stdout) if said.returncode == 0 else {}
    (tmp_path / "stop").touch()
    run.require_end(0, START_SECONDS)
    assert shown["gpus"]["busy_percent"] == 42 and shown["gpus"]["memory_total_bytes"] == 2 * (16 << 30)
    gpu = {"name": "Imitation", "memory_used_bytes": 4 << 30, "memory_total_bytes": 16 << 30, "busy_percent": 42}
    assert [worker["gpu"] for worker in shown["workers"]] == [gpu, gpu]
