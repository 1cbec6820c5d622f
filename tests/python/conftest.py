"""Fixtures of the Python tests. Ranks are real processes, started by .venv/bin/farandole."""

import pathlib
import sys
from typing import Callable, Dict

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import harness  # noqa: E402


def pytest_addoption(parser: pytest.Parser) -> None:
    """The options of the checks."""
    parser.addoption("--all-setups", action="store_true", help="run all checks in every setup of their size")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A check in a setup is a parameter."""
    if "check_name" not in metafunc.fixturenames:
        return
    has_all = metafunc.config.getoption("--all-setups")
    rows = [
        (setup, name)
        for setup in harness.SETUPS
        for module in harness.modules_of(setup, has_all)
        for name in harness.functions(module)
    ]
    metafunc.parametrize("setup,check_name", rows, ids=[f"{name}-{setup}" for setup, name in rows])


@pytest.fixture(scope="session")
def checked(
    pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[harness.Setup], harness.Outcome]:
    """The outcome of all checks that run in a setup; the job runs when it is asked for first."""
    has_all = pytestconfig.getoption("--all-setups")
    outcomes: Dict[harness.Setup, harness.Outcome] = {}

    def outcome(setup: harness.Setup) -> harness.Outcome:
        if setup not in outcomes:
            modules = harness.modules_of(setup, has_all)
            outcomes[setup] = harness.run_checks(modules, setup, tmp_path_factory.mktemp(f"ranks{setup}"))
        return outcomes[setup]

    return outcome


@pytest.fixture
def job(tmp_path: pathlib.Path) -> Callable[..., "harness.subprocess.CompletedProcess[str]"]:
    """Runs a program, given as text, as a job: job(size, program, *arguments, hosts=1, transport="auto")."""

    def run(size: int, program: str, *arguments: str, hosts: int = 1, transport: str = "auto"):
        path = tmp_path / "program.py"
        path.write_text(program, encoding="utf-8")
        setup = harness.Setup(size, hosts, transport)
        return harness.run(setup, tmp_path / "state", sys.executable, str(path), *arguments)

    return run
