"""Wall clocks that go wrong."""

import pathlib
import struct
import subprocess

# Nanoseconds.
JUMPS = {"-1 minute": -60 * 10**9, "-2 hours": -7200 * 10**9, "+2 hours": 7200 * 10**9}


class WallClock:
    """A wall clock that a test sets for single processes, those that have its environment."""

    def __init__(self, directory: pathlib.Path) -> None:
        library = directory / "stepped_clock.so"
        source = pathlib.Path(__file__).parents[1] / "programs" / "stepped_clock.c"
        subprocess.run(["gcc", "-O2", "-shared", "-fPIC", "-o", str(library), str(source)], check=True)
        self._file = directory / "clock"
        self._file.write_bytes(struct.pack("q", 0))
        self.environment = {"LD_PRELOAD": str(library), "STEPPED_CLOCK": str(self._file)}

    def jump(self, jump: str) -> None:
        """Sets it by one of JUMPS."""
        # In place, as the processes have mapped the file.
        with self._file.open("r+b", buffering=0) as file:
            file.write(struct.pack("q", JUMPS[jump]))
