"""Starting from one state: parameters, optimizer state, objects."""

import copy
import io
from typing import Any, Dict, List

import farandole.torch as hvd
import torch
from farandole.torch import state as states
from harness import Checks, expect_error
from torch import nn

check = Checks()


def make_model(seed: int) -> nn.Module:
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 2))


def expect_same_everywhere(value: Any) -> None:
    for other in hvd.allgather_object(value):
        torch.testing.assert_close(other, value, rtol=0, atol=0)


@check
def parameters_and_buffers_become_the_roots() -> None:
    for root in range(hvd.size()):
        model = make_model(hvd.rank())
        model[1].num_batches_tracked += hvd.rank()
        hvd.broadcast_parameters(model.state_dict(), root_rank=root)
        for name, tensor in make_model(root).state_dict().items():
            wanted = tensor + root if name.endswith("tracked") else tensor
            assert torch.equal(model.state_dict()[name], wanted), name
        model = make_model(hvd.rank())
        hvd.broadcast_parameters(model.named_parameters(), root_rank=root)
        assert torch.equal(model[0].weight, make_model(root)[0].weight)


@check
def what_is_no_parameter_is_refused() -> None:
    for wrong in ({"a": 3}, [3], {"a": "text"}):
        try:
            hvd.broadcast_parameters(wrong, root_rank=0)
        except ValueError as error:
            assert "broadcast_object" in str(error), error
            continue
        raise AssertionError("no ValueError")
    hvd.broadcast_parameters({"nothing": None}, root_rank=0)
    hvd.broadcast_parameters({}, root_rank=0)


def step(model: nn.Module, optimizer: torch.optim.Optimizer, times: int) -> None:
    for _ in range(times):
        optimizer.zero_grad()
        model(torch.randn(5, 3)).pow(2).sum().backward()
        optimizer.step()


@check.each("SGD", "Adam", "AdamW", "Adagrad", "RMSprop", "Adadelta", "NAdam", "LBFGS")
def optimizer_state_of_the_root_alone_comes_to_all(kind: str) -> None:
    model = make_model(hvd.rank())
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    momentum = {"momentum": 0.9} if kind in ("SGD", "RMSprop") else {}
    optimizer = getattr(torch.optim, kind)(model.parameters(), lr=0.1 if hvd.rank() == 0 else 0.7, **momentum)
    if hvd.rank() == 0 and kind == "LBFGS":
        optimizer.step(lambda: model(torch.ones(5, 3)).pow(2).sum())
    elif hvd.rank() == 0:
        step(model, optimizer, 3)
    hvd.broadcast_optimizer_state(optimizer, root_rank=0)
    state = optimizer.state_dict()
    assert state["param_groups"][0]["lr"] == 0.1
    assert state["state"], "the state is there"
    expect_same_everywhere(state)


@check
def tensors_of_a_gpu_are_received_on_ones_own() -> None:
    """Counters of the host stay there, whatever the program's default is. (`meta` stands for a GPU.)"""
    sent: List[torch.Tensor] = []
    skeleton = states._take_tensors({"average": torch.ones(2, 3), "steps": [torch.ones(())]}, sent)
    skeleton["average"].is_cuda, skeleton["steps"][0].is_cuda = True, False
    received: Dict[int, torch.Tensor] = {}
    with torch.device("meta"):
        states._put_tensors(skeleton, received, torch.device("meta"))
    assert [each.device.type for each in received.values()] == ["meta", "cpu"]
    assert [each.shape for each in received.values()] == [each.shape for each in sent]


@check
def optimizer_state_lies_in_memory_as_the_roots() -> None:
    """Fused optimizers take it for the parameter's order."""
    model = nn.Conv2d(4, 8, 3).to(memory_format=torch.channels_last)
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1, fused=True)
    images = torch.ones(2, 4, 5, 5)
    if hvd.rank() == 0:
        model(images).pow(2).sum().backward()
        optimizer.step()
    hvd.broadcast_optimizer_state(optimizer, root_rank=0)
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    assert optimizer.state[model.weight]["exp_avg"].stride() == model.weight.stride()
    optimizer.zero_grad()
    model(images).pow(2).sum().backward()
    optimizer.step()
    expect_same_everywhere(model.state_dict())


@check
def objects_with_tensors_of_a_gpu_come_to_the_receivers_own() -> None:
    """Here: into the host's memory, as there is none. A pickle names the sender's by its number."""
    buffer = io.BytesIO()
    torch.save(torch.arange(6.0)._typed_storage(), buffer, _use_new_zipfile_serialization=False)
    here, there = b"X\x03\x00\x00\x00cpu", b"X\x06\x00\x00\x00cuda:3"
    assert buffer.getvalue().count(here) == 1

    class Forged:
        def __reduce__(self) -> Any:
            return torch.storage._load_from_bytes, (buffer.getvalue().replace(here, there),)

    for got in (hvd.broadcast_object([Forged(), "two"], hvd.size() - 1), *hvd.allgather_object([Forged(), "two"])):
        if not isinstance(got[0], Forged):
            assert bytes(got[0]._untyped_storage.tolist()) == torch.arange(6.0).numpy().tobytes() and got[1] == "two"


@check
def optimizer_state_replaces_another_one() -> None:
    root = hvd.size() - 1
    model = make_model(0)
    optimizer = torch.optim.Adam(
        [{"params": model[0].parameters()}, {"params": model[2].parameters(), "betas": (0.5, 0.6)}],
        lr=0.01 * (hvd.rank() + 1),
    )
    step(model, optimizer, hvd.rank() + 1)
    hvd.broadcast_optimizer_state(optimizer, root_rank=root)
    state = optimizer.state_dict()
    assert state["state"][0]["step"] == root + 1 and state["param_groups"][1]["betas"] == (0.5, 0.6)
    assert state["param_groups"][0]["lr"] == 0.01 * (root + 1)
    expect_same_everywhere(state)
    step(model, optimizer, 1)


@check
def who_holds_an_optimizers_groups_still_does_when_its_state_has_come() -> None:
    """A scheduler that was made before the optimizer was wrapped holds those of the inner one."""
    model = make_model(0)
    inner = torch.optim.SGD(model.parameters(), lr=0.1 * (hvd.rank() + 1), momentum=0.9)
    scheduler = torch.optim.lr_scheduler.StepLR(inner, 1, gamma=0.1)
    optimizer = hvd.DistributedOptimizer(inner, named_parameters=model.named_parameters())
    group, state = optimizer.param_groups[0], optimizer.state
    hvd.broadcast_parameters(model.state_dict(), 0)
    hvd.broadcast_optimizer_state(optimizer, 0)
    assert optimizer.param_groups[0] is group and inner.param_groups[0] is group and optimizer.state is state
    for _ in range(2):
        step(model, optimizer, 1)
        scheduler.step()
    torch.testing.assert_close(optimizer.param_groups[0]["lr"], 0.1 * 0.1**2)
    expect_same_everywhere(model.state_dict())


@check.each("average", "adasum")
def a_state_that_the_wrapper_or_the_wrapped_has_loaded_is_that_of_both(kind: str) -> None:
    """Horovod: the wrapped optimizer and its scheduler are cut off."""
    model = make_model(0)
    inner = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    scheduler = torch.optim.lr_scheduler.StepLR(inner, 1, gamma=0.5)
    op = hvd.Adasum if kind == "adasum" else hvd.Average
    optimizer = hvd.DistributedOptimizer(inner, named_parameters=model.named_parameters(), op=op)
    step(model, optimizer, 1)
    saved = copy.deepcopy(optimizer.state_dict())
    for loads in (optimizer, inner):
        saved["param_groups"][0]["lr"] = 0.8
        loads.load_state_dict(copy.deepcopy(saved))
        before = model[0].weight.detach().clone()
        scheduler.step()
        step(model, optimizer, 1)
        assert optimizer.param_groups is inner.param_groups and optimizer.state is inner.state
        assert optimizer.param_groups[0]["lr"] == 0.4 and not torch.equal(model[0].weight, before)
        expect_same_everywhere(model.state_dict())
    for given in (optimizer, inner):
        given.param_groups = [{**group, "lr": 0.0} for group in given.param_groups]
        before = model[0].weight.detach().clone()
        step(model, optimizer, 1)
        assert torch.equal(model[0].weight, before) and optimizer.param_groups is inner.param_groups
        given.param_groups[0]["lr"] = 0.5
        step(model, optimizer, 1)
        assert not torch.equal(model[0].weight, before)


@check
def optimizer_state_may_be_empty_and_distributed() -> None:
    model = make_model(0)
    optimizer = hvd.DistributedOptimizer(
        torch.optim.SGD(model.parameters(), lr=float(hvd.rank())), named_parameters=model.named_parameters()
    )
    hvd.broadcast_optimizer_state(optimizer, root_rank=0)
    assert optimizer.param_groups[0]["lr"] == 0.0 and not optimizer.state_dict()["state"]
    step(model, optimizer, 2)


@check
def gradients_begin_as_zero_where_there_is_no_state() -> None:
    """Programs for Horovod read `grad` before the first backward pass; frozen parameters and sparse ones have none."""
    model, table = make_model(0), nn.Embedding(4, 2, sparse=True)
    model[0].bias.requires_grad_(False)
    optimizer = torch.optim.SGD([*model.parameters(), *table.parameters()], lr=0.1, momentum=0.9)
    model[2].weight.grad = torch.ones_like(model[2].weight)
    hvd.broadcast_optimizer_state(optimizer, 0, nn.ModuleList([model, table]))
    assert torch.equal(hvd.broadcast(model[0].weight.grad, 0), torch.zeros_like(model[0].weight))
    assert model[2].weight.grad.eq(1).all(), "one that is there stays"
    assert model[0].bias.grad is None and table.weight.grad is None


@check
def objects_come_from_one_and_from_all() -> None:
    for root in range(hvd.size()):
        value = {"rank": hvd.rank(), "text": "é" * hvd.rank(), "tensor": torch.full((2,), hvd.rank())}
        found = hvd.broadcast_object(value if hvd.rank() == root else None, root_rank=root, name="object")
        assert (found["rank"], found["text"]) == (root, "é" * root) and found["tensor"].tolist() == [root] * 2
    assert hvd.broadcast_object(None) is None
    big = bytes(3_000_000)
    assert hvd.broadcast_object(big if hvd.rank() == 0 else None) == big
    found = hvd.allgather_object(("x" * (hvd.rank() * 1000), hvd.rank()))
    assert found == [("x" * (rank * 1000), rank) for rank in range(hvd.size())]
    assert hvd.allgather_object(None, name="nothing") == [None] * hvd.size()


@check
def an_object_that_cannot_be_pickled_is_an_error_on_all_ranks() -> None:
    import threading

    try:
        hvd.broadcast_object(threading.Lock() if hvd.rank() == 0 else None, root_rank=0)
    except (TypeError, RuntimeError) as error:
        assert "pickle" in str(error), error
    else:
        raise AssertionError("no error")
    hvd.barrier()


@check
def more_tensors_than_names_come_in_order() -> None:
    """And few names are used for them, so that none run out."""
    count = 5000 if hvd.size() == 2 else 700
    tensors = {f"p{number}": torch.full((number % 3,), float(number + hvd.rank())) for number in range(count)}
    hvd.broadcast_parameters(tensors, root_rank=hvd.size() - 1)
    for number in range(count):
        assert tensors[f"p{number}"].eq(number + hvd.size() - 1).all(), number


@check
def a_state_of_another_optimizer_is_refused() -> None:
    """Horovod: the next step of that rank is a KeyError."""
    if hvd.size() == 1:
        return
    kind = torch.optim.Adam if hvd.rank() == 0 else torch.optim.SGD
    optimizer = kind(torch.nn.Linear(2, 2).parameters(), lr=0.1)
    expect_error(ValueError, lambda: hvd.broadcast_optimizer_state(optimizer, 0), "rank 0 has Adam", "rank 1 has SGD")
