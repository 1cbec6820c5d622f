"""The kernels of PyTorch that have no form for the CPU, by its other operations.

Of Normalization.cu and Normalization.cuh of PyTorch 2.4 to 2.15: their inputs and outputs, the types that they refuse,
and their results for counts that are 0. None waits for a device.
"""

from typing import Optional, Tuple

import torch

Pair = Tuple[torch.Tensor, torch.Tensor]


def _long(dtype: torch.dtype) -> torch.dtype:
    """In which the kernels add up."""
    return torch.promote_types(dtype, torch.float32)


def _require(dtype: torch.dtype, like: torch.Tensor, **tensors: Optional[torch.Tensor]) -> None:
    """As the kernels' accessors do. AssertionError: a tensor has another type, or is elsewhere."""
    for name, tensor in tensors.items():
        if tensor is not None:
            assert tensor.dtype == dtype, f"{name} is of {tensor.dtype}, and not of {dtype}"
            assert tensor.device == like.device, f"{name} is on {tensor.device}, and not on {like.device}"


def _check_order(tensor: torch.Tensor) -> None:
    orders = (torch.contiguous_format, torch.channels_last, torch.channels_last_3d)
    assert any(tensor.is_contiguous(memory_format=each) for each in orders), f"strides {tensor.stride()} are slow"


def _sums(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.sum(tuple(each for each in range(tensor.dim()) if each != 1))


def _per_channel(values: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
    return values.view(1, -1, *[1] * (like.dim() - 2))


def stats(input: torch.Tensor, eps: float) -> Pair:
    """torch.batch_norm_stats."""
    assert input.numel() > 0
    _check_order(input)
    long = input.to(_long(input.dtype))
    count = input.numel() // input.size(1)
    mean = _sums(long) / count
    variance = _sums((long - _per_channel(mean, long)).square()) / count
    return mean, (variance + eps).rsqrt()


def gather_stats_with_counts(
    input: torch.Tensor,
    mean: torch.Tensor,
    invstd: torch.Tensor,
    running_mean: Optional[torch.Tensor],
    running_var: Optional[torch.Tensor],
    momentum: float,
    eps: float,
    counts: torch.Tensor,
) -> Pair:
    """torch.batch_norm_gather_stats_with_counts."""
    assert not isinstance(momentum, torch.Tensor)
    scalar = input.dtype if running_mean is None else running_mean.dtype
    _require(scalar, input, running_mean=running_mean, running_var=running_var, counts=counts)
    _require(_long(scalar), input, mean=mean, invstd=invstd)
    assert mean.shape == invstd.shape and counts.shape == mean.shape[:1] and len(counts) > 0
    average, spread, total = (torch.zeros_like(mean[0]) for _ in range(3))
    for own, scale, count in zip(mean, invstd, counts):
        factor = 1.0 / (total + count)
        spread += (1.0 / scale**2 - eps) * count + (average - own) ** 2 * total * count * factor
        average = total * factor * average + count * factor * own
        total = total + count
    if running_mean is not None and running_var is not None:
        running_mean.copy_((1 - momentum) * running_mean + momentum * average)
        running_var.copy_((1 - momentum) * running_var + momentum * spread / (total - 1))
    return average, (spread / total + eps).rsqrt()


def elemt(
    input: torch.Tensor,
    weight: Optional[torch.Tensor],
    bias: Optional[torch.Tensor],
    mean: torch.Tensor,
    invstd: torch.Tensor,
    _eps: float,
) -> torch.Tensor:
    """torch.batch_norm_elemt."""
    assert input.numel() > 0
    _check_order(input)
    # Also the input's type, if both parameters have it.
    _require(_long(input.dtype), input, weight=weight, bias=bias, mean=mean, invstd=invstd)
    output = (input.to(mean.dtype) - _per_channel(mean, input)) * _per_channel(invstd, input)
    output = output if weight is None else output * _per_channel(weight, input)
    output = output if bias is None else output + _per_channel(bias, input)
    return torch.empty_like(input).copy_(output)


def backward_reduce(
    grad_out: torch.Tensor,
    input: torch.Tensor,
    mean: torch.Tensor,
    invstd: torch.Tensor,
    weight: Optional[torch.Tensor],
    input_g: bool,
    weight_g: bool,
    bias_g: bool,
) -> Tuple[Optional[torch.Tensor], ...]:
    """torch.batch_norm_backward_reduce."""
    assert input.numel() > 0 and input.stride() == grad_out.stride(), "of two orders, the slow kernel is taken"
    assert weight is not None or not (weight_g or bias_g), "gradients have the weight's type"
    _check_order(input)
    _require(input.dtype, input, grad_out=grad_out)
    _require(_long(input.dtype), input, weight=weight, mean=mean, invstd=invstd)
    gradient = grad_out.to(mean.dtype)
    sums = _sums(gradient)
    products = _sums(gradient * (input.to(mean.dtype) - _per_channel(mean, input)))
    return (
        sums if input_g else None,
        products if input_g else None,
        products * invstd if weight_g else None,
        sums.clone() if bias_g else None,
    )


def backward_elemt(
    grad_out: torch.Tensor,
    input: torch.Tensor,
    mean: torch.Tensor,
    invstd: torch.Tensor,
    weight: Optional[torch.Tensor],
    sum_dy: torch.Tensor,
    sum_dy_xmu: torch.Tensor,
    count: torch.Tensor,
) -> torch.Tensor:
    """torch.batch_norm_backward_elemt."""
    assert input.numel() > 0 and input.stride() == grad_out.stride(), "of two orders, the slow kernel is taken"
    _check_order(input)
    _require(input.dtype, input, grad_out=grad_out)
    _require(torch.int32, input, count=count)
    _require(_long(input.dtype), input, weight=weight, mean=mean, invstd=invstd, sum_dy=sum_dy, sum_dy_xmu=sum_dy_xmu)
    assert count.is_contiguous() and sum_dy.is_contiguous() and sum_dy_xmu.is_contiguous(), "read by address"
    total = count.sum()
    slope = _per_channel(sum_dy_xmu / total * invstd**2, input)
    centered = input.to(mean.dtype) - _per_channel(mean, input)
    gradient = grad_out.to(mean.dtype) - _per_channel(sum_dy / total, input) - centered * slope
    factor = invstd if weight is None else invstd * weight
    return torch.empty_like(input).copy_(gradient * _per_channel(factor, input))


# By their names in torch.
KERNELS = {
    "batch_norm_stats": stats,
    "batch_norm_gather_stats_with_counts": gather_stats_with_counts,
    "batch_norm_elemt": elemt,
    "batch_norm_backward_reduce": backward_reduce,
    "batch_norm_backward_elemt": backward_elemt,
}
