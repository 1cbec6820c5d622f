"""Callbacks of elastic jobs, for classes that derive from these and from Keras's Callback. Each is given Keras's
backend first."""

from typing import Any

from farandole._keras import elastic


class CommitStateCallbackImpl(elastic.CommitState):
    """As its base."""

    def __init__(self, backend: Any, state: Any, batches_per_commit: int) -> None:
        del backend
        super().__init__(state, batches_per_commit)


class UpdateBatchStateCallbackImpl(elastic.UpdateBatchState):
    """As its base."""

    def __init__(self, backend: Any, state: Any) -> None:
        del backend
        super().__init__(state)


class UpdateEpochStateCallbackImpl(elastic.UpdateEpochState):
    """As its base."""

    def __init__(self, backend: Any, state: Any) -> None:
        del backend
        super().__init__(state)
