"""Programs that tests start, watch, kill, and hold to leaving nothing behind."""

import contextlib
import os
import pathlib
import re
import subprocess
import threading
import time
import uuid
from typing import Dict, Iterator, List, Sequence, Set

from processes import kill_marked, marked, wait_for_end

# Its worker 1 ends well before it joins.
EARLY = pathlib.Path(__file__).parent / "programs" / "early.py"
# Most of it is importing PyTorch on a busy machine.
START_SECONDS = 150
# An event that must happen "within seconds" takes one or two, and more where other work has the processors.
SOON_SECONDS = 20
END_SECONDS = 60

MARK = "FARANDOLE_TEST_MARK"
# Of Python's multiprocessing, where it is killed before it can tidy up, and PyTorch's cache.
OTHERS_FILES = ("pymp-", "torchinductor_")
SHARED_MEMORY = pathlib.Path("/dev/shm")


def _environment(directory: pathlib.Path, mark: str, given: Dict[str, str]) -> Dict[str, str]:
    """This process's, without settings of Farandole but the SDK's choice of library, and with directories of its own."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("FARANDOLE_") or name in ("FARANDOLE_LIBRARY", "FARANDOLE_DEEPBIND")
    }
    own = {"HOME": str(directory), "XDG_STATE_HOME": str(directory / "state"), "TMPDIR": str(directory / "tmp")}
    return {**kept, **own, MARK: mark, "OMP_NUM_THREADS": "1", **given}


def _segments() -> Set[str]:
    # Bazel's sandboxes and fuzz tests, of a build beside the tests, lie there too, and semaphores of programs in Python.
    others = ("bazel-", "farandole-fuzz-", "sem.mp-")
    return {path.name for path in SHARED_MEMORY.iterdir() if not path.name.startswith(others)}


def _without_owner(segments: Set[str]) -> Set[str]:
    """Those that no process maps; mapped ones belong to another program, beside the tests."""
    for maps in pathlib.Path("/proc").glob("[0-9]*/maps") if segments else ():
        try:
            text = maps.read_text(encoding="utf-8", errors="replace")
        except OSError:  # ended meanwhile
            continue
        segments = {name for name in segments if f"{SHARED_MEMORY}/{name}\n" not in text}
    # Or its owner has removed it meanwhile.
    return segments & _segments()


class Program:
    """A running command. Its environment is marked, so that all its descendants are known, orphans too."""

    def __init__(self, command: Sequence[str], directory: pathlib.Path, environment: Dict[str, str]) -> None:
        (directory / "tmp").mkdir(parents=True)
        self.directory = directory
        self._mark = uuid.uuid4().hex
        self._temporary = directory / "tmp"
        self._segments_before = _segments()
        self._text = ""
        self._is_over = False
        self._changed = threading.Condition()
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            cwd=directory,
            env=_environment(directory, self._mark, environment),
        )
        self.pid = self._process.pid
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        with self._process.stdout as pipe:
            for chunk in iter(lambda: os.read(pipe.fileno(), 65536), b""):
                with self._changed:
                    self._text += chunk.decode(errors="replace")
                    self._changed.notify_all()
        with self._changed:
            self._is_over = True
            self._changed.notify_all()

    @property
    def output(self) -> str:
        """The output so far, also of its descendants, stdout and stderr together."""
        with self._changed:
            return self._text

    def expect(self, pattern: str, seconds: float = START_SECONDS, since: int = 0) -> "re.Match[str]":
        """Waits until the output, from offset `since` on, has a whole line with the pattern."""
        expression = re.compile(f"{pattern}.*\\n")
        with self._changed:
            self._changed.wait_for(lambda: self._is_over or expression.search(self._text, since), seconds)
            found = expression.search(self._text, since)
            state = "it has ended" if self._is_over else f"{seconds} s are over"
        assert found, f"no line with {pattern!r}, and {state}; its last output:\n{self.output[-5000:]}"
        return re.compile(pattern).search(found.group())

    def is_running(self) -> bool:
        """Whether it has not ended yet."""
        return self._process.poll() is None

    def await_output(self, seconds: float) -> None:
        """Returns when it has written something, or the time is over."""
        with self._changed:
            self._changed.wait(seconds)

    def end(self, seconds: float = END_SECONDS) -> int:
        """Waits until it ends, and all its output is read; returns its exit code."""
        try:
            code = self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"still running after {seconds} s; its last output:\n{self.output[-5000:]}") from None
        self._reader.join(SOON_SECONDS)
        assert not self._reader.is_alive(), f"a descendant that holds its output outlives it: {self.descendants()}"
        return code

    def require_end(self, code: int, seconds: float = END_SECONDS) -> None:
        """Waits until it ends; fails unless with that code and with nothing left."""
        found = self.end(seconds)
        assert found == code, f"it ended with {found}, not {code}; its output:\n{self.output[-5000:]}"
        self.require_nothing_left()

    def signal(self, number: int) -> None:
        """Sends it a signal."""
        self._process.send_signal(number)

    def descendants(self) -> List[int]:
        """Processes with its mark, itself included. Zombies have none any more."""
        return marked(MARK, self._mark)

    def require_nothing_left(self, seconds: float = SOON_SECONDS) -> None:
        """Waits until none of its processes is left; fails if that takes longer, or if a file of theirs stays."""
        deadline = time.monotonic() + seconds
        while left := self.descendants():
            remaining = deadline - time.monotonic()
            assert remaining > 0, f"left after {seconds} s: {[_describe(pid) for pid in left]}\n{self.output[-3000:]}"
            wait_for_end(left[0], remaining)
        files = [path.name for path in self._temporary.iterdir() if not path.name.startswith(OTHERS_FILES)]
        assert not files, f"files are left: {files}"
        segments = _without_owner(_segments() - self._segments_before)
        assert not segments, f"segments are left: {segments}"

    def kill_all(self) -> None:
        """Ends it with all its descendants."""
        kill_marked(MARK, self._mark, SOON_SECONDS)
        self._process.wait(SOON_SECONDS)


@contextlib.contextmanager
def running(command: Sequence[str], directory: pathlib.Path, environment: Dict[str, str]) -> Iterator[Program]:
    """A program that is ended with all its descendants."""
    program = Program(command, directory, environment)
    try:
        yield program
    finally:
        program.kill_all()


def _describe(pid: int) -> str:
    try:
        command = pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        command = "ended meanwhile"
    return f"{pid}: {command}"
