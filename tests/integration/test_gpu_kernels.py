"""The kernels that the library carries (worker/device/batch_kernel.cu), as the assembler of CUDA's toolkit sees them, which
drivers have in them as well. The one of Triton, which comes with PyTorch, does."""

import pathlib
import re
import shutil
import subprocess
import sysconfig
from typing import List

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
LIBRARY = ROOT / "sdk" / "python" / "farandole" / "_lib" / "libfarandole.so"
SITE = pathlib.Path(sysconfig.get_paths()["purelib"])


def assemblers() -> List[str]:
    """Those of this machine: an older one does not know new GPUs, a newer one not old ones."""
    beside = sorted(SITE.glob("triton/backends/nvidia/bin/ptxas*")) + sorted(SITE.glob("nvidia/*/bin/ptxas"))
    installed = shutil.which("ptxas")
    return [*map(str, beside), *([installed] if installed else [])]


def ptx() -> str:
    """The PTX that the library has the driver load."""
    found = re.findall(rb"\.version \d[^\0]*", LIBRARY.read_bytes())
    assert len(found) == 1, f"{LIBRARY} has {len(found)} texts that look like PTX"
    return found[0].decode("ascii")


def test_they_want_no_new_driver_and_no_new_gpu() -> None:
    """Drivers of CUDA 11.2, which the memory pools want, know PTX 7.2; NCCL 2.18 runs on GPUs from 5.0 on."""
    text = ptx()
    version = re.match(r"\.version (\d+)\.(\d+)\n\.target sm_(\d+)\n", text)
    assert version is not None, text[:200]
    major, minor, target = map(int, version.groups())
    assert (major, minor) <= (7, 2) and target == 50
    assert set(re.findall(r"\.visible \.entry (\w+)\(", text)) == {"farandole_copy", "farandole_scale"}


def test_they_round_as_the_host_does() -> None:
    """Subnormals stay, and no product is fused with a sum; nothing lies in the threads' own memory, which is slow."""
    text = ptx()
    arithmetic = set(re.findall(r"\b((?:add|sub|mul|div|fma|mad)\.[\w.]*f(?:32|64))\b", text))
    assert arithmetic == {"mul.rn.f32", "mul.rn.f64", "add.rn.f32"}
    assert ".ftz" not in text and ".local" not in text


@pytest.mark.parametrize("gpu", ("sm_75", "sm_80", "sm_90", "sm_100", "sm_120"))
def test_they_are_assembled_for_gpus_of_today(gpu: str, tmp_path: pathlib.Path) -> None:
    found = assemblers()
    if not found:
        pytest.skip("there is no ptxas here: this PyTorch came without Triton")
    source = tmp_path / "kernels.ptx"
    source.write_text(ptx(), encoding="ascii")
    done = [
        subprocess.run(
            [ptxas, "-v", f"--gpu-name={gpu}", str(source), "-o", str(tmp_path / "kernels.cubin")],
            capture_output=True,
            text=True,
            check=False,
        )
        for ptxas in found
    ]
    able = [run for run in done if "is not defined for option 'gpu-name'" not in run.stderr]
    if not able:
        pytest.skip(f"no ptxas here knows {gpu}")
    for run in able:
        assert run.returncode == 0 and " 0 bytes spill stores" in run.stderr, run.stderr
