"""Process sets, and the steady state: three ranks, of which 0 and 1, 1 and 2, and all three talk among themselves."""

import farandole.torch as hvd
import torch
from harness import Checks, expect_error

check = Checks()

LEFT, RIGHT = hvd.ProcessSet([0, 1]), hvd.ProcessSet([2, 1])


@check
def sets_are_registered_by_all_ranks() -> None:
    assert LEFT.size() is None and LEFT.rank() is None and LEFT.included() == (hvd.rank() < 2)
    hvd.add_process_set(LEFT)
    assert hvd.add_process_set(RIGHT) is RIGHT
    assert LEFT.size() == RIGHT.size() == 2 and RIGHT.ranks == [1, 2]
    for process_set in (LEFT, RIGHT):
        if process_set.included():
            assert process_set.rank() == process_set.ranks.index(hvd.rank())
        else:
            expect_error(ValueError, process_set.rank, "Process is not part of provided process set")
    assert RIGHT.included() == (hvd.rank() > 0)


@check
def wrong_sets_are_refused() -> None:
    expect_error(ValueError, lambda: hvd.add_process_set([0, 1]), "registered already")
    expect_error(ValueError, lambda: hvd.add_process_set(LEFT), "registered already")
    expect_error(ValueError, lambda: hvd.ProcessSet([]), "at least one")
    expect_error(ValueError, lambda: hvd.ProcessSet([1, 1]), "different")
    expect_error(ValueError, lambda: hvd.add_process_set([0, 7]), "7")
    expect_error(ValueError, lambda: hvd.add_process_set(range(hvd.size())), "duplicate", "global_process_set")
    for wrong in (3, [0, 1.5], ["0"], None):
        expect_error(ValueError, lambda: hvd.ProcessSet(wrong), "a list of process ranks or an mpi4py Comm")  # noqa: B023
    assert not hvd.remove_process_set(hvd.ProcessSet([2])) and not hvd.remove_process_set(hvd.global_process_set)
    assert hvd.global_process_set.ranks == [0, 1, 2] and hvd.global_process_set.included()


@check
def ranks_that_ask_for_different_sets_are_both_told() -> None:
    expect_error(ValueError, lambda: hvd.add_process_set([0] if hvd.rank() == 0 else [0, 2]), "0", "2")
    assert hvd.allreduce(torch.ones(1), op=hvd.Sum).item() == 3


@check
def operations_stay_within_their_set() -> None:
    x = torch.tensor([2.0 ** hvd.rank()])
    if LEFT.included():
        assert hvd.allreduce(x, op=hvd.Sum, name="x", process_set=LEFT).item() == 3
        assert hvd.allgather(torch.full((hvd.rank() + 1,), hvd.rank()), process_set=LEFT).tolist() == [0, 1, 1]
    if RIGHT.included():
        assert hvd.allreduce(x, op=hvd.Sum, name="x", process_set=RIGHT).item() == 6
        assert hvd.broadcast(x, root_rank=2, process_set=RIGHT).item() == 4
        assert hvd.broadcast_object(hvd.rank(), root_rank=1, process_set=RIGHT) == 1
        assert hvd.allgather_object(hvd.rank(), process_set=RIGHT) == [1, 2]
        hvd.barrier(process_set=RIGHT)
    assert hvd.allreduce(x, op=hvd.Sum, name="x").item() == 7


@check
def ranks_outside_a_set_and_roots_outside_are_refused() -> None:
    if not LEFT.included():
        expect_error(ValueError, lambda: hvd.allreduce(torch.ones(1), name="outside", process_set=LEFT))
    else:
        expect_error(
            ValueError, lambda: hvd.broadcast(torch.ones(1), root_rank=2, name="outside", process_set=LEFT), "2"
        )
    hvd.barrier()


@check
def overlapping_sets_do_not_deadlock() -> None:
    """Rank 1 is in both, and submits in an order that neither neighbour knows."""
    for step in range(30):
        sets = [
            s
            for s in ((LEFT, RIGHT, hvd.global_process_set) if step % 2 else (hvd.global_process_set, RIGHT, LEFT))
            if s.included()
        ]
        if hvd.rank() == 2:
            sets.reverse()
        handles = [(s, hvd.allreduce_async(torch.ones(100), op=hvd.Sum, name="overlap", process_set=s)) for s in sets]
        for process_set, handle in handles:
            assert (handle.synchronize() == process_set.size()).all()


@check
def an_optimizer_keeps_to_its_set() -> None:
    torch.manual_seed(0)
    model = torch.nn.Linear(3, 1)
    optimizer = hvd.DistributedOptimizer(
        torch.optim.SGD(model.parameters(), lr=1.0), named_parameters=model.named_parameters(), process_set=LEFT
    )
    before = model.weight.detach().clone()
    (model(torch.ones(3)) * hvd.rank()).sum().backward()
    optimizer.step()
    torch.testing.assert_close(model.weight, before - (2.0 if hvd.rank() == 2 else 0.5))


@check
def gradients_of_a_set_are_averaged_in_it() -> None:
    if RIGHT.included():
        x = torch.ones(2, requires_grad=True)
        (hvd.allgather(x, process_set=RIGHT) * hvd.rank()).sum().backward()
        assert (x.grad == 1.5).all()


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
        for process_set in (LEFT, RIGHT):
            if process_set.included():
                hvd.allreduce(torch.ones(10), name="set", process_set=process_set)
                hvd.broadcast(torch.ones(3), root_rank=1, process_set=process_set)
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
    assert hvd.remove_process_set(LEFT) and LEFT.process_set_id is None and LEFT.size() is None
    expect_error(ValueError, lambda: hvd.allreduce(torch.ones(1), process_set=LEFT), "not registered")
    hvd.add_process_set(LEFT)
    if LEFT.included():
        assert hvd.allreduce(torch.ones(1), op=hvd.Sum, name="x", process_set=LEFT).item() == 2
    hvd.remove_process_set(RIGHT)
    ends = hvd.add_process_set([2, 0])
    if ends.included():
        assert hvd.allreduce(torch.ones(1), op=hvd.Sum, name="x", process_set=ends).item() == 2
    hvd.remove_process_set(ends)
    assert not hvd.remove_process_set(ends)
