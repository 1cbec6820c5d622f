"""Programs that are built with the C++ SDK outside of the checkout: by CMake, pkg-config and Bazel, from what
`make install PREFIX=` lays out and from the wheel."""

import os
import pathlib
import re
import shutil
import subprocess
import zipfile
from typing import Dict

import harness
import pytest

EXAMPLES = harness.ROOT / "examples" / "cpp"

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


@pytest.fixture(scope="session", name="roots")
def _roots(tmp_path_factory: pytest.TempPathFactory) -> Dict[str, pathlib.Path]:
    """Where Farandole is installed: a prefix, and the package of the wheel."""
    folder = tmp_path_factory.mktemp("installed")
    output_of("tools/install-prefix", folder / "prefix")
    output_of("tools/wheel")
    (wheel,) = (harness.ROOT / "dist").glob("farandole-*.whl")
    zipfile.ZipFile(wheel).extractall(folder / "site-packages")
    return {"prefix": folder / "prefix", "wheel": folder / "site-packages" / "farandole"}


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


def run_mlp(directory: pathlib.Path, program: pathlib.Path, size: int) -> "tuple[float, float]":
    """Loss and sum of weights after a training with so many workers."""
    result = harness.run(harness.Setup(size), directory / f"state{size}", str(program))
    found = re.search(rf"{size} workers: loss (\S+), sum of weights (\S+)", result.stdout)
    assert result.returncode == 0 and found, result.stdout
    return float(found[1]), float(found[2])


@pytest.mark.parametrize("root", ("prefix", "wheel"))
def test_cmake_finds_the_package_and_mlp_trains_as_one_process(
    root: str, examples: Dict[str, pathlib.Path], tmp_path: pathlib.Path
) -> None:
    mlp = examples[root] / "mlp"
    alone = output_of(mlp)
    assert "1 workers: loss" in alone, "without a launcher it is a job of size 1"
    loss, weights = run_mlp(tmp_path, mlp, 1)
    assert loss < 0.03
    for size in (2, 4) if root == "prefix" else (2,):
        assert run_mlp(tmp_path, mlp, size) == pytest.approx((loss, weights), rel=1e-4)


def test_elastic_example_finds_the_line(examples: Dict[str, pathlib.Path], tmp_path: pathlib.Path) -> None:
    launch = (harness.CLI, "run", "-np", "2", "--min-np", "1", "--state-dir", tmp_path / "state")
    output = output_of(*launch, examples["prefix"] / "elastic_mlp")
    assert "2 workers, from step 0 on" in output and "y = 2.500 x + -1.000 after 400 steps" in output


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
