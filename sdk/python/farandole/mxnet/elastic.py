"""Elastic training of MXNet's programs: docs/elastic.md, with Gluon's parameters and trainer as the state."""

from typing import Any, Dict

import mxnet as mx

from ..elastic import HostsUpdatedInterrupt, ObjectState, State, run
from ._engine import settle
from .parameters import broadcast_object, broadcast_parameters

__all__ = ["HostsUpdatedInterrupt", "MxnetState", "ObjectState", "State", "run"]


class MxnetState(ObjectState):
    """A state of Gluon's parameters, a trainer's optimizer, and of everything else that the program needs to go on, each an
    attribute: MxnetState(net.collect_params(), trainer, step=0). The parameters' shapes are known."""

    def __init__(self, params: Any, trainer: Any = None, **kwargs: Any) -> None:
        """`trainer`: a gluon.Trainer."""
        self.params = dict(params.items())
        self.trainer = trainer
        self._arrays: Dict[str, mx.nd.NDArray] = {}
        self._optimizer_states: Any = None
        super().__init__(**kwargs)
        self._save_arrays()

    def _trainer_states(self) -> Any:
        return None if self.trainer is None else self.trainer._updaters[0].get_states(dump_optimizer=False)

    def _set_trainer_states(self, states: Any) -> None:
        if states is not None:
            self.trainer._updaters[0].set_states(states)

    def _save_arrays(self) -> None:
        self._arrays = {name: parameter.data().copy() for name, parameter in self.params.items()}
        self._optimizer_states = self._trainer_states()

    def _settle(self) -> None:
        mx.nd.waitall()

    def save(self) -> None:
        self._save_arrays()
        super().save()

    def restore(self) -> None:
        settle()
        for name, parameter in self.params.items():
            parameter.set_data(self._arrays[name])
        self._set_trainer_states(self._optimizer_states)
        super().restore()

    def sync_from(self, root_rank: int) -> None:
        broadcast_parameters(self.params, root_rank, prefix="farandole.elastic.state.")
        self._set_trainer_states(broadcast_object(self._trainer_states(), root_rank, "farandole.elastic.trainer"))
        super().sync_from(root_rank)
