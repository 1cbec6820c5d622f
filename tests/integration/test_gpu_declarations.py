"""The declarations of CUDA's driver and NCCL in worker/device, beside their own headers, which come with PyTorch."""

import pathlib
import subprocess
import sysconfig

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
HEADERS = pathlib.Path(sysconfig.get_paths()["purelib"]) / "nvidia"

# nccl.h wants the runtime's headers for these, which need others that do not come along.
RUNTIME = "#include <cuda.h>\ntypedef CUstream cudaStream_t;\n"


def test_they_are_those_of_the_headers(tmp_path: pathlib.Path) -> None:
    """The functions' types, the numbers and the structures."""
    cuda = sorted(HEADERS.glob("cu*/include/cuda.h"))
    nccl = HEADERS / "nccl" / "include" / "nccl.h"
    if not cuda or not nccl.exists():
        pytest.skip("this PyTorch came without CUDA's headers")
    (tmp_path / "cuda_runtime.h").write_text(RUNTIME)
    (tmp_path / "cuda_fp16.h").write_text("")
    folders = [ROOT, tmp_path, cuda[-1].parent, nccl.parent]
    command = ["g++", "-std=c++17", "-fsyntax-only", *(f"-I{folder}" for folder in folders)]
    source = ROOT / "worker" / "device" / "declarations_check.cc"
    done = subprocess.run([*command, str(source)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
