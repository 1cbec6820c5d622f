"""Starting all ranks from one state."""

from typing import Any, Dict, Iterable, List, Optional, Tuple, Union

import torch

from .. import _ops
from .._agreement import expect_agreement
from ..basics import rank
from ..objects import broadcast_object
from ..process_sets import ProcessSet, global_process_set
from . import ops
from .tensor_stream import broadcast_all, describe
from .wrapping import SharesGroups, keeping_groups


def broadcast_parameters(
    params: Union[Dict[str, Any], Iterable[Union[torch.Tensor, Tuple[str, torch.Tensor]]]],
    root_rank: int,
    process_set: ProcessSet = global_process_set,
) -> None:
    """Gives the root's tensors to all ranks, in place.

    `params`: a model's state_dict() (values None are skipped), model.named_parameters() or model.parameters().
    ValueError: something else, or ranks disagree about the tensors, which are named.
    """
    if isinstance(params, (str, torch.Tensor)) or not hasattr(params, "__iter__"):
        raise ValueError(f"invalid params of type: {type(params)}")
    named = list(params.items()) if isinstance(params, dict) else list(params)
    named = [(f"noname.{i}", each) if isinstance(each, torch.Tensor) else each for i, each in enumerate(named)]
    for entry in named:
        if not (isinstance(entry, tuple) and len(entry) == 2 and isinstance(entry[1], (torch.Tensor, type(None)))):
            raise ValueError(
                "broadcast_parameters needs a state_dict or (name, tensor) pairs with tensors only; "
                f"it got {_describe(entry)}; use broadcast_object for what is no tensor"
            )
    given = sorted(((str(name), tensor) for name, tensor in named if tensor is not None), key=lambda entry: entry[0])
    for name, tensor in given:
        ops.require_shape(f"parameter {name}", tensor)
    root_rank = _ops.root_for(root_rank)
    expect_agreement("broadcast_parameters", [("root_rank", root_rank), *describe(given)], process_set)
    broadcast_all("broadcast_parameters", [tensor for _, tensor in given], root_rank, process_set)


def _describe(entry: Any) -> str:
    if isinstance(entry, tuple) and len(entry) == 2:
        return f"{entry[0]!r}: {type(entry[1]).__name__}"
    return f"a {type(entry).__name__}"


class _TensorPlace:
    """Stands in a state for a tensor that is sent on its own."""

    def __init__(self, index: int, like: torch.Tensor) -> None:
        self.index, self.shape, self.dtype, self.is_cuda = index, tuple(like.shape), like.dtype, like.is_cuda
        # How its elements follow each other in memory; kernels of optimizers want those of the parameter (channels_last).
        has_order = like.is_contiguous() or ops.memory_order(like) is not None
        self.strides = like.stride() if has_order else None

    def make(self, gpu: torch.device) -> torch.Tensor:
        """A tensor like the sender's, on `gpu` if that was on one."""
        device = gpu if self.is_cuda else torch.device("cpu")  # not the program's default
        if self.strides is None:
            return torch.empty(self.shape, dtype=self.dtype, device=device)
        return torch.empty_strided(self.shape, self.strides, dtype=self.dtype, device=device)


def _take_tensors(state: Any, tensors: List[torch.Tensor]) -> Any:
    """A copy of `state` with places in place of its tensors, which are appended to `tensors`."""
    if isinstance(state, torch.Tensor):
        tensors.append(state)
        return _TensorPlace(len(tensors) - 1, state)
    if isinstance(state, dict):
        return {key: _take_tensors(value, tensors) for key, value in state.items()}
    if type(state) in (list, tuple):
        return type(state)(_take_tensors(value, tensors) for value in state)
    return state


def _put_tensors(state: Any, tensors: Dict[int, torch.Tensor], gpu: torch.device) -> Any:
    """The opposite: new tensors in their places, which are also entered into `tensors`; on `gpu` where the sender's were
    on one, as ranks have tensors of one kind."""
    if isinstance(state, _TensorPlace):
        return tensors.setdefault(state.index, state.make(gpu))
    if isinstance(state, dict):
        return {key: _put_tensors(value, tensors, gpu) for key, value in state.items()}
    if type(state) in (list, tuple):
        return type(state)(_put_tensors(value, tensors, gpu) for value in state)
    return state


def _gpu_of(optimizer: torch.optim.Optimizer) -> torch.device:
    """That of its parameters, of which this rank has one; where they are on none, that of the host."""
    devices = (parameter.device for group in optimizer.param_groups for parameter in group["params"])
    return next((device for device in devices if device.type == "cuda"), torch.device("cpu"))


def broadcast_optimizer_state(
    optimizer: torch.optim.Optimizer,
    root_rank: int,
    model: Optional[torch.nn.Module] = None,
    process_set: ProcessSet = global_process_set,
) -> None:
    """Gives the root's optimizer state to all ranks: tensors, step counters, and the options of the parameter groups.

    The other ranks need no state of their own, or may have another one; it is replaced. Where the root has no state yet,
    gradients that are not there become zero, as Horovod's programs expect; not sparse ones, which are those of SparseAdam
    and of the sparse embeddings of `model`. ValueError: ranks have optimizers of other classes, or other numbers of
    parameter groups or of parameters in them; they are named.
    """
    if not hasattr(optimizer, "param_groups"):
        raise ValueError(f"broadcast_optimizer_state needs an optimizer, not {optimizer!r}")
    root_rank = _ops.root_for(root_rank)
    root = rank() == root_rank
    groups = [len(group["params"]) for group in optimizer.param_groups]
    kind = type(optimizer).__name__
    facts = [
        ("root_rank", root_rank),
        ("optimizer", kind),
        ("param_groups", f"{len(groups)} groups of {groups} parameters"),
    ]
    expect_agreement("broadcast_optimizer_state", facts, process_set)
    sent: List[torch.Tensor] = []
    skeleton = _take_tensors(optimizer.state_dict(), sent) if root else None
    skeleton = broadcast_object(skeleton, root_rank, "broadcast_optimizer_state", process_set)
    received: Dict[int, torch.Tensor] = dict(enumerate(sent))
    state = None if root else _put_tensors(skeleton, received, _gpu_of(optimizer))
    tensors = [received[index] for index in sorted(received)]
    broadcast_all("broadcast_optimizer_state", tensors, root_rank, process_set)
    if not root:
        load_exactly(optimizer, state)
    if not skeleton["state"] and not isinstance(optimizer, torch.optim.SparseAdam):
        _begin_gradients(optimizer, model)


def _begin_gradients(optimizer: torch.optim.Optimizer, model: Optional[torch.nn.Module]) -> None:
    modules = () if model is None else model.modules()
    sparse = {id(each.weight) for each in modules if isinstance(each, torch.nn.Embedding) and each.sparse}
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            if parameter.requires_grad and parameter.grad is None and id(parameter) not in sparse:
                parameter.grad = torch.zeros_like(parameter)


def load_exactly(optimizer: torch.optim.Optimizer, state: Dict[str, Any]) -> None:
    """load_state_dict, which gives counters and factors the parameter's element type and device: they would then differ
    from those that were saved, and on a GPU each step would wait for them. And it makes new groups, of which a learning
    rate scheduler that was given the optimizer before it was wrapped would not know: the old ones stay."""
    with keeping_groups(optimizer):
        optimizer.load_state_dict(state)
    numbers = [number for group in state["param_groups"] for number in group["params"]]
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    for number, parameter in zip(numbers, parameters):
        if number in state["state"] and parameter in optimizer.state:
            optimizer.state[parameter] = _as_saved(optimizer.state[parameter], state["state"][number])


def take_away_groups(optimizer: torch.optim.Optimizer, count: int) -> None:
    """Leaves an optimizer its first `count` groups. All ranks do so; a DistributedOptimizer reduces the gradients of the
    others no more. These are dropped, as the groups may be added again."""
    if isinstance(optimizer, SharesGroups):
        optimizer.share_groups()
    gone = optimizer.param_groups[count:]
    if not gone:
        return
    del optimizer.param_groups[count:]
    parameters = [parameter for group in gone for parameter in group["params"]]
    for parameter in parameters:
        optimizer.state.pop(parameter, None)
    if isinstance(optimizer, SharesGroups):
        optimizer.forget(parameters)
    for parameter in parameters:
        parameter.grad = None


def _as_saved(loaded: Any, saved: Any) -> Any:
    """The loaded values, with the element types of the saved ones, and on the host those that were there."""
    if isinstance(loaded, torch.Tensor) and isinstance(saved, torch.Tensor):
        if (loaded.dtype, loaded.is_cpu) == (saved.dtype, saved.is_cpu):
            return loaded
        return saved if saved.is_cpu else saved.to(loaded.device)
    if isinstance(loaded, dict) and isinstance(saved, dict):
        loaded.update((key, _as_saved(value, saved[key])) for key, value in list(loaded.items()) if key in saved)
    elif type(loaded) in (list, tuple) and type(saved) is type(loaded) and len(saved) == len(loaded):
        return type(loaded)(_as_saved(*pair) for pair in zip(loaded, saved))
    return loaded
