"""The others' operations beside ranks that have joined: each of them, with and without a place for its result."""

from typing import Any, Callable, Dict, List

import farandole.mxnet as hvd
import mxnet as mx
from harness import Checks

check = Checks()


def mine(*shape: int, dtype: str = "float32") -> mx.nd.NDArray:
    return mx.nd.full(shape, hvd.rank() + 1, dtype=dtype)


def values_of(array: mx.nd.NDArray) -> List[float]:
    # MXNet cannot copy an array without rows.
    return array.astype("float64").asnumpy().ravel().tolist() if array.size else []


def reduce_all(present: List[int]) -> None:
    """Each reduction. A rank that has joined changes nothing but the mean, which is that of all ranks."""
    size, numbers = hvd.size(), [rank + 1 for rank in present]
    product = 1
    for number in numbers:
        product *= number
    wanted: Dict[int, float] = {hvd.Sum: sum(numbers), hvd.Min: min(numbers), hvd.Max: max(numbers)}
    wanted.update({hvd.Product: product, hvd.Average: sum(numbers) / size})
    for op, value in wanted.items():
        close = [round(value, 5)] * 3
        for call in (hvd.allreduce, hvd.allreduce_):
            assert [round(each, 5) for each in values_of(call(mine(3), op=op, name=f"joined.{op}"))] == close, op
        for group in (hvd.grouped_allreduce, hvd.grouped_allreduce_):
            found = group([mine(3), mine(3, dtype="float64")], op=op, name=f"joined.group.{op}")
            assert [[round(each, 5) for each in values_of(array)] for array in found] == [close, close], op
        part = hvd.reducescatter(mine(3 * size), op=op, name=f"joined.part.{op}")
        parts = hvd.grouped_reducescatter([mine(3 * size)] * 2, op=op, name=f"joined.parts.{op}")
        for each in (part, *parts):
            assert [round(number, 5) for number in values_of(each)] == close, op


def move_all(present: List[int]) -> None:
    """Each operation that moves rows. A rank that has joined gives none, and what is meant for it is dropped."""
    size, rank, root = hvd.size(), hvd.rank(), present[0]
    rows = [other + 1.0 for other in present for _ in range(other + 1)]
    assert values_of(hvd.allgather(mine(rank + 1), name="joined.rows")) == rows
    both = hvd.grouped_allgather([mine(rank + 1), mine(2, dtype="int64")], name="joined.both")
    assert values_of(both[0]) == rows and both[1].shape == (2 * len(present),)
    found, received = hvd.alltoall(mine(size), splits=[1] * size, name="joined.exchange")
    assert values_of(found) == [other + 1.0 for other in present]
    assert received.asnumpy().tolist() == [int(other in present) for other in range(size)]
    assert values_of(hvd.alltoall(mine(size), name="joined.even")) == [other + 1.0 for other in present]
    assert values_of(hvd.gather(mine(rank + 1), root, name="joined.gather")) == (rows if rank == root else [])
    assert values_of(hvd.scatter(mine(2 * size), root, name="joined.scatter")) == [root + 1.0] * 2
    broadcasts: List[Callable[..., Any]] = [hvd.broadcast, hvd.broadcast_]
    for broadcast in broadcasts:
        assert values_of(broadcast(mine(4), root, name="joined.broadcast")) == [root + 1.0] * 4
    assert hvd.allgather_object(rank, name="joined.object") == present


@check
def ranks_that_have_joined_take_part_in_every_operation() -> None:
    size = hvd.size()
    for step in range(hvd.rank() + 1):
        reduce_all(list(range(step, size)))
        move_all(list(range(step, size)))
    assert hvd.join() == size - 1


@check
def a_rank_may_join_before_its_trainers_first_step() -> None:
    weight, size, rank = mx.gluon.Parameter("joined_weight", shape=(2,)), hvd.size(), hvd.rank()
    weight.initialize(mx.init.Zero())
    trainer = hvd.DistributedTrainer([weight], "sgd", {"learning_rate": 1.0}, prefix="joined")

    def step() -> None:
        with mx.autograd.record():
            loss = weight.data().sum()
        loss.backward()
        trainer.step(1)

    is_late = rank == 0 < size - 1
    for _ in range(0 if is_late else 2):
        step()
    hvd.join()
    step()
    # The others' mean gradient without rank 0, and then with it.
    wanted = -1 if is_late else -2 * max(1, size - 1) / size - 1
    assert all(abs(each - wanted) < 1e-5 for each in values_of(weight.data())), (weight.data(), wanted)
