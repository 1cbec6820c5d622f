"""Fixtures of the Python tests. Ranks are real processes, started by .venv/bin/farandole."""

import pathlib
import sys
from typing import Callable, Dict

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import harness  # noqa: E402


@pytest.fixture(scope="session")
def checked(tmp_path_factory: pytest.TempPathFactory) -> Callable[[int], harness.Outcome]:
    """The outcome of all checks that are made for a size; the job runs when it is asked for first."""
    outcomes: Dict[int, harness.Outcome] = {}

    def outcome(size: int) -> harness.Outcome:
        if size not in outcomes:
            modules = [module for module, sizes in harness.SIZES.items() if size in sizes]
            outcomes[size] = harness.run_checks(modules, size, tmp_path_factory.mktemp(f"ranks{size}"))
        return outcomes[size]

    return outcome


@pytest.fixture
def job(tmp_path: pathlib.Path) -> Callable[..., "harness.subprocess.CompletedProcess[str]"]:
    """Runs a program, given as text, as a job: job(size, program, *arguments)."""

    def run(size: int, program: str, *arguments: str):
        path = tmp_path / "program.py"
        path.write_text(program, encoding="utf-8")
        return harness.run(size, tmp_path / "state", sys.executable, str(path), *arguments)

    return run
