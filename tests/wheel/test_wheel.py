"""The wheel in an environment that has nothing but it and a framework, on a machine that cannot build it."""

import pathlib
import re

from bare_system import BareSystem
from checkout import ROOT, output_of


def test_the_system_has_nothing_of_what_farandole_is_built_with(bare: BareSystem) -> None:
    libraries = re.compile(r"lib(absl|grpc|protobuf|rocksdb|gloo|spdlog|yaml-cpp|cjose|jansson|re2|cares|upb|dw|elf)")
    names = {path.name for folder in ("bin", "lib") for path in (bare.root / "usr" / folder).rglob("*")}
    assert not [name for name in names if libraries.match(name)] and "libstdc++.so.6" in names
    assert not names & {"gcc", "g++", "cc", "ld", "bazel", "protoc"}


def test_numpy_example_runs(bare: BareSystem) -> None:
    output = bare.run("farandole", "run", "-np", "2", "python", "/examples/numpy_allreduce.py")
    assert "of 2 workers, equal to the bit on all of them" in output


def test_torch_example_runs(bare: BareSystem) -> None:
    output = bare.run(
        "farandole", "run", "-np", "2", "python", "/examples/torch_mlp_objects.py", PYTHONPATH="/frameworks"
    )
    assert "rank 0: last loss" in output and "rank 1: last loss" in output


def test_tensorflow_example_runs(bare: BareSystem) -> None:
    program = ("/examples/tensorflow_fashion_mnist.py", "--data", "/data", "--steps", "20")
    output = bare.run("farandole", "run", "-np", "2", "python", *program, PYTHONPATH="/tensorflow")
    assert "2 workers: test accuracy" in output


def test_the_control_planes_client_needs_no_grpc_and_minds_none(bare: BareSystem) -> None:
    alone = bare.run("python", "/tests/control_plane.py")
    assert "jobs: [] of a tenant: []" in alone and "refused to show job mnist: " in alone and "beside: []" in alone
    beside = bare.run("python", "/tests/control_plane.py", "tensorflow", "grpc", PYTHONPATH="/tensorflow")
    assert "jobs: [] of a tenant: []" in beside and "refused to show job mnist: " in beside
    assert "beside: ['google.protobuf', 'grpc', 'tensorflow']" in beside


def test_gloo_comes_with_it(bare: BareSystem) -> None:
    command = ("farandole", "run", "-np", "2", "python", "/examples/numpy_allreduce.py")
    assert "equal to the bit on all of them" in bare.run(*command, FARANDOLE_TRANSPORT="gloo")


def test_wheel_program_and_package_are_of_one_version(bare: BareSystem, wheel: pathlib.Path) -> None:
    version = (ROOT / "VERSION").read_text(encoding="utf-8").strip()
    script = "import farandole, importlib.metadata as m; print(farandole.__version__, m.version('farandole'))"
    assert bare.run("python", "-c", script).split() == [version, version]
    assert bare.run("farandole", "--version").split() == ["farandole", version]
    assert wheel.name.startswith(f"farandole-{version}-cp39-abi3-manylinux_2_")


def test_a_program_for_horovod_runs_with_its_names_installed(bare: BareSystem, path_with_horovod: str) -> None:
    command = ("horovodrun", "-np", "2", "python", "/tests/written_for_horovod.py")
    output = bare.run(*command, PATH=path_with_horovod, PYTHONPATH="/frameworks")
    said = re.findall(r"rank (\d) of 2: all weights are equal: True, mean loss (\S+)", output)
    assert sorted(rank for rank, _ in said) == ["0", "1"] and said[0][1] == said[1][1], output


def test_without_horovods_names_a_program_for_it_does_not_find_them(bare: BareSystem) -> None:
    assert "no horovod" in bare.run("sh", "-c", "python -c 'import horovod' 2>/dev/null || echo no horovod")


def test_the_command_says_what_is_wrong_with_a_damaged_installation(bare: BareSystem) -> None:
    script = (
        "program=$(echo /venv/lib/python3.*/site-packages/farandole/_bin/farandole); mv $program /tmp/away; "
        "farandole --version && exit 1; mv /tmp/away $program"
    )
    assert "_bin/farandole cannot be run: No such file or directory; install the wheel" in bare.run("sh", "-c", script)


def test_a_wheel_that_is_there_is_not_made_again(wheel: pathlib.Path) -> None:
    before = wheel.stat().st_mtime_ns
    assert output_of("tools/wheel") == "" and wheel.stat().st_mtime_ns == before
