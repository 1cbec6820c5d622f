"""Every check of `tensorflow_checks/` in jobs of one to three ranks."""

from typing import Callable

import harness


def test_check_passes_on_all_ranks(size: int, check_name: str, checked: Callable[[int], harness.Outcome]) -> None:
    checked(size).require(check_name)
