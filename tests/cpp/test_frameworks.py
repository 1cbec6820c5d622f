"""farandole/torch.h with the libtorch of .venv, and farandole/eigen.h, in jobs of real processes."""

import concurrent.futures
import gzip
import os
import pathlib
import random
import re
import shutil
import struct
import subprocess
from typing import Dict, List

import harness
import page_code
import pytest
from parameters import farthest, weights_of

PROGRAMS = harness.ROOT / "tests" / "cpp" / "programs"
EXAMPLES = harness.ROOT / "examples" / "cpp"
LIBRARY = harness.ROOT / "sdk" / "python" / "farandole" / "_lib"
WARNINGS = ("-Wall", "-Wextra", "-Wpedantic", "-Werror")


def torch_folder() -> pathlib.Path:
    """The libtorch that PyTorch has in it."""
    found = subprocess.run(
        [harness.ROOT / ".venv/bin/python", "-c", "import importlib.util as u; print(u.find_spec('torch').origin)"],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return pathlib.Path(found.stdout.strip()).parent


def torch_flags() -> List[str]:
    """Of that libtorch."""
    root = torch_folder()
    include = ("-isystem", str(root / "include"), "-isystem", str(root / "include/torch/csrc/api/include"))
    libraries = (f"-L{root}/lib", "-ltorch", "-ltorch_cpu", "-lc10", "-lz", f"-Wl,-rpath,{root}/lib")
    return ["-std=c++20", *include, *libraries]


@pytest.fixture(scope="session", name="programs")
def _programs(tmp_path_factory: pytest.TempPathFactory) -> Dict[str, pathlib.Path]:
    """The programs, compiled side by side."""
    folder = tmp_path_factory.mktemp("frameworks")
    (folder / "page.inc").write_text(page_code.block("GradientReducer"), encoding="utf-8")
    sources = {
        "torch_checks": (PROGRAMS / "torch_checks.cc", torch_flags()),
        "torch_epochs": (PROGRAMS / "torch_epochs.cc", torch_flags()),
        "eigen_checks": (PROGRAMS / "eigen_checks.cc", ["-std=c++17", "-isystem", "/usr/include/eigen3"]),
    }

    def run(*command: object) -> None:
        words = [str(word) for word in command]
        result = subprocess.run(words, cwd=harness.ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        assert result.returncode == 0, result.stdout[-5000:]

    def build(name: str) -> None:
        source, flags = sources[name]
        headers = (f"-I{harness.ROOT}", f"-I{harness.ROOT}/sdk/cpp", f"-I{folder}")
        own = ("-O1", *WARNINGS, *headers, f"-Wl,-rpath,{LIBRARY}")
        run("g++", *own, source, "-o", folder / name, *flags, "-ldl", "-pthread")

    def build_example() -> None:
        """As a user of the installed SDK does, in a directory of its own."""
        run("tools/install-prefix", folder / "prefix")
        shutil.copytree(EXAMPLES, folder / "examples")
        options = ("-DWITH_TORCH=ON", f"-DCMAKE_PREFIX_PATH={folder}/prefix;{torch_folder()}")
        options += ("-DCMAKE_CXX_FLAGS_RELEASE=-O1", f"-DCMAKE_CXX_FLAGS={' '.join(WARNINGS)}")
        run("cmake", "-S", folder / "examples", "-B", folder / "build", *options)
        run("cmake", "--build", folder / "build", "--target", "mnist")

    with concurrent.futures.ThreadPoolExecutor(2) as threads:
        waiting = [threads.submit(build_example), *(threads.submit(build, name) for name in sources)]
        for each in waiting:
            each.result()
    return {"mnist": folder / "build" / "mnist", **{name: folder / name for name in sources}}


@pytest.mark.parametrize("setup", (harness.Setup(1), harness.Setup(2), harness.Setup(4, hosts=2)), ids=str)
@pytest.mark.parametrize("name", ("torch_checks", "eigen_checks"))
def test_checks_hold_on_all_ranks(
    name: str, setup: harness.Setup, programs: Dict[str, pathlib.Path], tmp_path: pathlib.Path
) -> None:
    result = harness.run(setup, tmp_path / "state", str(programs[name]))
    assert result.returncode == 0 and result.stdout.count("all holds") == setup.size, result.stdout


def output_of(*command: object) -> str:
    """The output of a command. Fails with all of it where the command fails."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    words = [str(word) for word in command]
    result = subprocess.run(
        words,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=environment,
        timeout=harness.JOB_SECONDS,
        check=False,
    )
    assert result.returncode == 0, result.stdout
    return result.stdout


@pytest.mark.parametrize(
    ("event", "size", "lost"),
    (
        ("agreement", 2, 1),
        ("agreement", 3, 1),
        ("operation", 3, 1),
        ("change", 1, 0),
        ("change", 2, 0),
        ("twice", 2, 0),
    ),
)
def test_gradient_reducer_goes_on_after_an_epoch_that_ends_in_a_step(
    event: str, size: int, lost: int, programs: Dict[str, pathlib.Path], tmp_path: pathlib.Path
) -> None:
    launch = [harness.CLI, "run", "-np", str(size), "--min-np", "1", "--state-dir", tmp_path / "state"]
    output = output_of(*launch, programs["torch_epochs"], event)
    assert output.count("all holds") >= size - lost, output


@pytest.mark.parametrize("event", ("change", "twice", "life"))
def test_gradient_reducer_goes_on_in_a_process_without_a_launcher(
    event: str, programs: Dict[str, pathlib.Path]
) -> None:
    assert "all holds" in output_of(programs["torch_epochs"], event)


def write_idx(path: pathlib.Path, shape: "tuple[int, ...]", values: bytes) -> None:
    header = struct.pack(f">HBB{len(shape)}I", 0, 8, len(shape), *shape)
    path.write_bytes(gzip.compress(header + values))


def test_mnist_learns_images_whose_brightness_is_their_label(
    programs: Dict[str, pathlib.Path], tmp_path: pathlib.Path
) -> None:
    source = random.Random(1)
    for prefix, count in (("train", 2560), ("t10k", 200)):
        labels = bytes(source.randrange(2) for _ in range(count))
        images = b"".join(bytes([120 * label + source.randrange(60)]) * 784 for label in labels)
        write_idx(tmp_path / f"{prefix}-images-idx3-ubyte.gz", (count, 28, 28), images)
        write_idx(tmp_path / f"{prefix}-labels-idx1-ubyte.gz", (count,), labels)
    files = {size: tmp_path / f"parameters{size}" for size in (1, 2)}
    for size, file in files.items():
        command = (str(programs["mnist"]), str(tmp_path), "2", str(file))
        result = harness.run(harness.Setup(size), tmp_path / f"state{size}", *command)
        assert result.returncode == 0 and "pass 2/2: loss" in result.stdout, result.stdout
        assert "test accuracy 100.00%" in result.stdout, result.stdout
    # Both have the same batches, and sums that differ by their order only.
    alone = weights_of(files[1])
    assert len(alone) == 105_866 and farthest(weights_of(files[2]), alone) < 1e-4


def test_mnist_learns_fashion_mnist(programs: Dict[str, pathlib.Path], tmp_path: pathlib.Path) -> None:
    # Of Debian's package dataset-fashion-mnist, where the example looks by default.
    result = harness.run(
        harness.Setup(2), tmp_path / "state", str(programs["mnist"]), "/usr/share/datasets/fashion-mnist", "2"
    )
    accuracies = re.findall(r"test accuracy ([\d.]+)%", result.stdout)
    assert result.returncode == 0 and len(accuracies) == 2 and float(accuracies[-1]) >= 85, result.stdout


def test_mnist_names_data_that_is_missing(programs: Dict[str, pathlib.Path], tmp_path: pathlib.Path) -> None:
    result = harness.run(harness.Setup(1), tmp_path / "state", str(programs["mnist"]), str(tmp_path))
    assert result.returncode == 1, result.stdout
    assert f"{tmp_path}/train-images-idx3-ubyte.gz cannot be read" in result.stdout
