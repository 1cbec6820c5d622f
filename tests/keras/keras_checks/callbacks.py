"""The callbacks: broadcast, metrics, learning rates, the best model; and the state of an elastic program."""

import pathlib
import tempfile
from typing import Any, List

import numpy
from harness import Checks, expect_error, noted_sections

from keras_checks.chosen import BACKEND, IS_LEGACY, hvd, keras
from keras_checks.training import ROWS, STEPS, assert_close, batch, compiled, loss_scaled, model, own, sgd, train

check = Checks()


def fit(net: Any, *callbacks: Any, epochs: int = 1, steps: int = 1) -> Any:
    """The history of some epochs of some steps."""
    pairs = [own(step) for step in range(steps)]
    inputs, targets = (numpy.concatenate(each) for each in zip(*pairs))
    size = len(pairs[0][0])
    return net.fit(inputs, targets, batch_size=size, epochs=epochs, verbose=0, shuffle=False, callbacks=list(callbacks))


def weights_of_all(net: Any) -> Any:
    return hvd.allgather_object(net.get_weights())


def expect_alike(net: Any) -> None:
    """Fails if a rank has other weights."""
    of_all = weights_of_all(net)
    for other in of_all:
        assert all((a == b).all() for a, b in zip(of_all[0], other))


@check.each("first", "last")
def all_ranks_start_from_the_roots_variables(which: str) -> None:
    """Their first step is that of one process with the root's weights and the whole batch."""
    root = hvd.size() - 1 if which == "last" else 0
    net, alone = model(), compiled(model(), sgd())
    alone.set_weights([each + root for each in net.get_weights()])
    net.set_weights([each + hvd.rank() for each in net.get_weights()])
    compiled(net, hvd.DistributedOptimizer(sgd()))
    fit(net, hvd.callbacks.BroadcastGlobalVariablesCallback(root))
    train(alone, [0], batch)
    assert_close(net.get_weights(), alone.get_weights())
    expect_alike(net)


@check.each("all ranks", "the last rank")
def where_a_model_is_not_built_all_start_from_the_root_after_the_first_step(where: str) -> None:
    is_built = where != "all ranks" and hvd.rank() < hvd.size() - 1
    net = model(is_built)
    if is_built:
        net.set_weights([each + hvd.rank() for each in net.get_weights()])
    keras.utils.set_random_seed(5 + hvd.rank())
    compiled(net, hvd.DistributedOptimizer(sgd()))
    fit(net, hvd.callbacks.BroadcastGlobalVariablesCallback(0))
    expect_alike(net)


@check
def registered_variables_stay_each_ranks_own() -> None:
    net = compiled(model(), hvd.DistributedOptimizer(sgd()))
    net.set_weights([each + hvd.rank() for each in net.get_weights()])
    net.optimizer.build(net.trainable_variables)
    local = net.layers[0].trainable_variables[0]
    net.optimizer.register_local_var(local)
    callback = hvd.callbacks.BroadcastGlobalVariablesCallback(0)
    callback.register_local_var(local)
    fit(net, callback)
    of_all = weights_of_all(net)
    assert all((a[2] == of_all[0][2]).all() for a in of_all)
    assert hvd.size() == 1 or (of_all[0][0] != of_all[1][0]).any()


@check
def the_optimizers_state_of_registered_variables_stays() -> None:
    """tf-keras does not tell for which variable an optimizer keeps what."""
    if IS_LEGACY:
        return
    net = compiled(model(), hvd.DistributedOptimizer(sgd()))
    net.optimizer.build(net.trainable_variables)
    velocities = net.optimizer.momentums
    for each in velocities:
        each.assign(each + hvd.rank() + 1.0)
    callback = hvd.callbacks.BroadcastGlobalVariablesCallback(0)
    callback.register_local_var(net.layers[0].trainable_variables[0])
    callback.set_model(net)
    callback.on_train_begin()
    found = [each.numpy().mean() for each in velocities]
    assert found == [hvd.rank() + 1.0, 1.0, 1.0, 1.0], found


class Events(keras.callbacks.Callback):
    """Notes what fit() does."""

    def __init__(self, seen: List[str]) -> None:
        super().__init__()
        self.seen = seen
        self.fails = False

    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        self.seen.append("batch")
        if self.fails:
            raise KeyError("the program's own")

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        self.seen.append("epoch")


@check
def training_and_validation_are_sections_of_the_program() -> None:
    net = compiled(model(), hvd.DistributedOptimizer(sgd()))
    inputs, targets = own(0)
    with noted_sections() as seen:
        events = Events(seen)
        callbacks = [hvd.callbacks.BroadcastGlobalVariablesCallback(0), events]
        net.fit(inputs, targets, validation_data=(inputs, targets), verbose=0, callbacks=callbacks)
        # Of a compiled step no part is one.
        step, backward = (["[step", "]"], ["[backward", "]"]) if BACKEND == "torch" else ([], [])
        assert seen == ["[train", "batch", *step, "]", "[validation", "]", "epoch"], seen
        del seen[:]
        events.fails = True
        expect_error(KeyError, lambda: net.fit(inputs, targets, verbose=0, callbacks=callbacks), "the program's own")
        events.fails = False
        net.fit(inputs, targets, verbose=0, callbacks=callbacks)
        assert seen == ["[train", "batch", "]", "[train", "batch", *backward, *step, "]", "epoch"], seen


class Metrics(keras.callbacks.Callback):
    """Gives each rank's epoch metrics of its own."""

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        logs["own"] = float(hvd.rank())
        if epoch == 1:
            logs[f"only_{hvd.rank()}"] = 1.0


@check
def metrics_are_averaged() -> None:
    net = compiled(model(), hvd.DistributedOptimizer(sgd()))
    history = fit(net, Metrics(), hvd.callbacks.MetricAverageCallback()).history
    assert history["own"] == [sum(range(hvd.size())) / hvd.size()]
    losses = hvd.allgather_object(history["loss"])
    assert all(each == losses[0] for each in losses)
    if hvd.size() > 1:
        again = [Metrics(), hvd.callbacks.MetricAverageCallback()]
        expect_error(ValueError, lambda: fit(net, *again, epochs=2), "only_0", "only_1", "rank 1")


class Rates(keras.callbacks.Callback):
    """Notes the rate of each step."""

    def __init__(self) -> None:
        super().__init__()
        self.rates: Any = []

    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        rate = self.model.optimizer.learning_rate
        self.rates.append(float(rate.numpy() if hasattr(rate, "numpy") else rate))


@check
def the_rate_warms_up_and_follows_a_schedule() -> None:
    net, rates, size = compiled(model(), hvd.DistributedOptimizer(sgd())), Rates(), hvd.size()
    warm_up = hvd.callbacks.LearningRateWarmupCallback(0.1 * size, warmup_epochs=2, verbose=1)
    drop = hvd.callbacks.LearningRateScheduleCallback(0.1 * size, multiplier=0.5, start_epoch=2)
    history = fit(net, warm_up, drop, rates, epochs=4, steps=2).history
    wanted = [0.1 + 0.1 * (size - 1) * step / 4 for step in range(1, 5)] + [0.1 * size] * 2 + [0.05 * size] * 2
    numpy.testing.assert_allclose(rates.rates, wanted, rtol=1e-5)
    numpy.testing.assert_allclose(history["lr"], wanted[1::2], rtol=1e-5)
    expect_error(ValueError, lambda: hvd.callbacks.LearningRateScheduleCallback(None, 0.5), "initial_lr")


@check
def momentum_is_corrected_where_the_rate_changes() -> None:
    net = compiled(model(), hvd.DistributedOptimizer(sgd()))
    schedule = hvd.callbacks.LearningRateScheduleCallback(0.1, lambda epoch: 0.5 ** (epoch > 0))
    fit(net, schedule, epochs=2)
    # By hand: the second step's velocity is 0.9 * (0.05 / 0.1) * the first one - 0.05 * gradient.
    alone = compiled(model(), sgd())
    before = [each.copy() for each in alone.get_weights()]
    train(alone, [0], batch)
    first = alone.get_weights()
    gradients = compiled(model(), keras.optimizers.SGD(1.0))
    gradients.set_weights(first)
    train(gradients, [0], batch)
    wanted = [
        one + 0.45 * (one - start) - 0.05 * (one - after)
        for start, one, after in zip(before, first, gradients.get_weights())
    ]
    assert_close(net.get_weights(), wanted)


@check
def rank_0_saves_the_best_model() -> None:
    folder = pathlib.Path(hvd.broadcast_object(tempfile.mkdtemp()))
    callback = hvd.callbacks.BestModelCheckpoint(monitor="loss")
    net = compiled(model(), hvd.DistributedOptimizer(keras.optimizers.SGD(0.01)))
    expect_error(ValueError, lambda: fit(net, callback), "filepath")
    callback = hvd.callbacks.BestModelCheckpoint(monitor="loss", filepath=folder / "best.keras")
    history = fit(net, hvd.callbacks.MetricAverageCallback(), callback, epochs=3).history
    # Any rank may be rank 0 in the next epoch of an elastic job.
    assert hvd.allgather_object(callback.best and float(callback.best)) == [min(history["loss"])] * hvd.size()
    assert [path.name for path in folder.iterdir()] == ["best.keras"]
    assert_close(keras.models.load_model(folder / "best.keras").get_weights(), net.get_weights())


@check
def a_state_goes_back_and_is_given_to_all() -> None:
    net = compiled(model(), hvd.DistributedOptimizer(sgd()))
    state = hvd.elastic.KerasState(net, batch=0, epoch=hvd.rank())
    first = net.get_weights()
    train(net, range(2), own)
    state.epoch = 7
    state.restore()
    assert state.epoch == hvd.rank() and all((a == b).all() for a, b in zip(first, net.get_weights()))
    # The velocities are as they were as well.
    train(net, range(STEPS), own)
    alone = compiled(model(), sgd())
    train(alone, range(STEPS), batch)
    assert_close(net.get_weights(), alone.get_weights())
    net.set_weights([each + hvd.rank() for each in first])
    state.sync()
    assert state.epoch == 0 and all((a == b).all() for a, b in zip(first, net.get_weights()))
    expect_error(ValueError, lambda: hvd.elastic.KerasState(compiled(model(False), sgd())), "no variables yet")


def sgds() -> Any:
    """By name, and tf-keras's former ones as well."""
    return ["now", "legacy"] if IS_LEGACY else ["now"]


def rate_and_scale(optimizer: Any) -> Any:
    scale = optimizer.loss_scale if IS_LEGACY else optimizer.dynamic_scale
    return [round(float(numpy.asarray(each)), 5) for each in (optimizer.learning_rate, scale)]


@check.each("broadcast", "sync", *(["TensorFlowKerasState"] if BACKEND in ("tensorflow", "legacy") else []))
def rates_and_loss_scales_are_given_to_all(way: str) -> None:
    for kind in sgds():
        inner = (keras.optimizers.legacy if kind == "legacy" else keras.optimizers).SGD(0.1 * (hvd.rank() + 1), 0.9)
        optimizer = hvd.DistributedOptimizer(loss_scaled(inner, 4.0 * (hvd.rank() + 1)))
        net = compiled(model(), optimizer)
        if way == "broadcast":
            fit(net, hvd.callbacks.BroadcastGlobalVariablesCallback(0))
            assert rate_and_scale(optimizer) == [0.1, 4.0]
            continue
        state = states()[way == "TensorFlowKerasState"](net)
        state.sync()
        optimizer.learning_rate = 0.3
        net.fit(own(0)[0] * numpy.inf, own(0)[1], batch_size=ROWS, verbose=0)
        assert rate_and_scale(optimizer) == [0.3, 2.0]
        state.restore()
        assert rate_and_scale(optimizer) == [0.1, 4.0]


def states() -> Any:
    """The kinds of states of a model."""
    if BACKEND not in ("tensorflow", "legacy"):
        return [hvd.elastic.KerasState]
    from farandole.tensorflow.elastic import TensorFlowKerasState

    return [hvd.elastic.KerasState, TensorFlowKerasState]


@check
def local_layers_stay_each_ranks_own_when_a_worker_comes() -> None:
    """In the first sync all ranks are new, in the second one the last rank is, and in the third none."""
    rank, size = hvd.rank(), hvd.size()
    for kind in states():
        net = model()
        local = net.layers[0]
        compiled(net, hvd.PartialDistributedOptimizer(sgd(), local_layers=local))
        net.optimizer.build(net.trainable_variables)
        state = kind(net)
        state.sync()
        for is_new in (rank == size - 1, False):
            commits = state._commits
            state = kind(net) if is_new else state
            net.set_weights([each + rank for each in net.get_weights()])
            own = [each.numpy().copy() for each in (*local.weights, *getattr(net.optimizer, "momentums", [])[:1])]
            state.commit()
            state._commits = 0 if is_new else commits + 1
            state.sync()
            for _ in ("as synced", "as restored"):
                variables = (*local.weights, *getattr(net.optimizer, "momentums", [])[:1])
                found, root = [each.numpy() for each in variables], hvd.broadcast_object(own)
                assert all((a == b).all() for a, b in zip(found, root if is_new else own))
                shared = hvd.allgather_object(net.layers[1].get_weights()[0].tolist())
                assert shared == shared[:1] * size
                state.restore()


@check
def an_epoch_that_was_begun_is_ended_only() -> None:
    net, rates = compiled(model(), hvd.DistributedOptimizer(sgd())), Rates()
    state = hvd.elastic.KerasState(net, batch=3, epoch=5)
    seen = []
    note = keras.callbacks.LambdaCallback(on_epoch_end=lambda epoch, logs: seen.append((state.epoch, state.batch)))
    elastic = hvd.elastic
    callbacks = [
        elastic.UpdateEpochStateCallback(state),
        elastic.UpdateBatchStateCallback(state),
        elastic.CommitStateCallback(state, batches_per_commit=2),
    ]
    fit(net, *callbacks, note, rates, epochs=3, steps=5)
    assert len(rates.rates) == 2 + 5 + 5 and seen == [(6, 0), (7, 0), (8, 0)], (len(rates.rates), seen)
    expect_error(ValueError, lambda: elastic.CommitStateCallback(state, batches_per_commit=0), "at least 1")


@check
def epochs_count_from_the_initial_one_too() -> None:
    """Of five two are over. The program says so to fit(), or has it make those that are left."""
    net, seen = compiled(model(), hvd.DistributedOptimizer(sgd())), []
    state = hvd.elastic.KerasState(net, batch=0, epoch=0)
    note = keras.callbacks.LambdaCallback(on_epoch_end=lambda epoch, logs: seen.append(state.epoch))
    callbacks = [hvd.elastic.UpdateEpochStateCallback(state), note]
    for options in ({"initial_epoch": 2, "epochs": 5}, {"epochs": 3}):
        state.epoch = 2
        net.fit(*own(0), verbose=0, callbacks=callbacks, **options)
    assert seen == [3, 4, 5] * 2, seen


class Stopping(keras.callbacks.Callback):
    """Stops the training at the end of the first epoch, or after a batch of it."""

    def __init__(self, batch: int = -1) -> None:
        super().__init__()
        self.batch = batch
        self.epochs = 0

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        if batch == self.batch:
            self.model.stop_training = True

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        self.epochs += 1
        if self.batch < 0:
            self.model.stop_training = True


@check.each(("before", -1), ("after", -1), ("before", 1), ("after", 1))
def another_callback_may_stop_in_an_epoch_that_was_begun(place: str, batch: int) -> None:
    """The epoch has three of five batches already: the second one is its last."""
    net = compiled(model(), hvd.DistributedOptimizer(sgd()))
    state = hvd.elastic.KerasState(net, batch=3, epoch=5)
    update, stopping = hvd.elastic.UpdateBatchStateCallback(state), Stopping(batch)
    callbacks = [stopping, update] if place == "before" else [update, stopping]
    fit(net, *callbacks, epochs=3, steps=5)
    assert stopping.epochs == 1 and bool(net.stop_training), stopping.epochs


class Interrupting(keras.callbacks.Callback):
    """Raises what a commit raises when workers join, once, at the end of the second batch."""

    is_due = True

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        if batch == 1 and self.is_due:
            self.is_due = False
            raise hvd.elastic.HostsUpdatedInterrupt()


@check
def an_interrupted_epochs_end_is_no_part_of_the_next_training() -> None:
    net = compiled(model(), hvd.DistributedOptimizer(sgd()))
    state = hvd.elastic.KerasState(net, batch=3, epoch=5)
    stopping = Stopping()
    callbacks = [stopping, hvd.elastic.UpdateBatchStateCallback(state), Interrupting()]
    expect_error(hvd.elastic.HostsUpdatedInterrupt, lambda: fit(net, *callbacks, epochs=3, steps=5), "join")
    state.batch = 0
    fit(net, *callbacks, epochs=3, steps=5)
    assert stopping.epochs == 1, stopping.epochs


@check
def what_fit_changes_at_a_change_of_workers_is_no_part_of_the_state() -> None:
    """Keras's fit() on JAX puts the averages of weights in their place, also where a commit has ended it."""
    net = compiled(model(), hvd.DistributedOptimizer(keras.optimizers.SGD(0.1, use_ema=True, ema_momentum=0.5)))
    state, found = hvd.elastic.KerasState(net), []

    def changed(batch: int, logs: Any) -> None:
        if len(found) == 1:
            state.save()  # on JAX it brings the variables back
            found.append(net.get_weights())
            state.on_hosts_updated(1, 2)

    @hvd.elastic.run
    def train(state: Any) -> None:
        found.append(net.get_weights())
        note = keras.callbacks.LambdaCallback(on_train_batch_end=changed)
        fit(net, *([note, hvd.elastic.CommitStateCallback(state)] if len(found) == 1 else []))

    train(state)
    assert len(found) == 3 and all((a == b).all() for a, b in zip(*found[1:]))
