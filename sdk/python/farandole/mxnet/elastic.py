"""Elastic training of MXNet's programs: docs/elastic.md, with Gluon's parameters and trainer as the state."""

from typing import Any, Callable, Dict, Optional

import mxnet as mx

from ..elastic import HostsUpdatedInterrupt, ObjectState, State, run_with_errors
from ._engine import settle
from .parameters import broadcast_object, broadcast_parameters
from .trainer_state import set_state, state_of

__all__ = ["HostsUpdatedInterrupt", "MxnetState", "ObjectState", "State", "run"]


def run(func: Callable[..., Any]) -> Callable[..., Any]:
    """As farandole.elastic.run; it waits for all that the function has given to MXNet's engine."""
    return run_with_errors(func, (), lambda _state, _result: mx.nd.waitall())


class MxnetState(ObjectState):
    """A state of Gluon's parameters, a trainer, and of everything else that the program needs to go on, each an
    attribute: MxnetState(net.collect_params(), trainer, step=0). The parameters' shapes are known. Of the trainer it
    holds the optimizer's states and counts, its rates, its schedule, and the loss scale of automatic mixed precision.
    """

    def __init__(self, params: Any, trainer: Any = None, **kwargs: Any) -> None:
        """`trainer`: a gluon.Trainer."""
        self.params = dict(params.items())
        self.trainer = trainer
        self._arrays: Dict[str, mx.nd.NDArray] = {}
        self._trainer_state: Optional[bytes] = None
        super().__init__(**kwargs)
        self._save_arrays()

    def _state_of_trainer(self) -> Optional[bytes]:
        return None if self.trainer is None else state_of(self.trainer)

    def _set_state_of_trainer(self, state: Optional[bytes]) -> None:
        if state is not None:
            set_state(self.trainer, state)

    def _save_arrays(self) -> None:
        self._arrays = {name: parameter.list_data()[0].copy() for name, parameter in self.params.items()}
        self._trainer_state = self._state_of_trainer()

    def _settle(self) -> None:
        mx.nd.waitall()

    def save(self) -> None:
        self._save_arrays()
        super().save()

    def restore(self) -> None:
        settle()
        for name, parameter in self.params.items():
            parameter.set_data(self._arrays[name])
        self._set_state_of_trainer(self._trainer_state)
        super().restore()

    def sync_from(self, root_rank: int) -> None:
        broadcast_parameters(self.params, root_rank, prefix="farandole.elastic.state.")
        state = broadcast_object(self._state_of_trainer(), root_rank, "farandole.elastic.trainer")
        self._set_state_of_trainer(state)
        super().sync_from(root_rank)
