"""The examples run as their header comments say."""

import gzip
import pathlib
import random
import struct
import sys

import harness

EXAMPLES = harness.ROOT / "examples"


def run(tmp_path: pathlib.Path, name: str, *arguments: str) -> str:
    result = harness.run(harness.Setup(2), tmp_path / "state", sys.executable, str(EXAMPLES / name), *arguments)
    assert result.returncode == 0, result.stdout
    return result.stdout


def test_numpy_example_finds_the_line_on_all_workers(tmp_path: pathlib.Path) -> None:
    assert "y = 2.5" in run(tmp_path, "numpy_allreduce.py")


def test_objects_example_reports_every_worker(tmp_path: pathlib.Path) -> None:
    output = run(tmp_path, "torch_mlp_objects.py")
    assert "rank 0: last loss" in output and "rank 1: last loss" in output


def write_idx(path: pathlib.Path, shape: tuple, values: bytes) -> None:
    header = struct.pack(f">HBB{len(shape)}I", 0, 8, len(shape), *shape)
    path.write_bytes(gzip.compress(header + values))


def make_data(directory: pathlib.Path) -> None:
    """A few images whose brightness is their label."""
    source = random.Random(1)
    for prefix, count in (("train", 640), ("t10k", 100)):
        labels = bytes(source.randrange(10) for _ in range(count))
        images = b"".join(bytes([20 * label + source.randrange(20)]) * 784 for label in labels)
        write_idx(directory / f"{prefix}-images-idx3-ubyte.gz", (count, 28, 28), images)
        write_idx(directory / f"{prefix}-labels-idx1-ubyte.gz", (count,), labels)


def test_demo_trains_and_goes_on_from_its_newest_checkpoint(tmp_path: pathlib.Path) -> None:
    make_data(tmp_path)
    options = ("--data", str(tmp_path), "--checkpoint-dir", str(tmp_path / "checkpoints"), "--batch-size", "16")
    output = run(tmp_path, "fashion_mnist.py", *options, "--epochs", "1")
    assert "pass 1/1: test loss" in output
    steps = 640 // 2 // 16
    for row in (
        "test accuracy",
        "images/s",
        "time in communication",
        "coordinator messages per step  0\n",
        f"step-{steps:08}",
    ):
        assert row in output, (row, output)
    output = run(tmp_path, "fashion_mnist.py", *options, "--epochs", "2", "--resume", "--no-progress")
    assert f"going on from {tmp_path}" in output and "pass 2/2: test loss" in output and "pass 1/2" not in output
    assert f"step-{2 * steps:08}" in output


def test_elastic_example_trains_to_its_end_in_a_job_that_is_not_elastic(tmp_path: pathlib.Path) -> None:
    make_data(tmp_path)
    output = run(tmp_path, "elastic_fashion_mnist.py", "--data", str(tmp_path), "--epochs", "2")
    assert "2 workers, pass 1 from image 0 on" in output and "pass 2/2: loss" in output


def test_demo_names_data_that_is_missing_or_damaged(tmp_path: pathlib.Path) -> None:
    for content in (None, b"no gzip", gzip.compress(b"\0\0\x08\x01\0\0\0\x05no")):
        path = tmp_path / "train-images-idx3-ubyte.gz"
        if content is not None:
            path.write_bytes(content)
        result = harness.run(
            harness.Setup(1),
            tmp_path / "state",
            sys.executable,
            str(EXAMPLES / "fashion_mnist.py"),
            "--data",
            str(tmp_path),
        )
        assert result.returncode == 1 and "Traceback" not in result.stdout, result.stdout
        assert f"{path} cannot be read: " in result.stdout and "apt-get install dataset-fashion-mnist" in result.stdout
