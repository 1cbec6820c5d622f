"""SyncBatchNormalization is Keras's layer of the batches of all ranks together: values, statistics and gradients."""

from typing import Any, Dict, List

import farandole.tensorflow as hvd
import numpy
import tensorflow as tf
from harness import Checks

from tensorflow_checks.training import BY_XLA

check = Checks()

# Of the channels of a batch, mean and deviation.
PLAIN = [(0.0, 1.0), (2.0, 0.5)]
FAR = [(1013.25, 0.2), (300.0, 0.1), (-300.0, 0.1), (0.0, 1.0)]
# Their squares have no place in 64 bits.
FARTHER = [(1.7e9, 0.5), (-3e11, 4.0), (0.0, 1.0)]


def batch_of(rank: int, rows: int, channels: Any, shape: Any = ()) -> numpy.ndarray:
    """A rank's batch, [rows, *shape, channels]. The ranks' own means differ."""
    random = numpy.random.RandomState(rank)
    means, deviations = numpy.transpose(channels)
    values = random.standard_normal((rows, *shape, len(channels))) + 0.5 * rank
    return means + deviations * values


def batches(rows: List[int], channels: Any, dtype: str = "float32", shape: Any = ()) -> List[numpy.ndarray]:
    return [batch_of(rank, count, channels, shape).astype(dtype) for rank, count in enumerate(rows)]


def learned(layer: Any, inputs: Any, weights: Any, way: str = "eager", **options: Any) -> Dict[str, numpy.ndarray]:
    """The layer's outputs and statistics after a step of training, and gradients of a loss."""

    def step(inputs: Any, weights: Any) -> List[Any]:
        with tf.GradientTape() as tape:
            tape.watch(inputs)
            outputs = layer(inputs, training=True, **options)
            loss = tf.reduce_sum(tf.cast(outputs, weights.dtype) ** 3 * weights)
        return [outputs, *tape.gradient(loss, [inputs, layer.gamma, layer.beta])]

    layer.build(inputs.shape)
    # Not ones and zeros, which hide what is left out.
    layer.gamma.assign(layer.gamma * 1.5)
    layer.beta.assign(layer.beta + 0.25)
    run = step if way == "eager" else tf.function(step, jit_compile=way == "xla")
    found = run(tf.constant(inputs), tf.constant(weights))
    found += [layer.moving_mean, layer.moving_variance]
    names = ("outputs", "inputs", "gamma", "beta", "mean", "variance")
    return {name: tf.cast(each, tf.float64).numpy() for name, each in zip(names, found)}


def exact(batch: numpy.ndarray, weights: numpy.ndarray, epsilon: float, axis: int = -1) -> Dict[str, numpy.ndarray]:
    """As `learned`, of Keras's layer in float64."""
    layer = tf.keras.layers.BatchNormalization(axis=axis, epsilon=epsilon, dtype="float64")
    return learned(layer, batch.astype("float64"), weights.astype("float64"))


def own_rows(array: Any, rows: List[int]) -> Any:
    begin = sum(rows[: hvd.rank()])
    return array[begin : begin + rows[hvd.rank()]]


def weights_of(shape: Any) -> numpy.ndarray:
    return numpy.random.RandomState(99).standard_normal(shape)


def rounding(batch: numpy.ndarray, axis: int) -> float:
    """By how much of a deviation the batch's type rounds a mean, where it does so most."""
    others = tuple(each for each in range(batch.ndim) if each != axis % batch.ndim)
    exactly = batch.astype("float64")
    return float(numpy.finfo(batch.dtype).eps * (1 + numpy.abs(exactly.mean(others)) / exactly.std(others)).max())


def expect_joined(parts: List[numpy.ndarray], way: str = "eager", axis: int = -1) -> None:
    """Fails unless the layer is Keras's layer of all parts together, but for errors of about the same size."""
    whole, rows = numpy.concatenate(parts), [len(each) for each in parts]
    dtype, epsilon = str(whole.dtype), 1e-5
    weights = weights_of(whole.shape)
    options = {"axis": axis, "epsilon": epsilon, "dtype": dtype}
    wanted = exact(whole, weights, epsilon, axis)
    plain = learned(tf.keras.layers.BatchNormalization(**options), whole, weights.astype(dtype), way)
    found = learned(
        hvd.SyncBatchNormalization(**options), parts[hvd.rank()], own_rows(weights.astype(dtype), rows), way
    )
    for name in ("gamma", "beta"):
        # A rank's own, which an optimizer adds up.
        found[name] = hvd.allreduce(tf.constant(found[name]), op=hvd.Sum).numpy()
    for name, right in wanted.items():
        mine = found[name]
        if name in ("outputs", "inputs"):
            mine = numpy.concatenate(hvd.allgather_object(mine))
        scale = numpy.abs(right).max()
        allowed = 2 * numpy.abs(plain[name] - right).max() + 4 * rounding(whole, axis) * scale
        error = numpy.abs(mine - right).max()
        assert error <= allowed, f"{name}: an error of {error:.3g}, and Keras has {allowed:.3g} of {scale:.3g}"


@check.each("eager", "function", *BY_XLA)
def channels_far_from_zero_keep_their_variance(way: str) -> None:
    expect_joined(batches([64] * hvd.size(), FAR), way)


@check
def a_channel_that_never_changes_has_no_variance() -> None:
    """Rounding does not make it negative."""
    batch = numpy.tile(numpy.float32([0.1, 1013.25, 1e6, 3e7]), (5, 1))
    layer = hvd.SyncBatchNormalization(epsilon=1e-5, momentum=0.0)
    assert numpy.isfinite(layer(batch, training=True)).all()
    variance = layer.moving_variance.numpy()
    assert (variance >= 0).all() and (variance <= 1e-14 * numpy.square(batch[0], dtype="float64")).all(), variance


@check.each("eager", "function")
def ranks_may_have_batches_of_different_sizes(way: str) -> None:
    rows = [3 + 5 * rank for rank in range(hvd.size())]
    expect_joined(batches(rows, PLAIN), way)
    expect_joined(batches(rows, FAR), way)
    if hvd.size() > 1:
        expect_joined(batches([0, *rows[1:]], PLAIN), way)
        expect_joined(batches([0, *rows[1:]], FARTHER, "float64"), way)


@check.each("float16", "bfloat16", "float64")
def inputs_of_each_type_are_normalized(dtype: str) -> None:
    if dtype == "float64":
        return expect_joined(batches([16] * hvd.size(), FARTHER, dtype))
    whole = numpy.concatenate(batches([16] * hvd.size(), [(10.0, 1.0), (0.0, 1.0), (250.0, 0.5)]))
    given = tf.cast(whole, dtype)
    mine = own_rows(given, [16] * hvd.size())
    layer = hvd.SyncBatchNormalization(epsilon=1e-5, momentum=0.0, dtype=f"mixed_{dtype}")
    found = layer(mine, training=True)
    wanted = exact(given.numpy().astype("float64"), numpy.zeros(given.shape), 1e-5)
    assert found.dtype == dtype
    share = (wanted["outputs"] - 0.25) / 1.5
    tolerance = 2.0 ** (-10 if dtype == "float16" else -7)
    numpy.testing.assert_allclose(tf.cast(found, tf.float64), own_rows(share, [16] * hvd.size()), 0, 4 * tolerance)
    exactly = given.numpy().astype("float64").var(0)
    numpy.testing.assert_allclose(layer.moving_variance, exactly, rtol=1e-5)


@check
def statistics_go_over_all_axes_but_the_channels() -> None:
    rows = [2 + rank for rank in range(hvd.size())]
    parts = batches(rows, FAR, shape=(3, 2))
    expect_joined(parts)
    expect_joined([numpy.ascontiguousarray(numpy.moveaxis(each, -1, 1)) for each in parts], axis=1)


@check
def places_that_a_mask_leaves_out_do_not_count() -> None:
    rows = [2 + 3 * rank for rank in range(hvd.size())]
    parts = batches(rows, FAR, shape=(5,))
    whole = numpy.concatenate(parts)
    mask = numpy.random.RandomState(3).rand(*whole.shape[:2]) < 0.6
    mask[:, 0] = True
    plain, found = tf.keras.layers.BatchNormalization(momentum=0.0), hvd.SyncBatchNormalization(momentum=0.0)
    kept = whole[mask].astype("float64")
    plain(whole, training=True, mask=mask)
    found(parts[hvd.rank()], training=True, mask=own_rows(mask, rows))
    for name, right in (("moving_mean", kept.mean(0)), ("moving_variance", kept.var(0))):
        allowed = 2 * numpy.abs(getattr(plain, name) - right) + 4 * rounding(kept.astype("float32"), -1) * right.max()
        assert (numpy.abs(getattr(found, name) - right) <= allowed).all(), (name, getattr(found, name), right)


@check
def a_rank_that_has_joined_has_no_part() -> None:
    parts = batches([5] * hvd.size(), PLAIN)
    if hvd.rank() > 0:
        wanted = tf.keras.layers.BatchNormalization()(numpy.concatenate(parts[1:]), training=True)
        found = hvd.SyncBatchNormalization()(parts[hvd.rank()], training=True)
        begin = 5 * (hvd.rank() - 1)
        numpy.testing.assert_allclose(found, wanted[begin : begin + 5], rtol=1e-4, atol=1e-5)
    hvd.join()


@check
def one_collective_carries_the_statistics_and_one_their_gradients() -> None:
    inputs, weights = batch_of(0, 4, PLAIN).astype("float32"), weights_of((4, 2)).astype("float32")
    before = hvd.counters().submissions
    learned(hvd.SyncBatchNormalization(), inputs, weights, "function")
    assert hvd.counters().submissions - before == 2
