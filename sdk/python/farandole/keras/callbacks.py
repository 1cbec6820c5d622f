"""Callbacks for fit(), with Horovod's names."""

import keras

from .._keras import callbacks
from .state import broadcast_variables


class BroadcastGlobalVariablesCallback(callbacks.BroadcastGlobalVariables, keras.callbacks.Callback):
    """See the first of its bases."""

    broadcast = staticmethod(broadcast_variables)


class MetricAverageCallback(callbacks.MetricAverage, keras.callbacks.Callback):
    """See the first of its bases."""


class LearningRateScheduleCallback(callbacks.LearningRateSchedule, keras.callbacks.Callback):
    """See the first of its bases."""


class LearningRateWarmupCallback(callbacks.LearningRateWarmup, keras.callbacks.Callback):
    """See the first of its bases."""


class BestModelCheckpoint(callbacks.BestModelCheckpoint, keras.callbacks.ModelCheckpoint):
    """See the first of its bases."""
