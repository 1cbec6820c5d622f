"""Gradients of parameters, and which of them travel together: what the Reducer keeps of each."""

import warnings
import weakref
from types import GeneratorType
from typing import Any, Callable, Collection, Iterable, List, Optional, Sequence, Tuple, Union

import torch

from .. import _handles, _ops
from .._handles import Handle
from .._library import ffi
from ..exceptions import InvalidRequest
from ..reduce_ops import Average, Sum
from . import ops
from .exchange import GradientExchange, Settings
from .extents import overlaps_itself
from .gradient_arena import Place, is_part, users_in_hook, users_of

# How a program that changes gradients while they travel is mended.
CHANGED = """the gradient of {} was changed after backward() had sent it and before step() took the reduced one: ranks may \
differ from now on. Change gradients (clip, unscale, zero) only after they are reduced:
    optimizer.synchronize()
    ...
    with optimizer.skip_synchronize():
        optimizer.step()  # with a GradScaler: scaler.step(optimizer)"""


# In the place of an error, where all ranks have called an operation that asks.
ASKED = InvalidRequest("ranks have asked which gradients are sparse, and still do not agree")

TOO_MANY = (
    "Gradients were computed more than backward_passes_per_step times before call to step(). "
    "Increase backward_passes_per_step to accumulate gradients locally. (parameter {})"
)


# Of the types that optimizers train: a pointer to a whole number in an element's place, and -0.0 as that number.
_WORDS = {
    dtype: (ffi.typeof(f"uint{8 * dtype.itemsize}_t*"), 1 << (8 * dtype.itemsize - 1))
    for dtype in (torch.float16, torch.bfloat16, torch.float32, torch.float64)
}


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
        "order",
        "own_users",
        "most_users",
        "is_lent",
    )

    def __init__(self, parameter: torch.Tensor, name: str, passes: int) -> None:
        ops.require_shape(f"parameter {name}", parameter)
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
        # In which order of its dimensions it travels, as ranks have agreed; empty: as they are counted, as before that.
        self.order: Optional[Tuple[int, ...]] = None
        # Of its memory in the hook, where nothing else uses that for certain, and where something else may.
        self.own_users = self.most_users = 0
        self.is_lent = False  # its memory was used further in the hook of this step

    def takes_part(self) -> bool:
        """Whether it travels in each step, since a rank has trained the parameter."""
        return self.hook is not None or self.is_awaited

    def wanted_order(self) -> Tuple[int, ...]:
        """The order of dimensions that was agreed upon, or that in which the parameter lies in memory (channels_last), as
        its gradient mostly does: then that has no copy to pay for."""
        if self.order is None and not self.parameter.is_contiguous():
            return tuple(ops.memory_order(self.parameter) or ())
        return self.order or ()

    def notice_sparse(self) -> bool:
        """Remembers that the gradient is sparse, if it is. Whether that is news."""
        grad = self.parameter.grad
        if grad is None or grad.layout is not torch.sparse_coo or self.sparse_dim == grad.sparse_dim():
            return False
        self.sparse_dim = grad.sparse_dim()
        return True

    def make_sparse(self) -> None:
        """Makes a dense gradient sparse where another rank's is: often zeros of a table that only that one has used."""
        grad = self.parameter.grad
        if self.sparse_dim > 0 and grad is not None and grad.layout is torch.strided:
            self.parameter.grad = grad.detach().to_sparse(self.sparse_dim)

    def notice_lent(self) -> bool:
        """In the hook: remembers whether autograd, or another gradient, uses its memory further. Behind view(), unsqueeze() or
        cat() autograd hands the memory of one gradient to several, and may read it until backward is over. Views are
        the program's: such a gradient was there before."""
        grad, place = self.parameter.grad, self.place
        if (place is None or grad is not place.view) and grad.layout is torch.strided and not grad._is_view():
            users = users_of(grad)
            self.is_lent = users > self.most_users
            if self.own_users < users <= self.most_users:
                # In PyTorch 2.4 those of linear layers look the same as those that autograd uses further.
                grad.data = grad.detach().clone()
        return self.is_lent

    def settled(self) -> torch.Tensor:
        """The gradient, in its place if it has one."""
        grad, place = self.parameter.grad, self.place
        return grad if place is None or grad is place.view else place.settle(grad)

    def dense(self) -> torch.Tensor:
        """The gradient, or a dense copy of one that cannot travel from where it lies."""
        grad = self.settled()
        if grad.layout is not torch.strided:
            grad = grad.to_dense()
        return (grad.contiguous() if overlaps_itself(grad) else grad).resolve_neg()

    def deliver(self, reduced: torch.Tensor) -> None:
        """Gives the parameter a gradient that has travelled as a copy."""
        grad = self.parameter.grad
        if grad.layout is torch.sparse_coo:
            # The optimizer may need it sparse: SparseAdam takes no other.
            self.parameter.grad = reduced.to_sparse(grad.sparse_dim())
        elif overlaps_itself(grad):
            self.parameter.grad = reduced
        else:
            grad.copy_(reduced)

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

    def leave_memory(self) -> None:
        """Gives the parameter a copy of its gradient: the memory that travels is still written, and does not count."""
        if self.parameter.grad is not None:
            self.parameter.grad = self.parameter.grad.detach().clone()

    def clear(self) -> None:
        """Gives a parameter without a gradient one of zeros. Those of a frozen parameter are negative: only the sum of
        negative zeros is negative, so all ranks see when none of them trains it (show_trained)."""
        parameter = self.parameter
        if self.sparse_dim > 0:
            parameter.grad = _sparse_zeros(parameter, self.sparse_dim)
        elif self.place is None:
            parameter.grad = torch.zeros_like(parameter)
        else:
            self.place.clear(parameter)
        if not parameter.requires_grad and self.sparse_dim == 0:
            parameter.grad.neg_()

    def show_trained(self, sent: torch.Tensor) -> None:
        """To be called before the gradient travels as `sent`. Also a trained parameter's may be of negative zeros alone, as
        of a masked loss, or rounded in float16: its first element becomes 0.0. To look at that takes the host less than
        1 us; adding 0.0 to all elements takes as long as a copy."""
        word = _WORDS.get(sent.dtype)
        if word is None or not self.parameter.requires_grad or sent.numel() == 0:
            return
        if sent.is_cpu:
            first = ffi.cast(word[0], sent.data_ptr())
            if first[0] == word[1]:
                first[0] = 0
        else:
            sent.detach().as_strided((1,), (1,)).add_(0.0)

    def leave_frozen(self) -> None:
        """Takes the reduced gradient away from a frozen parameter, if it says that no rank trains the parameter."""
        grad = self.parameter.grad
        if grad.layout is torch.strided and bool((torch.signbit(grad) & (grad == 0)).all()):
            self.parameter.grad = None


def leave_frozen(frozen: Iterable[Gradient], settings: Settings) -> None:
    """Parameters that all ranks have frozen stay as they are, as in one process. Not all reductions tell."""
    if settings.op in (Average, Sum) and not isinstance(settings.compression, GradientExchange):
        for gradient in frozen:
            gradient.leave_frozen()


def _users_in_hook(device: torch.device) -> Tuple[int, int]:
    own = users_in_hook(device)
    return own, max(own, users_in_hook(device, is_view=True))


def weak_hook(reducer: Any, gradient: Gradient) -> Callable[[torch.Tensor], None]:
    """Tells a Reducer of each backward pass, for as long as there is one."""
    reference = weakref.ref(reducer)
    gradient.own_users, gradient.most_users = _users_in_hook(gradient.parameter.device)

    def hook(_parameter: torch.Tensor) -> None:
        alive = reference()
        if alive is not None:
            if not alive.backward.number and alive.active:
                alive.begin_backward()
            alive.on_gradient(gradient)

    return hook


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
        "asks",
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
        self.asks = False  # what travels is no gradient, but has all ranks agree upon those that are sparse
        for gradient in gradients:
            gradient.unit = self

    def reshape(self, shape: Tuple[int, ...]) -> None:
        """Remembers the shape of a lone gradient, which changes with the parameter's where the program assigns its data."""
        self.shape = shape
        self.dims = _ops.shape_for(shape)

    def is_sent(self) -> bool:
        """Whether it travels."""
        return self.number != 0 or self.handle is not None

    def notice_lent(self) -> bool:
        """Whether it travels only when backward is over, as memory of its gradients is used further."""
        return any([gradient.notice_lent() for gradient in self.gradients])

    def forget(self) -> None:
        """It has not travelled."""
        self.number, self.handle, self.sent, self.asks = 0, None, None, False

    def split(self) -> List["Unit"]:
        """The units that are to travel in place of one that does not yet, as ranks have agreed since it was made: sparse
        gradients by themselves."""
        if self.is_sent():
            return [self]
        sparse = [gradient for gradient in self.gradients if gradient.sparse_dim > 0]
        for gradient in sparse:
            gradient.make_sparse()
        if len(self.gradients) == 1 or not sparse:
            return [self]
        rest = [gradient for gradient in self.gradients if gradient.sparse_dim == 0]
        return [*_grouped([rest] if rest else []), *alone(sparse)]

    def deliver(self, output: Any, compression: Any) -> None:
        """Gives the parameters the gradients that were sent as copies."""
        if isinstance(self.sent, GeneratorType):
            self.gradients[0].deliver(output)
        elif isinstance(self.handle, ops.SparseHandle):
            self.parameter.grad = output
        else:
            for gradient, (tensor, context) in zip(self.gradients, self.sent):
                if tensor is not gradient.parameter.grad:
                    gradient.deliver(compression.decompress(tensor, context))


def _grouped(groups: Sequence[List[Gradient]]) -> List[Unit]:
    return [Unit(group, f"allreduce.group.{group[0].name}") for group in groups]


def alone(gradients: Iterable[Gradient]) -> List[Unit]:
    return [Unit([gradient], f"allreduce.{gradient.name}") for gradient in gradients]


class Grouping:
    """Which gradients travel together: those of the parameters in a list, or a number of lists of neighbours."""

    def __init__(self, groups: Union[int, Sequence[Sequence[torch.Tensor]]]) -> None:
        self._groups = groups

    def form_units(self, gradients: Collection[Gradient]) -> List[Unit]:
        """The units of all gradients, made anew: those that take part and are not sparse are in groups. Nothing travels."""
        groups = self.split([each for each in gradients if each.takes_part() and each.sparse_dim == 0])
        grouped = {gradient for group in groups for gradient in group}
        return [*_grouped(groups), *alone(each for each in gradients if each not in grouped)]

    def split(self, gradients: Sequence[Gradient]) -> List[List[Gradient]]:
        """The groups, without gradients that are not among these."""
        if isinstance(self._groups, int):
            total, count = len(gradients), min(self._groups, len(gradients))
            return [list(gradients[total * i // count : total * (i + 1) // count]) for i in range(count)]
        known = {gradient.parameter: gradient for gradient in gradients}
        groups = [[known[parameter] for parameter in group if parameter in known] for group in self._groups]
        return [group for group in groups if group]


class Changes:
    """Gradients that the program has changed while they travelled."""

    def __init__(self) -> None:
        self._told = False

    def undo(self, gradient: Gradient, is_wanted: bool) -> None:
        """Gives the parameter the gradient that has travelled, where it `is_wanted`; warns of the first such one."""
        if not is_wanted:
            return
        gradient.parameter.grad = gradient.sent
        if not self._told:
            self._told = True
            warnings.warn(CHANGED.format(gradient.name), RuntimeWarning, stacklevel=6)


class Taken:
    """Of a unit that has come and stays so until the step."""

    def poll(self) -> bool:
        """It has come."""
        return True

    def synchronize(self) -> None:
        """Nothing to wait for."""


def in_agreed_order(tensor: torch.Tensor, gradient: Gradient) -> torch.Tensor:
    """A view of what travels for a gradient, in the order of dimensions that ranks have agreed upon."""
    order = gradient.order
    if not order or len(order) != tensor.dim() or tensor.shape != gradient.parameter.shape:
        return tensor
    return tensor.permute(order)


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
