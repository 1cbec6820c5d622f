"""Fixtures of the Keras tests, which run in .venv-tensorflow; see tests/python/conftest.py. Each Keras and backend has jobs of its own."""

import os
import pathlib
import sys
from typing import Callable, Dict, Sequence, Tuple

import pytest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "python")]
# The ranks find the checks there.
os.environ["PYTHONPATH"] = str(HERE)
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import harness  # noqa: E402
from harness import Setup  # noqa: E402

BACKENDS = {
    "tensorflow": {"KERAS_BACKEND": "tensorflow"},
    "jax": {"KERAS_BACKEND": "jax", "JAX_PLATFORMS": "cpu"},
    "torch": {"KERAS_BACKEND": "torch"},
    "legacy": {"TF_USE_LEGACY_KERAS": "1"},
}
BASIC = ("keras_checks.values", "keras_checks.training")
# Their results depend on the ranks that take part.
PARTS = ("keras_checks.sets", "keras_checks.joined")
MORE = ("keras_checks.callbacks", "keras_checks.presence", "keras_checks.settings", "keras_checks.own_loops")
ALL = (*BASIC, *PARTS, *MORE)
# How ranks may be connected; with --all the checks of all modules run in each, on each backend.
SETUPS = (Setup(1), Setup(2), Setup(3), Setup(4), Setup(4, hosts=2, transport="tcp"))
# The modules whose checks `make test` runs, on a backend in a setup.
CHOSEN: Dict[Tuple[str, Setup], Sequence[str]] = {
    **{(backend, Setup(2)): (*BASIC, *MORE) for backend in BACKENDS},
    # Its steps are compiled again otherwise than JAX's.
    ("tensorflow", Setup(2)): (*BASIC, *MORE, "keras_checks.joined"),
    **{(backend, Setup(3)): PARTS for backend in ("jax", "torch")},
}
# The backends of those tests that `make test` runs on one.
ONE = ("jax",)


def modules_of(backend: str, setup: Setup, has_all: bool) -> Sequence[str]:
    """The modules whose checks run on the backend in the setup."""
    return ALL if has_all else CHOSEN.get((backend, setup), ())


def pytest_addoption(parser: pytest.Parser) -> None:
    """For `make soak`."""
    parser.addoption("--all", action="store_true", help="run all checks in every setup, on every backend")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A check in a setup, on a backend, is a parameter; a backend of those tests that need one is."""
    has_all = metafunc.config.getoption("--all")
    if "one_backend" in metafunc.fixturenames:
        metafunc.parametrize("one_backend", BACKENDS if has_all else ONE)
    if "check_name" in metafunc.fixturenames:
        os.environ.setdefault("KERAS_BACKEND", "jax")  # the quickest to import, for the names alone
        rows = [
            (backend, setup, name)
            for backend in BACKENDS
            for setup in SETUPS
            for module in modules_of(backend, setup, has_all)
            for name in harness.functions(module)
        ]
        ids = [f"{name.removeprefix('keras_checks.')}-{backend}{setup}" for backend, setup, name in rows]
        metafunc.parametrize("backend,setup,check_name", rows, ids=ids)


@pytest.fixture(scope="session")
def checked(
    pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[str, Setup], harness.Outcome]:
    """The outcome of all checks in a setup, on a backend; the job runs when it is asked for first."""
    outcomes: Dict[Tuple[str, Setup], harness.Outcome] = {}

    def outcome(backend: str, setup: Setup) -> harness.Outcome:
        if (backend, setup) not in outcomes:
            directory = tmp_path_factory.mktemp(f"{backend}{setup}")
            modules = modules_of(backend, setup, pytestconfig.getoption("--all"))
            with pytest.MonkeyPatch.context() as patch:
                for name, value in {"KERAS_BACKEND": "", **BACKENDS[backend]}.items():
                    patch.setenv(name, value) if value else patch.delenv(name, raising=False)
                outcomes[backend, setup] = harness.run_checks(modules, setup, directory)
        return outcomes[backend, setup]

    return outcome
