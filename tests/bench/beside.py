"""Measures this checkout of Farandole beside another one, row by row in turns: does a change make a row slower?

make bench-beside CHECKOUT=DIR     some six minutes; `make install` must have run in DIR

The ranks of both run the programs of this checkout, each with its own worker library. A ratio is this checkout's time over
the other's: below 1 this one is faster. Ratios are taken round by round; a row counts as slower where its lower quartile is
above 1 + TOLERANCE, since single rounds differ by more than that.
"""

import argparse
import contextlib
import pathlib
import signal
import statistics
import sys
from typing import Callable, Dict, List, NamedTuple, Optional, Sequence

import groups
import measuring
import report
from cells import ARENA, FLAT, HALF, MANY, MIB, Cell, Suite, Trained
from cells import MODELS as ALL_MODELS
from groups import BenchError, Checkout, Group

ROUNDS = 11
SECONDS = 0.1
TOLERANCE = 0.05
LIMIT_S = 1800
MODELS = ALL_MODELS[:2]
CELLS = [
    *(Cell(2, count) for count in (4, 256, 4 << 10, 64 << 10, MIB, 16 * MIB, 64 * MIB)),
    HALF,
    MANY,
    FLAT,
    ARENA,
    *(Cell(4, count) for count in (4, 64 << 10, 16 * MIB)),
]
SUITE = Suite(
    cells=CELLS,
    models=MODELS,
    rates=[],
    rounds=ROUNDS,
    seconds=SECONDS,
    train_steps=3,
    bursts=4,
    frameworks=False,
    cpu=False,
    limit_s=LIMIT_S,
)


class Row(NamedTuple):
    """A measured thing, and the times of "this" and "other", round by round."""

    what: str
    times: measuring.Times

    @property
    def quartiles(self) -> List[float]:
        """Of the rounds' ratios: the lower one, the median and the upper one."""
        return statistics.quantiles(
            [own / other for own, other in zip(self.times["this"], self.times["other"])], n=4, method="inclusive"
        )

    @property
    def is_slower(self) -> bool:
        """Whether this checkout is."""
        return self.quartiles[0] > 1 + TOLERANCE

    def shown(self) -> List[str]:
        """A row of the table."""
        low, middle, high = self.quartiles
        verdict = "**slower**" if self.is_slower else "faster" if high < 1 - TOLERANCE else "level"
        times = [report.show_time(report.median(self.times, name)) for name in ("this", "other")]
        return [self.what, *times, f"{middle:.2f}", f"{low:.2f} to {high:.2f}", verdict]


def _from_c(cell: Cell, checkout: Checkout) -> float:
    result = groups.farandole_bench(
        cell.size, cell.count_bytes, cell.tensors, SECONDS, cell.dtype, arena=cell.kind == "arena", checkout=checkout
    )
    return measuring.seconds_of(str(checkout.root), cell, result)


def measure(checkouts: Dict[str, Checkout], cells: Sequence[Cell], models: Sequence[Trained], rounds: int) -> List[Row]:
    """A row for each cell, and model; each is written to stderr when it is there."""
    rows: List[Row] = []
    suite = SUITE._replace(rounds=rounds)

    def add(what: str, times: measuring.Times) -> None:
        rows.append(Row(what, times))
        print(f"bench: {', '.join(rows[-1].shown())}", file=sys.stderr, flush=True)

    for size in sorted({cell.size for cell in cells}):
        with contextlib.ExitStack() as stack:
            running = {}
            for name, checkout in checkouts.items():
                running[name] = Group(groups.farandole_launch(size, name=name, checkout=checkout))
                stack.callback(running[name].close)
            for cell in (cell for cell in cells if cell.size == size):
                title = f"{size} ranks, {cell.label}"
                if cell.kind != "flat":
                    calls: Dict[str, Callable[[], float]] = {
                        name: lambda cell=cell, checkout=checkout: _from_c(cell, checkout)
                        for name, checkout in checkouts.items()
                    }
                    add(f"{title}, from C++", measuring.alternate(calls, rounds))
                if cell.kind != "arena":
                    add(f"{title}, from torch", measuring.measure_groups(cell, list(running.values()), suite))
            add(f"{size} ranks, bursts", measuring.measure_bursts(list(running.values()), suite))
            for trained in models if size == 2 else []:
                ways = {
                    name: lambda group=group, trained=trained: measuring.train(group, trained, "farandole", suite)
                    for name, group in running.items()
                }
                add(f"training, {trained.label}", measuring.alternate(ways, rounds))
    return rows


def table(rows: List[Row]) -> List[str]:
    """Lines of Markdown."""
    return report.table(["row", "this", "other", "ratio", "its quartiles", "verdict"], [row.shown() for row in rows])


def main(arguments: Optional[List[str]] = None) -> int:
    """Exits with 1 where a row is slower."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkout", type=pathlib.Path, help="the other one")
    options = parser.parse_args(arguments)
    # A signal that stops it stops the ranks too: an exit runs the clean-up.
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    signal.signal(signal.SIGALRM, lambda *_: sys.exit(f"bench: not done after {LIMIT_S} s"))
    signal.alarm(LIMIT_S)
    checkouts = {"this": groups.OWN, "other": Checkout(options.checkout.resolve())}
    for checkout in checkouts.values():
        groups.require_installed(checkout)
    try:
        rows = measure(checkouts, CELLS, MODELS, ROUNDS)
    except BenchError as error:
        print(f"bench: {error}", file=sys.stderr)
        return 1
    print("\n".join(table(rows)))
    return 1 if any(row.is_slower for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
