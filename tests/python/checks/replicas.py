"""Copies of the model that are no longer the same."""

from typing import Any, Dict

import farandole.torch as hvd
import torch
from farandole.torch import replicas as hashing
from harness import Checks, expect_error
from torch import nn

check = Checks()


def make_model() -> nn.Module:
    torch.manual_seed(5)
    return nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 2))


def refused(model: nn.Module) -> hvd.ReplicasDiffer:
    try:
        hvd.check_replicas(model.named_parameters())
    except hvd.ReplicasDiffer as error:
        return error
    raise AssertionError("replicas that differ are taken for equal")


@check
def equal_copies_are_equal() -> None:
    model = make_model()
    hvd.check_replicas(model.named_parameters())
    hvd.check_replicas(model.state_dict())
    hvd.check_replicas([])


@check
def tensors_of_every_kind_are_compared() -> None:
    for dtype in (torch.bool, torch.uint8, torch.int64, torch.float16, torch.bfloat16, torch.float64, torch.complex64):
        tensor = torch.arange(12).reshape(3, 4).to(dtype)
        # Not as they lie in memory, at any offset, and with nothing in them.
        for given in (tensor, tensor.t(), tensor.flatten()[1:], tensor[:0]):
            hvd.check_replicas({"x": given})
        if hvd.size() == 1:
            continue
        if hvd.rank() == hvd.size() - 1:
            tensor[2, 1] = 0
        try:
            hvd.check_replicas({"x": tensor})
        except hvd.ReplicasDiffer as error:
            assert error.parameter == "x", error
            continue
        raise AssertionError(f"{dtype} that differ are taken for equal")


def expect_difference(mine: torch.Tensor, other: torch.Tensor) -> None:
    """Fails unless a check finds that rank 0 has the one tensor and the others have the other one."""
    hvd.check_replicas({"same": mine, "odd": other})
    if hvd.size() == 1:
        return
    try:
        hvd.check_replicas({"same": mine, "odd": mine if hvd.rank() == 0 else other, "also": other})
    except hvd.ReplicasDiffer as error:
        assert error.parameter == "odd" and error.ranks == ([0, 1] if hvd.size() == 2 else [0]), error
        return
    raise AssertionError(f"{mine} and {other} are taken for equal")


DTYPES = (torch.bool, torch.uint8, torch.int8, torch.int64, torch.float16, torch.bfloat16, torch.float32, torch.float64)


@check.each(*DTYPES)
def the_places_of_elements_count(dtype: torch.dtype) -> None:
    """Sums of products with the numbers of places are the same for these."""
    mask = torch.tensor([1, 0, 0, 1])
    expect_difference(mask.to(dtype), (1 - mask).to(dtype))
    random = torch.Generator().manual_seed(7)
    for count in (9, 1000, (1 << 16) + 5):
        mask = torch.rand(count, generator=random) < 0.1
        mask[0], mask[-1] = True, False
        shuffled = mask[torch.randperm(count, generator=random)]
        for other in (mask.flip(0), mask.roll(1), mask.roll(8), shuffled):
            expect_difference(mask.to(dtype), other.to(dtype))
        swapped = mask.clone()
        swapped[[0, -1]] = mask[[-1, 0]]
        expect_difference(mask.to(dtype), swapped.to(dtype))


@check.each(torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.complex128)
def signs_of_several_zeros_count(dtype: torch.dtype) -> None:
    """They are the highest bit, which a product with an odd number leaves alone."""
    zeros = torch.zeros(64, dtype=dtype)
    for places in ([0, 1], [1, 3], [0, 63], list(range(64))):
        other = zeros.clone()
        other[places] = -0.0
        expect_difference(zeros, other)
    first, second = zeros.clone(), zeros.clone()
    first[2], second[5] = -0.0, -0.0
    expect_difference(first, second)


@check
def no_two_masks_have_the_same_hash() -> None:
    keys: Dict[torch.device, Any] = {}
    masks = torch.arange(1 << 12).unsqueeze(1) >> torch.arange(12) & 1
    for dtype in (torch.bool, torch.float32):
        assert len({int(hashing._hash(mask, keys)) for mask in masks.to(dtype)}) == 1 << 12


@check
def tensors_that_have_no_elements_in_order_are_refused() -> None:
    packed = torch.quantize_per_tensor(torch.ones(3), 0.1, 0, torch.qint8)
    for tensor in (packed, torch.ones(3).to_sparse(), torch.empty(3, device="meta")):
        expect_error(ValueError, lambda tensor=tensor: hvd.check_replicas({"odd": tensor}), "odd", "dense tensors")
    values = torch.tensor([1 + 2j, 3 - 4j])
    hvd.check_replicas({"conjugate": values.conj() if hvd.rank() == 0 else values.conj().resolve_conj()})
    hvd.check_replicas({"negative": values.conj().imag if hvd.rank() == 0 else -values.imag})


@check
def the_first_parameter_and_the_rank_are_named() -> None:
    if hvd.size() < 3:
        return
    model = make_model()
    if hvd.rank() == 1:
        with torch.no_grad():
            # One bit of one element, in two parameters.
            for parameter in (model[0].bias, model[2].weight):
                parameter.view(torch.int32).view(-1)[-1] ^= 1
    error = refused(model)
    assert (error.parameter, error.ranks) == ("0.bias", [1]), error
    assert str(error) == "parameter '0.bias' of rank 1 differs from that of the others; so do 1 further ones", error


@check
def of_two_copies_neither_is_right() -> None:
    if hvd.size() != 2:
        return
    model = make_model()
    with torch.no_grad():
        model[2].bias += hvd.rank()
    error = refused(model)
    assert error.ranks == [0, 1], error
    assert str(error) == "parameter '2.bias' differs between the ranks, and no copy is that of most", error


@check
def large_tensors_are_hashed_in_parts() -> None:
    large = torch.zeros((1 << 21) + 3)
    hvd.check_replicas({"large": large})
    if hvd.size() < 3:
        return
    # The same values in another order.
    large[5 if hvd.rank() == 0 else -1] = 1
    try:
        hvd.check_replicas({"large": large})
    except hvd.ReplicasDiffer as error:
        assert error.ranks == [0], error
        return
    raise AssertionError("an order that differs is taken for equal")


@check
def they_are_checked_every_so_many_steps() -> None:
    model = make_model()
    replicas = hvd.ReplicaCheck(model.named_parameters(), every=3)
    if hvd.rank() == 0:
        with torch.no_grad():
            model[0].weight += 1
    replicas.step()
    replicas.step()
    try:
        replicas.step()
    except hvd.ReplicasDiffer as error:
        assert hvd.size() > 1 and error.parameter == "0.weight" and " after 3 steps" in str(error), error
        return
    assert hvd.size() == 1


@check
def wrong_arguments_are_named() -> None:
    for wrong in (5, "text", torch.ones(1), [torch.ones(1)], {"a": 3}):
        try:
            hvd.check_replicas(wrong)
        except ValueError as error:
            assert "a replica check takes" in str(error), error
            continue
        raise AssertionError(f"{wrong!r} is no ValueError")
    for every in (0, -1, 1.5, None):
        try:
            hvd.ReplicaCheck({}, every)
        except ValueError as error:
            assert repr(every) in str(error), error
            continue
        raise AssertionError(f"{every!r} is no ValueError")
