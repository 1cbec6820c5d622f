"""Every check of `keras_checks/` on each backend of Keras 3, and with tf-keras."""

from typing import Callable

import harness


def test_check_passes_on_all_ranks(
    backend: str, size: int, check_name: str, checked: Callable[[str, int], harness.Outcome]
) -> None:
    checked(backend, size).require(check_name)
