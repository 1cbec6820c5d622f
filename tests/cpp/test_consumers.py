"""Programs that are built with the C++ SDK outside of the checkout: by CMake, pkg-config and Bazel, from what
`make install PREFIX=` lays out and from the wheel."""

import os
import pathlib
import re
import shutil
import signal
import subprocess
import zipfile
from typing import Dict

import harness
import pytest
from parameters import farthest, weights_of

EXAMPLES = harness.ROOT / "examples" / "cpp"
# So many that the program is still at it when it loses a worker at their tenth.
ELASTIC_STEPS = 4_000

# Debian's Bazel loads these by itself; they are no part of what a user of the SDK writes.
BAZELS_OWN = """
local_repository(name = "rules_cc", path = "{root}/third_party/rules_cc")
local_repository(name = "remote_coverage_tools", path = "{root}/third_party/coverage_tools")
local_repository(name = "rules_java", path = "/usr/share/bazel/rules/java")
local_repository(name = "rules_proto", path = "/usr/share/bazel/rules/proto")
local_repository(name = "bazel_skylib", path = "/usr/share/bazel/tools/skylib")
local_repository(name = "platforms", path = "/usr/share/bazel/platforms")
"""


def output_of(*command: object, cwd: pathlib.Path = harness.ROOT, **environment: str) -> str:
    """The output of a command. Fails with all of it where the command fails."""
    result = subprocess.run(
        [str(word) for word in command],
        cwd=cwd,
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert result.returncode == 0, f"{' '.join(map(str, command))}:\n{result.stdout[-5000:]}"
    return result.stdout


def make_install(destination: pathlib.Path, prefix: str) -> pathlib.Path:
    """Does as `make install DESTDIR= PREFIX=` when all is built, which needs Bazel. Returns the folder that it fills."""
    said = output_of("make", "--dry-run", "install", f"DESTDIR={destination}", f"PREFIX={prefix}")
    (last,) = [line for line in said.splitlines() if "install-prefix" in line]
    output_of("sh", "-c", last)
    return pathlib.Path(f"{destination}{prefix}")


@pytest.fixture(scope="session", name="roots")
def _roots(tmp_path_factory: pytest.TempPathFactory) -> Dict[str, pathlib.Path]:
    """Where Farandole is installed: a prefix, and the package of the wheel."""
    folder = tmp_path_factory.mktemp("installed")
    prefix = make_install(folder / "staging", "/usr/local")
    output_of("tools/wheel")
    (wheel,) = (harness.ROOT / "dist").glob("farandole-*.whl")
    zipfile.ZipFile(wheel).extractall(folder / "site-packages")
    return {"prefix": prefix, "wheel": folder / "site-packages" / "farandole"}


def sdk_of(root: pathlib.Path) -> pathlib.Path:
    """The folder that build systems search."""
    return root / "_sdk" if (root / "_sdk").exists() else root


@pytest.fixture(scope="session", name="examples")
def _examples(roots: Dict[str, pathlib.Path], tmp_path_factory: pytest.TempPathFactory) -> Dict[str, pathlib.Path]:
    """The examples, built by CMake in a directory of their own, from each root."""
    built = {}
    for name, root in roots.items():
        source = tmp_path_factory.mktemp(f"examples-{name}")
        shutil.copytree(EXAMPLES, source, dirs_exist_ok=True)
        output_of("cmake", "-S", source, "-B", source / "build", f"-DCMAKE_PREFIX_PATH={sdk_of(root)}")
        output_of("cmake", "--build", source / "build", "--parallel", "2")
        built[name] = source / "build"
    return built


def run_mlp(directory: pathlib.Path, program: pathlib.Path, size: int) -> "tuple[float, list[float]]":
    """The loss after a training with so many workers, and each weight."""
    file = directory / f"weights{size}"
    result = harness.run(harness.Setup(size), directory / f"state{size}", str(program), str(file))
    found = re.search(rf"{size} workers: loss (\S+)", result.stdout)
    assert result.returncode == 0 and found, result.stdout
    return float(found[1]), weights_of(file)


@pytest.mark.parametrize("root", ("prefix", "wheel"))
def test_cmake_finds_the_package_and_mlp_trains_as_one_process(
    root: str, examples: Dict[str, pathlib.Path], tmp_path: pathlib.Path
) -> None:
    mlp = examples[root] / "mlp"
    output = output_of(mlp, tmp_path / "alone")
    assert "1 workers: loss" in output, "without a launcher it is a job of size 1"
    loss, alone = run_mlp(tmp_path, mlp, 1)
    assert loss < 0.03 and len(alone) == 32 * 9 + 33 and weights_of(tmp_path / "alone") == alone
    for size in (2, 4) if root == "prefix" else (2,):
        found, weights = run_mlp(tmp_path, mlp, size)
        assert found == pytest.approx(loss, rel=1e-4)
        # The sums differ by their order only; in training the weights move by some tenths.
        assert farthest(weights, alone) < 1e-4


def test_elastic_example_goes_on_after_a_loss_and_finds_the_line(
    examples: Dict[str, pathlib.Path], tmp_path: pathlib.Path
) -> None:
    launch = (harness.CLI, "run", "-np", "2", "--min-np", "1", "--max-np", "2", "--state-dir", tmp_path / "state")
    command = [str(word) for word in (*launch, examples["prefix"] / "elastic_mlp", ELASTIC_STEPS)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as program:
        output, first = "", ""
        for line in program.stdout or ():
            output += line
            if found := re.search(r"process (\d+) is rank 0 of 2, from step 0 on", line):
                first = found[1]
            if f"step {ELASTIC_STEPS // 10}: " in line:
                os.kill(int(first), signal.SIGKILL)
    assert program.returncode == 0, output
    numbers = [int(step) for step in re.findall(r"is rank 0 of [12], from step (\d+) on", output)]
    # It commits every ten steps.
    assert numbers[0] == 0 and ELASTIC_STEPS // 10 - 10 <= min(numbers[1:]) <= max(numbers) < ELASTIC_STEPS, output
    assert f"y = 2.500 x + -1.000 after {ELASTIC_STEPS} steps" in output, output


def test_cmake_refuses_a_newer_version(roots: Dict[str, pathlib.Path], tmp_path: pathlib.Path) -> None:
    (tmp_path / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.18)\nproject(newer CXX)\nfind_package(farandole 99 REQUIRED)\n"
    )
    command = ["cmake", "-S", tmp_path, "-B", tmp_path / "build", f"-DCMAKE_PREFIX_PATH={roots['prefix']}"]
    result = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    assert result.returncode != 0 and 'compatible with requested version "99"' in result.stdout, result.stdout


@pytest.mark.parametrize("root", ("prefix", "wheel"))
def test_pkg_config_gives_the_flags(root: str, roots: Dict[str, pathlib.Path], tmp_path: pathlib.Path) -> None:
    path = sdk_of(roots[root]) / "lib" / "pkgconfig"
    flags = output_of("pkg-config", "--cflags", "--libs", "farandole", PKG_CONFIG_PATH=str(path)).split()
    shutil.copy(EXAMPLES / "elastic_mlp.cc", tmp_path)
    warnings = ("-Wall", "-Wextra", "-Wpedantic", "-Werror")
    output_of("g++", "-std=c++17", *warnings, "elastic_mlp.cc", *flags, "-o", "program", cwd=tmp_path)
    assert "y = 2.500 x" in output_of(tmp_path / "program")
    version = output_of("pkg-config", "--modversion", "farandole", PKG_CONFIG_PATH=str(path)).strip()
    assert version == (harness.ROOT / "VERSION").read_text(encoding="utf-8").strip()


def test_bazel_builds_from_either(roots: Dict[str, pathlib.Path], tmp_path: pathlib.Path) -> None:
    folders = {"prefix": roots["prefix"] / "share" / "farandole" / "bazel", "wheel": roots["wheel"]}
    repositories = [f'local_repository(name = "farandole_{name}", path = "{path}")' for name, path in folders.items()]
    (tmp_path / "WORKSPACE").write_text(BAZELS_OWN.format(root=harness.ROOT) + "\n".join(repositories) + "\n")
    rules = [
        f'cc_binary(name = "{name}", srcs = ["mlp.cc"], deps = ["@farandole_{name}//:farandole"])' for name in folders
    ]
    (tmp_path / "BUILD.bazel").write_text("\n".join(rules) + "\n")
    shutil.copy(EXAMPLES / "mlp.cc", tmp_path)
    bazel = (os.environ.get("BAZEL", "bazel"), "--batch", f"--output_user_root={tmp_path}/cache")
    options = ("--cxxopt=-std=c++17", "--symlink_prefix=out-", "--experimental_repository_disable_download")
    output_of(*bazel, "build", *options, "//:all", cwd=tmp_path)
    for name in folders:
        assert "1 workers: loss" in output_of(tmp_path / "out-bin" / name)
