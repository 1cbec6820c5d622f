"""The order of an optimizer's variables. Programs leave out those that have no gradient, and ranks, or the passes of a step,
leave out different ones: a place in the list of a call does not say which variable it is of."""

from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence

from .. import _epochs


class Arranged(NamedTuple):
    """The gradients of a call, in the order of all variables."""

    gradients: List[Any]
    """None also in the place of those that the call does not give."""
    variables: List[Any]
    listed: List[int]
    """The places of the variables that the call gives, with a gradient or None."""


class Order:
    """Of one optimizer: that of the list that it was built with, else that in which variables come first."""

    def __init__(self) -> None:
        self._built_with: Any = None
        self._is_built = False
        self._variables: List[Any] = []
        self._places: Dict[Any, int] = {}
        _epochs.follow(self)

    def leave_epoch(self) -> None:
        """Nothing: see enter_epoch."""

    def enter_epoch(self) -> None:
        """A worker that is new knows only the variables that come from now on; so does each."""
        if not self._is_built:
            self._variables, self._places = [], {}

    def all_have_joined(self) -> None:
        """Nothing: see enter_epoch."""

    def build(self, variables: Sequence[Any], key: Callable[[Any], Any]) -> None:
        """The optimizer is built with these variables."""
        self._is_built = True
        self.learn(variables, key)

    def learn(self, variables: Sequence[Any], key: Callable[[Any], Any] = id) -> None:
        """Appends the variables that are not known."""
        for variable in variables:
            if self._places.setdefault(key(variable), len(self._variables)) == len(self._variables):
                self._variables.append(variable)

    def arrange(self, optimizer: Any, gradients: Sequence[Any], variables: Sequence[Any]) -> Arranged:
        """The gradients of these variables, in the order. A variable that the optimizer was not built with, or that is given
        twice: in the order of the call."""
        as_given = Arranged(list(gradients), list(variables), list(range(len(variables))))
        key = getattr(optimizer, "_var_key", id)
        built_with = _built_with(optimizer)
        if built_with is not None and built_with is not self._built_with:
            self._built_with, self._variables, self._places = built_with, [], {}
            self.build(built_with, key)
        if built_with is None:
            self.learn(variables, key)
        keys = [key(variable) for variable in variables]
        places = [self._places[each] for each in keys if each in self._places]
        if len(set(places)) < len(variables) or len(gradients) != len(variables):
            return as_given
        made: List[Any] = [None] * len(self._variables)
        for place, gradient in zip(places, gradients):
            made[place] = gradient
        return Arranged(made, list(self._variables), sorted(places))


def _built_with(optimizer: Any) -> Optional[Sequence[Any]]:
    """The variables that an optimizer of Keras 3 was built with."""
    is_built = getattr(optimizer, "built", False)
    return getattr(optimizer, "_trainable_variables", None) if is_built else None
