"""Where the variables of Keras's models lie in them: by this ranks know which of their variables are the same.

Names do not tell it. Keras numbers layers in each process, and a model that is loaded has other names than the one that was
saved. Positions among the variables that are trained do not tell it either, as ranks may have frozen other layers. A
variable's position among all variables of its model does both.
"""

import gc
import sys
from typing import Any, Dict, Iterator, List, NamedTuple, Optional, Sequence, Tuple


class Owner(NamedTuple):
    """A model, or a layer that consists of other ones."""

    is_model: bool
    places: Dict[int, int]
    """By the id of a variable, the place among all variables that the owner has, trained or frozen."""


class Positions(NamedTuple):
    """Of some variables."""

    keys: List[Optional[str]]
    """Of each variable, its model's number and its place there; None: no model has it."""
    are_sure: bool
    """Whether one model has all of them, and no other model has them at other places."""


def _kinds(name: str) -> Tuple[type, ...]:
    """The classes of this name in the Keras modules that are loaded: Layer, or Model."""
    found = []
    for module in ("keras", "tf_keras"):
        kind = getattr(getattr(sys.modules.get(module), "layers" if name == "Layer" else "models", None), name, None)
        if isinstance(kind, type):
            found.append(kind)
    return tuple(found)


def _own_variables(layer: Any) -> Iterator[Any]:
    """Those that are not its sublayers', of Keras 3 or tf-keras, in an order that freezing does not change."""
    for name in ("_trainable_variables", "_trainable_weights"):
        if isinstance(layer.__dict__.get(name), list):
            yield from layer.__dict__[name]
            yield from layer.__dict__.get(name.replace("_trainable", "_non_trainable"), ())
            return


def _ids(variable: Any) -> Iterator[int]:
    yield id(variable)
    # Keras 3 on TensorFlow: programs also give the tf.Variable in it.
    inner = getattr(variable, "_value", None)
    if hasattr(inner, "trainable"):
        yield id(inner)


def _owners(wanted: Sequence[int]) -> List[Owner]:
    """Those that have one of these variables."""
    layers, models = _kinds("Layer"), _kinds("Model")
    known: Dict[type, bool] = {}
    found, ids = [], set(wanted)
    if layers:
        gc.collect()  # models that are gone on other ranks
    # Keras has no list of its models, and a variable does not know its layer.
    for each in gc.get_objects() if layers else ():
        kind = type(each)
        is_layer = known.get(kind)
        if is_layer is None:
            is_layer = known[kind] = issubclass(kind, layers)
        if not is_layer:
            continue
        try:
            flat = list(each._flatten_layers())
        except (AttributeError, RuntimeError):  # it is being made
            continue
        if len(flat) < 2 and not issubclass(kind, models):
            continue
        places: Dict[int, int] = {}
        count = 0
        for layer in flat:
            for variable in _own_variables(layer):
                if id(variable) not in places:
                    places.update(dict.fromkeys(_ids(variable), count))
                    count += 1
        if not ids.isdisjoint(places):
            found.append(Owner(issubclass(kind, models), places))
    return found


def choose(wanted: Sequence[int], owners: Sequence[Owner]) -> Positions:
    """The positions of variables, by their ids, in the owners that have most of them. Of several such models it is the
    smallest: one rank may have a model around it, such as one to be exported. Other owners count where no model has them."""
    keys: List[Optional[str]] = [None] * len(wanted)
    left, number = list(range(len(wanted))), 0

    def rank(owner: Owner) -> Tuple[int, bool, int, List[int]]:
        places = [-owner.places[wanted[index]] for index in left if wanted[index] in owner.places]
        return len(places), owner.is_model, len(owner.places) * (-1 if owner.is_model else 1), places

    while left and owners:
        best = max(owners, key=rank)
        taken = [index for index in left if wanted[index] in best.places]
        if not taken:
            break
        for index in taken:
            keys[index] = f"{number}:{best.places[wanted[index]]}"
        left, number = [index for index in left if index not in taken], number + 1
    are_sure = number == 1 and not left and len({_all_places(wanted, each) for each in owners} - {None}) == 1
    return Positions(keys, are_sure)


def _all_places(wanted: Sequence[int], owner: Owner) -> Optional[Tuple[int, ...]]:
    is_whole = all(each in owner.places for each in wanted)
    return tuple(owner.places[each] for each in wanted) if is_whole else None


def locate(variables: Sequence[Any]) -> Tuple[Positions, int]:
    """The positions of Keras's variables, and of those of TensorFlow that are in its layers, and how many variables the model
    has that has all of these; 0: none has. It looks at all objects of the process."""
    wanted = [id(variable) for variable in variables]
    has_any = any(hasattr(variable, "trainable") for variable in variables)
    owners = _owners(wanted) if has_any else []
    whole = [owner for owner in owners if _all_places(wanted, owner) is not None]
    whole = [owner for owner in whole if owner.is_model] or whole
    return choose(wanted, owners), min((max(owner.places.values()) + 1 for owner in whole), default=0)


def fitting_model() -> Optional[Any]:
    """The model in whose fit() or train_on_batch() this thread is: what it traces there, all ranks trace and run."""
    frame = sys._getframe()
    while frame is not None:
        if frame.f_code.co_name in ("fit", "train_on_batch"):
            if str(frame.f_globals.get("__name__")).split(".", maxsplit=1)[0] in ("keras", "tf_keras"):
                return frame.f_locals["self"]
        frame = frame.f_back  # type: ignore[assignment]
    return None
