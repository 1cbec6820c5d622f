"""Measures what a loss, a join and a coordinator's restart cost an elastic job, beside torchrun's elastic restart, and
writes docs/benchmarks/elastic.md.

    make bench-elastic
    .venv/bin/python tests/bench/elastic.py [--trials N] [--torchrun-trials N] [--print]

Four ranks on this host train a small model as fast as they can. A trial kills one of them (SIGKILL), waits until the others have
taken a step, and starts another; every tenth trial also kills the coordinator and starts it again. Times are of the host's
monotonic clock, from the driver's action, or from the new process's call of init(), to the last rank's report.
"""

import argparse
import contextlib
import os
import pathlib
import queue
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from typing import Dict, Iterator, List, NamedTuple, Optional, Sequence

import groups
import machine
import report
from groups import FARANDOLE, PYTHON, ROOT, BenchError

RANKS = 4
PAGE = ROOT / "docs" / "benchmarks" / "elastic.md"
EVENT_SECONDS = 60.0
# Most of it is importing PyTorch.
START_SECONDS = 300.0

GOALS = {"noticed": 0.05, "stepped": 0.25, "joined": 1.0, "reattached": 5.0}
TITLES = {
    "noticed": "SIGKILL of a rank: noticed by all others",
    "stepped": "SIGKILL of a rank: next step done by all others",
    "joined": "a new process calls init(): next step done by all, it too",
    "reattached": "SIGKILL of the coordinator, started again at once: all ranks reattached (a tensor of a new name is reduced)",
    "torchrun": "torchrun, SIGKILL of a rank: next step done by all",
}
Times = Dict[str, List[float]]


class Event(NamedTuple):
    """A line of a rank."""

    name: str
    value: float
    number: int


class Contender:
    """A program whose output is events; other lines are kept for complaints."""

    def __init__(self, command: Sequence[str], environment: Dict[str, str], directory: pathlib.Path) -> None:
        self._events: "queue.Queue[Event]" = queue.Queue()
        self.other_output: List[str] = []
        self.process = subprocess.Popen(
            command,
            env=groups.environment(environment),
            cwd=directory,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            bufsize=1,
            process_group=0,
        )
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        for line in self.process.stdout:
            words = line.split()
            try:
                self._events.put(Event(words[0], float(words[1]), int(words[2])))
            except (IndexError, ValueError):
                self.other_output.append(line)

    def drop_events(self) -> None:
        """Forgets what it has told so far."""
        while not self._events.empty():
            self._events.get_nowait()

    def wait(self, name: str, count: int, size: Optional[int] = None, seconds: float = EVENT_SECONDS) -> List[Event]:
        """The next events of that name, of ranks in an epoch of that size; drops the others."""
        found: List[Event] = []
        deadline = time.monotonic() + seconds
        while len(found) < count:
            try:
                event = self._events.get(timeout=max(deadline - time.monotonic(), 0))
            except queue.Empty:
                raise BenchError(
                    f"{len(found)} of {count} ranks told of {name!r} within {seconds:.0f} s; the last output: "
                    f"{''.join(self.other_output[-20:])}"
                ) from None
            if event.name == name and size in (None, event.number):
                found.append(event)
        return found

    def wait_both(self, first: str, second: str, count: int, size: int) -> "tuple[List[Event], List[Event]]":
        """As wait, of two kinds of events that come in any order of the ranks."""
        found: Dict[str, List[Event]] = {first: [], second: []}
        while len(found[first]) < count or len(found[second]) < count:
            try:
                event = self._events.get(timeout=EVENT_SECONDS)
            except queue.Empty:
                raise BenchError(f"no more events than {found}; the last output: {self.other_output[-20:]}") from None
            if event.name == first or (event.name == second and event.number == size):
                found[event.name].append(event)
        return found[first], found[second]

    def end(self) -> None:
        """Kills it with all its descendants."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


def _latest(events: Sequence[Event]) -> float:
    return max(event.value for event in events)


class Coordinator:
    """A `farandole serve` that can be killed and started again at its address."""

    def __init__(self, directory: pathlib.Path) -> None:
        self._directory = directory
        self.address = f"127.0.0.1:{groups.free_port()}"
        self._process = self._start()

    def _start(self) -> "subprocess.Popen[str]":
        process = subprocess.Popen(
            [FARANDOLE, "serve", "--listen", self.address, "--state-dir", str(self._directory / "state")],
            env=groups.environment({}),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            process_group=0,
        )
        for line in process.stdout:
            if "token in " in line:
                self.token_file = line.split("token in ")[1].split(",")[0].strip()
                threading.Thread(target=process.stdout.read, daemon=True).start()
                return process
        raise BenchError("the coordinator did not start")

    def restart(self) -> None:
        """Kills it and starts it again."""
        self.end()
        self._process = self._start()

    def end(self) -> None:
        """Kills it."""
        self._process.kill()
        self._process.wait()


class ElasticJob:
    """Elastic ranks, forked of a process that has imported PyTorch."""

    def __init__(self, directory: pathlib.Path) -> None:
        self._directory = directory
        self.coordinator = Coordinator(directory)
        environment = {
            "FARANDOLE_COORDINATOR": self.coordinator.address,
            "FARANDOLE_TOKEN_FILE": self.coordinator.token_file,
            "FARANDOLE_SIZE": str(RANKS),
            "FARANDOLE_MIN_SIZE": "1",
            "FARANDOLE_JOIN_WINDOW_MS": "50",
        }
        rank = str(ROOT / "tests" / "bench" / "ranks" / "elastic_rank.py")
        self.ranks = Contender([PYTHON, rank, str(directory)], environment, directory)
        self._started = 0
        self._pids: List[int] = []

    def start(self, count: int) -> None:
        """Starts new ranks; returns when all of the job have taken a step together."""
        self.begin(count)
        self.ranks.wait("step", RANKS, RANKS)

    def begin(self, count: int) -> None:
        """Starts new ranks."""
        for _ in range(count):
            self.ranks.process.stdin.write(f"{self._started}\n")
            self._started += 1
            self._pids.append(int(self.ranks.wait("started", 1, seconds=START_SECONDS)[0].value))

    def measure_loss_and_join(self, victim: int) -> Times:
        """Kills a rank, counted from the oldest, and replaces it."""
        self.ranks.drop_events()
        begin = time.monotonic()
        os.kill(self._pids.pop(victim), signal.SIGKILL)
        noticed, stepped = self.ranks.wait_both("noticed", "step", RANKS - 1, RANKS - 1)
        self.ranks.wait("steady", RANKS - 1, RANKS - 1)
        self.begin(1)
        ready = self.ranks.wait("ready", 1)[0].value
        joined = self.ranks.wait("step", RANKS, RANKS)
        self.ranks.wait("steady", RANKS, RANKS)
        return {
            "noticed": [_latest(noticed) - begin],
            "stepped": [_latest(stepped) - begin],
            "joined": [_latest(joined) - ready],
        }

    def measure_restart(self) -> Times:
        """Kills the coordinator and starts it again."""
        self.ranks.drop_events()
        begin = time.monotonic()
        self.coordinator.restart()
        (self._directory / "new").touch()
        done = self.ranks.wait("new", RANKS)
        return {"reattached": [_latest(done) - begin]}

    def end(self) -> None:
        """Kills everything."""
        self.ranks.end()
        self.coordinator.end()


def _add(times: Times, more: Times) -> None:
    for name, values in more.items():
        times.setdefault(name, []).extend(values)


def measure_farandole(trials: int, seed: int, times: Times) -> None:
    """Trials in one job; the victims are drawn, rank 0 as often as any other."""
    draw = random.Random(seed)
    with tempfile.TemporaryDirectory(prefix="farandole-bench-") as directory:
        job = ElasticJob(pathlib.Path(directory))
        try:
            job.start(RANKS)
            for trial in range(trials):
                _add(times, job.measure_loss_and_join(draw.randrange(RANKS)))
                if trial % 10 == 9:
                    _add(times, job.measure_restart())
        finally:
            job.end()


@contextlib.contextmanager
def _torchrun(restarts: int) -> Iterator[Contender]:
    rank = str(ROOT / "tests" / "bench" / "ranks" / "torchrun_rank.py")
    launch = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(RANKS)]
    with tempfile.TemporaryDirectory(prefix="farandole-bench-") as directory:
        command = [PYTHON, *launch, "--max-restarts", str(restarts), "--monitor-interval", "0.1", rank]
        contender = Contender(command, {}, pathlib.Path(directory))
        try:
            yield contender
        finally:
            contender.end()


def measure_torchrun(trials: int, seed: int, times: Times) -> None:
    """Kills a rank; torchrun, which looks every 0.1 s, then starts all of them again."""
    draw, started = random.Random(seed), []
    # Who fails because of a peer in a restart costs one more.
    with _torchrun(10 * (trials + 1)) as ranks:
        for trial in range(trials + 1):
            if trial:
                begin = time.monotonic()
                os.kill(int(draw.choice(started).value), signal.SIGKILL)
            started, stepped = ranks.wait_both("started", "step", RANKS, RANKS)
            if trial:
                times.setdefault("torchrun", []).append(_latest(stepped) - begin)
            ranks.wait("steady", RANKS)


def _row(name: str, values: List[float]) -> List[str]:
    ordered = sorted(values)
    slow = ordered[min(len(ordered) - 1, int(0.99 * len(ordered)))]
    goal = GOALS.get(name)
    verdict = "-" if goal is None else f"{report.show_time(goal)}, {'met' if slow <= goal else 'missed'}"
    middle = report.show_time(statistics.median(ordered))
    return [TITLES[name], middle, report.show_time(slow), report.show_time(ordered[-1]), str(len(ordered)), verdict]


def page(times: Times, facts: Sequence[str]) -> str:
    """The figures as Markdown."""
    rows = [_row(name, times[name]) for name in TITLES if name in times]
    titles = ["what", "median", "99 % within", "slowest", "trials", "goal for 99 %"]
    own = statistics.median(times["stepped"])
    lines = [
        "# What a loss costs",
        "",
        "Written by `make bench-elastic` (tests/bench/elastic.py says how it measures).",
        "",
    ]
    lines += report.table(titles, rows)
    if "torchrun" in times:
        lines += [
            "",
            f"After a loss, torchrun takes {statistics.median(times['torchrun']) / own:.0f} times as long as Farandole, by the medians: it starts all processes anew.",
        ]
    lines += [
        "",
        f"{RANKS} ranks on one host, a model of 12 thousand parameters, momentum, a commit after each step.",
        "",
    ]
    return "\n".join([*lines, *(f"- {fact}" for fact in facts), ""])


def main() -> int:
    """Runs the trials."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=200, help="of losses and joins (default: %(default)s)")
    parser.add_argument("--torchrun-trials", type=int, default=20, help="of torchrun's losses (default: %(default)s)")
    parser.add_argument("--print", action="store_true", help="print the page, write nothing")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    load, times = machine.load(), {}
    try:
        # In turns, as the machine is not equally quiet all the time.
        for half in range(2):
            measure_farandole((options.trials + half) // 2, half, times)
            if options.torchrun_trials:
                measure_torchrun((options.torchrun_trials + half) // 2, half, times)
    except BenchError as error:
        print(f"bench: {error}", file=sys.stderr)
        return 1
    text = page(times, machine.describe(load))
    if options.print:
        print(text)
    else:
        PAGE.write_text(text, encoding="utf-8")
        print(f"bench: wrote {PAGE}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
