"""The settings of an optimizer of Keras: those of its configuration, and those that a program has set beside it."""

import contextlib
import inspect
import numbers
import types
import warnings
from typing import Any, Collection, Dict, Iterator, Tuple

# Whether an optimizer has its variables.
_PROGRESS = {"built", "_built", "_hypers_created"}
# Of exclude_from_weight_decay(), in Keras 3 and tf-keras.
_EXCLUDED = {"_exclude_from_weight_decay", "_exclude_from_weight_decay_pattern", "_exclude_from_weight_decay_names"}


def made_anew(optimizer: Any, kind: Any, methods: Collection[str]) -> Any:
    """An optimizer of this class, which is derived from the given one's, with its settings, and without what it has learnt.
    `methods`: those of the class that steps of all ranks go through. A warning: the program has replaced one of them."""
    made = kind.from_config(_config_of(optimizer))
    _take_over(optimizer, made, {*methods, "apply_gradients", "minimize"})
    return made


def _rates_of(optimizer: Any) -> Dict[str, Any]:
    """The hyperparameters that are schedules or functions, by their names."""
    given = {"learning_rate": vars(optimizer).get("_learning_rate"), **vars(optimizer).get("_hyper", {})}
    return {name: each for name, each in given.items() if callable(each)}


def _inner(optimizer: Any, above: Tuple[Any, ...]) -> Iterator[Tuple[str, Any]]:
    """Optimizers in it, by their names, as in a LossScaleOptimizer. None of those that are `above` it: they may be there, too,
    as the wrapper that one belongs to."""
    for name, value in vars(optimizer).items():
        is_optimizer = hasattr(type(value), "from_config") and hasattr(type(value), "apply_gradients")
        if is_optimizer and not any(value is each for each in (optimizer, *above)):
            yield name, value


def _config_of(optimizer: Any) -> Dict[str, Any]:
    """The configuration, in which schedules and functions are what they are: Keras cannot make all of them again."""
    config: Dict[str, Any] = _with_numbers(optimizer).get_config()
    _put_rates(optimizer, config)
    return config


def _with_numbers(optimizer: Any, *above: Any) -> Any:
    """The optimizer, or one like it that has numbers in place of schedules and functions."""
    rates = _rates_of(optimizer)
    inner = {name: _with_numbers(each, optimizer, *above) for name, each in _inner(optimizer, above)}
    if not rates and all(each is getattr(optimizer, name) for name, each in inner.items()):
        return optimizer
    made = object.__new__(type(optimizer))
    vars(made).update(vars(optimizer), **inner)
    if "_hyper" in vars(made):
        vars(made)["_hyper"] = {**vars(made)["_hyper"], **dict.fromkeys(rates, 0.5)}
    elif rates:
        vars(made)["_learning_rate"] = 0.5
    return made


def _put_rates(optimizer: Any, config: Dict[str, Any], *above: Any) -> None:
    config.update((name, each) for name, each in _rates_of(optimizer).items() if name in config)
    for name, each in _inner(optimizer, above):
        if isinstance(config.get(name), dict) and isinstance(config[name].get("config"), dict):
            _put_rates(each, config[name]["config"], optimizer, *above)


def _take_over(optimizer: Any, made: Any, methods: Collection[str], *above: Any) -> None:
    """Gives the new optimizer what the given one has beside its configuration."""
    fresh = dict(vars(made))
    is_built = any(vars(optimizer).get(name) for name in _PROGRESS)
    for name, value in list(vars(optimizer).items()):
        # TensorFlow's tracking of objects has names that begin with _self_.
        is_own = name in _PROGRESS or name.startswith("_self_")
        if is_own or (name in fresh and _are_alike(value, fresh[name])):
            continue
        if name in methods:
            warnings.warn(
                f"the DistributedOptimizer has its own {name}, and not the one that was set on the optimizer "
                f"{optimizer.name!r}: override it in a class that is derived from {type(optimizer).__name__}",
                stacklevel=6,
            )
        elif (
            name in _EXCLUDED
            or _is_plain(value)
            or _is_function(value)
            or (not is_built and _is_new(name, value, fresh))
        ):
            setattr(made, name, _bound_to(made, value, optimizer))
    rate = vars(optimizer).get("_learning_rate")
    if callable(rate) and vars(made).get("_learning_rate") is not rate:
        made.learning_rate = rate  # the configuration of its class has none
    for name, each in _inner(optimizer, above):
        if type(vars(made).get(name)) is type(each):
            _take_over(each, vars(made)[name], (), optimizer, *above)


def _is_plain(value: Any) -> bool:
    return value is None or isinstance(value, (numbers.Number, str, bytes))


def _is_function(value: Any) -> bool:
    is_builtin = inspect.isbuiltin(value) and inspect.ismodule(value.__self__)
    return is_builtin or inspect.isfunction(value) or inspect.ismethod(value)


def _content_of(function: Any) -> Tuple[Any, ...]:
    """Its code, and the plain values that it was made with: they differ between functions that do different things."""
    cells = []
    for cell in getattr(function, "__closure__", None) or ():
        with contextlib.suppress(ValueError):  # nothing is in it yet
            cells.append(cell.cell_contents)
    made_with = [*(getattr(function, "__defaults__", None) or ()), *cells]
    return getattr(function, "__code__", function), [each for each in made_with if _is_plain(each)]


def _is_new(name: str, value: Any, fresh: Dict[str, Any]) -> bool:
    """Whether a program has set it; to be asked of optimizers without variables, which are in such attributes else."""
    return not name.startswith("_") and (name not in fresh or _is_of_plain(value))


def _is_of_plain(value: Any) -> bool:
    """Whether it is a container of plain values, or of such ones."""
    if isinstance(value, dict):
        return all(_is_plain(each) or _is_of_plain(each) for each in (*value, *value.values()))
    is_container = isinstance(value, (list, tuple, set, frozenset))
    return is_container and all(_is_plain(each) or _is_of_plain(each) for each in value)


def _are_alike(one: Any, other: Any) -> bool:
    if _is_function(one) and _is_function(other):
        # One that __init__ makes is another one in each optimizer, and may know which that is.
        return bool(_content_of(one) == _content_of(other))
    is_comparable = all(_is_plain(each) or _is_of_plain(each) for each in (one, other))
    return one is other or (is_comparable and bool(one == other))


def _bound_to(made: Any, value: Any, optimizer: Any) -> Any:
    """The value; of a method of the given optimizer, that of the new one."""
    if inspect.ismethod(value) and value.__self__ is optimizer:
        return types.MethodType(value.__func__, made)
    return value
