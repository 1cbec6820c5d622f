"""`farandole store`, and a full disk, with real processes: coordinators that run, are killed, and find no room."""

import json
import os
import pathlib
import random
import signal
import subprocess
import sys
import threading
import time
from typing import Any, Callable, Dict, Iterator, List

import harness
import pytest
from coordinators import Coordinator
from gates import Gate
from programs_run import SOON_SECONDS, Program

PROGRAMS = pathlib.Path(__file__).resolve().parents[1] / "programs"
KILLS = 12
# Checkpoints whose rows, and the job's history of them, take more than a log of the store.
SAVED = 1500


def store(*words: object, code: int = 0) -> str:
    """The output of `farandole store`, which must end with this code."""
    command = [str(harness.CLI), "store", *map(str, words)]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=120, check=False)
    assert done.returncode == code, (words, done.stdout, done.stderr)
    return done.stdout if code == 0 else done.stderr


def told(*words: object) -> Dict[str, Any]:
    return dict(json.loads(store(*words, "--json")))


def jobs_of(coordinator: Coordinator) -> List[str]:
    command = [str(harness.CLI), "job", "list", "--json", *coordinator.options()]
    return [job["job"] for job in json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout)]


def finish(start: Callable[..., Program], coordinator: Coordinator, *names: str) -> None:
    """Ended jobs of one rank."""
    for name in names:
        command = [str(harness.CLI), "run", "-np", "1", "--job", name, *coordinator.options()]
        start(*command, sys.executable, str(PROGRAMS / "client_job.py"), "leave").require_end(0)


def kill(coordinator: Coordinator) -> None:
    coordinator.program.signal(signal.SIGKILL)
    coordinator.program.end()


def test_a_backup_beside_a_running_coordinator_is_restored_with_its_jobs_and_tokens(
    start: Callable[..., Program], serve: Callable[..., Coordinator], tmp_path: pathlib.Path
) -> None:
    running, copy = serve(), tmp_path / "copy"
    finish(start, running, "one", "two")
    state, file = running.state, tmp_path / "backup"
    assert told("status", "--state-dir", state)["coordinator_pid"] == running.program.pid
    made = told("backup", file, "--state-dir", state)
    assert file.stat().st_mode & 0o7777 == 0o600 and told("check", file)["sha256"] == made["sha256"]
    finish(start, running, "three")
    assert told("check", "--state-dir", state)["broken"] == []
    refused = store("compact", "--state-dir", state, code=1)
    assert f"held by another coordinator (process {running.program.pid})" in refused, refused
    refused = store("restore", file, "--state-dir", state, code=1)
    assert "is not empty" in refused, refused
    assert told("restore", file, "--state-dir", copy)["rows"] == made["rows"]
    assert jobs_of(running) == ["three", "two", "one"], "the one that was copied goes on"
    kill(running)
    command = [str(harness.CLI), "serve", "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0", "--state-dir", str(copy)]
    restored = Coordinator(start(*command), copy)
    restored.token_file = running.token_file
    assert jobs_of(restored) == ["two", "one"], "with the token of the one that was copied"
    kill(restored)
    before = told("status", "--state-dir", copy)["kinds"]
    assert told("compact", "--state-dir", copy)["disk_bytes"] > 0
    assert told("status", "--state-dir", copy)["kinds"] == before


def strike(command: List[str], spans: Iterator[float]) -> int:
    """Runs a command and kills it after a while; its exit code."""
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        threading.Event().wait(next(spans))
        process.kill()
        return process.wait()


def test_kills_during_a_backup_leave_a_whole_one_or_none(
    start: Callable[..., Program], serve: Callable[..., Coordinator], tmp_path: pathlib.Path
) -> None:
    coordinator = serve()
    finish(start, coordinator, "one")
    began = time.monotonic()
    made = told("backup", tmp_path / "whole", "--state-dir", coordinator.state)
    took = time.monotonic() - began
    source = random.Random(7)
    spans = (source.uniform(0, took * 1.2) for _ in range(KILLS))
    file = tmp_path / "backup"
    killed = 0
    for _ in range(KILLS):
        command = [str(harness.CLI), "store", "backup", str(file), "--state-dir", str(coordinator.state)]
        killed += strike(command, spans) == -signal.SIGKILL
        if file.exists():
            assert told("check", file)["rows"] >= made["rows"]
            file.unlink()
    assert killed > 0, "none was killed in its middle"
    told("backup", file, "--state-dir", coordinator.state)
    assert not file.with_name("backup.partial").exists(), "what a killed one has left goes with the next"
    assert jobs_of(coordinator) == ["one"]


def test_kills_while_a_backup_is_restored_leave_a_directory_that_is_whole_or_refused(
    start: Callable[..., Program], serve: Callable[..., Coordinator], tmp_path: pathlib.Path
) -> None:
    coordinator = serve()
    finish(start, coordinator, "one")
    file = tmp_path / "backup"
    made = told("backup", file, "--state-dir", coordinator.state)
    began = time.monotonic()
    told("restore", file, "--state-dir", tmp_path / "whole")
    took = time.monotonic() - began
    source = random.Random(11)
    spans = (source.uniform(0, took) for _ in range(KILLS))
    outcomes = set()
    for number in range(KILLS):
        state = tmp_path / f"state{number}"
        command = [str(harness.CLI), "store", "restore", str(file), "--state-dir", str(state)]
        code = strike(command, spans)
        if code == 0 or (state / "store").exists() and not (state / "restoring").exists():
            outcomes.add("whole")
        elif (state / "restoring").exists():
            outcomes.add("refused")
            serving = start(str(harness.CLI), "serve", "--listen", "127.0.0.1:0", "--state-dir", str(state))
            serving.require_end(1)
            assert "was not restored to its end" in serving.output
            told("restore", file, "--state-dir", state)
        else:
            outcomes.add("nothing")
            continue
        assert told("check", "--state-dir", state)["rows"] == made["rows"]
        assert (
            told("status", "--state-dir", state)["kinds"] == told("status", "--state-dir", tmp_path / "whole")["kinds"]
        )
    assert outcomes - {"whole"}, "none was killed in its middle"


def test_a_flipped_byte_in_the_store_is_found(
    start: Callable[..., Program], serve: Callable[..., Coordinator], tmp_path: pathlib.Path
) -> None:
    coordinator = serve()
    finish(start, coordinator, "one")
    kill(coordinator)
    told("compact", "--state-dir", coordinator.state)
    assert "all whole" in store("check", "--state-dir", coordinator.state)
    tables = [path for path in (coordinator.state / "store").iterdir() if path.suffix == ".sst"]
    assert tables
    for path in tables:
        whole = path.read_bytes()
        for at in random.Random(3).sample(range(len(whole)), 8):
            path.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
            assert str(coordinator.state) in store("check", "--state-dir", coordinator.state, code=1), (path, at)
        path.write_bytes(whole)
    assert "all whole" in store("check", "--state-dir", coordinator.state)


class SmallDisk:
    """A coordinator whose state is on a disk of its own, which no other process sees."""

    def __init__(self, serve: Callable[..., Coordinator], state: pathlib.Path) -> None:
        state.mkdir(mode=0o700)
        mount = f'mount -t tmpfs -o size=48m,mode=0700 none "{state}" && exec "$@"'
        self.coordinator = serve(under=["unshare", "--mount", "sh", "-c", mount, "sh"])
        self.root = pathlib.Path(f"/proc/{self.coordinator.program.pid}/root{state}")
        self.coordinator.token_file = str(self.root / "token")
        self._filler = self.root / "filler"

    def fill(self) -> None:
        with open(self._filler, "ab", buffering=0) as file:
            try:
                while True:
                    file.write(bytes(1 << 16))
            except OSError:
                pass  # it is full

    def make_room(self) -> None:
        self._filler.unlink()


def list_jobs(coordinator: Coordinator) -> "subprocess.CompletedProcess[str]":
    command = [str(harness.CLI), "job", "list", *coordinator.options()]
    return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=60, check=False)


def await_list(coordinator: Coordinator, is_so: Callable[[str], bool]) -> None:
    """Until what `job list` says on stderr is as it should be."""
    pause = threading.Event()
    for _ in range(SOON_SECONDS * 10):
        listed = list_jobs(coordinator)
        assert listed.returncode == 0 and "stepping" in listed.stdout, (listed, coordinator.program.output[-3000:])
        if is_so(listed.stderr):
            return
        pause.wait(0.2)
    raise AssertionError(listed)


def test_a_full_disk_keeps_running_jobs_and_what_waits_goes_on_when_there_is_room(
    start: Callable[..., Program], serve: Callable[..., Coordinator], gate: Gate, tmp_path: pathlib.Path
) -> None:
    if os.geteuid() != 0:
        pytest.skip("a disk of its own needs root")
    disk = SmallDisk(serve, tmp_path / "coordinator")
    coordinator = disk.coordinator
    wishes = tmp_path / "wishes"
    wishes.mkdir()
    run = [str(harness.CLI), "run", *coordinator.options()]
    python, client_job = sys.executable, str(PROGRAMS / "client_job.py")
    stepping = start(*run, "-np", "2", "--job", "stepping", python, str(PROGRAMS / "stepping.py"), str(wishes))
    # The log of the store has room for some megabytes more than the disk: long paths fill it up.
    folder = tmp_path.joinpath(*(letter * 110 for letter in "abc"))
    words = ["late", str(gate), str(folder), str(SAVED)]
    saving = start(*run, "-np", "1", "--job", "saving", python, client_job, *words)
    stepping.expect("step")
    saving.expect("waits")
    disk.fill()
    gate.let_through(1)

    def is_in_trouble(said: str) -> bool:
        # The store gives back the log that it had taken room for, when the next one is begun.
        disk.fill()
        return "nothing can be made durable" in said

    await_list(coordinator, is_in_trouble)
    before = len(stepping.output)
    stepping.expect("step", since=before)
    assert f"saved {SAVED}\n" not in saving.output and stepping.is_running() and saving.is_running()
    disk.make_room()
    saving.expect(f"saved {SAVED}")
    await_list(coordinator, lambda said: "nothing can be made durable" not in said)
    saving.require_end(0)
    (wishes / "stop").touch()
    stepping.require_end(0)
    show = [str(harness.CLI), "checkpoint", "list", "--coordinator", coordinator.address]
    listed = subprocess.run(
        [*show, "--token-file", coordinator.token_file], stdout=subprocess.PIPE, text=True, check=True
    )
    assert listed.stdout.count("saving ") == SAVED, listed.stdout
