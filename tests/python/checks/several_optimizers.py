"""Programs in which several DistributedOptimizers have the same parameters, or get parameters late at the same time."""

from typing import Any, Callable, Dict, List

import farandole.torch as hvd
import torch
from harness import Checks, expect_error
from torch import nn
from training_loops import STEPS, Loop, expect_same_bits

check = Checks()

OPTIONS: Dict[str, Dict[str, Any]] = {
    "alone": {},
    "in groups": {"groups": 2},
    "compressed": {"compression": hvd.Compression.bf16},
    "without an arena": {"gradient_arena": False},
    "a sum": {"op": hvd.Sum},
}


def wrap(loop: Loop, optimizer: torch.optim.Optimizer, prefix: str = "") -> Any:
    """Names begin with the prefix."""
    if not loop.on_rank:
        return optimizer
    named = [(f"{prefix}{name}", parameter) for name, parameter in loop.model.named_parameters()]
    return hvd.DistributedOptimizer(optimizer, named, **loop.options)


def step(loop: Loop, number: int, *optimizers: Any) -> None:
    loop.model.zero_grad(set_to_none=number % 2 == 0)
    loss = loop.loss(number)
    (loss / hvd.size() if loop.options.get("op") == hvd.Sum else loss).backward()
    for optimizer in optimizers:
        optimizer.step()


def adam(loop: Loop) -> torch.optim.Optimizer:
    return torch.optim.Adam(loop.model.parameters(), lr=0.01)


def the_same_one_is_wrapped_again(loop: Loop, kept: List[Any]) -> None:
    for number in range(STEPS):
        if number % 2 == 1:
            kept.append(loop.optimizer)
            loop.optimizer = loop.wrap(loop.inner)
        step(loop, number, loop.optimizer)


def each_phase_has_its_own(loop: Loop, kept: List[Any]) -> None:
    for number in range(STEPS):
        if number == 3:
            kept.append(loop.optimizer)
            loop.optimizer = wrap(loop, adam(loop), "second.")
        step(loop, number, loop.optimizer)


def one_is_wrapped_between_backward_and_step(loop: Loop, kept: List[Any]) -> None:
    for number in range(STEPS):
        loop.model.zero_grad()
        if number == 3:
            loop.loss(99).backward()
            kept.append(loop.optimizer)
            loop.optimizer = wrap(loop, adam(loop), "second.")
        step(loop, number, loop.optimizer)


def the_first_is_wrapped_again_in_the_third_phase(loop: Loop, kept: List[Any]) -> None:
    second = adam(loop)
    for number in range(STEPS):
        if number in (2, 4):
            kept.append(loop.optimizer)
            loop.optimizer = wrap(loop, second if number == 2 else loop.inner)
        step(loop, number, loop.optimizer)


def a_group_goes_from_one_to_the_other_and_back(loop: Loop, kept: List[Any]) -> None:
    groups = [{"params": list(loop.model[index].parameters())} for index in (0, 2)]
    first = wrap(loop, torch.optim.SGD(groups, lr=0.1), "first.")
    second = wrap(loop, torch.optim.SGD(loop.model[4].parameters(), lr=0.2), "second.")
    for number in range(STEPS):
        if number in (2, 4):
            giving, taking = (first, second) if number == 2 else (second, first)
            taking.add_param_group({"params": giving.param_groups.pop()["params"]})
        step(loop, number, first, second)


PROGRAMS: Dict[str, Callable[[Loop, List[Any]], None]] = {
    each.__name__: each
    for each in (
        the_same_one_is_wrapped_again,
        each_phase_has_its_own,
        one_is_wrapped_between_backward_and_step,
        the_first_is_wrapped_again_in_the_third_phase,
        a_group_goes_from_one_to_the_other_and_back,
    )
}


@check.each(*((program, how) for program in PROGRAMS for how in OPTIONS))
def the_optimizer_that_was_made_last_reduces(program: str, how: str) -> None:
    """Horovod: both reduce, one after the other or at the same time."""
    ranks, alone = Loop(True, **OPTIONS[how]), Loop(False)
    kept: List[Any] = []
    for loop in (ranks, alone):
        PROGRAMS[program](loop, kept)
    expect_same_bits(ranks)
    tolerance = {"rtol": 0.1, "atol": 0.02} if how == "compressed" else {"rtol": 1e-9, "atol": 1e-11}
    torch.testing.assert_close(ranks.numbers(), alone.numbers(), **tolerance)


@check.each((hvd.Average, hvd.Average), (hvd.Average, hvd.Adasum), (hvd.Adasum, hvd.Average))
def a_step_of_one_whose_parameters_another_has_is_refused(first: int, second: int) -> None:
    model = nn.Linear(3, 2)
    optimizers = [
        hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1), model.named_parameters(), op=op)
        for op in (first, second)
    ]
    model(torch.ones(1, 3)).sum().backward()
    if hvd.size() == 1:
        optimizers[0].step()
        return
    for _ in range(2):
        expect_error(ValueError, optimizers[0].step, "weight", "made later")
    optimizers[1].step()
    assert hvd.allreduce(torch.ones(1), op=hvd.Sum).item() == hvd.size(), "the job goes on"


@check
def two_that_combine_steps_may_take_turns() -> None:
    """op=Adasum: nothing of them runs within backward."""
    loop = Loop(True, op=hvd.Adasum)
    both = [loop.optimizer, loop.wrap(loop.inner)]
    for number in range(STEPS):
        step(loop, number, both[number % 2])
        expect_same_bits(loop)


@check.each("wrapped", "wrapper")
def two_with_names_of_their_own_get_groups_in_one_step(way: str) -> None:
    """The names are those that were given; none has two owners."""
    models = [nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4)) for _ in range(2)]
    inner = [torch.optim.SGD(model[0].parameters(), lr=0.1) for model in models]
    optimizers = [
        hvd.DistributedOptimizer(each, model.named_parameters(prefix))
        for each, model, prefix in zip(inner, models, "gd")
    ]
    others = [nn.Linear(4, 4) for _ in models]
    for model in [*models, *others]:
        hvd.broadcast_parameters(model.state_dict(), 0)
    for number in range(4):
        if number == 2:
            for model, other, added in zip(models, others, inner if way == "wrapped" else optimizers):
                added.add_param_group({"params": model[1].parameters()})
                added.add_param_group({"params": other.parameters()})
        for optimizer in optimizers:
            optimizer.zero_grad()
        rows = torch.full((2, 4), hvd.rank() + 1.0)
        sum(other(model(rows)).pow(2).mean() for model, other in zip(models, others)).backward()
        for optimizer in optimizers:
            optimizer.step()
    names = [optimizer._parameter_names for optimizer in optimizers]
    assert names[0][models[0][1].weight] == "g.1.weight" and names[1][models[1][1].bias] == "d.1.bias", names
    assert set(names[0].values()).isdisjoint(names[1].values()), names
    for model in [*models, *others]:
        for parameter in model.parameters():
            every = hvd.allgather(parameter.detach()[None])
            assert all(torch.equal(each, every[0]) for each in every), "replicas differ"


@check
def one_whose_process_set_is_gone_concerns_no_other() -> None:
    if hvd.size() == 1:  # its set would have all ranks
        return
    own = hvd.add_process_set([0])
    kept = hvd.DistributedOptimizer(
        torch.optim.SGD(nn.Linear(2, 2).parameters(), lr=0.1), op=hvd.Adasum, process_set=own
    )
    hvd.remove_process_set(own)
    model = nn.Linear(2, 2)
    hvd.broadcast_parameters(model.state_dict(), 0)
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1), model.named_parameters())
    model(torch.full((1, 2), hvd.rank() + 1.0)).sum().backward()
    optimizer.step()
    every = hvd.allgather(model.weight.detach()[None])
    assert all(torch.equal(each, every[0]) for each in every), "replicas differ"
    assert kept.param_groups
