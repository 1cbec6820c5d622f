"""A terminal in which a test runs programs, and sees what its screen shows."""

import contextlib
import fcntl
import os
import pathlib
import pty
import select
import struct
import termios
import time
from typing import Callable, Dict, List, Sequence

import pyte
from processes import kill_marked
from programs_run import END_SECONDS, MARK, SOON_SECONDS, START_SECONDS

COLUMNS, ROWS = 80, 24


class Terminal:
    """A program in a session of its own, whose controlling terminal this is."""

    def __init__(self, command: Sequence[str], directory: pathlib.Path, environment: Dict[str, str]) -> None:
        self._screen = pyte.HistoryScreen(COLUMNS, ROWS, history=1000)
        self._stream = pyte.ByteStream(self._screen)
        self._mark = os.urandom(8).hex()
        variables = {**os.environ, "TERM": "xterm-256color", "HOME": str(directory), MARK: self._mark, **environment}
        self.written = b""
        self._pid, self._fd = pty.fork()
        if self._pid == 0:
            os.chdir(directory)
            os.execvpe(command[0], list(command), variables)
        self.resize(COLUMNS, ROWS)

    def resize(self, columns: int, rows: int) -> None:
        """Gives it another size; its foreground gets SIGWINCH."""
        self._screen.resize(rows, columns)
        fcntl.ioctl(self._fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def type(self, text: str) -> None:
        """Keys, among them control characters."""
        os.write(self._fd, text.encode())

    def lines(self) -> List[str]:
        """The lines that have scrolled away, then those on the screen."""
        above = ["".join(line[column].data for column in range(COLUMNS)) for line in self._screen.history.top]
        return [line.rstrip() for line in [*above, *self._screen.display] if line.strip()]

    def colours(self, text: str) -> List[str]:
        """The colours of the characters of this text on the screen."""
        for number, line in enumerate(self._screen.display):
            if text in line:
                first = line.index(text)
                return [self._screen.buffer[number][column].fg for column in range(first, first + len(text))]
        raise AssertionError(f"{text!r} is not on the screen: {self.lines()}")

    def _read(self, seconds: float) -> bool:
        if not select.select([self._fd], [], [], seconds)[0]:
            return True
        try:
            read = os.read(self._fd, 65536)
        except OSError:  # so a terminal reports that no process has it open any more
            return False
        self.written += read
        self._stream.feed(read)
        return bool(read)

    def expect(self, holds: Callable[[List[str]], object], seconds: float = START_SECONDS) -> List[str]:
        """Reads until that holds of the lines, and returns them."""
        deadline = time.monotonic() + seconds
        while not holds(self.lines()):
            left = deadline - time.monotonic()
            is_open = left > 0 and self._read(left)
            assert is_open or holds(self.lines()), f"the screen shows: {self.lines()}"
        return self.lines()

    def end(self, code: int) -> List[str]:
        """Reads until the program has ended, with this code, and returns the lines."""
        deadline = time.monotonic() + END_SECONDS
        while self._read(max(0.0, deadline - time.monotonic())):
            assert time.monotonic() < deadline, f"still running; the screen shows: {self.lines()}"
        found = os.waitstatus_to_exitcode(os.waitpid(self._pid, 0)[1])
        self._pid = 0
        assert found == code, f"it ended with {found}, not {code}; the screen shows: {self.lines()}"
        return self.lines()

    def kill_all(self) -> None:
        """Ends it with all its descendants."""
        kill_marked(MARK, self._mark, SOON_SECONDS)
        if self._pid:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(self._pid, 0)
        os.close(self._fd)
