"""Jobs that go well: the steady state by the coordinator's own count, and the examples."""

import pathlib
import sys
from typing import Callable

import harness
from coordinators import Coordinator
from gates import Gate
from programs_run import Program
from small_images import write_small_images

EXAMPLES = harness.ROOT / "examples"
EXAMPLE_SECONDS = 240


def test_coordinator_hears_nothing_in_the_steady_state(
    job: Callable[..., Program], serve: Callable[..., Coordinator], tmp_path: pathlib.Path
) -> None:
    coordinator = serve()
    gates = [Gate(tmp_path / "first"), Gate(tmp_path / "second")]
    run = job(3, "steady", *gates, options=coordinator.options("--job", "steady"))
    for rank in range(3):
        run.expect(rf"\[{rank}\] warm")
    before = coordinator.negotiation_messages("steady")
    assert before > 0
    gates[0].let_through(3)
    for rank in range(3):
        assert run.expect(rf"\[{rank}\] messages (\d+)").group(1) == "0"
    assert coordinator.negotiation_messages("steady") == before
    gates[1].let_through(3)
    run.require_end(0)
    for gate in gates:
        gate.close()


def example(start: Callable[..., Program], name: str, *arguments: str, **environment: str) -> Program:
    """Runs an example as a job of two, to its end."""
    worker = [sys.executable, str(EXAMPLES / name), *arguments]
    run = start(str(harness.CLI), "run", "-np", "2", *worker, **environment)
    run.require_end(0, EXAMPLE_SECONDS)
    return run


def test_numpy_example_finds_its_line(start: Callable[..., Program]) -> None:
    run = example(start, "numpy_allreduce.py")
    found = run.expect(r"y = (\S+) x \+ (\S+), .* equal to the bit")
    assert abs(float(found.group(1)) - 2.5) < 0.02 and abs(float(found.group(2)) + 1.0) < 0.02, run.output


def test_torch_example_learns(start: Callable[..., Program]) -> None:
    run = example(start, "torch_mlp_objects.py")
    for rank in range(2):
        found = run.expect(rf"rank {rank}: last loss \S+, test accuracy ([\d.]+)%")
        assert float(found.group(1)) > 80, run.output


def test_demo_trains_and_goes_on_from_its_checkpoint(start: Callable[..., Program], tmp_path: pathlib.Path) -> None:
    write_small_images(tmp_path)
    checkpoints = tmp_path / "checkpoints"
    options = ["--data", str(tmp_path), "--checkpoint-dir", str(checkpoints), "--batch-size", "8"]
    same_catalogue = {"XDG_STATE_HOME": str(tmp_path / "state")}
    first = example(start, "fashion_mnist.py", "--epochs", "1", *options, **same_catalogue)
    path = pathlib.Path(first.expect(r"checkpoint +(\S+)").group(1))
    assert path.parent == checkpoints and path.exists(), first.output
    assert first.expect(r"coordinator messages per step +(\S+)").group(1) == "0"
    second = example(start, "fashion_mnist.py", "--epochs", "2", "--resume", *options, **same_catalogue)
    second.expect(rf"going on from {path}")
    second.expect("pass 2/2: test loss")
    assert "pass 1/2" not in second.output, second.output
    # A catalogue that is lost takes no file along, and what it has forgotten is not in the way.
    kept = path.read_bytes()
    third = example(start, "fashion_mnist.py", "--epochs", "1", *options, XDG_STATE_HOME=str(tmp_path / "new"))
    other = pathlib.Path(third.expect(r"checkpoint +(\S+)").group(1))
    assert other != path and other.exists() and path.read_bytes() == kept, third.output
