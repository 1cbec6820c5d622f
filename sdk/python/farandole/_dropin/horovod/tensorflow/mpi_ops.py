"""The operations by Horovod's name."""

import re
from typing import Any, List, Optional, Sequence

from farandole.process_sets import ProcessSet, global_process_set
from farandole.tensorflow import *  # noqa: F401,F403
from farandole.tensorflow import (
    Sum,
    allreduce,
    grouped_allreduce,
    grouped_reducescatter,
    reducescatter,
)

from horovod.common.basics import HorovodBasics
from horovod.common.util import get_average_backwards_compatibility_fun
from horovod.common.util import num_rank_is_power_2 as check_num_rank_power_of_2  # noqa: F401
from horovod.tensorflow.util import _executing_eagerly  # noqa: F401

_basics = HorovodBasics()

handle_average_backwards_compatibility = get_average_backwards_compatibility_fun(_basics)


def _normalize_name(name: str) -> str:
    """The name with underscores for what a name of TensorFlow cannot have."""
    return re.sub("[^a-zA-Z0-9_]", "_", name)


# The forms without compression and slices, which reduce by Sum unless they are told otherwise.


def _allreduce(
    tensor: Any,
    name: Optional[str] = None,
    op: int = Sum,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    ignore_name_scope: bool = False,
    process_set: ProcessSet = global_process_set,
) -> Any:
    """As allreduce."""
    del ignore_name_scope
    factors = {"prescale_factor": prescale_factor, "postscale_factor": postscale_factor}
    return allreduce(tensor, op=op, name=name, process_set=process_set, **factors)


def _grouped_allreduce(
    tensors: Sequence[Any],
    name: Optional[str] = None,
    op: int = Sum,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    ignore_name_scope: bool = False,
    process_set: ProcessSet = global_process_set,
) -> List[Any]:
    """As grouped_allreduce."""
    del ignore_name_scope
    factors = {"prescale_factor": prescale_factor, "postscale_factor": postscale_factor}
    return grouped_allreduce(tensors, op=op, name=name, process_set=process_set, **factors)


def _reducescatter(
    tensor: Any,
    name: Optional[str] = None,
    op: int = Sum,
    ignore_name_scope: bool = False,
    process_set: ProcessSet = global_process_set,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> Any:
    """As reducescatter."""
    del ignore_name_scope
    factors = {"prescale_factor": prescale_factor, "postscale_factor": postscale_factor}
    return reducescatter(tensor, op=op, name=name, process_set=process_set, **factors)


def _grouped_reducescatter(
    tensors: Sequence[Any],
    name: Optional[str] = None,
    op: int = Sum,
    ignore_name_scope: bool = False,
    process_set: ProcessSet = global_process_set,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> List[Any]:
    """As grouped_reducescatter."""
    del ignore_name_scope
    factors = {"prescale_factor": prescale_factor, "postscale_factor": postscale_factor}
    return grouped_reducescatter(tensors, op=op, name=name, process_set=process_set, **factors)
