"""Training loops as people write them, over the ranks: they do what the same loop does in one process with the whole
batch, or say what is wrong with them. Each says what Horovod does where that is something else."""

import copy
import io
import math
import pickle
import warnings
from typing import Any, Callable, List

import farandole.torch as hvd
import torch
from harness import Checks
from torch import nn
from torch.optim import lr_scheduler, swa_utils
from training_loops import STEPS, Loop, expect_same_bits

check = Checks()


def compare(train: Callable[[Loop], None], **options: Any) -> None:
    """Fails unless ranks end with the numbers of one process."""
    ranks, alone = Loop(True, **options), Loop(False)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        train(ranks)
    train(alone)
    expect_same_bits(ranks)
    torch.testing.assert_close(ranks.numbers(), alone.numbers(), rtol=1e-9, atol=1e-11)


def idiom(train: Callable[[Loop], None]) -> Callable[[Loop], None]:
    """A check of a loop: ranks end with the numbers of one process."""
    check.functions[train.__name__] = lambda: compare(train)
    return train


@idiom
def gradients_are_detached_and_zeroed(loop: Loop) -> None:
    """zero_grad of PyTorch up to 1.6, fastai, apex and fairseq."""
    for step in range(STEPS):
        for parameter in loop.model.parameters():
            if parameter.grad is not None:
                parameter.grad.detach_()
                parameter.grad.zero_()
        loop.loss(step).backward()
        loop.optimizer.step()


@idiom
def gradients_are_set_to_none_by_hand(loop: Loop) -> None:
    for step in range(STEPS):
        for parameter in loop.model.parameters():
            parameter.grad = None
        loop.loss(step).backward()
        loop.optimizer.step()


@idiom
def the_model_zeroes_its_gradients(loop: Loop) -> None:
    for step in range(STEPS):
        loop.model.zero_grad(set_to_none=step % 2 == 0)
        loop.loss(step).backward()
        loop.optimizer.step()


@idiom
def gradients_are_clipped_between_synchronize_and_step(loop: Loop) -> None:
    for step in range(STEPS):
        loop.optimizer.zero_grad()
        loop.loss(step).backward()
        loop.synchronize()
        nn.utils.clip_grad_norm_(loop.model.parameters(), 0.05)
        loop.step()


@idiom
def losses_are_added_before_one_backward_pass(loop: Loop) -> None:
    for step in range(STEPS):
        loop.optimizer.zero_grad()
        (loop.loss(step) + 0.1 * loop.loss(step + 100)).backward()
        loop.optimizer.step()


@idiom
def two_backward_passes_make_a_step(loop: Loop) -> None:
    """Horovod: the same with backward_passes_per_step; without, AssertionError in both."""
    if loop.on_rank:
        loop.optimizer.set_backward_passes_per_step(2)
    for step in range(STEPS):
        loop.optimizer.zero_grad()
        loop.loss(step).backward(retain_graph=True)
        (0.3 * loop.loss(step + 50)).backward()
        loop.optimizer.step()


@idiom
def steps_are_skipped_on_all_ranks(loop: Loop) -> None:
    for step in range(STEPS):
        loop.optimizer.zero_grad()
        loop.loss(step).backward()
        loop.synchronize()
        if step % 3 == 1:
            continue
        loop.step()


@idiom
def state_makes_a_round_trip_through_a_file(loop: Loop) -> None:
    for step in range(STEPS):
        loop.optimizer.zero_grad()
        loop.loss(step).backward()
        loop.optimizer.step()
        if step == 2:
            file = io.BytesIO()
            torch.save({"model": loop.model.state_dict(), "optimizer": loop.optimizer.state_dict()}, file)
            file.seek(0)
            state = torch.load(file)
            with torch.no_grad():
                for parameter in loop.model.parameters():
                    parameter.zero_()
            loop.model.load_state_dict(state["model"])
            loop.optimizer.load_state_dict(state["optimizer"])


@idiom
def averages_of_the_model_are_kept(loop: Loop) -> None:
    """EMA at each step, and SWA with its schedule at the end."""
    ema = swa_utils.AveragedModel(loop.model, multi_avg_fn=swa_utils.get_ema_multi_avg_fn(0.9))
    swa, schedule = swa_utils.AveragedModel(loop.model), swa_utils.SWALR(loop.optimizer, swa_lr=0.05, anneal_epochs=2)
    for step in range(STEPS):
        loop.optimizer.zero_grad()
        loop.loss(step).backward()
        loop.optimizer.step()
        ema.update_parameters(loop.model)
        if step >= 2:
            swa.update_parameters(loop.model)
            schedule.step()
    with torch.no_grad():
        for parameter, one, two in zip(loop.model.parameters(), ema.parameters(), swa.parameters()):
            parameter.copy_((one + two) / 2)


@idiom
def schedulers_are_made_before_and_after(loop: Loop) -> None:
    """Horovod: of a scheduler that was made before, torch warns that step() was not called."""
    before = lr_scheduler.StepLR(loop.inner, 2, gamma=0.5)
    after = lr_scheduler.LambdaLR(loop.optimizer, lambda done: 1.0 / (1 + done))
    for step in range(STEPS):
        loop.optimizer.zero_grad()
        loop.loss(step).backward()
        loop.optimizer.step()
        (before if step < 3 else after).step()


@idiom
def one_cycle_changes_the_momentum_too(loop: Loop) -> None:
    schedule = lr_scheduler.OneCycleLR(loop.optimizer, max_lr=0.2, total_steps=STEPS + 1)
    for step in range(STEPS):
        loop.optimizer.zero_grad()
        loop.loss(step).backward()
        loop.optimizer.step()
        schedule.step()


@idiom
def closures_are_called_within_the_step(loop: Loop) -> None:
    for step in range(STEPS):

        def closure(number: int = step) -> torch.Tensor:
            loop.optimizer.zero_grad()
            loss = loop.loss(number)
            loss.backward()
            return loss

        loop.optimizer.step(closure)


@idiom
def a_scaler_scales_the_loss(loop: Loop) -> None:
    scaler = torch.amp.GradScaler("cpu", init_scale=256.0, growth_interval=2)
    for step in range(STEPS):
        loop.optimizer.zero_grad()
        scaler.scale(loop.loss(step)).backward()
        loop.synchronize()
        scaler.unscale_(loop.optimizer)
        nn.utils.clip_grad_value_(loop.model.parameters(), 0.02)
        if loop.on_rank:
            with loop.optimizer.skip_synchronize():
                scaler.step(loop.optimizer)
        else:
            scaler.step(loop.optimizer)
        scaler.update()


@idiom
def layers_are_frozen_for_a_while_on_all_ranks(loop: Loop) -> None:
    """As in one process they stay as they are. Horovod: momentum and weight decay move them."""
    for step in range(STEPS):
        loop.model[2].requires_grad_(step not in (2, 3))
        loop.optimizer.zero_grad()
        loop.loss(step).backward()
        loop.optimizer.step()
        assert (loop.model[2].weight.grad is None) == (step in (2, 3))


@idiom
def a_group_is_added_to_the_optimizer_that_was_wrapped(loop: Loop) -> None:
    """Callbacks and schedulers keep it. Horovod: the group is not trained."""
    late = nn.Linear(6, 6).double()
    with torch.no_grad():
        for parameter in late.parameters():
            parameter.fill_(0.1)
    for step in range(STEPS):
        if step == 2:
            loop.inner.add_param_group({"params": list(late.parameters()), "lr": 0.05})
        loop.optimizer.zero_grad()
        loop.loss(step, model=nn.Sequential(late, loop.model) if step >= 2 else None).backward()
        loop.optimizer.step()
    loop.model.add_module("late", late)


@idiom
def the_optimizer_that_was_wrapped_gets_another_list_of_groups(loop: Loop) -> None:
    """The first step after it zeroes the gradients of those. Horovod: its optimizer keeps the old list."""
    loop.inner.param_groups = [dict(loop.inner.param_groups[0], params=list(loop.model[0].parameters()))]
    for step in range(STEPS):
        if step == 3:
            (first,) = loop.inner.param_groups
            loop.inner.param_groups = [dict(first), dict(first, params=list(loop.model[4].parameters()))]
        assert len(loop.optimizer.state_dict()["param_groups"]) == (1 if step < 3 else 2)
        loop.optimizer.zero_grad()
        loop.loss(step).backward()
        loop.optimizer.step()


def resize(loop: Loop, width: int) -> None:
    """Gives the first layer so many outputs."""
    with torch.no_grad():
        for parameter, dim in ((loop.model[0].weight, 0), (loop.model[0].bias, 0), (loop.model[2].weight, 1)):
            old = parameter.data.narrow(dim, 0, min(width, parameter.size(dim)))
            shape = [*parameter.shape]
            shape[dim] = width
            new = torch.linspace(-0.2, 0.2, math.prod(shape), dtype=old.dtype).view(shape)
            new.narrow(dim, 0, old.size(dim)).copy_(old)
            parameter.data, parameter.grad = new, None
    loop.optimizer.state.clear()


def layers_change_their_width(loop: Loop) -> None:
    """Pruned, and grown. Horovod: the same."""
    for step in range(STEPS):
        loop.optimizer.zero_grad()
        if step in (2, 4):
            resize(loop, 3 if step == 2 else 500)
        loop.loss(step).backward()
        loop.optimizer.step()


idiom(layers_change_their_width)


@check.each("int8", "powersgd")
def compressed_layers_change_their_width(kind: str) -> None:
    """Compression forgets what it keeps of a gradient of another shape."""
    makers = {
        "int8": lambda: hvd.Compression.int8(block=4, min_elements=1),
        "powersgd": lambda: hvd.Compression.powersgd(rank=1, start_step=0, min_ratio=1.0),
    }
    loop = Loop(True, compression=makers[kind]())
    layers_change_their_width(loop)
    expect_same_bits(loop)
    assert loop.numbers().isfinite().all()


@idiom
def hooks_change_gradients_before_they_travel(loop: Loop) -> None:
    for parameter in loop.model.parameters():
        parameter.register_hook(lambda grad: grad * 0.5)
    gradients_are_detached_and_zeroed(loop)


@idiom
def gradients_are_replaced_before_the_step(loop: Loop) -> None:
    for step in range(STEPS):
        loop.optimizer.zero_grad()
        loop.loss(step).backward()
        loop.synchronize()
        for parameter in loop.model.parameters():
            parameter.grad = parameter.grad.sign() * parameter.grad.abs().sqrt()
        loop.step()


@idiom
def the_state_goes_to_a_new_optimizer(loop: Loop) -> None:
    for step in range(STEPS):
        if step == 3:
            state = copy.deepcopy(loop.optimizer.state_dict())
            loop.inner = torch.optim.SGD(loop.model.parameters(), lr=0.3, momentum=0.9, weight_decay=0.01)
            loop.optimizer = loop.wrap(loop.inner)
            loop.optimizer.load_state_dict(state)
        loop.optimizer.zero_grad()
        loop.loss(step).backward()
        loop.optimizer.step()


def flat_buffer(loop: Loop, how: str) -> Callable[[], torch.Tensor]:
    """Makes gradients parts of one buffer when it is called, and returns the buffer."""
    parameters = list(loop.model.parameters())
    buffer = torch.zeros(sum(parameter.numel() for parameter in parameters), dtype=torch.float64)

    def assign() -> torch.Tensor:
        for parameter, part in zip(parameters, buffer.split([parameter.numel() for parameter in parameters])):
            parameter.grad = (part if how == "views" else part.detach()).view_as(parameter)
            if how != "views":
                parameter.grad = parameter.grad.detach()
        return buffer

    return assign


def scale_down(loop: Loop, gradients: List[torch.Tensor]) -> None:
    """Clips reduced gradients, which the program knows as these tensors, and makes the step."""
    loop.synchronize()
    total = torch.stack([gradient.norm() for gradient in gradients]).norm()
    for gradient in gradients:
        gradient.mul_(0.05 / total)
    loop.step()


@check.each(*((how, arena) for how in ("views", "detached") for arena in (True, False)))
def gradients_lie_in_a_buffer_of_the_program(how: str, arena: bool) -> None:
    """As Apex, fairseq and Megatron have it. Horovod: the same."""

    def train(loop: Loop) -> None:
        buffer = flat_buffer(loop, how)()
        for step in range(STEPS):
            buffer.zero_()
            loop.loss(step).backward()
            scale_down(loop, [buffer])

    compare(train, gradient_arena=arena)


@check.each(*((how, first) for how in ("views", "detached") for first in (0, 1, 3)))
def gradients_are_put_into_a_buffer_in_each_step(how: str, first: int) -> None:
    def train(loop: Loop) -> None:
        assign = flat_buffer(loop, how)
        for step in range(STEPS):
            loop.optimizer.zero_grad()
            buffer = assign().zero_() if step >= first else None
            loop.loss(step).backward()
            kept = [parameter.grad for parameter in loop.model.parameters()]
            scale_down(loop, [buffer] if step >= first else kept)

    compare(train)


@check.each(True, False)
def a_list_of_gradients_is_made_once(arena: bool) -> None:
    """Before the first step. They stay the gradients as long as they are zeroed in place."""

    def train(loop: Loop) -> None:
        loop.loss(100).backward()
        gradients = [parameter.grad for parameter in loop.model.parameters()]
        loop.optimizer.step()
        for step in range(STEPS):
            for gradient in gradients:
                gradient.zero_()
            loop.loss(step).backward()
            scale_down(loop, gradients)
            assert all(one is two.grad for one, two in zip(gradients, loop.model.parameters()))

    compare(train, gradient_arena=arena)


@check.each("views", "arrays")
def views_of_gradients_are_made_once(kind: str) -> None:
    """Before the first step, and used to zero and to clip them."""

    def train(loop: Loop) -> None:
        loop.loss(100).backward()
        gradients = [parameter.grad for parameter in loop.model.parameters()]
        if kind == "views":
            kept = [gradient.view(-1) for gradient in gradients]
        else:
            kept = [torch.from_numpy(gradient.numpy()) for gradient in gradients]
        loop.optimizer.step()
        for step in range(STEPS):
            for gradient in kept:
                gradient.zero_()
            loop.loss(step).backward()
            scale_down(loop, kept)

    compare(train)


@idiom
def hooks_of_the_program_keep_gradients(loop: Loop) -> None:
    kept: List[torch.Tensor] = []
    for parameter in loop.model.parameters():
        parameter.register_post_accumulate_grad_hook(lambda owner: kept.append(owner.grad))
    loop.optimizer = loop.wrap(torch.optim.SGD(loop.model.parameters(), lr=0.1, momentum=0.9))
    for step in range(STEPS):
        kept.clear()
        loop.optimizer.zero_grad()
        loop.loss(step).backward()
        scale_down(loop, kept)


def grow(grad: torch.Tensor) -> None:
    """To a larger size. In memory that the ranks share torch refuses it, as the guide for Horovod's users tells."""
    lies_in_arena = hvd.size() > 1 and not grad.untyped_storage().resizable()
    try:
        grad.resize_(2 * grad.numel()).zero_()
    except RuntimeError as error:
        assert lies_in_arena and "not resizable" in str(error), error


def share_data(grad: torch.Tensor) -> None:
    grad.data = torch.ones_like(grad)


# Uses of a gradient after the step. None of it may reach the next one.
AFTERWARDS = {
    "requires_grad_": lambda grad: grad.requires_grad_(),
    "resize_": lambda grad: grad.resize_(2),
    "resize_ to a larger size": grow,
    "set_": lambda grad: grad.set_(torch.ones(grad.shape, dtype=grad.dtype)),
    "share_memory_": lambda grad: grad.share_memory_(),
    "t_": lambda grad: grad.t_(),
    "unsqueeze_": lambda grad: grad.unsqueeze_(0),
    "hook": lambda grad: grad.requires_grad_().register_hook(lambda other: 2 * other),
    "data": share_data,
    "pickle": lambda grad: pickle.loads(pickle.dumps(grad)),
    "deepcopy": copy.deepcopy,
    "move": lambda grad: grad.to(torch.float32),
    "label": lambda grad: setattr(grad, "label", 1),
}


@check.each(*AFTERWARDS)
def what_is_done_with_a_gradient_after_the_step_stays_there(kind: str) -> None:
    def train(loop: Loop) -> None:
        kept: List[Any] = []
        for step in range(STEPS):
            loop.optimizer.zero_grad()
            loop.loss(step).backward()
            loop.optimizer.step()
            grad = loop.first().grad
            assert not hasattr(grad, "label")
            if step % 2:
                AFTERWARDS[kind](grad)
                kept += [grad, grad.detach().clone()]
        for one, two in zip(kept[::2], kept[1::2]):
            assert torch.equal(one, two), "a gradient that was kept has changed"

    ranks, alone = Loop(True), Loop(False)
    train(ranks)
    train(alone)
    expect_same_bits(ranks)
    torch.testing.assert_close(ranks.numbers(), alone.numbers(), rtol=1e-9, atol=1e-11)
