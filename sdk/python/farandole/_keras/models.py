"""Reading models and optimizers of Keras 3 and of tf-keras, and writing to them."""

import contextlib
from typing import Any, Callable, Iterable, Iterator, List, Sequence, Tuple

import numpy

Copies = List[Tuple[Any, numpy.ndarray]]
Broadcast = Callable[[Sequence[Any], int], None]
"""Gives the root's values of variables to all ranks."""


def bring_back(model: Any) -> None:
    """On JAX a training model's variables are empty: their values are in the loop that trains it. Afterwards they are in the variables,
    and what is assigned to these counts."""
    if hasattr(model, "jax_state_sync"):
        model.jax_state_sync()


def give_up(model: Any) -> None:
    """On JAX a step that has failed leaves a training model without values: they are to be assigned anew."""
    if hasattr(model, "jax_state_sync"):
        model._jax_state = None
        model._jax_state_synced = True


def variables_of(optimizer: Any) -> List[Any]:
    """An optimizer's variables; those of slots come when it is built. tf-keras leaves out rates and the loss scale."""
    found = optimizer.variables
    inner = getattr(optimizer, "inner_optimizer", None) or optimizer
    scale = getattr(optimizer, "_loss_scale", None)
    hidden = [
        vars(inner).get("_learning_rate"),
        *vars(inner).get("_hyper", {}).values(),
        *(getattr(scale, name, None) for name in ("current_loss_scale", "counter")),
    ]
    variables = [*(found() if callable(found) else found), *(each for each in hidden if hasattr(each, "assign"))]
    return list({id(each): each for each in variables}.values())


def own_variables(model: Any) -> List[Any]:
    """The variables of a model besides its weights, which each rank has for itself: with Keras 3 the states of its random layers."""
    weights = {id(variable) for variable in model.weights}
    return [variable for variable in model.variables if id(variable) not in weights]


def is_built(model: Any) -> bool:
    """Whether the model's variables are there."""
    return bool(model.built)


def build_optimizer(model: Any) -> None:
    """Makes the slots and the rates of the model's optimizer, unless they are there."""
    optimizer = model.optimizer
    if hasattr(optimizer, "_create_all_weights"):  # tf-keras's legacy ones
        optimizer._create_all_weights(model.trainable_variables)
    elif hasattr(optimizer, "build") and not getattr(optimizer, "built", getattr(optimizer, "_built", False)):
        optimizer.build(model.trainable_variables)


def local_among(variables: Iterable[Any], local: Sequence[Any]) -> List[Any]:
    """Of the variables the local ones, and with Keras 3 what an optimizer keeps for those."""
    ids = {id(variable) for variable in local}
    # A slot's name begins with the path of its variable.
    prefixes = tuple(f"{variable.path.replace('/', '_')}_" for variable in local if hasattr(variable, "path"))
    return [
        variable
        for variable in variables
        if id(variable) in ids or (prefixes and str(getattr(variable, "name", "")).startswith(prefixes))
    ]


def copied(variables: Iterable[Any]) -> Copies:
    """The variables, each with a copy of its value."""
    return [(variable, numpy.array(variable.numpy())) for variable in variables]


def put_back(copies: Copies) -> None:
    """Gives variables the values that were copied."""
    for variable, value in copies:
        variable.assign(value)


@contextlib.contextmanager
def kept(variables: Iterable[Any]) -> Iterator[None]:
    """Has the variables keep their values, whatever is assigned to them within."""
    copies = copied(variables)
    yield
    put_back(copies)


def learning_rate(optimizer: Any) -> float:
    """The rate of the next step."""
    rate = optimizer.learning_rate
    return float(rate.numpy() if hasattr(rate, "numpy") else rate)


def velocities(model: Any) -> List[Any]:
    """The variables in which an optimizer with momentum keeps the sum of its former steps; none where it has no momentum."""
    optimizer = model.optimizer
    if not hasattr(optimizer, "momentum"):
        return []
    if hasattr(optimizer, "get_slot_names"):
        if "momentum" not in optimizer.get_slot_names():
            return []
        return [optimizer.get_slot(variable, "momentum") for variable in model.trainable_variables]
    found = getattr(optimizer, "momentums", None) or getattr(optimizer, "_momentums", None)
    return [variable for variable in found or [] if variable is not None]
