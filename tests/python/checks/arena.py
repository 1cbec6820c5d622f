"""Gradients and arrays in arenas: the same bits as elsewhere, and reduced in place where the ranks share memory."""

import copy
import functools
import gc
from typing import Any, Dict, List, Tuple

import farandole.numpy as numpy_view
import farandole.torch as hvd
import numpy
import torch
from farandole._arena import make
from harness import Checks
from torch import nn
from torch.nn import functional

check = Checks()

STEPS = 5


def shares_memory() -> bool:
    """Whether this job can have arenas."""
    try:
        numpy_view.arena((1,), numpy.uint8, "probe")
    except NotImplementedError as error:
        assert "share memory" in str(error)
        return False
    return True


def gradients_share_memory() -> bool:
    """Whether this job's gradients can lie in arenas: not those of one rank, nor of models that are elsewhere."""
    return hvd.size() > 1 and torch.empty(0).is_cpu and shares_memory()


def own(count: int, dtype: Any = numpy.float32) -> numpy.ndarray:
    return numpy.random.RandomState(hvd.rank()).rand(count).astype(dtype)


@check.each("float16", "float32", "float64", "int32", "uint8")
def arrays_in_an_arena_have_the_bits_of_others(dtype: str) -> None:
    if not shares_memory():
        return
    values = (own(300_001) * 9).astype(dtype)
    array = numpy_view.arena((300_001,), dtype, f"bits.{dtype}")
    assert not array.any() and array.ctypes.data % 4096 == 0
    for options in ({"op": hvd.Sum}, {"op": hvd.Average}, {"op": hvd.Max}, {"op": hvd.Sum, "prescale_factor": 0.3}):
        array[:] = values
        before = hvd.counters().arena_bytes
        numpy_view.allreduce_(array, name=f"in.{dtype}", **options)
        assert hvd.counters().arena_bytes == before + array.nbytes
        other = numpy_view.allreduce(values, name=f"out.{dtype}", **options)
        assert array.tobytes() == other.tobytes()
    assert hvd.counters().arena_bytes == before + array.nbytes


@check
def parts_of_an_arena_are_reduced_there_where_all_ranks_take_the_same() -> None:
    if not shares_memory():
        return
    array = numpy_view.arena((4, 50_000), numpy.float32, "parts")
    size = hvd.size()
    array[:] = 1
    before = hvd.counters().arena_bytes
    numpy_view.allreduce_(array[2], name="row", op=hvd.Sum)
    assert hvd.counters().arena_bytes == before + array[2].nbytes
    numpy_view.allreduce_(array[1 if hvd.rank() == 0 else 3], name="row", op=hvd.Sum)
    mine = 1 if hvd.rank() == 0 else 3
    assert [set(row) for row in array] == [{size if row in (2, mine) else 1} for row in range(4)]
    assert hvd.counters().arena_bytes == before + array[2].nbytes * (2 if size == 1 else 1)


@check
def ranks_that_ask_for_other_sizes_are_told() -> None:
    if hvd.size() == 1 or not shares_memory():
        return
    try:
        numpy_view.arena((1000 + hvd.rank(),), numpy.uint8, "sizes")
    except ValueError as error:
        assert "arena sizes: rank 0" in str(error) and "1000 bytes" in str(error) and "1001" in str(error), error
    else:
        raise AssertionError("no ValueError")
    # The job goes on, and another attempt is another arena.
    assert numpy_view.arena((10,), numpy.uint8, "sizes").tolist() == [0] * 10


@check
def more_than_there_is_memory_is_refused_on_all_ranks() -> None:
    if not shares_memory():
        return
    for size in (1 << 39, 1 << 40, 1 << 41):
        try:
            make("much", size, hvd.global_process_set)
        except (hvd.QuotaError, ValueError) as error:
            assert "much" in str(error) or "no shared memory" in str(error) or "cannot map" in str(error), error
        else:
            raise AssertionError("no error")


@check
def memory_lives_as_long_as_arrays_do() -> None:
    if not shares_memory():
        return
    array = numpy_view.arena((1000,), numpy.int32, "alive")
    part = array.reshape(10, 100)[3:]
    part[:] = 7
    del array
    gc.collect()
    again = numpy_view.arena((1000,), numpy.int32, "alive")
    assert not again.any() and (part == 7).all()
    tensor = torch.from_numpy(part)
    del part
    gc.collect()
    assert hvd.allreduce_(tensor, op=hvd.Sum, name="alive").unique().tolist() == [7 * hvd.size()]


def make_model(dtype: torch.dtype = torch.float32) -> nn.Module:
    torch.manual_seed(3)
    return nn.Sequential(
        nn.Conv2d(2, 4, 3), nn.Tanh(), nn.Flatten(), nn.Linear(64, 100), nn.Tanh(), nn.Linear(100, 5)
    ).to(dtype)


def loss_of(model: nn.Module, step: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    generator = torch.Generator().manual_seed(100 * step + hvd.rank())
    images = torch.randn(4, 2, 6, 6, generator=generator).to(dtype)
    return functional.cross_entropy(model(images), torch.randint(0, 5, (4,), generator=generator))


def wrap(model: nn.Module, arena: bool, **options: Any) -> Any:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=0.01)
    names = [(f"{int(arena)}.{name}", parameter) for name, parameter in model.named_parameters()]
    return hvd.DistributedOptimizer(optimizer, named_parameters=names, gradient_arena=arena, **options)


def train(model: nn.Module, arena: bool, none: bool = True, **options: Any) -> Any:
    optimizer = wrap(model, arena, **options)
    dtype = next(model.parameters()).dtype
    passes = options.get("backward_passes_per_step", 1)
    for step in range(STEPS):
        optimizer.zero_grad(set_to_none=none)
        for number in range(passes):
            loss_of(model, step * passes + number, dtype).backward()
        optimizer.step()
    return optimizer


def expect_equal(model: nn.Module, other: nn.Module) -> None:
    for one, two in zip(model.parameters(), other.parameters()):
        assert torch.equal(one, two) and torch.equal(one.grad, two.grad)


def gradient_bytes(model: nn.Module) -> int:
    """Of those that travel through a transport, not within the order log."""
    sizes = [parameter.numel() * parameter.element_size() for parameter in model.parameters()]
    return sum(size for size in sizes if size > 72)


OPTIONS: Tuple[Dict[str, Any], ...] = (
    {},
    {"none": False},
    {"groups": 2},
    {"backward_passes_per_step": 2},
    {"backward_passes_per_step": 2, "none": False},
    {"gradient_predivide_factor": 2.0},
    {"op": hvd.Sum},
)


@check.each(*OPTIONS)
def training_in_an_arena_gives_the_same_bits(options: Dict[str, Any]) -> None:
    there, elsewhere = make_model(), make_model()
    before = hvd.counters().arena_bytes
    train(there, True, **options)
    inside = hvd.counters().arena_bytes - before
    train(elsewhere, False, **options)
    assert hvd.counters().arena_bytes == before + inside
    expect_equal(there, elsewhere)
    # From the second step on. Groups are not cut into what travels how.
    if gradients_share_memory() and "groups" not in options:
        assert inside == (STEPS - 1) * gradient_bytes(there), inside
    assert (inside > 0) == gradients_share_memory()


@check.each("float64", "bfloat16", "channels_last", "mixed")
def tensors_of_other_kinds_lie_there_too(kind: str) -> None:
    models: List[nn.Module] = []
    for arena in (True, False):
        model = make_model(getattr(torch, kind, torch.float64) if kind != "channels_last" else torch.float32)
        if kind == "channels_last":
            model = model.to(memory_format=torch.channels_last)
        if kind == "mixed":
            model[5].to(torch.float32)
            model[4] = nn.Sequential(nn.Tanh(), ToFloat())
        before = hvd.counters().arena_bytes
        train(model, arena)
        models.append(model)
        assert (hvd.counters().arena_bytes > before) == (arena and gradients_share_memory())
    expect_equal(*models)


class ToFloat(nn.Module):
    def forward(self, tensor: torch.Tensor) -> torch.Tensor:
        return tensor.float()


@check
def gradient_that_is_kept_stays_what_it_was() -> None:
    model = make_model()
    optimizer = wrap(model, True)
    kept: List[Any] = []
    for step in range(2 * STEPS):
        optimizer.zero_grad()
        loss_of(model, step).backward()
        optimizer.step()
        weight = model[3].weight.grad
        # Itself, a view of it, a part of it, and its memory as NumPy sees it.
        kept.append([weight, weight.view(-1), weight[1], weight.numpy()][step % 4])
        kept.append(copy.deepcopy(kept[-1]))
        del weight
    for one, two in zip(kept[::2], kept[1::2]):
        assert bool((one == two).all())
    kept.clear()
    before = hvd.counters().arena_bytes
    for step in range(2):
        optimizer.zero_grad()
        loss_of(model, step).backward()
        optimizer.step()
    if gradients_share_memory():
        assert hvd.counters().arena_bytes == before + 2 * gradient_bytes(model), "it goes back when it is let go"


@check
def parameters_may_come_later_freeze_and_be_left_out() -> None:
    models = []
    for arena in (True, False):
        model, late = make_model(), nn.Linear(5, 200)
        optimizer = wrap(model, arena)
        for step in range(3 * STEPS):
            if step == STEPS:
                optimizer.add_param_group({"params": late.parameters()})
            model[0].weight.requires_grad_(step % 3 != 1)
            optimizer.zero_grad()
            if step < STEPS or step % 2 == 0:
                loss_of(model, step).backward()
            else:
                late(model(torch.full((2, 2, 6, 6), float(hvd.rank())))).sum().backward()
            optimizer.step()
        models.append(nn.Sequential(model, late))
    for one, two in zip(*(model.parameters() for model in models)):
        assert torch.equal(one, two)


@check
def sparse_gradients_stay_outside() -> None:
    models = []
    for arena in (True, False):
        torch.manual_seed(1)
        model = nn.Sequential(nn.Embedding(50, 8, sparse=True), nn.Flatten(), nn.Linear(16, 40))
        names = [(f"s{int(arena)}.{name}", parameter) for name, parameter in model.named_parameters()]
        optimizer = hvd.DistributedOptimizer(
            torch.optim.SGD(model.parameters(), lr=0.1),
            named_parameters=names,
            sparse_as_dense=True,
            gradient_arena=arena,
        )
        for step in range(STEPS):
            optimizer.zero_grad()
            model(torch.tensor([[step, hvd.rank()], [7, 3]])).sum().backward()
            optimizer.step()
        models.append(model)
    for one, two in zip(*(model.parameters() for model in models)):
        assert torch.equal(one, two)


def lose(optimizer: Any, model: nn.Module, step: int) -> torch.Tensor:
    """A closure for LBFGS, when its arguments are bound."""
    optimizer.zero_grad()
    loss = loss_of(model, step, torch.float64)
    loss.backward()
    return loss


@check
def closures_and_gradients_that_the_program_sets_work() -> None:
    models = []
    for arena in (True, False):
        model = make_model(torch.float64)
        names = [(f"c{int(arena)}.{name}", parameter) for name, parameter in model.named_parameters()]
        optimizer = hvd.DistributedOptimizer(
            torch.optim.LBFGS(model.parameters(), max_iter=3), named_parameters=names, gradient_arena=arena
        )
        for step in range(3):
            optimizer.step(functools.partial(lose, optimizer, model, step))
        for parameter in model.parameters():
            parameter.grad = torch.full_like(parameter, hvd.rank() + 1.0)
        optimizer.synchronize()
        models.append(model)
    expect_equal(*models)
    expected = (hvd.size() + 1) / 2
    assert models[0][0].weight.grad.unique().tolist() == [expected]


@check
def other_ranks_of_a_set_have_their_own_arena() -> None:
    if hvd.size() < 3:
        return
    some = hvd.add_process_set([1, 2])
    model = make_model()
    before = hvd.counters().arena_bytes
    if some.included():
        train(model, True, process_set=some)
    together = {hvd.local_size()} == {hvd.size()} and gradients_share_memory()
    inside = hvd.counters().arena_bytes - before
    assert not together or inside == (some.included() and (STEPS - 1) * gradient_bytes(model)), inside
    hvd.remove_process_set(some)


@check
def rank_that_wants_no_arena_keeps_all_without() -> None:
    if hvd.size() == 1:
        return
    model = make_model()
    before = hvd.counters().arena_bytes
    names = [(f"w.{name}", parameter) for name, parameter in model.named_parameters()]
    optimizer = hvd.DistributedOptimizer(
        torch.optim.SGD(model.parameters(), lr=0.1), named_parameters=names, gradient_arena=hvd.rank() != 1
    )
    for step in range(3):
        optimizer.zero_grad()
        loss_of(model, step).backward()
        optimizer.step()
    assert hvd.counters().arena_bytes == before
