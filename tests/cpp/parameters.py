"""Trained parameters that the examples write."""

import pathlib
from typing import List, Sequence


def weights_of(file: pathlib.Path) -> List[float]:
    """The numbers in a file, one a line."""
    return [float(line) for line in file.read_text(encoding="ascii").splitlines()]


def farthest(found: Sequence[float], wanted: Sequence[float]) -> float:
    """How far the two are apart where they differ most."""
    assert len(found) == len(wanted) > 0
    return max(abs(one - other) for one, other in zip(found, wanted))
