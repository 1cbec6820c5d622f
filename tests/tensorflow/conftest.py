"""Fixtures of the TensorFlow tests, which run in an environment of their own, .venv-tensorflow; see tests/python/conftest.py."""

import os
import pathlib
import sys
from typing import Callable, Dict

import pytest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "python")]
# The ranks find the checks there.
os.environ["PYTHONPATH"] = str(HERE)
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import harness  # noqa: E402

# The modules whose checks run, in jobs of these sizes.
MODULES = (
    "tensorflow_checks.ops",
    "tensorflow_checks.graphs",
    "tensorflow_checks.compiled",
    "tensorflow_checks.training",
)
SIZES = (1, 2, 3)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A check in a job of a size is a parameter."""
    if "check_name" in metafunc.fixturenames:
        rows = [(size, name) for size in SIZES for module in MODULES for name in harness.functions(module)]
        ids = [f"{name.removeprefix('tensorflow_checks.')}-{size}" for size, name in rows]
        metafunc.parametrize("size,check_name", rows, ids=ids)


@pytest.fixture(scope="session")
def checked(tmp_path_factory: pytest.TempPathFactory) -> Callable[[int], harness.Outcome]:
    """The outcome of all checks in a job of a size; the job runs when it is asked for first."""
    outcomes: Dict[int, harness.Outcome] = {}

    def outcome(size: int) -> harness.Outcome:
        if size not in outcomes:
            # Here TensorFlow is loaded already: a job of one needs no process of its own.
            directory = tmp_path_factory.mktemp(f"ranks{size}")
            setup = harness.Setup(size)
            alone = size == 1
            outcomes[size] = harness.run_alone(MODULES) if alone else harness.run_checks(MODULES, setup, directory)
        return outcomes[size]

    return outcome
