"""Gradients of parameters, and which of them travel together: what the Reducer keeps of each."""

import weakref
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple, Union

import torch

from .. import _handles, _ops
from .._handles import Handle
from ..exceptions import InvalidRequest
from . import ops
from .gradient_arena import Place, is_part

_UNNAMED = "noname."

# How a program that changes gradients while they travel is mended.
CHANGED = """the gradient of {} was changed after backward() had sent it and before step() took the reduced one: ranks may \
differ from now on. Change gradients (clip, unscale, zero) only after they are reduced:
    optimizer.synchronize()
    ...
    with optimizer.skip_synchronize():
        optimizer.step()  # with a GradScaler: scaler.step(optimizer)"""


def unnamed(group: int, position: int) -> str:
    """The name of a parameter without one, by its place in the optimizer's groups."""
    return f"{_UNNAMED}{group}.{position}"


class Gradient:
    """One parameter's gradient."""

    __slots__ = (
        "parameter",
        "name",
        "passes_left",
        "unit",
        "hook",
        "place",
        "sparse_dim",
        "sent",
        "version",
        "is_awaited",
    )

    def __init__(self, parameter: torch.Tensor, name: str, passes: int) -> None:
        self.parameter = parameter
        self.name = name
        self.passes_left = passes  # backward passes until it travels
        self.unit: "Unit"
        self.hook: Any = None  # None until the parameter is trained for the first time
        self.is_awaited = False  # another rank trains it
        self.place: Optional[Place] = None
        self.sparse_dim = 0  # how many of its dimensions were sparse; 0: it was never sparse
        self.sent: Optional[torch.Tensor] = None  # the gradient that travels
        self.version = 0  # of it, when it was sent

    def takes_part(self) -> bool:
        """Whether it travels in each step, since a rank has trained the parameter."""
        return self.hook is not None or self.is_awaited

    def settled(self) -> torch.Tensor:
        """The gradient, in its place if it has one."""
        grad, place = self.parameter.grad, self.place
        return grad if place is None or grad is place.view else place.settle(grad)

    def note(self) -> None:
        """Remembers the gradient that is sent now, to see whether the program changes it meanwhile."""
        grad = self.sent = self.parameter.grad
        self.version = grad._version

    def was_changed(self) -> bool:
        """Whether the program has changed or replaced the gradient since note(). The parts of a buffer have one version, and
        autograd changes the others meanwhile: of these only replacements are seen."""
        sent = self.sent
        if sent is None or self.parameter.grad is not sent:
            return sent is not None
        return sent._version != self.version and not is_part(sent)

    def clear(self) -> None:
        """Gives a parameter without a gradient one of zeros. Those of a frozen parameter are negative: only the sum of
        negative zeros is negative, so all ranks see when none of them trains it."""
        parameter = self.parameter
        if self.sparse_dim > 0:
            parameter.grad = _sparse_zeros(parameter, self.sparse_dim)
        elif self.place is None:
            parameter.grad = torch.zeros_like(parameter)
        else:
            self.place.clear(parameter)
        if not parameter.requires_grad and self.sparse_dim == 0:
            parameter.grad.neg_()

    def leave_frozen(self) -> None:
        """Takes the reduced gradient away from a frozen parameter, if it says that no rank trains the parameter."""
        grad = self.parameter.grad
        if grad.layout is torch.strided and bool((torch.signbit(grad) & (grad == 0)).all()):
            self.parameter.grad = None


def weak_hook(reducer: Any, gradient: Gradient) -> Callable[[torch.Tensor], None]:
    """Tells a Reducer of each backward pass, for as long as there is one."""
    reference = weakref.ref(reducer)

    def hook(_parameter: torch.Tensor) -> None:
        alive = reference()
        if alive is not None:
            if not alive.backward.number and alive.active:
                alive.backward.begin()
            alive.on_gradient(gradient)

    return hook


def name_unknown(
    groups: Sequence[Dict[str, Any]], known: Dict[torch.Tensor, Gradient]
) -> List[Tuple[str, torch.Tensor]]:
    """The parameters of an optimizer's groups that are not known, with names by their places there."""
    taken = {gradient.name for gradient in known.values()}
    named = []
    for index, group in enumerate(groups):
        for position, parameter in enumerate(group["params"]):
            if parameter not in known:
                name = unnamed(index, position)
                while name in taken:
                    name += "+"
                named.append((name, parameter))
    return named


class Unit:
    """The gradients that travel together: one gradient, or a group of them.

    A lone gradient goes the short way where it can, and `number` is the library's for it; else `handle` is ours. Neither
    is set while nothing travels.
    """

    __slots__ = (
        "gradients",
        "parameter",
        "name",
        "encoded",
        "shape",
        "dims",
        "waiting",
        "number",
        "submitted",
        "handle",
        "sent",
    )

    def __init__(self, gradients: List[Gradient], name: str) -> None:
        self.gradients = gradients
        self.parameter = gradients[0].parameter
        self.name = name
        self.encoded = _ops.encode_name(name)
        self.reshape(self.parameter.shape)
        self.waiting = len(gradients)  # gradients that are not ready
        self.number = 0
        self.submitted = _handles.cell()
        self.handle: Optional[Handle] = None
        # Of the long way: the compressed gradients with their contexts, or the exchange that goes on.
        self.sent: Any = None
        for gradient in gradients:
            gradient.unit = self

    def reshape(self, shape: Tuple[int, ...]) -> None:
        """Remembers the shape of a lone gradient, which changes with the parameter's where the program assigns its data."""
        self.shape = shape
        self.dims = _ops.shape_for(shape)

    def is_sent(self) -> bool:
        """Whether it travels."""
        return self.number != 0 or self.handle is not None


class Grouping:
    """Which gradients travel together: those of the parameters in a list, or a number of lists of neighbours."""

    def __init__(self, groups: Union[int, Sequence[Sequence[torch.Tensor]]]) -> None:
        self._groups = groups

    def split(self, gradients: Sequence[Gradient]) -> List[List[Gradient]]:
        """The groups, without gradients that are not among these."""
        if isinstance(self._groups, int):
            total, count = len(gradients), min(self._groups, len(gradients))
            return [list(gradients[total * i // count : total * (i + 1) // count]) for i in range(count)]
        known = {gradient.parameter: gradient for gradient in gradients}
        groups = [[known[parameter] for parameter in group if parameter in known] for group in self._groups]
        return [group for group in groups if group]


class Taken:
    """Of a unit that has come and stays so until the step."""

    def poll(self) -> bool:
        """It has come."""
        return True

    def synchronize(self) -> None:
        """Nothing to wait for."""


def in_memory_order(tensor: torch.Tensor, parameter: torch.Tensor) -> torch.Tensor:
    """A view of a gradient in the order in which the parameter's elements lie in memory (channels_last), as its own mostly
    do: then it has no copy to pay for. By the parameter, which is alike on all ranks: gradients may lie otherwise on some,
    where they are zeros or cuDNN has made them."""
    if parameter.is_contiguous() or tensor.shape != parameter.shape:
        return tensor
    order = ops.memory_order(parameter)
    return tensor if order is None else tensor.permute(order)


def _sparse_zeros(like: torch.Tensor, sparse_dim: int) -> torch.Tensor:
    indices = torch.empty(sparse_dim, 0, dtype=torch.int64, device=like.device)
    return torch.sparse_coo_tensor(
        indices, like.new_empty(0, *like.shape[sparse_dim:]), like.shape, check_invariants=False
    )


def check_parameter(name: str, parameter: torch.Tensor) -> None:
    """ValueError: its gradient cannot be sent."""
    try:
        ops.check_tensor(parameter)
    except ValueError as error:
        raise ValueError(f"parameter {name}: {error}") from None


def explained(error: Exception) -> Exception:
    """The error, and what it mostly means."""
    if isinstance(error, InvalidRequest) and str(error).startswith(f"allreduce.{_UNNAMED}"):
        return InvalidRequest(
            f"{error} (optimizers that are wrapped without named_parameters give their parameters the same names; where "
            "there are several, pass named_parameters with names of their own)"
        )
    return error
