"""Ranges of collectives in a profiler that takes NVTX: a library of ours in the place of Nsight Systems', built with NVTX's
own headers, which come with PyTorch."""

import pathlib
import subprocess
import sys
import sysconfig
from typing import Callable

import harness
import pytest
from programs_run import START_SECONDS, Program

HEADERS = pathlib.Path(sysconfig.get_paths()["purelib"]) / "nvidia"
PROGRAM = """
import farandole.numpy as hvd, numpy
hvd.init()
hvd.allreduce(numpy.ones(100, numpy.float32), name="gradient")
hvd.broadcast(numpy.ones(3), 0, name="weights")
hvd.shutdown()
"""


@pytest.fixture(scope="module")
def profiler(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The path of the library."""
    headers = sorted(HEADERS.glob("cu*/include/nvtx3/nvToolsExt.h"))
    if not headers:
        pytest.skip("this PyTorch came without NVTX's headers")
    library = tmp_path_factory.mktemp("profiler") / "profiler.so"
    source = pathlib.Path(__file__).parent / "programs" / "profiler.cc"
    folders = [f"-I{headers[-1].parents[1]}", f"-I{harness.ROOT}"]
    command = ["g++", "-std=c++17", "-shared", "-fPIC", *folders, str(source), "-o", str(library)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return str(library)


@pytest.fixture
def run(start: Callable[..., Program], tmp_path: pathlib.Path) -> Callable[..., str]:
    """Runs the program on two ranks, with variables; gives the lines of rank 0."""

    def runs(**variables: str) -> str:
        (tmp_path / "program.py").write_text(PROGRAM, encoding="ascii")
        command = ["run", "-np", "2", "--state-dir", str(tmp_path), sys.executable, str(tmp_path / "program.py")]
        program = start(str(harness.CLI), *command, **variables)
        program.require_end(0, START_SECONDS)
        return "".join(line[4:] + "\n" for line in program.output.splitlines() if line.startswith("[0] "))

    return runs


def test_collectives_are_ranges(run: Callable[..., str], profiler: str) -> None:
    lines = run(NVTX_INJECTION64_PATH=profiler).splitlines()
    assert lines[0] == "domain farandole", lines
    begun = [line for line in lines if "begins" in line]
    assert begun[:2] == [
        "range 1.1 begins: allreduce gradient, 400 bytes",
        "range 1.2 begins: broadcast weights, 24 bytes",
    ], lines
    assert lines.index("range 1 ends") < lines.index(begun[1]) < lines.index("range 2 ends")
    assert sum(line.endswith(" ends") for line in lines) == len(begun)


@pytest.mark.parametrize("off", [{"FARANDOLE_NVTX": "0"}, {"HOROVOD_DISABLE_NVTX_RANGES": "1"}])
def test_they_can_be_turned_off(off: "dict[str, str]", run: Callable[..., str], profiler: str) -> None:
    assert run(NVTX_INJECTION64_PATH=profiler, **off) == ""


def test_a_profiler_that_is_not_there_is_named_and_the_job_runs(run: Callable[..., str]) -> None:
    output = run(NVTX_INJECTION64_PATH="/nowhere/profiler.so")
    assert "the profiler of NVTX_INJECTION64_PATH cannot be attached: /nowhere/profiler.so: cannot open" in output
