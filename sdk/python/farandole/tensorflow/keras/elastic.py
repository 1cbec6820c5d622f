"""Elastic training with tf.keras, by Horovod's names: docs/elastic.md and docs/keras.md."""

from ..._keras import elastic as _shared
from ..._keras.elastic import run
from ...elastic import HostsUpdatedInterrupt, ObjectState, State
from ...process_sets import global_process_set
from .. import keras_backend
from ._choice import IS_KERAS_3, keras

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

if IS_KERAS_3:
    from ...keras.elastic import (
        CommitStateCallback,
        KerasState,
        UpdateBatchStateCallback,
        UpdateEpochStateCallback,
    )
else:

    class KerasState(_shared.KerasState):  # type: ignore[no-redef]
        """See its base."""

        @staticmethod
        def broadcast(variables, root_rank):  # type: ignore[no-untyped-def]
            """See the base."""
            keras_backend.broadcast_variables(variables, root_rank, global_process_set)

    class CommitStateCallback(_shared.CommitState, keras.callbacks.Callback):  # type: ignore[no-redef]
        """See the first of its bases."""

    class UpdateBatchStateCallback(_shared.UpdateBatchState, keras.callbacks.Callback):  # type: ignore[no-redef]
        """See the first of its bases."""

    class UpdateEpochStateCallback(_shared.UpdateEpochState, keras.callbacks.Callback):  # type: ignore[no-redef]
        """See the first of its bases."""
