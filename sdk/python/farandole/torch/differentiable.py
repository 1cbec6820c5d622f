"""The operations with a result of their own, through which gradients flow; their contracts are those of
`farandole._operations`.

Gradients are Horovod's. Of allreduce: the allreduce of the gradients, by the same op and factors. Of allgather: the
average over ranks, each rank's own rows. Of alltoall, gather and scatter: the gradients go back to where the rows
came from. Of reducescatter: the allgather of the gradients, times the factors, and for Sum times the number of ranks.
Of broadcast: the average over ranks on the root, zero elsewhere. The rows of a rank that has joined have zeros.
Tensors of integers and bools have none, and send none back.

Gradients travel by these operations too, so that further derivatives (create_graph) follow from the same rules. They
are calls of all ranks as well, whose losses have the same form.
"""

from typing import Any, Callable, Iterable, List, Optional, Sequence, Tuple, Type

import torch

from .. import _ops
from .._handles import at_once
from .._operations import Operations, described_by
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
    """Of each the tensor that travels, and the context that decompress() needs. ValueError: it is no tensor, or cannot
    be sent; or `compression` is none."""
    if not hasattr(compression, "compress"):
        raise ValueError(f"compression is a class such as Compression.fp16, not {compression!r}")
    given = _ops.listed(tensors)
    for tensor in given:
        ops.check_tensor(tensor)
    return [compression.compress(tensor) for tensor in given]


def _shares(rows: int, process_set: ProcessSet) -> List[int]:
    """How many of so many rows each rank of the set gets, where they are shared out evenly."""
    size = process_set.size()
    return [rows // size + (1 if position < rows % size else 0) for position in range(size)]


def _placed(found: torch.Tensor, given: Sequence[int], sent: Sequence[int], shape: torch.Size) -> torch.Tensor:
    """A gradient of this shape: `found` has `given` rows of each rank, for the `sent` rows that the rank got of it. The
    rows that come back from nowhere have zeros: those of ranks that have joined, and those that nobody got."""
    if found.shape == shape and list(given) == list(sent):
        return found
    placed = found.new_zeros(shape)
    begin = source = 0
    for count, room in zip(given, sent):
        placed[begin : begin + count] = found[source : source + count]
        begin, source = begin + room, source + count
    return placed


def _zeros(shape: torch.Size, found: torch.Tensor) -> torch.Tensor:
    """A gradient of this shape without elements of `found`. If a graph is created, `found` is in it all the same: other
    ranks, whose gradients have elements of it, need this rank for their second derivatives."""
    zeros = found.new_zeros(shape)
    return zeros + found.reshape(-1)[:0].sum() if found.requires_grad else zeros


def _wants_gradient(tensor: Any) -> bool:
    return isinstance(tensor, torch.Tensor) and tensor.requires_grad and torch.is_grad_enabled()


def _has_gradient(tensor: torch.Tensor) -> bool:
    """Whether a tensor of this element type may have one: the same on all ranks."""
    return tensor.is_floating_point() or tensor.is_complex()


def _mark(ctx: Any, outputs: Iterable[torch.Tensor]) -> None:
    ctx.mark_non_differentiable(*(output for output in outputs if not _has_gradient(output)))


Tensors = Sequence[torch.Tensor]


def _of_floats(call: Callable[[Tensors], Tensors], gradients: Tensors) -> List[Optional[torch.Tensor]]:
    """The results of `call` on the gradients of floats, in their places; None in the places of the others, which are
    zeros that autograd has made up."""
    found = iter(call([gradient for gradient in gradients if _has_gradient(gradient)]))
    return [next(found) if _has_gradient(gradient) else None for gradient in gradients]


# If a tensor wants a gradient, each function below runs by the class before it: autograd calls forward() with tensors
# that want none, and forward() calls the function again. backward() calls these functions too: the gradients that it is
# given want one only where a graph is created.


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
        outputs = tuple(_reduce(tensors, *ctx.call))
        _mark(ctx, outputs)
        return outputs

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> Tuple[Any, ...]:
        name, op, prescale, postscale, process_set = ctx.call
        _require_gradient("allreduce", op)
        call = (_gradient_name(name), op, prescale, postscale, process_set)
        return (None,) * 5 + tuple(_of_floats(lambda floats: _reduce(floats, *call), gradients))


def _reduce(
    tensors: Tensors,
    name: Optional[str],
    op: int,
    prescale: float,
    postscale: float,
    process_set: ProcessSet,
) -> Tensors:
    call = (name, op, prescale, postscale, process_set)
    if any(map(_wants_gradient, tensors)):
        return _Allreduce.apply(*call, *tensors)
    if len(tensors) == 1:
        return [ops.allreduce_now(tensors[0], *call)]
    return ops.grouped_allreduce_now(tensors, False, *call)


class _Allgather(torch.autograd.Function):
    """Of one or several tensors. A rank that wants no gradient submits the same without it. The last output has the rows
    of each tensor that each rank of the set has given."""

    @staticmethod
    def forward(ctx: Any, name: Optional[str], process_set: ProcessSet, *tensors: torch.Tensor) -> Tuple[Any, ...]:
        outputs, rows = _gather_all(tensors, name, process_set)
        ctx.call = ([tensor.shape for tensor in tensors], rows, name, process_set)
        _mark(ctx, outputs)
        return (*outputs, rows)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Tuple[Any, ...]:
        shapes, rows, name, process_set = ctx.call
        call = (_gradient_name(name), Average, 1.0, 1.0, process_set)
        means = _of_floats(lambda floats: _reduce(floats, *call), gradients[:-1])
        position = process_set.rank()
        own = [
            None if mean is None else mean.narrow(0, sum(each[:position]), each[position]).reshape(shape)
            for mean, each, shape in zip(means, rows, shapes)
        ]
        return (None, None, *own)


def _gather_all(tensors: Tensors, name: Optional[str], process_set: ProcessSet) -> Tuple[Tensors, List[List[int]]]:
    """The gathered tensors, and of each the rows that each rank of the set has given."""
    if any(map(_wants_gradient, tensors)):
        *outputs, rows = _Allgather.apply(name, process_set, *tensors)
        return outputs, rows
    return at_once(_ops.grouped_allgather, ops.adapter, tensors, name, process_set, lambda *gathered: gathered)


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
        outputs = tuple(_reduce_parts(tensors, is_grouped, name, op, prescale, postscale, process_set))
        shapes = [tensor.shape for tensor in tensors if _has_gradient(tensor)]
        ctx.call = (shapes, name, op, prescale * postscale, process_set)
        _mark(ctx, outputs)
        return outputs

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> Tuple[Any, ...]:
        shapes, name, op, factor, process_set = ctx.call
        _require_gradient("reducescatter", op)
        if op == Sum:
            factor *= process_set.size()

        def gather(floats: Tensors) -> Tensors:
            scaled = [gradient if factor == 1.0 else gradient * factor for gradient in floats]
            gathered, rows = _gather_all(scaled, _gradient_name(name), process_set)
            shares = [_shares(shape[0], process_set) for shape in shapes]
            return list(map(_placed, gathered, rows, shares, shapes))

        return (None,) * 6 + tuple(_of_floats(gather, gradients))


def _reduce_parts(
    tensors: Tensors,
    is_grouped: bool,
    name: Optional[str],
    op: int,
    prescale: float,
    postscale: float,
    process_set: ProcessSet,
) -> Tensors:
    call = (name, op, prescale, postscale, process_set)
    if any(map(_wants_gradient, tensors)):
        return _Reducescatter.apply(is_grouped, *call, *tensors)
    found = at_once(_ops.reducescatter, ops.adapter, tensors, *call, is_grouped)
    return found if is_grouped else [found]


class _Alltoall(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, tensor: torch.Tensor, splits: Any, name: Optional[str], process_set: ProcessSet
    ) -> Tuple[torch.Tensor, torch.Tensor]:
        output, received = _exchange(tensor, splits, name, process_set)
        sent = ops.adapter.whole_numbers(splits) or _shares(tensor.shape[0], process_set)
        ctx.call = (tensor.shape, sent, received, name, process_set)
        ctx.mark_non_differentiable(received)
        return output, received

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor, _received: torch.Tensor) -> Tuple[Any, ...]:
        shape, sent, received, name, process_set = ctx.call
        own, given = _exchange(gradient, received, _gradient_name(name), process_set)
        return _placed(own, given.tolist(), sent, shape), None, None, None


def _exchange(
    tensor: torch.Tensor, splits: Any, name: Optional[str], process_set: ProcessSet
) -> Tuple[torch.Tensor, torch.Tensor]:
    if _wants_gradient(tensor):
        return _Alltoall.apply(tensor, splits, name, process_set)
    return at_once(ops.alltoall_async, tensor, splits, name, process_set)


class _Gather(torch.autograd.Function):
    """The second output is how many rows the root got of each rank of the set."""

    @staticmethod
    def forward(
        ctx: Any, tensor: torch.Tensor, root: int, name: Optional[str], process_set: ProcessSet
    ) -> Tuple[torch.Tensor, List[int]]:
        output, rows = _gather_on(tensor, root, name, process_set)
        ctx.call = (tensor.shape, rows, name, process_set)
        return output, rows

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor, _rows: Any) -> Tuple[Any, ...]:
        shape, rows, name, process_set = ctx.call
        own = _exchange(gradient, rows, _gradient_name(name), process_set)[0]
        # A root that has joined since gives nothing back.
        return own.reshape(shape) if own.numel() == shape.numel() else _zeros(shape, own), None, None, None


def _gather_on(
    tensor: torch.Tensor, root: int, name: Optional[str], process_set: ProcessSet
) -> Tuple[torch.Tensor, List[int]]:
    """The gathered tensor, and the rows that each rank of the set has given; other ranks than the root have none."""
    if _wants_gradient(tensor):
        return _Gather.apply(tensor, root, name, process_set)
    return at_once(_ops.gather, ops.adapter, tensor, root, name, process_set, True)


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
        gathered, rows = _gather_on(gradient, root, _gradient_name(name), process_set)
        if rank() != root:
            return _zeros(shape, gathered), None, None, None
        return _placed(gathered, rows, _shares(shape[0], process_set), shape), None, None, None


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
        return mean if rank() == root else _zeros(mean.shape, mean), None, None, None


@described_by(Operations.grouped_allreduce)
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
    compressed = _compressed(tensors, compression)
    sent = [tensor for tensor, _ in compressed]
    call = (name, choose(op, average), prescale_factor, postscale_factor, process_set)
    received = _reduce(sent, *call)
    return [compression.decompress(tensor, context) for tensor, (_, context) in zip(received, compressed)]


@described_by(Operations.allreduce)
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
    """`compression` says in which form the tensor travels."""
    if compression is Compression.none and not _wants_gradient(tensor):
        return ops.allreduce_now(tensor, name, choose(op, average), prescale_factor, postscale_factor, process_set)
    return grouped_allreduce([tensor], average, name, compression, op, prescale_factor, postscale_factor, process_set)[
        0
    ]


@described_by(Operations.allgather)
def allgather(
    tensor: torch.Tensor, name: Optional[str] = None, process_set: ProcessSet = global_process_set
) -> torch.Tensor:
    if _wants_gradient(tensor):
        return _gather_all([tensor], name, process_set)[0][0]
    return at_once(ops.allgather_async, tensor, name, process_set)


@described_by(Operations.grouped_allgather)
def grouped_allgather(
    tensors: Sequence[torch.Tensor], name: Optional[str] = None, process_set: ProcessSet = global_process_set
) -> List[torch.Tensor]:
    tensors = _ops.listed(tensors)
    return list(_gather_all(tensors, name, process_set)[0])


@described_by(Operations.alltoall)
def alltoall(
    tensor: torch.Tensor,
    splits: Any = None,
    name: Optional[str] = None,
    process_set: ProcessSet = global_process_set,
) -> Any:
    """`splits` may be a tensor of whole numbers; the rows given are of its element type, int32 for a list."""
    output = _exchange(tensor, splits, name, process_set)
    return output if splits is not None else output[0]


@described_by(Operations.grouped_reducescatter)
def grouped_reducescatter(
    tensors: Sequence[torch.Tensor],
    name: Optional[str] = None,
    compression: Type = Compression.none,
    op: int = Average,
    process_set: ProcessSet = global_process_set,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> List[torch.Tensor]:
    return _scatter_compressed(tensors, compression, True, name, op, prescale_factor, postscale_factor, process_set)


@described_by(Operations.reducescatter)
def reducescatter(
    tensor: torch.Tensor,
    name: Optional[str] = None,
    compression: Type = Compression.none,
    op: int = Average,
    process_set: ProcessSet = global_process_set,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> torch.Tensor:
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
    received = _reduce_parts(sent, *call)
    return [compression.decompress(tensor, context) for tensor, (_, context) in zip(received, compressed)]


@described_by(Operations.broadcast)
def broadcast(
    tensor: torch.Tensor, root_rank: int, name: Optional[str] = None, process_set: ProcessSet = global_process_set
) -> torch.Tensor:
    if _wants_gradient(tensor):
        return _Broadcast.apply(tensor, root_rank, name, process_set)
    return at_once(ops.broadcast_async, tensor, root_rank, name, process_set)


gather_async = ops.operations.gather_async
scatter_async = ops.operations.scatter_async


@described_by(Operations.gather)
def gather(
    tensor: torch.Tensor, root_rank: int, name: Optional[str] = None, process_set: ProcessSet = global_process_set
) -> torch.Tensor:
    """If gradients flow, each rank calls backward() of a tensor made of its output."""
    return _gather_on(tensor, root_rank, name, process_set)[0]


@described_by(Operations.scatter)
def scatter(
    tensor: torch.Tensor, root_rank: int, name: Optional[str] = None, process_set: ProcessSet = global_process_set
) -> torch.Tensor:
    """If gradients flow, the others' tensors require a gradient where the root's does."""
    if _wants_gradient(tensor):
        return _Scatter.apply(tensor, root_rank, name, process_set)
    return at_once(scatter_async, tensor, root_rank, name, process_set)
