"""Fixtures of the JAX tests, which run in an environment of their own, .venv-jax; see tests/python/conftest.py."""

import os
import pathlib
import sys
from typing import Callable, Dict, List, Sequence

import pytest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "python")]
# The ranks find the checks there.
os.environ["PYTHONPATH"] = str(HERE)
# A machine's GPU is not what these tests are about.
os.environ["JAX_PLATFORMS"] = "cpu"
os.environ["JAX_ENABLE_X64"] = "1"
# Compiling takes most of the time here.
os.environ.setdefault("XLA_FLAGS", "--xla_backend_optimization_level=0")

import harness  # noqa: E402
import setups  # noqa: E402
from harness import Setup  # noqa: E402

ALL = (
    "jax_checks.ops",
    "jax_checks.programs",
    "jax_checks.order",
    "jax_checks.derivatives",
    "jax_checks.training",
    "jax_checks.errors",
    "jax_checks.joined",
    "jax_checks.presence",
)
# How ranks may be connected, and the modules whose checks `make test` runs so; with --all-setups all of them run in each.
SETUPS: Dict[Setup, List[str]] = {
    Setup(1): ["jax_checks.ops", "jax_checks.programs"],
    Setup(2): [
        "jax_checks.ops",
        "jax_checks.order",
        "jax_checks.derivatives",
        "jax_checks.errors",
        "jax_checks.training",
        "jax_checks.presence",
    ],
    Setup(3): ["jax_checks.ops", "jax_checks.joined"],
    Setup(4): ["jax_checks.ops", "jax_checks.programs"],
    Setup(2, hosts=2, transport="tcp"): ["jax_checks.errors"],
    Setup(3, hosts=3, transport="tcp"): [],
    Setup(4, hosts=2, transport="tcp"): ["jax_checks.ops"],
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
