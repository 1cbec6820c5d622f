"""Measures what a loss, a join and a coordinator's restart cost an elastic job, beside torchrun's elastic restart, and
writes docs/benchmarks/elastic.md.

    make bench-elastic
    .venv/bin/python tests/bench/elastic.py [--trials N] [--torchrun-trials N] [--print]

Four ranks on this host train a small model as fast as they can. A trial kills one of them (SIGKILL), waits until the others have
taken a step, starts another, and then kills the coordinator and starts it again. Times are of the host's monotonic clock,
from the driver's action, or from the new process's call of init(), to the last rank's report. A trial after which the ranks
do not go on is counted as such, and the next one is done with new ranks.
"""

import argparse
import contextlib
import math
import os
import pathlib
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from typing import Any, Callable, Dict, Iterator, List, Sequence

import groups
import machine
import report
from contender import Contender, Event, Wanted
from groups import FARANDOLE, PYTHON, ROOT, BenchError
from processes import die_with_parent

RANKS = 4
PAGE = ROOT / "docs" / "benchmarks" / "elastic.md"
# After which a trial has failed.
TRIAL_SECONDS = 60.0
# Torchrun's trials take ten times as long as ours; no other one is begun after so long.
TORCHRUN_SECONDS = 300.0
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


def _latest(events: Sequence[Event]) -> float:
    return max(event.value for event in events)


class Coordinator:
    """A `farandole serve` that can be killed and started again at its address."""

    def __init__(self, directory: pathlib.Path) -> None:
        self._directory = directory
        self.address = f"127.0.0.1:{groups.free_port()}"
        self._process = self._start()

    def _start(self) -> "subprocess.Popen[str]":
        # pylint: disable-next=subprocess-popen-preexec-fn
        process = subprocess.Popen(
            [FARANDOLE, "serve", "--listen", self.address, "--state-dir", str(self._directory / "state")],
            env=groups.environment({}),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            process_group=0,
            preexec_fn=die_with_parent,
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


class TrialFailed(Exception):
    """The ranks did not go on; that has been told and counted."""


class Results:
    """The times of all trials by their subject, and the lines of the report about them."""

    def __init__(self) -> None:
        self.times: Dict[str, List[float]] = {}
        self.failures: Dict[str, int] = {}
        self.remarks: List[str] = []

    def add(self, name: str, seconds: float) -> None:
        """A trial."""
        self.times.setdefault(name, []).append(seconds)

    @contextlib.contextmanager
    def trial(self, name: str) -> Iterator[None]:
        """Around a trial that measures this. Raises TrialFailed."""
        try:
            yield
        except BenchError as error:
            print(f"bench: failed: {TITLES[name]}: {error}", file=sys.stderr)
            self.failures[name] = self.failures.get(name, 0) + 1
            raise TrialFailed from None


class ElasticJob:
    """Elastic ranks, forked of a process that has imported PyTorch."""

    def __init__(self, directory: pathlib.Path) -> None:
        self._directory = directory
        self._started = 0
        self._pids: List[int] = []
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
        try:
            for _ in range(RANKS):
                self._begin()
            self.ranks.wait(Wanted("steady", RANKS, RANKS), seconds=START_SECONDS)
        except BaseException:
            self.end()
            raise

    def _begin(self) -> float:
        """Starts a rank; gives when it began to join."""
        self.ranks.process.stdin.write(f"{self._started}\n")
        self._started += 1
        started, ready = self.ranks.wait(Wanted("started", 1), Wanted("ready", 1), seconds=START_SECONDS)
        self._pids.append(int(started[0].value))
        return ready[0].value

    def measure_loss(self, victim: int, results: Results) -> None:
        """Kills a rank, counted from the oldest."""
        self.ranks.drop_events()
        begin, left = time.monotonic(), RANKS - 1
        os.kill(self._pids.pop(victim), signal.SIGKILL)
        wanted = Wanted("noticed", left), Wanted("step", left, left), Wanted("steady", left, left)
        noticed, stepped, _ = self.ranks.wait(*wanted, seconds=TRIAL_SECONDS)
        results.add("noticed", _latest(noticed) - begin)
        results.add("stepped", _latest(stepped) - begin)

    def measure_join(self, results: Results) -> None:
        """Starts a rank in the place of one that was killed."""
        ready = self._begin()
        wanted = Wanted("step", RANKS, RANKS), Wanted("steady", RANKS, RANKS)
        results.add("joined", _latest(self.ranks.wait(*wanted, seconds=TRIAL_SECONDS)[0]) - ready)

    def measure_restart(self, results: Results) -> None:
        """Kills the coordinator and starts it again."""
        self.ranks.drop_events()
        begin = time.monotonic()
        self.coordinator.restart()
        (self._directory / "new").touch()
        (done,) = self.ranks.wait(Wanted("new", RANKS), seconds=TRIAL_SECONDS)
        results.add("reattached", _latest(done) - begin)

    def end(self) -> None:
        """Ends everything."""
        self.ranks.end()
        self.coordinator.end()


class TorchrunRanks:
    """Ranks that torchrun, which looks every 0.1 s, starts anew when one fails."""

    # By default the ranks of all attempts meet in one store, where this torch's (2.13) find the addresses of those before
    # them, and are refused: then hardly any restart succeeds.
    ENVIRONMENT = {"TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}

    def __init__(self, directory: pathlib.Path, restarts: int) -> None:
        rank = str(ROOT / "tests" / "bench" / "ranks" / "torchrun_rank.py")
        launch = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(RANKS)]
        command = [PYTHON, *launch, "--max-restarts", str(restarts), "--monitor-interval", "0.1", rank]
        self._ranks = Contender(command, self.ENVIRONMENT, directory)
        self._attempt = -1
        self._pids: List[int] = []
        try:
            self._await_attempt(START_SECONDS)
        except BaseException:
            self.end()
            raise

    def _await_attempt(self, seconds: float) -> float:
        """Waits until all ranks of a later attempt than the last one train; gives when they had done a step."""
        found: Dict[int, Dict[str, List[Event]]] = {}
        for event in self._ranks.events(seconds):
            kinds = found.setdefault(event.number, {"started": [], "step": [], "steady": []})
            kinds[event.name].append(event)
            if event.number > self._attempt and all(len(events) == RANKS for events in kinds.values()):
                self._attempt = event.number
                self._pids = [int(started.value) for started in kinds["started"]]
                return _latest(kinds["step"])
        raise AssertionError("events() does not end by itself")

    def measure_restart(self, victim: int, results: Results) -> None:
        """Kills a rank."""
        begin, before = time.monotonic(), self._attempt
        os.kill(self._pids[victim], signal.SIGKILL)
        results.add("torchrun", self._await_attempt(TRIAL_SECONDS) - begin)
        if self._attempt > before + 1:
            results.remarks.append(f"a restart of torchrun's took {self._attempt - before} attempts")

    def end(self) -> None:
        """Ends torchrun and its ranks."""
        self._ranks.end()


def _play(make: Callable[[pathlib.Path], Any], trial: Callable[[Any], None], trials: int, seconds: float) -> None:
    """Trials with the same ranks, or with new ones after a trial that has failed."""
    done, end = 0, time.monotonic() + seconds
    while done < trials and time.monotonic() < end:
        with tempfile.TemporaryDirectory(prefix="farandole-bench-") as directory:
            contender = make(pathlib.Path(directory))
            try:
                while done < trials and time.monotonic() < end:
                    done += 1
                    trial(contender)
            except TrialFailed:
                continue
            finally:
                contender.end()


def measure_farandole(trials: int, seed: int, results: Results) -> None:
    """The victims are drawn, rank 0 as often as any other."""
    draw = random.Random(seed)

    def trial(job: ElasticJob) -> None:
        with results.trial("stepped"):
            job.measure_loss(draw.randrange(RANKS), results)
        with results.trial("joined"):
            job.measure_join(results)
        with results.trial("reattached"):
            job.measure_restart(results)

    _play(ElasticJob, trial, trials, math.inf)


def measure_torchrun(trials: int, seed: int, results: Results) -> None:
    """A rank that fails because of a peer in a restart costs one more restart."""
    draw = random.Random(seed)

    def trial(ranks: TorchrunRanks) -> None:
        with results.trial("torchrun"):
            ranks.measure_restart(draw.randrange(RANKS), results)

    _play(lambda directory: TorchrunRanks(directory, 10 * (trials + 1)), trial, trials, TORCHRUN_SECONDS)


def _row(name: str, results: Results) -> List[str]:
    values, failures = sorted(results.times.get(name, [])), results.failures.get(name, 0)
    if not values:
        return [TITLES[name], "-", "-", "-", "0", str(failures), "-"]
    slow = values[min(len(values) - 1, int(0.99 * len(values)))]
    goal = GOALS.get(name)
    verdict = (
        "-" if goal is None else f"{report.show_time(goal)}, {'met' if slow <= goal and not failures else 'missed'}"
    )
    times = [report.show_time(value) for value in (statistics.median(values), slow, values[-1])]
    return [TITLES[name], *times, str(len(values) + failures), str(failures), verdict]


def page(results: Results, facts: Sequence[str]) -> str:
    """The figures as Markdown."""
    measured = [name for name in TITLES if name in results.times or name in results.failures]
    titles = ["what", "median", "99 % within", "slowest", "trials", "failed", "goal for 99 %"]
    lines = ["# What a loss costs", "", "For users of elastic jobs, and for operators who restart coordinators.", ""]
    lines += ["Written by `make bench-elastic` (tests/bench/elastic.py says how it measures).", ""]
    lines += report.table(titles, [_row(name, results) for name in measured])
    if "torchrun" in results.times and "stepped" in results.times:
        ratio = statistics.median(results.times["torchrun"]) / statistics.median(results.times["stepped"])
        lines += [
            "",
            f"After a loss, torchrun takes {ratio:.0f} times as long as Farandole, by the medians: it starts all processes "
            "anew. Its ranks meet in a store of their own (TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1): in the one that they "
            "share by default, those that are started again find the addresses of those before them, and fail.",
        ]
    lines += [
        "",
        f"{RANKS} ranks on one host, a model of 12 thousand parameters, momentum, a commit after each step.",
        "",
    ]
    return "\n".join([*lines, *(f"- {fact}" for fact in (*results.remarks, *facts)), ""])


def main() -> int:
    """Runs the trials."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=200, help="of losses, joins and restarts (default: %(default)s)")
    parser.add_argument("--torchrun-trials", type=int, default=20, help="of torchrun's losses (default: %(default)s)")
    parser.add_argument("--print", action="store_true", help="print the page, write nothing")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    load, results = machine.load(), Results()
    try:
        # In turns, as the machine is not equally quiet all the time.
        for half in range(2):
            measure_farandole((options.trials + half) // 2, half, results)
            measure_torchrun((options.torchrun_trials + half) // 2, half, results)
    except BenchError as error:
        print(f"bench: {error}", file=sys.stderr)
        return 1
    text = page(results, machine.describe(load))
    if options.print:
        print(text)
    else:
        PAGE.write_text(text, encoding="utf-8")
        print(f"bench: wrote {PAGE}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
