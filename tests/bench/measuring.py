"""Alternates the contenders, cell by cell: what varies from minute to minute on a machine is the same for all of them."""

import contextlib
import statistics
import time
from typing import Any, Callable, Dict, Iterator, List, Optional, Sequence

import groups
from cells import MIB, Cell, Suite, Trained
from groups import BenchError, Group

# Contender -> the medians of its rounds, in seconds.
Times = Dict[str, List[float]]

WARM_UP_STEPS = 4
# Where a step takes a tenth of a second, and finds its caches cold anyway.
LARGE_BYTES = 64 * MIB
LARGE_WARM_UP_STEPS = 2
LEAST_STEPS = 3
MOST_STEPS = 20_000
LOOKS = 8
HOSTS_BYTES = 64 * MIB
HOSTS_STEPS = 5
IDLE_SECONDS = 2.0
BURST_CALLS = 300
BURST_PAUSE_SECONDS = 0.05
LATE_SECONDS = 1.0


def _slowest(answers: Sequence[Dict[str, Any]]) -> List[float]:
    """Of each step."""
    return [max(step) for step in zip(*(answer["seconds"] for answer in answers))]


def _order_collective(group: Group, cell: Cell, steps: int, barrier: bool) -> List[float]:
    answers = group.order(**cell.order(), steps=steps, barrier=barrier)
    wrong = sum(answer["wrong"] for answer in answers)
    if wrong:
        raise BenchError(f"{group.name}: {wrong} elements are wrong after {cell.label} over {cell.size} ranks")
    return _slowest(answers)


def _measure(group: Group, cell: Cell, seconds: float) -> float:
    warm_up = WARM_UP_STEPS if cell.count_bytes < LARGE_BYTES else LARGE_WARM_UP_STEPS
    fastest = min(_order_collective(group, cell, warm_up, True))
    steps = int(min(max(seconds / max(fastest, 1e-7), LEAST_STEPS), MOST_STEPS))
    samples: List[float] = []
    start = time.monotonic()
    # Where others need the processors, a step takes many times as long as the fastest.
    while len(samples) < steps and (not samples or time.monotonic() - start < 2 * seconds):
        samples += _order_collective(group, cell, min(steps // LOOKS + LEAST_STEPS, steps), cell.needs_barrier)
    return statistics.median(samples)


def _natives(cell: Cell, seconds: float) -> Dict[str, Callable[[], float]]:
    """The contenders that are programs in C and C++."""
    if cell.kind == "flat":
        return {}
    shape = (cell.size, cell.count_bytes, cell.tensors, seconds)
    calls = {"farandole-c": lambda: groups.farandole_bench(*shape, cell.dtype, arena=cell.kind == "arena")}
    if cell.dtype == "f32" and groups.has_openmpi_headers():
        calls["openmpi-c"] = lambda: groups.openmpi_c(*shape)

    return {name: lambda name=name, call=call: seconds_of(name, cell, call()) for name, call in calls.items()}


def seconds_of(name: str, cell: Cell, result: Dict[str, Any]) -> float:
    """The median of a native program's result, whose sums are right."""
    if result["wrong"]:
        raise BenchError(f"{name}: {result['wrong']} elements are wrong after {cell.label}")
    return result["median_us"] / 1e6


def alternate(calls: Dict[str, Callable[[], float]], rounds: int) -> Times:
    """The results of each call. Each round begins with another contender."""
    times: Times = {name: [] for name in calls}
    names = list(calls)
    for number in range(rounds):
        for i in range(len(names)):
            name = names[(number + i) % len(names)]
            times[name].append(calls[name]())
    return times


@contextlib.contextmanager
def started(size: int) -> Iterator[List[Group]]:
    """The contenders in Python with so many ranks on this host."""
    launches = [groups.farandole_launch(size), groups.gloo_launch(size), groups.mpi4py_launch(size)]
    if not groups.why_no_horovod():
        launches.append(groups.horovod_launch(size))
    with contextlib.ExitStack() as stack:
        running = []
        for launch in launches:
            running.append(Group(launch))
            stack.callback(running[-1].close)
        yield running


def measure_cell(cell: Cell, running: Sequence[Group], suite: Suite) -> Times:
    """All contenders that can do it."""
    calls = _natives(cell, suite.seconds)
    for group in running if cell.kind != "arena" else []:
        if cell.dtype == "f32" or group.name != "mpi4py":
            calls[group.name] = lambda group=group: _measure(group, cell, suite.seconds)
    return alternate(calls, suite.rounds)


def measure_training(trained: Trained, running: Sequence[Group], suite: Suite) -> Times:
    """A step alone (without communication), by DDP, by Farandole, by Horovod."""
    by_name = {group.name: group for group in running}
    ways = {"alone": "gloo", "ddp": "gloo", "farandole": "farandole", "horovod": "horovod"}
    return measure_steps(trained, {how: by_name[name] for how, name in ways.items() if name in by_name}, suite)


def measure_groups(cell: Cell, running: Sequence[Group], suite: Suite) -> Times:
    """Of these contenders only."""
    calls = {group.name: lambda group=group: _measure(group, cell, suite.seconds) for group in running}
    return alternate(calls, suite.rounds)


def from_c(cell: Cell, suite: Suite) -> float:
    """Farandole's time from C++, in seconds."""
    return _natives(cell, suite.seconds)["farandole-c"]()


def measure_steps(
    trained: Trained, ways: Dict[str, Group], suite: Suite, beside: Optional[Dict[str, Callable[[], float]]] = None
) -> Times:
    """A step in each way, which the group of the way takes; in turns with what is `beside` them."""

    calls = {how: lambda how=how, group=group: train(group, trained, how, suite) for how, group in ways.items()}
    return alternate({**calls, **(beside or {})}, suite.rounds)


def train(group: Group, trained: Trained, how: str, suite: Suite) -> float:
    """A step in this way, in seconds; the ranks' parameters are equal behind it."""
    group.order(do="train", model=trained.model, how=how, steps=2)
    answers = group.order(do="train", model=trained.model, how=how, steps=suite.train_steps)
    if how != "alone" and len({answer["digest"] for answer in answers}) > 1:
        raise BenchError(f"{how}: the ranks' parameters differ after training {trained.model}")
    return statistics.median(_slowest(answers))


def measure_bursts(running: Sequence[Group], suite: Suite) -> Times:
    """Contender -> the median of each burst's calls, on its slower rank."""
    times: Times = {group.name: [] for group in running}
    for _ in range(suite.rounds):
        for group in running:
            order = {"do": "burst", "calls": BURST_CALLS, "pause": BURST_PAUSE_SECONDS, "bursts": suite.bursts}
            times[group.name] += _slowest(group.order(**order))
    return times


def measure_cpu(running: Sequence[Group]) -> Dict[str, Dict[str, float]]:
    """Contender -> shares of one core: between steps, and of a rank that waits in an allreduce for a late one."""
    return {
        group.name: {
            "idle": max(answer["cpu"] for answer in group.order(do="idle", seconds=IDLE_SECONDS)),
            "late": max(answer["cpu"] for answer in group.order(do="late", seconds=LATE_SECONDS)[1:]),
        }
        for group in running
    }


def measure_hosts(hosts: Any, rates: Sequence[str], rounds: int) -> Dict[str, Times]:
    """Rate -> times of 64 MiB between two hosts with a rank each; `hosts` are Namespaces of tests/integration."""
    cell = Cell(2, HOSTS_BYTES)
    prefixes = [["ip", "netns", "exec", name] for name in hosts.namespaces]
    launches = [
        groups.farandole_launch(2, hosts.options(1, 1)),
        groups.gloo_launch(2, hosts.names[0], prefixes),
    ]
    measured: Dict[str, Times] = {}
    with contextlib.ExitStack() as stack:
        running = []
        for launch in launches:
            running.append(Group(launch))
            stack.callback(running[-1].close)
        for rate in rates:
            for index in range(2):
                hosts.slow_down(index, rate, burst="4mb")

            def measure(group: Group) -> float:
                _order_collective(group, cell, 1, True)
                return statistics.median(_order_collective(group, cell, HOSTS_STEPS, True))

            calls = {group.name: lambda group=group: measure(group) for group in running}
            measured[rate] = alternate(calls, rounds)
    return measured
