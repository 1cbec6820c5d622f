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
import setups  # noqa: E402
from harness import Setup  # noqa: E402

BASIC = (
    "tensorflow_checks.ops",
    "tensorflow_checks.graphs",
    "tensorflow_checks.memory",
    "tensorflow_checks.names",
    "tensorflow_checks.compiled",
    "tensorflow_checks.training",
    "tensorflow_checks.normalization",
    "tensorflow_checks.joined",
)
# Once with several ranks is enough.
MORE = (
    "tensorflow_checks.passes",
    "tensorflow_checks.options",
    "tensorflow_checks.derivatives",
    "tensorflow_checks.presence",
    "tensorflow_checks.same_variables",
)
ALL = (*BASIC, *MORE)
# How ranks may be connected, and the modules whose checks `make test` runs so; with --all-setups all of them run in each.
SETUPS: Dict[Setup, Sequence[str]] = {
    Setup(1): (*BASIC, "tensorflow_checks.passes"),
    Setup(2): (
        *BASIC,
        "tensorflow_checks.passes",
        "tensorflow_checks.presence",
        "tensorflow_checks.same_variables",
    ),
    Setup(3): (*BASIC, "tensorflow_checks.options", "tensorflow_checks.derivatives"),
    Setup(4): ("tensorflow_checks.ops",),
    Setup(2, hosts=2, transport="tcp"): ("tensorflow_checks.ops", "tensorflow_checks.graphs"),
    Setup(4, hosts=2, transport="tcp"): ("tensorflow_checks.ops",),
}


def modules_of(setup: Setup, has_all: bool) -> Sequence[str]:
    """The modules with checks that run in the setup, or all modules."""
    return ALL if has_all else SETUPS[setup]


def pytest_addoption(parser: pytest.Parser) -> None:
    """For `make soak`."""
    setups.add_option(parser)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A check in a setup is a parameter."""
    setups.parametrize(metafunc, SETUPS, modules_of)


@pytest.fixture(scope="session")
def checked(
    pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[Setup], harness.Outcome]:
    """The outcome of all checks in a setup; the job runs when it is asked for first."""
    return setups.outcomes(pytestconfig, tmp_path_factory, modules_of, runs_alone=True)
