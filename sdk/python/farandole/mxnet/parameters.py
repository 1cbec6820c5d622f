"""Values that all ranks get from one of them."""

import types
from typing import Any, Callable, List, Optional

import mxnet as mx

from .._agreement import expect_agreement
from ..objects import allgather_object, broadcast_object
from ..process_sets import ProcessSet, global_process_set
from .ops import broadcast_

__all__ = ["allgather_object", "broadcast_object", "broadcast_parameters"]


def broadcast_parameters(
    params: Any,
    root_rank: int = 0,
    prefix: Optional[str] = None,
    process_set: ProcessSet = global_process_set,
) -> None:
    """Gives all ranks of the set the parameters of `root_rank`: `params` is a dictionary of arrays, as Module.get_params()
    gives, or of Gluon's parameters, as Block.collect_params() gives. They are there on return. A parameter whose shape
    Gluon does not know yet is broadcast when it is initialized.

    `prefix` begins the names by which they travel. ValueError: `params` is something else, or ranks disagree.
    """
    if prefix is not None and not isinstance(prefix, str):
        raise ValueError(f"prefix is a string, not {prefix!r}")
    if not hasattr(params, "items"):
        raise ValueError(
            f"broadcast_parameters takes a dictionary of arrays or parameters, not a {type(params).__name__}"
        )
    # Of a parameter whose shape is not known yet there is only the name.
    given = [("root_rank", root_rank), *((str(key), "a parameter") for key in sorted(params))]
    expect_agreement(f"{prefix or ''}broadcast_parameters", given, process_set)
    received: List[mx.nd.NDArray] = []
    for key, value in sorted(params.items()):
        name = f"{prefix or ''}{key}"
        if not isinstance(value, mx.gluon.Parameter):
            received.append(broadcast_(value, root_rank, name, process_set=process_set))
            continue
        try:
            received.extend(_broadcast_replicas(value, root_rank, name, process_set))
        except mx.gluon.parameter.DeferredInitializationError:
            _broadcast_when_initialized(value, root_rank, name, process_set)
    for array in received:
        array.wait_to_read()


def _broadcast_replicas(
    parameter: mx.gluon.Parameter, root_rank: int, name: str, process_set: ProcessSet
) -> List[mx.nd.NDArray]:
    """One of a parameter's arrays travels; it has one on each of this process's devices."""
    first, *others = parameter.list_data()
    broadcast_(first, root_rank, name, process_set=process_set)
    for other in others:
        first.copyto(other)
    return [first, *others]


def _broadcast_when_initialized(
    parameter: mx.gluon.Parameter, root_rank: int, name: str, process_set: ProcessSet
) -> None:
    initialize: Callable[..., Any] = parameter._init_impl

    def initialize_and_broadcast(self: mx.gluon.Parameter, *args: Any, **kwargs: Any) -> None:
        self._init_impl = initialize
        initialize(*args, **kwargs)
        _broadcast_replicas(self, root_rank, name, process_set)

    parameter._init_impl = types.MethodType(initialize_and_broadcast, parameter)
