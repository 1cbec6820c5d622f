"""Starting all ranks from one state."""

from typing import Any, Iterable

from ..process_sets import ProcessSet, global_process_set
from ._backend import backend


def broadcast_variables(variables: Iterable[Any], root_rank: int, process_set: ProcessSet = global_process_set) -> None:
    """Gives the root's values to the variables of all ranks, in the same order on all: model.weights, optimizer.variables."""
    backend.broadcast_variables(list(variables), root_rank, process_set)


def broadcast_global_variables(root_rank: int) -> Any:
    """Of v1's graphs on TensorFlow: gives the root's global variables to all ranks. RuntimeError: Keras 3 knows of none."""
    if not hasattr(backend, "broadcast_global_variables"):
        raise RuntimeError(
            "Keras 3 has no global variables: use hvd.callbacks.BroadcastGlobalVariablesCallback, or "
            "hvd.broadcast_variables([*model.weights, *model.optimizer.variables], root_rank)"
        )
    return backend.broadcast_global_variables(root_rank)
