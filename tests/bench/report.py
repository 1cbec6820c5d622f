"""The results as Markdown: medians over the rounds, and ratios, each of which is the median of the rounds' own ratios."""

import pathlib
import signal
import statistics
import sys
from typing import Callable, Dict, List, NamedTuple, Optional, Sequence, Tuple, TypeVar

import machine
from cells import BURST_GOAL_S, TRAINING_GOALS, CallGoal, Cell, Trained
from groups import BenchError
from measuring import BURST_CALLS, BURST_PAUSE_SECONDS, HOSTS_BYTES, Times

T = TypeVar("T")

NAMES = {
    "farandole-c": "Farandole, C++",
    "openmpi-c": "Open MPI, C",
    "farandole": "Farandole, torch",
    "gloo": "torch gloo",
    "mpi4py": "Open MPI, mpi4py",
    "horovod": "Horovod, torch",
}
RATES = {"1gbit": 1e9, "10gbit": 10e9}
MET, MISSED = "met", "**missed**"


class Results(NamedTuple):
    """All that a run measured."""

    cells: List[Tuple[Cell, Times]]
    training: List[Tuple[Trained, Times]]
    frameworks: List["FrameworkRow"]
    bursts: Dict[int, Times]
    hosts: Dict[str, Times]
    cpu: Dict[str, Dict[str, float]]
    facts: List[str]
    remarks: List[str]
    rounds: int


class FrameworkRow(NamedTuple):
    """A framework, its own way ("": it has none here), what it does, the times, and what a call of it may take."""

    framework: str
    own: str
    what: str
    times: Times
    goal: Optional[CallGoal] = None


def median(times: Times, name: str) -> Optional[float]:
    """Of a contender's rounds; None where it took no part."""
    return statistics.median(times[name]) if name in times else None


def ratio(times: Times, peer: str, own: str) -> Optional[float]:
    """How many times longer the peer takes."""
    if peer not in times or own not in times:
        return None
    return statistics.median(a / b for a, b in zip(times[peer], times[own]))


def show_time(seconds: Optional[float]) -> str:
    """Three digits."""
    if seconds is None:
        return "-"
    for unit, name in ((1, "s"), (1e-3, "ms"), (1e-6, "us")):
        if seconds >= unit:
            return f"{_digits(seconds / unit)} {name}"
    return f"{_digits(seconds / 1e-6)} us"


def _digits(value: float) -> str:
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def _show_ratio(value: Optional[float], goal: Optional[float]) -> Tuple[str, str]:
    if value is None:
        return "-", "-"
    verdict = "-" if goal is None else f"{_digits(goal)} x, {MET if value >= goal else MISSED}"
    return f"{_digits(value)} x", verdict


def table(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> List[str]:
    """Lines of Markdown."""
    lines = [list(titles), ["---"] * len(titles), *map(list, rows)]
    return ["| " + " | ".join(line) + " |" for line in lines]


def collectives(cells: Sequence[Tuple[Cell, Times]]) -> List[str]:
    """Two tables for each number of ranks: of programs in C and C++, and of those in Python."""
    lines: List[str] = []
    for size in sorted({cell.size for cell, _ in cells}):
        own = [(cell, times) for cell, times in cells if cell.size == size]
        lines += [f"### {size} ranks, from C and C++", ""]
        rows = [_native_row(cell, times) for cell, times in own if "farandole-c" in times]
        lines += table(["float32", "Farandole", "Open MPI", "ratio", "goal"], rows)
        lines += ["", f"### {size} ranks, from Python", ""]
        with_horovod = any("horovod" in times for _, times in own)
        titles = ["float32", "Farandole (torch)", "torch gloo", "ratio", "goal", "mpi4py (NumPy)", "ratio"]
        lines += table(
            [*titles, *(["Horovod", "ratio"] if with_horovod else [])],
            [_row(*each, with_horovod) for each in own if "farandole" in each[1]],
        )
        lines.append("")
    return lines


def _native_row(cell: Cell, times: Times) -> List[str]:
    native = _show_ratio(ratio(times, "openmpi-c", "farandole-c"), cell.goal.c)
    return [cell.label, show_time(median(times, "farandole-c")), show_time(median(times, "openmpi-c")), *native]


def _row(cell: Cell, times: Times, with_horovod: bool) -> List[str]:
    row = [cell.label, show_time(median(times, "farandole")), show_time(median(times, "gloo"))]
    row += _show_ratio(ratio(times, "gloo", "farandole"), cell.goal.python)
    for peer in ["mpi4py", "horovod"] if with_horovod else ["mpi4py"]:
        row += [show_time(median(times, peer)), _show_ratio(ratio(times, peer, "farandole"), None)[0]]
    return row


def training(results: Sequence[Tuple[Trained, Times]]) -> List[str]:
    """Efficiency: the time of a step without communication over its time with it."""
    rows = []
    for trained, times in results:
        row = [trained.label, show_time(median(times, "alone"))]
        for how in ("ddp", "farandole", "horovod"):
            if how in times:
                efficiency = ratio(times, "alone", how) or 0
                wanted = TRAINING_GOALS.get(trained.model) if how == "farandole" else None
                goal = "" if wanted is None else f", goal {wanted:.0%} {MET if efficiency >= wanted else MISSED}"
                row += [show_time(median(times, how)), f"{efficiency:.0%}{goal}"]
        rows.append(row)
    ways = [
        name
        for how, name in (("ddp", "DDP"), ("farandole", "Farandole"), ("horovod", "Horovod"))
        if how in results[0][1]
    ]
    return table(["model", "step without communication", *(word for way in ways for word in (way, "efficiency"))], rows)


def frameworks(rows: Sequence[FrameworkRow]) -> List[str]:
    """Each beside its own way."""
    lines = []
    for framework, own, what, times, goal in rows:
        ways = [show_time(median(times, way)) for way in ("alone", "farandole", "own")]
        beside = [own if "own" in times else "-", _show_ratio(ratio(times, "own", "farandole"), None)[0]]
        lines.append([framework, what, *ways, *beside, "-" if goal is None else _show_call(times, goal)])
    titles = ["framework", "float32", "without communication", "Farandole", "its own way", "which is", "ratio"]
    return table([*titles, "a call takes more by"], lines)


def _show_call(times: Times, goal: CallGoal) -> str:
    more = statistics.median(a - b for a, b in zip(times["farandole"], times[goal.above])) / goal.calls
    than = {"alone": "an op that does nothing", "c": "from C++"}[goal.above]
    verdict = MET if more <= goal.seconds else MISSED
    return f"{show_time(max(more, 0))} than {than}, goal {show_time(goal.seconds)} {verdict}"


def hosts(measured: Dict[str, Times]) -> List[str]:
    """Each host sends as many bytes as the tensor has."""

    def cell(rate: str, seconds: float) -> List[str]:
        return [show_time(seconds), f"{HOSTS_BYTES * 8 / seconds / RATES[rate]:.0%}"]

    rows = [
        [
            f"{RATES[rate] / 1e9:.0f} Gbit/s",
            *(word for name in ("farandole", "gloo") for word in cell(rate, median(times, name))),
        ]
        for rate, times in measured.items()
    ]
    return table(["link", "Farandole (torch)", "of the link", "torch gloo", "of the link"], rows)


def bursts(measured: Dict[int, Times]) -> List[str]:
    """The time of a burst's calls, by the median of each, and the time that 99 of 100 bursts do not exceed."""
    names = [name for name in NAMES if all(name in times for times in measured.values())]
    rows = []
    for size, times in measured.items():
        row = [str(size)]
        for name in names:
            most = sorted(times[name])[-(len(times[name]) // 100) - 1]
            row += [show_time(median(times, name)), show_time(most)]
            if (size, name) == (2, "farandole"):
                row[-1] += f", goal {show_time(BURST_GOAL_S)} {MET if most < BURST_GOAL_S else MISSED}"
        rows.append(row)
    titles = ["ranks", *(word for name in names for word in (NAMES[name], "99 % of bursts"))]
    count = min((len(each) for times in measured.values() for each in times.values()), default=0)
    return [
        f"From Python: {BURST_CALLS} allreduces of 4 B after {BURST_PAUSE_SECONDS * 1e3:.0f} ms in which each rank has computed, or has slept (by turns);"
        f" {count} bursts.",
        "",
        *table(titles, rows),
    ]


def cpu(shares: Dict[str, Dict[str, float]]) -> List[str]:
    """Shares of one core."""
    rows = [[NAMES[name], f"{each['idle']:.2%}", f"{each['late']:.2%}"] for name, each in shares.items()]
    return table(["", "between steps", "waiting 1 s in an allreduce for a late rank"], rows)


def tables(results: Results) -> List[str]:
    """All tables that there is something for."""
    sections: List[Tuple[str, object, Callable[..., List[str]]]] = [
        ("Allreduce on one host", results.cells, collectives),
        ("Bursts of small calls", results.bursts, bursts),
        ("Training with 2 ranks", results.training, training),
        ("TensorFlow and JAX in compiled steps, and MXNet, with 2 ranks", results.frameworks, frameworks),
        ("64 MiB between two hosts", results.hosts, hosts),
        ("CPU use of a rank, in one core's time", results.cpu, cpu),
    ]
    lines: List[str] = []
    for title, measured, show in sections:
        if measured:
            lines += [f"## {title}", "", *show(measured), ""]
    return lines


def page(results: Results) -> str:
    """docs/benchmarks/README.md."""
    head = [
        "# Benchmarks",
        "",
        "For users who choose between Farandole and its peers, and for people who change the data plane.",
        "",
        "Written by `make bench` (tests/bench); `make bench-quick` prints a part of it within two minutes. All contenders of a row",
        f"were measured in one run, in turns, {results.rounds} rounds each: figures are medians over the rounds, and a ratio (the peer's time over",
        "Farandole's) is the median of the rounds' ratios. Between one run and another the same program varies up to 2 x, so only",
        "the ratios count. A step takes as long as its slowest rank; each rank writes its buffers anew before each step; all sums",
        "are checked. A goal is the ratio of the project's first table, which was measured on such a machine on another day.",
        "",
        *(f"- {fact}" for fact in results.facts),
        *(f"- {remark}" for remark in results.remarks),
        "",
        "![Time of an allreduce over its size, 2 ranks](allreduce.svg)",
        "",
    ]
    return "\n".join([*head, *tables(results)]).rstrip() + "\n"


def compare(alone: Sequence[float], beside: Sequence[float]) -> List[str]:
    """Cells: the medians of the two, in seconds, and the median of the rounds' own ratios."""
    times = [show_time(statistics.median(values)) for values in (alone, beside)]
    return [*times, f"{statistics.median(b / a for a, b in zip(alone, beside)):.2f}"]


def measure_page(
    path: pathlib.Path,
    only_prints: bool,
    limit_s: int,
    measure: Callable[[], T],
    lines: Callable[[T, List[str]], List[str]],
) -> int:
    """Measures, and writes a page of docs/ with what `lines` makes of it and of the facts about the run; or prints it. The
    exit code."""
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    signal.signal(signal.SIGALRM, lambda *_: sys.exit(f"bench: not done after {limit_s} s"))
    signal.alarm(limit_s)
    load = machine.load()
    try:
        measured = measure()
    except BenchError as error:
        print(f"bench: {error}", file=sys.stderr)
        return 1
    text = "\n".join(lines(measured, machine.describe(load)))
    if only_prints:
        print(text)
    else:
        path.write_text(text + "\n", encoding="utf-8")
        print(f"bench: wrote {path}")
    return 0
