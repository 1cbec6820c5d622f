"""Ranks run out of data one after the other, and take part in what the others do until all have joined."""

from typing import Any, List

import farandole.numpy
import farandole.torch as hvd
import torch
from harness import Checks, expect_error
from torch import nn

check = Checks()

DTYPES = (torch.float32, torch.bfloat16, torch.int64, torch.bool)


def steps_of(rank: int, turn: int) -> int:
    return (rank + turn) % hvd.size() * 2 + 1


def mine(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.full(shape, hvd.rank() + 1, dtype=dtype)


def expect_all(found: torch.Tensor, wanted: float) -> None:
    assert (found == torch.tensor(wanted).to(found.dtype)).all(), (found, wanted)


def reduce_all(present: List[int], dtype: torch.dtype) -> None:
    """Every reduction, small and large, alone and in groups."""
    numbers = [rank + 1 for rank in present]
    wanted = {hvd.Sum: sum(numbers), hvd.Min: min(numbers), hvd.Max: max(numbers)}
    product = 1
    for number in numbers:
        product *= number
    wanted[hvd.Product] = product
    if dtype is torch.bool:
        wanted = {op: True for op in wanted}
    for op, value in wanted.items():
        for count in (2, 3000):
            expect_all(hvd.allreduce(mine(count, dtype=dtype), op=op, name=f"{dtype}.{op}.{count}"), value)
    grouped = hvd.grouped_allreduce([mine(5, dtype=dtype), mine(7), mine(600, dtype=dtype)], op=hvd.Sum, name="group")
    for found, value in zip(grouped, (wanted[hvd.Sum], sum(numbers), wanted[hvd.Sum])):
        expect_all(found, value)
    part = hvd.reducescatter(mine(2 * hvd.size(), 300, dtype=dtype), op=hvd.Sum, name=f"{dtype}")
    assert part.shape == (2, 300)
    expect_all(part, wanted[hvd.Sum])


def move_all(present: List[int], dtype: torch.dtype) -> None:
    size = hvd.size()
    assert hvd.allgather_object(hvd.rank(), name=f"object.{dtype}") == present
    gathered = hvd.allgather(mine(hvd.rank() + 1, 2, dtype=dtype), name=f"{dtype}")
    assert gathered.shape == (sum(rank + 1 for rank in present), 2)
    found, received = hvd.alltoall(mine(size, 100, dtype=dtype), [1] * size, name=f"{dtype}")
    assert received.tolist() == [int(rank in present) for rank in range(size)]
    assert torch.equal(found[:, 0], torch.tensor([rank + 1 for rank in present]).to(dtype))
    root = present[0]
    rows = hvd.gather(mine(hvd.rank() + 1, dtype=dtype), root, name=f"{dtype}")
    senders = [rank + 1 for rank in present for _ in range(rank + 1)] if hvd.rank() == root else []
    assert torch.equal(rows, torch.tensor(senders).to(dtype))
    part = hvd.scatter(mine(2 * size, 100, dtype=dtype), root, name=f"{dtype}")
    assert part.shape == (2, 100)
    expect_all(part, root + 1)
    for count in (1, 1000):
        expect_all(hvd.broadcast(mine(count, dtype=dtype), present[0], name=f"{dtype}.{count}"), present[0] + 1)
    hvd.barrier()


@check.each(*DTYPES)
def who_has_joined_takes_part_in_every_operation(dtype: torch.dtype) -> None:
    for turn in range(2):
        steps = steps_of(hvd.rank(), turn)
        for step in range(steps):
            present = [rank for rank in range(hvd.size()) if steps_of(rank, turn) > step]
            reduce_all(present, dtype)
            move_all(present, dtype)
            # A name that is new to all.
            expect_all(hvd.allreduce(mine(10), op=hvd.Sum, name=f"{dtype}.{turn}.{step}"), sum(present) + len(present))
        last = hvd.join()
        assert steps_of(last, turn) == 2 * hvd.size() - 1
        assert hvd.allgather(torch.tensor([last])).tolist() == [last] * hvd.size()


@check
def average_divides_by_the_number_of_all_ranks() -> None:
    size = hvd.size()
    if hvd.rank() == 0:
        for count in (1, 5000):
            torch.testing.assert_close(hvd.allreduce(torch.ones(count) * size, name="average"), torch.ones(count))
    assert isinstance(hvd.join(device=0), int)


@check
def what_is_on_its_way_completes_beside_the_join() -> None:
    handles = [hvd.allreduce_async(mine(1000), op=hvd.Sum, name=f"way.{hvd.rank()}.{i}") for i in range(20)]
    hvd.join()
    for handle in handles:
        expect_all(hvd.synchronize(handle), hvd.rank() + 1)


@check
def a_broadcast_from_who_has_joined_is_an_error_on_all() -> None:
    joined = hvd.size() - 1
    if hvd.rank() != joined:
        for count in (3, 5000):
            tensor = torch.ones(count)
            expect_error(
                ValueError, lambda sent=tensor: hvd.broadcast(sent, joined, name="gone"), f"rank {joined}", "joined"
            )
        assert hvd.allreduce(torch.ones(2), op=hvd.Sum).tolist() == [joined] * 2
    hvd.join()


@check
def disagreements_of_the_others_are_named() -> None:
    if hvd.rank() != 1:
        for _ in range(2):
            odd = 4 if hvd.rank() == 0 or hvd.size() < 3 else 5
            if hvd.size() < 3:
                continue
            expect_error(ValueError, lambda odd=odd: hvd.allreduce(torch.ones(odd), name="odd"), "rank 0", "rank 2")
            assert hvd.allreduce(torch.ones(4), op=hvd.Sum, name="odd").tolist() == [hvd.size() - 1] * 4
    farandole.numpy.join()


@check
def an_optimizer_goes_on_without_who_has_joined() -> None:
    size, rank = hvd.size(), hvd.rank()
    model = torch.nn.Linear(40, 30)
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    start = model.weight.detach().clone()
    optimizer = hvd.DistributedOptimizer(
        torch.optim.SGD(model.parameters(), lr=1.0), named_parameters=model.named_parameters()
    )
    for _ in range(2 + rank):
        optimizer.zero_grad()
        model(torch.full((1, 40), float(size))).sum().backward()
        optimizer.step()
    assert hvd.join() == size - 1
    # In step s, all ranks of s - 1 and above are left, and each has a gradient of `size`.
    wanted = sum(size - max(0, step - 1) for step in range(2 + rank))
    torch.testing.assert_close(start - model.weight, torch.full_like(start, float(wanted)), rtol=1e-4, atol=1e-4)


@check
def ranks_that_train_other_layers_may_join_before_the_first_step() -> None:
    """Rank r has r batches; only the last rank trains the second layer. The others learn of that in each step."""
    size, rank = hvd.size(), hvd.rank()
    shared, last = torch.nn.Linear(40, 30), torch.nn.Linear(40, 30)
    for layer in (shared, last):
        hvd.broadcast_parameters(layer.state_dict(), root_rank=0)
    last.requires_grad_(rank == size - 1)
    starts = [layer.weight.detach().clone() for layer in (shared, last)]
    named = [(f"{name}.weight", layer.weight) for name, layer in (("shared", shared), ("last", last))]
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD([weight for _, weight in named], lr=1.0), named)
    for _ in range(rank):
        optimizer.zero_grad()
        sum(layer(torch.full((1, 40), float(size))).sum() for layer in (shared, last)).backward()
        optimizer.step()
    hvd.join()
    for layer, start, wanted in zip((shared, last), starts, (sum(size - 1 - step for step in range(rank)), rank)):
        torch.testing.assert_close(start - layer.weight, torch.full_like(start, float(wanted)), rtol=1e-4, atol=1e-4)


@check
def sets_do_not_wait_for_who_has_joined() -> None:
    if hvd.size() < 3:
        return
    pair = hvd.add_process_set([0, 2])
    if hvd.rank() == 0:
        assert hvd.allreduce(torch.ones(3) * 2, name="pair", process_set=pair).tolist() == [1.0] * 3
        assert hvd.allgather(torch.ones(3), name="pair", process_set=pair).shape == (3,)
    hvd.join()
    hvd.remove_process_set(pair)


def weighted(tensor: torch.Tensor) -> torch.Tensor:
    """A loss that gives each element the gradient rank + 1."""
    return (tensor * (hvd.rank() + 1)).sum()


def expect_rows(gradient: Any, counts: List[int], values: List[float]) -> None:
    """Fails unless the gradient has so many rows of each value."""
    wanted = [value for count, value in zip(counts, values) for _ in range(count)]
    assert gradient.shape[0] == len(wanted) and gradient[:, 0].tolist() == wanted, (gradient, wanted)


def differentiate(ranks: List[int], root: int, process_set: Any) -> None:
    """Gradients of each operation that has rows, in a set of these ranks, the first of which has joined."""
    count, values = len(ranks), [0.0, *(rank + 1.0 for rank in ranks[1:])]
    splits = [position + 2 for position in range(count)]
    given = torch.ones(sum(splits) + 1, 3, requires_grad=True)
    weighted(hvd.alltoall(given, splits, name="places", process_set=process_set)[0]).backward()
    expect_rows(given.grad, [*splits, 1], [*values, 0.0])
    for extra in (0, 1):
        given = torch.ones(2 * count + extra, 3, requires_grad=True)
        shares = [2 + extra, *[2] * (count - 1)]
        weighted(hvd.reducescatter(given, f"places{extra}", op=hvd.Sum, process_set=process_set)).backward()
        expect_rows(given.grad, shares, [count * value for value in values])
        given.grad = None
        weighted(hvd.scatter(given, root, f"places{extra}", process_set)).backward()
        expect_rows(given.grad, shares, values if hvd.rank() == root else [0.0] * count)
    given = torch.ones(2 * count, 3, requires_grad=True)
    weighted(hvd.alltoall(given, name="even", process_set=process_set)).backward()
    expect_rows(given.grad, [2] * count, values)
    given = torch.ones(2, 3, requires_grad=True)
    gathered = hvd.allgather(given, "places", process_set)
    (gathered * torch.arange(len(gathered)).reshape(-1, 1)).sum().backward()
    first = 2.0 * (ranks.index(hvd.rank()) - 1)
    expect_rows(given.grad * count / (count - 1), [1, 1], [first, first + 1])


@check
def gradients_are_at_the_places_of_their_rows_beside_who_has_joined() -> None:
    size, rank = hvd.size(), hvd.rank()
    pair = hvd.add_process_set([0, size - 1]) if size > 2 else None
    if rank > 0:
        differentiate(list(range(size)), size - 1, hvd.global_process_set)
        if pair is not None and rank == size - 1:
            differentiate([0, rank], rank, pair)
    hvd.join()
    if pair is not None:
        hvd.remove_process_set(pair)


@check
def a_root_that_has_joined_gives_no_gradients_back() -> None:
    given = torch.ones(2, 3, requires_grad=True)
    gathered = hvd.gather(given, 0, name="given_up")
    if hvd.rank() > 0:
        weighted(gathered).backward()
        expect_rows(given.grad, [2], [0.0])
    hvd.join()


@check.each(4, 300)
def layers_that_all_have_frozen_stay_beside_a_rank_that_has_joined(width: int) -> None:
    """Momentum and weight decay do not move them. Small gradients and large ones travel in other ways."""
    model = nn.Sequential(nn.Linear(width, width), nn.Linear(width, 2))
    hvd.broadcast_parameters(model.state_dict(), 0)
    inner = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=0.1)
    optimizer = hvd.DistributedOptimizer(inner, model.named_parameters())
    frozen = model[0].weight.detach()
    for step in range(2 if hvd.rank() == 0 and hvd.size() > 1 else 4):
        if step == 1:
            model[0].requires_grad_(False)
            frozen = model[0].weight.detach().clone()
        optimizer.zero_grad()
        model(torch.full((2, width), hvd.rank() + step + 1.0)).pow(2).mean().backward()
        optimizer.step()
    hvd.join()
    assert torch.equal(model[0].weight, frozen)
