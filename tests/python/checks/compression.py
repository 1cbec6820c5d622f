"""Gradients that travel as 8-bit integers or as matrices of low rank."""

from typing import Any, List

import farandole.torch as hvd
import torch
from harness import Checks, expect_error
from torch import nn
from torch.nn import functional

check = Checks()

EXCHANGES = {
    "int8": lambda: hvd.Compression.int8(min_elements=0, block=16),
    "powersgd": lambda: hvd.Compression.powersgd(rank=2, start_step=0, min_ratio=1.0),
}


def gradients_of(compression: Any, given: List[torch.Tensor], **options: Any) -> List[torch.Tensor]:
    """The reduced gradients of one parameter; each step brings the next of those given."""
    parameter = nn.Parameter(torch.zeros_like(given[0]))
    optimizer = hvd.DistributedOptimizer(
        torch.optim.SGD([parameter], lr=0.0), [("p", parameter)], compression=compression, **options
    )
    reduced = []
    for gradient in given:
        optimizer.zero_grad()
        (parameter * gradient).sum().backward()
        optimizer.synchronize()
        reduced.append(parameter.grad.clone())
        with optimizer.skip_synchronize():
            optimizer.step()
    for tensor in reduced:
        everyone = hvd.allgather(tensor.view(1, -1).nan_to_num(7.0))
        assert all(torch.equal(other, everyone[0]) for other in everyone), "ranks have other bits"
    return reduced


def own(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """Another one on each rank."""
    generator = torch.Generator().manual_seed(100 * seed + hvd.rank())
    return torch.randn(*shape, generator=generator).to(dtype)


def mean(tensor: torch.Tensor) -> torch.Tensor:
    return hvd.allreduce(tensor.double(), op=hvd.Average)


@check.each((40, 30), (7,), (3, 4, 5, 6))
def bytes_are_near_the_mean(*shape: int) -> None:
    gradient = own(*shape)
    (found,) = gradients_of(EXCHANGES["int8"](), [gradient])
    # A half of a 127th of the greatest of a block, twice.
    torch.testing.assert_close(found.double(), mean(gradient), rtol=0, atol=4.5 / 127)
    (total,) = gradients_of(EXCHANGES["int8"](), [gradient], op=hvd.Sum)
    torch.testing.assert_close(total.double(), mean(gradient) * hvd.size(), rtol=0, atol=4.5 / 127 * hvd.size())


@check.each("float64", "float16", "bfloat16")
def gradients_keep_their_type(name: str) -> None:
    dtype = getattr(torch, name)
    random = torch.Generator().manual_seed(3)
    # A multiple of one matrix of rank 2 on all ranks, so that it is of rank 2 together.
    left, right = (torch.randn(*shape, generator=random, dtype=torch.float64) for shape in ((32, 2), (2, 32)))
    gradient = (left @ right).to(dtype) * (hvd.rank() + 1)
    for kind in EXCHANGES:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            (found,) = gradients_of(EXCHANGES[kind](), [gradient])
        assert found.dtype == gradient.dtype
        limit = {"int8": 0.05, "powersgd": {"float64": 1e-12, "float16": 2e-3, "bfloat16": 2e-2}[name]}[kind]
        wanted = mean(gradient)
        torch.testing.assert_close(found.double(), wanted, rtol=0, atol=limit * wanted.abs().max().item())


@check
def a_matrix_of_low_rank_is_exact() -> None:
    left, right = own(20, 2, seed=1), torch.randn(2, 30, generator=torch.Generator().manual_seed(5))
    (found,) = gradients_of(EXCHANGES["powersgd"](), [left @ right])
    torch.testing.assert_close(found, mean(left @ right).float(), rtol=1e-4, atol=1e-4)
    full = own(6, 9, seed=2)
    wide = hvd.Compression.powersgd(rank=6, start_step=0, min_ratio=1.0)
    assert (6 + 9) * 6 > 6 * 9, "it travels as it is"
    (found,) = gradients_of(wide, [full])
    torch.testing.assert_close(found, mean(full).float(), rtol=1e-5, atol=1e-6)


@check.each("int8", "powersgd")
def what_was_left_out_comes_later(kind: str) -> None:
    """Of the same gradient again and again, the mean over steps comes near the gradient."""
    gradient = own(24, 40, seed=3)
    steps = 60
    found = gradients_of(EXCHANGES[kind](), [gradient] * steps)
    wanted = mean(gradient)
    first = (found[0].double() - wanted).norm()
    over_steps = (torch.stack(found).double().mean(dim=0) - wanted).norm()
    if hvd.size() > 1:
        assert over_steps < first / 4, f"{over_steps} is not much nearer than {first}"


@check.each("int8", "powersgd")
def gradients_of_zero_or_that_are_not_finite_are_no_end(kind: str) -> None:
    zero, broken = torch.zeros(20, 30), own(20, 30)
    if hvd.rank() == 0:
        broken[3, 4] = float("inf")
    low = own(20, 1, seed=4) @ torch.ones(1, 30)
    found = gradients_of(EXCHANGES[kind](), [zero, broken, low, low])
    assert torch.equal(found[0], zero)
    assert not torch.isfinite(found[1]).all(), "a GradScaler must see it"
    assert torch.isfinite(found[3]).all()
    if kind == "int8":
        torch.testing.assert_close(found[3].double(), mean(low), rtol=0, atol=0.1)


@check
def the_first_steps_travel_as_they_are() -> None:
    given = [own(40, 40, seed=step) for step in range(3)]
    found = gradients_of(hvd.Compression.powersgd(rank=1, start_step=2), given)
    for gradient, reduced in zip(given[:2], found):
        torch.testing.assert_close(reduced, mean(gradient).float(), rtol=1e-5, atol=1e-6)
    if hvd.size() > 1:
        assert torch.linalg.matrix_rank(found[2]) == 1


@check
def fewer_bytes_travel() -> None:
    if hvd.size() == 1:
        return
    sent = {}
    for kind, compression in (
        ("none", hvd.Compression.none),
        ("int8", hvd.Compression.int8()),
        ("powersgd", hvd.Compression.powersgd(rank=4, start_step=0)),
    ):
        before = hvd.counters().bytes
        gradients_of(compression, [own(256, 256)])
        # Without those of the comparison.
        sent[kind] = hvd.counters().bytes - before - 4 * 256 * 256
    # The ring of an allreduce moves each byte twice, an alltoall and an allgather once.
    assert sent["int8"] < sent["none"] * 0.6 and sent["powersgd"] < sent["none"] / 10, sent


@check.each("int8", "powersgd")
def a_model_learns(kind: str) -> None:
    torch.manual_seed(7)
    model = nn.Sequential(
        nn.Conv2d(1, 8, 3), nn.Tanh(), nn.Flatten(), nn.Linear(8 * 36, 32), nn.Tanh(), nn.Linear(32, 4)
    )
    generator = torch.Generator().manual_seed(hvd.rank())
    images = torch.randn(64, 1, 8, 8, generator=generator)
    labels = images[:, 0, :4, :4].mean(dim=(1, 2)).gt(0).long() + 2 * images[:, 0, 4:, 4:].mean(dim=(1, 2)).gt(0).long()
    optimizer = hvd.DistributedOptimizer(
        torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9),
        model.named_parameters(),
        compression=EXCHANGES[kind](),
        gradient_predivide_factor=2.0,
        backward_passes_per_step=2,
    )
    losses = []
    for _ in range(30):
        optimizer.zero_grad()
        for half in (slice(0, 32), slice(32, 64)):
            loss = functional.cross_entropy(model(images[half]), labels[half]) / 2
            loss.backward()
        optimizer.step()
        losses.append(float(hvd.allreduce(loss.detach())))
    assert losses[-1] < 0.6 * losses[0], losses
    flat = torch.cat([parameter.detach().flatten() for parameter in model.parameters()])
    everyone = hvd.allgather(flat.view(1, -1))
    assert all(torch.equal(other, everyone[0]) for other in everyone)


@check.each("none", "grouped", "int8", "powersgd")
def uneven_data_and_what_comes_after_it(kind: str) -> None:
    """Ranks have different numbers of steps before each join, also the first ones of all."""
    made = {"none": lambda: hvd.Compression.none, "int8": EXCHANGES["int8"]}
    made["grouped"] = made["none"]
    made["powersgd"] = lambda: hvd.Compression.powersgd(rank=2, start_step=3, min_ratio=1.0)
    torch.manual_seed(11)
    layers = [nn.Parameter(torch.zeros(24, 20)), nn.Parameter(torch.zeros(50))]
    optimizer = hvd.DistributedOptimizer(
        torch.optim.SGD(layers, lr=0.0),
        [("matrix", layers[0]), ("vector", layers[1])],
        compression=made[kind](),
        groups=1 if kind == "grouped" else None,
    )
    for turn in range(3):
        for step in range(2 * ((hvd.rank() + turn) % hvd.size())):
            optimizer.zero_grad()
            sum((layer * (step + 1.0)).sum() for layer in layers).backward()
            optimizer.synchronize()
            present = sum(2 * ((rank + turn) % hvd.size()) > step for rank in range(hvd.size()))
            for layer in layers:
                wanted = torch.full_like(layer, (step + 1.0) * present / hvd.size())
                torch.testing.assert_close(layer.grad, wanted, rtol=0.02, atol=0.02)
            with optimizer.skip_synchronize():
                optimizer.step()
        hvd.join()
    optimizer.zero_grad()
    sum((layer * (hvd.rank() + 1.0)).sum() for layer in layers).backward()
    optimizer.step()
    for layer in layers:
        torch.testing.assert_close(layer.grad, torch.full_like(layer, (hvd.size() + 1) / 2), rtol=0.02, atol=0.02)
        everyone = hvd.allgather(layer.grad.reshape(1, -1))
        assert all(torch.equal(other, everyone[0]) for other in everyone)


class Largest(hvd.GradientExchange):
    """An exchange of a program's own: the largest element of each gradient travels, and nothing else."""

    def reduce(self, name: str, gradient: torch.Tensor, terms: Any) -> Any:
        flat = gradient.flatten()
        at = flat.abs().argmax().view(1, 1)
        sparse = torch.sparse_coo_tensor(at, flat[at[0]], flat.shape)
        reduced = yield hvd.sparse_allreduce_async(sparse, name, terms.op, terms.process_set)
        total = yield hvd.allreduce_async(
            torch.ones(1), op=hvd.Sum, name=f"{name}.ranks", process_set=terms.process_set
        )
        assert total.item() == terms.process_set.size()
        return reduced.to_dense().view(gradient.shape)


@check
def an_exchange_of_ones_own_is_a_method() -> None:
    gradient = torch.zeros(3, 4)
    gradient[1, 2], gradient[0, 0] = 4.0, 1.0
    (found,) = gradients_of(Largest(), [gradient])
    gradient[0, 0] = 1.0 if hvd.size() == 1 else 0.0
    assert torch.equal(found, gradient), found

    class Nothing(hvd.GradientExchange):
        def reduce(self, name: str, gradient: torch.Tensor, terms: Any) -> Any:
            return gradient
            yield

    if hvd.size() > 1:
        expect_error(TypeError, lambda: gradients_of(Nothing(), [gradient]), "Nothing.reduce() has begun no operation")


@check.each("int8", "powersgd")
def a_step_that_is_left_out_leaves_nothing_behind(kind: str) -> None:
    """A gradient that overflows in a part of it."""
    broken = torch.full((32, 32), 1e4) + own(32, 32, seed=8)
    broken[0, 0] = float("inf")
    low = torch.ones(32, 1) @ own(1, 32, seed=9)
    found = gradients_of(EXCHANGES[kind](), [broken, low])
    torch.testing.assert_close(found[1].double(), mean(low), rtol=0, atol=0.06)


@check
def they_keep_to_their_set() -> None:
    if hvd.size() < 3:
        return
    within = hvd.add_process_set(list(range(hvd.size() - 1)))
    for kind, make in EXCHANGES.items():
        parameter = nn.Parameter(torch.zeros(16, 16))
        optimizer = hvd.DistributedOptimizer(
            torch.optim.SGD([parameter], lr=1.0), [(kind, parameter)], compression=make(), process_set=within
        )
        (parameter * float(hvd.rank() + 1)).sum().backward()
        optimizer.step()
        wanted = sum(within.ranks) / len(within.ranks) + 1.0 if within.included() else hvd.rank() + 1.0
        torch.testing.assert_close(parameter.detach(), torch.full((16, 16), -wanted), rtol=1e-2, atol=1e-2)
    hvd.remove_process_set(within)


@check
def what_does_not_go_together_is_refused() -> None:
    parameter = nn.Parameter(torch.zeros(4, 4))

    def wrap(**options: Any) -> Any:
        return hvd.DistributedOptimizer(torch.optim.SGD([parameter], lr=1.0), [("p", parameter)], **options)

    assert wrap(compression=hvd.Compression.int8) is not None, "the class stands for an object with its defaults"
    expect_error(ValueError, lambda: wrap(compression=hvd.Compression.int8(), op=hvd.Max), "Int8", "Max")
    expect_error(ValueError, lambda: wrap(compression=hvd.Compression.powersgd(), op=hvd.Adasum), "PowerSGD", "Adasum")
    expect_error(ValueError, lambda: wrap(compression=hvd.Compression.powersgd, groups=1), "groups")
    expect_error(ValueError, lambda: hvd.Compression.powersgd(rank=0), "rank=0")
    expect_error(ValueError, lambda: hvd.Compression.int8(block=0), "block=0")
    expect_error(
        ValueError, lambda: hvd.allreduce(torch.ones(3), compression=hvd.Compression.int8()), "DistributedOptimizer"
    )
    expect_error(
        ValueError, lambda: hvd.allreduce(torch.ones(3), compression=hvd.Compression.powersgd), "DistributedOptimizer"
    )
