"""Adasum, on any number of ranks, beside its formula in NumPy."""

from typing import Any, List

import farandole.numpy
import farandole.torch as hvd
import numpy as np
import torch
from harness import Checks, expect_error
from torch import nn

check = Checks()

TOLERANCES = {
    torch.float64: 1e-12,
    torch.float32: 1e-5,
    torch.float16: 5e-3,
    torch.bfloat16: 4e-2,
    torch.float8_e4m3fn: 0.6,
    torch.float8_e5m2: 1.2,
}


def combine(a: Any, b: Any) -> Any:
    """Of two tensors, in float64."""
    ab, aa, bb = (a * b).sum(), (a * a).sum(), (b * b).sum()
    return (1 - ab / (2 * aa) if aa else 1) * a + (1 - ab / (2 * bb) if bb else 1) * b


def adasum(tensors: List[Any]) -> Any:
    """Of neighbours, and of those again; where their number is no power of two, first of as many pairs as make it one."""
    power = 1 << (len(tensors).bit_length() - 1)
    pairs = 2 * (len(tensors) - power)
    tensors = [combine(tensors[i], tensors[i + 1]) for i in range(0, pairs, 2)] + tensors[pairs:]
    while len(tensors) > 1:
        tensors = [combine(tensors[i], tensors[i + 1]) for i in range(0, len(tensors), 2)]
    return tensors[0]


def values(rank: int, shape: Any, dtype: torch.dtype) -> torch.Tensor:
    generator = torch.Generator().manual_seed(100 + rank)
    # The ranks have something in common, so that the products count.
    return (torch.randn(shape, generator=generator, dtype=torch.float64) + 0.5).to(dtype)


def expect_adasum(found: torch.Tensor, shape: Any, dtype: torch.dtype, scale: float = 1.0) -> None:
    wanted = torch.as_tensor(adasum([values(rank, shape, dtype).double() for rank in range(hvd.size())])) * scale
    assert found.dtype == dtype and found.shape == wanted.shape
    error = (found.double() - wanted).abs().max().item() if wanted.numel() else 0.0
    assert error <= TOLERANCES[dtype] * scale * 4, f"{error} of {wanted.abs().max()}"
    everywhere = hvd.allgather(found.reshape(1, -1).view(torch.uint8), name="bits")
    assert (everywhere == everywhere[:1]).all(), "ranks have different bits"


@check.each(*TOLERANCES)
def is_the_formula(dtype: torch.dtype) -> None:
    for shape in ((1,), (3, 5), (5003,), (300, 257)):
        expect_adasum(hvd.allreduce(values(hvd.rank(), shape, dtype), op=hvd.Adasum), shape, dtype)
        tensor = values(hvd.rank(), shape, dtype)
        scaled = hvd.allreduce_(tensor, op=hvd.Adasum, prescale_factor=0.5, postscale_factor=4.0)
        assert scaled is tensor
        expect_adasum(scaled, shape, dtype, 2.0)
    assert hvd.allreduce(torch.empty(0, 3, dtype=dtype), op=hvd.Adasum).shape == (0, 3)
    scalar = hvd.allreduce(torch.tensor(2.0, dtype=dtype), op=hvd.Adasum)
    assert scalar.shape == () and scalar == 2.0, "equal tensors are averaged"


@check
def tensors_are_weighed_each_by_itself() -> None:
    rank, shapes = hvd.rank(), [(4,), (600, 10), (2, 3)]
    tensors = [values(rank, shape, torch.float32) for shape in shapes]
    for found, shape in zip(hvd.grouped_allreduce(tensors, op=hvd.Adasum, name="grouped"), shapes):
        expect_adasum(found, shape, torch.float32)
    handles = [hvd.allreduce_async(tensor, name=f"async.{i}", op=hvd.Adasum) for i, tensor in enumerate(tensors)]
    for handle, shape in zip(handles, shapes):
        expect_adasum(hvd.synchronize(handle), shape, torch.float32)
    found = farandole.numpy.allreduce(tensors[1].numpy(), op=farandole.Adasum)
    expect_adasum(torch.from_numpy(found), shapes[1], torch.float32)


@check
def zeros_change_nothing() -> None:
    last = hvd.size() - 1
    mine = torch.tensor([3.0, -4.0]) if hvd.rank() == last else torch.zeros(2)
    assert torch.equal(hvd.allreduce(mine, op=hvd.Adasum), torch.tensor([3.0, -4.0]))
    tiny = torch.tensor([3e-20, -4e-20], dtype=torch.float64)
    assert torch.allclose(hvd.allreduce(tiny, op=hvd.Adasum), tiny, rtol=1e-12, atol=0)


@check
def what_has_no_adasum_is_named() -> None:
    if hvd.size() > 1:
        expect_error(ValueError, lambda: hvd.allreduce(torch.ones(2, dtype=torch.int32), op=hvd.Adasum), "int32")
        expect_error(ValueError, lambda: hvd.reducescatter(torch.ones(4), op=hvd.Adasum), "Adasum", "allreduce")


@check.each("SGD", "Adam")
def the_optimizer_combines_steps(kind: str) -> None:
    size, rank = hvd.size(), hvd.rank()
    torch.manual_seed(5)
    model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2)).double()
    alone = [nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2)).double() for _ in range(size)]
    make = {
        "SGD": lambda parameters: torch.optim.SGD(parameters, lr=0.1, momentum=0.9),
        "Adam": lambda parameters: torch.optim.Adam(parameters, lr=0.01),
    }[kind]
    for other in alone:
        other.load_state_dict(model.state_dict())
    optimizer = hvd.DistributedOptimizer(make(model.parameters()), model.named_parameters(), op=hvd.Adasum)
    assert isinstance(optimizer, getattr(torch.optim, kind))
    others = [make(other.parameters()) for other in alone]
    for step in range(4):
        generator = torch.Generator().manual_seed(step)
        data = torch.randn(size, 6, 4, generator=generator, dtype=torch.float64)
        optimizer.zero_grad()
        model(data[rank]).square().sum().backward()
        optimizer.step()
        starts = [parameter.detach().numpy().copy() for parameter in alone[0].parameters()]
        for other, its_optimizer, its_data in zip(alone, others, data):
            its_optimizer.zero_grad()
            other(its_data).square().sum().backward()
            its_optimizer.step()
        for start, *changed in zip(starts, *(other.parameters() for other in alone)):
            change = adasum([parameter.detach().numpy() - start for parameter in changed])
            for parameter in changed:
                parameter.data.copy_(torch.from_numpy(start + change))
    for found, wanted in zip(model.parameters(), alone[0].parameters()):
        np.testing.assert_allclose(found.detach().numpy(), wanted.detach().numpy(), rtol=1e-9)
    expect_error(AssertionError, lambda: optimizer.skip_synchronize().__enter__(), "Adasum")


@check
def passes_closures_and_unused_parameters() -> None:
    model = nn.ModuleDict({"used": nn.Linear(3, 1), "unused": nn.Linear(3, 1)})
    hvd.broadcast_parameters(model.state_dict(), 0)
    before = model["unused"].weight.detach().clone()
    optimizer = hvd.DistributedOptimizer(
        torch.optim.SGD(model.parameters(), lr=0.1),
        model.named_parameters(),
        op=hvd.Adasum,
        backward_passes_per_step=2,
        compression=hvd.Compression.fp16,
    )
    for _ in range(2):
        model["used"](torch.randn(5, 3)).sum().backward()
    optimizer.step()
    optimizer.zero_grad()

    def closure() -> torch.Tensor:
        loss = model["used"](torch.ones(5, 3)).sum()
        loss.backward()
        return loss

    assert optimizer.step(closure).shape == ()
    assert torch.equal(model["unused"].weight, before)
    weights = hvd.allgather(model["used"].weight.detach())
    assert (weights == weights[:1]).all(), "ranks have different parameters"


@check.each(*((how, finds) for how in ("alone", "unscaled", "fused", "sparse") for finds in (0, -1, None)))
def a_grad_scaler_has_all_ranks_step_together(how: str, finds: Any) -> None:
    """`finds`: the rank that finds infinities in its second step; None: all do."""
    model: Any = nn.Linear(3, 2) if how != "sparse" else nn.Embedding(4, 2, sparse=True)
    hvd.broadcast_parameters(model.state_dict(), 0)
    inner = torch.optim.SGD(model.parameters(), lr=0.1, **({"fused": True} if how == "fused" else {}))
    optimizer = hvd.DistributedOptimizer(inner, model.named_parameters(), op=hvd.Adasum)
    scaler = torch.amp.GradScaler("cpu", init_scale=8.0)
    start = torch.cat([parameter.detach().flatten() for parameter in model.parameters()])
    for step in range(4):
        optimizer.zero_grad()
        is_bad = step == 1 and (finds is None or finds % hvd.size() == hvd.rank())
        found = model(torch.ones(1, 3) * (hvd.rank() + 1) if how != "sparse" else torch.tensor([hvd.rank() % 4]))
        scaler.scale(found.sum() * (torch.inf if is_bad else 1.0)).backward()
        if how == "unscaled":
            scaler.unscale_(optimizer)
        scaler.step(optimizer)
        scaler.update()
        assert not hasattr(optimizer, "found_inf") and not hasattr(optimizer, "grad_scale")
        numbers = torch.cat([parameter.detach().flatten() for parameter in model.parameters()])
        everyone = hvd.allgather(numbers.reshape(1, -1), name="numbers")
        assert torch.isfinite(everyone).all() and (everyone == everyone[:1]).all(), everyone
        if step == 0 and hvd.size() == 1:
            assert abs((start - numbers).max().item() - 0.1) < 1e-6, "its gradient is 1"
    assert scaler.get_scale() == (4.0 if finds is None or finds % hvd.size() == hvd.rank() else 8.0)


@check
def half_gradients_are_refused_by_a_grad_scaler_as_ever() -> None:
    model = nn.Linear(3, 2).half()
    optimizer = hvd.DistributedOptimizer(
        torch.optim.SGD(model.parameters(), lr=0.1), model.named_parameters(), op=hvd.Adasum
    )
    scaler = torch.amp.GradScaler("cpu", init_scale=8.0)
    scaler.scale(model(torch.ones(1, 3).half()).float().sum()).backward()
    expect_error(ValueError, lambda: scaler.step(optimizer), "Attempting to unscale FP16 gradients")


@check
def a_scale_that_has_become_zero_makes_no_step() -> None:
    """As it does on a rank that finds infinities again and again."""
    weight = nn.Parameter(torch.ones(2))
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD([weight], lr=1.0), op=hvd.Adasum)
    weight.sum().backward()
    optimizer.found_inf, optimizer.grad_scale = torch.zeros(1), torch.zeros(1)  # as a GradScaler sets them
    optimizer.step()
    del optimizer.found_inf, optimizer.grad_scale
    assert hvd.size() == 1 or torch.equal(weight.detach(), torch.ones(2)), weight


@check
def ranks_outside_of_the_process_set_make_their_own_steps() -> None:
    if hvd.size() == 1:  # its set would have all ranks
        return
    pair = hvd.add_process_set(list(range(0, hvd.size(), 2)))
    weight = nn.Parameter(torch.zeros(2))
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD([weight], lr=1.0), op=hvd.Adasum, process_set=pair)
    for step in range(2):
        optimizer.zero_grad()
        (weight * (1.0 if pair.included() else 5.0)).sum().backward()
        optimizer.step()
        expected = torch.full((2,), -(step + 1) * (1.0 if pair.included() else 5.0))
        assert torch.equal(weight.detach(), expected), (weight, expected)
    hvd.remove_process_set(pair)
    if pair.included():
        expect_error(ValueError, optimizer.step, "is not registered")
        assert torch.equal(weight.detach(), expected), "nothing has changed"
