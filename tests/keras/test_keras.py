"""Every check of `keras_checks/` on each backend of Keras 3, and with tf-keras."""

from typing import Callable

import harness


def test_check_passes_on_all_ranks(
    backend: str,
    setup: harness.Setup,
    check_name: str,
    checked: Callable[[str, harness.Setup], harness.Outcome],
) -> None:
    checked(backend, setup).require(check_name)
