"""The state of a Gluon trainer: all that its next updates depend on, other than the parameters."""

import pickle
from typing import Any, Dict, List

import mxnet as mx
import numpy

from .optimizer import DistributedOptimizer

# An optimizer's attributes that belong to this process, or have their own place in the state.
_LEFT_OUT = (
    "_all_index_update_counts",
    "_index_update_count",
    "idx2name",
    "param_dict",
    "rescale_grad",
    "sym_info",
)


def _optimizer_of(trainer: mx.gluon.Trainer) -> Any:
    optimizer = trainer._optimizer
    while isinstance(optimizer, DistributedOptimizer):
        optimizer = optimizer._optimizer
    return optimizer


def _updaters(trainer: mx.gluon.Trainer) -> List[Any]:
    """The kvstore's updater, if the kvstore makes the updates, or else one for each device."""
    if trainer._kvstore_params["kvstore"] is not None and not trainer._kv_initialized:
        trainer._init_kvstore()
    return [trainer._kvstore._updater] if trainer._update_on_kvstore else trainer._updaters


def _is_plain(value: Any) -> bool:
    if isinstance(value, dict):
        return all(map(_is_plain, value)) and all(map(_is_plain, value.values()))
    if isinstance(value, (list, tuple)):
        return all(map(_is_plain, value))
    return value is None or isinstance(value, (int, float, str, numpy.generic, numpy.ndarray, mx.nd.NDArray))


def _plain_attributes(thing: Any) -> Dict[str, Any]:
    """Numbers, texts, arrays and collections of them. Optimizers and schedules keep their counts in such attributes."""
    attributes = getattr(thing, "__dict__", {})
    return {name: value for name, value in attributes.items() if name not in _LEFT_OUT and _is_plain(value)}


def _counts(optimizer: Any) -> Dict[Any, int]:
    """The number of updates of each parameter. MXNet counts them for each device, and replicas have equal counts."""
    merged: Dict[Any, int] = {}
    for counts in optimizer._all_index_update_counts.values():
        for index, count in counts.items():
            merged[index] = max(count, merged.get(index, 0))
    return merged


def _set_counts(optimizer: Any, counts: Dict[Any, int], devices: List[mx.Context]) -> None:
    """In place, as `_index_update_count` is one of the dictionaries. The devices here need not be those of the root."""
    every = optimizer._all_index_update_counts
    for device in {*every, *(device.device_id for device in devices)}:
        own = every.setdefault(device, {})
        own.clear()
        own.update(counts)


def state_of(trainer: mx.gluon.Trainer) -> bytes:
    """A copy of it, for set_state. It holds the updaters' values for each parameter, the optimizer's counts, rates and
    other plain attributes, those of its schedule of learning rates, and the loss scale of automatic mixed precision."""
    optimizer = _optimizer_of(trainer)
    state = {
        "updater": _updaters(trainer)[0].get_states(dump_optimizer=False),
        "counts": _counts(optimizer),
        "optimizer": _plain_attributes(optimizer),
        "schedule": _plain_attributes(optimizer.lr_scheduler),
        "loss scaler": _plain_attributes(getattr(trainer, "_amp_loss_scaler", None)),
    }
    return pickle.dumps(state)


def set_state(trainer: mx.gluon.Trainer, state: bytes) -> None:
    """Has the trainer's next updates follow from such a copy, and from the parameters as they are now."""
    if trainer._kv_initialized and trainer._update_on_kvstore:
        trainer._reset_kvstore()  # it holds the earlier parameters
    found = pickle.loads(state)
    for updater in _updaters(trainer):
        updater.set_states(found["updater"])
    optimizer = _optimizer_of(trainer)
    _set_counts(optimizer, found["counts"], trainer._contexts)
    for owner, part in (
        (optimizer, "optimizer"),
        (optimizer.lr_scheduler, "schedule"),
        (getattr(trainer, "_amp_loss_scaler", None), "loss scaler"),
    ):
        if owner is not None:
            vars(owner).update(found[part])
