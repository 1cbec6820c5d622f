"""The operations on tensors, without autograd (differentiable.py adds it).

Tensors are strided tensors of uint8, int8, uint16, int16, int32, int64, float8_e4m3fn, float8_e5m2, float16, bfloat16,
float32, float64 or bool, of any shape and strides; others are a ValueError. Those in a CUDA GPU travel from there, by
NCCL, if all of the job's workers have it (gpus.py), and a call may return before they have: what the current stream is
given afterwards waits for them. Those of other devices travel through the host's memory (staging.py), and then ranks
may have tensors on different devices. Outputs are on the device of the inputs. All ranks of the process set call an
operation with the same name, element type and, unless it says otherwise, shape; without a name, calls are paired in
their order. If ranks disagree, each gets a ValueError that names two of them and both values, and the job goes on.
EpochEnded: a worker has died or left.
"""

import threading
from numbers import Integral
from typing import Any, Callable, List, Optional, Sequence, Tuple

import torch

from .. import _handles, _ops
from .._handles import Handle, Place, at_once, told_streams
from .._library import NOT_DIRECT, direct, failure, lib
from .._operations import Operations, described_by, share_memory
from .._operations import barrier as barrier
from ..process_sets import ProcessSet, global_process_set, group_of
from ..reduce_ops import NAMES, Adasum, Average, Sum, choose
from . import gpus
from .staging import on_host

_DTYPES = {
    torch.uint8: lib.FARANDOLE_U8,
    torch.int8: lib.FARANDOLE_I8,
    torch.int16: lib.FARANDOLE_I16,
    torch.int32: lib.FARANDOLE_I32,
    torch.int64: lib.FARANDOLE_I64,
    torch.float16: lib.FARANDOLE_F16,
    torch.bfloat16: lib.FARANDOLE_BF16,
    torch.float32: lib.FARANDOLE_F32,
    torch.float64: lib.FARANDOLE_F64,
    torch.bool: lib.FARANDOLE_BOOL,
}
if hasattr(torch, "uint16"):  # since torch 2.3
    _DTYPES[torch.uint16] = lib.FARANDOLE_U16
if hasattr(torch, "float8_e5m2"):  # since torch 2.1
    _DTYPES[torch.float8_e4m3fn] = lib.FARANDOLE_F8E4M3
    _DTYPES[torch.float8_e5m2] = lib.FARANDOLE_F8E5M2


def _mark_each(tensors: Sequence[torch.Tensor]) -> None:
    for tensor in tensors:
        torch.autograd.graph.increment_version(tensor)


# Tells autograd that the library writes to these tensors, as torch's own operations in place do: a graph that has saved
# one of them, or another tensor with its memory, then refuses to compute derivatives of what it has not seen. 0.1 us.
mark_written: Callable[[Sequence[torch.Tensor]], None] = torch._C._increment_version
try:
    mark_written((torch.empty(0),))
except (TypeError, RuntimeError):  # older versions take one tensor
    mark_written = _mark_each


# Submissions that go on after an exception out of allreduce_. Only handlers of signals raise there, in the main thread. A
# list for each call would take 1 % of the time of a small one.
_interrupted: List[int] = []

_bytes_of = torch.Tensor.nbytes.__get__

_allreduce = direct("allreduce")
_allreduce_async = direct("allreduce_async")
_grouped_allreduce = direct("grouped_allreduce")


def require_shape(what: str, tensor: torch.Tensor) -> None:
    """ValueError: it is a parameter of a lazy module, which has not seen its first input yet."""
    if isinstance(tensor, torch.nn.parameter.UninitializedTensorMixin):
        raise ValueError(f"{what} has no shape before a forward pass of its lazy module: run one first")


def check_tensor(tensor: Any) -> None:
    """ValueError if farandole cannot send it."""
    if not isinstance(tensor, torch.Tensor):
        raise ValueError(f"a torch.Tensor is needed, not a {type(tensor).__name__}")
    require_shape(f"a {type(tensor).__name__}", tensor)
    if tensor.is_meta:
        raise ValueError("the tensor is on meta: it has no elements that could be sent")
    if tensor.is_nested:
        raise ValueError("the tensor is nested: farandole sends its parts, tensor.unbind(), as a grouped operation")
    if tensor.layout is not torch.strided:
        raise ValueError(
            f"the tensor's layout is {tensor.layout}: this version of farandole handles dense tensors only; use tensor.to_dense()"
        )
    if tensor.dtype not in _DTYPES:
        raise ValueError(f"a tensor of {tensor.dtype} cannot be sent: farandole has no such element type")


def memory_order(tensor: torch.Tensor) -> Optional[List[int]]:
    """The dimensions in the order in which elements follow each other in memory (channels_last), in which the tensor is
    contiguous; None where there are gaps or overlaps. Strides of dimensions of size 1 mean nothing: those come last."""
    order = sorted(range(tensor.dim()), key=lambda i: (tensor.size(i) == 1, -tensor.stride(i)))
    return order if tensor.permute(order).is_contiguous() else None


class _TorchAdapter:
    """The view of a torch.Tensor."""

    def describe(self, array: torch.Tensor) -> Tuple[int, Tuple[int, ...], int]:
        try:
            address = array.data_ptr()
        except RuntimeError:  # inside of torch.func's transformations
            address = 0
        if address == 0 and array.numel() > 0:
            raise ValueError(
                f"this {type(array).__name__} has no memory of its own that could be sent: give the tensors that it is "
                "made of, such as to_local() of a DTensor, and call operations outside of torch.func"
            )
        return address, array.shape, _DTYPES[array.dtype]

    def contiguous(self, array: torch.Tensor, reduction: Optional[_ops.Reduction] = None) -> torch.Tensor:
        check_tensor(array)
        if not array.is_cpu and not gpus.takes(array, reduction):
            return on_host(array)
        # contiguous() leaves the negative bit as it is: its memory has the numbers with the other sign.
        return array.detach().resolve_neg().contiguous() if not array.is_contiguous() or array.is_neg() else array

    def empty(self, like: torch.Tensor, shape: Sequence[int]) -> torch.Tensor:
        return torch.empty(shape, dtype=like.dtype, device=like.device if like.is_cuda else "cpu")

    def place(self, source: torch.Tensor) -> Optional[Place]:
        return gpus.place(source) if source.is_cuda else None

    def deliver(self, array: torch.Tensor, output: torch.Tensor) -> torch.Tensor:
        return output if array.is_cpu or output.is_cuda else output.to(array.device)

    def assign(self, target: torch.Tensor, source: torch.Tensor) -> None:
        # PyTorch lets a tensor of inference be changed in that mode only.
        with torch.inference_mode() if target.is_inference() else torch.no_grad():
            target.copy_(source)

    def accept(self, given: Any) -> Any:
        return given  # contiguous() looks at it

    def accept_writable(self, given: Any) -> Any:
        if isinstance(given, torch.Tensor):
            mark_written((given,))
        return given

    def whole_numbers(self, splits: Any) -> Optional[List[int]]:
        if splits is None or (hasattr(splits, "__len__") and len(splits) == 0):  # Horovod: no splits are none
            return None
        if not hasattr(splits, "__len__"):
            is_list = False
        elif isinstance(splits, torch.Tensor):
            is_list = splits.dim() == 1 and not splits.is_floating_point() and not splits.is_complex()
            numbers = splits.tolist()
        else:
            numbers = list(splits)
            is_list = all(isinstance(number, Integral) for number in numbers)
        if not is_list:
            raise ValueError(f"splits are a list of whole numbers, one for each rank, not {splits!r}")
        return numbers

    def received(self, rows: List[int], splits: Any) -> torch.Tensor:
        is_tensor = isinstance(splits, torch.Tensor)
        return torch.tensor(
            rows, dtype=splits.dtype if is_tensor else torch.int32, device=splits.device if is_tensor else None
        )


adapter = _TorchAdapter()
operations = Operations[torch.Tensor, torch.Tensor](adapter)
allgather_async = operations.allgather_async
alltoall_async = operations.alltoall_async
broadcast_ = operations.broadcast_
broadcast_async = operations.broadcast_async
broadcast_async_ = operations.broadcast_async_
grouped_allgather_async = operations.grouped_allgather_async
grouped_allreduce_async = operations.grouped_allreduce_async
grouped_reducescatter_async = operations.grouped_reducescatter_async
reducescatter_async = operations.reducescatter_async


def allreduce_(
    tensor: torch.Tensor,
    average: Optional[bool] = None,
    name: Optional[str] = None,
    op: Optional[int] = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> torch.Tensor:
    """Replaces `tensor` by postscale_factor * op over ranks (prescale_factor * tensor), and returns it. Reductions:
    see allreduce."""
    # As allreduce_now, without what makes up for the time that the mark for autograd takes.
    if average is not None or (op is not Sum and op is not Average):
        op = choose(op, average)
    try:
        encoded = _ops.encode_name(name) if name else None
        output = None if told_streams and _handles.has_stream() else tensor
        group = process_set.process_set_id
        code = _allreduce(tensor, output, _DTYPES, encoded, op, prescale_factor, postscale_factor, group, _interrupted)
    except BaseException as error:
        if threading.current_thread() is threading.main_thread():
            _handles.rescue(_interrupted, tensor)
            _interrupted.clear()
        _ops.explain(error, prescale_factor, postscale_factor, process_set)
        raise
    if code == NOT_DIRECT:
        call = (name, op, prescale_factor, postscale_factor, process_set)
        tensor = at_once(_ops.allreduce, adapter, tensor, True, *call)
    elif code:
        raise failure(code)
    mark_written((tensor,))
    return tensor


@described_by(Operations.allreduce_async)
def allreduce_async(
    tensor: torch.Tensor,
    average: Optional[bool] = None,
    name: Optional[str] = None,
    op: Optional[int] = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> Handle:
    return _submit(tensor, False, name, choose(op, average), prescale_factor, postscale_factor, process_set)


@described_by(Operations.allreduce_async_)
def allreduce_async_(
    tensor: torch.Tensor,
    average: Optional[bool] = None,
    name: Optional[str] = None,
    op: Optional[int] = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> Handle:
    return _submit(tensor, True, name, choose(op, average), prescale_factor, postscale_factor, process_set)


def _submit(
    tensor: torch.Tensor,
    in_place: bool,
    name: Optional[str],
    op: int,
    prescale: float,
    postscale: float,
    process_set: ProcessSet,
) -> Handle:
    """Submits an allreduce, by the shortest way where these tensors can go it."""
    output = tensor if in_place else _empty_like(tensor)
    if output is None or (told_streams and _handles.has_stream()):
        return _submit_any(tensor, in_place, name, op, prescale, postscale, process_set)
    encoded = _ops.encode_name(name) if name else None
    submitted: List[int] = []
    _handles.sweep()
    try:
        group = process_set.process_set_id
        group = group_of(process_set) if group is None else group
        code = _allreduce_async(tensor, output, _DTYPES, encoded, op, prescale, postscale, group, submitted)
        if code == 0:
            if in_place:
                mark_written((tensor,))
            return Handle.of_submitted(submitted, output if in_place else (tensor, output), output)
    except BaseException as error:
        _handles.rescue(submitted, (tensor, output))
        _ops.explain(error, prescale, postscale, process_set)
        raise
    if code is None:
        return _submit_any(tensor, in_place, name, op, prescale, postscale, process_set)
    raise failure(-code)


def _submit_any(tensor: torch.Tensor, in_place: bool, *call: Any) -> Handle:
    handle = _ops.allreduce(adapter, tensor, in_place, *call)
    if in_place:
        mark_written((tensor,))
    return handle


def allreduce_now(
    tensor: torch.Tensor,
    name: Optional[str],
    op: int,
    prescale: float,
    postscale: float,
    process_set: ProcessSet,
) -> torch.Tensor:
    """allreduce by the shortest way: one call of the library, and no handle of ours."""
    output = _empty_like(tensor)
    if told_streams and _handles.has_stream():
        output = None
    encoded = _ops.encode_name(name) if name else None
    pending: List[int] = []
    try:
        group = process_set.process_set_id
        group = group_of(process_set) if group is None else group
        code = _allreduce(tensor, output, _DTYPES, encoded, op, prescale, postscale, group, pending)
    except BaseException as error:
        _handles.rescue(pending, (tensor, output))
        _ops.explain(error, prescale, postscale, process_set)
        raise
    if code == NOT_DIRECT:
        return at_once(_ops.allreduce, adapter, tensor, False, name, op, prescale, postscale, process_set)
    if code:
        raise failure(code)
    return output


def _empty_like(tensor: Any) -> Optional[torch.Tensor]:
    """Where a result goes by the shortest way. None: it is no tensor, or one that goes another way, which says why."""
    try:
        return torch.empty_like(tensor, requires_grad=False) if tensor.is_cpu else None
    except (AttributeError, TypeError, ValueError):
        return None


class _CopyingAdapter(_TorchAdapter):
    """Of tensors that share memory: each travels from a copy, and the results are written in the order of the call."""

    def contiguous(self, array: torch.Tensor, reduction: Optional[_ops.Reduction] = None) -> torch.Tensor:
        made = super().contiguous(array, reduction)
        return made.detach().clone() if made is array else made


_copying = _CopyingAdapter()


def _adapter_in_place(tensors: Sequence[Any]) -> _TorchAdapter:
    """For a grouped call in place: two reductions that write the same memory at the same time would leave a mixture."""
    if len(tensors) < 2:
        return adapter
    try:
        # Those with gaps travel as copies anyway.
        begins = list(map(torch.Tensor.data_ptr, tensors))
        is_shared = share_memory(begins, list(map(_bytes_of, tensors)))
    except (RuntimeError, TypeError):  # one has no memory; the call says so
        return adapter
    return _copying if is_shared else adapter


def grouped_allreduce_now(
    tensors: Sequence[torch.Tensor],
    in_place: bool,
    name: Optional[str],
    op: int,
    prescale: float,
    postscale: float,
    process_set: ProcessSet,
) -> List[torch.Tensor]:
    """As allreduce_now, for several tensors."""
    inputs = _ops.listed(tensors)
    own_adapter = _adapter_in_place(inputs) if in_place else adapter
    is_direct = op != Adasum and own_adapter is adapter and not _handles.has_stream()
    outputs = inputs
    if is_direct and not in_place:
        outputs = list(map(_empty_like, inputs))
        is_direct = all(output is not None for output in outputs)
    encoded = _ops.encode_name(name) if name else None
    code = NOT_DIRECT
    pending: List[int] = []
    try:
        if is_direct:
            group = group_of(process_set)
            code = _grouped_allreduce(inputs, outputs, _DTYPES, encoded, op, prescale, postscale, group, pending)
    except BaseException as error:
        _handles.rescue(pending, (inputs, outputs))
        _ops.explain(error, prescale, postscale, process_set)
        raise
    if code == NOT_DIRECT:
        call = (name, op, prescale, postscale, process_set)
        outputs = at_once(_ops.grouped_allreduce, own_adapter, inputs, in_place, *call)
    elif code:
        raise failure(code)
    if in_place:
        mark_written(inputs)
    return outputs


def grouped_allreduce_(
    tensors: Sequence[torch.Tensor],
    average: Optional[bool] = None,
    name: Optional[str] = None,
    op: Optional[int] = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> List[torch.Tensor]:
    """As grouped_allreduce, in place; returns the list of tensors. Memory that several share is reduced once."""
    return grouped_allreduce_now(
        tensors, True, name, choose(op, average), prescale_factor, postscale_factor, process_set
    )


def grouped_allreduce_async_(
    tensors: Sequence[torch.Tensor],
    average: Optional[bool] = None,
    name: Optional[str] = None,
    op: Optional[int] = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> Handle:
    """As grouped_allreduce_, but returns at once; neither read nor write the tensors until synchronize()."""
    targets = [adapter.accept_writable(tensor) for tensor in _ops.listed(tensors)]
    terms = (name, choose(op, average), prescale_factor, postscale_factor, process_set)
    return _ops.grouped_allreduce(_adapter_in_place(targets), targets, True, *terms)


class SparseHandle(Handle):
    """Of sparse_allreduce_async. Horovod's users call it for the output."""

    __slots__ = ()

    def __call__(self) -> torch.Tensor:
        return self.synchronize()


def sparse_allreduce_async(
    tensor: torch.Tensor, name: Optional[str], op: int = Average, process_set: ProcessSet = global_process_set
) -> SparseHandle:
    """Gathers the indices and values of the ranks' sparse tensors, whose numbers of values may differ, and returns at
    once. The handle's output is their average or sum, a sparse tensor that is not coalesced (an average of integers is).

    ValueError: `tensor` is not a sparse COO tensor; `op` is neither Average nor Sum; ranks have different shapes.
    """
    if not isinstance(tensor, torch.Tensor) or tensor.layout is not torch.sparse_coo:
        raise ValueError(f"a sparse COO tensor is needed, not {getattr(tensor, 'layout', type(tensor).__name__)}")
    op = choose(op, None)
    if op not in (Average, Sum):
        raise ValueError(f"sparse tensors are averaged or summed; op={NAMES[op]} is for dense ones")
    if op == Average and tensor.dtype is torch.bool:
        raise ValueError("there is no average of bool; reduce with sum")
    group_of(process_set)
    shape, size = tensor.shape, process_set.size()
    found = tensor.detach()

    def combine(gathered: List[torch.Tensor], _rows: List[List[int]]) -> torch.Tensor:
        indices, values, shapes = gathered
        for row in shapes.tolist():
            if row[1:] != shapes[0, 1:].tolist():
                first = shapes[0].tolist()
                raise ValueError(f"{name}: rank {first[0]} has shape {first[1:]}, rank {row[0]} has shape {row[1:]}")
        if op == Average and values.is_floating_point():
            values = values / size
        total = torch.sparse_coo_tensor(indices.t(), values, shape, check_invariants=False)
        # Integers are truncated after all of an index are added up, as those of dense tensors.
        return _truncated_average(total.coalesce(), size) if op == Average and not values.is_floating_point() else total

    # With the rank, for the sentence.
    row = torch.tensor([[lib.farandole_rank(), *shape]])
    parts = [found._indices().t(), found._values(), row]
    gathering = _ops.grouped_allgather(adapter, parts, name, process_set, combine, SparseHandle)
    assert isinstance(gathering, SparseHandle)
    return gathering


def _truncated_average(total: torch.Tensor, size: int) -> torch.Tensor:
    values = total.values().div(size, rounding_mode="trunc")
    return torch.sparse_coo_tensor(total.indices(), values, total.shape, check_invariants=False)._coalesced_(True)


def join(device: int = -1) -> int:
    """As farandole.numpy.join. `device` is Horovod's, and is not looked at."""
    del device
    return _ops.join()
