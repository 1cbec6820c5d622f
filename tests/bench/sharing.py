"""Measures how much a quiet tenant feels of one that floods their coordinator, and writes docs/benchmarks/neighbours.md.

    make bench-sharing
    .venv/bin/python tests/bench/sharing.py [--rounds N] [--print]

For each setting of the coordinator, the quiet tenant's calls take turns: alone, and beside the flood. The flood's programs
have the machine's last core for themselves, since in life they run on other machines; the coordinator and the quiet
tenant have the others. The flood runs for a while before each phase beside it, so that it has used up its burst.
"""

import argparse
import statistics
import sys
from typing import Dict, List, NamedTuple, Sequence, Tuple

import report
from groups import ROOT
from tenants import CALLS, Calls, Shared, shared_coordinator

PAGE = ROOT / "docs" / "benchmarks" / "neighbours.md"
ROUNDS = 5
PHASE_SECONDS = 8
FLOOD_FIRST_SECONDS = 20
LIMIT_S = 1500
SETTINGS: Tuple[Tuple[str, ...], ...] = (
    ("--tenant-mib-per-s", "1048576"),
    (),
    ("--tenant-mib-per-s", "4"),
)


class Round(NamedTuple):
    """Of one setting."""

    alone: Calls
    beside: Calls
    grown_mib: float
    """The coordinator's memory, by how much it was more at the end."""
    sent: float
    """Messages of the flood that the coordinator has read in a second."""


def _received(shared: Shared) -> float:
    rows = shared.coordinator.metrics()
    return sum(value for name, value in rows.items() if name.startswith("farandole_messages_received_total{"))


def _round(shared: Shared) -> Round:
    quiet = shared.make_token("quiet")
    alone = shared.measure_calls(quiet, PHASE_SECONDS)
    before = shared.coordinator.resident_mib()
    greedy = shared.make_token("greedy")
    with shared.play("greedy", greedy, FLOOD_FIRST_SECONDS + PHASE_SECONDS + 1) as flood:
        shared.measure_calls(quiet, FLOOD_FIRST_SECONDS)
        received = _received(shared)
        beside = shared.measure_calls(quiet, PHASE_SECONDS)
        received = _received(shared) - received
        flood.require_end(0)
    sent = received / (beside.end - beside.begin)
    return Round(alone, beside, shared.coordinator.resident_mib() - before, sent)


def measure(rounds: int) -> Dict[Tuple[str, ...], List[Round]]:
    """The rounds by setting; each round has a coordinator of its own."""
    done: Dict[Tuple[str, ...], List[Round]] = {setting: [] for setting in SETTINGS}
    for _ in range(rounds):
        for setting in SETTINGS:
            with shared_coordinator(setting, apart=True) as (shared, _):
                done[setting].append(_round(shared))
            print(f"bench: {' '.join(setting) or 'default'}: {done[setting][-1]}", file=sys.stderr, flush=True)
    return done


def _cells(rounds: Sequence[Round], call: str, percentile: str) -> List[str]:
    alone, beside = ([getattr(one, part).of[call][percentile] / 1e6 for one in rounds] for part in ("alone", "beside"))
    return report.compare(alone, beside)


def _table(rounds: Sequence[Round]) -> List[str]:
    rows = [
        [f"{call}, {name}", *_cells(rounds, call, percentile)]
        for call in CALLS
        for percentile, name in (("p50_us", "median"), ("p99_us", "99 %"))
    ]
    return report.table(["", "alone", "beside the flood", "ratio"], rows)


def page(done: Dict[Tuple[str, ...], List[Round]], facts: Sequence[str]) -> List[str]:
    """docs/benchmarks/neighbours.md."""
    lines = [
        "# How a tenant's flood affects another tenant",
        "",
        "For operators of a coordinator that several teams share.",
        "",
        "Written by `make bench-sharing` (tests/bench/sharing.py). A quiet tenant trains beside one that floods the same coordinator",
        "(`server/testing/neighbours.cc`): four of its jobs send tensors of 300 shapes that their other ranks never state, and read no",
        "answers; two send measurements and logged values as fast as they can; one program looks at jobs. The quiet tenant waits for a join,",
        "from the first call until the epoch has formed; a negotiation of a new name by two ranks; and a message that is answered at once,",
        "which takes the way of a heartbeat. Phases of 8 s take turns, with a new coordinator in each round; figures are medians over the",
        f"{len(done[SETTINGS[0]])} rounds, and ratios the medians of the rounds' ratios. The flood has used up its burst before it is measured.",
        "",
        "The flood's programs have the machine's last core for themselves, as in life they have machines of their own. Coordinator and quiet",
        "tenant share the other cores: of two, one. The goal is a ratio of 1.10 at 99 %.",
        "",
    ]
    for setting, rounds in done.items():
        name = f"`{' '.join(setting)}`" if setting else "By default (`--tenant-mib-per-s 16`)"
        if setting == SETTINGS[0]:
            name = f"Without a pace ({name})"
        lines += [f"## {name}", "", *_table(rounds), ""]
        lines += [
            f"The coordinator read {statistics.median(one.sent for one in rounds):,.0f} messages a second, and its memory grew by "
            f"{statistics.median(one.grown_mib for one in rounds):.0f} MiB.",
            "",
        ]
    return [*lines, *(f"- {fact}" for fact in facts)]


def main() -> int:
    """Runs it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="for each setting (%(default)s)")
    parser.add_argument("--print", action="store_true", help="print the page, write nothing")
    options = parser.parse_args()
    return report.measure_page(PAGE, options.print, LIMIT_S, lambda: measure(options.rounds), page)


if __name__ == "__main__":
    sys.exit(main())
