"""Starting all ranks from one state."""

from typing import Any, Callable, Iterable, List, Optional, Tuple

import tensorflow as tf

from .. import _ops, objects
from .._agreement import expect_equal_tensors
from ..process_sets import ProcessSet, global_process_set
from .gradient_exchange import variable_of
from .in_place import receive_in_place
from .ops import allgather, broadcast_all
from .placement import tell_of_copies


def broadcast_variables(
    variables: Iterable[Any],
    root_rank: int,
    process_set: ProcessSet = global_process_set,
    inplace: bool = False,
) -> Any:
    """Gives the root's values to the variables of all ranks: tf.Variables or Keras variables, in the same order on all.

    Eager: they have them on return, or ValueError where ranks differ in the number of variables, in a shape or an element
    type. In a graph: the op that gives them, which fails with InvalidArgumentError for the same reasons. All travel at the
    same time, each into memory of its own; with `inplace` one after the other into the variables' memory.
    """
    variables = [variable_of(variable) for variable in variables]
    name = "broadcast_variables"
    is_eager = tf.executing_eagerly()
    if is_eager:
        shapes = [_described(tf.convert_to_tensor(variable)) for variable in variables]
        expect_equal_tensors(name, _ops.root_for(root_rank), shapes, process_set)
    checks = [] if is_eager else [_expect_equal_number(name, len(variables), process_set)]
    with tf.control_dependencies(checks):
        assigned = (_receive_in_turn if inplace else _receive)(variables, root_rank, name, process_set)
    return None if is_eager else tf.group(*assigned, *checks)


def _described(value: tf.Tensor) -> Tuple[List[int], str]:
    return value.shape.as_list(), value.dtype.name


def _receive(variables: List[Any], root_rank: int, name: Optional[str], process_set: ProcessSet) -> List[Any]:
    """The ops that give the variables the root's values, which all travel at the same time."""
    values = [tf.convert_to_tensor(variable) for variable in variables]
    for value in values:
        tell_of_copies(value)
    received = broadcast_all(values, root_rank, name, process_set) if variables else []
    return [variable.assign(value, read_value=False) for variable, value in zip(variables, received)]


def _receive_in_turn(variables: List[Any], root_rank: int, name: Optional[str], process_set: ProcessSet) -> List[Any]:
    """As _receive, into the memory of the variables, each after the one before it has its value."""
    assigned: List[Any] = []
    for index, variable in enumerate(variables):
        # In a graph, reads wait as well.
        with tf.control_dependencies([each for each in assigned[-1:] if each is not None]):
            own_name = None if name is None else f"{name}.{index}"
            ended = receive_in_place(variable, root_rank, own_name, process_set)
            if ended is NotImplemented:
                (ended,) = _receive([variable], root_rank, own_name, process_set)
            assigned.append(ended)
    return assigned


def broadcast_(
    variables: Iterable[Any],
    root_rank: int,
    name: Optional[str] = None,
    process_set: ProcessSet = global_process_set,
) -> List[tf.Tensor]:
    """Writes the root's values into the memory of the variables of all ranks, one after the other, and returns their new
    values. In a graph the variables have them when the values are read, or whatever depends on them.

    ValueError, and in a graph FailedPreconditionError: ranks differ in a shape or an element type.
    """
    variables = [variable_of(variable) for variable in variables]
    assigned = _receive_in_turn(variables, root_rank, name, process_set)
    with tf.control_dependencies([each for each in assigned if each is not None]):
        return [tf.identity(variable) for variable in variables]


def _expect_equal_number(name: str, number: int, process_set: ProcessSet) -> Any:
    """In a graph: the op that fails unless all ranks have this number. A rank with more would wait for the others for ever;
    of equally many, the coordinator says which differ."""
    numbers = allgather(tf.constant([number]), name=f"{name}.number", process_set=process_set)
    told = [
        f"{name}: ranks have different numbers of variables; this one has {number}, and the ranks in order have",
        numbers,
    ]
    return tf.debugging.Assert(tf.reduce_all(tf.equal(numbers, number)), told, summarize=64)


def broadcast_global_variables(root_rank: int) -> Any:
    """broadcast_variables of a v1 graph's global variables. RuntimeError: eager execution knows none."""
    if tf.executing_eagerly():
        raise RuntimeError(
            "hvd.broadcast_global_variables() does not support eager execution. Please use `hvd.broadcast_variables(<model/optimizer "
            "variables>)` instead."
        )
    return broadcast_variables(tf.compat.v1.global_variables(), root_rank)


class BroadcastGlobalVariablesHook(tf.compat.v1.train.SessionRunHook):
    """Gives the root's global variables to all ranks when a v1 session has been made."""

    def __init__(self, root_rank: int, device: str = "") -> None:
        super().__init__()
        self.root_rank = _ops.root_for(root_rank)
        self.bcast_op: Any = None
        del device

    def begin(self) -> None:
        """The graph is complete."""
        graph = tf.compat.v1.get_default_graph()
        if self.bcast_op is None or self.bcast_op.graph is not graph:
            self.bcast_op = broadcast_global_variables(self.root_rank)

    def after_create_session(self, session: Any, coord: Any) -> None:
        """The session is there, and its variables have values."""
        del coord
        if self.bcast_op is not None:
            session.run(self.bcast_op)


def broadcast_object(
    obj: Any,
    root_rank: int = 0,
    session: Any = None,
    name: Optional[str] = None,
    process_set: ProcessSet = global_process_set,
) -> Any:
    """Returns the root's object on every rank of the set. `session` is Horovod's: no graph is made here."""
    del session
    return objects.broadcast_object(obj, root_rank, name, process_set)


def broadcast_object_fn(
    root_rank: int = 0,
    session: Any = None,
    name: Optional[str] = None,
    process_set: ProcessSet = global_process_set,
) -> Callable[[Any], Any]:
    """A function that broadcasts the object that it is given, as broadcast_object does."""
    return lambda obj: broadcast_object(obj, root_rank, session, name, process_set)


def allgather_object(
    obj: Any, session: Any = None, name: Optional[str] = None, process_set: ProcessSet = global_process_set
) -> List[Any]:
    """Returns the objects of all ranks of the set, in the order of ranks. `session` is Horovod's: no graph is made here."""
    del session
    return objects.allgather_object(obj, name, process_set)
