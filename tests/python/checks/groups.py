"""Process sets, and the steady state: all ranks but the last, all but the first, and all of them talk among themselves."""

import functools
from typing import List, Tuple

import farandole.torch as hvd
import torch
from harness import Checks, expect_error

check = Checks()


@functools.lru_cache(None)
def sets() -> Tuple[hvd.ProcessSet, hvd.ProcessSet]:
    """Of three and more ranks they share some; the second is made in another order than that of its ranks."""
    ranks = list(range(hvd.size()))
    return hvd.ProcessSet(ranks[:-1]), hvd.ProcessSet(ranks[:0:-1])


def own_sets() -> List[hvd.ProcessSet]:
    """Those of sets() that this rank is in."""
    return [process_set for process_set in sets() if process_set.included()]


def sum_of(process_set: hvd.ProcessSet) -> int:
    """The sum over its ranks where each has 2 ** rank."""
    return sum(2**rank for rank in process_set.ranks)


@check
def ranks_that_ask_for_different_sets_are_both_told() -> None:
    left, right = (str(process_set.ranks).replace(" ", "") for process_set in sets())
    wanted = sets()[min(hvd.rank(), 1)].ranks
    expect_error(
        ValueError, lambda: hvd.add_process_set(wanted), f"rank 0 asks for group {left}, rank 1 asks for group {right}"
    )
    assert hvd.allreduce(torch.ones(1), op=hvd.Sum).item() == hvd.size()


@check
def sets_are_registered_by_all_ranks() -> None:
    (left, right), last = sets(), hvd.size() - 1
    assert left.size() is None and left.rank() is None and left.included() == (hvd.rank() < last)
    hvd.add_process_set(left)
    assert hvd.add_process_set(right) is right
    assert left.size() == right.size() == last and right.ranks == list(range(1, last + 1))
    for process_set in (left, right):
        if process_set.included():
            assert process_set.rank() == process_set.ranks.index(hvd.rank())
        else:
            expect_error(ValueError, process_set.rank, "Process is not part of provided process set")
    assert right.included() == (hvd.rank() > 0)


@check
def wrong_sets_are_refused() -> None:
    left, _ = sets()
    expect_error(ValueError, lambda: hvd.add_process_set(left.ranks), "registered already")
    expect_error(ValueError, lambda: hvd.add_process_set(left), "registered already")
    expect_error(ValueError, lambda: hvd.ProcessSet([]), "at least one")
    expect_error(ValueError, lambda: hvd.ProcessSet([1, 1]), "different")
    expect_error(ValueError, lambda: hvd.add_process_set([0, 7]), "7")
    expect_error(ValueError, lambda: hvd.add_process_set(range(hvd.size())), "duplicate", "global_process_set")
    for wrong in (3, [0, 1.5], ["0"], None):
        expect_error(ValueError, lambda: hvd.ProcessSet(wrong), "a list of process ranks or an mpi4py Comm")  # noqa: B023
    unknown = hvd.ProcessSet([0, 5])
    assert not hvd.remove_process_set(unknown) and not hvd.remove_process_set(hvd.global_process_set)
    assert hvd.global_process_set.ranks == list(range(hvd.size())) and hvd.global_process_set.included()


@check
def operations_stay_within_their_set() -> None:
    x = torch.tensor([2.0 ** hvd.rank()])
    for process_set in own_sets():
        ranks = process_set.ranks
        assert hvd.allreduce(x, op=hvd.Sum, name="x", process_set=process_set).item() == sum_of(process_set)
        rows = hvd.allgather(torch.full((hvd.rank() + 1,), hvd.rank()), process_set=process_set)
        assert rows.tolist() == [rank for rank in ranks for _ in range(rank + 1)]
        assert hvd.broadcast(x, root_rank=ranks[-1], process_set=process_set).item() == 2 ** ranks[-1]
        assert hvd.broadcast_object(hvd.rank(), root_rank=ranks[0], process_set=process_set) == ranks[0]
        assert hvd.allgather_object(hvd.rank(), process_set=process_set) == ranks
        parts = hvd.alltoall(torch.full((len(ranks), 2), hvd.rank()), process_set=process_set)
        assert parts[:, 1].tolist() == ranks
        part = hvd.reducescatter(x.expand(len(ranks), 3), op=hvd.Sum, process_set=process_set)
        assert part.tolist() == [[sum_of(process_set)] * 3]
        root = ranks[-1]
        rows = hvd.gather(torch.tensor([hvd.rank()]), root, process_set=process_set)
        assert rows.tolist() == (ranks if hvd.rank() == root else [])
        assert hvd.scatter(torch.tensor(ranks), root, process_set=process_set).tolist() == [hvd.rank()]
        hvd.barrier(process_set=process_set)
    assert hvd.allreduce(x, op=hvd.Sum, name="x").item() == 2 ** hvd.size() - 1


@check
def ranks_outside_a_set_and_roots_outside_are_refused() -> None:
    (left, _), last = sets(), hvd.size() - 1
    if not left.included():
        expect_error(ValueError, lambda: hvd.allreduce(torch.ones(1), name="outside", process_set=left))
    else:
        expect_error(
            ValueError,
            lambda: hvd.broadcast(torch.ones(1), root_rank=last, name="outside", process_set=left),
            str(last),
        )
    hvd.barrier()


@check
def overlapping_sets_do_not_deadlock() -> None:
    """Ranks in both submit in an order that no neighbour knows."""
    for step in range(30):
        order = [*own_sets(), hvd.global_process_set]
        if (step + hvd.rank()) % 2:
            order.reverse()
        handles = [(s, hvd.allreduce_async(torch.ones(100), op=hvd.Sum, name="overlap", process_set=s)) for s in order]
        for process_set, handle in handles:
            assert (handle.synchronize() == process_set.size()).all()


@check
def an_optimizer_keeps_to_its_set() -> None:
    left, _ = sets()
    torch.manual_seed(0)
    model = torch.nn.Linear(3, 1)
    optimizer = hvd.DistributedOptimizer(
        torch.optim.SGD(model.parameters(), lr=1.0), named_parameters=model.named_parameters(), process_set=left
    )
    before = model.weight.detach().clone()
    (model(torch.ones(3)) * hvd.rank()).sum().backward()
    optimizer.step()
    mean = sum(left.ranks) / len(left.ranks)
    torch.testing.assert_close(model.weight, before - (mean if left.included() else hvd.rank()))


@check
def gradients_of_a_set_are_averaged_in_it() -> None:
    for process_set in own_sets():
        x = torch.ones(2, requires_grad=True)
        (hvd.allgather(x, process_set=process_set) * hvd.rank()).sum().backward()
        assert (x.grad == sum(process_set.ranks) / len(process_set.ranks)).all()


@check
def in_the_steady_state_the_coordinator_hears_nothing() -> None:
    """With varying allgather rows, unnamed operations, two overlapping sets, an optimizer, and objects of varying
    size."""
    model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Linear(8, 2))
    hvd.broadcast_parameters(model.state_dict(), 0)
    optimizer = hvd.DistributedOptimizer(
        torch.optim.SGD(model.parameters(), lr=0.01), named_parameters=model.named_parameters()
    )

    def step(number: int) -> None:
        optimizer.zero_grad()
        model(torch.randn(4, 8)).sum().backward()
        optimizer.step()
        rows = (number + hvd.rank()) % 4
        hvd.allgather(torch.ones(rows, 3), name="rows")
        hvd.allreduce(torch.ones(number % 5 + 1))
        hvd.allgather(torch.ones(rows))
        for process_set in own_sets():
            hvd.allreduce(torch.ones(10), name="set", process_set=process_set)
            hvd.broadcast(torch.ones(3), root_rank=process_set.ranks[0], process_set=process_set)
        hvd.grouped_allreduce([torch.ones(2), torch.ones(3)], name="grouped")
        hvd.broadcast_object("x" * number if hvd.rank() == 0 else None)
        hvd.barrier()

    for number in range(10):
        step(number)
    hvd.barrier()
    before = hvd.counters()
    for number in range(100):
        step(number)
    after = hvd.counters()
    assert after.coordinator_messages == before.coordinator_messages, (before, after)
    assert after.submissions - before.submissions >= 100 * 12


@check
def sets_are_removed_and_made_again() -> None:
    left, right = sets()
    assert hvd.remove_process_set(left) and left.process_set_id is None and left.size() is None
    expect_error(ValueError, lambda: hvd.allreduce(torch.ones(1), process_set=left), "not registered")
    hvd.add_process_set(left)
    if left.included():
        assert hvd.allreduce(torch.ones(1), op=hvd.Sum, name="x", process_set=left).item() == left.size()
    hvd.remove_process_set(left)
    hvd.remove_process_set(right)
    ends = hvd.add_process_set([hvd.size() - 1, 0] if hvd.size() > 2 else [0])
    if ends.included():
        assert hvd.allreduce(torch.ones(1), op=hvd.Sum, name="x", process_set=ends).item() == ends.size()
    hvd.remove_process_set(ends)
    assert not hvd.remove_process_set(ends)


@check
def results_outlive_their_set() -> None:
    """They are complete when the set is removed, and collected afterwards."""
    ranks = [0, hvd.size() - 1] if hvd.size() > 2 else [0]
    ends = hvd.add_process_set(ranks)
    mine = torch.full((2, 2), float(hvd.rank()))
    handles = []
    if ends.included():
        handles = [
            hvd.allgather_async(mine, process_set=ends),
            hvd.grouped_allgather_async([mine, mine], process_set=ends),
            hvd.alltoall_async(mine, [1] * len(ranks), process_set=ends),
            hvd.gather_async(mine, 0, process_set=ends),
            hvd.scatter_async(mine, 0, process_set=ends),
        ]
    while not all(hvd.poll(handle) for handle in handles):
        pass
    hvd.barrier()
    hvd.remove_process_set(ends)
    if handles:
        everyone = torch.tensor(ranks, dtype=torch.float32).repeat_interleave(2).view(-1, 1).expand(-1, 2)
        gathered, grouped, (exchanged, rows), rooted, scattered = map(hvd.synchronize, handles)
        assert torch.equal(gathered, everyone) and all(torch.equal(each, everyone) for each in grouped)
        assert torch.equal(exchanged, everyone[::2]) and rows.tolist() == [1] * len(ranks)
        assert torch.equal(rooted, everyone if hvd.rank() == 0 else everyone[:0])
        assert torch.equal(scattered, torch.zeros(2 // len(ranks), 2))
