"""Fixtures of the TensorFlow tests, which run in an environment of their own, .venv-tensorflow; see tests/python/conftest.py."""

import os
import pathlib
import sys
from typing import Callable, Dict, Sequence

import pytest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "python")]
# The ranks find the checks there.
os.environ["PYTHONPATH"] = str(HERE)
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import harness  # noqa: E402
from harness import Setup  # noqa: E402

ALL = (
    "tensorflow_checks.ops",
    "tensorflow_checks.graphs",
    "tensorflow_checks.compiled",
    "tensorflow_checks.training",
)
# How ranks may be connected, and the modules whose checks `make test` runs so; with --all-setups all of them run in each.
SETUPS: Dict[Setup, Sequence[str]] = {
    Setup(1): ALL,
    Setup(2): ALL,
    Setup(3): ALL,
    Setup(4): ("tensorflow_checks.ops",),
    Setup(2, hosts=2, transport="tcp"): ("tensorflow_checks.ops", "tensorflow_checks.graphs"),
}


def pytest_addoption(parser: pytest.Parser) -> None:
    """For `make soak`."""
    parser.addoption("--all-setups", action="store_true", help="run all checks in every setup")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A check in a setup is a parameter."""
    if "check_name" not in metafunc.fixturenames:
        return
    has_all = metafunc.config.getoption("--all-setups")
    rows = [
        (setup, name)
        for setup, modules in SETUPS.items()
        for module in (ALL if has_all else modules)
        for name in harness.functions(module)
    ]
    ids = [f"{name.removeprefix('tensorflow_checks.')}-{setup}" for setup, name in rows]
    metafunc.parametrize("setup,check_name", rows, ids=ids)


@pytest.fixture(scope="session")
def checked(
    pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[Setup], harness.Outcome]:
    """The outcome of all checks in a setup; the job runs when it is asked for first."""
    has_all = pytestconfig.getoption("--all-setups")
    outcomes: Dict[Setup, harness.Outcome] = {}

    def outcome(setup: Setup) -> harness.Outcome:
        if setup not in outcomes:
            modules = ALL if has_all else SETUPS[setup]
            # Here TensorFlow is loaded already: a job of one needs no process of its own.
            outcomes[setup] = (
                harness.run_alone(modules)
                if setup == Setup(1)
                else harness.run_checks(modules, setup, tmp_path_factory.mktemp(f"ranks{setup}"))
            )
        return outcomes[setup]

    return outcome
