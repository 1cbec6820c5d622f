"""Batch normalization by the statistics of all ranks' batches."""

from typing import Any, Optional, Tuple

import torch
from torch.nn.modules.batchnorm import _BatchNorm

from .._handles import at_once
from ..basics import size
from ..reduce_ops import Sum
from . import ops


class SyncBatchNorm(_BatchNorm):
    """As torch.nn.BatchNorm1d, 2d and 3d, of a batch that lies on all ranks together: mean and variance are theirs.

    Input of shape [N, C, ...], where ranks may differ in all but C, and N may be 0 on some. In evaluation, and in a job
    of size 1, nothing travels. The gradients of weight and bias are this rank's own, as DistributedOptimizer wants them.
    """

    def _check_input_dim(self, input: torch.Tensor) -> None:
        if input.dim() < 2:
            raise ValueError(f"expected at least 2D input (got {input.dim()}D input)")

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        self._check_input_dim(input)
        if size() == 1 or not (self.training or self.running_mean is None):
            return super().forward(input)
        momentum = 0.0
        if self.training and self.track_running_stats:
            self.num_batches_tracked.add_(1)
            # None stands for the plain mean over all batches.
            momentum = 1.0 / float(self.num_batches_tracked) if self.momentum is None else self.momentum
        running = (self.running_mean, self.running_var) if self.training else (None, None)
        return _Normalize.apply(input, self.weight, self.bias, *running, self.eps, momentum)


def convert_sync_batchnorm(module: torch.nn.Module) -> torch.nn.Module:
    """The module with a SyncBatchNorm in place of each torch.nn.BatchNorm1d, 2d and 3d in it, with its parameters and
    statistics. As torch.nn.SyncBatchNorm.convert_sync_batchnorm."""
    if isinstance(module, _BatchNorm) and not isinstance(module, SyncBatchNorm):
        converted = SyncBatchNorm(
            module.num_features, module.eps, module.momentum, module.affine, module.track_running_stats
        )
        # The very tensors: an optimizer may have them.
        converted.__dict__.update(
            (key, value) for key, value in vars(module).items() if key in ("_parameters", "_buffers", "training")
        )
        return converted
    for name, child in module.named_children():
        module.add_module(name, convert_sync_batchnorm(child))
    return module


def _per_channel(values: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
    return values.view(1, -1, *[1] * (like.dim() - 2))


def _statistics(input: torch.Tensor, dims: Tuple[int, ...]) -> Tuple[torch.Tensor, torch.Tensor, float]:
    """Mean and variance of each channel over all ranks' elements, and their number."""
    count = input.numel() // input.size(1)
    mean = input.sum(dims) / max(count, 1)
    deviations = (input - _per_channel(mean, input)).square().sum(dims)
    own = torch.cat([mean.new_tensor([count], dtype=torch.float64), mean.double(), deviations.double()])
    everyone = at_once(ops.allgather_async, own.unsqueeze(0), "sync_batch_norm.statistics")
    counts, means, spreads = everyone[:, :1], *everyone[:, 1:].chunk(2, dim=1)
    total = counts.sum()
    if total == 0:
        raise ValueError("SyncBatchNorm: the batches of all ranks are empty")
    center = (means * counts).sum(0) / total
    # Chan et al.: deviations from each rank's mean, and of that from the mean of all.
    variance = (spreads + counts * (means - center).square()).sum(0) / total
    return center, variance, float(total)


class _Normalize(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        input: torch.Tensor,
        weight: Optional[torch.Tensor],
        bias: Optional[torch.Tensor],
        running_mean: Optional[torch.Tensor],
        running_var: Optional[torch.Tensor],
        eps: float,
        momentum: float,
    ) -> torch.Tensor:
        dims = tuple(each for each in range(input.dim()) if each != 1)
        exact = input.float() if input.dtype in (torch.float16, torch.bfloat16) else input
        mean, variance, total = _statistics(exact, dims)
        if running_mean is not None and running_var is not None:
            unbiased = variance * (total / max(total - 1.0, 1.0))
            running_mean.lerp_(mean.to(running_mean.dtype), momentum)
            running_var.lerp_(unbiased.to(running_var.dtype), momentum)
        scale = (variance + eps).rsqrt().to(exact.dtype)
        normalized = (exact - _per_channel(mean.to(exact.dtype), exact)) * _per_channel(scale, exact)
        ctx.save_for_backward(normalized, scale, weight)
        ctx.dims, ctx.total, ctx.dtype = dims, total, input.dtype
        output = normalized if weight is None else normalized * _per_channel(weight.to(exact.dtype), exact)
        if bias is not None:
            output = output + _per_channel(bias.to(exact.dtype), exact)
        return output.to(input.dtype)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> Tuple[Any, ...]:
        normalized, scale, weight = ctx.saved_tensors
        exact = gradient.to(normalized.dtype)
        own = torch.stack([exact.sum(ctx.dims), (exact * normalized).sum(ctx.dims)])
        for_input = None
        if ctx.needs_input_grad[0]:
            sums = at_once(ops.allreduce_async, own, None, "sync_batch_norm.gradients", Sum)
            means = sums / ctx.total
            for_input = exact - _per_channel(means[0], exact) - normalized * _per_channel(means[1], exact)
            factor = scale if weight is None else scale * weight.to(scale.dtype)
            for_input = (for_input * _per_channel(factor, exact)).to(ctx.dtype)
        for_weight = own[1].to(weight.dtype) if weight is not None and ctx.needs_input_grad[1] else None
        for_bias = own[0].to(gradient.dtype) if ctx.needs_input_grad[2] else None
        return for_input, for_weight, for_bias, None, None, None, None
