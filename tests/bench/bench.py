"""Measures Farandole beside its peers, in turns in one run, and writes docs/benchmarks/ (or with --quick prints the tables).

make bench          all of it, some ten minutes
make bench-quick    a part of it, within two minutes
"""

import argparse
import contextlib
import json
import pathlib
import signal
import sys
import tempfile
import time
from typing import Dict, Iterator, List, Optional

import frameworks
import groups
import hosts
import machine
import measuring
import plot
import report
from cells import FULL, QUICK, Suite
from groups import ROOT, BenchError

PAGE = ROOT / "docs" / "benchmarks"


def _say(start: float, text: str) -> None:
    print(f"bench: {time.monotonic() - start:4.0f} s  {text}", file=sys.stderr, flush=True)


@contextlib.contextmanager
def _two_hosts() -> Iterator[hosts.Namespaces]:
    with tempfile.TemporaryDirectory(prefix="farandole-bench-") as directory:
        made = hosts.Namespaces(pathlib.Path(directory) / "ssh", 2)
        try:
            yield made
        finally:
            made.close()


def _show(times: measuring.Times) -> str:
    return ", ".join(f"{name} {report.show_time(report.median(times, name))}" for name in times)


def measure(suite: Suite) -> report.Results:
    """Everything of the suite; progress goes to stderr."""
    start, load = time.monotonic(), machine.load()
    results = report.Results([], [], [], {}, {}, {}, [], [], suite.rounds)
    remarks = results.remarks
    if why_not := groups.why_no_horovod():
        remarks.append(f"Horovod takes no part: {why_not}")
    for size in sorted({cell.size for cell in suite.cells}):
        _say(start, f"{size} ranks start")
        with measuring.started(size) as running:
            for cell in (cell for cell in suite.cells if cell.size == size):
                results.cells.append((cell, measuring.measure_cell(cell, running, suite)))
                _say(start, f"{size} ranks, {cell.label}: {_show(results.cells[-1][1])}")
            if suite.bursts:
                results.bursts[size] = measuring.measure_bursts(running, suite)
                _say(start, f"{size} ranks, bursts: {_show(results.bursts[size])}")
            if size == 2:
                for trained in suite.models:
                    results.training.append((trained, measuring.measure_training(trained, running, suite)))
                    _say(start, f"training, {trained.label}: {_show(results.training[-1][1])}")
                if suite.cpu:
                    results.cpu.update(measuring.measure_cpu(running))
    for framework in frameworks.FRAMEWORKS if suite.frameworks else []:
        if why_not := frameworks.why_not(framework):
            remarks.append(why_not)
            continue
        _say(start, f"{framework.label} starts")
        for row in frameworks.measure(framework, suite):
            results.frameworks.append(row)
            _say(start, f"{row.framework}, {row.what}: {_show(row.times)}")
    if suite.rates:
        if why_not := hosts.why_not() or hosts.why_no_namespaces():
            remarks.append(f"no two hosts: {why_not}")
        else:
            _say(start, "two hosts start")
            with _two_hosts() as made:
                results.hosts.update(measuring.measure_hosts(made, suite.rates, suite.rounds))
            for rate, times in results.hosts.items():
                _say(start, f"two hosts, {rate}: {_show(times)}")
    results.facts.extend(machine.describe(load))
    large = [("64 MiB", 1 << 24)] if suite is FULL else []
    for size, count in (("4 B", 1), ("1 MiB", 1 << 18), *large):
        ranks = f"An allreduce of {size} with 2 ranks"
        results.facts.append(f"{ranks} by the C++ SDK and by the C interface: {groups.cpp_overhead(count)}")
        results.facts.append(f"{ranks} by the Go SDK and by the C interface: {groups.go_overhead(count)}")
    _say(start, "done")
    return results


def _picture(results: report.Results) -> str:
    lines: Dict[str, plot.Line] = {}
    for name in report.NAMES:
        line = [
            (cell.count_bytes, report.median(times, name))
            for cell, times in results.cells
            if (cell.size, cell.dtype, cell.kind) == (2, "f32", "one") and name in times
        ]
        if line:
            lines[name] = line
    return plot.draw("Time of an allreduce, 2 ranks on one host, float32", lines, report.NAMES)


def _raw(results: report.Results) -> str:
    """Every round's figure, for a closer look."""
    cells = [{**cell._asdict(), "seconds": times} for cell, times in results.cells]
    training = [{"model": each.model, "seconds": times} for each, times in results.training]
    rest = {
        "frameworks": results.frameworks,
        "bursts": results.bursts,
        "hosts": results.hosts,
        "cpu": results.cpu,
        "facts": results.facts,
    }
    return json.dumps({"cells": cells, "training": training, **rest}, indent=1)


def main(arguments: Optional[List[str]] = None) -> int:
    """Runs the suite."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="less of everything; print the tables, write nothing")
    options = parser.parse_args(arguments)
    # A signal that stops it stops the contenders too: an exit runs the clean-up.
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    suite = QUICK if options.quick else FULL
    signal.signal(signal.SIGALRM, lambda *_: sys.exit(f"bench: not done after {suite.limit_s} s"))
    signal.alarm(suite.limit_s)
    groups.require_programs()
    try:
        results = measure(suite)
    except BenchError as error:
        print(f"bench: {error}", file=sys.stderr)
        return 1
    raw = ROOT / "build" / "bench" / "results.json"
    raw.parent.mkdir(parents=True, exist_ok=True)
    raw.write_text(_raw(results), encoding="utf-8")
    if options.quick:
        print("\n".join([*report.tables(results), *(f"- {line}" for line in results.facts + results.remarks)]))
        return 0
    PAGE.mkdir(exist_ok=True)
    (PAGE / "README.md").write_text(report.page(results), encoding="utf-8")
    (PAGE / "allreduce.svg").write_text(_picture(results), encoding="utf-8")
    print(f"bench: wrote {PAGE / 'README.md'} and allreduce.svg; every round's figures are in {raw}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
