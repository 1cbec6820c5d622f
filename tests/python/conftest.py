"""Fixtures of the Python tests. Ranks are real processes, started by .venv/bin/farandole."""

import pathlib
import sys
from typing import Callable, Dict

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import harness  # noqa: E402


@pytest.fixture(scope="session")
def checked(tmp_path_factory: pytest.TempPathFactory) -> Callable[[harness.Setup], harness.Outcome]:
    """The outcome of all checks that are made for a setup's size; the job runs when it is asked for first."""
    outcomes: Dict[harness.Setup, harness.Outcome] = {}

    def outcome(setup: harness.Setup) -> harness.Outcome:
        if setup not in outcomes:
            modules = [module for module, sizes in harness.SIZES.items() if setup.size in sizes]
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
