"""Gradients that are missing, that change while they travel, that fail, or that have a sign of their own; and what
libraries see of the optimizer that reduces them."""

import copy
import pickle
import warnings
from typing import Any, Callable, Dict, List

import farandole.torch as hvd
import torch
from harness import Checks, expect_error
from torch import nn
from training_loops import STEPS, Loop, expect_same_bits

check = Checks()


@check.each("frozen", "unused", "without gradient", "frozen in a group", "unused in a group", "frozen compressed")
def a_layer_is_left_out_on_one_rank_for_one_step(kind: str) -> None:
    """Layer drop, stochastic depth, a branch. Horovod: the same; the rank contributes zeros."""
    options = {"group": {"groups": 2}, "compressed": {"compression": hvd.Compression.bf16}}.get(kind.split(" ")[-1], {})
    loop = Loop(True, **options)
    for step in range(STEPS):
        is_out = step in (2, 4) and hvd.rank() == 0
        loop.model[0].requires_grad_(not (is_out and kind.startswith("frozen")))
        loop.optimizer.zero_grad()
        if is_out and kind.startswith("unused"):
            loop.model[2:](torch.ones(3, 8, dtype=torch.float64)).sum().backward()
        elif not (is_out and kind == "without gradient"):
            loop.loss(step).backward()
        loop.optimizer.step()
        expect_same_bits(loop)


@check
def a_missing_gradient_counts_as_zero() -> None:
    loop = Loop(True)
    for is_frozen in (False, True):
        loop.first().requires_grad_(not (is_frozen and hvd.rank() == 0))
        loop.optimizer.zero_grad()
        loss = sum((float(hvd.rank() + 1) * parameter).sum() for parameter in loop.model.parameters())
        loss.backward()
        loop.synchronize()
        total = sum(range(1, hvd.size() + 1)) - is_frozen
        if total:
            assert loop.first().grad.unique().tolist() == [total / hvd.size()]
        loop.step()
    expect_same_bits(loop)


@check.each("clipped", "replaced", "dropped", "compressed", "grouped")
def gradients_that_change_while_they_travel_are_told_of_once(kind: str) -> None:
    """Horovod: clipping has no effect or half an effect, without a word; a dropped gradient ends the program."""
    # Writing to memory that other ranks reduce at that moment may undo some of it, as the warning says.
    is_shared = kind in ("clipped", "grouped")
    if hvd.size() == 1:
        return
    options = {"compressed": {"compression": hvd.Compression.fp16}, "grouped": {"groups": 1}}.get(kind, {})
    loop = Loop(True, **options)
    told: List[Any] = []
    for step in range(4):
        loop.optimizer.zero_grad()
        loop.loss(step).backward()
        for parameter in loop.model.parameters():
            if kind == "replaced":
                parameter.grad = parameter.grad * 0.5
            elif kind == "dropped":
                parameter.grad = None
            else:
                parameter.grad.mul_(1.0)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            loop.optimizer.step()
        told += caught
        if not is_shared:
            expect_same_bits(loop)
    assert len(told) == 1, [str(each.message) for each in told]
    words = str(told[0].message)
    assert "optimizer.synchronize()" in words and "with optimizer.skip_synchronize():" in words, words


@check
def gradients_with_the_negative_bit_count_as_what_they_are() -> None:
    """On one rank, on all, and of a parameter that has it itself. Horovod 0.28.1 loses the sign."""
    for ranks in ([0], range(hvd.size())):
        for kept in (True, False):
            parameter = nn.Parameter(torch.zeros(4))
            optimizer = hvd.DistributedOptimizer(torch.optim.SGD([parameter], lr=1.0), gradient_arena=kept)
            for _ in range(3):
                values = torch.full((4,), hvd.rank() + 1.0)
                parameter.grad = torch._neg_view(-values) if hvd.rank() in ranks else values
                optimizer.step()
            mean = (hvd.size() + 1) / 2
            torch.testing.assert_close(parameter.detach(), torch.full((4,), -3 * mean))
    parameter = nn.Parameter(torch._neg_view(torch.full((4,), hvd.rank() + 1.0)))
    hvd.broadcast_parameters([parameter], 0)
    assert parameter.tolist() == [-1.0] * 4, parameter
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD([parameter], lr=1.0))
    for _ in range(2):
        optimizer.zero_grad()
        (parameter * (hvd.rank() + 1.0)).sum().backward()
        optimizer.step()
    torch.testing.assert_close(parameter.detach(), torch.full((4,), -1.0 - (hvd.size() + 1)))


@check
def all_gradients_are_waited_for_also_when_one_fails() -> None:
    """So that no sum lands in a gradient afterwards."""
    if hvd.size() == 1:
        return
    weights = [nn.Parameter(torch.ones(300_000)) for _ in range(3)]
    for weight in (weights[0], weights[2]):
        weight.grad = torch.full((300_000,), hvd.rank() + 1.0)
    weights[1].grad = torch.ones(300_000).to_sparse()  # which has no maximum
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(weights, lr=1.0), op=hvd.Max)
    expect_error(ValueError, optimizer.synchronize, "Max")
    for weight in (weights[0], weights[2]):
        assert weight.grad.unique().tolist() == [hvd.size()], "it was not reduced when synchronize() returned"


@check
def libraries_find_horovods_attributes() -> None:
    loop = Loop(True)
    optimizer, named = loop.optimizer, dict(loop.model.named_parameters())
    parameters = set(loop.model.parameters()) if hvd.size() > 1 else set()
    assert {name: parameter for parameter, name in optimizer._parameter_names.items()} == named
    assert optimizer._requires_update == parameters and not optimizer._handles
    assert set(optimizer._allreduce_delay.values()) == {1} and optimizer._compression is hvd.Compression.none
    loop.loss(0).backward()
    assert set(optimizer._handles) == parameters
    for parameter, (handle, _) in optimizer._handles.items():
        assert hvd.synchronize(handle) is parameter.grad and hvd.poll(handle)
    optimizer.synchronize()
    assert optimizer._synchronized and not optimizer._handles
    loop.step()
    optimizer.zero_grad()
    if hvd.size() > 1:
        loop.first().grad = torch.full_like(loop.first(), float(hvd.rank()))
        handle, _ = optimizer._allreduce_grad_async(loop.first())
        assert hvd.synchronize(handle).unique().tolist() == [(hvd.size() - 1) / 2]
    optimizer.step()
    expect_same_bits(loop)


_COPIES: Dict[str, Callable[[Any], Any]] = {"copy": copy.copy, "deepcopy": copy.deepcopy, "pickle": pickle.dumps}


@check.each(*_COPIES)
def an_optimizer_refuses_to_be_copied(how: str) -> None:
    """Horovod: the copy fails at its first step."""
    make = _COPIES[how]
    for options in ({}, {"op": hvd.Adasum}):
        expect_error(TypeError, lambda given=options: make(Loop(True, **given).optimizer), "state_dict()")


@check
def optimizers_without_names_are_told_to_take_some() -> None:
    """Ranks whose steps of two of them cross."""
    if hvd.size() == 1:
        return
    models = [nn.Linear(2, 2), nn.Linear(3, 3)]
    optimizers = [hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1)) for model in models]
    mine = 0 if hvd.rank() == 0 else 1
    models[mine](torch.ones(2 + mine)).sum().backward()
    expect_error(ValueError, optimizers[mine].step, "noname", "named_parameters")


@check
def combined_steps_follow_groups_and_frozen_parameters() -> None:
    """op=Adasum."""
    loop = Loop(True, op=hvd.Adasum)
    late = nn.Linear(6, 6).double()
    hvd.broadcast_parameters(late.state_dict(), 0)
    for step in range(STEPS):
        if step == 2:
            loop.inner.add_param_group({"params": list(late.parameters())})
        loop.model[2].requires_grad_(step != 3 or hvd.rank() != 0)
        loop.optimizer.zero_grad()
        loop.loss(step, model=nn.Sequential(late, loop.model)).backward()
        loop.optimizer.step()
    loop.model.add_module("late", late)
    expect_same_bits(loop)


FROZEN: Dict[str, Dict[str, Any]] = {
    "alone": {},
    "in a list of groups": {"groups": "lists"},
    "in a number of groups": {"groups": 2},
    "in more groups than parameters": {"groups": 99},
    "compressed": {"compression": hvd.Compression.bf16},
    "int8": {"compression": hvd.Compression.int8},
    "with op=Adasum": {"op": hvd.Adasum},
}


@check.each(*FROZEN)
def a_layer_is_frozen_on_one_rank_when_the_optimizer_is_wrapped(kind: str) -> None:
    """Horovod: the others wait for ever."""
    options = dict(FROZEN[kind])

    def wrap(model: nn.Module, is_frozen: bool) -> Any:
        model[0].requires_grad_(not is_frozen)
        if options.get("groups") == "lists":
            parameters = list(model.parameters())
            return hvd.DistributedOptimizer(
                torch.optim.SGD(parameters, lr=0.1, momentum=0.9),
                named_parameters=model.named_parameters(),
                groups=[parameters[:2], parameters[2:5]],
            )
        inner = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        return hvd.DistributedOptimizer(inner, named_parameters=model.named_parameters(), **options)

    loop = Loop(True)
    before = loop.first().detach().clone()
    loop.optimizer = wrap(loop.model, hvd.rank() == 0)
    for step in range(STEPS):
        if step == 3:  # a rank may change its mind
            loop.model[0].requires_grad_(hvd.rank() != hvd.size() - 1)
        loop.optimizer.zero_grad()
        loop.loss(step).backward()
        loop.optimizer.step()
        expect_same_bits(loop)
    assert hvd.size() == 1 or not torch.equal(loop.first(), before), "the ranks that train it have not"


@check.each("alone", "in a list of groups", "with op=Adasum")
def a_layer_that_all_have_frozen_is_trained_by_one_rank_for_one_step(kind: str) -> None:
    """As where layers are thawed by what a rank has measured. Horovod: that rank's step is its own."""
    options: Dict[str, Any] = {"op": hvd.Adasum} if kind == "with op=Adasum" else {}
    loop = Loop(True)
    parameters = list(loop.model.parameters())
    loop.model[2].requires_grad_(False)
    if kind == "in a list of groups":
        options["groups"] = [parameters[:2], parameters[2:]]
    inner = torch.optim.SGD(parameters, lr=0.1, momentum=0.9)
    loop.optimizer = hvd.DistributedOptimizer(inner, named_parameters=loop.model.named_parameters(), **options)
    before = loop.model[2].weight.detach().clone()
    for step in range(STEPS):
        loop.model[2].requires_grad_(step == 3 and hvd.rank() == hvd.size() - 1)
        loop.optimizer.zero_grad()
        loop.loss(step).backward()
        loop.optimizer.step()
        expect_same_bits(loop)
        assert torch.equal(loop.model[2].weight, before) == (step < 3), step


@check.each("frozen", "unused")
def a_table_with_sparse_gradients_is_left_out_on_one_rank_at_first(kind: str) -> None:
    """Only the ranks that use it know that its gradients are sparse."""
    torch.manual_seed(0)
    table = nn.Embedding(10, 4, sparse=True)
    before = table.weight.detach().clone()
    table.weight.requires_grad_(not (kind == "frozen" and hvd.rank() == 0))
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(table.parameters(), lr=0.1), table.named_parameters())
    for step in range(3):
        optimizer.zero_grad()
        if hvd.rank() > 0 or step == 2:
            table.weight.requires_grad_(True)
            table(torch.tensor([hvd.rank(), 5])).sum().backward()
        optimizer.step()
        everyone = hvd.allgather(table.weight.detach().unsqueeze(0))
        assert all(torch.equal(each, everyone[0]) for each in everyone)
    rows = {5, *range(hvd.size())}
    changed = {row for row in range(10) if not torch.equal(table.weight[row], before[row])}
    assert changed == rows, (changed, rows)


@check
def ranks_whose_optimizers_have_other_parameters_are_told() -> None:
    """Horovod: each waits for the other's."""
    if hvd.size() == 1:
        return
    for options in ({"op": hvd.Adasum}, {"groups": 1}):
        model = nn.ModuleDict({"shared": nn.Linear(2, 2), ("first" if hvd.rank() == 0 else "second"): nn.Linear(2, 2)})
        optimizer = hvd.DistributedOptimizer(
            torch.optim.SGD(model.parameters(), lr=0.1), named_parameters=model.named_parameters(), **options
        )
        sum(layer(torch.ones(1, 2)).sum() for layer in model.values()).backward()
        expect_error(ValueError, optimizer.step, "first.", "rank 0 trains", "rank 1")
    assert hvd.allreduce(torch.ones(1), op=hvd.Sum).item() == hvd.size(), "the job goes on"


def wrap(model: nn.Module, **options: Any) -> Any:
    """An optimizer whose steps are the gradients."""
    inner = torch.optim.SGD(model.parameters(), lr=1.0)
    return hvd.DistributedOptimizer(inner, named_parameters=model.named_parameters(), **options)


def expect_same_parameters(model: nn.Module) -> None:
    for parameter in model.parameters():
        mine = parameter.detach().contiguous()
        assert all(torch.equal(mine, other) for other in hvd.allgather(mine.unsqueeze(0))), "replicas differ"


@check.each(*({"gradient_arena": kept, **more} for kept in (True, False) for more in ({}, {"groups": 1})))
def a_parameter_may_have_no_elements(options: Dict[str, Any]) -> None:
    """Of a head without classes, or an adapter of rank 0."""
    model = nn.ModuleDict({"wide": nn.Linear(3, 2), "empty": nn.Linear(3, 0), "row": nn.Linear(0, 2)})
    hvd.broadcast_parameters(model.state_dict(), 0)
    optimizer = wrap(model, **options)
    before = model["wide"].bias.detach().clone()
    for _ in range(3):
        optimizer.zero_grad()
        outputs = model["wide"](torch.ones(1, 3)).sum() + model["empty"](torch.ones(1, 3)).sum()
        (outputs + model["row"](torch.ones(1, 0)).sum()).backward()
        optimizer.step()
    torch.testing.assert_close(model["wide"].bias.detach(), before - 3)
    expect_same_parameters(model)


OVERLAPPING: Dict[str, Callable[[], torch.Tensor]] = {
    "expanded": lambda: torch.full((1, 1), hvd.rank() + 1.0).expand(3, 4),
    "expanded_rows": lambda: torch.full((1, 4), hvd.rank() + 1.0).expand(3, 4),
    "windows": lambda: torch.full((6,), hvd.rank() + 1.0).unfold(0, 4, 1),
}


@check.each(*((kind, how) for kind in OVERLAPPING for how in ("alone", "in a group", "compressed", "int8", "Adasum")))
def elements_of_a_gradient_may_share_memory(kind: str, how: str) -> None:
    """As torch.autograd.grad() of a sum leaves them. Horovod: the same."""
    options: Dict[str, Any] = {
        "in a group": {"groups": 1},
        "compressed": {"compression": hvd.Compression.bf16},
        "int8": {"compression": hvd.Compression.int8(min_elements=1)},
        "Adasum": {"op": hvd.Adasum},
    }.get(how, {})
    model = nn.Linear(4, 3)
    nn.init.zeros_(model.weight)
    optimizer = wrap(model, **options)
    for step in range(3):
        optimizer.zero_grad()
        # One rank has another gradient in the last step.
        model.weight.grad = OVERLAPPING[kind]() if step < 2 or hvd.rank() == 0 else OVERLAPPING[kind]().contiguous()
        optimizer.step()
    mean = (hvd.size() + 1) / 2
    if how != "Adasum":
        torch.testing.assert_close(model.weight.detach(), torch.full((3, 4), -3 * mean), rtol=0.02, atol=0)
    expect_same_parameters(model)


@check.each(*((when, how) for when in (0, 1, 2) for how in ("alone", "in a group", "compressed", "without an arena")))
def the_order_in_memory_may_be_that_of_one_rank(when: int, how: str) -> None:
    """From the step `when` on, also where the dimensions are of equal sizes. Horovod: elements are mixed up."""
    options: Dict[str, Any] = {
        "in a group": {"groups": 1},
        "compressed": {"compression": hvd.Compression.bf16},
        "without an arena": {"gradient_arena": False},
    }.get(how, {})
    torch.manual_seed(3)
    model = nn.Sequential(nn.Conv2d(3, 4, 3, bias=False), nn.Conv2d(4, 4, 2, bias=False)).double()
    odd = hvd.rank() == hvd.size() - 1
    optimizer = None
    for step in range(4):
        if step == when and odd:
            model.to(memory_format=torch.channels_last)
        if step == 3:  # the ranks change places
            model.to(memory_format=torch.contiguous_format if odd else torch.channels_last)
        optimizer = optimizer or wrap(model, **options)
        optimizer.zero_grad()
        before = [parameter.detach().clone() for parameter in model.parameters()]
        for number, parameter in enumerate(model.parameters()):
            if hvd.rank() > 0 or number > 0:  # of the others, one rank has none
                values = torch.arange(parameter.numel(), dtype=torch.float64).view(parameter.shape)
                (parameter * values * (hvd.rank() + 1)).sum().backward()
        optimizer.step()
        for number, (parameter, start) in enumerate(zip(model.parameters(), before)):
            total = sum(range(1, hvd.size() + 1)) - (number == 0)
            values = torch.arange(parameter.numel(), dtype=torch.float64).view(parameter.shape)
            limit = 0.02 if how == "compressed" else 1e-9
            torch.testing.assert_close(start - parameter, values * total / hvd.size(), rtol=limit, atol=limit)
        expect_same_parameters(model)


@check
def the_order_in_memory_is_agreed_upon_again_after_a_join() -> None:
    """A rank without a step before has agreed upon nothing."""
    model = nn.Conv2d(3, 4, 3, bias=False).to(memory_format=torch.channels_last)
    hvd.broadcast_parameters(model.state_dict(), 0)
    optimizer = wrap(model)
    values = torch.arange(model.weight.numel()).view(model.weight.shape).float()
    for steps in (0 if hvd.rank() == 0 else 2, 1):
        for _ in range(steps):
            optimizer.zero_grad()
            (model.weight * values).sum().backward()
            optimizer.step()
        hvd.join()
        hvd.broadcast_parameters(model.state_dict(), 0)
    if hvd.size() > 1:
        torch.testing.assert_close(model.weight.grad, values)


TABLES: Dict[str, Dict[str, Any]] = {
    "alone": {},
    "without an arena": {"gradient_arena": False},
    "in one group": {"groups": 1},
    "in groups": {"groups": 2},
    "in many groups": {"groups": 99},
    "beside groups": {"groups": "lists"},
    "compressed in a group": {"groups": 1, "compression": hvd.Compression.bf16},
    "made dense in a group": {"groups": 1, "sparse_as_dense": True},
}


@check.each(
    *((how, late) for how in TABLES for late in ("at first", "zeros at first", "later", "on all", "never alike"))
)
def a_table_with_sparse_gradients_is_used_late_on_one_rank(how: str, late: str) -> None:
    """After steps in which no rank has used it, so that its gradients were dense zeros. Horovod: waits for ever."""
    torch.manual_seed(0)
    model = nn.ModuleDict({"table": nn.Embedding(8, 4, sparse=True), "layer": nn.Linear(4, 2)})
    options = dict(TABLES[how])
    if options.get("groups") == "lists":
        options["groups"] = [list(model["layer"].parameters())]
    optimizer = wrap(model, **options)
    if late == "zeros at first":
        hvd.broadcast_optimizer_state(optimizer, root_rank=0)
    before = model["table"].weight.detach().clone()
    first = 0 if late.endswith("first") else 2
    for step in range(6):
        inputs = torch.ones(3, 4)
        if late != "zeros at first" or step > 0:
            optimizer.zero_grad()
        uses = step % hvd.size() == hvd.rank() if late == "never alike" else late == "on all" or hvd.rank() == 0
        if step == 5 or (step >= first and uses):
            inputs = model["table"](torch.tensor([1, 2, 2]))
        model["layer"](inputs).sum().backward()
        optimizer.step()
        expect_same_parameters(model)
        is_sparse = step > 0 if late == "zeros at first" else step >= first
        if hvd.size() > 1 and is_sparse and "sparse_as_dense" not in options:
            assert model["table"].weight.grad.layout is torch.sparse_coo, (step, model["table"].weight.grad)
    changed = [row for row in range(8) if not torch.equal(model["table"].weight[row], before[row])]
    assert changed == [1, 2], changed


@check
def a_table_in_a_group_may_have_an_optimizer_that_takes_sparse_gradients_only() -> None:
    torch.manual_seed(0)
    tables = nn.ModuleList([nn.Embedding(8, 4, sparse=True) for _ in range(3)])
    named = list(tables.named_parameters())
    optimizer = hvd.DistributedOptimizer(torch.optim.SparseAdam(tables.parameters()), named, groups=1)
    for step in range(4):
        optimizer.zero_grad()
        chosen = tables if step in (0, 3) or hvd.rank() == 0 else tables[:1]
        sum(table(torch.tensor([hvd.rank(), 5])).sum() for table in chosen).backward()
        optimizer.step()
        expect_same_parameters(tables)
