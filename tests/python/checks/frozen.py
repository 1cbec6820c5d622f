"""Parameters that ranks freeze after they have trained them: which steps move them, on all ranks alike."""

from typing import Any, Dict, Tuple

import farandole.torch as hvd
import torch
from harness import Checks
from torch import nn

check = Checks()


def model_of(shape: Tuple[int, ...]) -> nn.ParameterDict:
    return nn.ParameterDict({"scale": nn.Parameter(torch.ones(shape)), "other": nn.Parameter(torch.ones(3))})


def optimizer_of(model: nn.Module, options: Dict[str, Any]) -> Any:
    inner = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    return hvd.DistributedOptimizer(inner, model.named_parameters(), **options)


def moves(model: nn.ParameterDict, optimizer: Any, is_frozen: bool, slope: float) -> bool:
    """Whether a step moves the scale, of which the loss has this slope."""
    before = model["scale"].detach().clone()
    model["scale"].requires_grad_(not is_frozen)
    optimizer.zero_grad()
    (model["other"].sum() + (model["scale"] * slope).sum()).backward()
    optimizer.step()
    for parameter in model.parameters():
        everyone = hvd.allgather(parameter.detach().unsqueeze(0))
        assert all(torch.equal(each, everyone[0]) for each in everyone), "replicas differ"
    return not torch.equal(model["scale"], before)


NEGATIVE_ZEROS: Dict[str, Dict[str, Any]] = {
    "alone": {},
    "rounded": {"compression": hvd.Compression.fp16},
    "in a group": {"groups": 1},
    "rounded in a group": {"groups": 1, "compression": hvd.Compression.bf16},
    "summed": {"op": hvd.Sum},
}


@check.each(*((kind, shape) for kind in NEGATIVE_ZEROS for shape in ((), (2, 3))))
def negative_zeros_of_a_rank_that_trains_are_gradients(kind: str, shape: Tuple[int, ...]) -> None:
    """As of a loss whose mask is empty, or of tiny numbers in 16 bits, while rank 0 has frozen the parameter."""
    model = model_of(shape)
    optimizer = optimizer_of(model, NEGATIVE_ZEROS[kind])
    tiny = {"rounded": -1e-9, "rounded in a group": -1e-41}.get(kind, -0.0)
    found = [moves(model, optimizer, False, 0.5) for _ in range(2)]
    found += [moves(model, optimizer, hvd.rank() == 0, tiny) for _ in range(2)]
    found += [moves(model, optimizer, True, tiny)]
    others_train = hvd.size() > 1
    assert found == [True, True, others_train, others_train, False], found


STAY: Dict[str, Dict[str, Any]] = {
    "Average": {},
    "Sum": {"op": hvd.Sum},
    "Adasum": {"op": hvd.Adasum},
    "predivided": {"gradient_predivide_factor": 2.0},
    "fp16": {"compression": hvd.Compression.fp16},
    "bf16": {"compression": hvd.Compression.bf16},
    "grouped": {"groups": 1},
}
MOVE: Dict[str, Dict[str, Any]] = {
    "Min": {"op": hvd.Min},
    "Max": {"op": hvd.Max},
    "Product": {"op": hvd.Product},
    "int8": {"compression": hvd.Compression.int8},
    "powersgd": {"compression": hvd.Compression.powersgd},
}


@check.each(*STAY, *MOVE)
def a_parameter_that_all_have_frozen_stays_where_the_page_says_so(kind: str) -> None:
    """docs/pytorch.md. Alone, a rank has PyTorch's own step."""
    model = model_of((2, 3))
    optimizer = optimizer_of(model, {**STAY, **MOVE}[kind])
    assert moves(model, optimizer, False, 0.5)
    assert moves(model, optimizer, True, 0.5) == (kind in MOVE and hvd.size() > 1)
