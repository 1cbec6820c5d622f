"""Operations on NumPy arrays against NumPy itself, for every element type."""

import itertools
import os
from typing import Any, Callable, Dict, List, Tuple

import farandole.numpy as hvd
import numpy as np
from harness import Checks, expect_error

check = Checks()

INTEGERS = ("uint8", "int8", "uint16", "int16", "int32", "int64")
FLOATS = ("float16", "float32", "float64")
DTYPES = INTEGERS + FLOATS + ("bool",)
SHAPES = ((7,), (3, 5), (), (0, 4), (2, 1, 3), (70_001,))
TOLERANCE = {"float16": 2e-3, "float32": 1e-6, "float64": 1e-14}

REFERENCE: Dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "Average": lambda stacked: stacked.sum(0) / len(stacked),
    "Sum": lambda stacked: stacked.sum(0),
    "Min": lambda stacked: stacked.min(0),
    "Max": lambda stacked: stacked.max(0),
    "Product": lambda stacked: stacked.prod(0),
}


def values(rank: int, shape: Any, dtype: str) -> np.ndarray:
    """The elements of `rank`; small enough for no overflow in any reduction of three ranks."""
    random = np.random.default_rng([rank, *shape])
    if dtype == "bool":
        return random.integers(0, 2, shape).astype(bool)
    if dtype in INTEGERS:
        return random.integers(0 if dtype.startswith("u") else -4, 5, shape).astype(dtype)
    return np.asarray(random.uniform(-2.0, 2.0, shape)).astype(dtype)


def everyones(shape: Any, dtype: str) -> np.ndarray:
    return np.stack([values(rank, shape, dtype) for rank in range(hvd.size())])


def reduced(shape: Any, dtype: str, op: str) -> np.ndarray:
    stacked = everyones(shape, dtype)
    if dtype == "bool":
        return stacked.any(0) if op in ("Sum", "Max") else stacked.all(0)
    exact = REFERENCE[op](stacked.astype(np.int64 if dtype in INTEGERS else np.float64))
    return (np.trunc(exact) if dtype in INTEGERS else exact).astype(dtype)


def expect_equal(found: np.ndarray, wanted: np.ndarray) -> None:
    assert found.shape == wanted.shape and found.dtype == wanted.dtype, (
        found.shape,
        found.dtype,
        wanted.shape,
        wanted.dtype,
    )
    tolerance = TOLERANCE.get(wanted.dtype.name)
    if tolerance is None:
        np.testing.assert_array_equal(found, wanted)
    else:
        np.testing.assert_allclose(found, wanted, rtol=tolerance, atol=tolerance * 8)


def expect_same_bits(found: np.ndarray) -> None:
    """The same on all ranks."""
    flat = np.ascontiguousarray(found).reshape(1, -1).view(np.uint8)
    for other in hvd.allgather(flat, name="bits"):
        assert other.tobytes() == flat.tobytes()


@check.each(*[(op, dtype) for op in REFERENCE for dtype in DTYPES if (op, dtype) != ("Average", "bool")])
def allreduce_is_numpys(op: str, dtype: str) -> None:
    for shape in SHAPES:
        found = hvd.allreduce(values(hvd.rank(), shape, dtype), op=getattr(hvd, op), name=f"{op}.{dtype}.{shape}")
        expect_equal(found, reduced(shape, dtype, op))
        expect_same_bits(found)


@check.each("float32", "float64")
def sum_adds_in_the_order_of_ranks(dtype: str) -> None:
    """On each host, and then the hosts' sums in the order of their ranks. (Gloo adds in an order of its own.)"""
    if os.environ.get("FARANDOLE_TRANSPORT") == "gloo":
        return
    first_ranks = hvd.allgather(np.array([hvd.rank() - hvd.local_rank()]), name=f"hosts.{dtype}")
    stacked = everyones((10_007,), dtype)
    sums = [in_order(stacked[first_ranks == first]) for first in np.unique(first_ranks)]
    found = hvd.allreduce(stacked[hvd.rank()], op=hvd.Sum, name=f"order.{dtype}")
    assert found.tobytes() == in_order(np.stack(sums)).tobytes()


def in_order(rows: np.ndarray) -> np.ndarray:
    """The sum of the rows, one after the other."""
    total = rows[0].copy()
    for row in rows[1:]:
        total += row
    return total


@check
def average_of_bool_is_refused() -> None:
    try:
        hvd.allreduce(np.ones(3, bool), op=hvd.Average, name="bool")
    except ValueError:
        return
    raise AssertionError("no ValueError")


@check
def average_of_negative_integers_truncates_towards_zero() -> None:
    value = np.array([-1 if hvd.rank() == 0 else 0, -5], np.int32)
    found = hvd.allreduce(value, name="truncation")
    assert found.tolist() == [-1 if hvd.size() == 1 else 0, -5], found


@check.each(*DTYPES)
def broadcast_gives_the_roots_values(dtype: str) -> None:
    for root, shape in itertools.product(range(hvd.size()), SHAPES):
        mine = values(hvd.rank(), shape, dtype)
        found = hvd.broadcast(mine, root_rank=root, name=f"broadcast.{dtype}.{root}.{shape}")
        np.testing.assert_array_equal(found, values(root, shape, dtype))
        np.testing.assert_array_equal(mine, values(hvd.rank(), shape, dtype))
        assert found.dtype == mine.dtype and found.shape == mine.shape


def part_of(whole: np.ndarray) -> np.ndarray:
    """This rank's part of the rows."""
    return np.array_split(whole, hvd.size())[hvd.rank()]


@check.each(*DTYPES)
def reducescatter_gives_each_rank_its_part_of_the_rows(dtype: str) -> None:
    for op in ("Sum", "Max") if dtype == "bool" else REFERENCE:
        handles = {}
        for shape in ((7,), (0, 4), (2, 1, 3), (9, 501), (70_001,)):
            mine = values(hvd.rank(), shape, dtype)
            handles[shape] = hvd.reducescatter_async(mine, f"scatter.{dtype}.{op}.{shape}", getattr(hvd, op))
        for shape, handle in handles.items():
            expect_equal(handle.synchronize(), part_of(reduced(shape, dtype, op)))


@check
def grouped_reducescatter_and_allgather_take_arrays_of_any_kind() -> None:
    shapes, kinds = ((4, 2), (1,), (30, 100)), ("float32", "int64", "float32")
    mine = [values(hvd.rank(), shape, kind) for shape, kind in zip(shapes, kinds)]
    scattered = hvd.grouped_reducescatter(mine, op=hvd.Sum, prescale_factor=2.0)
    for found, shape, kind in zip(scattered, shapes, kinds):
        expect_equal(found, part_of(2 * reduced(shape, kind, "Sum")))
    for found, shape, kind in zip(hvd.grouped_allgather(scattered, name="back"), shapes, kinds):
        expect_equal(found, 2 * reduced(shape, kind, "Sum"))


@check
def reducescatter_of_a_scalar_is_refused() -> None:
    expect_error(ValueError, lambda: hvd.reducescatter(np.float32(1), name="alone"), "alone", "scalar")


@check.each(*DTYPES)
def allgather_concatenates_rows(dtype: str) -> None:
    for tail in ((), (3,), (2, 2)):
        for rows in ([2] * 4, [0, 1, 5, 2], [4, 0, 0, 0], [0, 0, 0, 0]):
            parts = [values(rank, (rows[rank], *tail), dtype) for rank in range(hvd.size())]
            found = hvd.allgather(parts[hvd.rank()], name=f"gather.{dtype}.{tail}")
            wanted = np.concatenate(parts)
            np.testing.assert_array_equal(found, wanted)
            assert found.shape == wanted.shape and found.dtype == wanted.dtype


@check
def allgather_takes_scalars_as_one_row() -> None:
    assert hvd.allgather(np.int64(hvd.rank()), name="scalar").tolist() == list(range(hvd.size()))


@check
def allgather_of_much() -> None:
    rows = [300_000 + 1000 * rank for rank in range(hvd.size())]
    found = hvd.allgather(np.full(rows[hvd.rank()], hvd.rank(), np.float64), name="much")
    np.testing.assert_array_equal(found, np.repeat(np.arange(hvd.size(), dtype=np.float64), rows))


@check
def factors_apply_before_and_after() -> None:
    mine = values(hvd.rank(), (100,), "float32")
    found = hvd.allreduce(mine, op=hvd.Sum, prescale_factor=0.5, postscale_factor=4.0, name="factors")
    np.testing.assert_allclose(found, 2.0 * everyones((100,), "float32").sum(0), rtol=1e-5, atol=1e-5)
    found = hvd.allreduce(mine, op=hvd.Max, prescale_factor=-1.0, name="negative")
    np.testing.assert_array_equal(found, (-everyones((100,), "float32")).max(0))


@check
def older_argument_average_chooses_the_reduction() -> None:
    one = np.ones(2)
    assert hvd.allreduce(one, average=False, name="old").tolist() == [hvd.size()] * 2
    assert hvd.allreduce(one, average=True, name="old").tolist() == [1, 1]


@check
def in_place_forms_write_into_any_strides() -> None:
    whole = np.zeros((6, 8), np.float32)
    whole[...] = hvd.rank() + 1
    part = whole[1:5:2, ::3].T
    assert hvd.allreduce_(part, op=hvd.Sum, name="strides") is part
    total = hvd.size() * (hvd.size() + 1) / 2
    assert (part == total).all()
    assert (whole[0] == hvd.rank() + 1).all() and whole[1, 0] == total and whole[1, 1] == hvd.rank() + 1
    hvd.broadcast_(whole[:, 1], root_rank=0, name="column")
    assert (whole[0, 1], whole[0, 2]) == (1, hvd.rank() + 1)


@check
def in_place_forms_refuse_what_cannot_be_written() -> None:
    fixed = np.ones(3)
    fixed.flags.writeable = False
    for call in (
        lambda: hvd.allreduce_(fixed),
        lambda: hvd.broadcast_([1, 2], root_rank=0),
        lambda: hvd.allreduce(np.ones(1, "complex64")),
    ):
        try:
            call()
        except ValueError:
            continue
        raise AssertionError("no ValueError")


@check
def grouped_allreduce_takes_mixed_element_types() -> None:
    shapes = [((4,), "float32"), ((2, 3), "int32"), ((), "float32"), ((0,), "float64"), ((5,), "float16")]
    for name in ("group", None):
        found = hvd.grouped_allreduce([values(hvd.rank(), *row) for row in shapes], op=hvd.Sum, name=name)
        for array, row in zip(found, shapes):
            expect_equal(array, reduced(*row, "Sum"))
    assert hvd.grouped_allreduce([]) == []


@check
def many_pending_operations_complete_in_any_order() -> None:
    handles: List[Any] = [
        hvd.allreduce_async(np.full(i + 1, hvd.rank() + i), op=hvd.Sum, name=f"pending.{i}") for i in range(200)
    ]
    ranks = sum(range(hvd.size()))
    for i in reversed(range(200)):
        assert (hvd.synchronize(handles[i]) == ranks + i * hvd.size()).all()
        assert hvd.poll(handles[i])
        assert handles[i].synchronize() is hvd.synchronize(handles[i])


@check
def ranks_may_submit_names_in_different_orders() -> None:
    order = [f"order.{i}" for i in range(20)]
    handles = {
        name: hvd.allreduce_async(np.ones(3), op=hvd.Sum, name=name)
        for name in (order if hvd.rank() % 2 else order[::-1])
    }
    for name in order:
        assert hvd.synchronize(handles[name]).tolist() == [hvd.size()] * 3


@check
def unnamed_operations_are_paired_in_their_order() -> None:
    for i in range(50):
        assert hvd.allreduce(np.full(i % 7 + 1, float(i)), op=hvd.Sum).tolist() == [float(i) * hvd.size()] * (i % 7 + 1)
    handles = [hvd.allreduce_async(np.full(2, i), op=hvd.Max) for i in range(20)]
    assert [hvd.synchronize(handle)[0] for handle in handles] == list(range(20))


@check
def dropped_handles_keep_their_memory_until_they_are_complete() -> None:
    from farandole import _handles

    for i in range(100):
        hvd.allreduce_async(np.full(10_000, float(i)), name=f"dropped.{i}")
    hvd.barrier()
    total = hvd.allreduce(np.ones(10_000), op=hvd.Sum, name="after")
    assert (total == hvd.size()).all()
    hvd.barrier()
    while _handles.borrowed_count():
        _handles.sweep()


@check
def a_name_can_have_another_shape_next_time() -> None:
    for count in (3, 5, 3, 1000):
        assert hvd.allreduce(np.ones(count), op=hvd.Sum, name="varying").tolist() == [hvd.size()] * count


@check
def a_name_that_is_pending_is_refused_on_the_spot() -> None:
    hvd.barrier()
    big = np.ones(1000)
    handle = hvd.allreduce_async(big, name="twice") if hvd.rank() == 0 else None
    if hvd.rank() == 0 and hvd.size() > 1:
        try:
            hvd.allreduce_async(big, name="twice")
        except ValueError as error:
            assert "twice" in str(error), error
        else:
            raise AssertionError("no ValueError")
    hvd.barrier()
    handle = handle or hvd.allreduce_async(big, name="twice")
    assert (handle.synchronize() == 1).all()


@check
def counters_grow() -> None:
    before = hvd.counters()
    hvd.allreduce(np.ones(1000, np.float32), name="counted")
    after = hvd.counters()
    assert after.submissions == before.submissions + 1 and after.completions == before.completions + 1
    assert hvd.size() == 1 or after.bytes >= before.bytes + 4000


@check.each(*DTYPES)
def alltoall_gives_each_rank_its_rows(dtype: str) -> None:
    size, rank = hvd.size(), hvd.rank()

    def rows_for(sender: int, receiver: int) -> int:
        return (sender * 2 + receiver * 3) % 4

    def parts(sender: int, trailing: Tuple[int, ...]) -> List[np.ndarray]:
        splits = [rows_for(sender, receiver) for receiver in range(size)]
        return np.split(values(sender, (sum(splits), *trailing), dtype), np.cumsum(splits)[:-1])

    for trailing in ((), (3,), (2, 0)):
        splits = [rows_for(rank, to) for to in range(size)]
        found, received = hvd.alltoall(np.concatenate(parts(rank, trailing)), splits, f"{dtype}.{trailing}")
        expect_equal(found, np.concatenate([parts(sender, trailing)[rank] for sender in range(size)]))
        assert received.dtype == np.int32 and received.tolist() == [rows_for(sender, rank) for sender in range(size)]
    even = values(rank, (2 * size, 5), dtype)
    wanted = [values(sender, (2 * size, 5), dtype)[2 * rank : 2 * rank + 2] for sender in range(size)]
    expect_equal(hvd.alltoall(even, name=f"even.{dtype}"), np.concatenate(wanted))


@check
def alltoall_of_much_and_of_nothing() -> None:
    size, rank = hvd.size(), hvd.rank()
    for _ in range(2):
        splits = [300_001 * (rank + 1) if to == 0 else 0 for to in range(size)]
        found, received = hvd.alltoall(np.full(sum(splits), rank + 0.5), splits)
        assert received.tolist() == [300_001 * (sender + 1) if rank == 0 else 0 for sender in range(size)]
        assert (found == np.repeat(np.arange(size) + 0.5, received)).all()
        found, received = hvd.synchronize(hvd.alltoall_async(np.ones((0, 4))))
        assert found.shape == (0, 4) and not received.any()
    found, _ = hvd.alltoall(np.arange(30.0).reshape(10, 3).T, [1] + [0] * (size - 1))
    assert found.shape == (size if rank == 0 else 0, 10) and (found == np.arange(0, 30, 3)).all()


@check
def alltoall_with_other_splits_each_time_asks_nobody() -> None:
    size, rank = hvd.size(), hvd.rank()
    for step in range(6):
        splits = [(rank + to + step) % 3 for to in range(size)]
        found, received = hvd.alltoall(np.arange(sum(splits)), splits, name="steady")
        assert received.tolist() == [(rank + sender + step) % 3 for sender in range(size)]
        if step == 1:
            messages = hvd.counters().coordinator_messages
    assert hvd.counters().coordinator_messages == messages


@check
def alltoall_refuses_splits_that_do_not_fit() -> None:
    size = hvd.size()
    for splits, words in (
        ([1] * (size + 1), (f"{size + 1} splits", f"{size} ranks")),
        ([9] * size, ("[9", "8 rows")),
        ([-1] + [0] * (size - 1), ("-1", "negative")),
        ([0.5] * size, ("0.5",)),
    ):
        expect_error(ValueError, lambda splits=splits: hvd.alltoall(np.ones(8), splits), *words)
    if size > 1:
        expect_error(ValueError, lambda: hvd.alltoall(np.ones(size + 1)), f"{size + 1} rows", f"{size} ranks")
    expect_error(ValueError, lambda: hvd.alltoall(np.float32(1)), "scalar")


@check.each(*DTYPES)
def gather_gives_the_root_all_rows(dtype: str) -> None:
    size, rank = hvd.size(), hvd.rank()
    for root in range(size):
        for trailing in ((), (3,), (2, 0)):
            found = hvd.gather(values(rank, (rank + 2, *trailing), dtype), root, f"{dtype}.{root}.{trailing}")
            parts = [values(sender, (sender + 2, *trailing), dtype) for sender in range(size)]
            expect_equal(found, np.concatenate(parts) if rank == root else parts[0][:0])
        if rank % 2:
            found = hvd.synchronize(hvd.gather_async(values(rank, (), dtype), root))
        else:
            found = hvd.gather(values(rank, (), dtype), root)
        assert found.shape == (size if rank == root else 0,)


@check.each(*DTYPES)
def scatter_gives_each_rank_its_part_of_the_roots_rows(dtype: str) -> None:
    size, rank = hvd.size(), hvd.rank()
    for root in range(size):
        for rows, trailing in ((2 * size + 1, (3,)), (size, ()), (1, (2,)), (0, (4,)), (5, (2, 0)), (70_001, ())):
            whole = values(root, (rows, *trailing), dtype)
            own = whole if rank == root else np.zeros((rank, *trailing), whole.dtype)
            found = hvd.scatter(own, root, f"{dtype}.{root}")
            expect_equal(found, np.array_split(whole, size)[rank])
    found = hvd.synchronize(hvd.scatter_async(np.arange(10.0 * size).reshape(5, 2 * size).T, size - 1))
    expect_equal(found, np.arange(10.0 * size).reshape(5, 2 * size).T[2 * rank : 2 * rank + 2])


@check
def gather_and_scatter_ask_the_coordinator_about_a_name_once() -> None:
    size, rank = hvd.size(), hvd.rank()
    for step in range(6):
        hvd.gather(np.ones((rank + step, 2)), step % size, "steady gather")
        hvd.scatter(np.ones((rank + step, 2)), step % size, "steady scatter")
        if step == size:
            messages = hvd.counters().coordinator_messages
    assert size > 4 or hvd.counters().coordinator_messages == messages


@check
def gather_and_scatter_refuse_what_they_cannot_do() -> None:
    size = hvd.size()
    expect_error(ValueError, lambda: hvd.scatter(np.float32(1), 0), "a scatter shares out the rows", "scalar")
    for call in (hvd.gather, hvd.scatter):
        expect_error(ValueError, lambda call=call: call(np.ones(2), size), "root", str(size))
        expect_error(ValueError, lambda call=call: call(np.ones(2), "0"), "root_rank is a rank of the job", "'0'")


@check
def allgather_counts_rows_that_have_no_elements() -> None:
    assert hvd.allgather(np.ones((hvd.rank() + 1, 0)), name="hollow").shape == (hvd.size() * (hvd.size() + 1) // 2, 0)
