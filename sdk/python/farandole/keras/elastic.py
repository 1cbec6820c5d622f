"""Elastic training with Keras 3, by Horovod's names: docs/elastic.md and docs/keras.md."""

import keras

from .._keras import elastic as _shared
from .._keras.elastic import run
from ..elastic import HostsUpdatedInterrupt, ObjectState, State
from .state import broadcast_variables

__all__ = [
    "CommitStateCallback",
    "HostsUpdatedInterrupt",
    "KerasState",
    "ObjectState",
    "State",
    "UpdateBatchStateCallback",
    "UpdateEpochStateCallback",
    "run",
]


class KerasState(_shared.KerasState):
    """A state of a model's weights, its optimizer's variables and further attributes: KerasState(model, batch=0,
    epoch=0)."""

    broadcast = staticmethod(broadcast_variables)


class CommitStateCallback(_shared.CommitState, keras.callbacks.Callback):
    """Commits the state every `batches_per_commit` batches and at the end of each epoch. Must be the last callback that
    changes the state."""


class UpdateBatchStateCallback(_shared.UpdateBatchState, keras.callbacks.Callback):
    """Keeps state.batch at the number of batches that are done in the present epoch."""


class UpdateEpochStateCallback(_shared.UpdateEpochState, keras.callbacks.Callback):
    """Keeps state.epoch at the number of epochs that are over."""
