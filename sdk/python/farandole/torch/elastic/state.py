"""The state of a PyTorch program: models, optimizers, samplers, schedules and plain objects."""

import copy
from typing import Any, Callable, Dict, List, Optional, Tuple, Type

import torch

from ...elastic import ObjectState
from ...exceptions import InvalidRequest
from ...objects import broadcast_object
from .. import gpus
from ..state import broadcast_optimizer_state, broadcast_parameters, load_exactly, take_away_groups
from .sampler import ElasticSampler


def _snapshot(value: Any, previous: Any = None) -> Any:
    """A copy of a state_dict that shares no memory with it, in the memory of an earlier copy where that fits."""
    if isinstance(value, torch.Tensor):
        return previous.copy_(value.detach()) if _can_hold(previous, value) else value.detach().clone()
    if isinstance(value, dict):
        made = copy.copy(value)  # with the attributes that torch gives a model's
        earlier = previous if isinstance(previous, dict) else {}
        for key, part in value.items():
            made[key] = _snapshot(part, earlier.get(key))
        return made
    return copy.deepcopy(value)


def _can_hold(previous: Any, value: torch.Tensor) -> bool:
    """Whether an earlier copy's memory may be written over."""
    return (
        isinstance(previous, torch.Tensor)
        and (previous.shape, previous.dtype, previous.device) == (value.shape, value.dtype, value.device)
        and previous.layout is value.layout is torch.strided
        and not (previous.requires_grad or previous.is_inference() or 0 in previous.stride())
    )


class StateHandler:
    """How one attribute of a TorchState is saved, restored and synchronized. To be derived from."""

    root_rank: int = 0
    """The rank that sync() takes the state of; set before it is called."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def save(self) -> None:
        """Keeps a copy in this process's memory."""
        raise NotImplementedError

    def restore(self) -> None:
        """Goes back to the last save()."""
        raise NotImplementedError

    def sync(self) -> None:
        """Gives the state of `root_rank` to all ranks; save() follows. Collective."""
        raise NotImplementedError

    def reset(self) -> None:
        """A new epoch has formed; before it is synchronized."""

    def set_value(self, value: Any) -> None:
        """The attribute has been set."""
        self.value = value
        self.save()


class _StateDictKeeper(StateHandler):
    """Of an object with state_dict() and load_state_dict()."""

    def __init__(self, value: Any) -> None:
        super().__init__(value)
        self._saved: Dict[str, Any] = {}
        self.save()

    def save(self) -> None:
        self._saved = _snapshot(self.value.state_dict(), self._saved)

    def restore(self) -> None:
        # A copy, so that the saved value stays as it is.
        self.value.load_state_dict(_snapshot(self._saved))

    def sync(self) -> None:
        self.value.load_state_dict(broadcast_object(self.value.state_dict(), self.root_rank, "farandole.elastic.state"))


class ModelStateHandler(_StateDictKeeper):
    """Of a torch.nn.Module."""

    def restore(self) -> None:
        self.value.load_state_dict(self._saved)

    def sync(self) -> None:
        broadcast_parameters(self.value.state_dict(), self.root_rank)


class OptimizerStateHandler(_StateDictKeeper):
    """Of a torch.optim.Optimizer, a DistributedOptimizer too."""

    def restore(self) -> None:
        take_away_groups(self.value, len(self._saved["param_groups"]))
        # In the memory of the tensors that are there: it goes on with the very tensors that it loads.
        load_exactly(self.value, _snapshot(self._saved, self.value.state_dict()))

    def sync(self) -> None:
        try:
            broadcast_optimizer_state(self.value, self.root_rank)
        except InvalidRequest as error:
            if ".param_groups: " not in str(error):
                raise
            raise InvalidRequest(
                f"{error} (a worker that joins adds its groups in sync_from, before the state comes: docs/elastic.md)"
            ) from None


class SchedulerStateHandler(_StateDictKeeper):
    """Of a learning rate scheduler."""


class SamplerStateHandler(_StateDictKeeper):
    """Of an ElasticSampler."""

    def reset(self) -> None:
        self.value.reset()


Registry = List[Tuple[Type, Callable[[Any], StateHandler]]]

_handler_registry: Registry = [
    (torch.nn.Module, ModelStateHandler),
    (torch.optim.Optimizer, OptimizerStateHandler),
    (torch.optim.lr_scheduler.LRScheduler, SchedulerStateHandler),
    (ElasticSampler, SamplerStateHandler),
]


def get_handler_registry() -> Registry:
    """Pairs of a type and the handler of attributes of that type; the first that fits is taken."""
    return _handler_registry


def set_handler_registry(registry: Registry) -> None:
    """Has each TorchState that is made from now on use other handlers."""
    global _handler_registry
    _handler_registry = registry


def _handler_of(value: Any) -> Optional[StateHandler]:
    for kind, make in _handler_registry:
        if isinstance(value, kind):
            return make(value)
    return None


class TorchState(ObjectState):
    """A state of models, optimizers and everything else that the program needs to go on, each an attribute.

        state = TorchState(model=model, optimizer=optimizer, sampler=sampler, epoch=0)

    Attributes that have a handler (modules, optimizers, learning rate schedulers, ElasticSamplers) are changed in place; the others are
    plain objects, as in ObjectState.
    """

    _handlers: Dict[str, StateHandler] = {}

    def __init__(
        self, model: Optional[torch.nn.Module] = None, optimizer: Optional[torch.optim.Optimizer] = None, **kwargs: Any
    ) -> None:
        values = {"model": model, "optimizer": optimizer, **kwargs}
        found = {name: _handler_of(value) for name, value in values.items()}
        super().__init__(**{name: value for name, value in values.items() if found[name] is None})
        for name, handler in found.items():
            if handler is not None:
                setattr(self, name, handler.value)
        self._handlers = {name: handler for name, handler in found.items() if handler is not None}

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, value)
        if name in self._handlers:
            self._handlers[name].set_value(value)

    def _settle(self) -> None:
        gpus.agree()

    def save(self) -> None:
        gpus.settle()
        for handler in self._handlers.values():
            handler.save()
        super().save()

    def restore(self) -> None:
        # Work that was enqueued when the epoch ended would write into the restored tensors.
        gpus.wait()
        for handler in self._handlers.values():
            handler.restore()
        super().restore()

    def sync_from(self, root_rank: int) -> None:
        for handler in self._handlers.values():
            handler.root_rank = root_rank
            handler.sync()
        super().sync_from(root_rank)

    def reset(self) -> None:
        for handler in self._handlers.values():
            handler.reset()
        super().reset()
