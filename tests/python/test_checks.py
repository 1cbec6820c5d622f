"""Every check of `checks/` at the sizes that it is made for."""

from typing import Callable

import harness
import pytest

SIZES = {
    "numpy_ops": (1, 2, 3),
    "torch_ops": (1, 2, 3),
    "optimizer": (2, 3),
    "state": (1, 2, 3),
    "disagreement": (2, 3),
    "groups": (3,),
}
ROWS = [(module, size, name) for module, sizes in SIZES.items() for size in sizes for name in harness.names(module)]


@pytest.mark.parametrize("module,size,name", ROWS, ids=[f"{module}-{size}-{name}" for module, size, name in ROWS])
def test_check_passes_on_all_ranks(
    module: str, size: int, name: str, checked: Callable[[str, int], harness.Outcome]
) -> None:
    checked(module, size).require(name)


@pytest.mark.parametrize("module,size", [(module, size) for module, sizes in SIZES.items() for size in sizes])
def test_job_of_checks_ends_with_zero(module: str, size: int, checked: Callable[[str, int], harness.Outcome]) -> None:
    outcome = checked(module, size)
    assert outcome.code == 0, outcome.output[-3000:]
