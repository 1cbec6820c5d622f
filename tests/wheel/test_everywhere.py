"""The wheel on a Debian as its archive makes it, and under every CPython that is here. With --everywhere only (make soak)."""

import os
import pathlib
import shutil
import sys
from typing import Callable, Sequence

import pytest
from bare_system import BareSystem
from checkout import ROOT, output_of, show_programs

CHECKS = ROOT / "tests" / "python"
CERTIFICATES = pathlib.Path("/etc/ssl/certs/ca-certificates.crt")


@pytest.fixture(autouse=True)
def _asked_for(request: pytest.FixtureRequest) -> None:
    if not request.config.getoption("--everywhere"):
        pytest.skip("without --everywhere")


@pytest.mark.parametrize("version", ["3.9", "3.10", "3.12", "3.13", "3.14"])
def test_numpy_checks_pass_under_another_cpython(
    version: str, environment_of: Callable[[str, Sequence[str]], pathlib.Path], tmp_path: pathlib.Path
) -> None:
    bin_folder = environment_of(version, ["numpy"])
    command = [bin_folder / "farandole", "run", "-np", "2", "--state-dir", tmp_path / "state", bin_folder / "python"]
    output_of(*command, CHECKS / "harness.py", "numpy_ops", tmp_path)
    for rank in range(2):
        lines = (tmp_path / f"{rank}.jsonl").read_text(encoding="utf-8").splitlines()
        assert len(lines) > 50 and all(line.endswith(', ""]') for line in lines)


def test_pip_installs_it_on_a_debian_without_anything(wheel: pathlib.Path, tmp_path: pathlib.Path) -> None:
    debian = BareSystem.of_debian(tmp_path / "debian")
    show_programs(debian, wheel)
    # pip may need the machine's own way to the network.
    debian.show(CERTIFICATES, str(CERTIFICATES))
    shutil.copy("/etc/resolv.conf", debian.root / "etc/resolv.conf")
    network = {name: text for name, text in os.environ.items() if name.startswith("PIP_") or "proxy" in name.lower()}
    debian.run("python3", "-m", "venv", "/venv")
    debian.run("pip", "install", f"/dist/{wheel.name}", "numpy", seconds=600, **network)
    run = ("farandole", "run", "-np", "2", "python")
    assert "equal to the bit on all of them" in debian.run(*run, "/examples/numpy_allreduce.py")
    assert sys.version_info[:2] == (3, 11), "the packages of .venv are for Debian's Python"
    assert "rank 1: last loss" in debian.run(*run, "/examples/torch_mlp_objects.py", PYTHONPATH="/frameworks")
