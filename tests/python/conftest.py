"""Fixtures of the Python tests. Ranks are real processes, started by .venv/bin/farandole."""

import pathlib
import sys
from typing import Callable

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import harness  # noqa: E402
import setups  # noqa: E402


def pytest_addoption(parser: pytest.Parser) -> None:
    """The options of the checks."""
    setups.add_option(parser)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A check in a setup is a parameter."""
    setups.parametrize(metafunc, harness.SETUPS, harness.modules_of)


@pytest.fixture(scope="session")
def checked(
    pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[harness.Setup], harness.Outcome]:
    """The outcome of all checks that run in a setup; the job runs when it is asked for first."""
    return setups.outcomes(pytestconfig, tmp_path_factory, harness.modules_of, runs_alone=False)


@pytest.fixture
def job(tmp_path: pathlib.Path) -> Callable[..., "harness.subprocess.CompletedProcess[str]"]:
    """Runs a program, given as text, as a job: job(size, program, *arguments, hosts=1, transport="auto")."""

    def run(size: int, program: str, *arguments: str, hosts: int = 1, transport: str = "auto"):
        path = tmp_path / "program.py"
        path.write_text(program, encoding="utf-8")
        setup = harness.Setup(size, hosts, transport)
        return harness.run(setup, tmp_path / "state", sys.executable, str(path), *arguments)

    return run
