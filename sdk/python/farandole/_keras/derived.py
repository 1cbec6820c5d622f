"""Optimizers of Keras whose steps apply the gradients of all ranks.

Such an optimizer is of a class that is derived from its own, and says that it is of that one (`__class__`): what Keras
saves of it is what it would save without Farandole, and loads where there is none.
"""

import contextlib
from typing import Any, Callable, Dict, Iterable, Iterator, List, NoReturn, Protocol, Sequence, Tuple

from .order import Arranged, Order
from .settings import made_anew


class Exchange(Protocol):
    """How the gradients of a rank become those of all."""

    def register_local(self, variables: Iterable[Any]) -> None:
        """Variables that each rank has for itself: their gradients are not reduced."""

    def is_local(self, variable: Any) -> bool:
        """Whether the variable was registered."""

    def skip_together(self) -> None:
        """The optimizer leaves out a step where a gradient is not finite: all ranks are to do so, also where it is that of a
        local variable."""

    def run(
        self,
        optimizer: Any,
        gradients: List[Any],
        variables: Sequence[Any],
        step: Callable[[List[Any]], Any],
        listed: Sequence[int],
    ) -> Any:
        """Calls `step` with the gradients of all ranks; nothing where they are to be added to those of a later call.
        `variables`: all of the optimizer's; `listed`: the places of those that this call gives, as Arranged's."""

    def run_stateless(
        self,
        optimizer: Any,
        gradients: List[Any],
        variables: Sequence[Any],
        step: Callable[[List[Any]], Any],
        unchanged: Any,
    ) -> Any:
        """As run, and returns what `step` has, or `unchanged`: the variables after a pass that is only counted."""


class Wrapping:
    """The attributes that an optimizer of a derived class has besides its own."""

    def __init__(self, optimizer: Any, base: Any, exchange: Exchange) -> None:
        self.base = base
        # tf-keras's loss scale may be one that stays, with which all steps are made.
        if hasattr(optimizer, "inner_optimizer") and getattr(optimizer, "dynamic", True):
            exchange.skip_together()
        self.exchange = exchange
        self.order = Order()
        self.local_layers: List[Any] = []
        self.is_within = False
        """Whether its step is running: what calls the optimizer then has the gradients of all ranks."""

    @contextlib.contextmanager
    def within(self) -> Iterator[None]:
        """While a step of the optimizer's own class runs."""
        self.is_within = True
        try:
            yield
        finally:
            self.is_within = False

    def learn_local_layers(self) -> None:
        """Registers the variables that the local layers have by now."""
        for layer in self.local_layers:
            self.exchange.register_local(layer.trainable_variables)


def _wrapping(optimizer: Any) -> Any:
    return optimizer.__dict__.get("_farandole")


def is_distributed(optimizer: Any) -> bool:
    """Whether the optimizer reduces its gradients already."""
    return hasattr(optimizer, "__dict__") and _wrapping(optimizer) is not None


def local_variables(optimizer: Any, variables: Iterable[Any]) -> List[Any]:
    """Those of the variables whose gradients the optimizer does not reduce."""
    if not is_distributed(optimizer):
        return []
    _wrapping(optimizer).learn_local_layers()
    return [variable for variable in variables if _wrapping(optimizer).exchange.is_local(variable)]


def counter_of(optimizer: Any) -> Any:
    """The variable by which an optimizer counts its steps: learning rates follow it. Passes whose gradients are only added up
    count as well, as with Horovod."""
    inner = getattr(optimizer, "inner_optimizer", None) or optimizer
    counter = getattr(inner, "_iterations", None)
    return inner.iterations if counter is None else counter  # tf-keras's legacy optimizers make it when they are asked


def check_scaling(optimizer: Any) -> None:
    """ValueError: a distributed optimizer is in another one that leaves out steps: Keras puts it there in mixed_float16."""
    if is_distributed(getattr(optimizer, "inner_optimizer", None)) and not is_distributed(optimizer):
        raise ValueError(
            "the DistributedOptimizer is in a LossScaleOptimizer, where each rank leaves out steps by itself: compile the "
            "model with DistributedOptimizer(keras.optimizers.LossScaleOptimizer(optimizer))"
        )


def _class_for(base: Any, methods: Dict[str, Any]) -> Any:
    members = {
        **methods,
        "register_local_var": _register_local_var,
        "__reduce_ex__": _refuse_copies,
        "__module__": base.__module__,
        "__class__": property(lambda _self: base),
    }
    return type(base.__name__, (base,), members)


def derive(optimizer: Any, exchange: Exchange, methods: Dict[str, Any]) -> Any:
    """An optimizer of the same settings, without what the given one has learnt. ValueError: it is distributed already."""
    if is_distributed(optimizer):
        raise ValueError(f"the optimizer {optimizer.name!r} is a DistributedOptimizer already")
    base = type(optimizer)
    made = made_anew(optimizer, _class_for(base, methods), methods)
    # Not of those attributes that Keras keeps track of and saves.
    object.__setattr__(made, "_farandole", Wrapping(made, base, exchange))
    return made


def adopt(optimizer: Any, exchange: Exchange, methods: Dict[str, Any]) -> None:
    """Makes the optimizer itself a distributed one: its variables stay."""
    base = type(optimizer)
    object.__setattr__(optimizer, "_farandole", Wrapping(optimizer, base, exchange))
    object.__setattr__(optimizer, "__class__", _class_for(base, methods))


def set_local_layers(optimizer: Any, layers: Any) -> None:
    """Keeps the gradients of these layers, built or not, each rank's own. ValueError: the optimizer cannot."""
    _wrapping(optimizer).local_layers = [layers] if hasattr(layers, "trainable_variables") else list(layers or [])
    if _wrapping(optimizer).local_layers:
        _refuse_global_norm(optimizer)


def _refuse_global_norm(optimizer: Any) -> None:
    inner = getattr(optimizer, "inner_optimizer", None) or optimizer
    if getattr(inner, "global_clipnorm", None) is not None:
        raise ValueError(
            f"the optimizer {inner.name!r} has a global_clipnorm, and local variables: their gradients would be in the norm, by "
            "which each rank would clip the gradients of the others differently; use clipnorm= or clipvalue="
        )


def _register_local_var(self: Any, variable: Any) -> None:
    """The gradient of this variable stays this rank's own. ValueError: the optimizer has a global_clipnorm."""
    _refuse_global_norm(self)
    _wrapping(self).exchange.register_local([variable])


def _refuse_copies(self: Any, protocol: Any) -> NoReturn:
    """Of copy and pickle."""
    del protocol
    raise TypeError(
        f"the DistributedOptimizer {self.name!r} cannot be copied or pickled, as it exchanges gradients with the other ranks: "
        "make another one, of an optimizer from keras.optimizers.deserialize(keras.optimizers.serialize(optimizer)), and "
        "give its variables the values of this one's"
    )


def _pairs(arranged: Arranged, reduced: List[Any]) -> List[Tuple[Any, Any]]:
    """The gradients of all ranks that are to be applied: those of the call, and those that another rank has, or an earlier
    pass had."""
    listed = set(arranged.listed)
    every = enumerate(zip(reduced, arranged.variables))
    return [pair for place, pair in every if pair[0] is not None or place in listed]


def _apply(self: Any, grads: Any, trainable_variables: Any = None) -> Any:
    """Of Keras 3."""
    wrapping = _wrapping(self)
    if wrapping.is_within:
        return wrapping.base.apply(self, grads, trainable_variables)
    wrapping.learn_local_layers()
    is_whole = trainable_variables is None and len(grads) > 0
    variables = self._trainable_variables if is_whole else list(trainable_variables or ())
    arranged = wrapping.order.arrange(self, grads, variables)
    if not arranged.variables:
        return wrapping.base.apply(self, grads, trainable_variables)

    def step(gradients: List[Any]) -> None:
        with wrapping.within():
            if is_whole:
                wrapping.base.apply(self, gradients)
            else:
                pairs = _pairs(arranged, gradients)
                wrapping.base.apply(self, [each for each, _ in pairs], [variable for _, variable in pairs])

    return wrapping.exchange.run(self, arranged.gradients, arranged.variables, step, arranged.listed)


def _stateless_apply(self: Any, optimizer_variables: Any, grads: Any, trainable_variables: Any) -> Any:
    """Of Keras 3, which calls it on JAX."""
    wrapping = _wrapping(self)
    wrapping.learn_local_layers()

    def step(gradients: List[Any]) -> Any:
        with wrapping.within():
            return wrapping.base.stateless_apply(self, optimizer_variables, gradients, trainable_variables)

    counter = counter_of(self)
    counted = [
        value + 1 if variable is counter else value for variable, value in zip(self.variables, optimizer_variables)
    ]
    unchanged = (list(trainable_variables), counted)
    return wrapping.exchange.run_stateless(self, list(grads), self._trainable_variables, step, unchanged)


def _apply_pairs(self: Any, grads_and_vars: Any) -> Any:
    """Of Keras 3, whose own takes no empty list: a rank may have no gradient."""
    pairs = list(grads_and_vars)
    self.apply([gradient for gradient, _ in pairs], [variable for _, variable in pairs])
    return self._iterations


KERAS_3 = {"apply": _apply, "apply_gradients": _apply_pairs, "stateless_apply": _stateless_apply}
"""The methods of an optimizer of Keras 3."""


def _apply_gradients(self: Any, grads_and_vars: Any, *arguments: Any, **options: Any) -> Any:
    """Of tf-keras, also of its legacy optimizers."""
    wrapping = _wrapping(self)
    wrapping.learn_local_layers()
    pairs = list(grads_and_vars)
    arranged = wrapping.order.arrange(self, [each for each, _ in pairs], [variable for _, variable in pairs])
    if not arranged.variables:
        return wrapping.base.apply_gradients(self, pairs, *arguments, **options)

    def step(given: List[Any]) -> Any:
        return wrapping.base.apply_gradients(self, _pairs(arranged, given), *arguments, **options)

    return wrapping.exchange.run(self, arranged.gradients, arranged.variables, step, arranged.listed)


def _build(self: Any, variables: Any) -> Any:
    """Of tf-keras, whose optimizers do not tell what they were built with. Their own steps call it with what they are given."""
    if not getattr(self, "_built", False):
        _wrapping(self).order.build(variables, self._var_key)
    return _wrapping(self).base.build(self, variables)


TF_KERAS = {"apply_gradients": _apply_gradients}
"""The methods of an optimizer of tf-keras."""


def methods_for(optimizer: Any) -> Dict[str, Any]:
    """The methods by which an optimizer of this kind is distributed; none where it is of no kind of Keras."""
    kind = type(optimizer)
    if not hasattr(kind, "from_config"):
        return {}
    if hasattr(kind, "apply"):
        return KERAS_3
    if not hasattr(kind, "apply_gradients"):
        return {}
    return {**TF_KERAS, "build": _build} if hasattr(kind, "build") else TF_KERAS
