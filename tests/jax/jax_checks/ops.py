"""The operations, outside of programs and compiled."""

from typing import Any, Callable, List

import farandole.jax as hvd
import jax
import jax.numpy as jnp
import numpy
from harness import Checks, expect_error

check = Checks()

INTEGERS = ("uint8", "int8", "uint16", "int16", "int32", "int64")
FLOATS = ("float16", "bfloat16", "float32", "float64")
SHORT_FLOATS = ("float8_e4m3fn", "float8_e5m2")


def everywhere(call: Callable[..., Any], *arguments: Any) -> List[Any]:
    """The results of a call, outside of a program and compiled."""
    return [call(*arguments), jax.jit(call)(*arguments)]


def own(dtype: str, rows: int = 3) -> jax.Array:
    """This rank's array: rank + 1 in each element."""
    return jnp.full((rows, 2), hvd.rank() + 1).astype(dtype)


def values_of(array: jax.Array) -> List[float]:
    return array.astype("float64").ravel().tolist()


@check.each(*INTEGERS, *FLOATS, *SHORT_FLOATS)
def an_allreduce_gives_what_its_op_says(dtype: str) -> None:
    size = hvd.size()
    numbers = range(1, size + 1)
    product = int(numpy.prod(list(numbers)))
    wanted = {hvd.Sum: sum(numbers), hvd.Min: 1, hvd.Max: size, hvd.Product: product}
    wanted[hvd.Average] = sum(numbers) // size if dtype in INTEGERS else sum(numbers) / size
    for op, value in wanted.items():
        for result in everywhere(lambda array, op=op: hvd.allreduce(array, op=op), own(dtype)):
            assert result.dtype == dtype and result.shape == (3, 2)
            assert values_of(result) == [value] * 6, (op, values_of(result))


@check
def adasum_of_equal_tensors_is_their_mean() -> None:
    for result in everywhere(lambda array: hvd.allreduce(array, op=hvd.Adasum), jnp.ones((4,))):
        numpy.testing.assert_allclose(result, numpy.ones(4))


@check
def bools_are_combined() -> None:
    mine = jnp.asarray([True, hvd.rank() == 0, False])
    for result in everywhere(lambda array: hvd.allreduce(array, op=hvd.Sum), mine):
        assert result.tolist() == [True, True, False]
    for result in everywhere(lambda array: hvd.allreduce(array, op=hvd.Min), mine):
        assert result.tolist() == [True, hvd.size() == 1, False]


@check
def factors_have_the_precision_of_a_double() -> None:
    def call(array: Any) -> Any:
        return hvd.allreduce(array, op=hvd.Sum, prescale_factor=1 / 3, postscale_factor=0.1)

    for result in everywhere(call, jnp.ones((2,), "float64")):
        assert abs(result[0] - sum(1 / 3 for _ in range(hvd.size())) * 0.1) < 1e-15


@check
def a_type_that_cannot_travel_is_named() -> None:
    for call in (hvd.allreduce, hvd.allgather):
        expect_error(ValueError, lambda call=call: call(jnp.ones(2, "complex64")), "complex64", "no such element type")
        program = jax.jit(call)
        expect_error(
            ValueError, lambda program=program: program(jnp.ones(2, "complex64")), "complex64", "no such element"
        )


@check
def unsigned_integers_and_random_keys_travel() -> None:
    big = jnp.asarray([2**32 - 1, hvd.rank()], "uint32")
    for result in everywhere(lambda array: hvd.broadcast(array, 0), big):
        assert result.dtype == "uint32" and result.tolist() == [2**32 - 1, 0]
    for result in everywhere(lambda array: hvd.allreduce(array, op=hvd.Sum), big):
        assert result.tolist() == [(2**32 - 1) * hvd.size() % 2**32, sum(range(hvd.size()))]
    expect_error(ValueError, lambda: hvd.allreduce(big, op=hvd.Max), "uint32", "Max")
    key = jax.random.key(hvd.rank())
    for result in everywhere(lambda given: hvd.broadcast(given, 0), key):
        assert jax.random.key_data(result).tolist() == jax.random.key_data(jax.random.key(0)).tolist()


@check
def a_grouped_allreduce_keeps_a_pytree_of_mixed_types() -> None:
    tree = {"a": own("float32"), "b": [own("int64"), own("bfloat16", 1)], "c": own("float32", 0), "none": None}
    size = hvd.size()
    for result in everywhere(lambda given: hvd.grouped_allreduce(given, op=hvd.Max), tree):
        assert jax.tree.structure(result) == jax.tree.structure(tree)
        assert [leaf.dtype for leaf in jax.tree.leaves(result)] == [leaf.dtype for leaf in jax.tree.leaves(tree)]
        assert list(map(values_of, jax.tree.leaves(result))) == [[size] * 6, [size] * 6, [size] * 2, []]
    for result in everywhere(hvd.grouped_allreduce, []):
        assert result == []


@check.each("none", "fp16", "bf16")
def a_compressed_allreduce_keeps_the_type(form: str) -> None:
    compression = getattr(hvd.Compression, form)
    for result in everywhere(lambda array: hvd.allreduce(array, op=hvd.Sum, compression=compression), own("float32")):
        assert result.dtype == "float32" and values_of(result) == [sum(range(1, hvd.size() + 1))] * 6


@check.each(*INTEGERS, *FLOATS, *SHORT_FLOATS, "bool", "uint32")
def an_allgather_joins_the_ranks_rows(dtype: str) -> None:
    wanted = [float(jnp.asarray(r + 1).astype(dtype).astype("float64")) for r in range(hvd.size()) for _ in range(6)]
    for result in everywhere(hvd.allgather, own(dtype)):
        assert result.dtype == dtype and values_of(result) == wanted


@check
def an_allgather_outside_of_a_program_joins_different_numbers_of_rows() -> None:
    result = hvd.allgather(own("float32", hvd.rank() + 1))
    assert values_of(result) == [r + 1.0 for r in range(hvd.size()) for _ in range(2 * (r + 1))]
    results = hvd.grouped_allgather([own("float32", hvd.rank()), own("int32", 1)])
    assert results[0].shape == (sum(range(hvd.size())), 2) and results[1].shape == (hvd.size(), 2)


@check
def an_allgather_of_scalars_and_of_no_rows() -> None:
    for result in everywhere(hvd.allgather, jnp.asarray(hvd.rank())):
        assert result.tolist() == list(range(hvd.size()))
    for result in everywhere(hvd.allgather, own("float32", 0)):
        assert result.shape == (0, 2)
    for results in everywhere(hvd.grouped_allgather, (own("float32", 2), own("int32", 1))):
        assert [each.shape[0] for each in results] == [2 * hvd.size(), hvd.size()]


@check.each(*FLOATS, *INTEGERS, *SHORT_FLOATS, "bool")
def a_broadcast_gives_the_roots(dtype: str) -> None:
    root = hvd.size() - 1
    for result in everywhere(lambda array: hvd.broadcast(array, root), own(dtype)):
        assert result.dtype == dtype and values_of(result) == values_of(jnp.full((3, 2), root + 1).astype(dtype))


@check.each("float32", "bfloat16", "int64")
def a_reducescatter_gives_this_ranks_rows(dtype: str) -> None:
    size, rank = hvd.size(), hvd.rank()
    rows = 2 * size + 1
    given = jnp.arange(rows).astype(dtype)
    begin = sum(rows // size + (r < rows % size) for r in range(rank))
    own_rows = rows // size + (rank < rows % size)
    for result in everywhere(lambda array: hvd.reducescatter(array, op=hvd.Sum), given):
        assert values_of(result) == [size * row for row in range(begin, begin + own_rows)]
    for results in everywhere(lambda array: hvd.grouped_reducescatter([array, array]), given):
        assert values_of(results[1]) == list(range(begin, begin + own_rows))


@check
def an_alltoall_gives_each_rank_its_rows() -> None:
    size, rank = hvd.size(), hvd.rank()
    for result in everywhere(hvd.alltoall, jnp.arange(2 * size) + 100 * rank):
        assert result.tolist() == [100 * r + 2 * rank + i for r in range(size) for i in range(2)]
    received, rows = hvd.alltoall(jnp.arange(size * (size + 1) // 2), splits=list(range(1, size + 1)))
    assert rows.tolist() == [rank + 1] * size and received.shape == (size * (rank + 1),)
    expect_error(ValueError, lambda: jax.jit(lambda x: hvd.alltoall(x, splits=[1] * size))(jnp.ones(size)), "splits")
    if size > 1:
        expect_error(ValueError, lambda: jax.jit(hvd.alltoall)(jnp.ones(size + 1)), f"{size + 1} rows", f"{size} ranks")


@check
def a_gather_and_a_scatter_know_their_root() -> None:
    size, rank, root = hvd.size(), hvd.rank(), hvd.size() - 1
    for result in everywhere(lambda array: hvd.gather(array, root), jnp.full((2,), rank)):
        assert result.tolist() == ([r for r in range(size) for _ in range(2)] if rank == root else [])
    for result in everywhere(lambda array: hvd.scatter(array, root), jnp.arange(size * 2) + 10 * rank):
        assert result.tolist() == [10 * root + 2 * rank, 10 * root + 2 * rank + 1]
    for result in everywhere(lambda array: hvd.gather(array, root), jnp.asarray(rank)):
        assert result.tolist() == (list(range(size)) if rank == root else [])
    expect_error(ValueError, lambda: jax.jit(lambda x: hvd.scatter(x, 0))(jnp.asarray(1)), "scatter", "scalar")


def rows_of(dtype: str, rank: int) -> jax.Array:
    """Two rows for each rank, of numbers that all types have; a greater rank's are greater."""
    return (jnp.arange(4 * hvd.size()).reshape(-1, 2) % 5 + rank).astype(dtype)


@check.each(*INTEGERS, *FLOATS, *SHORT_FLOATS, "bool", "uint32")
def rows_of_all_types_find_their_rank(dtype: str) -> None:
    size, rank, root = hvd.size(), hvd.rank(), hvd.size() - 1
    everyone, mine = [rows_of(dtype, other) for other in range(size)], slice(2 * rank, 2 * rank + 2)
    reduces = dtype != "uint32"

    def call(given: Any) -> List[Any]:
        moved = [hvd.alltoall(given), hvd.gather(given, root), hvd.scatter(given, root)]
        return moved + ([hvd.reducescatter(given, op=hvd.Max)] if reduces else [])

    wanted = [jnp.concatenate([rows[mine] for rows in everyone]), jnp.concatenate(everyone), everyone[root][mine]]
    wanted += [everyone[-1][mine]] if reduces else []
    if rank != root:
        wanted[1] = wanted[1][:0]
    for found in everywhere(call, everyone[rank]):
        assert all(each.dtype == dtype for each in found)
        assert [values_of(each) for each in found] == [values_of(each) for each in wanted], found


@check
def asynchronous_calls_overlap() -> None:
    handles = [hvd.allreduce_async(jnp.full((4,), i), op=hvd.Sum, name=f"async.{i}") for i in range(20)]
    for i, handle in enumerate(handles):
        assert hvd.synchronize(handle).tolist() == [i * hvd.size()] * 4


@check
def process_sets_have_their_own_results() -> None:
    size = hvd.size()
    if size == 1:
        return
    sets = (
        [hvd.add_process_set([0]), hvd.add_process_set(list(range(1, size)))]
        if size > 2
        else [hvd.add_process_set([0]), hvd.add_process_set([1])]
    )
    mine = sets[0] if hvd.rank() == 0 else sets[1]
    wanted = 1 if hvd.rank() == 0 else sum(range(2, size + 1))
    for result in everywhere(lambda array: hvd.allreduce(array, op=hvd.Sum, process_set=mine), own("float32")):
        assert values_of(result) == [wanted] * 6
    for result in everywhere(lambda array: hvd.allgather(array, process_set=mine), own("int32", 1)):
        assert values_of(result) == [r + 1 for r in mine.ranks for _ in range(2)]
    for result in everywhere(lambda array: hvd.broadcast(array, mine.ranks[-1], process_set=mine), own("int32", 1)):
        assert values_of(result) == [mine.ranks[-1] + 1] * 2
    for result in everywhere(lambda array: hvd.reducescatter(array, process_set=mine), jnp.ones((mine.size(), 2))):
        assert values_of(result) == [1, 1]
    other = sets[1] if hvd.rank() == 0 else sets[0]
    expect_error(ValueError, lambda: hvd.allreduce(jnp.ones(2), process_set=other), "not")
    for process_set in sets:
        hvd.remove_process_set(process_set)
    expect_error(
        ValueError, lambda: jax.jit(lambda x: hvd.allreduce(x, process_set=mine))(jnp.ones(2)), "not registered"
    )


@check
def objects_travel() -> None:
    assert hvd.broadcast_object({"rank": hvd.rank()}, 0) == {"rank": 0}
    assert hvd.allgather_object(hvd.rank()) == list(range(hvd.size()))


@check
def a_rank_without_data_joins() -> None:
    step = jax.jit(lambda array: hvd.allreduce(array, op=hvd.Sum, name="before_join"))
    for number in range(hvd.rank() + 1):
        result = step(jnp.ones(3))
        assert result.tolist() == [hvd.size() - number] * 3, (number, result)
    assert hvd.join() == hvd.size() - 1
    hvd.barrier()


@check
def memory_is_shared_in_both_directions() -> None:
    given = jnp.arange(1 << 16, dtype="float32")
    seen = []
    describe = hvd.arrays._JaxAdapter.describe

    def spying(self: Any, array: numpy.ndarray) -> Any:
        found = describe(self, array)
        seen.append(found[0])
        return found

    hvd.arrays._JaxAdapter.describe = spying
    try:
        result = hvd.allreduce(given, op=hvd.Sum)
    finally:
        hvd.arrays._JaxAdapter.describe = describe
    assert given.unsafe_buffer_pointer() in seen and result.unsafe_buffer_pointer() in seen
    assert result[5] == 5 * hvd.size() and given[5] == 5
