"""The wheel beside every torch that it is said to work with. With --everywhere only (make soak): each is fetched anew, some gigabytes."""

import pathlib
import shutil
import sys
from typing import Iterator

import pytest
from checkout import CHECKS, output_of, run_checks

sys.path.insert(0, str(CHECKS))
import harness  # noqa: E402

# One of each minor version from the oldest on; the newest is that of .venv, with which everything is tested.
VERSIONS = ("2.4.1", "2.5.1", "2.6.0", "2.7.1", "2.8.0", "2.9.1", "2.10.0", "2.11.0", "2.12.1", "2.13.0", "2.14.1")


pytestmark = pytest.mark.usefixtures("everywhere")


@pytest.fixture
def folder(tmp_path: pathlib.Path) -> Iterator[pathlib.Path]:
    """A folder that does not outlive the test: there is no room for many of them."""
    yield tmp_path / "venv"
    shutil.rmtree(tmp_path / "venv", ignore_errors=True)


@pytest.mark.parametrize("version", VERSIONS)
def test_checks_pass_beside_another_torch(
    version: str, wheel: pathlib.Path, uv: pathlib.Path, folder: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    python = folder / "bin" / "python"
    output_of(uv, "venv", "--no-python-downloads", "--python", sys.executable, folder)
    # setuptools is what torch.compile wants of old versions.
    packages = (f"torch=={version}", "numpy", "setuptools")
    output_of(uv, "pip", "install", "--no-cache", "--python", python, wheel, *packages)
    for size in (2, 3):
        modules = harness.modules_of(harness.Setup(size), has_all=True)
        assert run_checks(folder / "bin", modules, size, tmp_path / str(size)) > 200
