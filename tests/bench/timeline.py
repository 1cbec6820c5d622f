"""Measures what the timeline of a whole job costs its collectives, and writes docs/benchmarks/timeline.md.

    make bench-timeline
    .venv/bin/python tests/bench/timeline.py [--rounds N] [--print]

Two jobs of two ranks at one coordinator, which take turns and wait meanwhile. In one of them no timeline was ever started:
that is the contender, with which the other one is compared, while it records and while it has stopped recording.
"""

import argparse
import contextlib
import json
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile
from typing import Dict, Iterator, List, NamedTuple

import groups
import report
from gates import Gate
from groups import FARANDOLE, PYTHON, RANKS, ROOT, BenchError
from programs_run import running
from tenants import Shared

PAGE = ROOT / "docs" / "benchmarks" / "timeline.md"
ROUNDS = 15
LIMIT_S = 600
NEVER, OFF, ON = "never started", "off", "on"
KINDS = (NEVER, OFF, ON)
# By the key of what a rank prints.
SIZES = {"4": "4 B", "1048576": "1 MiB"}
FIGURES = ("median", "mean")


class Turn(NamedTuple):
    """Of one kind: by size the median and the mean of the calls, in seconds."""

    kind: str
    of: Dict[str, List[float]]


class Recording(NamedTuple):
    """Of the turns in which one was made."""

    events: List[int]
    lost: List[int]


class TurnsJob:
    """A job whose ranks measure when they are told to."""

    def __init__(self, name: str, shared: Shared, turns: int, stack: contextlib.ExitStack) -> None:
        self.name = name
        self._shared = shared
        directory = shared.directory / name
        self._gate = Gate(shared.directory / f"{name}.gate")
        stack.callback(self._gate.close)
        command = [FARANDOLE, "run", "-np", "2", "--job", name, *shared.coordinator.options()]
        command += [PYTHON, str(RANKS / "recorded_rank.py"), str(self._gate), str(turns)]
        self._program = stack.enter_context(running(command, directory, groups.environment({})))
        self._program.expect("ready")

    def measure(self) -> Dict[str, List[float]]:
        """One turn; then the ranks wait again."""
        seen = len(self._program.output)
        self._gate.let_through(2)
        return json.loads(self._program.expect(r"measured (\{.*\})", since=seen).group(1))

    def timeline(self, verb: str, *more: str) -> str:
        """The output of `farandole timeline VERB`."""
        command = [FARANDOLE, "timeline", verb, self.name, *self._shared.coordinator.options(*more)]
        ran = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        if ran.returncode != 0:
            raise BenchError(f"farandole timeline {verb}: {ran.stderr}")
        return ran.stdout + ran.stderr

    @contextlib.contextmanager
    def recording(self, recorded: Recording) -> Iterator[None]:
        """Records meanwhile, and notes how many events there are."""
        self.timeline("start")
        yield
        self.timeline("stop")
        told = self.timeline("get", "-o", str(self._shared.directory / "timeline.json"))
        recorded.events.append(int(re.search(r": (\d+) events of 2 ranks", told).group(1)))
        recorded.lost.append(sum(int(count) for count in re.findall(r"^(\d+) events (?:came|were given)", told, re.M)))

    def require_end(self) -> None:
        """Holds it to having gone well."""
        self._program.require_end(0)


def measure(rounds: int) -> "tuple[List[Turn], Recording]":
    """All turns, the kinds in another order in each round."""
    with tempfile.TemporaryDirectory(prefix="farandole-bench-") as made, contextlib.ExitStack() as stack:
        shared = Shared(pathlib.Path(made), (), stack)
        never = TurnsJob("never", shared, rounds, stack)
        both = TurnsJob("both", shared, 2 * rounds, stack)
        recorded = Recording([], [])
        # From now on it is off in another way than never started.
        both.timeline("start")
        both.timeline("stop")
        turns = []
        for number in range(rounds):
            for turn in range(len(KINDS)):
                kind = KINDS[(number + turn) % len(KINDS)]
                with both.recording(recorded) if kind == ON else contextlib.nullcontext():
                    turns.append(Turn(kind, (never if kind == NEVER else both).measure()))
                print(f"bench: {turns[-1]}", file=sys.stderr, flush=True)
        never.require_end()
        both.require_end()
        return turns, recorded


def rows(turns: List[Turn]) -> List[List[str]]:
    """Of the table: figures are medians over the turns, and ratios the medians of the rounds' ratios to the contender."""
    lines = []
    for key, size in SIZES.items():
        for at, figure in enumerate(FIGURES):
            values = {kind: [turn.of[key][at] for turn in turns if turn.kind == kind] for kind in KINDS}
            ratios = [
                f"{statistics.median(own / than for own, than in zip(values[kind], values[NEVER])):.2f}"
                for kind in (OFF, ON)
            ]
            shown = [report.show_time(statistics.median(values[kind])) for kind in KINDS]
            lines.append([f"{size}, {figure}", *shown, *ratios])
    return lines


def page(measured: "tuple[List[Turn], Recording]", facts: List[str]) -> List[str]:
    """docs/benchmarks/timeline.md."""
    turns, recorded = measured
    return [
        "# The cost of a job's timeline",
        "",
        "For people who ask what it costs to record a timeline of a job that runs.",
        "",
        "Written by `make bench-timeline` (tests/bench/timeline.py). Two jobs of two ranks, from Python with NumPy, take turns at one",
        "coordinator: 20,000 allreduces of 4 B and 500 of 1 MiB in each turn, in place. In one job no timeline was ever started. The other",
        "one [records the timeline of the whole job](../timeline.md) in some turns (on), and in others it has stopped doing so (off). All",
        "share one machine, so that the threads that send, take and keep the events take processor time from the ranks; where a host",
        "has cores to spare they do not.",
        "",
        f"Figures are medians over {len(turns) // len(KINDS)} turns of the median and of the mean of a turn's calls on rank 0; ratios are the",
        "medians of the rounds' ratios.",
        "",
        *report.table(["", *KINDS, "off over never", "on over never"], rows(turns)),
        "",
        f"A recorded turn has {statistics.median(recorded.events):,.0f} events, {statistics.median(recorded.lost):,.0f} of them lost because they came faster than they could be sent",
        "or kept (medians). Each call makes two events on each rank.",
        "",
        *(f"- {fact}" for fact in facts),
    ]


def main() -> int:
    """Runs it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="of three turns each (%(default)s)")
    parser.add_argument("--print", action="store_true", help="print the page, write nothing")
    options = parser.parse_args()
    return report.measure_page(PAGE, options.print, LIMIT_S, lambda: measure(options.rounds), page)


if __name__ == "__main__":
    sys.exit(main())
