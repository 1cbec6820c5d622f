"""Parameters that ranks add to an optimizer after its first step."""

from typing import Any, Callable, Dict, List, Optional

import farandole.torch as hvd
import torch
from harness import Checks
from torch import nn
from training_loops import Loop, expect_same_bits

from .stray_gradients import expect_same_parameters

check = Checks()

GROUPS: Dict[str, Dict[str, Any]] = {
    "alone": {},
    "in groups": {"groups": 2},
    "in one group": {"groups": 1},
    "compressed": {"compression": hvd.Compression.bf16},
    "without an arena": {"gradient_arena": False},
    "Adasum": {"op": hvd.Adasum},
}
# Those that remember something are made for each optimizer.
EXCHANGES: Dict[str, Callable[[], Any]] = {
    "int8": lambda: hvd.Compression.int8(min_elements=10),
    "powersgd": lambda: hvd.Compression.powersgd(rank=1, start_step=1, min_ratio=1),
    "powersgd later": lambda: hvd.Compression.powersgd(rank=1, start_step=99, min_ratio=1),
}
ALL = (*GROUPS, *EXCHANGES)
WAYS = {"A": "wrapper", "B": "wrapped", "C": "between"}


def options_of(how: str) -> Dict[str, Any]:
    return {"compression": EXCHANGES[how]()} if how in EXCHANGES else GROUPS[how]


def add(loop: Loop, way: str) -> None:
    chosen = loop.optimizer if way == "wrapper" else loop.inner
    chosen.add_param_group({"params": list(loop.late.parameters())})  # type: ignore[attr-defined]


def late_layer(loop: Loop) -> nn.Module:
    """Another layer of the loop, alike on all ranks."""
    late = nn.Linear(6, 6).double()
    hvd.broadcast_parameters(late.state_dict(), 0)
    loop.late = late  # type: ignore[attr-defined]
    return late


def train(loop: Loop, late: nn.Module, way: str, when: Optional[int], see: Callable[[], None] = lambda: None) -> None:
    """Five steps, after each of which `see` is called. This rank adds the layer in step `when`; None: never. `way`: to the
    wrapper, to the optimizer that was wrapped, or between backward() and step()."""
    for step in range(5):
        if step == when and way != "between":
            add(loop, way)
        loop.optimizer.zero_grad()
        has_late = when is not None and step >= when
        loop.loss(step, model=nn.Sequential(late, loop.model) if has_late else None).backward()
        if step == when and way == "between":
            add(loop, "wrapper")
        loop.optimizer.step()
        see()


def refusal(how: str, way: str, when: Optional[int]) -> str:
    """The words of the ValueError that ends the training, which are the same on all ranks."""
    loop = Loop(True, **options_of(how))
    late = late_layer(loop)
    errors: List[str] = []
    try:
        train(loop, late, way, when)
    except ValueError as error:
        errors.append(str(error))
    everyone = hvd.allgather_object(errors)
    assert len(everyone[0]) == 1 and everyone[0] == everyone[-1], everyone
    return errors[0]


@check.each(*((how, way) for how in ALL for way in ("wrapper", "wrapped", "between")))
def a_group_that_one_rank_adds_is_refused_on_all(how: str, way: str) -> None:
    """Horovod: that rank's group is its own."""
    if hvd.size() == 1:
        return
    odd = hvd.size() - 1
    words = refusal(how, way, 2 if hvd.rank() == odd else None)
    assert f"rank {odd} trains this parameter, and the optimizer of rank 0 does not have it" in words, words
    assert hvd.allreduce(torch.ones(1), op=hvd.Sum).item() == hvd.size(), "the job goes on"


@check.each(*((how, ways) for how in ALL for ways in ("C2 C3", "C2 A3", "A2 C3", "A2 B3", "B2 A3")))
def a_group_that_ranks_add_in_different_steps_is_refused_on_all(how: str, ways: str) -> None:
    """Letters as in WAYS; the number is the step's."""
    if hvd.size() == 1:
        return
    way, when = ways.split()[min(hvd.rank(), 1)]
    words = refusal(how, WAYS[way], int(when))
    assert "does not have it" in words or "in the same step" in words, words


@check.each(*((how, ways) for how in ALL for ways in ("AB", "BC", "CA", "CC", "CAA")))
def ranks_may_add_a_group_in_different_ways(how: str, ways: str) -> None:
    """Letters as in WAYS."""
    loop = Loop(True, **options_of(how))
    late = late_layer(loop)
    train(loop, late, WAYS[ways[hvd.rank() % len(ways)]], 2, lambda: expect_same_bits(loop))
    expect_same_parameters(late)


@check.each(*((how, odd) for how in ("alone", "in groups", "compressed", "int8", "powersgd") for odd in (0, -1)))
def a_group_is_added_after_a_rank_has_joined(how: str, odd: int) -> None:
    """Between backward() and step(). That rank adds the group afterwards."""
    loop = Loop(True, **options_of(how))
    late = late_layer(loop)
    has_joined = hvd.size() > 1 and hvd.rank() == odd % hvd.size()
    for step in range(2 if has_joined else 5):
        loop.optimizer.zero_grad()
        loop.loss(step, model=nn.Sequential(late, loop.model) if step >= 3 else None).backward()
        if step == 3:
            add(loop, "wrapper")
        loop.optimizer.step()
    last = hvd.join()
    if has_joined:
        add(loop, "wrapper")
    for model in (late, loop.model):
        hvd.broadcast_parameters(model.state_dict(), last)
    hvd.broadcast_optimizer_state(loop.optimizer, last)
    train_on(loop, late)


def train_on(loop: Loop, late: nn.Module) -> None:
    for step in range(3):
        loop.optimizer.zero_grad()
        loop.loss(step, model=nn.Sequential(late, loop.model)).backward()
        loop.optimizer.step()
        expect_same_bits(loop)
        expect_same_parameters(late)


def trained_alike(model: nn.Module, optimizer: Any, steps: int = 4) -> None:
    for step in range(steps):
        optimizer.zero_grad()
        model(torch.full((2, 3), hvd.rank() + step + 1.0)).square().mean().backward()
        optimizer.step()
        expect_same_parameters(model)


@check.each(*((how, step) for how in ALL for step in (0, 2)))
def ranks_may_have_added_their_groups_in_other_calls(how: str, step: int) -> None:
    """Before the first step, as a worker that joins a job has them from its start; or in a later one, in which rank 0's
    optimizer finds all of them at once."""
    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(3, 64), *(nn.Linear(64, 64) for _ in range(3)))
    one_by_one = [list(layer.parameters()) for layer in (model[2], model[3], model[0], model[1])]
    first = one_by_one[: 1 if step else 4 if hvd.rank() == hvd.size() - 1 else 2]
    inner = torch.optim.SGD([{"params": group} for group in first], lr=0.1, momentum=0.9)
    optimizer = hvd.DistributedOptimizer(inner, model.named_parameters(), **options_of(how))
    before = hvd.counters().arena_bytes
    if step:
        trained_alike(model, optimizer, step)
    for group in one_by_one[len(first) :]:
        (inner if hvd.rank() == 0 else optimizer).add_param_group({"params": group})
    trained_alike(model, optimizer)
    if how == "alone" and hvd.size() == hvd.local_size() > 1:
        assert hvd.counters().arena_bytes > before, "gradients have places"


@check.each(*ALL)
def a_frozen_group_that_one_rank_has_added_concerns_no_other(how: str) -> None:
    model, late = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 2)), nn.Linear(2, 2).requires_grad_(False)
    hvd.broadcast_parameters(model.state_dict(), 0)
    inner = torch.optim.SGD(model.parameters(), lr=0.1)
    optimizer = hvd.DistributedOptimizer(inner, model.named_parameters(), **options_of(how))
    trained_alike(model, optimizer, 2)
    if hvd.rank() == 0:
        optimizer.add_param_group({"params": late.parameters()})
    trained_alike(model, optimizer)
