"""Fixtures of the tests of whole jobs: programs of .venv/bin/farandole, which leave nothing behind in any outcome."""

import pathlib
import sys
from typing import Callable, Iterator, List, Sequence

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "python"))

import harness  # noqa: E402
import hosts  # noqa: E402
from browsers import Watched, browsers, watched_pages  # noqa: E402
from coordinators import Coordinator  # noqa: E402
from gates import Gate  # noqa: E402
from playwright.sync_api import Browser  # noqa: E402
from programs_run import Program  # noqa: E402
from terminals import Terminal  # noqa: E402

PROGRAMS = pathlib.Path(__file__).resolve().parent / "programs"


@pytest.fixture
def start(tmp_path: pathlib.Path) -> Iterator[Callable[..., Program]]:
    """Starts a command with environment variables of its own; its remaining processes are killed after the test."""
    harness.require_cli()
    started: List[Program] = []

    def program(*command: str, **environment: str) -> Program:
        started.append(Program(command, tmp_path / f"program{len(started)}", environment))
        return started[-1]

    yield program
    for each in started:
        each.kill_all()


@pytest.fixture
def job(start: Callable[..., Program]) -> Callable[..., Program]:
    """job(size, NAME, *arguments, options=(), hosts=1, **environment) starts programs/NAME.py as a job."""

    def run(
        size: int, name: str, *arguments: object, options: object = (), hosts: int = 1, **environment: str
    ) -> Program:
        worker = harness.split(hosts, [sys.executable, str(PROGRAMS / f"{name}.py"), *map(str, arguments)])
        return start(str(harness.CLI), "run", "-np", str(size), *options, *worker, **environment)

    return run


@pytest.fixture
def serve(start: Callable[..., Program], tmp_path: pathlib.Path) -> Callable[..., Coordinator]:
    """Starts `farandole serve` on free ports, or where an earlier one was; `under` is a command that runs it."""

    def coordinator(again: "Coordinator | None" = None, under: Sequence[str] = (), **environment: str) -> Coordinator:
        listen = again.address if again else "127.0.0.1:0"
        http = again.http if again else "127.0.0.1:0"
        state = again.state if again else tmp_path / "coordinator"
        return Coordinator(
            start(
                *(
                    *under,
                    str(harness.CLI),
                    "serve",
                    "--listen",
                    listen,
                    "--http",
                    http,
                    "--state-dir",
                    str(state),
                ),
                **environment,
            ),
            state,
        )

    return coordinator


@pytest.fixture
def terminal(tmp_path: pathlib.Path) -> Iterator[Callable[..., Terminal]]:
    """Starts a command in a terminal."""
    harness.require_cli()
    started: List[Terminal] = []

    def open_terminal(*command: str, **environment: str) -> Terminal:
        started.append(Terminal(command, tmp_path, environment))
        return started[-1]

    yield open_terminal
    for each in started:
        each.kill_all()


@pytest.fixture
def gate(tmp_path: pathlib.Path) -> Iterator[Gate]:
    """Something that programs wait at until the test lets them go on."""
    made = Gate(tmp_path / "gate")
    yield made
    made.close()


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """One for all tests of a module."""
    yield from browsers()


@pytest.fixture
def watched(browser: Browser) -> Iterator[Watched]:
    """A new page without a session."""
    yield from watched_pages(browser)


@pytest.fixture(scope="session")
def aliases(tmp_path_factory: pytest.TempPathFactory) -> Iterator[hosts.Aliases]:
    """64 hosts that are one machine, 127.0.0.2 and on."""
    if reason := hosts.why_not():
        pytest.skip(reason)
    yield from hosts.aliases_in(tmp_path_factory.mktemp("aliases") / "ssh", 64)


def _namespaces(directory: pathlib.Path, count: int) -> Iterator[hosts.Namespaces]:
    if reason := hosts.why_not() or hosts.why_no_namespaces():
        pytest.skip(reason)
    yield from hosts.namespaces_in(directory, count)


@pytest.fixture(scope="session")
def two_hosts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[hosts.Namespaces]:
    """Two hosts with networks of their own."""
    yield from _namespaces(tmp_path_factory.mktemp("namespaces") / "ssh", 2)


@pytest.fixture
def four_hosts(tmp_path: pathlib.Path) -> Iterator[hosts.Namespaces]:
    """Four hosts with networks of their own, which the test may cut off."""
    yield from _namespaces(tmp_path / "ssh", 4)


@pytest.fixture
def three_hosts(tmp_path: pathlib.Path) -> Iterator[hosts.Namespaces]:
    """Three hosts with networks of their own, which the test may cut from each other."""
    yield from _namespaces(tmp_path / "ssh", 3)


@pytest.fixture
def own_hosts(tmp_path: pathlib.Path) -> Iterator[hosts.Namespaces]:
    """Two hosts with networks of their own, which the test may cut off or slow down."""
    yield from _namespaces(tmp_path / "ssh", 2)


def pytest_addoption(parser: pytest.Parser) -> None:
    """The options of the fault matrix and of the chaos."""
    parser.addoption("--write-faults", action="store_true", help="write what test_faults.py saw to docs/faults.md")
    parser.addoption(
        "--seeds", help="play these seeds of test_chaos.py: A-B, or one (default: ten on this host, none over several)"
    )
    parser.addoption("--crowd", type=float, default=8, help="watch the dashboard's 10,240 ranks for so many seconds")
    parser.addoption("--balanced", type=int, default=0, help="judge so many balanced jobs of other seeds")
    parser.addoption("--rounds", type=int, default=1, help="play the fault matrix so many times")


def pytest_configure(config: pytest.Config) -> None:
    """The marker of tests that tools/test runs when no other runs."""
    config.addinivalue_line("markers", "alone: looks at times of milliseconds, which any neighbour spoils")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A round is a parameter of each fault, a seed one of the chaos."""
    for name, default in (("chaos_seed", "1-10"), ("cut_seed", "")):
        if name in metafunc.fixturenames:
            wanted = metafunc.config.getoption("--seeds") or default
            first, _, last = wanted.partition("-")
            seeds = range(int(first), int(last or first) + 1) if wanted else ()
            metafunc.parametrize(name, seeds, ids=lambda seed: f"seed{seed}")
    if "in_round" in metafunc.fixturenames:
        metafunc.parametrize(
            "in_round", range(metafunc.config.getoption("--rounds")), ids=lambda number: f"round{number}"
        )
