"""One process in several jobs, one after the other: shutdown() and init() again."""

import subprocess
from typing import Callable

Job = Callable[..., "subprocess.CompletedProcess[str]"]


def test_process_can_join_again_after_shutdown(job: Job) -> None:
    result = job(
        2,
        """
import farandole.numpy as hvd, numpy
for life in range(3):
    hvd.init(process_sets=[hvd.ProcessSet([0])])
    assert hvd.allreduce(numpy.ones(3), op=hvd.Sum, name="x").tolist() == [2.0] * 3
    hvd.shutdown()
print("good", flush=True)
""",
    )
    assert result.returncode == 0 and result.stdout.count("good") == 2, result.stdout


def test_an_optimizer_outlives_shutdown_and_serves_the_ranks_of_the_next_init(job: Job) -> None:
    result = job(
        3,
        """
import os, farandole.torch as hvd, torch

def make(**options):
    weight = torch.nn.Parameter(torch.zeros(1))
    return weight, hvd.DistributedOptimizer(torch.optim.SGD([weight], lr=1.0), named_parameters=[("w", weight)], **options)

def step(weight, optimizer):
    optimizer.zero_grad()
    (weight * (mine + 1)).sum().backward()
    optimizer.step()
    return weight.grad.item()

mine = int(os.environ["FARANDOLE_LAUNCH_INDEX"])
hvd.init([mine])
alone = make()
assert step(*alone) == mine + 1
hvd.shutdown()
hvd.init()
assert step(*alone) == 2, "it was made in a job of one"
pair = hvd.add_process_set([0, 1])
of_pair = make(process_set=pair)
assert step(*of_pair) == (1.5 if mine < 2 else 3)
hvd.shutdown()
hvd.init()
# It has the number that the other one had.
other = hvd.add_process_set([0, 2])
assert step(*alone) == 2
if mine < 2:
    try:
        step(*of_pair)
        raise AssertionError("it took part in another set")
    except ValueError as error:
        assert "is not registered" in str(error), error
hvd.add_process_set(pair)
assert step(*of_pair) == (1.5 if mine < 2 else 3)
print("good", flush=True)
""",
    )
    assert result.returncode == 0 and result.stdout.count("good") == 3, result.stdout


def test_the_ranks_of_the_next_init_compare_their_gradients_again(job: Job) -> None:
    result = job(
        2,
        """
import os, farandole.numpy as hvd
from farandole._presence import Presence, Variables

class Variable:
    def __init__(self, path):
        self.path = path

mine = int(os.environ["FARANDOLE_LAUNCH_INDEX"])
variables = Variables([Variable("dense/kernel"), Variable(f"dense/bias_{mine}")])
hvd.init([mine])
presence = Presence(hvd.global_process_set)
presence.ask_once("optimizer", variables, {0: "", 1: ""})
assert presence.is_known
alone = presence.plan(variables, [0, 1], can_ask=True).mark
hvd.shutdown()
hvd.init()
assert not presence.is_known
presence.ask_once("optimizer", variables, {0: ""} if mine else {0: "", 1: ""})
mark = presence.plan(variables, [0] if mine else [0, 1], can_ask=True).mark
assert hvd.allgather_object(mark) == [mark] * 2 != [alone] * 2, (mark, alone)
print("good", flush=True)
""",
    )
    assert result.returncode == 0 and result.stdout.count("good") == 2, result.stdout
