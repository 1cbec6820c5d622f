"""Lets a greedy and a hostile tenant loose on a coordinator for an hour, and writes docs/benchmarks/load.md.

    make bench-load
    .venv/bin/python tests/bench/load.py [--minutes N] [--print]

In each minute the two attack for most of it and rest for the remainder; the quiet tenant makes its calls in both parts, and
its job of two ranks goes on all the time. After each attack the coordinator's memory, open files and state directory are
looked at.
"""

import argparse
import collections
import contextlib
import json
import sys
from typing import Counter, Dict, List, NamedTuple, Sequence, Tuple

import report
from groups import ROOT
from tenants import CALLS, Calls, Shared, SteadyJob, Steps, percentile, shared_coordinator

PAGE = ROOT / "docs" / "benchmarks" / "load.md"
MINUTES = 60
ATTACK_SECONDS = 45
# From the beginning of an attack until the quiet tenant measures, and how long it does so in each part.
SETTLE_SECONDS = 25
MEASURE_SECONDS = 12
OPTIONS = (
    "--tenant-queued-mib",
    "16",
    "--tenant-kept-mib",
    "32",
    "--tenant-mib-per-s",
    "4",
    "--keep-ended-jobs",
    "1000",
)
ROWS = 12


class Minute(NamedTuple):
    """Observations of one."""

    alone: Calls
    beside: Calls
    memory_mib: float
    descriptors: int
    state_mib: float
    ended: Dict[str, int]
    """What the attackers did, by how it ended."""


def _minute(shared: Shared, quiet: str, tokens: Dict[str, str]) -> Minute:
    alone = shared.measure_calls(quiet, MEASURE_SECONDS)
    ended: Counter[str] = collections.Counter()
    with contextlib.ExitStack() as stack:
        attackers = [stack.enter_context(shared.play(part, token, ATTACK_SECONDS)) for part, token in tokens.items()]
        shared.measure_calls(quiet, SETTLE_SECONDS)
        beside = shared.measure_calls(quiet, MEASURE_SECONDS)
        for attacker in attackers:
            told = json.loads(attacker.expect(r"^(\{.*\})$").group(1))
            attacker.require_end(0)
            ended.update(told.get("ends", {name: value for name, value in told.items() if isinstance(value, int)}))
    return Minute(
        alone, beside, shared.coordinator.resident_mib(), shared.descriptors(), shared.state_mib(), dict(ended)
    )


def measure(minutes: int) -> Tuple[List[Minute], Steps]:
    """The minutes, and the job's steps: when each began, and its allreduces' seconds."""
    seen = []
    with shared_coordinator(OPTIONS) as (shared, stack):
        quiet = shared.make_token("quiet")
        tokens = {part: shared.make_token(part) for part in ("greedy", "hostile")}
        job = SteadyJob(shared, stack)
        for number in range(minutes):
            seen.append(_minute(shared, quiet, tokens))
            print(f"bench: minute {number}: {seen[-1]}", file=sys.stderr, flush=True)
        return seen, job.end()


def _latencies(seen: Sequence[Minute], steps: Steps) -> List[List[str]]:
    rows = []

    def add(what: str, alone: Sequence[float], beside: Sequence[float]) -> None:
        rows.append([what, *report.compare(alone, beside)])

    for part, name in ((0.5, "median"), (0.99, "99 %")):
        phases = (
            [minute.alone.steps(steps) for minute in seen],
            [minute.beside.steps(steps) for minute in seen],
        )
        add(f"allreduces of a step, {name}", *([percentile(one, part) for one in kind] for kind in phases))
    for call in CALLS:
        for key, name in (("p50_us", "median"), ("p99_us", "99 %")):
            alone = [minute.alone.of[call][key] / 1e6 for minute in seen]
            beside = [minute.beside.of[call][key] / 1e6 for minute in seen]
            add(f"{call}, {name}", alone, beside)
    return rows


def page(measured: Tuple[List[Minute], Steps], facts: Sequence[str]) -> List[str]:
    """docs/benchmarks/load.md."""
    seen, steps = measured
    every = max(1, len(seen) // ROWS)
    chosen = sorted({*range(0, len(seen), every), len(seen) - 1})
    memory = [
        [str(at + 1), f"{seen[at].memory_mib:.0f} MiB", str(seen[at].descriptors), f"{seen[at].state_mib:.0f} MiB"]
        for at in chosen
    ]
    ended: Counter[str] = collections.Counter()
    for minute in seen:
        ended.update(minute.ended)
    return [
        f"# {len(seen)} minutes of greedy and hostile tenants",
        "",
        "For operators of a coordinator whose tenants they cannot trust.",
        "",
        "Written by `make bench-load` (tests/bench/load.py). Two tenants attack a coordinator for 45 s of each minute. The greedy one",
        "floods it as in [the other table](neighbours.md). The hostile one (`server/testing/hostile.cc`) has workers that do not read what",
        "they are sent, sends messages that are too large, leaves connections and calls half open with a token and without, keeps idle",
        "connections on the pages' port, begins and ends jobs of ever new names with ever new tensors, and guesses tokens. A quiet tenant",
        f"makes its calls in the rest of the minute and, {SETTLE_SECONDS} s after the attacks began, beside them; a job of two ranks takes steps all the",
        f"time ({len(steps):,} of them). `farandole serve {' '.join(OPTIONS)}`. All programs share the machine's cores, the attackers at nice 19.",
        "",
        "## What the quiet tenant feels",
        "",
        "Figures are medians over the minutes, ratios the medians of the minutes' ratios.",
        "",
        *report.table(["", "alone", "beside the attacks", "ratio"], _latencies(seen, steps)),
        "",
        "No call of it failed, and its job lost no rank: the run fails otherwise.",
        "",
        "## What the coordinator has, after so many minutes",
        "",
        *report.table(["minute", "memory", "open files", "state directory"], memory),
        "",
        "## What the attackers did, and how it ended",
        "",
        *report.table(["", "times"], [[name, f"{times:,}"] for name, times in sorted(ended.items())]),
        "",
        *(f"- {fact}" for fact in facts),
    ]


def main() -> int:
    """Runs it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=int, default=MINUTES, help="(%(default)s)")
    parser.add_argument("--print", action="store_true", help="print the page, write nothing")
    options = parser.parse_args()
    limit_s = (options.minutes + 5) * 150
    return report.measure_page(PAGE, options.print, limit_s, lambda: measure(options.minutes), page)


if __name__ == "__main__":
    sys.exit(main())
