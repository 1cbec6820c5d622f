"""Fixtures of the Python tests. Ranks are real processes, started by .venv/bin/farandole."""

import pathlib
import sys
from typing import Callable, Dict, Tuple

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import harness  # noqa: E402


@pytest.fixture(scope="session")
def checked(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, int], harness.Outcome]:
    """The outcome of a module's checks at a size; the job runs when it is asked for first."""
    outcomes: Dict[Tuple[str, int], harness.Outcome] = {}

    def outcome(module: str, size: int) -> harness.Outcome:
        if (module, size) not in outcomes:
            outcomes[module, size] = harness.run_checks(module, size, tmp_path_factory.mktemp(f"{module}{size}"))
        return outcomes[module, size]

    return outcome


@pytest.fixture
def job(tmp_path: pathlib.Path) -> Callable[..., "harness.subprocess.CompletedProcess[str]"]:
    """Runs a program, given as text, as a job: job(size, program, *arguments)."""

    def run(size: int, program: str, *arguments: str):
        path = tmp_path / "program.py"
        path.write_text(program, encoding="utf-8")
        return harness.run(size, sys.executable, str(path), *arguments)

    return run
