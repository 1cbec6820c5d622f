"""Every check of `checks/` at the sizes that it is made for."""

from typing import Callable

import harness
import pytest

ROWS = [(size, name) for module, sizes in harness.SIZES.items() for size in sizes for name in harness.functions(module)]


@pytest.mark.parametrize("size,name", ROWS, ids=[f"{name}-{size}" for size, name in ROWS])
def test_check_passes_on_all_ranks(size: int, name: str, checked: Callable[[int], harness.Outcome]) -> None:
    checked(size).require(name)


@pytest.mark.parametrize("size", sorted({size for sizes in harness.SIZES.values() for size in sizes}))
def test_job_of_checks_ends_with_zero(size: int, checked: Callable[[int], harness.Outcome]) -> None:
    outcome = checked(size)
    assert outcome.code == 0, outcome.output[-3000:]
