"""The operations, eager and in tf.function."""

import math
import pickle
from typing import Any, Callable, List

import farandole.tensorflow as hvd
import tensorflow as tf
from harness import Checks, expect_error

check = Checks()

INTEGERS = ("uint8", "int8", "uint16", "int16", "int32", "int64")
FLOATS = ("float16", "bfloat16", "float32", "float64")


def everywhere(call: Callable[[], Any]) -> List[Any]:
    """The results of a call, eager and in a function."""
    return [call(), tf.function(call)()]


def own(dtype: str, rows: int = 3) -> tf.Tensor:
    """This rank's tensor: rank + 1 in each element."""
    return tf.cast(tf.fill([rows, 2], hvd.rank() + 1), dtype)


def values_of(tensor: tf.Tensor) -> List[float]:
    return tf.reshape(tf.cast(tensor, tf.float64), [-1]).numpy().tolist()


@check.each(*INTEGERS, *FLOATS)
def an_allreduce_gives_what_its_op_says(dtype: str) -> None:
    size = hvd.size()
    numbers = range(1, size + 1)
    product = 1
    for number in numbers:
        product *= number
    wanted = {hvd.Sum: sum(numbers), hvd.Min: 1, hvd.Max: size, hvd.Product: product}
    wanted[hvd.Average] = sum(numbers) / size if dtype in FLOATS else sum(numbers) // size
    for op, value in wanted.items():
        for result in everywhere(lambda op=op: hvd.allreduce(own(dtype), op=op)):
            assert result.dtype == dtype and result.shape == (3, 2)
            assert values_of(result) == [value] * 6, (op, values_of(result))


@check
def bools_are_combined() -> None:
    mine = tf.constant([True, hvd.rank() == 0, False])
    assert hvd.allreduce(mine, op=hvd.Sum).numpy().tolist() == [True, True, False]
    assert hvd.allreduce(mine, op=hvd.Min).numpy().tolist() == [True, hvd.size() == 1, False]


@check
def factors_have_the_precision_of_a_double() -> None:
    for result in everywhere(
        lambda: hvd.allreduce(tf.ones([2], tf.float64), op=hvd.Sum, prescale_factor=1 / 3, postscale_factor=0.1)
    ):
        total = sum(1 / 3 for _ in range(hvd.size())) * 0.1
        assert abs(result.numpy()[0] - total) < 1e-15


@check
def a_type_that_cannot_travel_is_named() -> None:
    """Outside of a function and while it is traced, compiled or not."""
    for given in (tf.constant(["a"]), tf.ones([2], tf.complex64), tf.constant([1], tf.uint32)):
        words = f"a tensor of {given.dtype.name} cannot be sent: farandole has no such element type"
        for call in (hvd.allreduce, hvd.allgather, hvd.alltoall, lambda tensor: hvd.broadcast(tensor, 0)):
            for way in (call, tf.function(call), tf.function(call, jit_compile=given.dtype != tf.string)):
                expect_error(ValueError, lambda: way(given), words)  # noqa: B023
        expect_error(tf.errors.InvalidArgumentError, lambda: hvd.allreduce(given), words)  # noqa: B023


@check
def errors_outside_of_functions_are_those_of_the_other_modules_too() -> None:
    wrong = tf.zeros([hvd.rank() + 1])
    calls = [lambda: hvd.broadcast(tf.zeros([2]), hvd.size()), lambda: hvd.allreduce(wrong, prescale_factor=math.nan)]
    kinds = [tf.errors.InvalidArgumentError] * 2
    if hvd.size() > 1:
        calls += [
            lambda: hvd.allreduce(wrong, name="grad/0"),
            lambda: hvd.grouped_reducescatter([wrong], name="grad/1"),
        ]
        kinds += [tf.errors.FailedPreconditionError] * 2
    for call, kind in zip(calls, kinds):
        for wanted in (kind, ValueError, RuntimeError):
            try:
                call()
            except wanted as error:
                assert "{{" not in str(error) and "[Op:" not in str(error), error
                assert type(pickle.loads(pickle.dumps(error))) is type(error)
            else:
                raise AssertionError(f"no {wanted}")


@check
def a_grouped_allreduce_keeps_the_order_of_mixed_types() -> None:
    tensors = [own("float32"), own("int64"), own("bfloat16", 1), own("float32", 0)]
    for results in everywhere(lambda: hvd.grouped_allreduce(tensors, op=hvd.Max)):
        assert [each.dtype for each in results] == [each.dtype for each in tensors]
        assert [values_of(each) for each in results] == [[hvd.size()] * 6, [hvd.size()] * 6, [hvd.size()] * 2, []]


@check.each(*INTEGERS, *FLOATS, "bool")
def an_allgather_joins_rows_of_different_number(dtype: str) -> None:
    tensor = own(dtype, hvd.rank() + 1)
    wanted = [float(tf.cast(r + 1, dtype)) for r in range(hvd.size()) for _ in range(2 * (r + 1))]
    for result in everywhere(lambda: hvd.allgather(tensor)):
        assert result.dtype == dtype and values_of(result) == wanted


@check
def an_allgather_of_scalars_and_of_no_rows() -> None:
    for result in everywhere(lambda: hvd.allgather(tf.constant(hvd.rank()))):
        assert result.numpy().tolist() == list(range(hvd.size()))
    for results in everywhere(lambda: hvd.grouped_allgather([own("float32", 0), own("int32", 1)])):
        assert results[0].shape == (0, 2) and results[1].shape == (hvd.size(), 2)


@check.each("grouped_allgather", "grouped_reducescatter")
def ranks_with_different_numbers_of_grouped_tensors_are_told(operation: str) -> None:
    if hvd.size() == 1:
        return
    call = getattr(hvd, operation)
    count = 2 if hvd.rank() == hvd.size() - 1 else 3
    tensors = [tf.ones([hvd.size()])] * count
    for name in (None, operation):
        expect_error(
            tf.errors.FailedPreconditionError, lambda name=name: call(tensors, name=name), "3 grouped", "2 grouped"
        )
        assert len(call([tf.ones([hvd.size()])] * 3, name=name)) == 3, "the job goes on"


@check.each(*INTEGERS, *FLOATS, "bool")
def a_broadcast_gives_the_roots_values(dtype: str) -> None:
    for root in range(hvd.size()):
        for result in everywhere(lambda root=root: hvd.broadcast(own(dtype), root)):
            assert result.dtype == dtype and values_of(result) == values_of(tf.cast(tf.fill([3, 2], root + 1), dtype))


@check
def a_reducescatter_gives_each_rank_its_rows() -> None:
    size, rank = hvd.size(), hvd.rank()
    tensor = tf.reshape(tf.range(14, dtype=tf.float32), [7, 2])
    rows = [7 // size + (1 if r < 7 % size else 0) for r in range(size)]
    begin = sum(rows[:rank])
    for result in everywhere(lambda: hvd.reducescatter(tensor, op=hvd.Sum)):
        assert values_of(result) == values_of(tensor[begin : begin + rows[rank]] * size)
    for results in everywhere(lambda: hvd.grouped_reducescatter([tensor, tf.cast(tensor, tf.float64)], op=hvd.Average)):
        assert [values_of(each) for each in results] == [values_of(tensor[begin : begin + rows[rank]])] * 2


@check
def an_alltoall_moves_the_rows_of_its_splits() -> None:
    size, rank = hvd.size(), hvd.rank()
    splits = tf.range(1, size + 1)
    tensor = tf.fill([size * (size + 1) // 2], rank)
    for received, rows in everywhere(lambda: hvd.alltoall(tensor, splits)):
        assert rows.dtype == tf.int32 and rows.numpy().tolist() == [rank + 1] * size
        assert received.numpy().tolist() == [r for r in range(size) for _ in range(rank + 1)]
    for received in everywhere(lambda: hvd.alltoall(tf.fill([size], rank))):
        assert received.numpy().tolist() == list(range(size))


@check
def a_gather_gives_all_rows_to_the_root() -> None:
    size, rank = hvd.size(), hvd.rank()
    own_rows = tf.fill([rank + 1, 2], rank)
    for root in range(size):
        for result in everywhere(lambda root=root: hvd.gather(own_rows, root)):
            wanted = [float(r) for r in range(size) for _ in range(2 * (r + 1))] if rank == root else []
            assert result.shape[1] == 2 and values_of(result) == wanted
    assert values_of(hvd.gather(tf.constant(7), 0)) == ([7.0] * size if rank == 0 else []), "a scalar counts as a row"


@check
def a_scatter_shares_out_the_roots_rows() -> None:
    size, rank = hvd.size(), hvd.rank()
    rows = [7 // size + (1 if r < 7 % size else 0) for r in range(size)]
    begin = sum(rows[:rank])
    for root in range(size):
        given = tf.reshape(tf.range(14), [7, 2]) + root if rank == root else tf.zeros([0, 2], tf.int32)
        for result in everywhere(lambda given=given, root=root: hvd.scatter(given, root)):
            assert values_of(result) == [float(root + i) for i in range(2 * begin, 2 * (begin + rows[rank]))]
    expect_error(tf.errors.InvalidArgumentError, lambda: hvd.scatter(tf.constant(1), 0), "scalar")


@check
def compression_gives_back_the_type() -> None:
    for compression in (hvd.Compression.none, hvd.Compression.fp16, hvd.Compression.bf16):
        for result in everywhere(lambda c=compression: hvd.allreduce(own("float64"), op=hvd.Sum, compression=c)):
            assert result.dtype == tf.float64 and values_of(result) == [sum(range(1, hvd.size() + 1))] * 6


@check
def slices_become_those_of_all_ranks() -> None:
    size = hvd.size()

    def reduce(op: int) -> Any:
        return hvd.allreduce(
            tf.IndexedSlices(own("float32", 2), tf.constant([0, hvd.rank()]), tf.constant([4, 2])), op=op
        )

    for op, divisor in ((hvd.Sum, 1), (hvd.Average, size)):
        for result in everywhere(lambda op=op: reduce(op)):
            assert isinstance(result, tf.IndexedSlices)
            assert result.indices.numpy().tolist() == [i for r in range(size) for i in (0, r)]
            wanted = tf.concat([tf.fill([4], (r + 1) / divisor) for r in range(size)], 0)
            tf.debugging.assert_near(tf.reshape(result.values, [-1]), tf.cast(wanted, tf.float32))
    expect_error(NotImplementedError, lambda: reduce(hvd.Max), "IndexedSlices")


@check
def process_sets_reduce_among_themselves() -> None:
    if hvd.size() == 1:
        return
    odd = hvd.add_process_set([hvd.size() - 1, 0] if hvd.size() > 2 else [0])
    if odd.included():
        members = odd.ranks
        for result in everywhere(lambda: hvd.allreduce(tf.constant(float(hvd.rank())), op=hvd.Sum, process_set=odd)):
            assert result.numpy() == sum(members)
        assert hvd.size_op(odd.process_set_id).numpy() == len(members)
    assert hvd.process_set_included_op(odd.process_set_id).numpy() == int(odd.included())
    hvd.barrier()
    hvd.remove_process_set(odd)


@check
def numbers_are_read_when_the_graph_runs() -> None:
    for results in everywhere(lambda: (hvd.rank_op(), hvd.size_op(), hvd.local_rank_op(), hvd.local_size_op())):
        assert [int(each) for each in results] == [hvd.rank(), hvd.size(), hvd.local_rank(), hvd.local_size()]


@check
def ranks_that_disagree_are_told_and_go_on() -> None:
    if hvd.size() == 1:
        return
    call = lambda: hvd.allreduce(tf.zeros([hvd.rank() + 1]), name="grad/0")  # noqa: E731
    for way in (call, tf.function(call)):
        expect_error(tf.errors.FailedPreconditionError, way, "grad/0: rank 0 has shape [1], rank 1 has shape [2]")
    assert hvd.allreduce(tf.constant(1.0), op=hvd.Sum).numpy() == hvd.size()


@check
def ranks_that_have_joined_are_waited_for_no_more() -> None:
    for way in (hvd.join, tf.function(hvd.join)):
        for step in range(hvd.rank() + 1):
            total = hvd.allreduce(tf.constant(1.0), op=hvd.Sum, name="joined")
            assert total.numpy() == hvd.size() - step
        assert 0 <= int(way()) < hvd.size()


@check
def objects_travel() -> None:
    assert hvd.broadcast_object({"from": hvd.rank()}, root_rank=hvd.size() - 1) == {"from": hvd.size() - 1}
    assert hvd.allgather_object(hvd.rank()) == list(range(hvd.size()))
