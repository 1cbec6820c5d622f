"""Arenas and whole processes: shutdown, the next epoch, forks, and a death in the middle of a reduction."""

import subprocess
from typing import Callable

import pytest

Job = Callable[..., "subprocess.CompletedProcess[str]"]

TRAINING = """
import os, signal, sys, threading
import farandole.torch as hvd, torch
def train(model, steps, **options):
    optimizer = hvd.DistributedOptimizer(
        torch.optim.SGD(model.parameters(), lr=0.01), named_parameters=model.named_parameters(), **options)
    for step in steps:
        optimizer.zero_grad()
        model(torch.full((2, 300), float(hvd.rank()))).sum().backward()
        optimizer.step()
    return optimizer
def make_model():
    torch.manual_seed(1)
    return torch.nn.Linear(300, 300)
"""

SHUTDOWN = """
model = make_model()
for life in range(3):
    hvd.init()
    before = hvd.counters().arena_bytes
    optimizer = train(model, range(3), gradient_arena=True)
    assert hvd.counters().arena_bytes - before == 2 * (300 * 300 + 300) * 4
    gradient = model.weight.grad
    kept = gradient.clone()
    hvd.shutdown()
    optimizer = None
    assert torch.equal(gradient, kept), "memory outlives the epoch that it was made for"
    gradient.add_(1)
print("good", flush=True)
"""


def test_gradients_outlive_their_epoch_and_the_next_has_new_arenas(job: Job) -> None:
    result = job(2, TRAINING + SHUTDOWN)
    assert result.returncode == 0 and result.stdout.count("good") == 2, result.stdout


FORK = """
from torch.utils.data import DataLoader
hvd.init()
model = make_model()
optimizer = train(model, range(3), gradient_arena=True)
expected = model.weight.grad.clone()
child = os.fork()
if child == 0:
    assert torch.equal(model.weight.grad, expected)
    parameters = list(model.parameters())
    own = torch.autograd.grad(model(torch.ones(2, 300)).sum(), parameters)
    for parameter, gradient in zip(parameters, own):
        parameter.grad.copy_(gradient)
    torch.optim.SGD(parameters, lr=0.1).step()
    model.weight.grad.fill_(7)
    grandchild = os.fork()
    assert bool((model.weight.grad == 7).all())
    if grandchild:
        assert os.waitpid(grandchild, 0)[1] == 0
    model.zero_grad()  # drops the child's view; the parent has its own
    del optimizer
    raise SystemExit(0)  # the way out with atexit and destructors
assert os.waitpid(child, 0)[1] == 0
assert torch.equal(model.weight.grad, expected), "a child writes into its parent's gradients"
for batch in DataLoader(torch.ones(64, 3), batch_size=8, num_workers=2, multiprocessing_context="fork"):
    optimizer.zero_grad()
    (model(torch.full((2, 300), float(hvd.rank()))).sum() + batch.sum()).backward()
    optimizer.step()
assert torch.equal(model.weight.grad, expected)
before = hvd.counters().arena_bytes
optimizer.zero_grad()
model(torch.ones(2, 300)).sum().backward()
optimizer.step()
assert hvd.counters().arena_bytes > before
print("good", flush=True)
"""


def test_forked_children_and_data_loaders_do_an_arena_no_harm(job: Job) -> None:
    result = job(2, TRAINING + FORK)
    assert result.returncode == 0 and result.stdout.count("good") == 2, result.stdout


KILL = """
import os, signal, threading
import farandole.numpy as hvd
hvd.init()
array = hvd.arena((4 << 20,), "float32", "large")
if hvd.rank() == 1:
    # In the middle of a reduction, but for a few times in a hundred.
    threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGKILL)).start()
try:
    while True:
        hvd.allreduce_(array, name="large")
except hvd.EpochEnded as error:
    array[:] = 1
    print(f"told: {error}", flush=True)
"""


@pytest.mark.parametrize("size", (2, 4))
def test_rank_that_is_killed_in_an_arena_is_named_and_the_memory_stays(size: int, job: Job) -> None:
    result = job(size, KILL)
    assert result.returncode == 128 + 9, result.stdout
    assert result.stdout.count("told: rank 1 ") == size - 1, result.stdout


VACATED = """
hvd.init()
model = make_model()
optimizer = train(model, range(3), gradient_arena=True)
address = model.weight.grad.data_ptr()
if hvd.rank() == 1:
    os.kill(os.getpid(), signal.SIGKILL)
try:
    optimizer.zero_grad(set_to_none=False)
    model(torch.ones(2, 300)).sum().backward()
    optimizer.step()
except hvd.EpochEnded:
    assert model.weight.grad.data_ptr() != address
    print("moved out", flush=True)
"""


def test_gradients_leave_the_arena_when_its_epoch_ends(job: Job) -> None:
    # Peers that were stopped may still write there.
    result = job(2, TRAINING + VACATED)
    assert result.returncode == 128 + 9 and "moved out" in result.stdout, result.stdout


OFF = """
hvd.init()
os.environ["FARANDOLE_GRADIENT_ARENA"] = "0"
train(make_model(), range(3))
assert hvd.counters().arena_bytes == 0
os.environ["FARANDOLE_GRADIENT_ARENA"] = "1"
train(make_model(), range(3), gradient_arena=False)
assert hvd.counters().arena_bytes == 0
train(make_model(), range(3))
assert hvd.counters().arena_bytes > 0
print("good", flush=True)
"""


def test_arenas_are_on_and_can_be_turned_off(job: Job) -> None:
    result = job(2, TRAINING + OFF)
    assert result.returncode == 0 and result.stdout.count("good") == 2, result.stdout
