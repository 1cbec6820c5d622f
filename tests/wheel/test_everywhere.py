"""The wheel on a Debian as its archive makes it, and under every CPython that is here. With --everywhere only (make soak)."""

import os
import pathlib
import shutil
import sys
from typing import Callable, Sequence

import pytest
from bare_system import BareSystem
from checkout import run_checks, show_programs

CERTIFICATES = pathlib.Path("/etc/ssl/certs/ca-certificates.crt")


pytestmark = pytest.mark.usefixtures("everywhere")


@pytest.mark.parametrize("version", ["3.9", "3.10", "3.12", "3.13", "3.14"])
def test_numpy_checks_pass_under_another_cpython(
    version: str, environment_of: Callable[[str, Sequence[str]], pathlib.Path], tmp_path: pathlib.Path
) -> None:
    bin_folder = environment_of(version, ["numpy"])
    assert run_checks(bin_folder, ["numpy_ops"], 2, tmp_path) > 50


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
