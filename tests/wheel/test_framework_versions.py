"""The wheel beside the oldest TensorFlow and JAX that it is said to work with; the newest are those with which everything is
tested. With --everywhere only (make soak): each is fetched anew."""

import pathlib
import shutil
import sys
from typing import NamedTuple, Sequence

import pytest
from checkout import ROOT, output_of, run_checks

pytestmark = pytest.mark.usefixtures("everywhere")


class Oldest(NamedTuple):
    """A framework's oldest version, with packages of its time."""

    name: str
    packages: Sequence[str]
    modules: Sequence[str]


OLDEST = [
    Oldest("tensorflow", ["tensorflow-cpu==2.13.1"], ["ops", "graphs", "compiled", "training"]),
    Oldest(
        "jax",
        ["jax==0.4.38", "jaxlib==0.4.38", "flax==0.10.2", "equinox==0.11.10", "optax==0.2.4"],
        ["ops", "programs", "derivatives", "training", "errors"],
    ),
]


@pytest.mark.parametrize("oldest", OLDEST, ids=lambda oldest: oldest.name)
def test_checks_pass_beside_the_oldest(
    oldest: Oldest, wheel: pathlib.Path, uv: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    folder = tmp_path / "venv"
    python = folder / "bin" / "python"
    try:
        output_of(uv, "venv", "--no-python-downloads", "--python", sys.executable, folder)
        output_of(uv, "pip", "install", "--no-cache", "--python", python, wheel, "cloudpickle", *oldest.packages)
        modules = [f"{oldest.name}_checks.{module}" for module in oldest.modules]
        path = str(ROOT / "tests" / oldest.name)
        for size in (2, 3):
            passed = run_checks(folder / "bin", modules, size, tmp_path / str(size), PYTHONPATH=path)
            assert passed > 60
    finally:
        shutil.rmtree(folder, ignore_errors=True)
