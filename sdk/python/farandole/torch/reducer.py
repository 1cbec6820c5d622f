"""Allreduce of gradients while backward runs: the part of DistributedOptimizer that does not know torch.optim."""

import contextlib
import numbers
import weakref
from types import GeneratorType
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence, Tuple

import torch

from .. import _epochs, _handles, _ops
from .._handles import Handle
from .._library import failure, forked, lib
from ..exceptions import EpochEnded
from ..process_sets import ProcessSet, group_of
from ..reduce_ops import Average, Sum
from . import gpus, ops
from .compression import Compression
from .exchange import GradientExchange, Terms
from .gradient_arena import Place, place_all


class Settings(NamedTuple):
    """How gradients are reduced."""

    compression: Any
    op: int
    prescale: float
    postscale: float
    sparse_as_dense: bool
    process_set: ProcessSet
    gradient_arena: bool


class _Gradient:
    """One parameter's gradient."""

    __slots__ = ("parameter", "name", "passes_left", "unit", "hook", "place", "sparse_dim")

    def __init__(self, parameter: torch.Tensor, name: str, passes: int) -> None:
        self.parameter = parameter
        self.name = name
        self.passes_left = passes  # backward passes until it travels
        self.unit: "_Unit"
        self.hook: Any = None  # None while the parameter is frozen
        self.place: Optional[Place] = None
        self.sparse_dim = 0  # how many of its dimensions were sparse; 0: it was never sparse

    def settled(self) -> torch.Tensor:
        """The gradient, in its place if it has one."""
        grad, place = self.parameter.grad, self.place
        return grad if place is None or grad is place.view else place.settle(self.parameter, grad)


class _Unit:
    """What travels together: one gradient, or a group of them.

    A lone gradient goes the short way where it can, and `number` is the library's for it; else `handle` is ours. Neither
    is set while nothing travels.
    """

    __slots__ = ("gradients", "parameter", "name", "encoded", "dims", "waiting", "number", "handle", "sent")

    def __init__(self, gradients: List[_Gradient], name: str) -> None:
        self.gradients = gradients
        self.parameter = gradients[0].parameter
        self.name = name
        self.encoded = _ops.encode_name(name)
        self.dims = _ops.shape_for(self.parameter.shape)
        self.waiting = len(gradients)  # gradients that are not ready
        self.number = 0
        self.handle: Optional[Handle] = None
        # The gradient; of the long way the compressed gradients with their contexts, or the exchange that goes on.
        self.sent: Any = None
        for gradient in gradients:
            gradient.unit = self


def _in_memory_order(tensor: torch.Tensor, parameter: torch.Tensor) -> torch.Tensor:
    """A view of a gradient in the order in which the parameter's elements lie in memory (channels_last), as its own mostly
    do: then it has no copy to pay for. By the parameter, which is alike on all ranks: gradients may lie otherwise on some,
    where they are zeros or cuDNN has made them."""
    if parameter.is_contiguous() or tensor.shape != parameter.shape:
        return tensor
    order = ops.memory_order(parameter)
    return tensor if order is None else tensor.permute(order)


def _sparse_zeros(like: torch.Tensor, sparse_dim: int) -> torch.Tensor:
    indices = torch.empty(sparse_dim, 0, dtype=torch.int64, device=like.device)
    return torch.sparse_coo_tensor(
        indices, like.new_empty(0, *like.shape[sparse_dim:]), like.shape, check_invariants=False
    )


def _check(name: str, parameter: torch.Tensor) -> None:
    try:
        ops.check_tensor(parameter)
    except ValueError as error:
        raise ValueError(f"parameter {name}: {error}") from None


class Reducer:
    """Owns the hooks of some parameters and the submissions of their gradients. One thread at a time."""

    def __init__(self, settings: Settings, passes: int) -> None:
        """`passes`: backward passes whose gradients are added up before they travel."""
        self._units: List[_Unit] = []
        self._settings = settings
        self._terms = Terms(settings.op, settings.prescale, settings.postscale, settings.process_set)
        self._passes = passes
        self._call: Tuple[int, float, float, int, int]
        self._reduction = (settings.op, settings.prescale, settings.postscale)
        self._streams = _handles.Streams()  # that have given gradients which go the short way
        self._gradients: Dict[torch.Tensor, _Gradient] = {}
        self._submitted = 0
        self.synchronized = False  # by synchronize(), for the step that follows
        # Each call of add, and of these those whose gradients may get a place yet.
        self._added: List[List[_Gradient]] = []
        self._unplaced: List[List[_Gradient]] = []
        self.active = False
        group_of(settings.process_set)
        self.enter_epoch()
        _epochs.follow(self)

    def enter_epoch(self) -> None:
        """Begins afresh, with the ranks of the present epoch."""
        settings = self._settings
        # Alone there is nobody to reduce with, and outside of the set nothing to do.
        self.active = bool(settings.process_set.included()) and settings.process_set.size() > 1
        if self.active:
            self._call = (settings.op, settings.prescale, settings.postscale, group_of(settings.process_set), 0)
            if isinstance(settings.compression, GradientExchange):
                settings.compression.begin_epoch()
            for gradient in self._gradients.values():
                _check(gradient.name, gradient.parameter)
                self._watch(gradient)

    def leave_epoch(self) -> None:
        """Drops gradients, which may be half reduced, or of a step that is not to be finished."""
        self._reset()
        self.synchronized = False
        if self.active:
            for gradient in self._gradients.values():
                gradient.parameter.grad = gradient.place = None
            self._unplaced = list(self._added)

    def add(self, named: Sequence[Tuple[str, torch.Tensor]], groups: Sequence[Sequence[torch.Tensor]] = ()) -> None:
        """Watches parameters from now on; those of a group travel together. ValueError: a parameter of no supported
        kind."""
        for name, parameter in named:
            if self.active:
                _check(name, parameter)
            self._gradients[parameter] = _Gradient(parameter, name, self._passes)
        new = [self._gradients[parameter] for _, parameter in named]
        grouped = set()
        for group in groups:
            members = [self._gradients[parameter] for parameter in group]
            grouped.update(members)
            self._units.append(_Unit(members, f"allreduce.group.{members[0].name}"))
        self._units.extend(
            _Unit([gradient], f"allreduce.{gradient.name}") for gradient in new if gradient not in grouped
        )
        if self.active:
            for gradient in new:
                self._watch(gradient)
        if new:
            self._added.append(new)
            self._unplaced.append(new)

    def _watch(self, gradient: _Gradient) -> None:
        if gradient.hook is None and gradient.parameter.requires_grad:
            # A parameter outlives its optimizer: the hook must not keep it alive, nor act for one that is gone.
            gradient.hook = gradient.parameter.register_post_accumulate_grad_hook(_weak_hook(self, gradient))
            weakref.finalize(self, gradient.hook.remove)

    @property
    def passes(self) -> int:
        """How many backward passes are added up before gradients travel."""
        return self._passes

    def set_passes(self, passes: int) -> None:
        """Changes the number of backward passes. RuntimeError: between a backward pass and its step."""
        if self.outstanding():
            raise RuntimeError("set_backward_passes_per_step() was called between backward and step()")
        self._passes = passes
        for gradient in self._gradients.values():
            gradient.passes_left = passes

    def abandon(self) -> None:
        """Waits for what travels, whatever becomes of it; the next backward pass begins a step."""
        for unit in self._units:
            with contextlib.suppress(ValueError, RuntimeError):
                while self._collect(unit):
                    pass
        self._reset()
        self.synchronized = False

    def all_have_joined(self) -> None:
        """Ranks had different numbers of steps."""
        if isinstance(self._settings.compression, GradientExchange):
            self._settings.compression.begin_epoch()

    def outstanding(self) -> bool:
        """Whether gradients are travelling."""
        return self._submitted > 0

    def on_gradient(self, gradient: _Gradient) -> None:
        """A backward pass has added to the gradient."""
        if not self.active:
            return
        left = gradient.passes_left - 1
        if left < 0:
            raise AssertionError(
                "Gradients were computed more than backward_passes_per_step times before call to step(). "
                f"Increase backward_passes_per_step to accumulate gradients locally. (parameter {gradient.name})"
            )
        gradient.passes_left = left
        if left == 0:
            unit = gradient.unit
            unit.waiting -= 1
            if unit.waiting == 0:
                try:
                    self._submit(unit)
                except EpochEnded:
                    self._vacate()
                    raise

    def _submit(self, unit: _Unit) -> None:
        grad = unit.gradients[0].settled()
        if (
            len(unit.gradients) > 1
            or self._settings.compression is not Compression.none
            or grad.layout is not torch.strided
            or not (grad.is_contiguous() and unit.parameter.is_contiguous())
            or not (grad.is_cpu or gpus.takes(grad, self._reduction))
        ):
            self._submit_any(unit)
            return
        dims, ndim = unit.dims
        address, _, dtype = ops.adapter.describe(grad)
        call = (unit.encoded, address, address, dims, ndim, dtype, *self._call)
        try:
            if grad.is_cpu:
                number = lib.farandole_allreduce(*call)
            else:
                number = self._streams.submit(gpus.place(grad), lib.farandole_allreduce, *call)
        except BaseException as error:
            _handles.rescue(error, grad)
            raise
        if number < 0:
            raise failure(-number)
        unit.number, unit.sent = number, grad
        self._submitted += 1

    def _submit_any(self, unit: _Unit) -> None:
        settings = self._settings
        grad = unit.parameter.grad
        if grad.layout is torch.sparse_coo and not settings.sparse_as_dense and len(unit.gradients) == 1:
            # The factors are those of an average, and cancel out.
            unit.gradients[0].sparse_dim = grad.sparse_dim()
            unit.handle = ops.sparse_allreduce_async(grad, unit.name, settings.op, settings.process_set)
            self._submitted += 1
            return
        if isinstance(settings.compression, GradientExchange):
            exchange = settings.compression.reduce(unit.name, self._dense(unit.gradients[0]), self._terms)
            try:
                unit.handle = next(exchange)
            except StopIteration:
                raise TypeError(f"{type(settings.compression).__name__}.reduce() has begun no operation") from None
            unit.sent = exchange
            self._submitted += 1
            return
        unit.sent = [settings.compression.compress(self._dense(gradient)) for gradient in unit.gradients]
        tensors = [
            _in_memory_order(tensor, gradient.parameter) for gradient, (tensor, _) in zip(unit.gradients, unit.sent)
        ]
        call = (unit.name, settings.op, settings.prescale, settings.postscale, settings.process_set)
        if len(tensors) == 1:
            unit.handle = _ops.allreduce(ops.adapter, tensors[0], True, *call)
        else:
            unit.handle = _ops.grouped_allreduce(ops.adapter, tensors, True, *call)
        self._submitted += 1

    def _dense(self, gradient: _Gradient) -> torch.Tensor:
        grad = gradient.settled()
        if grad.layout is not torch.strided:
            if not self._settings.sparse_as_dense:
                raise ValueError(
                    f"the gradient of parameter {gradient.name} is sparse ({grad.layout}), and cannot travel in a group "
                    "of gradients or in another layout than torch.sparse_coo; pass sparse_as_dense=True to "
                    "DistributedOptimizer, or leave it out of `groups`"
                )
            grad = grad.to_dense()
        return grad

    def synchronize(self) -> None:
        """Waits until all gradients are reduced; those that backward did not reach take part with what they have, or
        zero.

        All are waited for, also when one fails. Raises the first one's exception; the next step starts afresh.
        """
        if not self.active:
            return
        error: Optional[Exception] = None
        try:
            for unit in self._units:
                if not unit.number and unit.handle is None:
                    self._complete(unit)
            left = self._units
            if self._streams.are_used:
                numbered = [unit for unit in left if unit.number]
                with self._streams.waiting():
                    for _ in self._streams.others():
                        for unit in numbered:
                            _handles.wait(unit.number)
                    _, error = self._collect_all(numbered)
            while left:
                left, failed = self._collect_all(left)
                error = error or failed
        except EpochEnded:
            self._vacate()
            raise
        finally:
            self._reset()
        if isinstance(error, EpochEnded):
            self._vacate()
        if error is not None:
            raise error
        if self._unplaced:
            self._place()

    def _place(self) -> None:
        """Moves gradients into an arena. All ranks are here after the first step of an epoch, and after that in which
        parameters were added."""
        wanted = self._settings.gradient_arena and self._settings.compression is Compression.none
        later = []
        for gradients in self._unplaced:
            # The last layers' gradients come first, and lie side by side.
            parameters = [gradient.parameter for gradient in reversed(gradients)]
            name = f"gradients.{gradients[0].name[:400]}"
            places = place_all(name, parameters, wanted, self._settings.process_set)
            if places is None:
                later.append(gradients)
                continue
            for gradient, place in zip(reversed(gradients), places):
                gradient.place = place
        self._unplaced = later

    def _vacate(self) -> None:
        """Moves gradients out of arenas, which serve one epoch: peers that were stopped may still write there. The
        next epoch has its own."""
        for gradient in self._gradients.values():
            if gradient.place is not None:
                gradient.place.vacate(gradient.parameter)
                gradient.place = None
        self._unplaced = list(self._added)

    def _complete(self, unit: _Unit) -> None:
        """Submits what the hooks have not."""
        trainable = False
        for gradient in unit.gradients:
            self._watch(gradient)
            trainable = trainable or gradient.parameter.requires_grad
        if not trainable:
            return
        for gradient in unit.gradients:
            if gradient.parameter.grad is None:
                self._clear(gradient)
        self._submit(unit)

    def _clear(self, gradient: _Gradient) -> None:
        if gradient.sparse_dim > 0:
            gradient.parameter.grad = _sparse_zeros(gradient.parameter, gradient.sparse_dim)
        elif gradient.place is None:
            gradient.parameter.grad = torch.zeros_like(gradient.parameter)
        else:
            gradient.place.clear(gradient.parameter)

    def _collect_all(self, units: Sequence[_Unit]) -> Tuple[List[_Unit], Optional[Exception]]:
        """Those of which more is to follow, and the first error."""
        going_on, error = [], None
        for unit in units:
            try:
                if self._collect(unit):
                    going_on.append(unit)
            except Exception as failed:  # pylint: disable=broad-except; raised when all are collected
                error = error or failed
        return going_on, error

    def _collect(self, unit: _Unit) -> bool:
        """Waits for what travels, and takes it. Whether more is to follow, which travels now."""
        if unit.number:
            number, unit.number = unit.number, 0
            _handles.finish(number, unit.sent)
        elif unit.handle is not None:
            output = unit.handle.synchronize()
            if isinstance(unit.sent, GeneratorType):
                try:
                    unit.handle = unit.sent.send(output)
                    return True
                except StopIteration as result:
                    self._deliver(unit.parameter, result.value)
            elif isinstance(unit.handle, ops.SparseHandle):
                unit.parameter.grad = output
            else:
                for gradient, (tensor, context) in zip(unit.gradients, unit.sent):
                    if tensor is not gradient.parameter.grad:
                        self._deliver(gradient.parameter, self._settings.compression.decompress(tensor, context))
        return False

    @staticmethod
    def _deliver(parameter: torch.Tensor, reduced: torch.Tensor) -> None:
        grad = parameter.grad
        if grad.layout is torch.sparse_coo:
            # What made it sparse wants it so: SparseAdam takes no other.
            parameter.grad = reduced.to_sparse(grad.sparse_dim())
        else:
            grad.copy_(reduced)

    def _reset(self) -> None:
        """Ready for the next step. What still travels, because its wait was interrupted, keeps its memory."""
        self._submitted = 0
        self._streams.clear()
        for unit in self._units:
            if unit.number:
                _handles.keep(unit.number, unit.sent)
            unit.number, unit.handle, unit.sent = 0, None, None
            unit.waiting = len(unit.gradients)
            for gradient in unit.gradients:
                gradient.passes_left = self._passes

    def __del__(self) -> None:
        if not forked():
            self._reset()

    def reduce_loss(self, loss: Any) -> Any:
        """The loss over all ranks, as gradients are: what an optimizer must see that decides by it. What is no number, as
        None, and other reductions pass as they are."""
        if not self.active or self._settings.op not in (Average, Sum):
            return loss
        if not isinstance(loss, (torch.Tensor, numbers.Real)):
            return loss
        tensor = loss.detach() if isinstance(loss, torch.Tensor) else torch.tensor(float(loss), dtype=torch.float64)
        reduced = ops.allreduce_async(
            tensor, None, "allreduce.loss", self._settings.op, process_set=self._settings.process_set
        ).synchronize()
        return reduced if isinstance(loss, torch.Tensor) else reduced.item()


def _weak_hook(reducer: Reducer, gradient: _Gradient) -> Callable[[torch.Tensor], None]:
    reference = weakref.ref(reducer)

    def hook(_parameter: torch.Tensor) -> None:
        alive = reference()
        if alive is not None:
            alive.on_gradient(gradient)

    return hook
