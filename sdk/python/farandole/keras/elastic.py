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
    """See its base."""

    broadcast = staticmethod(broadcast_variables)


class CommitStateCallback(_shared.CommitState, keras.callbacks.Callback):
    """See the first of its bases."""


class UpdateBatchStateCallback(_shared.UpdateBatchState, keras.callbacks.Callback):
    """See the first of its bases."""


class UpdateEpochStateCallback(_shared.UpdateEpochState, keras.callbacks.Callback):
    """See the first of its bases."""
