"""The operations, eager, in tf.function and in sessions."""

import math
import pickle
import time
from typing import Any, List

import farandole.tensorflow as hvd
import tensorflow as tf
from harness import Checks, expect_error

from tensorflow_checks.ways import INTEGERS, NUMBERS, cast, everywhere, in_session, values_of

check = Checks()


def own(dtype: str, rows: int = 3) -> tf.Tensor:
    """This rank's tensor: rank + 1 in each element."""
    return cast(tf.fill([rows, 2], hvd.rank() + 1), dtype)


def shares(rows: int) -> List[int]:
    """How many rows each rank gets of so many."""
    return [rows // hvd.size() + (1 if rank < rows % hvd.size() else 0) for rank in range(hvd.size())]


@check.each(*NUMBERS)
def an_allreduce_gives_what_its_op_says(dtype: str) -> None:
    size = hvd.size()
    numbers = range(1, size + 1)
    product = 1
    for number in numbers:
        product *= number
    wanted = {hvd.Sum: sum(numbers), hvd.Min: 1, hvd.Max: size, hvd.Product: product}
    wanted[hvd.Average] = sum(numbers) // size if dtype in INTEGERS else sum(numbers) / size
    for op, value in wanted.items():
        for result in everywhere(lambda op=op: hvd.allreduce(own(dtype), op=op)):
            assert result.dtype == dtype and result.shape == (3, 2)
            assert values_of(result) == [value] * 6, (op, values_of(result))


@check
def bools_are_combined() -> None:
    mine = tf.constant([True, hvd.rank() == 0, False])
    alone = hvd.size() == 1
    for op, wanted in ((hvd.Sum, [True, True, False]), (hvd.Min, [True, alone, False]), (hvd.Max, [True, True, False])):
        for result in everywhere(lambda given, op=op: hvd.allreduce(given, op=op), mine):
            assert result.dtype == tf.bool and result.numpy().tolist() == wanted


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
def a_tensor_of_too_many_dimensions_is_refused() -> None:
    """Also one of few elements, which is no op in eager code."""
    given = tf.reshape(tf.constant(1.0), [1] * 33)
    expect_error(tf.errors.InvalidArgumentError, lambda: hvd.allreduce(given), "33 dimensions", "at most 32")


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
    for results in everywhere(lambda *given: hvd.grouped_allreduce(given, op=hvd.Max), *tensors):
        assert [each.dtype for each in results] == [each.dtype for each in tensors]
        assert [values_of(each) for each in results] == [[hvd.size()] * 6, [hvd.size()] * 6, [hvd.size()] * 2, []]


@check.each(*NUMBERS, "bool")
def an_allgather_joins_rows_of_different_number(dtype: str) -> None:
    wanted = [value for r in range(hvd.size()) for value in values_of(cast([r + 1], dtype)) * (2 * (r + 1))]
    for result in everywhere(lambda: hvd.allgather(own(dtype, hvd.rank() + 1))):
        assert result.dtype == dtype and values_of(result) == wanted
    tensors = [own(dtype, hvd.rank() + 1), own(dtype, 1)]
    for results in everywhere(lambda *given: hvd.grouped_allgather(given), *tensors):
        assert values_of(results[0]) == wanted and results[1].shape == (hvd.size(), 2)


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


@check.each(*NUMBERS, "bool")
def a_broadcast_gives_the_roots_values(dtype: str) -> None:
    for root in range(hvd.size()):
        for result in everywhere(lambda root=root: hvd.broadcast(own(dtype), root)):
            assert result.dtype == dtype and values_of(result) == values_of(cast(tf.fill([3, 2], root + 1), dtype))


# With two significant bits each, times up to four ranks: short floats have no more.
ROWS = [1, 2, 4, 8, 1, 2, 4]


def seven_rows(dtype: str) -> tf.Tensor:
    """Equal on all ranks; neighbours differ."""
    numbers = tf.constant([[number, number] for number in ROWS])
    return numbers % 3 == 1 if dtype == "bool" else cast(numbers, dtype)


def rows_of(tensor: tf.Tensor, position: int) -> tf.Tensor:
    """A rank's share."""
    begin = sum(shares(7)[:position])
    return tensor[begin : begin + shares(7)[position]]


@check.each(*NUMBERS)
def a_reducescatter_gives_each_rank_its_rows(dtype: str) -> None:
    size, given = hvd.size(), seven_rows(dtype)
    mine = values_of(rows_of(given, hvd.rank()))
    for op, factor in ((hvd.Sum, size), (hvd.Average, 1), (hvd.Min, 1), (hvd.Max, 1)):
        for result in everywhere(lambda x, op=op: hvd.reducescatter(x, op=op), given):
            assert result.dtype == dtype and values_of(result) == [factor * value for value in mine], (op, result)
    pair = [given, tf.cast(rows_of(given, 0), tf.float32)]
    for results in everywhere(lambda *tensors: hvd.grouped_reducescatter(tensors, op=hvd.Average), *pair):
        assert values_of(results[0]) == mine and results[1].dtype == tf.float32


@check
def a_reducescatter_combines_bools() -> None:
    given = seven_rows("bool")
    mine = values_of(rows_of(given, hvd.rank()))
    nothing = tf.zeros_like(given)
    for op, wanted in ((hvd.Sum, mine), (hvd.Min, mine if hvd.size() == 1 else [0.0] * len(mine))):
        for result in everywhere(lambda x, op=op: hvd.reducescatter(x, op=op), given if hvd.rank() == 0 else nothing):
            assert result.dtype == tf.bool and values_of(result) == wanted, (op, result)


@check.each(*NUMBERS, "bool")
def an_alltoall_moves_the_rows_of_its_splits(dtype: str) -> None:
    size, rank = hvd.size(), hvd.rank()
    splits = tf.range(1, size + 1)
    # The row for a rank is the sum of both positions, of which the parity is left of a bool.
    numbers = [rank + to for to in range(size) for _ in range(to + 1)]
    wanted = [r + rank for r in range(size) for _ in range(rank + 1)]

    def of(given: List[int]) -> tf.Tensor:
        return tf.constant([number % 2 == 1 for number in given]) if dtype == "bool" else cast(given, dtype)

    for received, rows in everywhere(hvd.alltoall, of(numbers), splits):
        assert rows.dtype == tf.int32 and rows.numpy().tolist() == [rank + 1] * size
        assert received.dtype == dtype and values_of(received) == values_of(of(wanted))
    for received in everywhere(hvd.alltoall, of([rank + to for to in range(size)])):
        assert received.dtype == dtype and values_of(received) == values_of(of([r + rank for r in range(size)]))


@check.each(*NUMBERS, "bool")
def a_gather_gives_all_rows_to_the_root(dtype: str) -> None:
    size, rank = hvd.size(), hvd.rank()

    def rows(r: int) -> tf.Tensor:
        return tf.fill([r + 1, 2], r % 2 == 1) if dtype == "bool" else cast(tf.fill([r + 1, 2], r), dtype)

    for root in range(size):
        wanted = [value for r in range(size) for value in values_of(rows(r))] if rank == root else []
        for result in everywhere(lambda given, root=root: hvd.gather(given, root), rows(rank)):
            assert result.dtype == dtype and result.shape[1] == 2 and values_of(result) == wanted


@check
def a_scalar_counts_as_a_row_of_a_gather() -> None:
    for result in everywhere(lambda: hvd.gather(tf.constant(7), 0)):
        assert values_of(result) == ([7.0] * hvd.size() if hvd.rank() == 0 else [])


@check.each(*NUMBERS, "bool")
def a_scatter_shares_out_the_roots_rows(dtype: str) -> None:
    for root in range(hvd.size()):
        given = seven_rows(dtype)
        wanted = values_of(rows_of(given, hvd.rank()))
        for result in everywhere(lambda x, root=root: hvd.scatter(x, root), given if hvd.rank() == root else given[:0]):
            assert result.dtype == dtype and values_of(result) == wanted


@check
def a_scatter_of_a_scalar_is_refused() -> None:
    for way in (lambda call: call(), lambda call: tf.function(call)(), in_session):
        expect_error(tf.errors.InvalidArgumentError, lambda: way(lambda: hvd.scatter(tf.constant(1), 0)), "scalar")  # noqa: B023


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
        for result in everywhere(lambda: hvd.size_op(odd.process_set_id)):
            assert result.numpy() == len(members)
    for result in everywhere(lambda: hvd.process_set_included_op(odd.process_set_id)):
        assert result.numpy() == int(odd.included())
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
    for way in (call, tf.function(call), lambda: in_session(call)):
        expect_error(tf.errors.FailedPreconditionError, way, "grad/0: rank 0 has shape [1], rank 1 has shape [2]")
    assert hvd.allreduce(tf.constant(1.0), op=hvd.Sum).numpy() == hvd.size()


@check
def ranks_that_have_joined_are_waited_for_no_more() -> None:
    for way in (hvd.join, tf.function(hvd.join), lambda: in_session(hvd.join)):
        for step in range(hvd.rank() + 1):
            total = hvd.allreduce(tf.constant(1.0), op=hvd.Sum, name="joined")
            assert total.numpy() == hvd.size() - step
        assert 0 <= int(way()) < hvd.size()


@check
def a_barrier_waits_for_the_last_rank() -> None:
    def in_function() -> None:
        tf.function(lambda: (hvd.barrier(), tf.constant(0))[1])()

    for way in (hvd.barrier, in_function, lambda: in_session(hvd.barrier)):
        hvd.barrier()
        if hvd.rank() == hvd.size() - 1:
            tf.linalg.matmul(tf.ones([600, 600]), tf.ones([600, 600])).numpy()
        begin = time.clock_gettime(time.CLOCK_MONOTONIC)
        way()
        times = hvd.allgather_object((begin, time.clock_gettime(time.CLOCK_MONOTONIC)))
        assert max(begin for begin, _ in times) <= min(end for _, end in times), times


@check
def objects_travel() -> None:
    assert hvd.broadcast_object({"from": hvd.rank()}, root_rank=hvd.size() - 1) == {"from": hvd.size() - 1}
    assert hvd.allgather_object(hvd.rank()) == list(range(hvd.size()))
