"""Elastic training of Keras's models: docs/elastic.md, with a model and its optimizer as the state."""

import contextlib
from typing import Any, Callable, Dict, Iterator, List, Sequence

from .. import elastic as _elastic
from ..elastic import HostsUpdatedInterrupt, ObjectState, State
from . import derived, models


def run(func: Callable[..., Any]) -> Callable[..., Any]:
    """As farandole.elastic.run: what a framework raises where a collective ends with the epoch is the epoch's end."""
    return _elastic.run_with_errors(func, (Exception,))


class OwnVariables:
    """The local variables of a state: a worker that comes gets the root's, as it has none, and keeps its own from then on."""

    def __init__(self) -> None:
        self._has_them = False

    @contextlib.contextmanager
    def kept(self, optimizer: Any, variables: Sequence[Any]) -> Iterator[None]:
        """Has a worker that is no new one keep its own among the variables, which are assigned to within."""
        local = derived.local_variables(optimizer, variables) if self._has_them else []
        with models.kept(models.local_among(variables, local)):
            yield
        self._has_them = True


class KerasState(ObjectState):
    """A state of a model's weights, its optimizer's variables, and of whatever else the program needs to go on, each an
    attribute: KerasState(model, batch=0, epoch=0)."""

    broadcast: models.Broadcast

    def __init__(self, model: Any, optimizer: Any = None, **kwargs: Any) -> None:
        """`optimizer`: by default the model's. ValueError: the model has no variables yet, or the optimizer is one that ranks
        would apply differently."""
        super().__init__(**kwargs)
        if not models.is_built(model):
            raise ValueError(
                f"the model {model.name!r} has no variables yet, and they are the state: give it an Input layer, or call "
                "model.build(input_shape)"
            )
        self.model = model
        self.optimizer = optimizer or model.optimizer
        derived.check_scaling(self.optimizer)
        models.build_optimizer(model)
        self._own = OwnVariables()
        self._copies: models.Copies = []
        self._save_variables()

    def _variables(self) -> List[Any]:
        models.bring_back(self.model)
        return [*self.model.weights, *models.variables_of(self.optimizer)]

    def _saved_variables(self) -> List[Any]:
        return [*self._variables(), *models.own_variables(self.model)]

    def _save_variables(self) -> None:
        self._copies = models.copied(self._saved_variables())

    def save(self) -> None:
        self._save_variables()
        super().save()

    def restore(self) -> None:
        models.give_up(self.model)
        models.put_back(self._copies)
        super().restore()

    def _leave(self, interrupt: HostsUpdatedInterrupt) -> None:
        # On its way out fit() may have changed the variables: Keras on JAX puts their averages (`use_ema`) in their place.
        if interrupt.at_commit:
            self.restore()
        else:
            self.save()

    def sync_from(self, root_rank: int) -> None:
        variables = self._variables()
        with self._own.kept(self.optimizer, variables):
            type(self).broadcast(variables, root_rank)
        super().sync_from(root_rank)


class CommitState:
    """Commits the state after every so many batches, and at the end of each epoch. To be the last of the callbacks that change
    the state."""

    def __init__(self, state: State, batches_per_commit: int = 1) -> None:
        """ValueError: the batches are not at least 1."""
        super().__init__()
        if batches_per_commit < 1:
            raise ValueError(f"batches_per_commit is a number of at least 1, not {batches_per_commit!r}")
        self.state = state
        self.batches_per_commit = batches_per_commit
        self.batches_remaining = batches_per_commit

    def on_train_begin(self, logs: Any = None) -> None:
        """Counts anew."""
        del logs
        self.batches_remaining = self.batches_per_commit

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        """HostsUpdatedInterrupt, EpochEnded: as State.commit."""
        del batch, logs
        self.batches_remaining -= 1
        if self.batches_remaining <= 0:
            self._commit()

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """HostsUpdatedInterrupt, EpochEnded: as State.commit."""
        del epoch, logs
        self._commit()

    def _commit(self) -> None:
        self.batches_remaining = self.batches_per_commit
        self.state.commit()


class _Stop(int):
    """The value of stop_training by which an UpdateBatchState recognizes its own stop. Others set a plain True."""


class UpdateBatchState:
    """Keeps state.batch at the number of batches that the present epoch has had. Where Keras knows the steps of an epoch, the first
    epoch of a fit() is shorter by those that it had before."""

    model: Any
    params: Dict[str, Any]

    def __init__(self, state: Any) -> None:
        super().__init__()
        self.state = state
        self._had = 0
        self._stop = _Stop(True)

    def on_train_begin(self, logs: Any = None) -> None:
        """The batches that the state has count for the first epoch."""
        del logs
        self._had = self.state.batch

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        """An epoch that is over already, as far as the state knows, is had again."""
        del epoch, logs
        steps = self.params.get("steps")
        if steps and self._had >= steps:
            self._had = 0

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        """Ends the epoch where its batches were had."""
        del logs
        self.state.batch = self._had + batch + 1
        steps = self.params.get("steps")
        if self._had and steps and self.state.batch >= steps and not self.model.stop_training:
            # Of the two loops it ends the inner one only: on_epoch_end takes it back.
            self.model.stop_training = self._stop

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """The next epoch has had no batch. A stop that another callback has made stays."""
        del epoch, logs
        if self.model.stop_training is self._stop:
            self.model.stop_training = False
        self.state.batch = self._had = 0


class UpdateEpochState:
    """Keeps state.epoch at the number of epochs that are over, of all calls of fit() with this state."""

    def __init__(self, state: Any) -> None:
        super().__init__()
        self.state = state
        self._before = state.epoch
        self._first = -1

    def on_train_begin(self, logs: Any = None) -> None:
        """The epochs of the state come before those of this fit()."""
        del logs
        self._before = self.state.epoch
        self._first = -1

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        """fit() counts from its initial_epoch, whatever that is."""
        del logs
        if self._first < 0:
            self._first = epoch

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """One more is over."""
        del logs
        self.state.epoch = self._before + epoch - self._first + 1
