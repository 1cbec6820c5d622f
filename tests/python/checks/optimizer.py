"""DistributedOptimizer: several ranks do what one process does with the whole batch."""

import copy
import gc
import warnings
from typing import Any, Callable, Dict, List, Optional

import farandole.torch as hvd
import torch
from farandole.torch import gradients
from harness import Checks, rounds_once
from torch import nn
from torch.nn import functional

check = Checks()

BATCH = 24  # divisible by the sizes of these jobs, and the halves too
STEPS = 6


def make_model(dtype: torch.dtype = torch.float64) -> nn.Module:
    torch.manual_seed(3)
    return nn.Sequential(
        nn.Conv2d(2, 4, 3), nn.Tanh(), nn.Flatten(), nn.Linear(64, 16), nn.Tanh(), nn.Linear(16, 5)
    ).to(dtype)


def data(step: int, dtype: torch.dtype = torch.float64) -> Any:
    generator = torch.Generator().manual_seed(step)
    return torch.randn(BATCH, 2, 6, 6, generator=generator).to(dtype), torch.randint(
        0, 5, (BATCH,), generator=generator
    )


def shard(tensor: torch.Tensor) -> torch.Tensor:
    count = BATCH // hvd.size()
    return tensor[hvd.rank() * count : (hvd.rank() + 1) * count]


def flat(model: nn.Module) -> torch.Tensor:
    return torch.cat([parameter.detach().flatten() for parameter in model.parameters()])


def alone(
    make: Callable[..., torch.optim.Optimizer], model: Optional[nn.Module] = None, scale: float = 1.0
) -> torch.Tensor:
    """Parameters of one process that sees all the data."""
    model = model or make_model()
    optimizer = make(model.parameters())
    for step in range(STEPS):
        images, labels = data(step)
        optimizer.zero_grad()
        (scale * functional.cross_entropy(model(images), labels)).backward()
        optimizer.step()
    return flat(model)


def together(
    make: Callable[..., torch.optim.Optimizer], model: Optional[nn.Module] = None, **options: Any
) -> torch.Tensor:
    """Parameters of ranks that see a share each; equal to the bit on all of them."""
    model = model or make_model()
    optimizer = hvd.DistributedOptimizer(make(model.parameters()), named_parameters=model.named_parameters(), **options)
    for step in range(STEPS):
        images, labels = data(step)
        optimizer.zero_grad()
        functional.cross_entropy(model(shard(images)), shard(labels)).backward()
        optimizer.step()
    expect_same_bits(model)
    return flat(model)


def expect_same_bits(model: nn.Module) -> None:
    mine = flat(model)
    for other in hvd.allgather(mine.view(1, -1)):
        assert torch.equal(other, mine)


def sgd(parameters: Any) -> torch.optim.Optimizer:
    return torch.optim.SGD(parameters, lr=0.1, momentum=0.9, weight_decay=0.01)


def adam(parameters: Any) -> torch.optim.Optimizer:
    return torch.optim.Adam(parameters, lr=0.01)


@check.each("sgd", "adam")
def ranks_do_what_one_process_does_with_the_whole_batch(kind: str) -> None:
    torch.testing.assert_close(together(globals()[kind]), alone(globals()[kind]), rtol=1e-10, atol=1e-12)


@check.each({"groups": 2}, {"groups": 1}, {"groups": 99}, {"num_groups": 3}, {"gradient_predivide_factor": 2.0})
def options_that_do_not_change_the_result(options: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        torch.testing.assert_close(together(sgd, **options), alone(sgd), rtol=1e-10, atol=1e-12)


@check
def groups_may_be_lists_of_parameters() -> None:
    model = make_model()
    parameters = list(model.parameters())
    found = together(sgd, model, groups=[[parameters[0], parameters[5]], [parameters[2]]])
    torch.testing.assert_close(found, alone(sgd), rtol=1e-10, atol=1e-12)


@check
def sum_is_size_times_average() -> None:
    torch.testing.assert_close(together(sgd, op=hvd.Sum), alone(sgd, scale=float(hvd.size())), rtol=1e-10, atol=1e-12)


@check.each("fp16", "bf16")
def compressed_gradients_are_close(kind: str) -> None:
    found = together(sgd, compression=getattr(hvd.Compression, kind))
    torch.testing.assert_close(found, alone(sgd), rtol=0.02, atol=0.02)
    grouped = together(sgd, compression=getattr(hvd.Compression, kind), groups=2)
    limit = 1e-9 if rounds_once() else 0.02
    torch.testing.assert_close(grouped, found, rtol=limit, atol=limit)


@check
def channels_last_gradients_travel_as_they_lie() -> None:
    model = make_model().to(memory_format=torch.channels_last)
    torch.testing.assert_close(together(sgd, model), alone(sgd), rtol=1e-10, atol=1e-12)


@check.each("plain", "grouped", "compressed")
def gradients_may_lie_otherwise_in_memory_than_those_of_others(kind: str) -> None:
    """As cuDNN leaves them for convolutions of 1x1, or where some rank has none."""
    if hvd.size() == 1:  # gradients do not travel
        return
    options: Dict[str, Any] = {"grouped": {"groups": 1}, "compressed": {"compression": hvd.Compression.bf16}}.get(
        kind, {}
    )
    for size, model_format in ((1, torch.contiguous_format), (3, torch.contiguous_format), (3, torch.channels_last)):
        model = nn.Conv2d(4, 8, size, bias=False, dtype=torch.float64).to(memory_format=model_format)
        weight = model.weight
        optimizer = hvd.DistributedOptimizer(sgd([weight]), named_parameters=[("weight", weight)], **options)
        for odd in (True, False):
            optimizer.zero_grad()
            if hvd.rank() > 0:
                values = torch.arange(weight.numel(), dtype=weight.dtype).reshape(weight.shape)
                weight.grad = values.to(memory_format=torch.channels_last if odd else torch.contiguous_format)
                if size == 1 and odd:
                    weight.grad = values.as_strided(weight.shape, (4, 1, 4, 4))
            optimizer.synchronize()
            mean = torch.arange(weight.numel(), dtype=weight.dtype).reshape(weight.shape) * (1 - 1 / hvd.size())
            limit = 1e-9 if kind != "compressed" else 0.01
            torch.testing.assert_close(weight.grad, mean, rtol=limit, atol=limit)
            with optimizer.skip_synchronize():
                optimizer.step()


@check
def dimensions_of_size_1_do_not_decide_how_gradients_travel() -> None:
    """Their strides may be any, and differ between ranks."""
    values = torch.zeros(64 * 48)
    shapes = set()
    for strides in ((48, 1, 48, 16), (48, 1, 1, 16)):
        weight = values.as_strided((64, 16, 1, 3), strides)
        gradient = gradients.Gradient(weight, "weight", 1)
        gradient.order = gradient.wanted_order()
        shapes.add(tuple(gradients.in_agreed_order(weight, gradient).shape))
        assert gradients.in_agreed_order(weight, gradient).is_contiguous()
    assert len(shapes) == 1, shapes


@check
def hooks_of_steps_are_called_once_also_after_a_state_was_loaded() -> None:
    model = make_model()
    optimizer = hvd.DistributedOptimizer(sgd(model.parameters()), named_parameters=model.named_parameters())
    calls: List[Any] = []
    optimizer.register_step_post_hook(lambda *given: calls.append(given))
    for _ in range(2):
        optimizer.zero_grad()
        model(shard(data(0)[0])).sum().backward()
        optimizer.step()
        hvd.broadcast_optimizer_state(optimizer, root_rank=0)
    assert len(calls) == 2


@check
def backward_passes_add_up_before_the_step() -> None:
    model = make_model()
    optimizer = hvd.DistributedOptimizer(
        sgd(model.parameters()), named_parameters=model.named_parameters(), backward_passes_per_step=2
    )
    for step in range(STEPS):
        images, labels = (shard(tensor) for tensor in data(step))
        optimizer.zero_grad()
        for half in (slice(None, len(images) // 2), slice(len(images) // 2, None)):
            (functional.cross_entropy(model(images[half]), labels[half]) / 2).backward()
        optimizer.step()
    torch.testing.assert_close(flat(model), alone(sgd), rtol=1e-10, atol=1e-12)
    assert optimizer.backward_passes_per_step == 2
    optimizer.set_backward_passes_per_step(1)
    optimizer.zero_grad()
    model(shard(data(0)[0])).sum().backward()
    optimizer.step()
    expect_same_bits(model)


@check
def too_many_backward_passes_are_refused() -> None:
    model = make_model()
    optimizer = hvd.DistributedOptimizer(sgd(model.parameters()), named_parameters=model.named_parameters())
    model(data(0)[0]).sum().backward()
    if hvd.size() > 1:  # one rank alone has no gradients that travel
        expect(AssertionError, lambda: model(data(0)[0]).sum().backward(), "backward_passes_per_step")
        expect(AssertionError, optimizer.zero_grad, "zero_grad")
    optimizer.step()  # by gradients that were added to while they travelled: anything may come of it, but no hang
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    hvd.broadcast_optimizer_state(optimizer, root_rank=0)
    optimizer.zero_grad()
    model(shard(data(0)[0])).sum().backward()
    optimizer.step()
    expect_same_bits(model)


def expect(kind: type, call: Callable[[], Any], word: str) -> None:
    try:
        call()
    except kind as error:
        assert word in str(error), error
        return
    raise AssertionError(f"no {kind.__name__}")


@check
def step_may_be_called_twice_and_without_gradients() -> None:
    model = make_model()
    optimizer = hvd.DistributedOptimizer(sgd(model.parameters()), named_parameters=model.named_parameters())
    model(shard(data(0)[0])).sum().backward()
    optimizer.step()
    optimizer.step()
    optimizer.zero_grad()
    optimizer.step()
    expect_same_bits(model)


@check
def ranks_may_use_different_parts_of_the_model() -> None:
    torch.manual_seed(0)
    parts = nn.ModuleList(nn.Linear(3, 1, bias=False) for _ in range(hvd.size() + 1)).double()
    optimizer = hvd.DistributedOptimizer(
        torch.optim.SGD(parts.parameters(), lr=1.0), named_parameters=parts.named_parameters()
    )
    before = [part.weight.detach().clone() for part in parts]
    parts[hvd.rank()](torch.ones(3, dtype=torch.float64)).backward()
    optimizer.step()
    for part, old in zip(list(parts)[:-1], before):
        torch.testing.assert_close(part.weight, old - 1.0 / hvd.size())
    assert torch.equal(parts[-1].weight, before[-1])


@check
def frozen_parameters_stay_and_thawed_ones_are_reduced() -> None:
    model = make_model()
    for parameter in model[0].parameters():
        parameter.requires_grad_(False)
    optimizer = hvd.DistributedOptimizer(sgd(model.parameters()), named_parameters=model.named_parameters())
    before = model[0].weight.detach().clone()

    def step() -> None:
        optimizer.zero_grad()
        model(shard(data(0)[0])).pow(2).sum().backward()
        optimizer.step()

    step()
    assert torch.equal(model[0].weight, before) and model[0].weight.grad is None
    for parameter in model[0].parameters():
        parameter.requires_grad_(True)
    step()
    step()
    assert not torch.equal(model[0].weight, before)
    expect_same_bits(model)


@check
def synchronize_shows_reduced_gradients_before_the_step() -> None:
    model = make_model()
    optimizer = hvd.DistributedOptimizer(sgd(model.parameters()), named_parameters=model.named_parameters())
    model(shard(data(0)[0])).sum().backward()
    optimizer.synchronize()
    gradient = model[3].weight.grad
    assert all(torch.equal(other, gradient) for other in hvd.allgather(gradient.unsqueeze(0)))
    nn.utils.clip_grad_norm_(model.parameters(), 0.1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with optimizer.skip_synchronize():
            optimizer.step()
    expect_same_bits(model)
    optimizer.zero_grad()
    optimizer.synchronize()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        optimizer.step()
    assert any("skip_synchronize" in str(warning.message) for warning in caught)


@check
def closures_see_the_loss_of_all_ranks() -> None:
    def lbfgs(model: nn.Module, wrap: bool) -> torch.Tensor:
        optimizer: Any = torch.optim.LBFGS(model.parameters(), lr=0.5, max_iter=4, line_search_fn="strong_wolfe")
        if wrap:
            optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
        images, labels = (shard(tensor) if wrap else tensor for tensor in data(0))

        def closure() -> torch.Tensor:
            optimizer.zero_grad()
            loss = functional.cross_entropy(model(images), labels)
            loss.backward()
            return loss

        for _ in range(3):
            optimizer.step(closure)
        return flat(model)

    model = make_model()
    torch.testing.assert_close(lbfgs(model, True), lbfgs(make_model(), False), rtol=1e-6, atol=1e-8)
    expect_same_bits(model)


@check
def what_a_closure_returns_besides_a_number_is_the_programs() -> None:
    model = make_model()
    optimizer = hvd.DistributedOptimizer(adam(model.parameters()), named_parameters=model.named_parameters())
    for returned in ({"loss": 1.0}, (torch.ones(1), "log"), None):

        def closure(value: Any = returned) -> Any:
            optimizer.zero_grad()
            functional.cross_entropy(model(shard(data(0)[0])), shard(data(0)[1])).backward()
            return value

        assert optimizer.step(closure) is returned
    expect_same_bits(model)


@check
def class_state_and_schedulers_stay_intact() -> None:
    model = make_model()
    plain = adam(model.parameters())
    model(data(0)[0]).sum().backward()
    plain.step()
    plain.zero_grad()
    saved = copy.deepcopy(plain.state_dict())
    optimizer = hvd.DistributedOptimizer(plain, named_parameters=model.named_parameters())
    assert (
        isinstance(optimizer, torch.optim.Adam)
        and type(optimizer).__name__ == "Adam"
        and optimizer.defaults == plain.defaults
    )
    assert optimizer.state_dict().keys() == saved.keys() and torch.equal(
        optimizer.state_dict()["state"][0]["exp_avg"], saved["state"][0]["exp_avg"]
    )
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 1, gamma=0.5)
    model(shard(data(1)[0])).sum().backward()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        optimizer.step()
        schedule.step()
    assert optimizer.param_groups[0]["lr"] == 0.005
    optimizer.load_state_dict(saved)
    assert optimizer.state_dict()["state"][0]["step"] == 1
    expect_same_bits(model)


@check
def parameter_groups_may_be_added() -> None:
    first, second = make_model(), nn.Linear(5, 5).double()
    hvd.broadcast_parameters(second.state_dict(), 0)
    optimizer = hvd.DistributedOptimizer(sgd(first.parameters()))
    optimizer.add_param_group({"params": list(second.parameters()), "lr": 0.01})
    second(first(shard(data(0)[0]))).sum().backward()
    optimizer.step()
    expect_same_bits(first)
    expect_same_bits(second)


@check
def an_optimizer_that_is_gone_reduces_nothing() -> None:
    model = make_model()
    optimizer = hvd.DistributedOptimizer(sgd(model.parameters()), named_parameters=model.named_parameters())
    del optimizer
    gc.collect()
    before = hvd.counters().submissions
    model(data(0)[0]).sum().backward()
    assert hvd.counters().submissions == before
    model.zero_grad()
    optimizer = hvd.DistributedOptimizer(sgd(model.parameters()), named_parameters=model.named_parameters())
    model(shard(data(0)[0])).sum().backward()
    optimizer.step()
    expect_same_bits(model)


@check
def sparse_gradients_travel_as_indices_and_values() -> None:
    results = []
    for sparse, as_dense in ((True, False), (True, True), (False, False)):
        torch.manual_seed(0)
        table = nn.Embedding(10, 4, sparse=sparse)
        optimizer = hvd.DistributedOptimizer(
            torch.optim.SGD(table.parameters(), lr=0.1),
            named_parameters=table.named_parameters(),
            sparse_as_dense=as_dense,
            gradient_predivide_factor=2.0,
        )
        for step in range(4):
            optimizer.zero_grad()
            # In the last step only one rank has rows.
            if step < 3 or hvd.rank() == 0:
                table(torch.tensor([hvd.rank(), 5, 5, step])).sum().backward()
            optimizer.step()
            assert as_dense or table.weight.grad.is_sparse == sparse
        expect_same_bits(table)
        results.append(table.weight.detach())
    for result in results[1:]:
        torch.testing.assert_close(result, results[0])
    if hvd.size() > 1:  # one rank alone reduces nothing
        what_sparse_gradients_cannot_be_is_refused()


def what_sparse_gradients_cannot_be_is_refused() -> None:
    table = nn.Embedding(10, 4, sparse=True)
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(table.parameters(), lr=0.1), op=hvd.Max)
    expect(ValueError, lambda: table(torch.tensor([hvd.rank()])).sum().backward(), "Max")
    row = torch.tensor([hvd.rank()])
    tables = nn.Sequential(nn.Embedding(10, 4, sparse=True), nn.Embedding(10, 4, sparse=True))
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(tables.parameters(), lr=0.1), op=hvd.Max, groups=1)
    (tables[0](row) + tables[1](row)).sum().backward()
    expect(ValueError, optimizer.step, "Max")


@check
def wrong_arguments_are_named() -> None:
    model = make_model()
    named = list(model.named_parameters())
    optimizer = sgd(model.parameters())
    wrap = hvd.DistributedOptimizer
    expect(ValueError, lambda: wrap(optimizer, named_parameters=[("same", p) for _, p in named]), "same")
    expect(ValueError, lambda: wrap(optimizer, named_parameters=named[1:]), "[4, 2, 3, 3]")
    expect(ValueError, lambda: wrap(optimizer, named_parameters=model.parameters()), "tuples")
    expect(ValueError, lambda: wrap(optimizer, op=hvd.Sum, gradient_predivide_factor=2.0), "gradient_predivide_factor")
    expect(ValueError, lambda: wrap(optimizer, groups=-1), "groups")
    expect(ValueError, lambda: wrap(optimizer, groups=0), "groups")
    expect(ValueError, lambda: wrap(optimizer, groups=[named[0][1]]), "groups")
    expect(ValueError, lambda: wrap(optimizer, groups=[[named[0][1]], [named[0][1]]]), "once")
    expect(ValueError, lambda: wrap(optimizer, backward_passes_per_step=0), "backward_passes_per_step")
    expect(ValueError, lambda: wrap(wrap(optimizer)), "already")


@check
def communication_overlaps_backward() -> None:
    gradients = 16 if hvd.size() > 1 else 0  # that travel
    model = nn.Sequential(*[nn.Linear(32, 32) for _ in range(8)])
    optimizer = hvd.DistributedOptimizer(
        torch.optim.SGD(model.parameters(), lr=0.1), named_parameters=model.named_parameters()
    )
    seen = []
    model[0].weight.register_hook(
        lambda _: seen.append(hvd.counters().submissions)
    )  # runs before the first layer's gradient is there
    before = hvd.counters().submissions
    model(torch.randn(4, 32)).sum().backward()
    submitted = seen[0] - before
    assert submitted >= gradients - 2, f"only {submitted} of {gradients} gradients travelled before the end of backward"
    optimizer.step()
    optimizer.zero_grad()
    before = hvd.counters().submissions  # without those that made the arena in the first step
    model(torch.randn(4, 32)).sum().backward()
    optimizer.step()
    assert hvd.counters().submissions - before == gradients
