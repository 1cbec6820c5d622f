"""The callbacks of Horovod's Keras, as classes to be derived from together with a Keras's own Callback."""

import contextlib
import numbers
import os
from typing import Any, Callable, Dict, Iterator, List, Optional, Union

import numpy

from .. import numpy as hvd
from .. import objects
from .._sections import section
from ..basics import rank, size
from ..reduce_ops import Min
from . import derived, models


def _optimizer_of(model: Any) -> Any:
    """None: a program with a loop of its own need not have compiled the model."""
    return getattr(model, "optimizer", None)


class BroadcastGlobalVariables:
    """Gives the root's weights, and the state of its optimizer, to all ranks: before the first step where all ranks' models are
    built by then, else after it.

    It marks two sections of the program, by which the diagnosis says where a slow rank loses its time: "train", the
    batches of a training, and "validation"."""

    broadcast: models.Broadcast
    model: Any

    def __init__(self, root_rank: int, device: str = "") -> None:
        super().__init__()
        del device
        self.root_rank = root_rank
        self.broadcast_done = False
        self._local: List[Any] = []
        self._section = contextlib.ExitStack()

    def register_local_var(self, var: Any) -> None:
        """This variable, and what the optimizer keeps for it, stay each rank's own."""
        self._local.append(var)

    def on_train_begin(self, logs: Any = None) -> None:
        """All ranks are here. ValueError: the optimizer is one that ranks would apply differently."""
        del logs
        self._section.close()
        derived.check_scaling(_optimizer_of(self.model))
        if self.broadcast_done:
            return
        built = numpy.array(models.is_built(self.model), numpy.int32)
        if hvd.allreduce(built, op=Min, name="BroadcastGlobalVariablesCallback"):
            self._give()

    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        """The section "train" begins."""
        del batch, logs
        self._section.enter_context(section("train"))

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        """The first step has built what was not there."""
        del batch, logs
        self._section.close()
        if not self.broadcast_done:
            self._give()

    def on_test_begin(self, logs: Any = None) -> None:
        """The section "validation" begins."""
        del logs
        self._section.close()
        self._section.enter_context(section("validation"))

    def on_test_end(self, logs: Any = None) -> None:
        """It ends."""
        del logs
        self._section.close()

    def on_train_end(self, logs: Any = None) -> None:
        """No section is open."""
        del logs
        self._section.close()

    def _give(self) -> None:
        models.bring_back(self.model)
        models.build_optimizer(self.model)
        variables = [*self.model.weights, *models.variables_of(self.model.optimizer)]
        local = set(map(id, models.local_among(variables, self._local)))
        type(self).broadcast([each for each in variables if id(each) not in local], self.root_rank)
        self.broadcast_done = True


class MetricAverage:
    """Makes the metrics of an epoch the averages over all ranks, for the callbacks after it and for the history."""

    model: Any

    def on_train_begin(self, logs: Any = None) -> None:
        """ValueError: the optimizer is one that ranks would apply differently."""
        del logs
        derived.check_scaling(_optimizer_of(self.model))

    def on_epoch_end(self, epoch: int, logs: Optional[Dict[str, Any]] = None) -> None:
        """ValueError: ranks have different metrics."""
        del epoch
        if logs is None or size() == 1:
            return
        own = {name: numpy.asarray(value, numpy.float64) for name, value in logs.items() if _is_number(value)}
        of_all = objects.allgather_object(own, "MetricAverageCallback")
        for number, other in enumerate(of_all):
            if set(other) != set(of_all[0]):
                raise ValueError(
                    f"MetricAverageCallback: rank 0 has the metrics {sorted(of_all[0])}, rank {number} has {sorted(other)}"
                )
        for name in own:
            mean = sum(other[name] for other in of_all) / len(of_all)
            logs[name] = mean if mean.ndim else float(mean)


def _is_number(value: Any) -> bool:
    if isinstance(value, numbers.Number):
        return True
    return numpy.asarray(value).dtype.kind in "fiub" if hasattr(value, "shape") else False


class LearningRateSchedule:
    """Sets the learning rate to initial_lr * multiplier(epoch), from `start_epoch` up to but without `end_epoch`.

    With `staircase` it does so at the start of each epoch, else before each step, for a fraction of an epoch. A
    multiplier that is a number is the factor of each epoch after `start_epoch`. Where the rate changes, `momentum_correction`
    has an optimizer with momentum go on at the new scale (Goyal et al., arXiv:1706.02677, remark 2).
    """

    model: Any
    params: Dict[str, Any]

    def __init__(
        self,
        initial_lr: float,
        multiplier: Union[float, Callable[[float], float]],
        start_epoch: int = 0,
        end_epoch: Optional[int] = None,
        staircase: bool = True,
        momentum_correction: bool = True,
        steps_per_epoch: Optional[int] = None,
    ) -> None:
        """ValueError: no `initial_lr`."""
        super().__init__()
        if initial_lr is None:
            raise ValueError("Parameter `initial_lr` is required")
        self.initial_lr = initial_lr
        self.start_epoch = start_epoch
        self.end_epoch = end_epoch
        self.staircase = staircase or not callable(multiplier)
        self.momentum_correction = momentum_correction
        self.steps_per_epoch = steps_per_epoch
        self.current_epoch = 0
        self.multiplier: Callable[[float], float] = (
            multiplier if callable(multiplier) else lambda epoch: multiplier ** (epoch - start_epoch)
        )

    def on_train_begin(self, logs: Any = None) -> None:
        """ValueError: `steps_per_epoch` is needed, and Keras does not know it; the optimizer is one that ranks would apply
        differently."""
        del logs
        derived.check_scaling(_optimizer_of(self.model))
        if self.staircase or self.steps_per_epoch:
            return
        self.steps_per_epoch = self.params.get("steps")
        if not self.steps_per_epoch:
            raise ValueError(
                f"Could not autodetect the number of steps per epoch. Please specify the steps_per_epoch parameter to the {type(self).__name__}()."
            )

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        """Remembers the epoch."""
        del logs
        self.current_epoch = epoch

    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        """Sets the rate of the step."""
        del logs
        if self.current_epoch < self.start_epoch or (
            self.end_epoch is not None and self.current_epoch >= self.end_epoch
        ):
            return
        if not self.staircase:
            self._set(self.current_epoch + batch / float(self.steps_per_epoch or 1))
        elif batch == 0:
            self._set(self.current_epoch)

    def on_epoch_end(self, epoch: int, logs: Optional[Dict[str, Any]] = None) -> None:
        """Adds the rate to the epoch's logs."""
        del epoch
        if logs is not None:
            logs["lr"] = models.learning_rate(self.model.optimizer)

    def _set(self, epoch: float) -> None:
        models.bring_back(self.model)
        optimizer = self.model.optimizer
        old, new = models.learning_rate(optimizer), self.initial_lr * self.multiplier(epoch)
        optimizer.learning_rate = new
        if self.momentum_correction and old not in (0.0, new):
            for velocity in models.velocities(self.model):
                velocity.assign(velocity * (new / old))


class LearningRateWarmup(LearningRateSchedule):
    """Raises the learning rate from initial_lr / size() to initial_lr, step by step over `warmup_epochs`; `initial_lr` is
    that of all ranks together."""

    def __init__(
        self,
        initial_lr: float,
        warmup_epochs: int = 5,
        momentum_correction: bool = True,
        steps_per_epoch: Optional[int] = None,
        verbose: int = 0,
    ) -> None:
        def multiplier(epoch: float) -> float:
            # Round numbers at the end of each epoch look better in a chart.
            epoch += 1.0 / (self.steps_per_epoch or 1)
            return (epoch * (size() - 1) / warmup_epochs + 1) / size()

        super().__init__(initial_lr, multiplier, 0, warmup_epochs, False, momentum_correction, steps_per_epoch)
        self.verbose = verbose

    def on_epoch_end(self, epoch: int, logs: Optional[Dict[str, Any]] = None) -> None:
        """Says so where the last epoch of it has ended."""
        super().on_epoch_end(epoch, logs)
        if self.end_epoch is not None and epoch == self.end_epoch - 1 and self.verbose > 0:
            rate = models.learning_rate(self.model.optimizer)
            print(f"\nEpoch {epoch + 1}: finished gradual learning rate warmup to {rate:g}.")


class _Unsaved:
    """A model without its save(): of a ModelCheckpoint's work the comparison is left."""

    def __init__(self, model: Any) -> None:
        self._model = model

    def save(self, *arguments: Any, **options: Any) -> None:
        """Another rank does."""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model, name)


class BestModelCheckpoint:
    """Has rank 0 save the model whenever a metric is better than ever. Averaged metrics come of a MetricAverageCallback before it.
    The other ranks remember the best as well: one of them may be rank 0 in the next epoch of an elastic job.

    `filepath` may be set as an attribute before the training.
    """

    model: Any
    filepath: Any
    monitor: str
    save_freq: Any
    set_model: Callable[[Any], None]
    verbose: int
    _PLACEHOLDER = "best.keras"

    def __init__(
        self,
        monitor: str = "val_loss",
        verbose: int = 0,
        mode: str = "auto",
        save_freq: Any = "epoch",
        filepath: Any = None,
    ) -> None:
        super().__init__(  # type: ignore[call-arg]
            filepath=os.fspath(filepath or self._PLACEHOLDER),
            monitor=monitor,
            verbose=verbose,
            save_best_only=True,
            save_weights_only=False,
            mode=mode,
            save_freq=save_freq,
        )
        self.filepath = filepath and str(filepath)

    def on_train_begin(self, logs: Any = None) -> None:
        """ValueError: there is no `filepath`; the optimizer is one that ranks would apply differently."""
        derived.check_scaling(_optimizer_of(self.model))
        if not self.filepath:
            raise ValueError("BestModelCheckpoint needs a filepath: give it, or set it as an attribute before fit()")
        super().on_train_begin(logs)  # type: ignore[misc]

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        """As ModelCheckpoint's, which saves on rank 0."""
        if self.save_freq != "epoch" and self._has_metric(logs):
            with self._saving_on_rank_0():
                super().on_train_batch_end(batch, logs)  # type: ignore[misc]

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """As ModelCheckpoint's, which saves on rank 0."""
        if self._has_metric(logs):
            with self._saving_on_rank_0():
                super().on_epoch_end(epoch, logs)  # type: ignore[misc]

    def _has_metric(self, logs: Any) -> bool:
        """On rank 0 Keras says that there is none. The others may have no validation."""
        return rank() == 0 or self.monitor in (logs or {})

    @contextlib.contextmanager
    def _saving_on_rank_0(self) -> Iterator[None]:
        if rank() == 0:
            yield
            return
        # On JAX `model` has Keras gather its whole state.
        model, verbose = getattr(self, "_model", None) or self.model, self.verbose
        self.set_model(_Unsaved(model))
        self.verbose = 0
        try:
            yield
        finally:
            self.set_model(model)
            self.verbose = verbose
