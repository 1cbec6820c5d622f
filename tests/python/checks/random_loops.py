"""Training loops put together at random of the idioms that people write: over the ranks they end with the numbers of the
same loop in one process. The seed in a failed check's name gives the same loop again."""

import copy
import functools
import random
import warnings
from typing import Any, Callable, Dict, List

import farandole.torch as hvd
import torch
from harness import Checks
from torch import nn
from torch.optim import swa_utils
from training_loops import Loop, expect_same_bits

check = Checks()

LOOPS = 4
SEEDS = 30
STEPS = 5

OPTIMIZERS: Dict[str, Callable[..., torch.optim.Optimizer]] = {
    "SGD": functools.partial(torch.optim.SGD, lr=0.1, momentum=0.9, weight_decay=0.01),
    "Nesterov": functools.partial(torch.optim.SGD, lr=0.05, momentum=0.8, nesterov=True),
    "AdamW": functools.partial(torch.optim.AdamW, lr=0.02, amsgrad=True),
    "RMSprop": functools.partial(torch.optim.RMSprop, lr=0.01, momentum=0.5),
    "Adagrad": functools.partial(torch.optim.Adagrad, lr=0.05),
    "NAdam": functools.partial(torch.optim.NAdam, lr=0.02),
}


class RandomLoop(Loop):
    """A loop whose choices are those of a seed: the same on all ranks and alone."""

    def __init__(self, on_rank: bool, seed: str) -> None:
        self.choices = random.Random(seed)
        self.passes = self.choices.choice((1, 1, 2, 3))
        self._kind = self.choices.choice(list(OPTIMIZERS))
        options: Dict[str, Any] = {
            "backward_passes_per_step": self.passes,
            "groups": self.choices.choice((None, None, 1, 3, "lists")),
            "gradient_predivide_factor": self.choices.choice((1.0, 1.0, 2.0)),
            "gradient_arena": self.choices.choice((True, False)),
        }
        super().__init__(on_rank, **options)
        self.late = nn.Linear(6, 6).double()
        self.ema = swa_utils.AveragedModel(self.model, multi_avg_fn=swa_utils.get_ema_multi_avg_fn(0.9))
        self.has_late = False

    def wrap(self, optimizer: torch.optim.Optimizer) -> Any:
        self.inner = OPTIMIZERS[self._kind](self.model.parameters())
        parameters = list(self.model.parameters())
        if self.options["groups"] == "lists":
            self.options["groups"] = [parameters[1:4], parameters[4:]]
        return super().wrap(self.inner)

    def zero(self) -> None:
        """Lets go of the gradients of the last step, in one of the usual ways."""
        way = self.choices.choice(("optimizer", "zeros", "model", "detach", "none", "inner"))
        parameters = [*self.model.parameters(), *self.late.parameters()]
        if way == "optimizer":
            self.optimizer.zero_grad()
        elif way == "zeros":
            self.optimizer.zero_grad(set_to_none=False)
        elif way == "inner":
            self.inner.zero_grad()
        elif way == "model":
            self.model.zero_grad()
            self.late.zero_grad()
        for parameter in parameters:
            if way == "detach" and parameter.grad is not None:
                parameter.grad.detach_()
                parameter.grad.zero_()
            elif way == "none":
                parameter.grad = None

    def backward(self, step: int) -> torch.Tensor:
        """All passes of a step; returns the last one's loss."""
        model = nn.Sequential(self.late, self.model) if self.has_late else self.model
        for number in range(self.passes):
            loss = self.loss(100 * step + number, model=model) / self.passes
            loss.backward()
        return loss

    def freeze(self) -> None:
        """Another choice of frozen layers, the same on all ranks."""
        for layer in (self.model[0], self.model[2]):
            layer.requires_grad_(self.choices.random() > 0.2)

    def step_with_changes(self) -> None:
        """Changes the gradients where they are reduced, and makes the step or leaves it out."""
        self.synchronize()
        change = self.choices.choice(("norm", "value", "scale", "replace", "skip"))
        parameters = [parameter for parameter in self.model.parameters() if parameter.grad is not None]
        if change == "norm":
            nn.utils.clip_grad_norm_(parameters, 0.05)
        elif change == "value":
            nn.utils.clip_grad_value_(parameters, 0.02)
        for parameter in parameters:
            if change == "scale":
                parameter.grad.mul_(0.5)
            elif change == "replace":
                parameter.grad = parameter.grad.sign() * 0.01
        if change != "skip":
            self.step()

    def between(self, step: int) -> None:
        """Does something, by chance, between two steps."""
        event = self.choices.choice(("rate", "inner rate", "state", "inner state", "ema", "group", "copy", ""))
        chosen = self.inner if event.startswith("inner") else self.optimizer
        if event.endswith("rate"):
            for group in chosen.param_groups:
                group["lr"] *= 0.7
        elif event.endswith("state"):
            chosen.load_state_dict(copy.deepcopy(chosen.state_dict()))
        elif event == "ema":
            self.ema.update_parameters(self.model)
        elif event == "copy":
            self.model.load_state_dict(copy.deepcopy(self.model.state_dict()))
        elif event == "group" and not self.has_late and step < STEPS - 1:
            self.has_late = True
            chosen = self.choices.choice((self.inner, self.optimizer))
            chosen.add_param_group({"params": list(self.late.parameters()), "lr": 0.01})

    def train(self) -> torch.Tensor:
        """All steps; returns the numbers in which they end."""
        for step in range(STEPS):
            self.freeze()
            way = self.choices.choice(("step", "step", "changes", "closure"))
            if way == "closure":
                self.optimizer.step(lambda now=step: (self.zero(), self.backward(now))[1])
            else:
                self.zero()
                self.backward(step)
                self.optimizer.step() if way == "step" else self.step_with_changes()
            self.between(step)
        kept: List[nn.Module] = [self.model, self.late, self.ema.module]
        return torch.cat([each.detach().flatten() for module in kept for each in module.parameters()])


@check.each(*range(SEEDS))
def loops_end_with_the_numbers_of_one_process(seed: int) -> None:
    for number in range(LOOPS):
        ranks, alone = RandomLoop(True, f"{seed}.{number}"), RandomLoop(False, f"{seed}.{number}")
        with warnings.catch_warnings():
            # One rank alone does not see that a step was left out.
            warnings.simplefilter("error" if hvd.size() > 1 else "ignore")
            found = ranks.train()
        try:
            torch.testing.assert_close(found, alone.train(), rtol=1e-8, atol=1e-10)
        except AssertionError as error:
            raise AssertionError(f"loop {number}, {ranks._kind} with {ranks.options}: {error}") from None
        expect_same_bits(ranks)
    assert hvd.allreduce(torch.ones(1), op=hvd.Sum).item() == hvd.size()
