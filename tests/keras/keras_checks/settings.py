"""The settings of an optimizer that its configuration does not have: those that a program has set beside it."""

import importlib
import types
import warnings
from typing import Any, Callable, List

import numpy
from harness import Checks

from keras_checks.chosen import IS_LEGACY, hvd, keras
from keras_checks.training import assert_close, batch, compiled, model, own, train

check = Checks()


def trains_as_one_process(make: Callable[[], Any], is_eager: bool = True) -> None:
    """With an optimizer that the function makes, of which a DistributedOptimizer is made."""
    first, distributed = model().get_weights(), compiled(model(), hvd.DistributedOptimizer(make()), is_eager)
    alone = compiled(model(), make(), is_eager)
    # The biases are zero at the beginning, which weight decay leaves as they are.
    for net in (distributed, alone):
        net.set_weights([each + 0.5 for each in first])
    train(distributed, range(2), own)
    train(alone, range(2), batch)
    assert_close(distributed.get_weights(), alone.get_weights())


def decaying() -> Any:
    return keras.optimizers.SGD(0.05, weight_decay=0.5)


@check.each("names", "scaled")
def variables_that_are_excluded_from_weight_decay_stay_so(way: str) -> None:
    def make() -> Any:
        optimizer = decaying()
        optimizer.exclude_from_weight_decay(var_names=["bias"])
        if way == "scaled" and not IS_LEGACY:
            return keras.optimizers.LossScaleOptimizer(optimizer, initial_scale=2.0)
        return optimizer

    trains_as_one_process(make)


@check
def variables_are_excluded_from_weight_decay_by_themselves() -> None:
    net, optimizer = model(), decaying()
    optimizer.exclude_from_weight_decay(var_list=[net.trainable_variables[1]])
    made = hvd.DistributedOptimizer(optimizer)
    uses = [made._use_weight_decay(each) for each in net.trainable_variables]
    assert uses == [True, False, True, True], uses


def scaling(factor: float) -> Callable[[Any], Any]:
    return lambda gradient: gradient * factor


class Scaled(keras.optimizers.SGD):
    """A program's own, with settings that its configuration does not have."""

    factor = 1.0

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.mode, self.shift = "plain", None
        self.change = lambda gradient: self.scale(gradient * self.factor)
        self.scale = scaling(1.0)

    def update_step(self, gradient: Any, variable: Any, *rate: Any) -> None:
        shift = 0.0 if self.shift is None else self.shift
        super().update_step(self.change(gradient) * (2.0 if self.mode == "double" else 1.0) + shift, variable, *rate)


def set_number(optimizer: Any) -> None:
    optimizer.factor = 0.1


def set_text(optimizer: Any) -> None:
    optimizer.mode = "double"


def set_what_was_none(optimizer: Any) -> None:
    optimizer.shift = 0.25


def set_function(optimizer: Any) -> None:
    optimizer.change = lambda gradient: gradient * 0.5


def set_function_of_the_same_code(optimizer: Any) -> None:
    optimizer.scale = scaling(0.5)


def set_method(optimizer: Any) -> None:
    optimizer.factor = 0.1
    optimizer.change = types.MethodType(lambda self, gradient: gradient * self.factor * 2, optimizer)


SETTERS = (set_number, set_text, set_what_was_none, set_function, set_function_of_the_same_code, set_method)
CHANGES = {each.__name__: each for each in SETTERS}


@check.each(*CHANGES)
def a_programs_own_settings_stay(change: str) -> None:
    def make() -> Any:
        optimizer = Scaled(0.1)
        CHANGES[change](optimizer)
        return optimizer

    trains_as_one_process(make)


@check
def a_function_of_the_optimizer_itself_is_the_new_ones() -> None:
    """One that __init__ makes knows the optimizer that it was made for."""
    optimizer = Scaled(0.1)
    made = hvd.DistributedOptimizer(optimizer)
    optimizer.factor = 7.0
    assert made.change(1.0) == 1.0
    set_method(optimizer)
    made = hvd.DistributedOptimizer(optimizer)
    optimizer.factor = 7.0
    assert made.change(1.0) == 0.2


@check
def containers_stay() -> None:
    optimizer = Scaled(0.1)
    optimizer.factors = {"bias": 0.5, "kernel": [1.0, 2.0]}
    assert dict(hvd.DistributedOptimizer(optimizer).factors) == {"bias": 0.5, "kernel": [1.0, 2.0]}


@check
def an_optimizer_that_was_used_begins_anew_with_its_settings() -> None:
    net = compiled(model(), Scaled(0.1, momentum=0.9), is_eager=True)
    net.optimizer.factor = 0.5
    train(net, range(2), batch)
    made = hvd.DistributedOptimizer(net.optimizer)
    assert made.factor == 0.5
    again = compiled(model(), made, is_eager=True)
    alone = compiled(model(), Scaled(0.05, momentum=0.9), is_eager=True)
    train(again, range(2), own)
    train(alone, range(2), batch)
    assert_close(again.get_weights(), alone.get_weights())


@check
def a_step_that_was_replaced_is_told() -> None:
    """It would be that of the given optimizer, which reduces nothing."""
    optimizer = Scaled(0.1)
    optimizer.apply_gradients = lambda *_pairs, **_options: None
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        made = hvd.DistributedOptimizer(optimizer)
    assert "apply_gradients" not in vars(made)
    assert [each for each in told if "apply_gradients" in str(each.message)], told


class Falling(keras.optimizers.schedules.LearningRateSchedule):
    """As TensorFlow's tutorial of the Transformer has one: without a configuration."""

    def __call__(self, step: Any) -> Any:
        cast = importlib.import_module("tensorflow").cast if IS_LEGACY else keras.ops.cast
        return 0.1 / (1.0 + cast(step, "float32"))


def rates() -> List[Any]:
    made = [Falling(), keras.optimizers.schedules.PiecewiseConstantDecay([1], [0.1, 0.3])]
    return made if IS_LEGACY else [*made, lambda: 0.05]


@check.each("alone", "scaled")
def learning_rates_of_every_kind_stay(way: str) -> None:
    for rate in rates():

        def make(rate: Any = rate) -> Any:
            optimizer = keras.optimizers.SGD(rate, momentum=0.9)
            is_scaled = way == "scaled" and not IS_LEGACY
            return keras.optimizers.LossScaleOptimizer(optimizer, initial_scale=2.0) if is_scaled else optimizer

        trains_as_one_process(make, is_eager=way == "scaled")
        made = hvd.DistributedOptimizer(make())
        assert getattr(made, "inner_optimizer", made)._learning_rate is rate


@check
def learning_rates_of_legacy_optimizers_stay() -> None:
    if not IS_LEGACY:
        return
    calls = []

    def rate() -> float:
        calls.append(1)
        return 0.1 / len(calls)

    made = hvd.DistributedOptimizer(keras.optimizers.legacy.SGD(rate))
    assert made._hyper["learning_rate"] is rate
    schedule = Falling()
    made = hvd.DistributedOptimizer(keras.optimizers.legacy.SGD(schedule))
    assert made._hyper["learning_rate"] is schedule
    numpy.testing.assert_allclose(float(schedule(1)), 0.05)


@check.each("stepped", "refers to itself")
def an_optimizer_is_wrapped_that(case: str) -> None:
    optimizer = decaying()
    if case == "stepped":
        variable = keras.Variable(1.0) if not IS_LEGACY else importlib.import_module("tensorflow").Variable(1.0)
        optimizer.apply_gradients([(keras.ops.ones(()) if not IS_LEGACY else variable * 1.0, variable)])
    else:
        object.__setattr__(optimizer, "itself", optimizer)
        vars(optimizer)["itself"] = optimizer
    made = hvd.DistributedOptimizer(optimizer)
    net = compiled(model(), made, True)
    train(net, range(1), own)
