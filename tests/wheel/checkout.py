"""This checkout, as the tests of the wheel use it."""

import os
import pathlib
import subprocess
from typing import Sequence

from bare_system import BareSystem

ROOT = pathlib.Path(__file__).resolve().parents[2]


def output_of(*command: object, codes: Sequence[int] = (0,), **environment: str) -> str:
    """What a command prints that must exit with one of these codes, in the checkout."""
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
    """Lets a system have the wheel, the examples, these tests' programs, and the packages of .venv, among them torch, for who has them in his path."""
    (site,) = (ROOT / ".venv" / "lib").glob("python3.*/site-packages")
    system.show(wheel.parent, "/dist")
    system.show(ROOT / "examples", "/examples")
    system.show(ROOT / "tests" / "wheel", "/tests")
    system.show(site, "/frameworks")
