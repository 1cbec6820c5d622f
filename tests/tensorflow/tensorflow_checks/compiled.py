"""The operations in what XLA compiles (jit_compile=True)."""

from typing import Any, Callable, List

import farandole.tensorflow as hvd
import numpy
import tensorflow as tf
from harness import Checks, expect_error

check = Checks()

COMPILES = tuple(map(int, tf.__version__.split(".")[:2])) >= (2, 19)
"""Whether XLA can call the library: from TensorFlow 2.19 on."""

DTYPES = ("uint8", "int8", "uint16", "int16", "int32", "int64", "float16", "bfloat16", "float32", "float64")


def compiled(call: Callable[..., Any]) -> Any:
    return tf.function(call, jit_compile=True)


def own(dtype: str, rows: int = 3) -> tf.Tensor:
    """This rank's tensor: rank + 1 in each element."""
    return tf.cast(tf.cast(tf.fill([rows, 2], hvd.rank() + 1), tf.float32), dtype)


def values_of(tensor: tf.Tensor) -> List[float]:
    wide = tensor if tensor.dtype.size >= 4 else tf.cast(tensor, tf.float32)
    return tf.reshape(tf.cast(wide, tf.float64), [-1]).numpy().tolist()


@check.each(*DTYPES, "bool", "float8_e5m2", "float8_e4m3fn")
def types_travel_in_compiled_functions(dtype: str) -> None:
    size = hvd.size()
    root = size - 1

    def step(given: Any) -> Any:
        return hvd.broadcast(given, root), hvd.allgather(given), hvd.allreduce(given, op=hvd.Max)

    results = compiled(step)(own(dtype))
    plain = step(own(dtype))
    for found, wanted in zip(results, plain):
        assert found.dtype == dtype and found.shape == wanted.shape and values_of(found) == values_of(wanted)


@check.each(*DTYPES)
def a_compiled_allreduce_gives_what_its_op_says(dtype: str) -> None:
    ops = (hvd.Sum, hvd.Average, hvd.Min, hvd.Max, hvd.Product, *([hvd.Adasum] if "float" in dtype else []))

    def step(given: Any) -> Any:
        return [hvd.allreduce(given, op=op) for op in ops]

    for found, wanted in zip(compiled(step)(own(dtype)), step(own(dtype))):
        assert found.dtype == dtype and values_of(found) == values_of(wanted)


@check
def factors_keep_the_precision_of_a_double_when_compiled() -> None:
    call = compiled(lambda x: hvd.allreduce(x, op=hvd.Sum, prescale_factor=1 / 3, postscale_factor=0.1))
    total = sum(1 / 3 for _ in range(hvd.size())) * 0.1
    assert abs(call(tf.ones([2], tf.float64)).numpy()[0] - total) < 1e-15


@check
def rows_go_where_they_go_outside_of_compiled_functions() -> None:
    size = hvd.size()
    given = tf.reshape(tf.range(14 * size, dtype=tf.float32), [7 * size, 2]) + float(hvd.rank())

    def step(tensor: Any) -> Any:
        root = size - 1
        gathered = hvd.grouped_allgather([tensor, tf.cast(tensor, tf.int32)[:0]])
        scattered = hvd.grouped_reducescatter([tensor[:5], tf.cast(tensor, tf.float64)], op=hvd.Sum)
        rooted = [hvd.gather(tensor, root), hvd.scatter(tensor[:5], root), hvd.allgather(tensor[0, 0])]
        return [*gathered, *scattered, hvd.alltoall(tensor), *rooted, *hvd.grouped_allreduce([tensor, tensor[:1]])]

    for found, wanted in zip(compiled(step)(given), step(given)):
        assert found.shape == wanted.shape and values_of(found) == values_of(wanted)


@check
def compiled_gradients_are_those_of_graphs() -> None:
    size, rank = hvd.size(), hvd.rank()
    rows = [
        lambda t: hvd.allreduce(t, op=hvd.Sum),
        lambda t: hvd.allreduce(t, op=hvd.Average, prescale_factor=0.5),
        lambda t: hvd.grouped_allreduce([t, t], op=hvd.Sum)[1],
        hvd.allgather,
        lambda t: hvd.broadcast(t, 0),
        lambda t: hvd.reducescatter(t, op=hvd.Sum, postscale_factor=0.5),
        lambda t: hvd.reducescatter(t, op=hvd.Average),
        hvd.alltoall,
        lambda t: hvd.gather(t, size - 1),
        lambda t: hvd.scatter(t, 0),
    ]
    for number, call in enumerate(rows):

        def gradient(x: Any, call: Any = call) -> Any:
            with tf.GradientTape() as tape:
                tape.watch(x)
                loss = tf.reduce_sum(call(x) * float(rank + 1))
            return tape.gradient(loss, x)

        given = tf.fill([2 * size, 2], float(rank + 2))
        numpy.testing.assert_allclose(
            compiled(gradient)(given), tf.function(gradient)(given), rtol=1e-6, err_msg=str(number)
        )


@check
def slices_are_reduced_in_compiled_functions() -> None:
    size, rank = hvd.size(), hvd.rank()

    def step(table: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(table)
            loss = tf.reduce_sum(tf.gather(table, [rank % 4, 0]))
        found = hvd.DistributedGradientTape(tape, op=hvd.Sum).gradient(loss, table)
        mean = hvd.allreduce(tf.IndexedSlices(found.values, found.indices, found.dense_shape))
        assert isinstance(found, tf.IndexedSlices) and isinstance(mean, tf.IndexedSlices)
        return tf.convert_to_tensor(found), tf.convert_to_tensor(mean)

    wanted = numpy.zeros([4, 2])
    for place in [each for other in range(size) for each in (other % 4, 0)]:
        wanted[place] += 1
    for found in compiled(step)(tf.zeros([4, 2])):
        numpy.testing.assert_allclose(found, wanted, rtol=1e-6)


@check
def second_derivatives_are_compiled() -> None:
    @compiled
    def step(x: Any) -> Any:
        with tf.GradientTape() as outer:
            outer.watch(x)
            with tf.GradientTape() as inner:
                inner.watch(x)
                loss = tf.reduce_sum(hvd.allreduce(x, op=hvd.Sum) ** 3)
            first = inner.gradient(loss, x)
        return outer.gradient(first, x)

    # Of size * total^2 * 3, as the gradient of a sum is the sum of the ranks' gradients.
    size = hvd.size()
    assert values_of(step(tf.ones([2]))) == [6.0 * size * size * size] * 2


@check
def numbers_are_read_when_a_compiled_function_runs() -> None:
    results = compiled(lambda: (hvd.rank_op(), hvd.size_op(), hvd.local_rank_op(), hvd.process_set_included_op()))()
    assert [int(each) for each in results] == [hvd.rank(), hvd.size(), hvd.local_rank(), 1]


@check
def compiled_calls_run_in_the_order_of_the_functions() -> None:
    """In functions that a function calls several times, in branches and in loops, of which none uses the others' results."""

    @tf.function
    def inner(value: Any) -> Any:
        return hvd.allreduce(value, op=hvd.Sum), hvd.allgather(value)

    @compiled
    def step(value: Any, sign: Any) -> Any:
        total = hvd.allreduce(value, op=hvd.Sum)
        parts = [inner(value + float(each))[0] for each in range(8)]
        if sign > 0:
            chosen = hvd.allreduce(value * 2.0, op=hvd.Sum)
        else:
            chosen = hvd.allreduce(value * 3.0, op=hvd.Sum) + hvd.allreduce(value, op=hvd.Sum)
        summed = tf.zeros([4])
        for _ in tf.range(5):
            summed += hvd.allreduce(value, op=hvd.Sum)
        return total, tf.stack(parts), chosen, summed

    size = hvd.size()
    for sign, factor in ((1, 2.0), (-1, 4.0)):
        for _ in range(20):
            total, parts, chosen, summed = step(tf.ones([4]), tf.constant(sign))
            assert values_of(total) == [size] * 4 and values_of(chosen) == [factor * size] * 4
            assert values_of(parts) == [size * (each + 1.0) for each in range(8) for _ in range(4)]
            assert values_of(summed) == [5.0 * size] * 4


@check
def compiled_calls_without_a_use_are_made_and_equal_ones_are_not_merged() -> None:
    before = hvd.counters().submissions

    @compiled
    def step() -> Any:
        for _ in range(5):
            total = hvd.allreduce(tf.constant(1.0), op=hvd.Sum)
        return total

    assert step().numpy() == hvd.size() and step().numpy() == hvd.size()
    assert hvd.counters().submissions == before + 10


@check
def ranks_that_disagree_in_compiled_functions_are_told_and_go_on() -> None:
    if hvd.size() == 1:
        return
    step = compiled(lambda x: hvd.allreduce(x, name="grad/xla"))
    expect_error(
        tf.errors.FailedPreconditionError,
        lambda: step(tf.zeros([hvd.rank() + 1])),
        "grad/xla: rank 0 has shape [1], rank 1 has shape [2]",
    )
    rows = compiled(lambda x: hvd.allgather(x, name="rows/xla"))
    expect_error(tf.errors.OpError, lambda: rows(tf.zeros([hvd.rank() + 1])), "rows/xla: the ranks gave [1,2")
    assert compiled(lambda x: hvd.allreduce(x, op=hvd.Sum))(tf.constant(1.0)).numpy() == hvd.size()


@check
def ranks_that_have_joined_are_waited_for_no_more_by_compiled_functions() -> None:
    step = compiled(lambda: hvd.allreduce(tf.constant(1.0), op=hvd.Sum, name="joined/xla"))
    for number in range(hvd.rank() + 1):
        assert step().numpy() == hvd.size() - number
    assert 0 <= int(compiled(hvd.join)()) < hvd.size()
    compiled(lambda: (hvd.barrier(), tf.constant(0))[1])()


@check
def process_sets_reduce_among_themselves_in_compiled_functions() -> None:
    if hvd.size() == 1:
        return
    chosen = hvd.add_process_set([hvd.size() - 1, 0] if hvd.size() > 2 else [1])
    if chosen.included():

        def step(value: Any) -> Any:
            gathered = hvd.allgather(tf.reshape(value, [1]), process_set=chosen)
            return hvd.allreduce(value, op=hvd.Sum, process_set=chosen), gathered, hvd.size_op(chosen.process_set_id)

        total, gathered, size = compiled(step)(tf.constant(float(hvd.rank())))
        assert total.numpy() == sum(chosen.ranks) and gathered.numpy().tolist() == chosen.ranks
        assert size.numpy() == len(chosen.ranks)
    hvd.barrier()
    hvd.remove_process_set(chosen)


@check
def what_xla_cannot_compile_is_named_with_the_remedy() -> None:
    size = hvd.size()
    rows = [
        (lambda x: hvd.alltoall(x, [1] * size), ValueError, "alltoall with splits"),
        (lambda x: hvd.allreduce(tf.strings.as_string(x)), ValueError, "a tensor of string cannot be sent"),
        (lambda x: hvd.scatter(x[0, 0], 0), ValueError, "scatter needs a tensor with rows"),
    ]
    for call, kind, words in rows:
        expect_error(kind, lambda call=call: compiled(call)(tf.ones([size, 2])), words)
    unknown = tf.function(hvd.allreduce, jit_compile=True, input_signature=[tf.TensorSpec([None], tf.float32)])
    expect_error(ValueError, lambda: unknown(tf.ones([2])), "allreduce: XLA must know the shape", "jit_compile=False")
    with tf.Graph().as_default():
        expect_error(
            NotImplementedError, lambda: compiled(hvd.allreduce)(tf.ones([2])), "allreduce", "jit_compile=False"
        )

    @compiled
    def product(x: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(x)
            loss = hvd.allreduce(x, op=hvd.Product)
        return tape.gradient(loss, x)

    expect_error(NotImplementedError, lambda: product(tf.ones([2])), "op=Product has no gradient")


def an_older_tensorflow_is_named_with_the_remedy() -> None:
    """The only check of a TensorFlow before 2.19."""
    call = compiled(lambda x: hvd.allreduce(x, op=hvd.Sum))
    expect_error(NotImplementedError, lambda: call(tf.ones([2])), "XLA of 2.19 or later", "jit_compile=False")
    assert hvd.allreduce(tf.ones([2]), op=hvd.Sum).numpy().tolist() == [hvd.size()] * 2, "the job goes on"


if not COMPILES:
    check.functions = {"an_older_tensorflow_is_named_with_the_remedy": an_older_tensorflow_is_named_with_the_remedy}
