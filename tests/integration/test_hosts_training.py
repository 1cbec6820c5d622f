"""The demo over several hosts, by a real ssh: the parameters are those of one process with the whole batch."""

import pathlib
import sys
from typing import Callable, Sequence

import harness
import pytest
import torch
from hosts import Namespaces
from programs_run import Program
from small_images import write_small_images

DEMO = harness.ROOT / "examples" / "fashion_mnist.py"
DEMO_SECONDS = 240
# Of all workers together: divisible by their numbers.
BATCH = 24
RATE = 0.06


def command(directory: pathlib.Path, workers: int) -> Sequence[str]:
    """The demo with the same batches and rates, for any number of workers."""
    checkpoints = directory / f"checkpoints{workers}"
    # The demo multiplies both by the number of workers.
    share = ["--batch-size", str(BATCH // workers), "--lr", str(RATE / workers), "--warmup-steps", "0"]
    data = ["--data", str(directory), "--checkpoint-dir", str(checkpoints), "--epochs", "1", "--no-progress"]
    return [sys.executable, str(DEMO), *data, *share]


def parameters(run: Program) -> "dict[str, torch.Tensor]":
    """Those in the checkpoint that the demo has written."""
    run.require_end(0, DEMO_SECONDS)
    return torch.load(run.expect(r"checkpoint +(/\S+)").group(1), weights_only=True)["model"]


@pytest.mark.parametrize("fixture, slots", (("two_hosts", (2, 1)), ("four_hosts", (1, 1, 1, 1))))
def test_the_demo_over_hosts_does_what_one_process_does(
    fixture: str,
    slots: Sequence[int],
    start: Callable[..., Program],
    request: pytest.FixtureRequest,
    tmp_path: pathlib.Path,
) -> None:
    hosts: Namespaces = request.getfixturevalue(fixture)
    write_small_images(tmp_path)
    alone = parameters(start(*command(tmp_path, 1)))
    run = start(str(harness.CLI), "run", *hosts.options(*slots), *command(tmp_path, sum(slots)))
    together = parameters(run)
    assert alone.keys() == together.keys()
    for name, expected in alone.items():
        torch.testing.assert_close(
            together[name], expected, rtol=1e-3, atol=1e-4, msg=lambda text, at=name: f"{at}: {text}"
        )
    assert run.expect(r"workers +(\d+)").group(1) == str(sum(slots))
    assert run.expect(r"coordinator messages per step +(\S+)").group(1) == "0"
