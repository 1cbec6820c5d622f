"""DistributedOptimizer with every optimizer of torch.optim, and with what programs put around it."""

import copy
import threading
from typing import Any, Dict, Iterator, List
from unittest import mock

import farandole.torch as hvd
import torch
from farandole.data import AsyncDataLoaderMixin, BaseDataLoader
from harness import Checks, expect_error
from torch import nn

check = Checks()

STEPS = 3

# Arguments of those that need some.
ARGUMENTS: Dict[str, Dict[str, Any]] = {
    "SGD": {"lr": 0.1, "momentum": 0.9, "nesterov": True},
    "RMSprop": {"lr": 0.01, "momentum": 0.9, "centered": True},
    "Adam": {"lr": 0.01, "amsgrad": True},
    "LBFGS": {"lr": 0.1, "max_iter": 3},
}

OPTIMIZERS: List[str] = sorted(
    each.__name__
    for each in vars(torch.optim).values()
    if isinstance(each, type) and issubclass(each, torch.optim.Optimizer) and each is not torch.optim.Optimizer
)


def make(kind: str, model: nn.Module) -> torch.optim.Optimizer:
    return getattr(torch.optim, kind)(model.parameters(), **ARGUMENTS.get(kind, {}))


def make_model(kind: str) -> nn.Module:
    torch.manual_seed(5)
    if kind == "SparseAdam":
        return nn.Sequential(nn.Embedding(8, 4, sparse=True), nn.Flatten())
    # Muon takes matrices only.
    return nn.Sequential(nn.Linear(4, 4, bias=False), nn.Tanh(), nn.Linear(4, 4, bias=False)).double()


def inputs(kind: str, step: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(step)
    if kind == "SparseAdam":
        return torch.randint(0, 8, (2 * hvd.size(), 1), generator=generator)
    return torch.randn(2 * hvd.size(), 4, generator=generator, dtype=torch.float64)


def train(optimizer: torch.optim.Optimizer, model: nn.Module, kind: str, mine: slice, steps: int = STEPS) -> None:
    for step in range(steps):

        def closure() -> torch.Tensor:
            optimizer.zero_grad()
            loss = model(inputs(kind, step)[mine]).square().mean()  # noqa: B023
            loss.backward()
            return loss

        if kind == "LBFGS":
            optimizer.step(closure)
        else:
            closure()
            optimizer.step()


def flat(model: nn.Module) -> torch.Tensor:
    return torch.cat([parameter.detach().flatten() for parameter in model.parameters()])


@check.each(*OPTIMIZERS)
def every_optimizer_steps_as_one_process_does(kind: str) -> None:
    alone, together = make_model(kind), make_model(kind)
    mine = slice(2 * hvd.rank(), 2 * hvd.rank() + 2)
    train(make(kind, alone), alone, kind, slice(None))
    options = {"sparse_as_dense": True} if kind == "SparseAdam" else {}
    optimizer = hvd.DistributedOptimizer(make(kind, together), together.named_parameters(), **options)
    train(optimizer, together, kind, mine)
    close = {"rtol": 1e-4, "atol": 1e-5} if kind in ("SparseAdam", "Muon") else {"rtol": 1e-7, "atol": 1e-9}
    torch.testing.assert_close(flat(together), flat(alone), **close)
    everyone = hvd.allgather(flat(together).view(1, -1))
    assert all(torch.equal(other, everyone[0]) for other in everyone)


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, torch.Tensor):
        return one.dtype == other.dtype and torch.equal(one.to_dense(), other.to_dense())
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(_same(one[key], other[key]) for key in one)
    if isinstance(one, (list, tuple)):
        return type(one) is type(other) and len(one) == len(other) and all(map(_same, one, other))
    return type(one) is type(other) and one == other


@check.each(*(f"{kind}-{which}" for kind in OPTIMIZERS for which in ("fresh", "root", "all")))
def the_state_of_every_optimizer_is_broadcast(case: str) -> None:
    """No rank has state; or the root only; or all have, and different ones."""
    kind, which = case.split("-")
    root = min(1, hvd.size() - 1)
    model = make_model(kind)
    optimizer = make(kind, model)
    if which == "all" or (which == "root" and hvd.rank() == root):
        train(optimizer, model, kind, slice(None), steps=hvd.rank() + 1)
    optimizer.param_groups[0]["lr"] = 0.5 + hvd.rank()
    wrapped = hvd.DistributedOptimizer(optimizer, model.named_parameters(), sparse_as_dense=True)
    hvd.broadcast_optimizer_state(wrapped, root)
    states = hvd.allgather_object(copy.deepcopy(wrapped.state_dict()))
    assert all(_same(states[0], state) for state in states), states
    assert wrapped.param_groups[0]["lr"] == 0.5 + root


@check
def scaled_gradients_are_unscaled_after_synchronize() -> None:
    """As Horovod's documentation tells to use torch.amp: where one rank overflows, all of them leave the step out."""
    model = nn.Linear(3, 1, bias=False)
    nn.init.ones_(model.weight)
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=1.0), model.named_parameters())
    scaler = torch.amp.GradScaler("cpu", init_scale=8.0)

    def step(value: float) -> None:
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = model(torch.full((1, 3), value)).sum()
        scaler.scale(loss).backward()
        optimizer.synchronize()
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 100.0)
        with optimizer.skip_synchronize():
            scaler.step(optimizer)
        scaler.update()

    step(1.0 + 2 * hvd.rank())
    mean = sum(1.0 + 2 * rank for rank in range(hvd.size())) / hvd.size()
    torch.testing.assert_close(model.weight, torch.full((1, 3), 1.0 - mean))
    before = model.weight.detach().clone()
    step(float("inf") if hvd.rank() == 0 else 1.0)
    assert torch.equal(model.weight, before) and scaler.get_scale() == 4.0


@check
def compiled_models_train_alike() -> None:
    kind = "SGD"
    plain, compiled = make_model(kind), make_model(kind)
    mine = slice(2 * hvd.rank(), 2 * hvd.rank() + 2)
    for model, call in ((plain, plain), (compiled, torch.compile(compiled, backend="eager"))):
        optimizer = hvd.DistributedOptimizer(make(kind, model), model.named_parameters())
        train(optimizer, call, kind, mine)
    torch.testing.assert_close(flat(compiled), flat(plain), rtol=1e-12, atol=1e-12)


@check
def what_is_compiled_may_hold_collectives_and_whole_steps() -> None:
    """The compiler leaves them as they are, between its parts."""
    plain, compiled = make_model("SGD"), make_model("SGD")
    mine = slice(2 * hvd.rank(), 2 * hvd.rank() + 2)
    results = []
    for model, wrap in ((plain, lambda f: f), (compiled, torch.compile(backend="eager"))):
        optimizer = hvd.DistributedOptimizer(make("SGD", model), model.named_parameters())

        @wrap
        def step(number: int) -> torch.Tensor:
            optimizer.zero_grad()  # noqa: B023
            rows = hvd.allgather(model(inputs("SGD", number)[mine]) * 2)  # noqa: B023
            loss = hvd.allreduce(rows.square().mean(), op=hvd.Sum, name="loss") + 1
            loss.backward()
            optimizer.step()  # noqa: B023
            return hvd.synchronize(hvd.allreduce_async(loss.detach() + 1, op=hvd.Max))

        results.append([step(number).item() for number in range(STEPS)])
    torch.testing.assert_close(torch.tensor(results[0]), torch.tensor(results[1]), rtol=1e-6, atol=0)
    torch.testing.assert_close(flat(compiled), flat(plain), rtol=1e-12, atol=1e-12)


@check
def a_state_may_be_loaded_between_backward_and_step() -> None:
    model = make_model("SGD")
    optimizer = hvd.DistributedOptimizer(make("SGD", model), model.named_parameters())
    train(optimizer, model, "SGD", slice(None), steps=1)
    saved = copy.deepcopy(optimizer.state_dict())
    model(inputs("SGD", 0)).sum().backward()
    optimizer.load_state_dict(saved)
    optimizer.zero_grad()
    train(optimizer, model, "SGD", slice(None), steps=1)
    assert _same(hvd.allgather_object(flat(model))[0], flat(model))


@check
def groups_must_hold_tensors() -> None:
    model = make_model("SGD")
    expect_error(
        ValueError,
        lambda: hvd.DistributedOptimizer(make("SGD", model), model.named_parameters(), groups=[["0.weight"]]),
        "torch.Tensor",
    )


@check
def learning_rates_warm_up_as_the_guide_tells() -> None:
    """docs/migration.md: from the rate of one worker to that of all within five passes."""
    model = make_model("SGD")
    optimizer = hvd.DistributedOptimizer(
        torch.optim.SGD(model.parameters(), lr=0.0125 * hvd.size()), model.named_parameters()
    )
    warmup = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda done: min(1.0, (1 + done * (hvd.size() - 1) / 5) / hvd.size())
    )
    rates = []
    for _ in range(7):
        rates.append(optimizer.param_groups[0]["lr"])
        train(optimizer, model, "SGD", slice(None), steps=1)
        warmup.step()
    grown = [0.0125 * (1 + done * (hvd.size() - 1) / 5) for done in range(6)]
    torch.testing.assert_close(torch.tensor(rates), torch.tensor([*grown, 0.0125 * hvd.size()]))


class Numbers(AsyncDataLoaderMixin, BaseDataLoader):
    """0, 1 and 2."""

    def __len__(self) -> int:
        return 3

    def _iterate(self) -> Iterator[int]:
        return iter(range(3))


@check
def a_loaders_thread_uses_the_gpu_of_its_loop() -> None:
    """CUDA's threads begin with the first one."""
    used: List[Any] = []
    of_thread = {
        "is_initialized": lambda: True,
        "current_device": lambda: 3,
        "set_device": lambda index: used.append((index, threading.current_thread().name)),
    }
    with mock.patch.multiple(torch.cuda, **of_thread):
        assert list(Numbers()) == [0, 1, 2]
    assert used == [(3, "farandole-data")]


class OneNumber(Numbers):
    """0."""

    def _iterate(self) -> Iterator[int]:
        return iter(range(1))


@check
def a_pass_that_a_newer_one_has_ended_says_so() -> None:
    """Its loop would lack batches, and take the end for that of the data."""
    wanted = "another pass of this loader has begun"
    # Read ahead up to the end, and not.
    for loader in (Numbers(), Numbers(1)):
        expect_error(RuntimeError, lambda loader=loader: list(zip(loader, loader)), wanted)
        first, second = iter(loader), iter(loader)
        assert (next(first), next(second), next(second)) == (0, 0, 1)
        expect_error(RuntimeError, lambda first=first: next(first), wanted)
        assert list(second) == [2], "the newer pass goes on"
        for number in loader:
            if number == 1:
                break
        assert list(loader) == [0, 1, 2], "a pass that is left early may be followed by another one"
        # A pass that has nothing more to give ends as always.
        first = iter(loader)
        assert [next(first) for _ in range(3)] == list(loader) == [0, 1, 2] and not list(first)
        # One that its program has ended is no mistake.
        first = iter(loader)
        assert next(first) == 0
        loader.close_async_loader()
        assert set(first) <= {1, 2}
    assert list(zip(*[OneNumber()] * 2)) == [(0, 0)]
