"""Where programs wait for a test, without asking again and again."""

import os
import pathlib


class Gate:
    """A named pipe: each byte in it lets one process through, once (`programs/at_gate.py` is the other side)."""

    def __init__(self, path: pathlib.Path) -> None:
        self.path = path
        os.mkfifo(path)
        self._fd = os.open(path, os.O_RDWR)  # also for reading, so that neither side waits for the other to open it

    def __str__(self) -> str:
        return str(self.path)

    def let_through(self, count: int) -> None:
        """Lets `count` processes go on that wait at it or come to it later."""
        os.write(self._fd, b"." * count)

    def close(self) -> None:
        """Ends it."""
        os.close(self._fd)
