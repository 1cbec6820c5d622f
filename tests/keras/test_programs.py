"""Programs written from Horovod's documentation, and the examples, as jobs of their own."""

import os
import pathlib
import subprocess
import sys
from typing import Dict, List

import harness
import numpy
import pytest
from conftest import BACKENDS

PROGRAMS = pathlib.Path(__file__).resolve().parent / "programs"
EXAMPLES = harness.ROOT / "examples"


def run(folder: pathlib.Path, backend: str, options: List[str], *words: object) -> str:
    """The stdout of a job, which must end well. Its files are in the folder."""
    harness.require_cli()
    environment: Dict[str, str] = {
        **os.environ,
        "OMP_NUM_THREADS": "1",
        "KERAS_BACKEND": "tensorflow",
        **BACKENDS[backend],
    }
    command = [
        str(harness.CLI),
        "run",
        *options,
        "--state-dir",
        str(folder / "state"),
        sys.executable,
        *map(str, words),
    ]
    result = subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=harness.JOB_SECONDS,
        check=False,
        cwd=folder,
        env=environment,
    )
    assert result.returncode == 0, f"{' '.join(command)}\n{(result.stdout + result.stderr)[-5000:]}"
    return result.stdout


def test_a_program_for_horovods_tf_keras_runs_unchanged(tmp_path: pathlib.Path) -> None:
    program = PROGRAMS / "tensorflow2_keras_mnist.py"
    output = run(tmp_path, "legacy", ["--horovod", "-np", "2"], PROGRAMS / "with_local_data.py", program)
    assert output.count("ends with ['accuracy', 'loss', 'lr']") == 2, output
    assert "finished gradual learning rate warmup to 0.002" in output, output
    assert (tmp_path / "checkpoint-2.h5").exists()


def test_an_elastic_program_for_horovods_tf_keras_runs_unchanged(tmp_path: pathlib.Path) -> None:
    program = PROGRAMS / "tensorflow2_keras_mnist_elastic.py"
    options = ["--horovod", "-np", "2", "--min-np", "2", "--max-np", "2"]
    output = run(tmp_path, "legacy", options, PROGRAMS / "with_local_data.py", program)
    assert output.count("ends with epoch 2") == 2, output


def test_a_program_for_horovods_keras_runs_with_keras_3(tmp_path: pathlib.Path) -> None:
    program = PROGRAMS / "keras_mnist.py"
    output = run(tmp_path, "jax", ["--horovod", "-np", "2"], PROGRAMS / "with_local_data.py", program)
    assert output.count("ends with 2 values") == 2 and (tmp_path / "checkpoint-2.keras").exists(), output


def test_documented_checkpoints_have_the_weights(tmp_path: pathlib.Path) -> None:
    page = harness.ROOT / "docs" / "checkpoints.md"
    output = run(tmp_path, "tensorflow", ["-np", "2"], PROGRAMS / "documented_checkpoints.py", page)
    assert output.count("Keras has its weights") == 1 and output.count("TensorFlow has its weights") == 1, output


# Two passes; the images of a step are the same for one worker and for two.
TERMS = ("--images", 512, "--epochs", 2)
ONE_WORKER = (*TERMS, "--batch-size", 64, "--lr", 0.04)
TWO_WORKERS = (*TERMS, "--batch-size", 32, "--lr", 0.02)


@pytest.fixture(scope="module", name="alone")
def trained_alone(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """A folder with a model, `initial.keras`, and what one process makes of it with the whole batch, `alone.keras`."""
    folder = tmp_path_factory.mktemp("alone")
    example, initial = EXAMPLES / "keras_fashion_mnist.py", folder / "initial.keras"
    run(folder, "jax", ["-np", "1"], example, "--images", 64, "--epochs", 0, "--save", initial)
    terms = ("--warmup-epochs", 0, "--resume", initial, "--save", folder / "alone.keras")
    run(folder, "jax", ["-np", "1"], example, *ONE_WORKER, *terms)
    return folder


def weights(path: pathlib.Path) -> List[numpy.ndarray]:
    import keras

    found: List[numpy.ndarray] = keras.models.load_model(path).get_weights()
    return found


def expect_as_alone(saved: pathlib.Path, alone: pathlib.Path) -> None:
    """Fails if a model was not trained as by one process."""
    initial, wanted = weights(alone / "initial.keras"), weights(alone / "alone.keras")
    for start, mine, one in zip(initial, weights(saved), wanted):
        assert numpy.abs(one - start).max() > 1e-4
        numpy.testing.assert_allclose(mine, one, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("backend", ["tensorflow", "jax", "torch"])
def test_the_example_trains_as_one_process(backend: str, alone: pathlib.Path, tmp_path: pathlib.Path) -> None:
    example, saved = EXAMPLES / "keras_fashion_mnist.py", tmp_path / "saved.keras"
    terms = ("--warmup-epochs", 0, "--resume", alone / "initial.keras", "--save", saved)
    output = run(tmp_path, backend, ["-np", "2"], example, *TWO_WORKERS, *terms)
    assert "pass 2/2: loss" in output, output
    expect_as_alone(saved, alone)


def test_the_elastic_example_trains_as_one_process_with_a_loss(alone: pathlib.Path, tmp_path: pathlib.Path) -> None:
    """A worker is killed in the second pass, and another one comes in its place."""
    saved = tmp_path / "saved.keras"
    options = ["-np", "2", "--min-np", "2", "--max-np", "2", "--reset-limit", "3"]
    program = (PROGRAMS / "killed_in_second_pass.py", EXAMPLES / "elastic_keras_fashion_mnist.py")
    output = run(tmp_path, "jax", options, *program, *TWO_WORKERS, "--save", saved)
    begun = [f"[0] 2 workers, pass {number} from batch 0 on" for number in (1, 2)]
    assert [line for line in output.splitlines() if "workers, pass" in line] == begun, output
    assert "2 passes: accuracy" in output, output
    expect_as_alone(saved, alone)


IMPORTS = """
import sys
import keras
before = {name for name in ("tensorflow", "jax", "torch") if name in sys.modules}
import farandole.keras
after = {name for name in ("tensorflow", "jax", "torch") if name in sys.modules}
print(sorted(after - before - {keras.backend.backend()}))
"""


def test_no_other_framework_is_imported() -> None:
    environment = {**os.environ, **BACKENDS["jax"]}
    assert subprocess.check_output([sys.executable, "-c", IMPORTS], env=environment, text=True) == "[]\n"
