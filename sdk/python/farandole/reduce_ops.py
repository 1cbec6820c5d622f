"""Reductions of allreduce, with the numbers of farandole/v1/types.proto."""

import warnings
from typing import Optional

from ._library import lib

Average: int = lib.FARANDOLE_AVERAGE
Sum: int = lib.FARANDOLE_SUM
Adasum: int = lib.FARANDOLE_ADASUM
Min: int = lib.FARANDOLE_MIN
Max: int = lib.FARANDOLE_MAX
Product: int = lib.FARANDOLE_PRODUCT

NAMES = {Average: "Average", Sum: "Sum", Adasum: "Adasum", Min: "Min", Max: "Max", Product: "Product"}


def choose(op: Optional[int], average: Optional[bool]) -> int:
    """The reduction that a call means: `op`; else what Horovod's older `average` says; else Average.

    ValueError: both are given, or `op` is none of this module's.
    """
    if average is not None:
        if op is not None:
            raise ValueError(
                f"average={average} and op={NAMES.get(op, op)} are both given; op supersedes average, leave average out"
            )
        warnings.warn("Parameter `average` has been replaced with `op`.", DeprecationWarning, stacklevel=3)
        return Average if average else Sum
    if op is None:
        return Average
    if op not in NAMES:
        raise ValueError(f"op={op!r} is not a reduction; use Average, Sum, Adasum, Min, Max or Product")
    return op
