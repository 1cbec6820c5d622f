"""Callbacks for fit(), with Horovod's names."""

import keras

from .._keras import callbacks
from .state import broadcast_variables


class BroadcastGlobalVariablesCallback(callbacks.BroadcastGlobalVariables, keras.callbacks.Callback):
    """Sends the root's weights and optimizer state to all ranks: before the first step if all ranks' models are built
    by then, otherwise after it."""

    broadcast = staticmethod(broadcast_variables)


class MetricAverageCallback(callbacks.MetricAverage, keras.callbacks.Callback):
    """Replaces the metrics of an epoch by their averages over all ranks, for the callbacks after it and for the
    history."""


class LearningRateScheduleCallback(callbacks.LearningRateSchedule, keras.callbacks.Callback):
    """Sets the learning rate to initial_lr * multiplier(epoch), at the start of each epoch (`staircase`) or before each
    step."""


class LearningRateWarmupCallback(callbacks.LearningRateWarmup, keras.callbacks.Callback):
    """Raises the learning rate step by step from initial_lr / size() to initial_lr over `warmup_epochs`."""


class BestModelCheckpoint(callbacks.BestModelCheckpoint, keras.callbacks.ModelCheckpoint):
    """Rank 0 saves the model whenever the monitored metric is better than ever before."""
