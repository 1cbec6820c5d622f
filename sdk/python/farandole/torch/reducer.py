"""Allreduce of gradients while backward runs: the part of DistributedOptimizer that does not know torch.optim."""

import contextlib
import operator
import weakref
from types import GeneratorType
from typing import Any, Dict, Iterable, List, Optional, Sequence, Set, Tuple

import torch

from .. import _epochs, _handles
from .._library import failure, forked, lib
from ..exceptions import EpochEnded, InvalidRequest
from ..process_sets import group_of
from . import backward_mark, gpus, ops
from .compression import Compression
from .exchange import GradientExchange, Settings, Terms
from .gradient_arena import Places
from .gradients import (
    ASKED,
    TOO_MANY,
    Changes,
    Gradient,
    Grouping,
    Taken,
    Unit,
    alone,
    check_parameter,
    leave_frozen,
    weak_hook,
)
from .ownership import Ownership
from .parameter_names import SpareNames, explained
from .participation import Participation, Question, names_operations, parts_of
from .sending import begin
from .shared_memory import SharedMemory


class Reducer:
    """Owns the hooks of some parameters and the submissions of their gradients. One thread at a time."""

    def __init__(self, settings: Settings, passes: int, names: SpareNames) -> None:
        """`passes`: backward passes whose gradients one step adds up. `names`: of parameters that may be added."""
        self._units: List[Unit] = []
        self._grouping: Optional[Grouping] = None
        # Gradients stay here until step(): ranks have not agreed yet which of them travel together.
        self._holds = False
        self._participation = Participation(settings.process_set)
        self._agreed: List[Unit] = []  # those that all ranks have
        self._question: Optional[Question] = None  # of the next step
        self._orders: Dict[str, Tuple[int, ...]] = {}  # in which gradients travel from the next step on
        self._refused: List[Tuple[Unit, Exception]] = []  # as ranks have called different operations
        self.settings = settings
        self._terms = Terms(settings.op, settings.prescale, settings.postscale, settings.process_set)
        self._passes = passes
        self._call: Tuple[int, float, float, int, int]
        self._reduction = (settings.op, settings.prescale, settings.postscale)
        self._streams = _handles.Streams()  # that have given gradients which go the short way
        self._gradients: Dict[torch.Tensor, Gradient] = {}
        self._submitted = 0  # units that travel, or are held
        self._frozen: List[Gradient] = []  # those of frozen parameters that take part in this step
        self._changes = Changes()
        self.synchronized = False  # by synchronize(), for the step that follows
        self.backward = backward_mark.BackwardMark()
        self._groups: Sequence[Dict[str, Any]] = ()  # the optimizer's
        self._followed: List[torch.Tensor] = []  # their parameters
        has_places = settings.gradient_arena and settings.compression is Compression.none
        self._places = Places(has_places, settings.process_set)
        self._shared = SharedMemory(settings)
        self._names, self._ownership = names, Ownership(self, acts_in_backward=True)
        self.active = False
        group_of(settings.process_set)
        self.enter_epoch()
        _epochs.follow(self)

    def enter_epoch(self) -> None:
        """Begins afresh, with the ranks of the present epoch."""
        settings = self.settings
        is_member = bool(settings.process_set.included())
        self._lacks_set = is_member and settings.process_set.process_set_id is None
        # Alone there is no rank to reduce with, and outside of the set nothing to do.
        self.active = is_member and not self._lacks_set and settings.process_set.size() > 1
        self._begin_agreement()
        self._ownership.settle()
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
                self._units = self._grouping.form_units(self._gradients.values())
                self._holds = True

    def _begin_agreement(self) -> None:
        """Drops the agreement of the ranks: some have had no part in it."""
        self._question, self._agreed, self._orders = None, [], {}
        for gradient in self._gradients.values():
            gradient.order = None
        self._participation.note_change()

    def leave_epoch(self) -> None:
        """Drops gradients, which may be half reduced, or of a step that will not be finished."""
        self._reset()
        self.synchronized = False
        # Of an elastic job also those of a worker that was alone, or is outside of the set: it goes back to a commit.
        if self.active or _epochs.is_elastic():
            self._places.drop(self._gradients.values())

    def add(self, named: Sequence[Tuple[str, torch.Tensor]], grouping: Optional[Grouping] = None) -> None:
        """Watches parameters from now on. `grouping`: which of them travel together. ValueError: a parameter of no
        supported kind."""
        for name, parameter in named:
            if self.active:
                check_parameter(name, parameter)
            self._gradients[parameter] = Gradient(parameter, name, self._passes)
        self._ownership.take(named)
        new = [self._gradients[parameter] for _, parameter in named]
        self._units.extend(alone(new))
        if self.active:
            for gradient in new:
                self._watch(gradient)
        if grouping is not None:
            self._grouping, self._holds = grouping, self.active
            self._units = grouping.form_units(self._gradients.values())
        if new:
            self._places.add(new)
            self._participation.note_change()
            if self.active and not self._participation.is_open:
                self._question = self._question or Question(self._agreed, self.settings)
                for gradient in new:
                    gradient.unit.waiting += 1  # for the answer

    def _agree(self) -> None:
        """Learns which parameters other ranks train, and what of their gradients only those know."""
        for gradient in self._gradients.values():
            self._watch(gradient)
            if self._holds and not self.settings.sparse_as_dense and gradient.notice_sparse():
                self._participation.note_change()
        merged = self._participation.agree(lambda: parts_of(self.gradients()))
        self._orders = self._participation.orders
        if not self._participation.is_in_one_order:
            self._gradients = dict(sorted(self._gradients.items(), key=lambda item: item[1].name))
            self._participation.note_change()
        if merged is not None:
            for gradient in self._gradients.values():
                part = merged.get(gradient.name)
                if part is not None:
                    gradient.is_awaited, gradient.sparse_dim = True, part.sparse_dim
            self._participation.note_change()
        if self._holds and self._grouping is not None:
            self._units = self._grouping.form_units(self._gradients.values())
        self._holds = False
        self._agreed = list(self._units)

    def follow(self, groups: Sequence[Dict[str, Any]]) -> None:
        """Adds those parameters of the optimizer's groups that it does not know; names go by their places there."""
        parameters = [parameter for group in groups for parameter in group["params"]]
        if len(parameters) == len(self._followed) and all(map(operator.is_, parameters, self._followed)):
            return
        self.add(self._names.name_unknown(groups, self._ownership.names(self._followed)))
        self._groups, self._followed = groups, parameters

    def give_up(self, parameters: Set[torch.Tensor]) -> None:
        """Does not watch these any more. Drops what travels; all ranks ask in the next step."""
        for gradient in (each for unit in self.travelling() for each in unit.gradients):
            gradient.leave_memory()
        self._reset()
        self.backward.end()
        gone = [self._gradients.pop(parameter) for parameter in list(self._gradients) if parameter in parameters]
        for gradient in gone:
            if gradient.hook is not None:
                gradient.hook.remove()
        self._places.remove(gone)
        rest, grouping = self._gradients.values(), self._grouping
        self._units = alone(rest) if grouping is None else grouping.form_units(rest)
        self._holds = grouping is not None and self.active
        self._begin_agreement()
        self._participation.ask_again()

    def forget(self, parameters: Iterable[torch.Tensor]) -> None:
        """The optimizer does not have these any more, on any rank."""
        self._ownership.forget(parameters)
        self.give_up(set(parameters))

    def begin_backward(self) -> None:
        """In the first hook of a backward pass, or of several: looks for parameters that were added since the step, of
        which other ranks are to hear before gradients travel."""
        self.backward.begin()
        if sum(len(group["params"]) for group in self._groups) != len(self._followed):
            self.follow(self._groups)
        self._shared.keep_back(self._followed, self._gradients.values())

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
        """Those of all parameters, in the order in which they came, on all ranks; where ranks differ, by their names."""
        return self._gradients.values()

    def travelling(self) -> List[Unit]:
        """The units that travel now."""
        return [unit for unit in self._units if unit.is_sent()]

    def taking_part(self) -> List[Unit]:
        """The units that travel in each step."""
        return [unit for unit in self._units if any(gradient.takes_part() for gradient in unit.gradients)]

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
        if unit.asks:
            return
        unit.handle, unit.sent = Taken(), []
        for gradient in unit.gradients:
            gradient.sent = None

    def all_have_joined(self) -> None:
        """Ranks had different numbers of steps."""
        if isinstance(self.settings.compression, GradientExchange):
            self.settings.compression.begin_epoch()
        self._holds = self._grouping is not None and self.active and not self.outstanding()
        self._begin_agreement()

    def outstanding(self) -> bool:
        """Whether gradients are travelling, or ready to."""
        return self._submitted > 0

    def on_gradient(self, gradient: Gradient) -> None:
        """A backward pass has added to the gradient."""
        if not self.active:
            return
        left = gradient.passes_left - 1
        if left < 0:
            raise AssertionError(TOO_MANY.format(gradient.name))
        gradient.passes_left = left
        self.synchronized = False  # if it was for a step, that was left out
        if left == 0:
            unit = gradient.unit
            unit.waiting -= 1
            if unit.waiting > 0:
                return
            if self._holds or unit.notice_lent():
                self._submitted += 1
                return
            try:
                self._submit(unit)
            except EpochEnded:
                self._places.vacate(self._gradients.values())
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
            or gradient.order
            or not grad.is_contiguous()
            or grad.is_neg()
            or not (grad.is_cpu or gpus.takes(grad, self._reduction))
        ):
            self._submit_any(unit)
            return
        address, shape, dtype = ops.adapter.describe(grad)
        if shape != unit.shape:
            unit.reshape(shape)
        gradient.show_trained(grad)
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
        if begin(unit, self.settings, self._terms):
            self._participation.note_change()
        self._submitted += 1
        for gradient in unit.gradients:
            gradient.note()

    def synchronize(self) -> None:
        """Waits until all gradients are reduced; those that backward did not reach take part with what they have, or
        zero.

        All are submitted and waited for, also when one fails. Raises the first one's exception; the next step starts
        afresh. ValueError: the process set is not registered in this epoch.
        """
        if self._lacks_set:
            group_of(self.settings.process_set)
            self.enter_epoch()
        if not self.active:
            return
        self._ownership.require(self._followed)
        errors: List[Exception] = []
        try:
            self._reduce_all(errors)
            leave_frozen(self._frozen, self.settings)
        finally:
            self._reset()
        if any(isinstance(error, EpochEnded) for error in errors):
            self._places.vacate(self._gradients.values())
        if errors:
            raise explained(errors[0])
        self._places.fill(self._gradients.values())

    def _reduce_all(self, errors: List[Exception]) -> None:
        """Adds to the errors."""
        question, self._question = self._question, None
        if self._participation.is_open:
            question = None
            try:
                self._agree()
            except EpochEnded as error:
                errors.append(error)
        known = self._units if question is None else question.ask(self._agreed)
        self._exchange(known, errors)
        if question is not None or self._refused:
            try:
                self._agree_and_go_on(question, set(known), errors)
            except Exception as error:  # pylint: disable=broad-except; raised when all are collected
                errors.append(error)

    def _agree_and_go_on(self, question: Optional[Question], known: Set[Unit], errors: List[Exception]) -> None:
        """Ranks have called different operations for a gradient, or have asked: all of them are here."""
        refused, self._refused = self._refused, []
        if question is not None and not question.is_answered() and not refused:
            question.ask_of_next_step(self._participation)
        self._agree()
        for unit, _ in refused:
            unit.forget()
        gone = {unit for unit in self._units if unit not in known}.union(unit for unit, _ in refused)
        left = [part for unit in self._units if unit in gone for part in unit.split()]
        self._units = [*(unit for unit in self._units if unit not in gone), *left]
        self._agreed = list(self._units)
        self._exchange(left, errors)
        errors.extend(error for _, error in self._refused)

    def _exchange(self, units: Sequence[Unit], errors: List[Exception]) -> None:
        """Submits what the hooks have not, and waits for all. Adds to the errors, and to what was refused."""
        late = [unit for unit in units if not unit.number and unit.handle is None]
        if late:
            self._shared.part(late, units, self.take, errors)
        for unit in late:
            self._complete(unit, errors)
        if self._streams.are_used:
            numbered = [unit for unit in units if unit.number]
            with self._streams.waiting():
                for _ in self._streams.others():
                    for unit in numbered:
                        _handles.wait(unit.number)
                self._collect_all(numbered, errors)
        while units:
            units = self._collect_all(units, errors)

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

    def _collect_all(self, units: Sequence[Unit], errors: List[Exception]) -> List[Unit]:
        """Those of which more is to follow. Adds to the errors."""
        going_on = []
        for unit in units:
            try:
                if self._collect(unit):
                    going_on.append(unit)
                elif unit.asks:
                    self._refused.append((unit, ASKED))
            except Exception as failed:  # pylint: disable=broad-except; raised when all are collected
                if names_operations(failed):
                    self._refused.append((unit, failed))
                else:
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
                    self._changes.undo(gradient, is_wanted)
        elif unit.handle is not None:
            # Looked at before the wait: the wait itself changes a device's gradient that went by the host's memory.
            changed = [gradient for gradient in unit.gradients if gradient.was_changed()]
            output = unit.handle.synchronize()
            for gradient in changed:
                self._changes.undo(gradient, is_wanted)
            if isinstance(unit.sent, GeneratorType):
                try:
                    unit.handle = unit.sent.send(output)
                    return True
                except StopIteration as result:
                    output = result.value
            if is_wanted:
                unit.deliver(output, self.settings.compression)
        return False

    def _reset(self) -> None:
        """Ready for the next step. A unit that still travels, because its wait was interrupted, keeps its memory."""
        self._submitted = 0
        self._shared.join()
        self._frozen.clear()
        self._refused.clear()
        if self._orders:
            for gradient in self._gradients.values():
                gradient.order = self._orders.get(gradient.name, ())
            self._orders = {}
        self._streams.clear()
        for unit in self._units:
            if unit.number:
                _handles.keep(unit.number, unit.gradients[0].sent)
            unit.forget()
            unit.waiting = len(unit.gradients)
            for gradient in unit.gradients:
                gradient.passes_left, gradient.sent, gradient.is_lent = self._passes, None, False

    def __del__(self) -> None:
        if not forked():
            self._reset()
