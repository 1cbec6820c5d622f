"""Every check of `tensorflow_checks/` in jobs of one to four ranks, in memory and over TCP."""

from typing import Callable

import harness


def test_check_passes_on_all_ranks(
    setup: harness.Setup, check_name: str, checked: Callable[[harness.Setup], harness.Outcome]
) -> None:
    checked(setup).require(check_name)
