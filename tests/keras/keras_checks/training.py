"""Optimizers and models: the training of one process with the whole batch, by fit(), saved and loaded."""

import functools
import json
import pathlib
import tempfile
import zipfile
from typing import Any, List

import numpy
from harness import Checks, expect_error

from keras_checks.chosen import BACKEND, IS_LEGACY, hvd, keras

check = Checks()

STEPS = 4
ROWS = 6


def model(is_built: bool = True) -> Any:
    """The same on all ranks, and each time."""
    keras.utils.set_random_seed(5)
    layers = [keras.layers.Dense(8, activation="tanh"), keras.layers.Dense(1)]
    made = keras.Sequential([keras.Input((4,)), *layers] if is_built else layers)
    return made


def batch(step: int) -> Any:
    """The whole batch of a step: some rows of each rank."""
    random = numpy.random.RandomState(step)
    inputs = random.rand(ROWS * hvd.size(), 4).astype(numpy.float32)
    return inputs, inputs.sum(1, keepdims=True)


def own(step: int) -> Any:
    """This rank's rows of it."""
    return [array[ROWS * hvd.rank() : ROWS * (hvd.rank() + 1)] for array in batch(step)]


def sgd() -> Any:
    return keras.optimizers.SGD(0.1, momentum=0.9)


def train(net: Any, steps: Any, data: Any) -> None:
    """A step a batch."""
    for step in steps:
        inputs, targets = data(step)
        net.fit(inputs, targets, batch_size=len(inputs), epochs=1, verbose=0, shuffle=False)


def compiled(net: Any, optimizer: Any, is_eager: bool = False) -> Any:
    options = {} if BACKEND == "jax" else {"jit_compile": False}
    # By its class: Keras 3.15 does not load "mse" from HDF5.
    net.compile(optimizer, keras.losses.MeanSquaredError(), run_eagerly=is_eager, **options)
    return net


def trained_alone(steps: int = STEPS) -> List[Any]:
    """The weights after training in one process with the whole batch."""
    net = compiled(model(), sgd())
    train(net, range(steps), batch)
    return net.get_weights()


def assert_close(found: Any, wanted: Any) -> None:
    for mine, alone in zip(found, wanted):
        numpy.testing.assert_allclose(mine, alone, rtol=5e-5, atol=2e-6)


@check.each("compiled", "eager", "predivided")
def fit_trains_as_one_process(way: str) -> None:
    options = {"gradient_predivide_factor": 2.0} if way == "predivided" else {}
    optimizer = hvd.DistributedOptimizer(sgd(), **options)
    net = compiled(model(), optimizer, way == "eager")
    train(net, range(STEPS), own)
    assert_close(net.get_weights(), trained_alone())


@check
def half_floats_travel() -> None:
    net = compiled(model(), hvd.DistributedOptimizer(sgd(), compression=hvd.Compression.fp16))
    train(net, range(STEPS), own)
    for mine, alone in zip(net.get_weights(), trained_alone()):
        numpy.testing.assert_allclose(mine, alone, rtol=2e-2, atol=2e-3)


@check
def gradients_of_two_steps_are_added_up() -> None:
    net = compiled(model(), hvd.DistributedOptimizer(keras.optimizers.SGD(0.1), backward_passes_per_step=2))
    first = net.get_weights()
    train(net, [0], own)
    assert all((a == b).all() for a, b in zip(first, net.get_weights()))
    train(net, [0], own)
    alone = compiled(model(), keras.optimizers.SGD(0.2))
    train(alone, [0], batch)
    assert_close(net.get_weights(), alone.get_weights())


def iterations_of(optimizer: Any) -> int:
    return int(numpy.asarray(optimizer.iterations))


@check.each("compiled", "eager")
def passes_are_averaged_and_all_of_them_count(way: str) -> None:
    """Learning rates follow the number of passes, as with Horovod."""
    rates = keras.optimizers.schedules.PiecewiseConstantDecay([2], [0.1, 0.2])
    options = {"backward_passes_per_step": 2, "average_aggregated_gradients": True}
    optimizer = hvd.DistributedOptimizer(keras.optimizers.SGD(rates), **options)
    net = compiled(model(), optimizer, way == "eager")
    alone = model()
    for step in range(2):
        for number in range(2):
            train(net, [0], own)
            assert iterations_of(optimizer) == 2 * step + number + 1
        # The last pass of a step has seen 1 or 3 others.
        train(compiled(alone, keras.optimizers.SGD(0.1 if step == 0 else 0.2)), [0], batch)
        assert_close(net.get_weights(), alone.get_weights())


@check
def passes_are_added_up_in_keras_session_of_v1() -> None:
    """It gives first values to Keras's own variables only, and not to those of the sums."""
    if not IS_LEGACY:
        return
    import tensorflow

    v1 = tensorflow.compat.v1
    with tensorflow.Graph().as_default():
        variable = v1.get_variable("v", initializer=[0.0])
        optimizer = hvd.DistributedOptimizer(keras.optimizers.legacy.SGD(1.0), backward_passes_per_step=2)
        step = optimizer.apply_gradients([(tensorflow.constant([hvd.rank() + 1.0]), variable)])
        session = v1.keras.backend.get_session()
        session.run([v1.global_variables_initializer()])
        mean = sum(range(1, hvd.size() + 1)) / hvd.size()
        for number in range(1, 5):
            session.run(step)
            found, iterations = session.run([variable, optimizer.iterations])
            assert found.tolist() == [-2 * mean * (number // 2)] and iterations == number


@check
def gradients_are_combined_by_adasum() -> None:
    """Equal gradients are averaged: all ranks have the same rows."""
    net = compiled(model(), hvd.DistributedOptimizer(keras.optimizers.SGD(0.1), op=hvd.Adasum))
    alone = compiled(model(), keras.optimizers.SGD(0.1))
    for made in (net, alone):
        train(made, range(2), batch)
    assert_close(net.get_weights(), alone.get_weights())
    # Orthogonal ones are added up, and others lie between: beside different rows it is no average.
    train(net, [2], own)
    before = alone.get_weights()
    train(alone, [2], batch)
    steps = [numpy.linalg.norm(a - b) for a, b in zip(alone.get_weights(), before)]
    found = [numpy.linalg.norm(a - b) for a, b in zip(net.get_weights(), before)]
    assert hvd.size() == 1 or any(mine > step * 1.001 for mine, step in zip(found, steps)), (found, steps)
    for weights in hvd.allgather_object(net.get_weights()):
        assert_close(net.get_weights(), weights)


@check.each("built", "unbuilt")
def a_local_layer_keeps_its_own_gradients(way: str) -> None:
    net = model(way == "built")
    optimizer = hvd.PartialDistributedOptimizer(keras.optimizers.SGD(0.1), local_layers=net.layers[0])
    compiled(net, optimizer)
    train(net, [0], own)
    kernels = hvd.allgather_object([each.tolist() for each in net.get_weights()])
    assert hvd.size() == 1 or kernels[0][0] != kernels[1][0]
    assert all(each[2] == kernels[0][2] for each in kernels)
    alone = compiled(model(), keras.optimizers.SGD(0.1))
    train(alone, [0], batch)
    # The mean over the ranks of a gradient that the others have as zero: all ranks' together are the whole batch's.
    before = model().get_weights()
    steps = [numpy.array(each[0]) - before[0] for each in kernels]
    numpy.testing.assert_allclose(sum(steps), alone.get_weights()[0] - before[0], rtol=1e-3, atol=1e-6)


@check
def what_is_saved_loads_without_farandole_and_back() -> None:
    folder = pathlib.Path(tempfile.mkdtemp())
    # Keras 3.15 itself does not read the state of an optimizer from HDF5.
    for suffix in (".keras", ".h5") if IS_LEGACY else (".keras",):
        distributed, plain = folder / f"distributed{suffix}", folder / f"plain{suffix}"
        net = compiled(model(), hvd.DistributedOptimizer(sgd()))
        train(net, range(2), own)
        net.save(distributed)
        loaded = keras.models.load_model(distributed)
        assert isinstance(loaded.optimizer, keras.optimizers.SGD) and not hasattr(
            loaded.optimizer, "register_local_var"
        )
        # It goes on alone, with its velocities.
        train(loaded, range(2, STEPS), batch)
        assert_close(loaded.get_weights(), trained_alone())

        alone = compiled(model(), sgd())
        train(alone, range(2), batch)
        alone.save(plain)
        for path in (plain, distributed):
            again = hvd.load_model(path)
            train(again, range(2, STEPS), own)
            assert_close(again.get_weights(), trained_alone())
        if suffix == ".keras":
            assert configuration(distributed) == configuration(plain)
    expect_error(ValueError, lambda: hvd.load_model(saved_without_optimizer(folder)), "no optimizer")


def configuration(path: pathlib.Path) -> Any:
    """The optimizer's part of a file."""
    with zipfile.ZipFile(path) as archive:
        config = json.loads(archive.read("config.json"))["compile_config"]["optimizer"]
    config["config"].pop("name")
    return config


def saved_without_optimizer(folder: pathlib.Path) -> pathlib.Path:
    path = folder / "bare.keras"
    model().save(path)
    return path


class OwnSGD(keras.optimizers.SGD):
    """A program's own."""


@check
def optimizers_of_the_programs_own_are_loaded() -> None:
    path = pathlib.Path(tempfile.mkdtemp()) / "own.keras"
    net = compiled(model(), hvd.DistributedOptimizer(OwnSGD(0.1, momentum=0.9)))
    train(net, range(2), own)
    net.save(path)
    again = hvd.load_model(path, custom_optimizers=[OwnSGD])
    assert isinstance(again.optimizer, OwnSGD)
    train(again, range(2, STEPS), own)
    assert_close(again.get_weights(), trained_alone())


@check
def all_ranks_leave_out_the_same_steps() -> None:
    inner = keras.optimizers.SGD(0.1, momentum=0.9)
    net = compiled(model(), hvd.DistributedOptimizer(loss_scaled(inner, 4.0)))
    train(net, [0], own)
    first = net.get_weights()
    assert_close(first, trained_alone(1))
    inputs, targets = own(1)
    if hvd.rank() == 0:
        inputs = inputs * numpy.inf
    net.fit(inputs, targets, batch_size=ROWS, epochs=1, verbose=0)
    assert all((a == b).all() for a, b in zip(first, net.get_weights()))
    optimizer = loss_scaled(hvd.DistributedOptimizer(keras.optimizers.SGD(0.1)), 4.0)
    wrong = compiled(model(), optimizer)
    for callback in (
        hvd.callbacks.BroadcastGlobalVariablesCallback(0),
        hvd.callbacks.MetricAverageCallback(),
        hvd.callbacks.LearningRateWarmupCallback(0.1),
        hvd.callbacks.BestModelCheckpoint(filepath="none.keras"),
    ):
        expect_error(
            ValueError, lambda each=callback: wrong.fit(*own(0), verbose=0, callbacks=[each]), "LossScaleOptimizer"
        )
    states = [hvd.elastic.KerasState]
    if BACKEND in ("tensorflow", "legacy"):
        from farandole.tensorflow.elastic import TensorFlowKerasState

        states.append(TensorFlowKerasState)
    for state in states:
        expect_error(ValueError, lambda kind=state: kind(wrong), "LossScaleOptimizer")


def loss_scaled(inner: Any, scale: float) -> Any:
    kind = keras.mixed_precision.LossScaleOptimizer if IS_LEGACY else keras.optimizers.LossScaleOptimizer
    return kind(inner, initial_scale=scale)


@check
def all_ranks_leave_out_a_step_whose_local_gradient_overflows() -> None:
    inputs = keras.Input((4,))
    local = keras.layers.Dense(1, use_bias=False, kernel_initializer="zeros")
    shared = keras.layers.Dense(1, kernel_initializer="zeros")
    found = keras.layers.add([local(inputs), shared(keras.layers.Activation("tanh")(inputs))])
    optimizer = hvd.PartialDistributedOptimizer(loss_scaled(keras.optimizers.SGD(0.1), 4.0), local_layers=local)
    net = compiled(keras.Model(inputs, found), optimizer)

    def state_of_all(value: float) -> Any:
        rows = numpy.full([ROWS, 4], value, numpy.float32)
        net.fit(rows, numpy.full([ROWS, 1], 10.0), batch_size=ROWS, verbose=0)
        scale = optimizer.loss_scale if IS_LEGACY else optimizer.dynamic_scale
        return hvd.allgather_object([float(numpy.asarray(scale)), shared.get_weights()[0][0, 0]])

    # The gradient of the local kernel is the sum of products with the inputs.
    assert state_of_all(3e38 if hvd.rank() == 0 else 1.0) == [[2.0, 0.0]] * hvd.size()
    later = state_of_all(1.0)
    assert later == later[:1] * hvd.size() and later[0][0] == 2.0 and later[0][1] > 0, later


@check
def one_norm_of_local_and_shared_gradients_is_refused() -> None:
    """By it each rank would clip the shared ones differently."""
    layers = model().layers
    for optimizer in (keras.optimizers.SGD(0.1, global_clipnorm=1.0), loss_scaled(keras.optimizers.SGD(0.1), 4.0)):
        getattr(optimizer, "inner_optimizer", optimizer).global_clipnorm = 1.0
        kept = functools.partial(hvd.PartialDistributedOptimizer, optimizer, local_layers=layers[0])
        expect_error(ValueError, kept, "global_clipnorm", "clipnorm=")
        registered = hvd.PartialDistributedOptimizer(optimizer).register_local_var
        expect_error(ValueError, functools.partial(registered, layers[0].trainable_variables[0]), "global_clipnorm")


@check
def wrong_arguments_are_named() -> None:
    expect_error(ValueError, lambda: hvd.DistributedOptimizer("sgd"), "keras.optimizers.get('sgd')")
    expect_error(ValueError, lambda: hvd.DistributedOptimizer(3), "needs an optimizer")
    expect_error(ValueError, lambda: hvd.DistributedOptimizer(hvd.DistributedOptimizer(sgd())), "already")
    expect_error(ValueError, lambda: hvd.DistributedOptimizer(sgd(), backward_passes_per_step=0), "at least 1")
    expect_error(
        ValueError,
        lambda: hvd.DistributedOptimizer(sgd(), op=hvd.Sum, gradient_predivide_factor=2.0),
        "gradient_predivide_factor",
    )
    expect_error(RuntimeError, lambda: hvd.broadcast_global_variables(0), "variables")
