"""Ranks that name the same variables otherwise, and different ones alike: Keras names layers as each process makes them."""

import tempfile
import warnings
from typing import Any, Callable, List

import farandole.tensorflow as hvd
import numpy
import tensorflow as tf
from harness import Checks, expect_error

check = Checks()

keras = tf.keras


def net(**terms: Any) -> Any:
    """Three layers of one shape, with Keras's default names."""
    keras.utils.set_random_seed(3)
    layers = [keras.layers.Dense(3, use_bias=False, kernel_initializer="ones", **terms) for _ in range(3)]
    return keras.Sequential([keras.Input((3,)), *layers])


def loaded(model: Any) -> Any:
    """As rank 0 resumes from a file, where Keras gives other names."""
    with tempfile.TemporaryDirectory() as folder:
        model.save(f"{folder}/model.keras")
        return keras.models.load_model(f"{folder}/model.keras")


def step_of(model: Any, way: str, variables: Any = None) -> Callable[[], List[Any]]:
    """A step of training: gradients of 1 for rank 0, 2 for rank 1, and so on."""

    def step() -> List[Any]:
        sources = model.trainable_variables if variables is None else variables
        with tf.GradientTape() as tape:
            loss = sum(tf.reduce_sum(tf.convert_to_tensor(each)) for each in sources) * (hvd.rank() + 1.0)
        return hvd.DistributedGradientTape(tape).gradient(loss, sources)  # type: ignore[no-any-return]

    return tf.function(step) if way == "function" else step


def firsts(gradients: List[Any]) -> List[float]:
    return [float(numpy.ravel(each)[0]) for each in gradients]


def mean() -> float:
    return (hvd.size() + 1) / 2


@check.each("eager", "function")
def a_model_that_rank_0_has_loaded_is_that_of_the_others(way: str) -> None:
    model = net()
    if hvd.rank() == 0:
        keras.layers.Dense(2)  # takes a number
        model = loaded(net())
    step = step_of(model, way)
    for _ in range(2):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert firsts(step()) == [mean()] * 3


@check.each("eager", "function")
def other_models_around_a_model_do_not_count(way: str) -> None:
    """As one that rank 0 exports. In eager code the names tell it, too."""
    model = net()
    around = [keras.Input((3,)), keras.layers.Dense(3, use_bias=False), model]
    exported = keras.Sequential(around) if hvd.rank() == 0 else None
    assert firsts(step_of(model, way)()) == [mean()] * 3
    del exported


@check.each("eager", "function")
def layers_that_are_frozen_on_one_rank_each_are_not_mixed_up(way: str) -> None:
    if hvd.size() != 2:
        return
    model = net()
    frozen = model.layers[0 if hvd.rank() == 0 else 2]
    frozen.trainable = False
    if way == "eager":
        words, kind = ("kernel: rank 0 has a gradient of this variable, and rank 1 has none",), ValueError
    else:
        words, kind = ("train and freeze the same variables on all ranks",), tf.errors.FailedPreconditionError
    expect_error(kind, step_of(model, way), *words)
    frozen.trainable = True
    assert firsts(step_of(model, way)()) == [mean()] * 3


@check
def layers_without_a_model_are_paired_with_one_warning() -> None:
    if hvd.size() != 2:
        return
    if hvd.rank() == 0:
        keras.layers.Dense(3)
    layers = [keras.layers.Dense(3, use_bias=False) for _ in range(2)]
    for layer in layers:
        layer.build((None, 3))
    step = step_of(None, "eager", [layer.kernel for layer in layers])
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        for _ in range(3):
            assert firsts(step()) == [mean()] * 2
    assert len([each for each in told if "give the layers names" in str(each.message)]) == 1, told


class Net(tf.Module):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        self.model, self.optimizer = net(), keras.optimizers.SGD(0.1)

    @tf.function(input_signature=[tf.TensorSpec((None, 3))])  # type: ignore[untyped-decorator]
    def step(self, inputs: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(self.model(inputs) ** 2)
        gradients = hvd.DistributedGradientTape(tape).gradient(loss, self.model.trainable_variables)
        self.optimizer.apply_gradients(zip(gradients, self.model.trainable_variables))
        return loss


@check.each("traced", "saved")
def a_step_is_traced_on_one_rank_alone(way: str) -> None:
    """Tracing communicates nothing: rank 0 exports."""
    module = Net()
    if hvd.rank() == 0 and way == "traced":
        module.step.get_concrete_function()
    elif hvd.rank() == 0:
        with tempfile.TemporaryDirectory() as folder:
            tf.saved_model.save(module, folder)
    hvd.barrier()
    module.step(tf.ones([2, 3]))


@check
def a_graph_of_v1_is_built_on_one_rank_alone() -> None:
    v1 = tf.compat.v1
    for is_own in (True, False):
        if is_own and hvd.rank() != 0:
            continue
        with tf.Graph().as_default(), v1.Session() as session:
            weight = v1.get_variable("w", [2], initializer=v1.zeros_initializer())
            optimizer = hvd.DistributedOptimizer(v1.train.GradientDescentOptimizer(1.0), backward_passes_per_step=1)
            step = optimizer.minimize(tf.reduce_sum(weight) * (hvd.rank() + 1.0))
            if is_own:
                continue
            session.run(v1.global_variables_initializer())
            session.run(step)
            assert session.run(weight).tolist() == [-mean()] * 2
