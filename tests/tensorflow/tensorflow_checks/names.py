"""Ops of one name within a step: each meets the other ranks' op of the same place, in whatever order a rank runs them."""

import threading
from typing import Any, Callable, List

import farandole.tensorflow as hvd
import numpy
import tensorflow as tf
from harness import Checks

check = Checks()

_DELAY_S = 0.03


def late(value: Any, place: int, places: int) -> Any:
    """The value after a while: even ranks have the first of the places last, odd ranks the last one."""
    turns = place if hvd.rank() % 2 else places - 1 - place

    def wait(given: Any) -> Any:
        threading.Event().wait(_DELAY_S * turns)
        return given

    (delayed,) = tf.numpy_function(wait, [value], [value.dtype], stateful=False)
    delayed.set_shape(value.shape)
    return delayed


def expect(results: List[Any], given: List[float]) -> None:
    """Each is the sum over the ranks of a value that all of them have given."""
    found = [float(each) for each in results]
    assert found == [value * hvd.size() for value in given], (found, given)


@check
def a_name_that_a_graph_has_twice() -> None:
    @tf.function
    def step(one: Any) -> Any:
        values = [late(one * 10.0**place, place, 3) for place in range(3)]
        return [hvd.allreduce(value, op=hvd.Sum, name="thrice") for value in values]

    for _ in range(3):
        expect(step(tf.ones([])), [1.0, 10.0, 100.0])


@check
def two_gradients_through_one_op() -> None:
    x = tf.Variable(1.0)

    @tf.function
    def step(one: Any) -> Any:
        with tf.GradientTape(persistent=True) as tape:
            reduced = hvd.allreduce(one * x, op=hvd.Sum)
            losses = [late_gradient(reduced, place) * 10.0**place for place in range(3)]
        return [tape.gradient(loss, x) for loss in losses]

    for _ in range(3):
        expect(step(tf.ones([])), [1.0, 10.0, 100.0])


def late_gradient(value: Any, place: int) -> Any:
    """The value; its gradient comes later."""

    @tf.custom_gradient
    def call(given: Any) -> Any:
        return tf.identity(given), lambda upstream: late(upstream, place, 3)

    return call(value)


@check
def calls_of_a_function_that_reads_a_variable() -> None:
    weight = tf.Variable(2.0)

    @tf.function
    def inner(value: Any) -> Any:
        return hvd.allreduce(value * weight, op=hvd.Sum)

    @tf.function
    def step(one: Any) -> Any:
        return [inner(late(one * 10.0**place, place, 3)) for place in range(3)]

    for _ in range(3):
        expect(step(tf.ones([])), [2.0, 20.0, 200.0])


@check
def functions_of_one_name() -> None:
    weight = tf.Variable(2.0)

    def make(factor: float) -> Callable[[Any], Any]:
        @tf.function
        def loss(value: Any) -> Any:
            return hvd.allreduce(value * weight * factor, op=hvd.Sum)

        return loss

    functions = [make(factor) for factor in (1.0, 3.0, 5.0)]

    @tf.function
    def step(one: Any) -> Any:
        return [each(late(one * 10.0**place, place, 3)) for place, each in enumerate(functions)]

    for _ in range(3):
        expect(step(tf.ones([])), [2.0, 60.0, 1000.0])


@check
def backward_passes_of_a_function_that_is_called_twice() -> None:
    weight = tf.Variable(2.0)

    @tf.function
    def inner(value: Any) -> Any:
        return hvd.allreduce(value * weight, op=hvd.Sum)

    @tf.function
    def step(one: Any) -> Any:
        given = [one * 10.0**place for place in range(3)]
        with tf.GradientTape(persistent=True) as tape:
            tape.watch(given)
            losses = [late_gradient(inner(value), place) * (place + 1.0) for place, value in enumerate(given)]
        return [tape.gradient(loss, value) for loss, value in zip(losses, given)]

    for _ in range(3):
        expect(step(tf.ones([])), [2.0, 4.0, 6.0])


def late_by(number: Any) -> Any:
    """The number after a while, which another rank takes for another one."""
    turns = int(number) if hvd.rank() % 2 else 9 - int(number)
    threading.Event().wait(_DELAY_S / 5 * (turns % 10))
    return numpy.float32(number)


def body(number: Any, sums: Any) -> Any:
    """An iteration of which nothing but its number comes from the one before."""
    (value,) = tf.numpy_function(late_by, [number], [tf.float32], stateful=False)
    value.set_shape([])
    return number + 1, sums.write(number, hvd.allreduce(value, op=hvd.Sum))


def loop() -> Any:
    """50 iterations, of which ten may run at a time."""
    sums = tf.TensorArray(tf.float32, 50)
    return tf.while_loop(lambda number, _: number < 50, body, [0, sums], parallel_iterations=10)[1].stack()


@check
def iterations_of_a_loop() -> None:
    step = tf.function(loop)
    for _ in range(2):
        expect(list(step().numpy()), [float(number) for number in range(50)])


@check
def iterations_of_a_loop_in_a_graph_of_v1() -> None:
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        tf.compat.v1.disable_control_flow_v2()
        try:
            summed = loop()
        finally:
            tf.compat.v1.enable_control_flow_v2()
        for _ in range(2):
            expect(list(session.run(summed)), [float(number) for number in range(50)])


@check
def variables_that_a_graph_broadcasts_twice() -> None:
    with tf.Graph().as_default() as graph, tf.compat.v1.Session() as session:
        variables = [
            tf.compat.v1.get_variable(f"b{place}", initializer=float(hvd.rank() * 10 + place)) for place in (0, 1)
        ]
        gives = [hvd.broadcast_variables([variable], 0) for variable in variables]
        session.run([variable.initializer for variable in variables])
        session.run(gives)
        assert session.run(variables) == [0.0, 1.0]
        made = [op.get_attr("tensor_name") for op in graph.get_operations() if op.type.startswith("Farandole")]
    assert len(set(made)) == len(made), made
