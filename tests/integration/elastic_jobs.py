"""Elastic jobs whose processes a test starts and ends itself: a coordinator, and no launcher that would decide."""

import sys
from pathlib import Path
from typing import Callable, List, Sequence

from coordinators import Coordinator
from programs_run import SOON_SECONDS, START_SECONDS, Program

PROGRAMS = Path(__file__).resolve().parent / "programs"


class ElasticJob:
    """A job of programs/NAME.py. Its `workers` stand in the order of their starts, which is that of their launch indices."""

    def __init__(
        self,
        start: Callable[..., Program],
        coordinator: Coordinator,
        *command: object,
        sizes: "tuple[int, int, int]",
        prefixes: Sequence[Sequence[str]] = (),
        **environment: str,
    ) -> None:
        """`sizes`: the fewest, the first and the most workers. Starts the first ones. `prefixes` go before the commands
        of the first, second, ... worker."""
        fewest, first, most = sizes
        self._start = start
        self._prefixes = prefixes
        self._command = self.command_of(str(command[0]), [str(argument) for argument in command[1:]])
        self._environment = {
            "FARANDOLE_COORDINATOR": coordinator.address,
            "FARANDOLE_TOKEN_FILE": coordinator.token_file,
            "FARANDOLE_JOB": "elastic",
            "FARANDOLE_SIZE": str(first),
            "FARANDOLE_MIN_SIZE": str(fewest),
            "FARANDOLE_MAX_SIZE": str(most),
            "PYTHONUNBUFFERED": "1",
            **environment,
        }
        self.workers: List[Program] = []
        for _ in range(first):
            self.add()

    def command_of(self, name: str, arguments: Sequence[str]) -> "tuple[str, ...]":
        """A worker's command."""
        return (sys.executable, str(PROGRAMS / f"{name}.py"), *arguments)

    def add(self, **environment: str) -> Program:
        """Starts one more worker."""
        index = len(self.workers)
        command = (*(self._prefixes[index] if index < len(self._prefixes) else ()), *self._command)
        own = {"FARANDOLE_LAUNCH_INDEX": str(index), **environment}
        self.workers.append(self._start(*command, **self._environment, **own))
        return self.workers[-1]

    def expect(self, pattern: str, *indices: int, seconds: float = START_SECONDS) -> None:
        """Waits until each of these workers has written a line with the pattern."""
        for index in indices:
            self.workers[index].expect(pattern, seconds)

    def expect_steps(self, size: int, *indices: int) -> None:
        """Waits until each of these workers has written steps in an epoch of that size, after the lines so far."""
        marks = [len(self.workers[index].output) for index in indices]
        for index, mark in zip(indices, marks):
            self.workers[index].expect(rf"step \d+ of {size}\b", START_SECONDS, mark)

    def require_end(self, code: int, *indices: int) -> None:
        """Waits until these workers have ended; fails unless with that code and with nothing left."""
        for index in indices:
            self.workers[index].require_end(code, SOON_SECONDS)
