"""Reductions of allreduce, with the numbers of farandole/v1/types.proto."""

import warnings
from numbers import Integral
from typing import Any

from ._library import lib

Average: int = lib.FARANDOLE_AVERAGE
Sum: int = lib.FARANDOLE_SUM
Adasum: int = lib.FARANDOLE_ADASUM
Min: int = lib.FARANDOLE_MIN
Max: int = lib.FARANDOLE_MAX
Product: int = lib.FARANDOLE_PRODUCT

NAMES = {Average: "Average", Sum: "Sum", Adasum: "Adasum", Min: "Min", Max: "Max", Product: "Product"}


# torch.distributed numbers its reductions otherwise, and its numbers equal ours: they go by their names.
_BY_TORCH_NAME = {"SUM": Sum, "AVG": Average, "PRODUCT": Product, "MIN": Min, "MAX": Max}


def choose(op: Any, average: Any) -> int:
    """The reduction that a call means: `op`, which may be torch.distributed's; else what Horovod's older `average` says;
    else Average.

    ValueError: both are given, or one of them is something else.
    """
    if average is not None:
        return _by_average(op, average)
    if op is None:
        return Average
    # The usual ones by identity, which is the fastest.
    if op is Sum or op is Average or (type(op) is int and op in NAMES):
        return op
    return _known(op)


def _by_average(op: Any, average: Any) -> int:
    if op is not None:
        raise ValueError(
            f"average={average!r} and op={_named(op)} are both given; op supersedes average, leave average out"
        )
    value = average.item() if hasattr(average, "item") and getattr(average, "ndim", 1) == 0 else average
    if not (isinstance(value, int) and value in (0, 1)):
        raise ValueError(f"average={average!r} is neither True nor False; the tensor's name is the argument `name`")
    warnings.warn("Parameter `average` has been replaced with `op`.", DeprecationWarning, stacklevel=4)
    return Average if value else Sum


def _known(op: Any) -> int:
    if type(op).__module__.startswith("torch."):
        kind = getattr(op, "op", op)  # ReduceOp(ReduceOp.SUM) holds a ReduceOp.SUM
        found = _BY_TORCH_NAME.get(getattr(kind, "name", ""))
        if found is not None:
            return found
    # NumPy's numbers mean what they are; a member of an enumeration has a number of its own.
    elif isinstance(op, Integral) and not isinstance(op, int) and int(op) in NAMES:
        return int(op)
    raise ValueError(f"op={op!r} is not a reduction; use Average, Sum, Adasum, Min, Max or Product")


def _named(op: Any) -> str:
    return NAMES[op] if type(op) is int and op in NAMES else repr(op)
