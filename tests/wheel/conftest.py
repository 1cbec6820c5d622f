"""The wheel, and environments that have it and no checkout."""

import os
import pathlib
import subprocess
import sys
from typing import Callable, Sequence

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

from bare_system import BareSystem  # noqa: E402
from checkout import ROOT, output_of, show_programs  # noqa: E402

REQUIREMENTS = ROOT / "sdk" / "python" / "requirements.txt"
# The packages that make install has fetched are enough, in .venv's versions. Links would cross from one mount to another.
UV_INSIDE = {"UV_CACHE_DIR": "/uv/cache", "UV_OFFLINE": "1", "UV_LINK_MODE": "copy"}


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--everywhere", action="store_true", help="try the wheel on all systems and interpreters")


@pytest.fixture
def everywhere(request: pytest.FixtureRequest) -> None:
    """Skips the test where that was not asked for."""
    if not request.config.getoption("--everywhere"):
        pytest.skip("without --everywhere")


@pytest.fixture(scope="session")
def wheel() -> pathlib.Path:
    """The wheel of this checkout."""
    output_of("tools/wheel")
    (found,) = (ROOT / "dist").glob("farandole-*.whl")
    return found


@pytest.fixture(scope="session")
def uv() -> pathlib.Path:
    """The program uv."""
    return pathlib.Path(output_of("tools/setup", "--print-tools-bin").splitlines()[-1]) / "uv"


@pytest.fixture(scope="session")
def uv_cache(uv: pathlib.Path) -> pathlib.Path:
    """Where uv keeps what make install has fetched."""
    kept = os.environ.get("FARANDOLE_CACHE")
    return pathlib.Path(f"{kept}/uv" if kept else output_of(uv, "cache", "dir").strip())


def _install(system: BareSystem, environment: str, *wheels: str) -> None:
    """Makes an environment of these wheels, NumPy, and what they need."""
    system.run("/uv/uv", "venv", "--no-python-downloads", "--python", "/usr/bin/python3", environment, **UV_INSIDE)
    install = (
        "/uv/uv",
        "pip",
        "install",
        "--python",
        f"{environment}/bin/python",
        "--constraint",
        "/uv/requirements.txt",
    )
    system.run(*install, *(f"/dist/{name}" for name in wheels), "numpy", **UV_INSIDE)


@pytest.fixture(scope="session")
def bare(
    wheel: pathlib.Path, uv: pathlib.Path, uv_cache: pathlib.Path, tmp_path_factory: pytest.TempPathFactory
) -> BareSystem:
    """A system without what Farandole is built with, and in it /venv, which has the wheel, NumPy, and what these need."""
    system = BareSystem.of_this_machine(tmp_path_factory.mktemp("bare"))
    show_programs(system, wheel)
    system.show(uv, "/uv/uv")
    system.show(uv_cache, "/uv/cache")
    system.show(REQUIREMENTS, "/uv/requirements.txt")
    _install(system, "/venv", wheel.name)
    return system


@pytest.fixture(scope="session")
def path_with_horovod(bare: BareSystem, wheel: pathlib.Path) -> str:
    """The PATH of another environment of that system, which has Horovod's names as well."""
    (names,) = wheel.parent.glob("farandole_horovod-*.whl")
    _install(bare, "/venv-horovod", wheel.name, names.name)
    return "/venv-horovod/bin:/usr/bin:/bin"


@pytest.fixture
def environment_of(
    wheel: pathlib.Path, uv: pathlib.Path, tmp_path: pathlib.Path
) -> Callable[[str, Sequence[str]], pathlib.Path]:
    """environment_of("3.9", ["numpy"]): a new environment of this CPython with the wheel and these packages; skips the test
    where uv finds no such interpreter."""

    def make(version: str, packages: Sequence[str]) -> pathlib.Path:
        kept_by_pyenv = [str(path) for path in pathlib.Path.home().glob(".pyenv/versions/*/bin")]
        found = subprocess.run(
            [str(uv), "python", "find", "--no-python-downloads", "--no-project", "--system", version],
            env={**os.environ, "PATH": ":".join([*kept_by_pyenv, os.environ["PATH"]])},
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            check=False,
        )
        if found.returncode != 0:
            pytest.skip(f"this machine has no CPython {version}")
        output_of(uv, "venv", "--python", found.stdout.strip(), tmp_path / "venv")
        output_of(uv, "pip", "install", "--python", tmp_path / "venv/bin/python", wheel, *packages)
        return tmp_path / "venv" / "bin"

    return make
