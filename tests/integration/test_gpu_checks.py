"""The checks of tests/gpu, which want GPUs, with tensors of the host: that they hold, and that a machine without one
gets a sentence."""

import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
RUN = ROOT / "tests" / "gpu" / "run.py"


def test_they_hold_on_the_host() -> None:
    """On three ranks, the last of which is killed in one of them."""
    done = subprocess.run(
        [sys.executable, str(RUN), "-np", "3", "--device", "cpu"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.endswith("7 passed, 0 failed\n"), done.stdout


def test_the_benchmark_measures_on_the_host(tmp_path: pathlib.Path) -> None:
    """All of its tables, with Gloo as the peer."""
    file = tmp_path / "gpu.md"
    command = [sys.executable, str(RUN.with_name("bench.py")), "--device", "cpu", "--quick", "--write", str(file)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    rows = [line for line in file.read_text(encoding="utf-8").splitlines() if " x | " in line]
    assert len(rows) == 2 * 10 + 2, rows


def test_a_machine_without_a_gpu_is_no_success() -> None:
    """Nothing that was not run counts as passed."""
    command = [sys.executable, str(RUN)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env={"CUDA_VISIBLE_DEVICES": ""})
    assert (done.returncode, done.stdout) == (1, "there is no GPU that PyTorch can use here: nothing was run\n")
