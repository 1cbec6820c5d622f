"""Every check of `checks/` at the sizes that it is made for."""

from typing import Callable

import harness
import pytest

ROWS = [
    (setup, name)
    for setup in harness.SETUPS
    for module, sizes in harness.SIZES.items()
    if setup.size in sizes
    for name in harness.functions(module)
]


@pytest.mark.parametrize("setup,name", ROWS, ids=[f"{name}-{setup}" for setup, name in ROWS])
def test_check_passes_on_all_ranks(
    setup: harness.Setup, name: str, checked: Callable[[harness.Setup], harness.Outcome]
) -> None:
    checked(setup).require(name)


@pytest.mark.parametrize("setup", harness.SETUPS, ids=map(str, harness.SETUPS))
def test_job_of_checks_ends_with_zero(
    setup: harness.Setup, checked: Callable[[harness.Setup], harness.Outcome]
) -> None:
    outcome = checked(setup)
    assert outcome.code == 0, outcome.output[-3000:]
