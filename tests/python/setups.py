"""Checks whose job runs once in each setup, for the conftest.py of each framework."""

from typing import Callable, Dict, Iterable, Sequence

import harness
import pytest
from harness import Setup

# The modules whose checks run in a setup, or all that can.
ModulesOf = Callable[[Setup, bool], Sequence[str]]


def add_option(parser: pytest.Parser) -> None:
    """For `make soak`."""
    parser.addoption("--all-setups", action="store_true", help="run all checks in every setup that they are made for")


def parametrize(metafunc: pytest.Metafunc, setups: Iterable[Setup], modules_of: ModulesOf) -> None:
    """A check in a setup is a parameter."""
    if "check_name" not in metafunc.fixturenames:
        return
    has_all = metafunc.config.getoption("--all-setups")
    rows = [
        (setup, name) for setup in setups for module in modules_of(setup, has_all) for name in harness.functions(module)
    ]
    # A framework's modules lie in a package, "jax_checks", which the tests' names leave out.
    ids = [f"{name.split('_checks.', 1)[-1]}-{setup}" for setup, name in rows]
    metafunc.parametrize("setup,check_name", rows, ids=ids)


def outcomes(
    config: pytest.Config, directories: pytest.TempPathFactory, modules_of: ModulesOf, runs_alone: bool
) -> Callable[[Setup], harness.Outcome]:
    """The outcome of all checks in a setup; the job runs when it is asked for first. `runs_alone`: this process has
    loaded the framework already, so that a job of one needs no process of its own."""
    has_all = config.getoption("--all-setups")
    known: Dict[Setup, harness.Outcome] = {}

    def outcome(setup: Setup) -> harness.Outcome:
        if setup not in known:
            modules = modules_of(setup, has_all)
            known[setup] = (
                harness.run_alone(modules)
                if runs_alone and setup == Setup(1)
                else harness.run_checks(modules, setup, directories.mktemp(f"ranks{setup}"))
            )
        return known[setup]

    return outcome
