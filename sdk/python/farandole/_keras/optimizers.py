"""Distributing optimizers of a Keras over a backend: a module with Compression and make_exchange(terms)."""

from typing import Any, Dict, Iterable, Optional, Type

from ..process_sets import global_process_set
from ..reduce_ops import Average
from . import derived
from .derived import set_local_layers as set_local_layers
from .exchange import Terms


def _methods(optimizer: Any) -> Dict[str, Any]:
    if isinstance(optimizer, str):
        raise ValueError(f"DistributedOptimizer needs an optimizer, not its name: keras.optimizers.get({optimizer!r})")
    methods = derived.methods_for(optimizer)
    if not methods:
        raise ValueError(f"DistributedOptimizer needs an optimizer of Keras, not {optimizer!r}")
    return methods


def distribute(optimizer: Any, backend: Any, terms: Terms) -> Any:
    """An optimizer of the given one's settings, which reduces gradients as the terms say. ValueError: it cannot."""
    methods = _methods(optimizer)
    return derived.derive(optimizer, backend.make_exchange(terms), methods)


def load_model(
    keras: Any,
    backend: Any,
    filepath: Any,
    custom_optimizers: Optional[Iterable[Type]],
    custom_objects: Optional[Dict[str, Any]],
    compression: Type,
    options: Dict[str, Any],
) -> Any:
    """A model that was saved, whose optimizer becomes a distributed one. ValueError: no such model, or none with an optimizer."""
    objects = {kind.__name__: kind for kind in custom_optimizers or []}
    model = keras.models.load_model(filepath, custom_objects={**objects, **(custom_objects or {})}, **options)
    optimizer = getattr(model, "optimizer", None)
    if optimizer is None:
        raise ValueError(
            f"{filepath} has no optimizer: the model was saved before compile(); use keras.models.load_model"
        )
    terms = Terms(compression, False, Average, 1.0, None, 1, False, global_process_set, True)
    derived.adopt(optimizer, backend.make_exchange(terms), _methods(optimizer))
    return model
