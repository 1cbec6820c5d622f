"""The operations with a result of their own, through which gradients flow; their contract is in ops.py.

Gradients are Horovod's. Of allreduce: the allreduce of the gradients, by the same op and factors. Of allgather: the
average over ranks, each rank's own rows. Of alltoall, gather and scatter: the gradients go back to where the rows
came from. Of reducescatter: the allgather of the gradients, times the factors, and for Sum times the number of ranks.
Of broadcast: the average over ranks on the root, zero elsewhere.
"""

from typing import Any, List, Optional, Sequence, Tuple, Type

import torch

from .. import _ops
from .._handles import at_once
from ..basics import rank
from ..process_sets import ProcessSet, global_process_set
from ..reduce_ops import NAMES, Average, Sum, choose
from . import ops
from .compression import Compression


def _gradient_name(name: Optional[str]) -> Optional[str]:
    return f"{name}.gradient" if name else None


def _require_gradient(operation: str, op: int) -> None:
    if op not in (Average, Sum):
        raise NotImplementedError(
            f"{operation} with op={NAMES[op]} has no gradient in farandole; use Average or Sum, or detach()"
        )


def _compressed(tensors: Any, compression: Any) -> List[Tuple[torch.Tensor, Any]]:
    """Of each what travels, and what decompress() needs. ValueError: it is no tensor, or cannot be sent; or `compression` is
    none."""
    if not hasattr(compression, "compress"):
        raise ValueError(f"compression is a class such as Compression.fp16, not {compression!r}")
    given = _ops.listed(tensors)
    for tensor in given:
        ops.check_tensor(tensor)
    return [compression.compress(tensor) for tensor in given]


def _wants_gradient(tensor: Any) -> bool:
    return isinstance(tensor, torch.Tensor) and tensor.requires_grad and torch.is_grad_enabled()


class _Allreduce(torch.autograd.Function):
    """Of one or several tensors together; all the rest of the arguments has no gradient."""

    @staticmethod
    def forward(
        ctx: Any,
        name: Optional[str],
        op: int,
        prescale: float,
        postscale: float,
        process_set: ProcessSet,
        *tensors: torch.Tensor,
    ) -> Tuple[torch.Tensor, ...]:
        ctx.call = (name, op, prescale, postscale, process_set)
        return tuple(_reduce(tensors, *ctx.call))

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> Tuple[Any, ...]:
        name, op, prescale, postscale, process_set = ctx.call
        _require_gradient("allreduce", op)
        return (None,) * 5 + tuple(_reduce(gradients, _gradient_name(name), op, prescale, postscale, process_set))


def _reduce(
    tensors: Sequence[torch.Tensor],
    name: Optional[str],
    op: int,
    prescale: float,
    postscale: float,
    process_set: ProcessSet,
) -> List[torch.Tensor]:
    if len(tensors) == 1:
        return [ops.allreduce_now(tensors[0], False, name, op, prescale, postscale, process_set)]
    return ops.grouped_allreduce_now(tensors, False, name, op, prescale, postscale, process_set)


class _Allgather(torch.autograd.Function):
    """Of one or several tensors. A rank that wants no gradient submits the same without it."""

    @staticmethod
    def forward(
        ctx: Any, name: Optional[str], process_set: ProcessSet, *tensors: torch.Tensor
    ) -> Tuple[torch.Tensor, ...]:
        outputs, rows = at_once(
            _ops.grouped_allgather, ops.adapter, tensors, name, process_set, lambda *gathered: gathered
        )
        ctx.call = ([tensor.shape for tensor in tensors], rows, name, process_set)
        return tuple(outputs)

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> Tuple[Any, ...]:
        shapes, rows, name, process_set = ctx.call
        means = _reduce(gradients, _gradient_name(name), Average, 1.0, 1.0, process_set)
        position = process_set.rank()
        own = [mean.narrow(0, sum(each[:position]), each[position]) for mean, each in zip(means, rows)]
        return (None, None, *(part.reshape(shape) for part, shape in zip(own, shapes)))


class _Reducescatter(torch.autograd.Function):
    """Of one or several tensors; all the rest of the arguments has no gradient."""

    @staticmethod
    def forward(
        ctx: Any,
        is_grouped: bool,
        name: Optional[str],
        op: int,
        prescale: float,
        postscale: float,
        process_set: ProcessSet,
        *tensors: torch.Tensor,
    ) -> Tuple[torch.Tensor, ...]:
        ctx.call = (name, op, prescale * postscale, process_set)
        return tuple(_scatter(tensors, is_grouped, name, op, prescale, postscale, process_set))

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> Tuple[Any, ...]:
        name, op, factor, process_set = ctx.call
        _require_gradient("reducescatter", op)
        if op == Sum:
            factor *= process_set.size()
        scaled = [gradient if factor == 1.0 else gradient * factor for gradient in gradients]
        gathered = at_once(_ops.grouped_allgather, ops.adapter, scaled, _gradient_name(name), process_set)
        return (None,) * 6 + tuple(gathered)


def _scatter(
    tensors: Sequence[torch.Tensor],
    is_grouped: bool,
    name: Optional[str],
    op: int,
    prescale: float,
    postscale: float,
    process_set: ProcessSet,
) -> List[torch.Tensor]:
    call = (name, op, prescale, postscale, process_set)
    found = at_once(_ops.reducescatter, ops.adapter, tensors, *call, is_grouped)
    return found if is_grouped else [found]


class _Alltoall(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, tensor: torch.Tensor, splits: Any, name: Optional[str], process_set: ProcessSet
    ) -> Tuple[torch.Tensor, torch.Tensor]:
        output, received = at_once(ops.alltoall_async, tensor, splits, name, process_set)
        ctx.call = (tensor.shape[0], received, name, process_set)
        ctx.mark_non_differentiable(received)
        return output, received

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor, _received: torch.Tensor) -> Tuple[Any, ...]:
        rows, received, name, process_set = ctx.call
        own = at_once(ops.alltoall_async, gradient, received, _gradient_name(name), process_set)[0]
        if own.shape[0] < rows:  # the splits have left rows out
            own = torch.cat([own, own.new_zeros(rows - own.shape[0], *own.shape[1:])])
        return own, None, None, None


class _Gather(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, tensor: torch.Tensor, root: int, name: Optional[str], process_set: ProcessSet
    ) -> torch.Tensor:
        output, rows = at_once(_ops.gather, ops.adapter, tensor, root, name, process_set, True)
        ctx.call = (tensor.shape, rows, name, process_set)
        return output

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> Tuple[Any, ...]:
        shape, rows, name, process_set = ctx.call
        own = at_once(ops.alltoall_async, gradient, rows, _gradient_name(name), process_set)[0]
        return own.reshape(shape), None, None, None


class _Scatter(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, tensor: torch.Tensor, root: int, name: Optional[str], process_set: ProcessSet
    ) -> torch.Tensor:
        ctx.call = (tensor.shape, root, name, process_set)
        return at_once(_ops.scatter, ops.adapter, tensor, root, name, process_set)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> Tuple[Any, ...]:
        shape, root, name, process_set = ctx.call
        gathered = at_once(gather_async, gradient, root, _gradient_name(name), process_set)
        return gathered if rank() == root else gathered.new_zeros(shape), None, None, None


class _Broadcast(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, tensor: torch.Tensor, root: int, name: Optional[str], process_set: ProcessSet
    ) -> torch.Tensor:
        ctx.call = (root, name, process_set)
        return at_once(ops.broadcast_async, tensor, root, name, process_set)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> Tuple[Any, ...]:
        root, name, process_set = ctx.call
        mean = _reduce([gradient], _gradient_name(name), Average, 1.0, 1.0, process_set)[0]
        return mean if rank() == root else torch.zeros_like(mean), None, None, None


def grouped_allreduce(
    tensors: Sequence[torch.Tensor],
    average: Optional[bool] = None,
    name: Optional[str] = None,
    compression: Type = Compression.none,
    op: Optional[int] = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> List[torch.Tensor]:
    """As allreduce for several tensors, which may differ in shape and element type; those of one element type are
    reduced as one."""
    compressed = _compressed(tensors, compression)
    sent = [tensor for tensor, _ in compressed]
    call = (name, choose(op, average), prescale_factor, postscale_factor, process_set)
    received = _Allreduce.apply(*call, *sent) if any(map(_wants_gradient, sent)) else _reduce(sent, *call)
    return [compression.decompress(tensor, context) for tensor, (_, context) in zip(received, compressed)]


def allreduce(
    tensor: torch.Tensor,
    average: Optional[bool] = None,
    name: Optional[str] = None,
    compression: Type = Compression.none,
    op: Optional[int] = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> torch.Tensor:
    """Returns postscale_factor * op over ranks (prescale_factor * tensor), of the shape and element type of `tensor`.

    `op` is Average (default; of integers it truncates towards zero), Sum, Min, Max or Product; of bool Sum and Max are
    "or", Product and Min "and". Added in the order of ranks, so that all ranks get the same bits. `average` is
    Horovod's older form of `op`.
    `compression` says in which form the tensor travels.
    """
    if compression is Compression.none and not _wants_gradient(tensor):
        return ops.allreduce_now(
            tensor, False, name, choose(op, average), prescale_factor, postscale_factor, process_set
        )
    return grouped_allreduce([tensor], average, name, compression, op, prescale_factor, postscale_factor, process_set)[
        0
    ]


def allgather(
    tensor: torch.Tensor, name: Optional[str] = None, process_set: ProcessSet = global_process_set
) -> torch.Tensor:
    """Returns the ranks' tensors, concatenated along the first dimension, in which they may differ (0 too). A scalar
    counts as [1]."""
    if _wants_gradient(tensor):
        return _Allgather.apply(name, process_set, tensor)[0]
    return at_once(ops.allgather_async, tensor, name, process_set)


def grouped_allgather(
    tensors: Sequence[torch.Tensor], name: Optional[str] = None, process_set: ProcessSet = global_process_set
) -> List[torch.Tensor]:
    """As allgather for several tensors, which may differ in shape and element type."""
    tensors = _ops.listed(tensors)
    if any(map(_wants_gradient, tensors)):
        return list(_Allgather.apply(name, process_set, *tensors))
    return at_once(ops.grouped_allgather_async, tensors, name, process_set)


def alltoall(
    tensor: torch.Tensor,
    splits: Any = None,
    name: Optional[str] = None,
    process_set: ProcessSet = global_process_set,
) -> Any:
    """Gives the first splits[0] rows of `tensor` to the set's rank 0, the next splits[1] to rank 1, ..., and returns
    what this rank gets, in the order of the ranks that it comes from, and the tensor of how many rows each has given.

    `splits` is a list or tensor of whole numbers; the rows given are of its element type, int32 for a list. Without it
    all get equally many, and only the rows are returned. The ranks' tensors may differ in the first dimension.
    ValueError: `tensor` is a scalar; there is not a split for each rank; they take more rows than there are; without
    them, the number of rows is not a multiple of the number of ranks.
    """
    if _wants_gradient(tensor):
        output = _Alltoall.apply(tensor, splits, name, process_set)
    else:
        output = at_once(ops.alltoall_async, tensor, splits, name, process_set)
    return output if splits is not None else output[0]


def grouped_reducescatter(
    tensors: Sequence[torch.Tensor],
    name: Optional[str] = None,
    compression: Type = Compression.none,
    op: int = Average,
    process_set: ProcessSet = global_process_set,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> List[torch.Tensor]:
    """As reducescatter for several tensors, which may differ in shape and element type."""
    return _scatter_compressed(tensors, compression, True, name, op, prescale_factor, postscale_factor, process_set)


def reducescatter(
    tensor: torch.Tensor,
    name: Optional[str] = None,
    compression: Type = Compression.none,
    op: int = Average,
    process_set: ProcessSet = global_process_set,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> torch.Tensor:
    """As allreduce, but returns only this rank's part of the rows (first dimension): rows // size of them, in the
    order of the set's ranks, and one more on the first rows % size. ValueError: `tensor` is a scalar."""
    call = (name, op, prescale_factor, postscale_factor, process_set)
    return _scatter_compressed([tensor], compression, False, *call)[0]


def _scatter_compressed(
    tensors: Sequence[torch.Tensor],
    compression: Type,
    is_grouped: bool,
    name: Optional[str],
    op: int,
    prescale: float,
    postscale: float,
    process_set: ProcessSet,
) -> List[torch.Tensor]:
    compressed = _compressed(tensors, compression)
    sent = [tensor for tensor, _ in compressed]
    call = (is_grouped, name, choose(op, None), prescale, postscale, process_set)
    received = _Reducescatter.apply(*call, *sent) if any(map(_wants_gradient, sent)) else _scatter(sent, *call)
    return [compression.decompress(tensor, context) for tensor, (_, context) in zip(received, compressed)]


def broadcast(
    tensor: torch.Tensor, root_rank: int, name: Optional[str] = None, process_set: ProcessSet = global_process_set
) -> torch.Tensor:
    """Returns the tensor of `root_rank`, a rank of the job that is in the process set; others give one of its shape
    and element type."""
    if _wants_gradient(tensor):
        return _Broadcast.apply(tensor, root_rank, name, process_set)
    return at_once(ops.broadcast_async, tensor, root_rank, name, process_set)


gather_async = ops.operations.gather_async
scatter_async = ops.operations.scatter_async


def gather(
    tensor: torch.Tensor, root_rank: int, name: Optional[str] = None, process_set: ProcessSet = global_process_set
) -> torch.Tensor:
    """Returns on `root_rank`, a rank of the job that is in the process set, what allgather returns; on the others a
    tensor without rows, of shape [0, ...]. Where gradients flow, each rank calls backward() of something made of its
    output."""
    if _wants_gradient(tensor):
        return _Gather.apply(tensor, root_rank, name, process_set)
    return at_once(gather_async, tensor, root_rank, name, process_set)


def scatter(
    tensor: torch.Tensor, root_rank: int, name: Optional[str] = None, process_set: ProcessSet = global_process_set
) -> torch.Tensor:
    """Returns this rank's part of the rows (first dimension) of the tensor of `root_rank`, a rank of the job that is in
    the process set: rows // size of them, in the order of the set's ranks, and one more on the first rows % size. The
    others give a tensor of the same element type and shape, but for the first dimension, which may be 0; its elements
    do not count, but it requires a gradient where the root's does. ValueError: `tensor` is a scalar. For other parts
    there is alltoall."""
    if _wants_gradient(tensor):
        return _Scatter.apply(tensor, root_rank, name, process_set)
    return at_once(scatter_async, tensor, root_rank, name, process_set)
