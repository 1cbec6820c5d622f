"""Derivatives of Min and Max, which a numerical derivative shows; and what has none."""

from typing import Any, Callable, List

import farandole.tensorflow as hvd
import numpy
import tensorflow as tf
from harness import Checks, expect_error

from tensorflow_checks.compiled import COMPILES

check = Checks()

WAYS = ("eager", "function", *(["xla"] if COMPILES else []))

CALLS = {
    "max": lambda x: hvd.allreduce(x, op=hvd.Max),
    "min": lambda x: hvd.allreduce(x, op=hvd.Min),
    "scaled": lambda x: hvd.allreduce(x, op=hvd.Max, prescale_factor=-2.0, postscale_factor=1 / 3),
    "grouped": lambda x: hvd.grouped_allreduce([x[:1], x], op=hvd.Min)[1],
    "named": lambda x: hvd.allreduce(x, op=hvd.Max, prescale_factor=0.5, name="extremum"),
}


def given(shift: float = 0.0) -> tf.Tensor:
    """This rank's numbers, in an order that differs between ranks."""
    numbers = tf.range(2 * (hvd.size() + 1), dtype=tf.float64)
    return tf.reshape(tf.sin(numbers * 1.7 + 2.9 * hvd.rank() + shift), [-1, 2])


def loss_of(call: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def loss(x: Any) -> Any:
        result = call(tf.sin(x))
        weights = tf.cos(tf.range(tf.size(result), dtype=tf.float64) + 10.0 * hvd.rank())
        return tf.reduce_sum(tf.reshape(weights, tf.shape(result)) * result**2)

    return loss


def gradient_of(loss: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def gradient(x: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(x)
            value = loss(x)
        return tape.gradient(value, x)

    return gradient


def run_by(way: str, call: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return call if way == "eager" else tf.function(call, jit_compile=way == "xla")


def numerical(loss: Callable[[Any], Any], x: tf.Tensor) -> numpy.ndarray:
    """The derivative of the sum of all ranks' losses by this rank's numbers; the ranks take turns."""
    step, found = 1e-6, numpy.zeros(x.shape)
    for rank in range(hvd.size()):
        for index in numpy.ndindex(*x.shape):
            moved: List[Any] = []
            for sign in (1, -1):
                there = x.numpy()
                there[index] += sign * step if rank == hvd.rank() else 0.0
                moved.append(float(hvd.allreduce(loss(tf.constant(there)), op=hvd.Sum)))
            if rank == hvd.rank():
                found[index] = (moved[0] - moved[1]) / (2 * step)
    return found


@check.each(*CALLS)
def gradients_of_extrema_are_those_of_the_sum_of_losses(name: str) -> None:
    loss = loss_of(CALLS[name])
    wanted = numerical(loss, given())
    for way in WAYS:
        numpy.testing.assert_allclose(
            run_by(way, gradient_of(loss))(given()), wanted, rtol=1e-5, atol=1e-6, err_msg=way
        )


@check
def second_derivatives_of_extrema_exist() -> None:
    """Of x^2 the second derivative is that of the sum of the ranks' losses again."""
    first = gradient_of(loss_of(CALLS["max"]))

    def summed(x: Any) -> Any:
        return tf.reduce_sum(first(x) * given(0.3))

    wanted = numerical(summed, given())
    for way in WAYS:
        numpy.testing.assert_allclose(
            run_by(way, gradient_of(summed))(given()), wanted, rtol=1e-5, atol=1e-6, err_msg=way
        )


@check
def ranks_that_have_the_same_extremum_share_its_gradient() -> None:
    for dtype in (tf.float16, tf.bfloat16, tf.float32, tf.float64):
        for way in WAYS:
            gradient = gradient_of(lambda x: tf.reduce_sum(hvd.allreduce(x, op=hvd.Max)))
            found = run_by(way, gradient)(tf.ones([3], dtype))
            assert found.dtype == dtype
            numpy.testing.assert_allclose(tf.cast(found, tf.float64), numpy.ones(3), rtol=1e-2)


@check
def an_extremum_in_a_process_set_has_its_gradients() -> None:
    if hvd.size() < 3:
        return
    pair = hvd.add_process_set([0, hvd.size() - 1])
    if pair.included():
        for way in WAYS:
            gradient = gradient_of(lambda x: tf.reduce_sum(hvd.allreduce(x, op=hvd.Max, process_set=pair)))
            found = run_by(way, gradient)(tf.fill([2], float(hvd.rank())))
            assert found.numpy().tolist() == [2.0 if hvd.rank() else 0.0] * 2
    hvd.barrier()
    hvd.remove_process_set(pair)


@check
def reductions_without_a_gradient_say_so() -> None:
    rows = [
        (lambda x: hvd.allreduce(x, op=hvd.Product), "allreduce with op=Product"),
        (lambda x: hvd.allreduce(x, op=hvd.Adasum), "allreduce with op=Adasum"),
        (lambda x: hvd.reducescatter(x, op=hvd.Max), "reducescatter with op=Max"),
    ]
    for call, words in rows:
        for way in WAYS:
            gradient = gradient_of(lambda x, call=call: tf.reduce_sum(call(x)))
            expect_error(NotImplementedError, lambda: run_by(way, gradient)(tf.ones([2])), words, "stop_gradient")  # noqa: B023
    free = gradient_of(lambda x: tf.reduce_sum(x * hvd.allreduce(tf.stop_gradient(x), op=hvd.Product)))
    assert free(tf.ones([2])).numpy().tolist() == [1.0, 1.0]
