"""Measures what a rank's measurements and its flight recorder cost: beside a build of this checkout without them.

make bench-measurements     some ten minutes, of which the build takes half; writes docs/benchmarks/measurements.md

The other build is that of HEAD with without_measurements.patch, in build/unmeasured.
"""

import argparse
import pathlib
import shutil
import subprocess
import sys
from typing import Dict, List

import beside
import groups
import report
from cells import MANY, Cell
from groups import ROOT, Checkout

PAGE = ROOT / "docs" / "benchmarks" / "measurements.md"
PATCH = pathlib.Path(__file__).with_name("without_measurements.patch")
UNMEASURED = ROOT / "build" / "unmeasured"
CELLS = [*(Cell(2, count) for count in (4, 256, 4 << 10, 64 << 10)), MANY, *(Cell(4, count) for count in (4, 4 << 10))]
ROUNDS = 21
LIMIT_S = 1800


def prepare() -> Checkout:
    """Builds the other one."""
    shutil.rmtree(UNMEASURED, ignore_errors=True)
    for command in (
        ["git", "clone", "-q", str(ROOT), str(UNMEASURED)],
        ["git", "-C", str(UNMEASURED), "apply", str(PATCH)],
        ["make", "-C", str(UNMEASURED), "install"],
    ):
        subprocess.run(command, check=True, stdout=sys.stderr)
    return Checkout(UNMEASURED)


def measure() -> List[beside.Row]:
    """All rows."""
    checkouts: Dict[str, Checkout] = {"this": groups.OWN, "other": prepare()}
    for checkout in checkouts.values():
        groups.require_installed(checkout)
    return beside.measure(checkouts, CELLS, [], ROUNDS)


def page(rows: List[beside.Row], facts: List[str]) -> List[str]:
    """Lines of Markdown."""
    return [
        "# The cost of measurements and of the flight recorder",
        "",
        "For people who ask what [diagnosis](../diagnosis.md) costs a job in which nothing is wrong.",
        "",
        "Written by `make bench-measurements` (tests/bench/unmeasured.py). Ranks of this tree take turns with those of one in which",
        "tests/bench/without_measurements.patch leaves out what a rank writes for them: the times of its waits and of its",
        "collectives, its steps, its last submission, and the recorder's line for each collective.",
        "",
        f"Times are medians over {ROUNDS} rounds. A ratio is the time with measurements over that without, round by round. A row",
        f"counts as slower where the lower quartile of its ratios is above {1 + beside.TOLERANCE:.2f}.",
        "",
        *report.table(["row", "with", "without", "ratio", "its quartiles", "verdict"], [row.shown() for row in rows]),
        "",
        *(f"- {fact}" for fact in facts),
    ]


def main() -> int:
    """Runs it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--print", action="store_true", help="print the page, write nothing")
    options = parser.parse_args()
    return report.measure_page(PAGE, options.print, LIMIT_S, measure, page)


if __name__ == "__main__":
    sys.exit(main())
