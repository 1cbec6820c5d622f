"""This checkout, as the tests of the wheel use it."""

import os
import pathlib
import subprocess
from typing import Sequence

from bare_system import BareSystem

ROOT = pathlib.Path(__file__).resolve().parents[2]
CHECKS = ROOT / "tests" / "python"


def output_of(*command: object, codes: Sequence[int] = (0,), **environment: str) -> str:
    """The output of a command in the checkout, which must exit with one of these codes."""
    words = [str(word) for word in command]
    result = subprocess.run(
        words,
        cwd=ROOT,
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert result.returncode in codes, f"{' '.join(words)} exited with {result.returncode}:\n{result.stdout[-3000:]}"
    return result.stdout


def show_programs(system: BareSystem, wheel: pathlib.Path) -> None:
    """Lets a system have the wheel, the examples with their data, these tests' programs, and, for programs that
    have them in their path, the packages of .venv, among them torch, and those of .venv-tensorflow."""
    (site,) = (ROOT / ".venv" / "lib").glob("python3.*/site-packages")
    system.show(wheel.parent, "/dist")
    system.show(ROOT / "examples", "/examples")
    system.show(pathlib.Path("/usr/share/datasets/fashion-mnist"), "/data")
    system.show(ROOT / "tests" / "wheel", "/tests")
    system.show(site, "/frameworks")
    (site,) = (ROOT / ".venv-tensorflow" / "lib").glob("python3.*/site-packages")
    system.show(site, "/tensorflow")


def run_checks(
    bin_folder: pathlib.Path, modules: Sequence[str], size: int, folder: pathlib.Path, **environment: str
) -> int:
    """How many checks of these modules each rank has passed, by what an environment has installed. AssertionError: one
    has not passed all."""
    folder.mkdir(exist_ok=True)
    run = (bin_folder / "farandole", "run", "-np", size, "--state-dir", folder / "state", bin_folder / "python")
    output_of(*run, CHECKS / "harness.py", ",".join(modules), folder, OMP_NUM_THREADS="1", **environment)
    reports = [(folder / f"{rank}.jsonl").read_text(encoding="utf-8").splitlines() for rank in range(size)]
    assert all(line.endswith(', ""]') for lines in reports for line in lines)
    return min(map(len, reports))
