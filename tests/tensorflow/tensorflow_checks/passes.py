"""Gradients of several backward passes: what is reduced, what a program may do with it, and what counts the passes."""

import contextlib
from typing import Any, Callable, Iterator, List

import farandole.tensorflow as hvd
import numpy
import tensorflow as tf
from farandole.tensorflow.aggregation import LocalGradients
from harness import Checks, expect_error

check = Checks()

v1 = tf.compat.v1


@contextlib.contextmanager
def without_v2_behavior() -> Iterator[None]:
    """With the control flow and the variables of TensorFlow 1, which are references."""
    v1.disable_control_flow_v2()
    v1.disable_resource_variables()
    try:
        yield
    finally:
        v1.enable_resource_variables()
        v1.enable_control_flow_v2()


def mean_of(call: Callable[[int], Any]) -> Any:
    """Over the ranks."""
    return sum(call(rank) for rank in range(hvd.size())) / hvd.size()


def gradient(rank: int, number: int) -> float:
    """That of a pass of a rank."""
    return (rank + 1.0) * (number + 1.0)


class Session:
    """A v1 session with a variable, whose gradient is fed. Local variables get their values as in a MonitoredTrainingSession."""

    def __init__(self, **options: Any) -> None:
        self.graph = tf.Graph()
        with self.graph.as_default():
            self.session = v1.Session()
            self.variable = v1.get_variable("v", initializer=[0.0])
            self.given = v1.placeholder(tf.float32, [])
            self.global_step = v1.train.get_or_create_global_step()
            self.optimizer = hvd.DistributedOptimizer(v1.train.GradientDescentOptimizer(1.0), **options)
            self.pairs = self.optimizer.compute_gradients(tf.reduce_sum(self.variable) * self.given)

    def make_step(self, pairs: Any) -> None:
        with self.graph.as_default():
            self.step = self.optimizer.apply_gradients(pairs, global_step=self.global_step)
            self.session.run([v1.global_variables_initializer(), v1.local_variables_initializer()])

    def run(self, number: int, *fetched: Any) -> List[Any]:
        return self.session.run([self.step, *fetched], {self.given: gradient(hvd.rank(), number)})[1:]


@check.each(False, True)
def a_v1_program_clips_what_is_reduced(averages: bool) -> None:
    made = Session(backward_passes_per_step=2, average_aggregated_gradients=averages)
    with made.graph.as_default():
        # The sums of two passes are clipped, and of rank 0 alone none would be.
        limit = mean_of(lambda rank: gradient(rank, 0) + gradient(rank, 1)) * 0.75 / (2 if averages else 1)
        made.make_step([(tf.clip_by_value(grad, -limit, limit), variable) for grad, variable in made.pairs])
    value = 0.0
    for number in range(4):
        made.run(number)
        value -= limit if number % 2 else 0.0
        found, steps = made.session.run([made.variable, made.global_step])
        numpy.testing.assert_allclose(found, [value], rtol=1e-6)
        assert steps == number + 1, "the global step counts passes"


@check.each("run", "aggregate", "Adasum")
def a_last_pass_that_fails_is_forgotten(way: str) -> None:
    """The next pass is a first one again."""
    variable, local, seen = tf.Variable([0.0]), LocalGradients(2, False), []
    options = {"op": hvd.Adasum, "backward_passes_per_step": 2}
    optimizer = hvd.DistributedOptimizer(v1.train.GradientDescentOptimizer(1.0), **options)

    def act(sums: List[Any], _: Any = None) -> List[Any]:
        seen.append(abs(float(sums[0][0])))
        if len(seen) == 1:
            raise KeyError("once")
        return sums

    optimizer._exchange.reduce = act

    def one_pass() -> int:
        gradient = tf.constant([1.0])
        if way == "Adasum":
            optimizer.apply_gradients([(gradient, variable)])
        elif way == "run":
            local.run([gradient], act, lambda: None)
        else:
            local.aggregate([gradient], act)
        return len(seen)

    assert one_pass() == 0
    expect_error(KeyError, one_pass, "once")
    assert [one_pass() for _ in range(4)] == [1, 2, 2, 3] and seen == [2.0] * 3, seen


@check
def compute_gradients_gives_own_gradients_before_the_last_pass() -> None:
    made = Session(backward_passes_per_step=3)
    made.make_step(made.pairs)
    for number in range(6):
        (found,) = made.run(number, made.pairs[0][0])
        passes = range(number - 2, number + 1)
        whole = mean_of(lambda rank: sum(gradient(rank, each) for each in passes))  # noqa: B023
        numpy.testing.assert_allclose(found, [whole if number % 3 == 2 else gradient(hvd.rank(), number)], rtol=1e-6)


@check
def the_sums_are_no_part_of_checkpoints_and_of_broadcasts() -> None:
    made = Session(backward_passes_per_step=2)
    with made.graph.as_default():
        assert len(v1.global_variables()) == 2, v1.global_variables()
        assert len(v1.local_variables()) == 3, v1.local_variables()


@check
def v1_programs_without_v2_behavior_add_up_too() -> None:
    with without_v2_behavior():
        made = Session(backward_passes_per_step=2)
        made.make_step(made.pairs)
        for number in range(4):
            made.run(number)
        wanted = -mean_of(lambda rank: sum(gradient(rank, number) for number in range(4)))
        numpy.testing.assert_allclose(made.session.run(made.variable), [wanted], rtol=1e-6)


@check
def a_v1_optimizer_adds_up_in_eager_code() -> None:
    variable = tf.Variable([0.0])
    optimizer = hvd.DistributedOptimizer(v1.train.GradientDescentOptimizer(1.0), backward_passes_per_step=2)
    expect_error(RuntimeError, lambda: optimizer.apply_gradients([(tf.ones([1]), variable)]), "compute_gradients()")
    for number in range(4):
        mine = gradient(hvd.rank(), number)
        optimizer.apply_gradients(optimizer.compute_gradients(lambda mine=mine: variable * mine, [variable]))
        wanted = -mean_of(lambda rank: sum(gradient(rank, each) for each in range((number + 1) // 2 * 2)))  # noqa: B023
        numpy.testing.assert_allclose(variable.numpy(), [wanted], rtol=1e-6)


@check.each("eager", "function")
def the_mean_of_passes_is_applied_and_all_passes_count(way: str) -> None:
    variable = tf.Variable([1.0])
    rates = tf.keras.optimizers.schedules.PiecewiseConstantDecay([3], [1.0, 0.5])
    options = {"backward_passes_per_step": 2, "average_aggregated_gradients": True}
    optimizer = hvd.DistributedOptimizer(tf.keras.optimizers.SGD(rates), **options)

    def step(given: Any) -> None:
        optimizer.apply_gradients([(given, variable)])

    run = tf.function(step) if way == "function" else step
    value = 1.0
    for number in range(6):
        run(tf.constant([gradient(hvd.rank(), number)]))
        if number % 2:
            rate = 1.0 if number <= 3 else 0.5  # by the number of passes before
            value -= rate * mean_of(lambda rank: (gradient(rank, number - 1) + gradient(rank, number)) / 2)  # noqa: B023
        numpy.testing.assert_allclose(variable.numpy(), [value], rtol=1e-6)
        assert int(optimizer.iterations) == number + 1


def reduced(gradients: List[Any], variables: List[Any]) -> List[Any]:
    """By which the helpers reduce."""
    assert len(gradients) == len(variables)
    return [None if each is None else hvd.allreduce(each, op=hvd.Average) for each in gradients]


@check.each(False, True)
def horovods_eager_helper_works(is_function: bool) -> None:
    """As an optimizer of a program's own uses it; the second variable is local, the third has no gradient."""
    helper = hvd.LocalGradientAggregationHelperEager(2, reduced, False, True)
    variables = [tf.Variable([0.0]), tf.Variable([0.0]), tf.Variable([0.0])]
    helper.register_local_var(variables[1])
    optimizer = tf.keras.optimizers.SGD(1.0)
    optimizer.build(variables)
    applied = tf.Variable(0)

    def step(given: Any) -> Any:
        found = helper.compute_gradients([given, given, None], variables)
        pairs = list(zip(found, variables))
        helper.apply_gradients(lambda: applied.assign_add(1), optimizer, pairs)
        return found[:2] if found[2] is None else None

    run = tf.function(step) if is_function else step
    for number in range(4):
        shared, local = run(tf.constant([gradient(hvd.rank(), number)]))
        passes = range(number // 2 * 2, number + 1)
        own = sum(gradient(hvd.rank(), each) for each in passes)
        is_last = number % 2 == 1
        whole = mean_of(lambda rank: sum(gradient(rank, each) for each in passes))  # noqa: B023
        numpy.testing.assert_allclose(shared, [whole / 2 if is_last else own], rtol=1e-6)
        numpy.testing.assert_allclose(local, [own / 2 / hvd.size() if is_last else own], rtol=1e-6)
        assert int(helper.counter) == (0 if is_last else 1) and sorted(helper.locally_aggregated_grads) == [0, 1]
    assert int(applied) == 2 and int(optimizer.iterations) == 2, "the closure, which counts nothing here, ran twice"
    slices = tf.IndexedSlices(tf.ones([1]), [0], [1])
    expect_error(ValueError, lambda: helper.compute_gradients([slices], variables[:1]), "sparse_as_dense")
    expect_error(ValueError, lambda: hvd.LocalGradientAggregationHelperEager(0, reduced, False, True), "must be > 0")


@check
def horovods_helper_works_in_a_graph() -> None:
    kind = hvd.LocalGradientAggregationHelper
    helper = kind(2, reduced, True, False, hvd.rank(), kind._OPTIMIZER_TYPE_LEGACY, scale_local_gradients=False)
    with tf.Graph().as_default(), v1.Session() as session:
        given, global_step = v1.placeholder(tf.float32, [1]), v1.train.get_or_create_global_step()
        variables = [v1.get_variable("shared", initializer=[0.0]), v1.get_variable("own", initializer=[0.0])]
        helper.register_local_var(variables[1])
        slices = tf.IndexedSlices(given, [0], [1])
        pairs = list(zip(helper.compute_gradients([given, slices], variables), variables))
        sgd = v1.train.GradientDescentOptimizer(1.0)
        step = helper.apply_gradients(
            lambda: sgd.apply_gradients(pairs, global_step=global_step), sgd, pairs, global_step=global_step
        )
        session.run([v1.global_variables_initializer(), v1.local_variables_initializer()])
        for number in range(4):
            session.run(step, {given: [gradient(hvd.rank(), number)]})
            passes = range((number + 1) // 2 * 2)
            shared, own, steps = session.run([*variables, global_step])
            numpy.testing.assert_allclose(shared, [-mean_of(lambda rank: sum(gradient(rank, i) for i in passes))])  # noqa: B023
            numpy.testing.assert_allclose(own, [-sum(gradient(hvd.rank(), i) for i in passes)])
            assert steps == number + 1
        assert len(helper.locally_aggregated_grads) == 2
