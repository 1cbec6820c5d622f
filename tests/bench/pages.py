"""Measures what open pages of the dashboard cost the job that they show, and writes docs/benchmarks/pages.md.

    make bench-pages
    .venv/bin/python tests/bench/pages.py [--pages N] [--rounds N] [--print]

A coordinator, a job of two ranks, and N pages that follow it as a browser's do: a stream of events, and after each "look"
the requests of the job's page and of its ranks. Phases take turns: no page, pages of this coordinator, and pages of another
coordinator with such a job on the same machine. The last ones have the same cost in processor time, which pages in life
spend on other machines, and none at the coordinator. In each phase the job goes on, and another tenant's job measures joins,
negotiations and messages that the coordinator answers (server/testing/neighbours.cc).
"""

import argparse
import asyncio
import contextlib
import os
import pathlib
import statistics
import sys
import tempfile
import urllib.parse
from typing import Dict, Iterator, List, NamedTuple, Tuple

import groups
import report
from gates import Gate
from groups import PYTHON, ROOT, BenchError
from programs_run import running
from tenants import CALLS, JOB, Calls, Shared, SteadyJob, Steps, percentile

sys.path.append(str(ROOT / "tests" / "integration" / "programs"))
from at_gate import wait_at  # noqa: E402  pylint: disable=wrong-import-position

PAGE = ROOT / "docs" / "benchmarks" / "pages.md"
PAGES = 300
ROUNDS = 7
PHASE_SECONDS = 8
# The kinds of phases: whose pages are open.
NOBODYS, OTHERS, OWN = "no page", "pages of another coordinator", "pages of this one"
KINDS = (NOBODYS, OTHERS, OWN)
RETRY_SECONDS = 0.5
VIEWS = ("page", "ranks", "workers")
LIMIT_S = 900


class Phase(NamedTuple):
    """A part of the run, between two times of CLOCK_MONOTONIC."""

    kind: str
    calls: Calls
    coordinator_cpu: float
    """Share of one core."""
    answers: int
    """That the pages got."""


class OpenPage:
    """A browser that shows the job's page."""

    def __init__(self, http: str, token: str) -> None:
        host, port = http.rsplit(":", 1)
        self._address = (host, int(port))
        self._head = f"HTTP/1.1\r\nHost: {http}\r\nAuthorization: Bearer {token}\r\n\r\n"
        self.is_open = asyncio.Event()
        self.answers = 0

    async def run(self) -> None:
        """Follows the job until it is cancelled."""
        # 503: readers that have just left still have their places. A page asks again.
        while b" 503 " in (status := await self._read_events()):
            await asyncio.sleep(RETRY_SECONDS)
        raise BenchError(f"a page's stream of events was answered {status!r}, or has ended")

    async def _read_events(self) -> bytes:
        """The line of the status, when the stream has ended or was refused."""
        job = urllib.parse.quote(f"default/{JOB}", safe="")
        reader, writer = await asyncio.open_connection(*self._address)
        try:
            writer.write(f"GET /api/v1/events?job={job}&after= {self._head}".encode())
            if b" 200 " not in (status := await reader.readline()):
                return status
            self.is_open.set()
            while line := await reader.readline():
                if line.startswith(b"event: look"):
                    await self._look()
            return status
        finally:
            writer.close()

    async def _look(self) -> None:
        reader, writer = await asyncio.open_connection(*self._address)
        try:
            for view in VIEWS:
                writer.write(f"GET /api/v1/jobs/{JOB}?tenant=default&view={view} {self._head}".encode())
                status = await reader.readline()
                if b"200" not in status:
                    raise BenchError(f"a page's request for {view} was answered {status!r}")
                length = 0
                while (line := await reader.readline()).strip():
                    if line.lower().startswith(b"content-length:"):
                        length = int(line.split(b":")[1])
                await reader.readexactly(length)
                self.answers += 1
        finally:
            writer.close()


async def _follow(http: str, token_file: str, gate: str, count: int) -> None:
    """Says when all pages are open, follows until the gate opens, and says how many answers they got."""
    token = pathlib.Path(token_file).read_text(encoding="utf-8").strip()
    pages = [OpenPage(http, token) for _ in range(count)]
    following = asyncio.gather(*(page.run() for page in pages))
    opened = asyncio.gather(*(page.is_open.wait() for page in pages))
    await asyncio.wait([following, opened], return_when=asyncio.FIRST_COMPLETED)
    opened.cancel()
    if following.done():
        following.result()
    print("open", flush=True)
    ended = asyncio.create_task(asyncio.to_thread(wait_at, gate))
    await asyncio.wait([following, ended], return_when=asyncio.FIRST_COMPLETED)
    if following.done():
        following.result()
    following.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await following
    print("answers", sum(page.answers for page in pages), flush=True)


def _cpu_seconds(pid: int) -> float:
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Watched:
    """A coordinator with a job that pages can follow."""

    def __init__(self, directory: pathlib.Path, stack: contextlib.ExitStack) -> None:
        directory.mkdir()
        self.shared = Shared(directory, (), stack)
        self.coordinator = self.shared.coordinator
        self.job = SteadyJob(self.shared, stack)
        self._followers = 0

    @contextlib.contextmanager
    def follow(self, pages: int) -> Iterator[List[int]]:
        """So many pages are open; the answers that they got are in the list afterwards."""
        self._followers += 1
        directory = self.shared.directory / f"pages{self._followers}"
        directory.mkdir()
        gate = Gate(directory / "gate")
        command = ["nice", "-n", "19", PYTHON, __file__, "--pages", str(pages), "--follow"]
        command += [self.coordinator.http, self.coordinator.token_file, str(gate)]
        with contextlib.closing(gate), running(command, directory, groups.environment({})) as follower:
            follower.expect("open")
            answers: List[int] = []
            yield answers
            gate.let_through(1)
            answers.append(int(follower.expect(r"answers (\d+)").group(1)))


def _phase(kind: str, pages: int, own: Watched, other: Watched, quiet_token: str) -> Phase:
    with contextlib.ExitStack() as stack:
        answers: List[int] = []
        if kind != NOBODYS:
            answers = stack.enter_context((own if kind == OWN else other).follow(pages))
        pid = own.coordinator.program.pid
        cpu = _cpu_seconds(pid)
        calls = own.shared.measure_calls(quiet_token, PHASE_SECONDS)
        share = (_cpu_seconds(pid) - cpu) / (calls.end - calls.begin)
    return Phase(kind, calls, share, sum(answers))


def measure(pages: int, rounds: int) -> Tuple[List[Phase], Steps]:
    """The phases, and the job's steps: when each began, and its allreduces' seconds."""
    with tempfile.TemporaryDirectory(prefix="farandole-bench-") as made, contextlib.ExitStack() as stack:
        directory = pathlib.Path(made)
        own, other = (Watched(directory / name, stack) for name in ("own", "other"))
        quiet_token = own.shared.make_token("quiet")
        phases = []
        for number in range(rounds):
            for turn in range(len(KINDS)):
                kind = KINDS[(number + turn) % len(KINDS)]
                phases.append(_phase(kind, pages, own, other, quiet_token))
                print(f"bench: {phases[-1]}", file=sys.stderr, flush=True)
        other.job.end()
        return phases, own.job.end()


def rows(phases: List[Phase], steps: Steps) -> List[List[str]]:
    """Of the table: figures are medians over the phases, and ratios the medians of the rounds' ratios, to no page and to the
    pages of the other coordinator."""
    figures: Dict[str, Dict[str, List[float]]] = {}

    def add(what: str, phase: Phase, value: float) -> None:
        figures.setdefault(what, {kind: [] for kind in KINDS})[phase.kind].append(value)

    for phase in phases:
        own = phase.calls.steps(steps)
        add("allreduces of a step, median", phase, statistics.median(own))
        add("allreduces of a step, 99 %", phase, percentile(own, 0.99))
        for call in CALLS:
            add(f"{call}, median", phase, phase.calls.of[call]["p50_us"] / 1e6)
            add(f"{call}, 99 %", phase, phase.calls.of[call]["p99_us"] / 1e6)
    lines = []
    for what, values in figures.items():
        ratios = [
            f"{statistics.median(own / than for own, than in zip(values[OWN], values[kind])):.2f}"
            for kind in (NOBODYS, OTHERS)
        ]
        lines.append([what, *(report.show_time(statistics.median(values[kind])) for kind in KINDS), *ratios])
    return lines


def page(phases: List[Phase], steps: Steps, pages: int, facts: List[str]) -> List[str]:
    """docs/benchmarks/pages.md."""
    asked = statistics.median(
        phase.answers / (phase.calls.end - phase.calls.begin) for phase in phases if phase.kind == OWN
    )
    shares = {
        kind: statistics.median(phase.coordinator_cpu for phase in phases if phase.kind == kind) for kind in KINDS
    }
    return [
        "# The cost of open pages for the job that they show",
        "",
        "For operators who let many people watch a job at a time.",
        "",
        f"Written by `make bench-pages` (tests/bench/pages.py). {pages} pages of the dashboard follow a job of two ranks: each has a stream of",
        "events and asks, about once a second, for what the job's page, its grid of ranks and its list of workers show. Phases of",
        f"{PHASE_SECONDS} s take turns: no page, pages of another coordinator with such a job, pages of this one. All of it shares one machine,",
        "so that pages of the other coordinator show what the pages' own processor time costs here, which in life is elsewhere.",
        "",
        "Figures are medians over the phases; ratios are the medians of the rounds' ratios. A step of the job has four allreduces of",
        "4 B to 1 MiB. Another tenant's job measures a join, from its first call until its epoch has formed; the negotiation of a new name",
        "by two ranks; and a message that is answered at once, which takes the way of a heartbeat.",
        "",
        *report.table(["", *KINDS, "this over none", "this over another's"], rows(phases, steps)),
        "",
        f"The pages got {asked:,.0f} answers a second. The coordinator used {shares[NOBODYS]:.0%} of a core without them, and {shares[OWN]:.0%} with them.",
        "",
        *(f"- {fact}" for fact in facts),
    ]


def main() -> int:
    """Runs it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pages", type=int, default=PAGES, help="so many pages (%(default)s)")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="of three phases each (%(default)s)")
    parser.add_argument("--print", action="store_true", help="print the page, write nothing")
    parser.add_argument("--follow", nargs=3, metavar=("HTTP", "TOKEN_FILE", "GATE"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.follow:
        asyncio.run(_follow(*options.follow, options.pages))
        return 0
    return report.measure_page(
        PAGE,
        options.print,
        LIMIT_S,
        lambda: measure(options.pages, options.rounds),
        lambda measured, facts: page(*measured, options.pages, facts),
    )


if __name__ == "__main__":
    sys.exit(main())
