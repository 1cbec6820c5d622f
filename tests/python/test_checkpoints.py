"""Checkpoints of several jobs in one directory, and those that a signal interrupts."""

import pathlib
import subprocess
import sys
from typing import Any, List

import harness
import pytest
from farandole import checkpoint
from farandole._library import ffi

SHARES = """
import sys, farandole, farandole.checkpoint
directory, text = sys.argv[1:]
farandole.init()
def write(path):
    with open(path, "w") as file:
        file.write(text)
    print("is writing", flush=True)
    sys.stdin.readline()
print(open(farandole.checkpoint.save(write, directory, 1)).read(), flush=True)
"""


@pytest.mark.parametrize("is_launched", (True, False))
def test_jobs_that_share_a_directory_leave_each_other_in_peace(is_launched: bool, tmp_path: pathlib.Path) -> None:
    harness.require_cli()
    program = tmp_path / "train.py"
    program.write_text(SHARES, encoding="ascii")
    shared = tmp_path / "checkpoints"

    def start(text: str) -> "subprocess.Popen[str]":
        launcher = [str(harness.CLI), "run", "-np", "1", "--state-dir", str(tmp_path / text)] if is_launched else []
        command = [*launcher, sys.executable, str(program), str(shared), text]
        return subprocess.Popen(
            command,
            cwd=harness.ROOT,
            text=True,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )

    with start("one") as one, start("other") as other:
        assert one.stdout and other.stdout
        for writer in (one, other):
            line = writer.stdout.readline() if writer.stdout else ""
            assert "is writing" in line, line
        # Both are in the midst of it; the one that has begun first ends last.
        for writer, text in ((other, "other"), (one, "one")):
            output, _ = writer.communicate("\n", timeout=harness.JOB_SECONDS)
            assert writer.returncode == 0 and output.rstrip().endswith(text), output
    written = {path.read_text(encoding="ascii") for path in shared.iterdir() if path.suffix == ".pt"}
    assert written == {"one", "other"} and len(list(shared.iterdir())) == 4, list(shared.iterdir())


ANY_BYTES = r"""
import os, pathlib, sys, torch, farandole
from farandole import checkpoint
from farandole.exceptions import CheckpointError
farandole.init()
directory = os.fsencode(sys.argv[1]) + b"/\xff"
assert checkpoint.latest(directory) is None
path = checkpoint.save({"step": 1}, directory, 1, wait=True)
assert os.fsencode(path).startswith(directory + b"/") and os.path.exists(path)
assert checkpoint.latest(directory) == path == checkpoint.find(os.fsdecode(directory), step=1)
assert checkpoint.load(path) == {"step": 1}

def write(path):
    raise ValueError("no room at " + path)

try:
    checkpoint.save(write, directory, 2)
except CheckpointError as error:
    assert "no room at" in str(error)
else:
    raise AssertionError("it was written")
text = pathlib.Path(checkpoint.save(lambda path: pathlib.Path(path).write_text("two"), directory, 2)).read_text()
assert text == "two"
"""


def test_a_directory_may_have_any_bytes_in_its_name(tmp_path: pathlib.Path) -> None:
    """Without a coordinator, which takes text only."""
    command = [sys.executable, "-c", ANY_BYTES, str(tmp_path)]
    result = subprocess.run(command, capture_output=True, text=True, timeout=harness.JOB_SECONDS, check=False)
    assert result.returncode == 0, result.stderr


class Writers:
    """The library's part: one checkpoint is open at a time."""

    def __init__(self) -> None:
        self.calls: List[str] = []
        self._path = ffi.new("char[]", b"temporary")

    def farandole_checkpoint_begin(self, *arguments: Any) -> int:
        arguments[-1][0], arguments[-2][0] = self._path, 7
        self.calls.append("begin")
        raise KeyboardInterrupt  # the handler runs as the call returns

    def farandole_checkpoint_abandon(self, number: int) -> None:
        self.calls.append(f"abandon {number}")


def test_a_checkpoint_that_is_interrupted_as_it_begins_does_not_stay_open(monkeypatch: pytest.MonkeyPatch) -> None:
    """The program's `except KeyboardInterrupt` may save another one."""
    writers = Writers()
    monkeypatch.setattr(checkpoint, "lib", writers)
    monkeypatch.setattr(checkpoint, "rank", lambda: 0)
    with pytest.raises(KeyboardInterrupt):
        checkpoint.save(lambda path: None, "anywhere", 1)
    assert writers.calls == ["begin", "abandon 7"]
