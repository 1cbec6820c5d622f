"""Gradients that several parameters share, or that lie in memory which others use too."""

import copy
from typing import Any, Callable, Dict, List

import farandole.torch as hvd
import torch
from harness import Checks
from torch import nn
from torch.nn import functional

check = Checks()

OPTIONS: Dict[str, Dict[str, Any]] = {
    "alone": {},
    "in a group": {"groups": 1},
    "in groups": {"groups": 2},
    "compressed": {"compression": hvd.Compression.bf16},
    "without an arena": {"gradient_arena": False},
    "a sum": {"op": hvd.Sum},
}


def made(how: str) -> Any:
    """Three parameters of four elements, and an optimizer whose steps are the gradients."""
    parameters = [nn.Parameter(torch.zeros(4)) for _ in range(3)]
    named = [(str(number), parameter) for number, parameter in enumerate(parameters)]
    return parameters, hvd.DistributedOptimizer(torch.optim.SGD(parameters, lr=1.0), named, **OPTIONS[how])


def reduced(how: str) -> float:
    """The result of the number rank + 1."""
    total = hvd.size() * (hvd.size() + 1) / 2
    return total if how == "a sum" else total / hvd.size()


def one_tensor(parameters: List[nn.Parameter], values: torch.Tensor) -> None:
    parameters[0].grad = parameters[2].grad = values[:4].clone()


def one_memory(parameters: List[nn.Parameter], values: torch.Tensor) -> None:
    parameters[0].grad = values[:4].clone()
    parameters[2].grad = parameters[0].grad.detach()


def overlapping(parameters: List[nn.Parameter], values: torch.Tensor) -> None:
    parameters[0].grad, parameters[2].grad = values[:4], values[2:6]


def expanded(parameters: List[nn.Parameter], values: torch.Tensor) -> None:
    parameters[0].grad, parameters[2].grad = values[:4], values[:1].expand(4)


WAYS: Dict[str, Callable[..., None]] = {each.__name__: each for each in (one_tensor, one_memory, overlapping, expanded)}


@check.each(*((way, how) for way in WAYS for how in OPTIONS))
def gradients_in_the_same_memory_are_reduced_once(way: str, how: str) -> None:
    """As one process has them. Horovod: two reductions write the memory at the same time."""
    parameters, optimizer = made(how)
    for step in range(3):
        WAYS[way](parameters, torch.full((6,), hvd.rank() + 1.0))
        before = [parameters[number].grad for number in (0, 2)]
        parameters[1].grad = torch.full((4,), hvd.rank() + 1.0)
        optimizer.step()
        for parameter in parameters:
            torch.testing.assert_close(parameter.detach(), torch.full((4,), -reduced(how) * (step + 1)))
        if way != "expanded":
            assert all(parameters[number].grad is grad for number, grad in zip((0, 2), before)), "it is another tensor"


@check.each(*((way, how) for way in ("one_tensor", "one_memory", "overlapping") for how in OPTIONS))
def backward_may_add_to_gradients_in_the_same_memory(way: str, how: str) -> None:
    """Backward passes that keep gradients: they travel when both parameters have added theirs."""
    parameters, optimizer = made(how)
    WAYS[way](parameters, torch.zeros(6))
    start = [parameter.detach().clone() for parameter in parameters]
    for _ in range(3):
        optimizer.zero_grad(set_to_none=False)
        sum((parameter * (hvd.rank() + 1.0)).sum() for parameter in parameters).backward()
        optimizer.step()
    one, both = reduced(how), 2 * reduced(how)
    ends = {"overlapping": ([one, one, both, both], [both, both, one, one])}.get(way, ([both] * 4, [both] * 4))
    for parameter, begin, wanted in zip(parameters, start, (ends[0], [one] * 4, ends[1])):
        torch.testing.assert_close(parameter.detach() - begin, -3 * torch.tensor(wanted))


@check.each(*OPTIONS)
def a_gradient_may_be_given_to_another_parameter_while_it_travels(how: str) -> None:
    parameters, optimizer = made(how)
    for _ in range(3):
        optimizer.zero_grad()
        sum((parameter * (hvd.rank() + 1.0)).sum() for parameter in parameters[:2]).backward()
        parameters[2].grad = parameters[0].grad
        optimizer.step()
    for parameter in parameters:
        torch.testing.assert_close(parameter.detach(), torch.full((4,), -3 * reduced(how)))


Model = Dict[str, nn.Parameter]

# Autograd hands the memory of one gradient to several tensors here: to two parameters, or to a parameter and to what
# it computes after that one's hook. Where biases are added to a single row, a rank's batch is one.
HANDED_ON: Dict[str, Callable[[Model, torch.Tensor], torch.Tensor]] = {
    "a bias beside a layer": lambda its, x: torch.relu(x @ its["first"] + its["a"].unsqueeze(0)),
    "parts beside a layer": lambda its, x: torch.relu(x @ its["first"] + torch.cat([its["a"][:3], its["half"]])[None]),
    "a part beside a layer": lambda its, x: torch.relu(x @ its["first"] + torch.cat([its["half"], x[0, :3]])[None]),
    "a matrix beside a product": lambda its, x: x @ ((its["first"] @ its["second"]) + its["flat"].view(8, 8)),
    "two biases": lambda its, x: x + (its["a"].unsqueeze(0) + its["b"].unsqueeze(0)),
    "two matrices": lambda its, x: functional.linear(x, its["flat"].view(8, 8) + its["other"].view(8, 8)),
}
SHAPES = {"first": (8, 8), "second": (8, 8), "flat": (64,), "other": (64,), "a": (8,), "b": (8,), "half": (5,)}


def wait_for_others(_parameter: torch.Tensor) -> None:
    """Within backward, until gradients that travel have come."""
    hvd.allreduce(torch.zeros(1), name="wait")


@check.each(*((way, how) for way in HANDED_ON for how in OPTIONS))
def autograd_may_use_the_memory_of_a_gradient_further(way: str, how: str) -> None:
    """As one process with the whole batch. Horovod: other gradients are made of what is reduced already."""
    torch.manual_seed(5)
    own = {name: nn.Parameter(torch.randn(shape) / 4) for name, shape in SHAPES.items()}
    alone = copy.deepcopy(own)
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(own.values(), lr=0.1), own.items(), **OPTIONS[how])
    for parameter in own.values():
        parameter.register_post_accumulate_grad_hook(wait_for_others)
    for _ in range(3):
        rows = torch.randn(hvd.size(), 8)
        optimizer.zero_grad()
        HANDED_ON[way](own, rows[hvd.rank()][None]).square().sum().backward()
        optimizer.step()
        losses = [HANDED_ON[way](alone, row[None]).square().sum() for row in rows]
        total = sum(losses) if how == "a sum" else sum(losses) / hvd.size()
        used = [parameter for name, parameter in alone.items()]
        for parameter, grad in zip(used, torch.autograd.grad(total, used, allow_unused=True)):
            if grad is not None:
                parameter.data.sub_(grad, alpha=0.1)
    limit = 0.03 if how == "compressed" else 1e-5
    for name, parameter in own.items():
        torch.testing.assert_close(
            parameter, alone[name], rtol=limit, atol=limit, msg=lambda text, at=name: f"{at}: {text}"
        )
