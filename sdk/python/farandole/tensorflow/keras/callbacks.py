"""Callbacks for fit(), with Horovod's names."""

from ..._keras import callbacks
from ...process_sets import global_process_set
from .. import keras_backend
from ._choice import IS_KERAS_3, keras

if IS_KERAS_3:
    from ...keras.callbacks import (  # noqa: F401
        BestModelCheckpoint,
        BroadcastGlobalVariablesCallback,
        LearningRateScheduleCallback,
        LearningRateWarmupCallback,
        MetricAverageCallback,
    )
else:

    class BroadcastGlobalVariablesCallback(callbacks.BroadcastGlobalVariables, keras.callbacks.Callback):  # type: ignore[no-redef]
        """See the first of its bases."""

        @staticmethod
        def broadcast(variables, root_rank):  # type: ignore[no-untyped-def]
            """See the first of the bases."""
            keras_backend.broadcast_variables(variables, root_rank, global_process_set)

    class MetricAverageCallback(callbacks.MetricAverage, keras.callbacks.Callback):  # type: ignore[no-redef]
        """See the first of its bases."""

    class LearningRateScheduleCallback(callbacks.LearningRateSchedule, keras.callbacks.Callback):  # type: ignore[no-redef]
        """See the first of its bases."""

    class LearningRateWarmupCallback(callbacks.LearningRateWarmup, keras.callbacks.Callback):  # type: ignore[no-redef]
        """See the first of its bases."""

    class BestModelCheckpoint(callbacks.BestModelCheckpoint, keras.callbacks.ModelCheckpoint):  # type: ignore[no-redef]
        """See the first of its bases."""
