"""SyncBatchNorm: a batch that lies on all ranks beside one that lies on this one."""

from typing import Any, Dict, List

import farandole.torch as hvd
import torch
from harness import Checks, expect_error

check = Checks()


def _counts() -> List[int]:
    """Samples of each rank: one more than its number, and the first one has none where there are several."""
    return [0 if rank == 0 and hvd.size() > 1 else rank + 1 for rank in range(hvd.size())]


def _mine() -> slice:
    """This rank's part of all samples."""
    start = sum(_counts()[: hvd.rank()])
    return slice(start, start + _counts()[hvd.rank()])


def _step(input: torch.Tensor, layer: torch.nn.Module) -> Dict[str, Any]:
    """The layer's output and statistics, and the gradients of a loss that weighs channels by their numbers."""
    input = input.detach().clone().requires_grad_()
    output = layer(input)
    (output.to(torch.promote_types(output.dtype, torch.float32)).square().transpose(0, 1).flatten(1).sum(1)).mul(
        torch.arange(output.shape[1])
    ).sum().backward()
    found = {"output": output.detach(), "input": input.grad}
    if layer.weight is not None:
        found.update(weight=layer.weight.grad, bias=layer.bias.grad)
    if layer.running_mean is not None:
        found.update(mean=layer.running_mean, variance=layer.running_var)
    return found


def _compare(own: Dict[str, Any], whole: Dict[str, Any], close: Dict[str, float]) -> None:
    """A rank's step with its share beside one with all samples. Gradients of parameters are each rank's own, and sums over
    samples that are rounded one by one."""
    for name, value in own.items():
        wanted, atol = whole[name], close["atol"]
        if name in ("output", "input"):
            wanted = wanted[_mine()]
        elif name in ("weight", "bias"):
            value, atol = hvd.allreduce(value, op=hvd.Sum), atol * sum(_counts())
        torch.testing.assert_close(
            value, wanted, rtol=close["rtol"], atol=atol, msg=lambda text, name=name: f"{name}: {text}"
        )


@check.each("0.1", "None", "bfloat16")
def batches_of_all_ranks_are_normalized_as_one(kind: str) -> None:
    momentum = None if kind == "None" else 0.1
    dtype = torch.bfloat16 if kind == "bfloat16" else torch.float64
    close = {"rtol": 0.05, "atol": 0.2} if kind == "bfloat16" else {"rtol": 1e-9, "atol": 1e-9}
    generator = torch.Generator().manual_seed(4)
    whole, layer = (kind(4, momentum=momentum).to(dtype) for kind in (torch.nn.BatchNorm1d, hvd.SyncBatchNorm))
    for _ in range(3):
        everything = (3 * torch.randn(sum(_counts()), 4, 5, generator=generator, dtype=torch.float64) + 1).to(dtype)
        whole.zero_grad()
        layer.zero_grad()
        _compare(_step(everything[_mine()], layer), _step(everything, whole), close)
    layer.eval()
    assert layer(everything[:1]).shape == everything[:1].shape, "in evaluation nothing travels"
    expect_error(ValueError, lambda: layer(torch.ones(3)), "at least 2D")


@check.each((torch.float16, True), (torch.bfloat16, True), (torch.float16, False), (torch.float32, False))
def short_inputs_meet_long_parameters(dtype: torch.dtype, has_parameters: bool) -> None:
    """As torch.autocast has it. Without parameters there are no running statistics either."""
    generator = torch.Generator().manual_seed(5)
    everything = (2 * torch.randn(sum(_counts()), 3, 4, 4, generator=generator) - 1).to(dtype)
    terms = {"affine": has_parameters, "track_running_stats": has_parameters}
    whole, layer = torch.nn.BatchNorm2d(3, **terms), hvd.SyncBatchNorm(3, **terms)
    own = _step(everything[_mine()], layer)
    for name, value in own.items():
        assert value.dtype == (dtype if name in ("output", "input") else torch.float32), (name, value.dtype)
    long = _step(everything.float(), whole)
    for name in ("output", "input"):
        long[name] = long[name].to(dtype)
    close = {torch.float16: 2e-3, torch.bfloat16: 2e-2, torch.float32: 1e-5}[dtype]
    _compare(own, long, {"rtol": 2 * close, "atol": 4 * close})


@check.each(torch.float16, torch.bfloat16)
def gradients_are_sums_in_the_parameters_types(dtype: torch.dtype) -> None:
    layer = hvd.SyncBatchNorm(8)
    output = layer(torch.randn(64, 8, 32, 32).to(dtype))
    # A multiple of each output, which adds up to the sum of squares, is the gradient that the weight feels.
    output.backward(torch.full_like(output, 2.0) + 4.0 * output.detach())
    for gradient, wanted in ((layer.bias.grad, 2.0 * 64 * 32 * 32), (layer.weight.grad, 4.0 * 64 * 32 * 32)):
        assert gradient.dtype == torch.float32 and gradient.isfinite().all(), gradient
        mean = hvd.allreduce(gradient)
        torch.testing.assert_close(mean, torch.full((8,), wanted), rtol=0.02, atol=0.0)


@check
def orders_of_dimensions_stay() -> None:
    """channels_last, of two and of three dimensions, also where the gradient has the other order."""
    generator = torch.Generator().manual_seed(6)
    for shape, order in (((3, 4, 4), torch.channels_last), ((3, 2, 2, 2), torch.channels_last_3d)):
        everything = torch.randn(sum(_counts()), *shape, generator=generator)
        whole = (torch.nn.BatchNorm2d if len(shape) == 3 else torch.nn.BatchNorm3d)(3)
        layer = hvd.SyncBatchNorm(3)
        own = _step(everything[_mine()].contiguous(memory_format=order), layer)
        assert own["output"].is_contiguous(memory_format=order)
        _compare(own, _step(everything, whole), {"rtol": 1e-4, "atol": 1e-4})


@check
def a_parameter_may_stand_alone() -> None:
    for kept, dropped in (("weight", "bias"), ("bias", "weight")):
        layer = hvd.SyncBatchNorm(4)
        layer.register_parameter(dropped, None)
        layer(torch.randn(hvd.rank() + 2, 4)).sum().backward()
        assert getattr(layer, kept).grad.shape == (4,)


@check
def running_statistics_may_be_taken_away() -> None:
    """As programs do that always want those of the batch."""
    layer = hvd.SyncBatchNorm(4)
    layer.running_mean = layer.running_var = None
    # Two samples by chance so close to each other that their mean's rounding shows are not what is tested.
    own = torch.randn(hvd.rank() + 2, 4, generator=torch.Generator().manual_seed(7 + hvd.rank()))
    for training in (True, False):
        output = layer.train(training)(own)
        everyone = hvd.allgather(output.detach())
        torch.testing.assert_close(everyone.mean(0), torch.zeros(4), rtol=0, atol=1e-5)


@check.each("linear", "square")
def a_second_derivative_is_refused_in_a_sentence(loss: str) -> None:
    """Also where the first one depends on the input only by the statistics."""
    if hvd.size() == 1:
        return
    layer = hvd.SyncBatchNorm(4)
    own = torch.randn(3, 4, generator=torch.Generator().manual_seed(hvd.rank()), requires_grad=True)
    output = layer(own)
    weighted = (output.square() if loss == "square" else output) * torch.arange(12.0).reshape(3, 4)
    gradients = torch.autograd.grad(weighted.sum(), (own, layer.weight, layer.bias), create_graph=True)
    for gradient in gradients:
        expect_error(NotImplementedError, (gradient * own.sum(0)).sum().backward, "SyncBatchNorm", "second derivative")
    (own.square().sum() + hvd.SyncBatchNorm(4)(own).sum()).backward()


@check
def batches_without_elements_everywhere_are_refused() -> None:
    if hvd.size() > 1:
        expect_error(ValueError, lambda: hvd.SyncBatchNorm(4)(torch.empty(0, 4, 2)), "batches of all ranks are empty")


@check
def batch_norms_are_converted_as_torch_does_it() -> None:
    inner = torch.nn.BatchNorm2d(3, eps=0.5, momentum=None, affine=False)
    model = torch.nn.Sequential(torch.nn.BatchNorm1d(4), torch.nn.Sequential(inner), torch.nn.Linear(4, 4)).eval()
    weight, own = model[0].weight, hvd.SyncBatchNorm(2)
    converted = hvd.convert_sync_batchnorm(model)
    assert converted is model and isinstance(model[0], hvd.SyncBatchNorm) and isinstance(model[1][0], hvd.SyncBatchNorm)
    assert model[0].weight is weight and not model[0].training and model[1][0].running_mean is inner.running_mean
    assert (model[1][0].eps, model[1][0].momentum, model[1][0].affine) == (0.5, None, False)
    assert hvd.convert_sync_batchnorm(own) is own and isinstance(model[2], torch.nn.Linear)
