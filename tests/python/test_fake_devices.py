"""Operations on tensors in a GPU, played by tensors that have a device, a type and a shape and no elements: each stays
on its device, in its types, and the host asks for no element and sends none."""

import types
from typing import Any, Callable, Iterator, List, Optional, Tuple

import batch_norm_kernels
import farandole.torch as hvd
import pytest
import torch
from farandole.torch import ops, state, sync_batch_norm
from farandole.torch.adasum import DistributedSteps
from farandole.torch.exchange import Terms
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensorMode,
)
from torch.utils._python_dispatch import TorchDispatchMode

GPU = torch.device("cuda:0")
SIZE = 2


class Waited(Exception):
    """Elements went from device to device, for which the host waits."""


class NoCopies(TorchDispatchMode):
    """Raises Waited for a copy between the host's memory and a GPU's. FakeTensorMode itself raises for the rest."""

    def __torch_dispatch__(self, func: Any, kinds: Any, args: Any = (), kwargs: Any = None) -> Any:
        sources = [arg.device for arg in args if isinstance(arg, torch.Tensor)]
        result = func(*args, **(kwargs or {}))
        copies = (torch.ops.aten._to_copy.default, torch.ops.aten.copy_.default)
        if func in copies and any(source != result.device for source in sources):
            raise Waited(f"{func}: {sources} to {result.device}")
        return result


class Given:
    """In the place of a handle."""

    def __init__(self, output: Any) -> None:
        self.synchronize = lambda: output


def _allreduce(tensor: torch.Tensor, *_terms: Any, **_options: Any) -> Given:
    return Given(tensor.clone())


def _allgather(tensor: torch.Tensor, *_terms: Any) -> Given:
    return Given(torch.cat([tensor] * SIZE))


def _alltoall(tensor: torch.Tensor, *_terms: Any) -> Given:
    return Given((tensor.clone(), None))


@pytest.fixture(autouse=True)
def _fakes(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Collectives give clones, as if all ranks had the same; the kernels that only GPUs have are computed otherwise."""
    for name, collective in (
        ("allreduce_async", _allreduce),
        ("allreduce_async_", _allreduce),
        ("allgather_async", _allgather),
        ("alltoall_async", _alltoall),
    ):
        monkeypatch.setattr(ops, name, collective)
    monkeypatch.setattr(sync_batch_norm, "size", lambda: SIZE)
    for name, kernel in batch_norm_kernels.KERNELS.items():
        monkeypatch.setattr(torch, name, kernel)
    with FakeTensorMode(allow_non_fake_inputs=True):
        yield


@pytest.mark.parametrize(
    "wait",
    [
        float,
        bool,
        torch.Tensor.item,
        torch.nonzero,
        lambda tensor: tensor[tensor > 0],
        torch.Tensor.cpu,
        lambda tensor: tensor.new_tensor([1.0]),
        lambda tensor: torch.tensor([1.0], device=tensor.device),
        lambda tensor: torch.ones(1).to(tensor),
        lambda tensor: tensor.copy_(torch.ones(1)),
    ],
)
def test_a_wait_is_found(wait: Callable[[torch.Tensor], Any]) -> None:
    tensor = torch.ones(1, device=GPU)
    with pytest.raises((Waited, DataDependentOutputException, DynamicOutputShapeException)), NoCopies():
        wait(tensor)


def _require(tensor: Optional[torch.Tensor], like: torch.Tensor) -> None:
    assert tensor is not None and (tensor.device, tensor.dtype, tensor.shape) == (like.device, like.dtype, like.shape)


SHAPES = [
    ((6, 3), torch.contiguous_format),
    ((6, 3, 5), torch.contiguous_format),
    ((6, 3, 4, 4), torch.contiguous_format),
    ((6, 3, 4, 4), torch.channels_last),
    ((6, 3, 2, 4, 4), torch.channels_last_3d),
    ((0, 3, 4, 4), torch.contiguous_format),
]
TYPES = [
    (torch.float32, torch.float32),
    (torch.float64, torch.float64),
    (torch.float16, torch.float32),
    (torch.bfloat16, torch.float32),
    (torch.bfloat16, torch.bfloat16),
]


def _on_gpu(layer: torch.nn.Module, dtype: torch.dtype = torch.float32) -> torch.nn.Module:
    """As to(), which refuses such tensors."""
    for name, tensor in layer.named_parameters():
        layer._parameters[name] = torch.nn.Parameter(tensor.detach().to(GPU, dtype))
    for name, tensor in layer.named_buffers():
        layer._buffers[name] = tensor.to(GPU, dtype if tensor.is_floating_point() else tensor.dtype)
    return layer


def _drive(layer: torch.nn.Module, given: torch.Tensor) -> None:
    """Two steps, of which the layer keeps what a device, a type and a shape say. Not by Tensor.backward(), which asks for
    the GPU's streams."""
    for _ in range(2):
        output = layer(given)
        _require(output, given)
        assert output.stride() == given.stride()
        # As sum() gives it: of no order.
        gradient = torch.ones((), dtype=output.dtype, device=GPU).expand(output.shape)
        for_input, for_weight, for_bias, *_ = output.grad_fn.apply(gradient)
        _require(for_input, given)
        assert for_input.stride() == given.stride()
        for found, parameter in ((for_weight, layer.weight), (for_bias, layer.bias)):
            if parameter is None:
                assert found is None
            else:
                _require(found, parameter)


@pytest.mark.parametrize("momentum", [0.1, None])
@pytest.mark.parametrize("dtype,own_dtype", TYPES)
@pytest.mark.parametrize("shape,order", SHAPES)
def test_batch_norm_never_waits(
    shape: Tuple[int, ...],
    order: torch.memory_format,
    dtype: torch.dtype,
    own_dtype: torch.dtype,
    momentum: Optional[float],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    layer = _on_gpu(hvd.SyncBatchNorm(3, momentum=momentum), own_dtype)
    before = {name: buffer for name, buffer in layer.named_buffers()}
    given = torch.randn(shape, device=GPU).to(dtype, memory_format=order).requires_grad_()
    if given.numel() == 0:
        row = torch.ones(1, 7, dtype=torch.promote_types(dtype, torch.float32), device=GPU)
        monkeypatch.setattr(ops, "allgather_async", lambda own, _name: Given(torch.cat([own, row])))
    with NoCopies():
        _drive(layer, given)
    for name, buffer in layer.named_buffers():
        assert buffer is before[name] and buffer.device == GPU


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
@pytest.mark.parametrize("tracks", [True, False])
def test_batch_norm_without_parameters_never_waits(dtype: torch.dtype, tracks: bool) -> None:
    layer = _on_gpu(hvd.SyncBatchNorm(3, affine=False, track_running_stats=tracks))
    given = torch.randn(6, 3, 4, 4, device=GPU, dtype=dtype, requires_grad=True)
    with NoCopies():
        _drive(layer, given)


def _reduce(exchange: Any, gradient: torch.Tensor, op: int = hvd.Average) -> torch.Tensor:
    """By the collectives above."""
    going = exchange.reduce("w", gradient, Terms(op, 1.0, 1.0, types.SimpleNamespace(size=lambda: SIZE)))
    handle = next(going)
    try:
        while True:
            handle = going.send(handle.synchronize())
    except StopIteration as end:
        return end.value


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize(
    "exchange",
    [
        lambda: hvd.Compression.int8(min_elements=0),
        lambda: hvd.Compression.int8(block=7, min_elements=0, error_feedback=False),
        lambda: hvd.Compression.powersgd(rank=2, start_step=0),
        lambda: hvd.Compression.powersgd(rank=2, start_step=0, error_feedback=False),
    ],
)
def test_exchanges_wait_in_their_first_step_at_most(exchange: Callable[[], Any], dtype: torch.dtype) -> None:
    reducer = exchange()
    gradient = torch.randn(64, 30, device=GPU, dtype=dtype)
    # Where PowerSGD's first matrices come from the host.
    _require(_reduce(reducer, gradient), gradient)
    for _ in range(2):
        with NoCopies():
            _require(_reduce(reducer, gradient), gradient)


@pytest.mark.parametrize("compression", [hvd.Compression.none, hvd.Compression.fp16])
def test_steps_for_adasum_never_wait(compression: Any) -> None:
    parameters = [torch.nn.Parameter(torch.randn(8, 4, device=GPU)), torch.nn.Parameter(torch.randn(8, device=GPU))]
    optimizer = torch.optim.SGD(parameters, lr=0.1, momentum=0.9)
    outside = types.SimpleNamespace(included=lambda: False)  # nobody to agree with
    optimizer.__class__ = type("Optimizer", (DistributedSteps, torch.optim.SGD), {"process_set": outside})
    optimizer.share_with(optimizer)
    optimizer.combine([(str(index), parameter) for index, parameter in enumerate(parameters)], compression)
    for _ in range(2):
        for parameter in parameters:
            parameter.grad = torch.ones_like(parameter)
        with NoCopies():
            optimizer.step()
    assert all(parameter.device == GPU for parameter in parameters)


def test_states_are_made_where_the_senders_are() -> None:
    parameter = torch.nn.Parameter(torch.randn(8, 4, 3, 3, device=GPU).contiguous(memory_format=torch.channels_last))
    sender = {
        "state": {0: {"exp_avg": torch.zeros_like(parameter, dtype=torch.bfloat16), "step": torch.tensor(3.0)}},
        "param_groups": [{"lr": torch.tensor(0.1, device=GPU), "betas": (0.9, 0.99), "params": [0]}],
    }
    sent: List[torch.Tensor] = []
    received: dict = {}
    with NoCopies():
        skeleton = state._take_tensors(sender, sent)
        made = state._put_tensors(skeleton, received, state._gpu_of(torch.optim.SGD([parameter], lr=0.1)))
    for index, tensor in enumerate(sent):
        _require(received[index], tensor)
        assert received[index].stride() == tensor.stride()
    assert [tensor.device.type for tensor in sent] == ["cuda", "cpu", "cuda"]
    assert made["state"][0]["step"] is received[1] and made["param_groups"][0]["betas"] == (0.9, 0.99)
