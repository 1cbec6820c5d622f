"""The functions on arrays that every array library's module offers, with their contracts: written once.

A module gives its adapter and its type of arrays, and takes the functions as its own names:

    operations = Operations[torch.Tensor, torch.Tensor](adapter)
    allreduce_async = operations.allreduce_async

A module whose functions run in another way, as TensorFlow's in graphs, takes the contracts by `described_by`.
"""

import inspect
import operator
from typing import Any, Callable, Generic, List, Optional, Sequence, TypeVar

from . import _ops
from ._handles import Handle, at_once
from .process_sets import ProcessSet, global_process_set
from .reduce_ops import Average, choose

# The operations' words, in the order of their numbers in proto/farandole/v1/types.proto.
OPERATIONS = (
    "allreduce",
    "allgather",
    "broadcast",
    "barrier",
    "alltoall",
    "reducescatter",
    "join",
    "gather",
    "scatter",
)

Given = TypeVar("Given")
"""What callers may give: an array, or what can be made one."""
Array = TypeVar("Array")
Function = TypeVar("Function", bound=Callable[..., Any])


def described_by(contract: Callable[..., Any]) -> Callable[[Function], Function]:
    """Gives a function the contract of one of those below, and behind it the sentences of its own."""

    def describe(function: Function) -> Function:
        texts = [contract.__doc__, function.__doc__]
        function.__doc__ = "\n\n".join(inspect.cleandoc(text) for text in texts if text)
        return function

    return describe


def share_memory(begins: Sequence[int], sizes: Sequence[int]) -> bool:
    """Whether pieces of memory, of these addresses and bytes, overlap. Of 200 it takes 6 us."""
    ends = sorted(map(operator.add, begins, sizes))
    return not all(map(operator.le, ends, sorted(begins)[1:]))


class Operations(Generic[Given, Array]):
    """All ranks of the process set call an operation with the same name, element type and, unless it says otherwise,
    shape; without a name, calls are paired in their order. If ranks disagree, each gets a ValueError that names two of
    them and both values, and the job goes on. EpochEnded: a worker has died or left.

    A function whose name ends in `_async` returns at once; give the handle to synchronize() for the output. The array
    must not change until then. A function whose name ends in `_` writes the output into the array.
    """

    def __init__(self, adapter: _ops.ModuleAdapter) -> None:
        self._adapter = adapter

    def _accepted(self, tensors: Sequence[Given]) -> List[Any]:
        return [self._adapter.accept(tensor) for tensor in _ops.listed(tensors)]

    def allreduce(
        self,
        tensor: Given,
        average: Optional[bool] = None,
        name: Optional[str] = None,
        op: Optional[int] = None,
        prescale_factor: float = 1.0,
        postscale_factor: float = 1.0,
        process_set: ProcessSet = global_process_set,
    ) -> Array:
        """Returns postscale_factor * op over ranks (prescale_factor * tensor), of the shape and element type of
        `tensor`.

        `op` is Average (default; of integers it truncates towards zero), Sum, Min, Max or Product; of bool Sum and Max
        are "or", Product and Min "and". Added in the order of ranks, so that all ranks get the same bits. `average` is
        Horovod's older form of `op`.
        """
        call = (tensor, average, name, op, prescale_factor, postscale_factor, process_set)
        output: Array = at_once(self.allreduce_async, *call)
        return output

    def allreduce_(
        self,
        tensor: Array,
        average: Optional[bool] = None,
        name: Optional[str] = None,
        op: Optional[int] = None,
        prescale_factor: float = 1.0,
        postscale_factor: float = 1.0,
        process_set: ProcessSet = global_process_set,
    ) -> Array:
        """As allreduce, in place; returns `tensor`."""
        call = (tensor, average, name, op, prescale_factor, postscale_factor, process_set)
        output: Array = at_once(self.allreduce_async_, *call)
        return output

    def allreduce_async(
        self,
        tensor: Given,
        average: Optional[bool] = None,
        name: Optional[str] = None,
        op: Optional[int] = None,
        prescale_factor: float = 1.0,
        postscale_factor: float = 1.0,
        process_set: ProcessSet = global_process_set,
    ) -> Handle:
        """As allreduce, but returns at once; give the handle to synchronize() for the output. `tensor` must not change
        until then."""
        source = self._adapter.accept(tensor)
        terms = (name, choose(op, average), prescale_factor, postscale_factor, process_set)
        return _ops.allreduce(self._adapter, source, False, *terms)

    def allreduce_async_(
        self,
        tensor: Array,
        average: Optional[bool] = None,
        name: Optional[str] = None,
        op: Optional[int] = None,
        prescale_factor: float = 1.0,
        postscale_factor: float = 1.0,
        process_set: ProcessSet = global_process_set,
    ) -> Handle:
        """As allreduce_, but returns at once; neither read nor write `tensor` until synchronize()."""
        target = self._adapter.accept_writable(tensor)
        terms = (name, choose(op, average), prescale_factor, postscale_factor, process_set)
        return _ops.allreduce(self._adapter, target, True, *terms)

    def grouped_allreduce(
        self,
        tensors: Sequence[Given],
        average: Optional[bool] = None,
        name: Optional[str] = None,
        op: Optional[int] = None,
        prescale_factor: float = 1.0,
        postscale_factor: float = 1.0,
        process_set: ProcessSet = global_process_set,
    ) -> List[Array]:
        """As allreduce for several tensors, which may differ in shape and element type; those of one element type are
        reduced as one."""
        call = (tensors, average, name, op, prescale_factor, postscale_factor, process_set)
        outputs: List[Array] = at_once(self.grouped_allreduce_async, *call)
        return outputs

    def grouped_allreduce_async(
        self,
        tensors: Sequence[Given],
        average: Optional[bool] = None,
        name: Optional[str] = None,
        op: Optional[int] = None,
        prescale_factor: float = 1.0,
        postscale_factor: float = 1.0,
        process_set: ProcessSet = global_process_set,
    ) -> Handle:
        """As grouped_allreduce, but returns at once."""
        terms = (name, choose(op, average), prescale_factor, postscale_factor, process_set)
        return _ops.grouped_allreduce(self._adapter, self._accepted(tensors), False, *terms)

    def allgather(
        self, tensor: Given, name: Optional[str] = None, process_set: ProcessSet = global_process_set
    ) -> Array:
        """Returns the ranks' tensors, concatenated along the first dimension, in which they may differ (0 too). A
        scalar counts as [1]."""
        output: Array = at_once(self.allgather_async, tensor, name, process_set)
        return output

    def allgather_async(
        self, tensor: Given, name: Optional[str] = None, process_set: ProcessSet = global_process_set
    ) -> Handle:
        """As allgather, but returns at once. `tensor` must not change until synchronize()."""
        return _ops.allgather(self._adapter, self._adapter.accept(tensor), name, process_set)

    def grouped_allgather(
        self, tensors: Sequence[Given], name: Optional[str] = None, process_set: ProcessSet = global_process_set
    ) -> List[Array]:
        """As allgather for several tensors, which may differ in shape and element type."""
        outputs: List[Array] = at_once(self.grouped_allgather_async, tensors, name, process_set)
        return outputs

    def grouped_allgather_async(
        self, tensors: Sequence[Given], name: Optional[str] = None, process_set: ProcessSet = global_process_set
    ) -> Handle:
        """As grouped_allgather, but returns at once."""
        return _ops.grouped_allgather(self._adapter, self._accepted(tensors), name, process_set)

    def reducescatter(
        self,
        tensor: Given,
        name: Optional[str] = None,
        op: int = Average,
        process_set: ProcessSet = global_process_set,
        prescale_factor: float = 1.0,
        postscale_factor: float = 1.0,
    ) -> Array:
        """As allreduce, but returns only this rank's part of the rows (first dimension): rows // size of them, in the
        order of the set's ranks, and one more on the first rows % size. ValueError: `tensor` is a scalar."""
        call = (tensor, name, op, process_set, prescale_factor, postscale_factor)
        output: Array = at_once(self.reducescatter_async, *call)
        return output

    def reducescatter_async(
        self,
        tensor: Given,
        name: Optional[str] = None,
        op: int = Average,
        process_set: ProcessSet = global_process_set,
        prescale_factor: float = 1.0,
        postscale_factor: float = 1.0,
    ) -> Handle:
        """As reducescatter, but returns at once. `tensor` must not change until synchronize()."""
        terms = (name, choose(op, None), prescale_factor, postscale_factor, process_set)
        return _ops.reducescatter(self._adapter, [self._adapter.accept(tensor)], *terms, is_grouped=False)

    def grouped_reducescatter(
        self,
        tensors: Sequence[Given],
        name: Optional[str] = None,
        op: int = Average,
        process_set: ProcessSet = global_process_set,
        prescale_factor: float = 1.0,
        postscale_factor: float = 1.0,
    ) -> List[Array]:
        """As reducescatter for several tensors, which may differ in shape and element type."""
        call = (tensors, name, op, process_set, prescale_factor, postscale_factor)
        outputs: List[Array] = at_once(self.grouped_reducescatter_async, *call)
        return outputs

    def grouped_reducescatter_async(
        self,
        tensors: Sequence[Given],
        name: Optional[str] = None,
        op: int = Average,
        process_set: ProcessSet = global_process_set,
        prescale_factor: float = 1.0,
        postscale_factor: float = 1.0,
    ) -> Handle:
        """As grouped_reducescatter, but returns at once."""
        terms = (name, choose(op, None), prescale_factor, postscale_factor, process_set)
        return _ops.reducescatter(self._adapter, self._accepted(tensors), *terms, is_grouped=True)

    def alltoall(
        self,
        tensor: Given,
        splits: Any = None,
        name: Optional[str] = None,
        process_set: ProcessSet = global_process_set,
    ) -> Any:
        """Gives the first splits[0] rows of `tensor` to the set's rank 0, the next splits[1] to rank 1, ..., and
        returns the rows that this rank gets, in the order of the ranks that they come from, and an array of how many
        each rank has given.

        `splits` is a list or array of whole numbers. Without it all get equally many, and only the rows are returned.
        The ranks' tensors may differ in the first dimension. ValueError: `tensor` is a scalar; there is not a split for
        each rank; they take more rows than there are; without them, the number of rows is not a multiple of the number
        of ranks.
        """
        output = at_once(self.alltoall_async, tensor, splits, name, process_set)
        return output if splits is not None else output[0]

    def alltoall_async(
        self,
        tensor: Given,
        splits: Any = None,
        name: Optional[str] = None,
        process_set: ProcessSet = global_process_set,
    ) -> Handle:
        """As alltoall, but returns at once; the handle's output is the pair, also without `splits`. `tensor` must not
        change until synchronize()."""
        numbers = self._adapter.whole_numbers(splits)
        source = self._adapter.accept(tensor)
        received = self._adapter.received
        return _ops.alltoall(self._adapter, source, numbers, name, process_set, lambda rows: received(rows, splits))

    def gather(
        self,
        tensor: Given,
        root_rank: int,
        name: Optional[str] = None,
        process_set: ProcessSet = global_process_set,
    ) -> Array:
        """Returns on `root_rank`, a rank of the job that is in the process set, the ranks' tensors as allgather does;
        on the others an array without rows, of shape [0, ...]."""
        output: Array = at_once(self.gather_async, tensor, root_rank, name, process_set)
        return output

    def gather_async(
        self,
        tensor: Given,
        root_rank: int,
        name: Optional[str] = None,
        process_set: ProcessSet = global_process_set,
    ) -> Handle:
        """As gather, but returns at once. `tensor` must not change until synchronize()."""
        return _ops.gather(self._adapter, self._adapter.accept(tensor), root_rank, name, process_set, with_rows=False)

    def scatter(
        self,
        tensor: Given,
        root_rank: int,
        name: Optional[str] = None,
        process_set: ProcessSet = global_process_set,
    ) -> Array:
        """Returns this rank's part of the rows (first dimension) of the tensor of `root_rank`, a rank of the job that is
        in the process set: rows // size of them, in the order of the set's ranks, and one more on the first
        rows % size. The others give a tensor of the same element type and shape, except for the first dimension, which
        may be 0; its elements do not count. ValueError: `tensor` is a scalar. For other parts there is alltoall."""
        output: Array = at_once(self.scatter_async, tensor, root_rank, name, process_set)
        return output

    def scatter_async(
        self,
        tensor: Given,
        root_rank: int,
        name: Optional[str] = None,
        process_set: ProcessSet = global_process_set,
    ) -> Handle:
        """As scatter, but returns at once. `tensor` must not change until synchronize()."""
        return _ops.scatter(self._adapter, self._adapter.accept(tensor), root_rank, name, process_set)

    def broadcast(
        self,
        tensor: Given,
        root_rank: int,
        name: Optional[str] = None,
        process_set: ProcessSet = global_process_set,
    ) -> Array:
        """Returns the tensor of `root_rank`, a rank of the job that is in the process set; others give one of its shape
        and element type."""
        output: Array = at_once(self.broadcast_async, tensor, root_rank, name, process_set)
        return output

    def broadcast_(
        self,
        tensor: Array,
        root_rank: int,
        name: Optional[str] = None,
        process_set: ProcessSet = global_process_set,
    ) -> Array:
        """As broadcast, in place; returns `tensor`."""
        output: Array = at_once(self.broadcast_async_, tensor, root_rank, name, process_set)
        return output

    def broadcast_async(
        self,
        tensor: Given,
        root_rank: int,
        name: Optional[str] = None,
        process_set: ProcessSet = global_process_set,
    ) -> Handle:
        """As broadcast, but returns at once."""
        return _ops.broadcast(self._adapter, self._adapter.accept(tensor), False, root_rank, name, process_set)

    def broadcast_async_(
        self,
        tensor: Array,
        root_rank: int,
        name: Optional[str] = None,
        process_set: ProcessSet = global_process_set,
    ) -> Handle:
        """As broadcast_, but returns at once."""
        target = self._adapter.accept_writable(tensor)
        return _ops.broadcast(self._adapter, target, True, root_rank, name, process_set)


def join() -> int:
    """Says that this rank has no more data. While the other ranks go on, it takes part in all that they do, in every
    process set, without data of its own; returns when all ranks have joined, with the rank that was the last.

    To a reduction it contributes the identity (Average still divides by the number of ranks of the set), to allgather,
    alltoall and gather no rows; the rows that alltoall or scatter has for it are dropped. A broadcast, gather or
    scatter with it as root is a ValueError on all others. EpochEnded: a worker has died or left.
    """
    return _ops.join()


def barrier(process_set: ProcessSet = global_process_set) -> None:
    """Returns when all ranks of the process set have called it."""
    _ops.barrier(process_set)
