"""Gradients that a rank lacks and another one has, and copies of optimizers."""

import copy
import pickle
import tempfile
import warnings
from typing import Any, List, Sequence

import numpy
from harness import Checks, expect_error

from keras_checks.chosen import BACKEND, IS_LEGACY, hvd, keras
from keras_checks.training import compiled, own

check = Checks()


def variables() -> List[Any]:
    if IS_LEGACY:
        import tensorflow as tf

        return [tf.Variable([0.0, 0.0], name=name) for name in "abc"]
    return [keras.Variable(numpy.zeros(2, "float32"), name=name) for name in "abc"]


def tensor(value: float) -> Any:
    array = numpy.full(2, value, "float32")
    return keras.backend.constant(array) if IS_LEGACY else keras.ops.convert_to_tensor(array)


def distributed(**terms: Any) -> Any:
    return hvd.DistributedOptimizer(keras.optimizers.SGD(1.0), **terms)


def apply(optimizer: Any, given: Sequence[Any], trained: List[Any]) -> None:
    gradients = [None if each is None else tensor(each) for each in given]
    if IS_LEGACY:
        optimizer.apply_gradients(list(zip(gradients, trained)))
    else:
        optimizer.apply(gradients, trained)


def values_of(trained: List[Any]) -> List[float]:
    return [float(each.numpy()[0]) for each in trained]


@check
def zeros_are_sent_for_a_gradient_that_a_rank_lacks() -> None:
    if hvd.size() != 2:
        return
    optimizer, trained, rank = distributed(), variables(), hvd.rank()
    given = [10.0 if rank == 0 else None, 20.0 if rank == 1 else None, 1.0]
    apply(optimizer, given, trained)
    assert values_of(trained) == [-5.0, -10.0, -1.0]
    apply(optimizer, given, trained)
    assert values_of(trained) == [-10.0, -20.0, -2.0]


@check
def a_gradient_that_a_rank_lacks_later_is_told_or_zero() -> None:
    if hvd.size() != 2 or IS_LEGACY:
        return
    optimizer, trained = distributed(), variables()
    apply(optimizer, [2.0, 2.0, 2.0], trained)
    apply(optimizer, [2.0, 2.0 if hvd.rank() == 0 else None, None if hvd.rank() == 0 else 2.0], trained)
    assert values_of(trained) == [-4.0, -3.0, -3.0]


@check.each("sums", "means")
def passes_need_no_gradient_of_each_variable(way: str) -> None:
    is_mean = way == "means"
    for first, second in (((1.0, None, 1.0), (1.0, 1.0, 1.0)), ((1.0, 1.0, 1.0), (1.0, None, 1.0))):
        optimizer = distributed(backward_passes_per_step=2, average_aggregated_gradients=is_mean)
        trained = variables()
        apply(optimizer, first, trained)
        apply(optimizer, second, trained)
        assert values_of(trained) == ([-1.0, -0.5, -1.0] if is_mean else [-2.0, -1.0, -2.0])
    optimizer, trained = distributed(backward_passes_per_step=2, average_aggregated_gradients=is_mean), variables()
    for _ in range(2):
        apply(optimizer, (1.0, None, 1.0), trained)
    assert values_of(trained)[1] == 0.0


def of_equal_layers() -> Any:
    keras.utils.set_random_seed(5)
    layers = [keras.layers.Dense(4, name=name, use_bias=False) for name in ("one", "two", "three")]
    return keras.Sequential([keras.Input((4,)), *layers, keras.layers.Dense(1, name="last")])


def fit(net: Any) -> None:
    inputs, targets = own(0)
    net.fit(inputs, targets, batch_size=len(inputs), epochs=1, verbose=0)


def fit_frozen(name: str) -> None:
    """With this layer frozen; "": none."""
    net = of_equal_layers()
    if name:
        net.get_layer(name).trainable = False
    fit(compiled(net, distributed()))


@check.each("one rank", "each rank")
def a_variable_that_is_frozen_on_one_rank_is_named(way: str) -> None:
    if hvd.size() != 2:
        return
    frozen = ("one", "") if way == "one rank" else ("one", "two")
    words = ("rank 1 has a gradient", "one/kernel") if way == "one rank" else ("rank 0 has a gradient", "two/kernel")
    # AutoGraph, which tf-keras has, makes another error of it.
    kind = Exception if IS_LEGACY else ValueError
    expect_error(kind, lambda: fit_frozen(frozen[hvd.rank()]), *words)
    fit_frozen("one")


@check
def layers_with_other_numbers_are_trained() -> None:
    if hvd.rank() == 0:
        keras.layers.Dense(2)  # takes a number
    keras.utils.set_random_seed(5)
    fit(compiled(keras.Sequential([keras.Input((4,)), keras.layers.Dense(3), keras.layers.Dense(1)]), distributed()))


@check.each("fit", "eager")
def rank_0_resumes_from_a_file_and_the_others_build_the_model(way: str) -> None:
    """As Horovod documents it. Keras gives the variables of a model that is loaded other names."""

    def made() -> Any:
        keras.utils.set_random_seed(5)
        layers = [keras.layers.Dense(4, use_bias=False) for _ in range(3)]
        return compiled(keras.Sequential([keras.Input((4,)), *layers, keras.layers.Dense(1)]), distributed())

    net = made()
    if hvd.rank() == 0:
        with tempfile.TemporaryDirectory() as folder:
            net.save(f"{folder}/model.keras")
            net = hvd.load_model(f"{folder}/model.keras")
    if way == "eager":
        net.compile(net.optimizer, keras.losses.MeanSquaredError(), run_eagerly=True)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        fit(net)
    assert not [each for each in told if "give the layers names" in str(each.message)]
    weights = hvd.allgather_object(net.get_weights())
    assert all((one == other).all() for each in weights for one, other in zip(each, weights[0]))


@check
def layers_with_default_names_that_each_rank_has_frozen_are_told() -> None:
    if hvd.size() != 2:
        return
    keras.utils.set_random_seed(5)
    layers = [keras.layers.Dense(4, use_bias=False) for _ in range(3)]
    layers[0 if hvd.rank() == 0 else 2].trainable = False
    net = keras.Sequential([keras.Input((4,)), *layers])
    # AutoGraph, which tf-keras has, makes another error of it.
    kind = Exception if IS_LEGACY else ValueError
    words = ("kernel: rank 0 has a gradient of this variable, and rank 1 has none",)
    expect_error(kind, lambda: fit(compiled(net, distributed())), *words)


def three_layers() -> Any:
    """With Keras's default names. Rank 0 has made one more layer before, so that its numbers are others."""
    keras.backend.clear_session()
    if hvd.rank() == 0:
        keras.layers.Dense(4)
    keras.utils.set_random_seed(5)
    layers = [keras.layers.Dense(4, use_bias=False, activation="tanh") for _ in range(3)]
    return keras.Sequential([keras.Input((4,)), *layers])


@check.each("fit", "eager", "one more is trained")
def different_variables_of_one_name_are_told(way: str) -> None:
    """Rank 0 trains dense_1 and dense_2, which are its first ones, and rank 1 dense_1 and dense_2, which are its last."""
    if hvd.size() != 2:
        return
    net = three_layers()
    net.layers[2 if hvd.rank() == 0 else 0].trainable = False
    first = net.get_weights()
    compiled(net, distributed(), way == "eager")
    words = (
        "dense_1/kernel: on rank 0 this name is that of variable 0 of the model, and on rank 1 that of variable 1",
    )
    if way == "one more is trained":
        net.layers[1].trainable = hvd.rank() == 0
        compiled(net, distributed())
        words = ("kernel: rank 0 has a gradient of this variable, and rank 1 has none",)
    # AutoGraph, which tf-keras has, makes another error of it.
    expect_error(Exception if IS_LEGACY else ValueError, lambda: fit(net), *words)
    # On JAX, Keras's fit() leaves no weights where it fails.
    assert BACKEND == "jax" or all((one == other).all() for one, other in zip(first, net.get_weights()))


@check
def layers_of_one_name_after_others_are_the_same() -> None:
    """Ranks may have other layers around those that they train together, as they have other data."""
    shared = keras.layers.Dense(1, name="shared_by_all", use_bias=False, kernel_initializer="ones")
    own_layers = [keras.layers.Dense(4, name=f"own_{index}") for index in range(hvd.rank() + 1)]
    for layer in own_layers:
        layer.trainable = False
    net = keras.Sequential([keras.Input((4,)), *own_layers, shared])
    fit(compiled(net, distributed()))
    weights = hvd.allgather_object(numpy.asarray(shared.get_weights()[0]))
    assert all((each == weights[0]).all() for each in weights)


def fit_length(net: Any, length: int) -> None:
    """A step compiles anew for another length."""
    inputs = numpy.full((4, length, 4), hvd.rank() + 1.0, "float32")
    net.fit(inputs, numpy.zeros((4, length, 1), "float32"), batch_size=4, epochs=1, verbose=0)


@check
def a_rank_compiles_its_step_again_after_shutdown_and_init() -> None:
    """The others have theirs, so they would not answer a question."""
    if hvd.rank() == 0:
        keras.layers.Dense(4)  # takes a number
    keras.utils.set_random_seed(5)
    layers = [keras.layers.Dense(4, activation="tanh"), keras.layers.Dense(1)]
    net = compiled(keras.Sequential([keras.Input((None, 4)), *layers]), distributed())
    fit_length(net, 2)
    hvd.shutdown()
    hvd.init()
    fit_length(net, 3 if hvd.rank() == 0 else 2)
    fit_length(net, 5)
    weights = hvd.allgather_object(net.get_weights())
    assert all((one == other).all() for each in weights for one, other in zip(each, weights[0]))


@check
def a_list_that_is_compiled_first_after_shutdown_and_init_is_compared() -> None:
    """One rank has frozen a layer in the second job. It sends zeros, as it does in the first step of an optimizer."""
    if hvd.size() != 2 or BACKEND not in ("tensorflow", "legacy"):
        return
    net = compiled(of_equal_layers(), distributed())
    fit(net)
    hvd.shutdown()
    hvd.init()
    net.get_layer("one").trainable = hvd.rank() == 0
    compiled(net, net.optimizer)
    fit(net)
    weights = hvd.allgather_object(net.get_weights())
    # Keras has other orders of weights where some are frozen.
    sums = [sorted(float(abs(each).sum()) for each in of_rank) for of_rank in weights]
    assert sums[0] == sums[1], sums


class InTurn(keras.Model):
    """Trains two models with one optimizer; they are no part of it, as attributes would be."""

    def __init__(self, *nets: Any) -> None:
        super().__init__()
        self.nets = lambda: nets

    def train_step(self, data: Any) -> Any:
        import tensorflow as tf

        for net in self.nets():
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean((net(data[0]) - data[1]) ** 2)
            gradients = tape.gradient(loss, net.trainable_variables)
            self.optimizer.apply_gradients(zip(gradients, net.trainable_variables))
        return {"loss": loss}


@check.each("compiled", "eager")
def each_of_two_models_may_have_other_names(way: str) -> None:
    if BACKEND not in ("tensorflow", "legacy"):
        return
    keras.backend.clear_session()
    nets = []
    for number in range(2):
        if number == 1 and hvd.rank() == 0:
            keras.layers.Dense(4)  # takes a number
        keras.utils.set_random_seed(5)
        layers = [keras.layers.Dense(4), keras.layers.Dense(1)]
        nets.append(keras.Sequential([keras.Input((4,)), *layers]))
    optimizer = distributed()
    optimizer.build([variable for net in nets for variable in net.trainable_variables])
    both = compiled(InTurn(*nets), optimizer, way == "eager")
    for _ in range(2):
        fit(both)
    every = hvd.allgather_object([net.get_weights() for net in nets])
    for each in every:
        assert all((one == other).all() for net, first in zip(each, every[0]) for one, other in zip(net, first))


@check
def a_distributed_optimizer_is_not_copied() -> None:
    optimizer = distributed()
    for call in (copy.copy, copy.deepcopy, pickle.dumps):
        expect_error(TypeError, lambda: call(optimizer), "cannot be copied or pickled")  # noqa: B023
    if BACKEND != "legacy":
        assert keras.optimizers.deserialize(keras.optimizers.serialize(optimizer)).name == optimizer.name
