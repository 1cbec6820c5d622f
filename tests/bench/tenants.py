"""A coordinator that tenants share, a job of one of them, and the programs that play the others."""

import contextlib
import json
import os
import pathlib
import tempfile
import time
from typing import Dict, Iterator, List, NamedTuple, Sequence, Tuple

import groups
from coordinators import Coordinator
from gates import Gate
from groups import FARANDOLE, PYTHON, RANKS, ROOT
from programs_run import Program, running

NEIGHBOURS = ROOT / ".venv" / "lib" / "cpp" / "neighbours"
JOB = "steady"
# Programs of the measurement send no signs of life.
SILENCE_MS = 600_000
END_SECONDS = 60
CALLS = ("join", "negotiation", "heartbeat")
Steps = Sequence[Sequence[float]]


def percentile(values: Sequence[float], part: float) -> float:
    """The value below which `part` of them are."""
    return sorted(values)[min(len(values) - 1, int(part * len(values)))]


class Calls(NamedTuple):
    """Times that the quiet tenant measured in a phase, in microseconds: `of["join"]["p99_us"]`; times are of CLOCK_MONOTONIC."""

    begin: float
    end: float
    of: Dict[str, Dict[str, float]]

    def steps(self, steps: Steps) -> List[float]:
        """The seconds of a job's steps that began in this phase."""
        return [seconds for begun, seconds in steps if self.begin <= begun < self.end]


# The last core is that of the programs that have machines of their own in life, if they are to run apart.
_CORES = sorted(os.sched_getaffinity(0))
_HERE, _APART = _CORES[:-1] or _CORES, _CORES[-1:]


def _on(cores: Sequence[int]) -> List[str]:
    return ["taskset", "-c", ",".join(map(str, cores))]


class Shared:
    """A running coordinator and a token for each tenant. `apart`: other tenants' programs have a core of their own, and the
    coordinator and the quiet tenant the others; otherwise all share all."""

    def __init__(
        self, directory: pathlib.Path, options: Sequence[str], stack: contextlib.ExitStack, apart: bool = False
    ) -> None:
        self.directory = directory
        self._here, self._there = (_on(_HERE), _on(_APART)) if apart else ([], [])
        state = directory / "state"
        serve = [
            *self._here,
            FARANDOLE,
            "serve",
            "--listen",
            "127.0.0.1:0",
            "--http",
            "127.0.0.1:0",
            "--state-dir",
            str(state),
        ]
        serve += ["--silence-limit-ms", str(SILENCE_MS), *options]
        program = stack.enter_context(running(serve, directory / "serve", groups.environment({})))
        self.coordinator = Coordinator(program, state)
        self._started = 0

    def make_token(self, tenant: str) -> str:
        """A new tenant's."""
        return self.coordinator.make_tenant(FARANDOLE, tenant, self.directory)

    def measure_calls(self, token: str, seconds: int) -> Calls:
        """Lets the quiet tenant make its calls for so long."""
        begin = time.monotonic()
        command = [*self._here, str(NEIGHBOURS), "quiet", self.coordinator.address, token, str(seconds)]
        output = groups.run_native(command, seconds + END_SECONDS)
        return Calls(begin, time.monotonic(), json.loads(output))

    @contextlib.contextmanager
    def play(self, part: str, token: str, seconds: int) -> Iterator[Program]:
        """Another tenant's program, in life on other machines, with the processor time that nobody else wants."""
        self._started += 1
        command = [
            *self._there,
            "nice",
            "-n",
            "19",
            str(NEIGHBOURS),
            part,
            self.coordinator.address,
            token,
            str(seconds),
        ]
        directory = self.directory / f"{part}{self._started}"
        with running([*command, self.coordinator.http], directory, groups.environment({})) as program:
            yield program

    def descriptors(self) -> int:
        """The coordinator's open file descriptors."""
        return len(list(pathlib.Path(f"/proc/{self.coordinator.program.pid}/fd").iterdir()))

    def state_mib(self) -> float:
        """The size of its state directory."""
        files = [path for path in self.coordinator.state.rglob("*") if path.is_file()]
        return sum(_size(path) for path in files) / (1 << 20)


def _size(path: pathlib.Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:  # the database has merged it meanwhile
        return 0


class SteadyJob:
    """A job of two ranks with steps of 10 ms and four allreduces each, until it is told to end."""

    def __init__(self, shared: Shared, stack: contextlib.ExitStack) -> None:
        self._gate = Gate(shared.directory / "gate")
        stack.callback(self._gate.close)
        self._steps = shared.directory / "steps.json"
        command = [FARANDOLE, "run", "-np", "2", "--job", JOB, *shared.coordinator.options()]
        command += [PYTHON, str(RANKS / "paged_rank.py"), str(self._gate), str(self._steps)]
        self._program = stack.enter_context(running(command, shared.directory / "job", groups.environment({})))
        self._program.expect("steps begin")

    def end(self) -> Steps:
        """Ends it, and holds it to having gone well: when each of its steps began, and its allreduces' seconds."""
        self._gate.let_through(1)
        self._program.require_end(0)
        return json.loads(self._steps.read_text(encoding="utf-8"))


@contextlib.contextmanager
def shared_coordinator(options: Sequence[str], apart: bool = False) -> Iterator[Tuple[Shared, contextlib.ExitStack]]:
    """A coordinator, and the stack of what runs beside it."""
    with tempfile.TemporaryDirectory(prefix="farandole-bench-") as made, contextlib.ExitStack() as stack:
        yield Shared(pathlib.Path(made), options, stack, apart), stack
