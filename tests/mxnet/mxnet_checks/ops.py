"""The operations, with MXNet's two kinds of arrays and all of its element types."""

from typing import Any, List, Sequence

import farandole.mxnet as hvd
import mxnet as mx
import numpy
from harness import Checks, expect_error

check = Checks()

INTEGERS = ("uint8", "int8", "int32", "int64")
FLOATS = ("float16", "bfloat16", "float32", "float64")
KINDS = ("nd", "np")


def type_of(name: str) -> Any:
    return hvd.Compression.bf16.dtype if name == "bfloat16" else name


def own(dtype: str, rows: int = 3) -> mx.nd.NDArray:
    """This rank's array: rank + 1 in each element."""
    return mx.nd.full((rows, 2), hvd.rank() + 1).astype(type_of(dtype))


def of_kind(kind: str, values: Any, dtype: str = "float32") -> mx.nd.NDArray:
    return mx.np.array(values, dtype=dtype) if kind == "np" else mx.nd.array(values, dtype=dtype)


def values_of(array: mx.nd.NDArray) -> List[float]:
    # MXNet cannot copy an array without rows.
    return array.astype("float64").asnumpy().ravel().tolist() if array.size else []


def dtype_of(array: mx.nd.NDArray) -> str:
    dtype = numpy.dtype(array.dtype)
    return "bfloat16" if dtype.names else dtype.name


@check.each(*INTEGERS, *FLOATS)
def an_allreduce_gives_what_its_op_says(dtype: str) -> None:
    size = hvd.size()
    numbers = range(1, size + 1)
    product = int(numpy.prod(list(numbers)))
    wanted = {hvd.Sum: sum(numbers), hvd.Min: 1, hvd.Max: size, hvd.Product: product}
    wanted[hvd.Average] = sum(numbers) // size if dtype in INTEGERS else sum(numbers) / size
    for op, value in wanted.items():
        given = own(dtype)
        result = hvd.allreduce(given, op=op)
        assert dtype_of(result) == dtype and result.shape == (3, 2)
        assert values_of(result) == [value] * 6, (op, values_of(result))
        assert values_of(given) == [hvd.rank() + 1] * 6
        assert hvd.allreduce_(given, op=op) is given and values_of(given) == [value] * 6


@check
def horovods_average_is_an_op() -> None:
    assert values_of(hvd.allreduce(own("float32"), average=False)) == [sum(range(1, hvd.size() + 1))] * 6
    assert values_of(hvd.allreduce(own("float32"), True)) == [(hvd.size() + 1) / 2] * 6
    assert values_of(hvd.allreduce(own("float32"))) == [(hvd.size() + 1) / 2] * 6


@check
def bools_are_combined() -> None:
    size = hvd.size()
    mine = mx.np.array([True, hvd.rank() == 0, False], dtype="bool")
    some, every = [True, True, False], [True, size == 1, False]
    for op, wanted in ((hvd.Sum, some), (hvd.Max, some), (hvd.Min, every), (hvd.Product, every)):
        copies = [mine.copy() for _ in range(3)]
        results = [hvd.allreduce(mine, op=op), hvd.allreduce_(copies[0], op=op)]
        results += hvd.grouped_allreduce([mine, mine], op=op) + hvd.grouped_allreduce_(copies[1:], op=op)
        assert [result.asnumpy().tolist() for result in results] == [wanted] * 6, op
        spread = mx.np.repeat(mine, size)
        for part in (hvd.reducescatter(spread, op=op), *hvd.grouped_reducescatter([spread, spread], op=op)):
            begin = 3 * hvd.rank()
            assert part.asnumpy().tolist() == [each for each in wanted for _ in range(size)][begin : begin + 3], op
    expect_error(ValueError, lambda: hvd.allreduce(mine, op=hvd.Average).asnumpy(), "bool")


@check
def adasum_of_equal_arrays_is_their_mean() -> None:
    numpy.testing.assert_allclose(hvd.allreduce(mx.nd.ones(4), op=hvd.Adasum).asnumpy(), numpy.ones(4))


@check
def factors_have_the_precision_of_a_double() -> None:
    result = hvd.allreduce(mx.nd.ones(2, dtype="float64"), op=hvd.Sum, prescale_factor=1 / 3, postscale_factor=0.1)
    assert abs(result.asnumpy()[0] - sum(1 / 3 for _ in range(hvd.size())) * 0.1) < 1e-15


@check.each(*KINDS)
def arrays_keep_their_kind(kind: str) -> None:
    given = of_kind(kind, [1, 2, 3, 4])
    results = [hvd.allreduce(given), hvd.allgather(given), hvd.broadcast(given, 0), hvd.reducescatter(given)]
    results += hvd.grouped_allreduce([given, given]) + [hvd.gather(given, 0), hvd.scatter(given, 0)]
    assert all(type(result) is type(given) for result in results)
    assert isinstance(given, mx.np.ndarray) == (kind == "np")


@check
def scalars_and_arrays_without_elements_travel() -> None:
    scalar = mx.np.array(3.0)
    assert hvd.allreduce(scalar, op=hvd.Sum).shape == () and float(hvd.allreduce(scalar)) == 3
    assert hvd.allgather(mx.np.array(float(hvd.rank()))).asnumpy().tolist() == list(range(hvd.size()))
    with mx.util.np_shape(True):
        nothing = mx.np.zeros((0, 2))
        assert hvd.allreduce(nothing).shape == (0, 2)
        assert hvd.allgather(nothing).shape == (0, 2)


@check
def a_grouped_allreduce_takes_mixed_types_and_views() -> None:
    size = hvd.size()
    given = [own("float32"), own("int64"), own("float16", 1), own("float32", 5)]
    results = hvd.grouped_allreduce(given, op=hvd.Max, name="mixed")
    assert [dtype_of(result) for result in results] == [dtype_of(each) for each in given]
    assert list(map(values_of, results)) == [[size] * 6, [size] * 6, [size] * 2, [size] * 10]
    assert hvd.grouped_allreduce([]) == []
    whole = mx.nd.full((4, 2), hvd.rank() + 1)
    parts = [whole[0:2], whole[2:4]]
    assert hvd.grouped_allreduce_(parts, op=hvd.Sum) == parts
    assert values_of(whole) == [sum(range(1, size + 1))] * 8


@check.each(2, 4096, 1 << 18)
def a_group_in_place_reduces_memory_that_arrays_share_once(count: int) -> None:
    """Each result is that of a copy."""
    whole = mx.nd.full((count, 2), 0)
    shares = {
        "the same array": [whole, whole],
        "the same memory": [whole.reshape((-1,)), mx.nd.full((3,), hvd.rank() + 1), whole],
        "an overlap": [whole[1:], whole[: count - 1], whole[: count // 2 + 1]],
    }
    for what, arrays in shares.items():
        whole[:] = hvd.rank() + 1
        found = hvd.grouped_allreduce_(arrays, op=hvd.Sum, name="shared")
        assert all(each is array for each, array in zip(found, arrays)), what
        for array in arrays:
            assert (array == sum(range(1, hvd.size() + 1))).asnumpy().all(), what


@check.each(*INTEGERS, *FLOATS)
def an_allgather_joins_the_ranks_rows(dtype: str) -> None:
    result = hvd.allgather(own(dtype, hvd.rank() + 1))
    assert dtype_of(result) == dtype
    assert values_of(result) == [r + 1.0 for r in range(hvd.size()) for _ in range(2 * (r + 1))]
    results = hvd.grouped_allgather([own(dtype, 2), own("int32", 1)])
    assert [each.shape for each in results] == [(2 * hvd.size(), 2), (hvd.size(), 2)]


@check.each(*INTEGERS, *FLOATS)
def a_broadcast_gives_the_roots(dtype: str) -> None:
    root = hvd.size() - 1
    given = own(dtype)
    result = hvd.broadcast(given, root)
    assert dtype_of(result) == dtype and values_of(result) == [root + 1] * 6
    assert values_of(given) == [hvd.rank() + 1] * 6
    assert hvd.broadcast_(given, root) is given and values_of(given) == [root + 1] * 6


@check.each(*INTEGERS, *FLOATS)
def a_reducescatter_gives_this_ranks_rows(dtype: str) -> None:
    size, rank = hvd.size(), hvd.rank()
    rows = 2 * size + 1
    given = mx.nd.arange(rows).astype(type_of(dtype))
    begin = sum(rows // size + (r < rows % size) for r in range(rank))
    end = begin + rows // size + (rank < rows % size)
    assert values_of(hvd.reducescatter(given, op=hvd.Sum)) == [size * row for row in range(begin, end)]
    assert values_of(hvd.grouped_reducescatter([given, given])[1]) == list(range(begin, end))
    expect_error(ValueError, lambda: hvd.reducescatter(mx.np.array(1.0)), "reducescatter", "scalar")


@check
def an_alltoall_gives_each_rank_its_rows() -> None:
    size, rank = hvd.size(), hvd.rank()
    result = hvd.alltoall(mx.nd.arange(2 * size) + 100 * rank)
    assert values_of(result) == [100 * r + 2 * rank + i for r in range(size) for i in range(2)]
    given = mx.nd.arange(size * (size + 1) // 2)
    splits = list(range(1, size + 1))
    for each in (splits, numpy.array(splits), mx.nd.array(splits, dtype="int32")):
        received, rows = hvd.alltoall(given, splits=each)
        assert rows.asnumpy().tolist() == [rank + 1] * size and rows.dtype == numpy.int32
        assert received.shape == (size * (rank + 1),)
    expect_error(ValueError, lambda: hvd.alltoall(given, splits=[1] * (size + 1)), f"{size} ranks")
    expect_error(ValueError, lambda: hvd.alltoall(given, splits=[0.5] * size), "whole numbers")
    if size > 1:
        expect_error(ValueError, lambda: hvd.alltoall(mx.nd.ones(size + 1)), f"{size + 1} rows", f"{size} ranks")


@check
def a_gather_and_a_scatter_know_their_root() -> None:
    size, rank, root = hvd.size(), hvd.rank(), hvd.size() - 1
    gathered = hvd.gather(mx.nd.full((rank + 1,), rank), root)
    assert gathered.asnumpy().tolist() == ([r for r in range(size) for _ in range(r + 1)] if rank == root else [])
    mine = hvd.scatter(mx.nd.arange(size * 2) + 10 * rank, root)
    assert values_of(mine) == [10 * root + 2 * rank, 10 * root + 2 * rank + 1]
    expect_error(ValueError, lambda: hvd.scatter(mx.np.array(1.0), 0), "scatter", "scalar")


def numbered(dtype: str, rows: int) -> mx.nd.NDArray:
    """Rows of two elements, whose numbers tell the rank and the row."""
    first = 10 * hvd.rank()
    if dtype == "bool":
        return mx.np.array([[(first + row) % 3 == 0, row % 2 == 0] for row in range(rows)], dtype="bool")
    return mx.nd.array([[first + row, row] for row in range(rows)]).astype(type_of(dtype))


def numbers_of(dtype: str, rank: int, rows: Sequence[int]) -> List[float]:
    if dtype == "bool":
        return [float(each) for row in rows for each in ((10 * rank + row) % 3 == 0, row % 2 == 0)]
    return [float(each) for row in rows for each in (10 * rank + row, row)]


@check.each(*INTEGERS, *FLOATS, "bool")
def rows_of_all_types_find_their_rank(dtype: str) -> None:
    size, rank, root = hvd.size(), hvd.rank(), hvd.size() - 1
    given = numbered(dtype, 2 * size)
    mine, everyone = [2 * rank, 2 * rank + 1], range(size)
    gathered = [number for other in everyone for number in numbers_of(dtype, other, range(2 * size))]
    rows, counts = hvd.alltoall(given, splits=[2] * size)
    assert counts.asnumpy().tolist() == [2] * size
    results = {
        "alltoall": (hvd.alltoall(given), [number for other in everyone for number in numbers_of(dtype, other, mine)]),
        "splits": (rows, [number for other in everyone for number in numbers_of(dtype, other, mine)]),
        "gather": (hvd.gather(given, root), gathered if rank == root else []),
        "scatter": (hvd.scatter(given, root), numbers_of(dtype, root, mine)),
        "allgather": (hvd.allgather(given), gathered),
        "grouped_allgather": (hvd.grouped_allgather([given, given])[1], gathered),
        "broadcast": (hvd.broadcast(given, root), numbers_of(dtype, root, range(2 * size))),
        "broadcast_": (hvd.broadcast_(given.copy(), root), numbers_of(dtype, root, range(2 * size))),
    }
    for name, (result, wanted) in results.items():
        assert dtype_of(result) == dtype and values_of(result) == wanted, (name, values_of(result), wanted)


@check
def process_sets_have_their_own_results() -> None:
    size = hvd.size()
    if size == 1:
        return
    sets = [hvd.add_process_set([0])]
    sets.append(hvd.add_process_set(list(range(1, size))) if size > 1 else sets[0])
    mine = sets[0] if hvd.rank() == 0 else sets[1]
    wanted = 1 if hvd.rank() == 0 else sum(range(2, size + 1))
    assert values_of(hvd.allreduce(own("float32"), op=hvd.Sum, process_set=mine)) == [wanted] * 6
    assert values_of(hvd.allgather(own("int32", 1), process_set=mine)) == [r + 1 for r in mine.ranks for _ in range(2)]
    assert values_of(hvd.broadcast(own("int32", 1), mine.ranks[-1], process_set=mine)) == [mine.ranks[-1] + 1] * 2
    assert values_of(hvd.reducescatter(mx.nd.ones((mine.size(), 2)), process_set=mine)) == [1, 1]
    assert values_of(hvd.alltoall(mx.nd.ones((mine.size(), 2)), process_set=mine)) == [1, 1] * mine.size()
    gathered = hvd.gather(own("int32", 1), mine.ranks[0], process_set=mine)
    assert gathered.shape == ((mine.size() if hvd.rank() == mine.ranks[0] else 0), 2)
    other = sets[1] if hvd.rank() == 0 else sets[0]
    expect_error(ValueError, lambda: hvd.allreduce(mx.nd.ones(2), process_set=other), "not part of")
    mx.nd.waitall()
    hvd.barrier()
    for process_set in sets:
        hvd.remove_process_set(process_set)
    expect_error(ValueError, lambda: hvd.allreduce(mx.nd.ones(2), process_set=mine), "not registered")


@check
def objects_travel() -> None:
    assert hvd.broadcast_object({"rank": hvd.rank()}, 0) == {"rank": 0}
    assert hvd.allgather_object(hvd.rank()) == list(range(hvd.size()))


@check
def a_rank_without_data_joins() -> None:
    for number in range(hvd.rank() + 1):
        there = range(number, hvd.size())
        result = hvd.allreduce(mx.nd.ones(3), op=hvd.Sum)
        assert values_of(result) == [len(there)] * 3, (number, result)
        assert hvd.allgather(own("float32", 1)).shape == (len(there), 2)
        received, rows = hvd.alltoall(mx.nd.ones(hvd.size()), splits=[1] * hvd.size())
        assert rows.asnumpy().tolist() == [int(r in there) for r in range(hvd.size())]
        assert received.shape == (len(there),)
    assert hvd.join() == hvd.size() - 1
    assert values_of(hvd.allreduce(mx.nd.ones(3), op=hvd.Sum)) == [hvd.size()] * 3
