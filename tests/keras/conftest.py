"""Fixtures of the Keras tests, which run in .venv-tensorflow; see tests/python/conftest.py. Each Keras and backend has jobs of its own."""

import os
import pathlib
import sys
from typing import Callable, Dict, Tuple

import pytest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "python")]
# The ranks find the checks there.
os.environ["PYTHONPATH"] = str(HERE)
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import harness  # noqa: E402

MODULES = (
    "keras_checks.training",
    "keras_checks.callbacks",
    "keras_checks.presence",
    "keras_checks.settings",
    "keras_checks.own_loops",
)
SETUPS = {
    "tensorflow": {"KERAS_BACKEND": "tensorflow"},
    "jax": {"KERAS_BACKEND": "jax", "JAX_PLATFORMS": "cpu"},
    "torch": {"KERAS_BACKEND": "torch"},
    "legacy": {"TF_USE_LEGACY_KERAS": "1"},
}
# The sizes of jobs: those of `make test`, and all.
SIZES, ALL_SIZES = (2,), (1, 2, 3)


def pytest_addoption(parser: pytest.Parser) -> None:
    """For `make soak`."""
    parser.addoption("--all", action="store_true", help="jobs of one to three ranks, in place of two")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A check in a job of a size, on a backend, is a parameter."""
    if "check_name" in metafunc.fixturenames:
        os.environ.setdefault("KERAS_BACKEND", "jax")  # the quickest to import, for the names alone
        names = [name for module in MODULES for name in harness.functions(module)]
        sizes = ALL_SIZES if metafunc.config.getoption("--all") else SIZES
        rows = [(backend, size, name) for backend in SETUPS for size in sizes for name in names]
        ids = [f"{name.removeprefix('keras_checks.')}-{backend}{size}" for backend, size, name in rows]
        metafunc.parametrize("backend,size,check_name", rows, ids=ids)


@pytest.fixture(scope="session")
def checked(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, int], harness.Outcome]:
    """The outcome of all checks in a job of a size, on a backend; the job runs when it is asked for first."""
    outcomes: Dict[Tuple[str, int], harness.Outcome] = {}

    def outcome(backend: str, size: int) -> harness.Outcome:
        if (backend, size) not in outcomes:
            directory = tmp_path_factory.mktemp(f"{backend}{size}")
            with pytest.MonkeyPatch.context() as patch:
                for name, value in {"KERAS_BACKEND": "", **SETUPS[backend]}.items():
                    patch.setenv(name, value) if value else patch.delenv(name, raising=False)
                outcomes[backend, size] = harness.run_checks(MODULES, harness.Setup(size), directory)
        return outcomes[backend, size]

    return outcome
