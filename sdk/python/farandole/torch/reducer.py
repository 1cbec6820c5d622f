"""Allreduce of gradients while backward runs: the part of DistributedOptimizer that does not know torch.optim."""

import contextlib
import operator
import warnings
import weakref
from types import GeneratorType
from typing import Any, Dict, Iterable, List, Optional, Sequence, Tuple

import torch

from .. import _epochs, _handles, _ops
from .._library import failure, forked, lib
from ..exceptions import EpochEnded, InvalidRequest
from ..process_sets import group_of
from ..reduce_ops import Average, Sum
from . import backward_mark, gpus, ops
from .compression import Compression
from .exchange import GradientExchange, Settings, Terms
from .gradient_arena import place_all
from .gradients import (
    CHANGED,
    Gradient,
    Grouping,
    Taken,
    Unit,
    check_parameter,
    explained,
    in_memory_order,
    name_unknown,
    weak_hook,
)
from .participation import Participation, parts_of


class Reducer:
    """Owns the hooks of some parameters and the submissions of their gradients. One thread at a time."""

    def __init__(self, settings: Settings, passes: int) -> None:
        """`passes`: backward passes whose gradients are added up before they travel."""
        self._units: List[Unit] = []
        self._grouping: Optional[Grouping] = None
        # Gradients stay here until step(): ranks have not agreed yet which of them travel together.
        self._holds = False
        self._participation = Participation(settings.process_set)
        self.settings = settings
        self._terms = Terms(settings.op, settings.prescale, settings.postscale, settings.process_set)
        self._passes = passes
        self._call: Tuple[int, float, float, int, int]
        self._reduction = (settings.op, settings.prescale, settings.postscale)
        self._streams = _handles.Streams()  # that have given gradients which go the short way
        self._gradients: Dict[torch.Tensor, Gradient] = {}
        self._submitted = 0  # units that travel, or are held
        self._frozen: List[Gradient] = []  # those of frozen parameters that take part in this step
        self._told = False  # that the program has changed a gradient that travels
        self.synchronized = False  # by synchronize(), for the step that follows
        self.backward = backward_mark.BackwardMark()
        # Each call of add, and of these those whose gradients may get a place yet.
        self._followed: List[torch.Tensor] = []  # the parameters of the optimizer's groups
        self._added: List[List[Gradient]] = []
        self._unplaced: List[List[Gradient]] = []
        self.active = False
        group_of(settings.process_set)
        self.enter_epoch()
        _epochs.follow(self)

    def enter_epoch(self) -> None:
        """Begins afresh, with the ranks of the present epoch."""
        settings = self.settings
        # Alone there is no rank to reduce with, and outside of the set nothing to do.
        self.active = bool(settings.process_set.included()) and settings.process_set.size() > 1
        if self.active:
            self._call = (settings.op, settings.prescale, settings.postscale, group_of(settings.process_set), 0)
            if isinstance(settings.compression, GradientExchange):
                settings.compression.begin_epoch()
            for gradient in self._gradients.values():
                check_parameter(gradient.name, gradient.parameter)
                gradient.is_awaited = False
                if gradient.hook is not None and not gradient.parameter.requires_grad:
                    # A worker that has come meanwhile does not know that it was trained once.
                    gradient.hook.remove()
                    gradient.hook = None
                self._watch(gradient)
            if self._grouping is not None:
                self._form_units(self._grouping)
                self._holds = True

    def leave_epoch(self) -> None:
        """Drops gradients, which may be half reduced, or of a step that will not be finished."""
        self._reset()
        self.synchronized = False
        if self.active:
            for gradient in self._gradients.values():
                gradient.parameter.grad = gradient.place = None
            self._unplaced = list(self._added)

    def add(self, named: Sequence[Tuple[str, torch.Tensor]], grouping: Optional[Grouping] = None) -> None:
        """Watches parameters from now on. `grouping`: which of them travel together. ValueError: a parameter of no
        supported kind."""
        for name, parameter in named:
            if self.active:
                check_parameter(name, parameter)
            self._gradients[parameter] = Gradient(parameter, name, self._passes)
        new = [self._gradients[parameter] for _, parameter in named]
        self._units.extend(Unit([gradient], f"allreduce.{gradient.name}") for gradient in new)
        if self.active:
            for gradient in new:
                self._watch(gradient)
        if grouping is not None:
            self._grouping, self._holds = grouping, self.active
            self._form_units(grouping)
        if new:
            self._added.append(new)
            self._unplaced.append(new)
            self._participation.begin()

    def _form_units(self, grouping: Grouping) -> None:
        """Makes the units of all gradients anew. Nothing travels."""
        groups = grouping.split([gradient for gradient in self._gradients.values() if gradient.takes_part()])
        grouped = {gradient for group in groups for gradient in group}
        self._units = [Unit(group, f"allreduce.group.{group[0].name}") for group in groups]
        self._units.extend(
            Unit([gradient], f"allreduce.{gradient.name}")
            for gradient in self._gradients.values()
            if gradient not in grouped
        )

    def _agree(self) -> None:
        """Learns which parameters other ranks train, and what of their gradients only those know."""
        for gradient in self._gradients.values():
            self._watch(gradient)
        merged = self._participation.agree(lambda: parts_of(self.gradients()))
        if merged is not None:
            for gradient in self._gradients.values():
                part = merged.get(gradient.name)
                if part is not None:
                    gradient.is_awaited, gradient.sparse_dim = True, part.sparse_dim
            self._participation.note_change()
            if self._holds and self._grouping is not None:
                self._form_units(self._grouping)
        self._holds = False

    def follow(self, groups: Sequence[Dict[str, Any]]) -> None:
        """Adds those parameters of the optimizer's groups that it does not know; names go by their places there."""
        parameters = [parameter for group in groups for parameter in group["params"]]
        if len(parameters) == len(self._followed) and all(map(operator.is_, parameters, self._followed)):
            return
        self.add(name_unknown(groups, self._gradients))
        self._followed = parameters

    def _watch(self, gradient: Gradient) -> None:
        if gradient.hook is None and gradient.parameter.requires_grad:
            # A parameter outlives its optimizer: the hook must not keep it alive, nor act for one that is gone.
            gradient.hook = gradient.parameter.register_post_accumulate_grad_hook(weak_hook(self, gradient))
            weakref.finalize(self, gradient.hook.remove)
            self._participation.note_change()

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
        """Waits for the tensors on their way, with any outcome; the next backward pass begins a step."""
        for unit in self._units:
            with contextlib.suppress(ValueError, RuntimeError):
                while self._collect(unit, is_wanted=False):
                    pass
        self._reset()
        self.synchronized = False

    def gradients(self) -> Iterable[Gradient]:
        """Those of all parameters, in the order in which they came."""
        return self._gradients.values()

    def travelling(self) -> List[Unit]:
        """The units that travel now."""
        return [unit for unit in self._units if unit.is_sent()]

    def send(self, parameter: torch.Tensor) -> Unit:
        """Has a gradient travel now, with those of its group, without further backward passes; returns what travels."""
        unit = self._gradients[parameter].unit
        if not unit.is_sent():
            if self._holds:
                self._agree()
                unit = self._gradients[parameter].unit
            errors: List[Exception] = []
            self._complete(unit, errors)
            if errors:
                raise errors[0]
            unit.waiting = 0
        return unit

    def take(self, unit: Unit) -> None:
        """Waits for what travels, and takes it before synchronize() does."""
        while self._collect(unit):
            pass
        unit.handle, unit.sent = Taken(), []
        for gradient in unit.gradients:
            gradient.sent = None

    def all_have_joined(self) -> None:
        """Ranks had different numbers of steps."""
        if isinstance(self.settings.compression, GradientExchange):
            self.settings.compression.begin_epoch()
        self._holds = self._grouping is not None and self.active and not self.outstanding()

    def outstanding(self) -> bool:
        """Whether gradients are travelling, or ready to."""
        return self._submitted > 0

    def on_gradient(self, gradient: Gradient) -> None:
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
        self.synchronized = False  # if it was for a step, that was left out
        if left == 0:
            unit = gradient.unit
            unit.waiting -= 1
            if unit.waiting > 0:
                return
            if self._holds:
                self._submitted += 1
                return
            try:
                self._submit(unit)
            except EpochEnded:
                self._vacate()
                raise
            except InvalidRequest as error:
                raise explained(error) from None

    def _submit(self, unit: Unit) -> None:
        gradient = unit.gradients[0]
        grad = gradient.settled()
        if not grad.is_cpu:
            gpus.announce_more(grad)
        if (
            len(unit.gradients) > 1
            or self.settings.compression is not Compression.none
            or grad.layout is not torch.strided
            or not (grad.is_contiguous() and unit.parameter.is_contiguous())
            or grad.is_neg()
            or not (grad.is_cpu or gpus.takes(grad, self._reduction))
        ):
            self._submit_any(unit)
            return
        address, shape, dtype = ops.adapter.describe(grad)
        if shape != unit.shape:
            unit.reshape(shape)
        call = (unit.encoded, address, address, *unit.dims, dtype, *self._call, unit.submitted)
        try:
            if grad.is_cpu:
                number = _handles.on_host(lib.farandole_allreduce, *call)
            else:
                number = self._streams.submit(gpus.place(grad), lib.farandole_allreduce, *call)
            if number >= 0:
                gradient.sent, gradient.version, unit.number = grad, grad._version, number
        except BaseException:
            unit.number = 0
            _handles.rescue(unit.submitted, grad)
            raise
        if number < 0:
            raise failure(-number)
        self._submitted += 1

    def _submit_any(self, unit: Unit) -> None:
        self._begin(unit)
        self._submitted += 1
        for gradient in unit.gradients:
            gradient.note()

    def _begin(self, unit: Unit) -> None:
        settings = self.settings
        grad = unit.parameter.grad
        if grad.layout is torch.sparse_coo and not settings.sparse_as_dense and len(unit.gradients) == 1:
            # The factors are those of an average, and cancel out.
            if unit.gradients[0].sparse_dim != grad.sparse_dim():
                unit.gradients[0].sparse_dim = grad.sparse_dim()
                self._participation.note_change()
            unit.handle = ops.sparse_allreduce_async(grad, unit.name, settings.op, settings.process_set)
            return
        if isinstance(settings.compression, GradientExchange):
            exchange = settings.compression.reduce(unit.name, self._dense(unit.gradients[0]), self._terms)
            try:
                unit.handle = next(exchange)
            except StopIteration:
                raise TypeError(f"{type(settings.compression).__name__}.reduce() has begun no operation") from None
            unit.sent = exchange
            return
        unit.sent = [settings.compression.compress(self._dense(gradient)) for gradient in unit.gradients]
        tensors = [
            in_memory_order(tensor, gradient.parameter) for gradient, (tensor, _) in zip(unit.gradients, unit.sent)
        ]
        call = (unit.name, settings.op, settings.prescale, settings.postscale, settings.process_set)
        if len(tensors) == 1:
            unit.handle = _ops.allreduce(ops.adapter, tensors[0], True, *call)
        else:
            unit.handle = _ops.grouped_allreduce(ops.adapter, tensors, True, *call)

    def _dense(self, gradient: Gradient) -> torch.Tensor:
        grad = gradient.settled()
        if grad.layout is not torch.strided:
            if not self.settings.sparse_as_dense:
                raise ValueError(
                    f"the gradient of parameter {gradient.name} is sparse ({grad.layout}), and cannot travel in a group "
                    "of gradients or in another layout than torch.sparse_coo; pass sparse_as_dense=True to "
                    "DistributedOptimizer, or leave it out of `groups`"
                )
            grad = grad.to_dense()
        return grad.resolve_neg()

    def synchronize(self) -> None:
        """Waits until all gradients are reduced; those that backward did not reach take part with what they have, or
        zero.

        All are submitted and waited for, also when one fails. Raises the first one's exception; the next step starts
        afresh.
        """
        if not self.active:
            return
        errors: List[Exception] = []
        try:
            if self._participation.is_open:
                try:
                    self._agree()
                except EpochEnded as error:
                    errors.append(error)
            for unit in self._units:
                if not unit.number and unit.handle is None:
                    self._complete(unit, errors)
            left = self._units
            if self._streams.are_used:
                numbered = [unit for unit in left if unit.number]
                with self._streams.waiting():
                    for _ in self._streams.others():
                        for unit in numbered:
                            _handles.wait(unit.number)
                    self._collect_all(numbered, errors)
            while left:
                left = self._collect_all(left, errors)
            self._leave_frozen()
        finally:
            self._reset()
        if any(isinstance(error, EpochEnded) for error in errors):
            self._vacate()
        if errors:
            raise explained(errors[0])
        if self._unplaced:
            self._place()

    def _place(self) -> None:
        """Moves gradients into an arena. All ranks are here after the first step of an epoch, and after that in which
        parameters were added."""
        wanted = self.settings.gradient_arena and self.settings.compression is Compression.none
        later = []
        for gradients in self._unplaced:
            # The last layers' gradients come first, and lie side by side.
            parameters = [gradient.parameter for gradient in reversed(gradients)]
            name = f"gradients.{gradients[0].name[:400]}"
            places = place_all(name, parameters, wanted, self.settings.process_set)
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

    def _complete(self, unit: Unit, errors: List[Exception]) -> None:
        """Submits what the hooks have not, if any rank has ever trained it: one may do so now. Adds to the errors."""
        for gradient in unit.gradients:
            self._watch(gradient)
        if not any(gradient.takes_part() for gradient in unit.gradients):
            return
        try:
            for gradient in unit.gradients:
                if gradient.parameter.grad is None:
                    gradient.clear()
                    if not gradient.parameter.requires_grad:
                        self._frozen.append(gradient)
            self._submit(unit)
        except Exception as error:  # pylint: disable=broad-except; raised when all are collected
            errors.append(error)

    def _leave_frozen(self) -> None:
        """A parameter that all ranks have frozen stays as it is, as in one process. Not all reductions tell."""
        settings = self.settings
        if settings.op in (Average, Sum) and not isinstance(settings.compression, GradientExchange):
            for gradient in self._frozen:
                gradient.leave_frozen()

    def _collect_all(self, units: Sequence[Unit], errors: List[Exception]) -> List[Unit]:
        """Those of which more is to follow. Adds to the errors."""
        going_on = []
        for unit in units:
            try:
                if self._collect(unit):
                    going_on.append(unit)
            except Exception as failed:  # pylint: disable=broad-except; raised when all are collected
                errors.append(failed)
        return going_on

    def _collect(self, unit: Unit, is_wanted: bool = True) -> bool:
        """Waits for what travels, and takes it where it `is_wanted`. Whether more is to follow, which travels now."""
        if unit.number:
            gradient = unit.gradients[0]
            try:
                number, unit.number = unit.number, 0
                _handles.finish(number, gradient.sent)
            except BaseException:
                _handles.rescue((number,), gradient.sent)
                raise
            if gradient.sent._version != gradient.version or unit.parameter.grad is not gradient.sent:
                if gradient.was_changed():
                    self._restore(gradient, is_wanted)
        elif unit.handle is not None:
            # Looked at before the wait: the wait itself changes a device's gradient that went by the host's memory.
            changed = [gradient for gradient in unit.gradients if gradient.was_changed()]
            output = unit.handle.synchronize()
            for gradient in changed:
                self._restore(gradient, is_wanted)
            if isinstance(unit.sent, GeneratorType):
                try:
                    unit.handle = unit.sent.send(output)
                    return True
                except StopIteration as result:
                    output = result.value
            if is_wanted:
                self._take(unit, output)
        return False

    def _take(self, unit: Unit, output: Any) -> None:
        """Gives the parameters the gradients that were sent as copies."""
        if isinstance(unit.sent, GeneratorType):
            self._deliver(unit.parameter, output)
        elif isinstance(unit.handle, ops.SparseHandle):
            unit.parameter.grad = output
        else:
            for gradient, (tensor, context) in zip(unit.gradients, unit.sent):
                if tensor is not gradient.parameter.grad:
                    self._deliver(gradient.parameter, self.settings.compression.decompress(tensor, context))

    def _restore(self, gradient: Gradient, is_wanted: bool) -> None:
        """Gives the parameter the gradient that has travelled, which the program has changed or replaced meanwhile."""
        if not is_wanted:
            return
        gradient.parameter.grad = gradient.sent
        if not self._told:
            self._told = True
            warnings.warn(CHANGED.format(gradient.name), RuntimeWarning, stacklevel=6)

    @staticmethod
    def _deliver(parameter: torch.Tensor, reduced: torch.Tensor) -> None:
        grad = parameter.grad
        if grad.layout is torch.sparse_coo:
            # The optimizer may need it sparse: SparseAdam takes no other.
            parameter.grad = reduced.to_sparse(grad.sparse_dim())
        else:
            grad.copy_(reduced)

    def _reset(self) -> None:
        """Ready for the next step. A unit that still travels, because its wait was interrupted, keeps its memory."""
        self._submitted = 0
        self._frozen.clear()
        self._streams.clear()
        for unit in self._units:
            if unit.number:
                _handles.keep(unit.number, unit.gradients[0].sent)
            unit.number, unit.handle, unit.sent = 0, None, None
            unit.waiting = len(unit.gradients)
            for gradient in unit.gradients:
                gradient.passes_left, gradient.sent = self._passes, None

    def __del__(self) -> None:
        if not forked():
            self._reset()
