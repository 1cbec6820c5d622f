"""Batch normalization by the statistics of all ranks' batches."""

from typing import Any, NamedTuple, Optional, Tuple, Union

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
    Where statistics travel from GPU to GPU the host does not wait for them, and the layer may be captured in a CUDA graph.
    ValueError: an input has less than two dimensions, or those of all ranks are empty. NotImplementedError: a second
    derivative is computed.
    """

    def _check_input_dim(self, input: torch.Tensor) -> None:
        if input.dim() < 2:
            raise ValueError(f"expected at least 2D input (got {input.dim()}D input)")

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        self._check_input_dim(input)
        if size() == 1 or not (self.training or self.running_mean is None):
            # BatchNorm asks the GPU for the number of batches where it is to be the mean over all of them, which a
            # CUDA graph cannot.
            if self.momentum is None and input.is_cuda and self.training and self.track_running_stats:
                return self._alone(input)
            return super().forward(input)
        running = self._count() if self.training and self.track_running_stats else None
        function = _NormalizeOnGpu if input.is_cuda else _Normalize
        return function.apply(input, self.weight, self.bias, running, self.eps)

    def _count(self) -> Optional["_Running"]:
        """Counts a batch; the statistics that it is to become part of."""
        self.num_batches_tracked.add_(1)
        if self.running_mean is None or self.running_var is None:
            return None
        return _Running(self.running_mean, self.running_var, self._share())

    def _alone(self, input: torch.Tensor) -> torch.Tensor:
        """As BatchNorm does in training, and never waits for the GPU."""
        running = self._count()
        output = torch.nn.functional.batch_norm(input, None, None, self.weight, self.bias, True, 0.0, self.eps)
        if running is not None:
            with torch.no_grad():
                variance, mean = torch.var_mean(*_samples(input))
                running.follow(mean, variance)
        return output

    def _share(self) -> "Share":
        """How much of the running statistics this batch is to be. A momentum of None stands for the plain mean over all
        batches."""
        if self.momentum is not None:
            return self.momentum
        batches = self.num_batches_tracked
        return batches.double().reciprocal() if batches.is_cuda else 1.0 / float(batches)


# A tensor where only the GPU knows it.
Share = Union[float, torch.Tensor]


class _Running(NamedTuple):
    """The statistics for evaluation, each of shape [C], and how much of it the next batch is."""

    mean: torch.Tensor
    variance: torch.Tensor
    share: Share

    def follow(self, mean: torch.Tensor, variance: torch.Tensor) -> None:
        """Takes in a batch's statistics, in the longer one of the two types."""
        for running, own in ((self.mean, mean), (self.variance, variance)):
            dtype = torch.promote_types(running.dtype, own.dtype)
            share = self.share.to(dtype) if isinstance(self.share, torch.Tensor) else self.share
            running.copy_(torch.lerp(running.to(dtype), own.to(dtype), share))


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


def _samples(input: torch.Tensor) -> Tuple[torch.Tensor, Tuple[int, ...]]:
    """The input in no less than 32 bits, and all its dimensions but the channels', over which statistics go."""
    exact = input.float() if input.dtype in (torch.float16, torch.bfloat16) else input
    return exact, tuple(each for each in range(input.dim()) if each != 1)


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


class _Once(torch.autograd.Function):
    """Gradients of the layer, which are computed without a graph: second derivatives of them would lack a part."""

    @staticmethod
    def forward(ctx: Any, *gradients: Optional[torch.Tensor]) -> Tuple[Optional[torch.Tensor], ...]:
        return gradients

    @staticmethod
    def backward(ctx: Any, *gradients: Optional[torch.Tensor]) -> Tuple[Any, ...]:
        raise NotImplementedError(
            "SyncBatchNorm has no second derivative in farandole; leave out create_graph, or detach() its gradients"
        )


def _once(*gradients: Optional[torch.Tensor]) -> Tuple[Optional[torch.Tensor], ...]:
    if not torch.is_grad_enabled():
        return gradients
    return _Once.apply(*(None if each is None else each.detach().requires_grad_() for each in gradients))


class _Normalize(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        input: torch.Tensor,
        weight: Optional[torch.Tensor],
        bias: Optional[torch.Tensor],
        running: Optional[_Running],
        eps: float,
    ) -> torch.Tensor:
        exact, dims = _samples(input)
        mean, variance, total = _statistics(exact, dims)
        if running is not None:
            running.follow(mean, variance * (total / max(total - 1.0, 1.0)))
        scale = (variance + eps).rsqrt().to(exact.dtype)
        normalized = (exact - _per_channel(mean.to(exact.dtype), exact)) * _per_channel(scale, exact)
        ctx.save_for_backward(normalized, scale, weight)
        ctx.dims, ctx.total, ctx.dtype, ctx.bias_dtype = dims, total, input.dtype, None if bias is None else bias.dtype
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
        # In their parameters' types: sums over a batch may be more than the input's type can hold.
        for_weight = own[1].to(weight.dtype) if weight is not None and ctx.needs_input_grad[1] else None
        for_bias = own[0].to(ctx.bias_dtype) if ctx.needs_input_grad[2] else None
        return (*_once(for_input, for_weight, for_bias), None, None)


def _order(tensor: torch.Tensor) -> torch.memory_format:
    """The order of dimensions in which PyTorch's kernels take the tensor, if it has one that they take."""
    orders = (torch.channels_last, torch.channels_last_3d)
    return next((each for each in orders if tensor.is_contiguous(memory_format=each)), torch.contiguous_format)


def _gather(input: torch.Tensor, eps: float) -> torch.Tensor:
    """Of each rank that has elements, in a row of 2C + 1 numbers, the mean and 1 / sqrt(variance + eps) of its channels,
    and how many elements it has of each. float32, or float64 as the input.

    ValueError: no rank has any.
    """
    # One exchange. Sums of squares, which an allreduce could add up, would lose the variance of channels that are far from
    # zero. Ranks without elements give no row: the kernel that combines rows takes no count of 0. The host knows the
    # number of rows from the negotiation, while it would have to wait for their contents.
    channels = input.size(1)
    if input.numel() > 0:
        mean, scale = torch.batch_norm_stats(input, eps)
        count = mean.new_full((1,), input.numel() // channels)
        own = torch.cat([mean, scale, count]).unsqueeze(0)
    else:
        own = input.new_empty((0, 2 * channels + 1), dtype=torch.promote_types(input.dtype, torch.float32))
    everyone = at_once(ops.allgather_async, own, "sync_batch_norm.statistics")
    if len(everyone) == 0:
        raise ValueError("SyncBatchNorm: the batches of all ranks are empty")
    return everyone


def _combine(everyone: torch.Tensor, running: Optional[_Running], eps: float) -> Tuple[torch.Tensor, torch.Tensor]:
    """Of what _gather gives, the mean and 1 / sqrt(variance + eps) of each channel over all ranks' elements."""
    channels = everyone.size(1) // 2
    means, scales, counts = everyone[:, :channels], everyone[:, channels:-1], everyone[:, -1]
    kept, share = (None, None), 0.0
    # The kernel knows running statistics of its own type only, and a share that the host knows.
    is_direct = running is not None and not isinstance(running.share, torch.Tensor)
    is_direct = is_direct and running.mean.dtype == running.variance.dtype == everyone.dtype
    if is_direct:
        kept, share = (running.mean, running.variance), running.share
    elif running is not None:
        kept, share = everyone.new_zeros(2, channels).unbind(), 1.0
    # Of its first argument it takes the type alone, which counts would have to have too: in 16 bits they have no place.
    mean, scale = torch.batch_norm_gather_stats_with_counts(everyone, means, scales, *kept, share, eps, counts)
    if running is not None and not is_direct:
        running.follow(*kept)
    return mean, scale


class _NormalizeOnGpu(torch.autograd.Function):
    """As _Normalize, by the kernels of torch.nn.SyncBatchNorm: they read 16-bit inputs as they are, and keep no copy.
    Nothing here asks for the contents of a tensor, and nothing is copied from the host."""

    @staticmethod
    def forward(
        ctx: Any,
        input: torch.Tensor,
        weight: Optional[torch.Tensor],
        bias: Optional[torch.Tensor],
        running: Optional[_Running],
        eps: float,
    ) -> torch.Tensor:
        input = input.contiguous(memory_format=_order(input))
        everyone = _gather(input, eps)
        mean, scale = _combine(everyone, running, eps)
        ctx.dtypes = [None if each is None else each.dtype for each in (weight, bias)]
        # With 16-bit inputs the kernels take parameters of the statistics' type.
        weight, bias = (None if each is None else each.to(mean.dtype).contiguous() for each in (weight, bias))
        ctx.save_for_backward(input, weight, mean, scale, everyone[:, -1].to(torch.int32))
        return torch.batch_norm_elemt(input, weight, bias, mean, scale, eps) if input.numel() > 0 else input.clone()

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> Tuple[Any, ...]:
        input, weight, mean, scale, counts = ctx.saved_tensors
        has_elements = input.numel() > 0
        if has_elements:
            gradient = gradient.contiguous(memory_format=_order(input))
            needed = (True, weight is not None, False)
            for_bias, products, for_weight, _ = torch.batch_norm_backward_reduce(
                gradient, input, mean, scale, weight, *needed
            )
        else:
            # Gradients of zeros, and not none: the optimizers of other ranks wait for all of them.
            for_bias, products, for_weight = (torch.zeros_like(mean) for _ in range(3))
        for_input = None
        if ctx.needs_input_grad[0]:
            own = torch.cat([for_bias, products])
            sums = at_once(ops.allreduce_async, own, None, "sync_batch_norm.gradients", Sum).chunk(2)
            if has_elements:
                for_input = torch.batch_norm_backward_elemt(gradient, input, mean, scale, weight, *sums, counts)
            else:
                for_input = torch.empty_like(input)
        for_weight = for_weight.to(ctx.dtypes[0]) if ctx.needs_input_grad[1] else None
        for_bias = for_bias.to(ctx.dtypes[1]) if ctx.needs_input_grad[2] else None
        return (*_once(for_input, for_weight, for_bias), None, None)
