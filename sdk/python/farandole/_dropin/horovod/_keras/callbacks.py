"""Callbacks for classes that derive from these and from Keras's Callback. Each is given Keras's backend first."""

from typing import Any

from farandole._keras import callbacks

from horovod.keras import callbacks as of_keras


class BroadcastGlobalVariablesCallbackImpl(callbacks.BroadcastGlobalVariables):
    """As its base."""

    broadcast = staticmethod(of_keras.BroadcastGlobalVariablesCallback.broadcast)

    def __init__(self, backend: Any, root_rank: int, device: str = "") -> None:
        del backend
        super().__init__(root_rank, device)


class MetricAverageCallbackImpl(callbacks.MetricAverage):
    """As its base."""

    def __init__(self, backend: Any, device: str = "") -> None:
        del backend, device
        super().__init__()


class LearningRateScheduleCallbackImpl(callbacks.LearningRateSchedule):
    """As its base."""

    def __init__(self, backend: Any, *arguments: Any, **options: Any) -> None:
        del backend
        super().__init__(*arguments, **options)


class LearningRateWarmupCallbackImpl(callbacks.LearningRateWarmup):
    """As its base."""

    def __init__(self, backend: Any, *arguments: Any, **options: Any) -> None:
        del backend
        super().__init__(*arguments, **options)
