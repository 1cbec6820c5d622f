"""Elastic training of TensorFlow's programs: docs/elastic.md, with variables, models and optimizers as the state."""

from typing import Any, Callable, Iterable, List, Optional, Tuple

import numpy
import tensorflow as tf

from .. import elastic as _elastic
from .. import numpy as _arrays
from .._agreement import expect_equal_tensors
from .._keras import derived, models
from .._keras.elastic import OwnVariables
from ..elastic import HostsUpdatedInterrupt, ObjectState, State  # noqa: F401
from ..process_sets import global_process_set
from .variables import broadcast_variables

__all__ = ["HostsUpdatedInterrupt", "ObjectState", "State", "TensorFlowKerasState", "TensorFlowState", "run"]


def run(func: Callable[..., Any]) -> Callable[..., Any]:
    """Like farandole.elastic.run, for programs whose collectives are TensorFlow ops: it takes the error that such an op
    raises at an epoch's end for EpochEnded."""
    return _elastic.run_with_errors(func, (tf.errors.OpError,))


class TensorFlowState(ObjectState):
    """A state of variables, and of everything else that the program needs to go on, each an attribute."""

    def __init__(self, variables: Optional[Iterable[Any]] = None, session: Any = None, **kwargs: Any) -> None:
        """`variables`: by default those of v1's graph; `session`: v1's, in which they are read and written."""
        super().__init__(**kwargs)
        given = tf.compat.v1.global_variables() if variables is None else variables
        self._given: Callable[[], List[Any]] = lambda: list(given)
        self._session = session
        self._values: List[Tuple[Any, Any]] = []
        self._save_variables()

    def _save_variables(self) -> None:
        variables = self._given()
        values = self._session.run(variables) if self._session else [tf.identity(each) for each in variables]
        self._values = list(zip(variables, values))

    def save(self) -> None:
        self._save_variables()
        super().save()

    def restore(self) -> None:
        for variable, value in self._values:
            if self._session:
                variable.load(value, self._session)
            else:
                variable.assign(value)
        super().restore()

    def sync_from(self, root_rank: int) -> None:
        if self._session:
            self._sync_session_from(root_rank)
        else:
            broadcast_variables(self._given(), root_rank)
        super().sync_from(root_rank)

    def _sync_session_from(self, root_rank: int) -> None:
        """Sends the values as arrays, without an op in the session's graph. Names of ops count up in a graph, so an op
        of a survivor's second sync would wait forever for a newcomer, which makes its first one."""
        variables, name = self._given(), "farandole.elastic.state"
        values = [numpy.array(value) for value in self._session.run(variables)]
        shapes = [(value.shape, value.dtype.name) for value in values]
        expect_equal_tensors(name, root_rank, shapes, global_process_set)
        handles = [_arrays.broadcast_async_(value, root_rank, f"{name}.{index}") for index, value in enumerate(values)]
        for variable, value, handle in zip(variables, values, handles):
            handle.synchronize()
            variable.load(value, self._session)


class TensorFlowKerasState(TensorFlowState):
    """A state of a Keras model, its optimizer, and of everything else that the program needs to go on."""

    def __init__(self, model: Any, optimizer: Any = None, backend: Any = None, **kwargs: Any) -> None:
        """`optimizer`: by default the model's. Both are built before, as their variables are the state. ValueError: the
        optimizer is one that ranks would apply differently."""
        del backend
        self.model = model
        self.optimizer = optimizer or model.optimizer
        derived.check_scaling(self.optimizer)
        # An optimizer of an unbuilt model gets its variables later; a state that is made before then lacks them.
        if models.is_built(model) and self.optimizer is getattr(model, "optimizer", None):
            models.build_optimizer(model)
        self._own = OwnVariables()
        super().__init__(variables=_Lazy(lambda: [*model.weights, *models.variables_of(self.optimizer)]), **kwargs)

    def sync_from(self, root_rank: int) -> None:
        with self._own.kept(self.optimizer, self._given()):
            super().sync_from(root_rank)


class _Lazy:
    """The variables that there are when they are asked for: an optimizer makes its own late."""

    def __init__(self, find: Callable[[], List[Any]]) -> None:
        self._find = find

    def __iter__(self) -> Any:
        return iter(self._find())
