"""A type checker's findings in programs that use the package. Programs of typed/ are read, not run."""

import importlib
import pathlib
import re
from typing import List, Set

import pytest
from checkout import ROOT, output_of

TYPED = ROOT / "tests" / "wheel" / "typed"
PUBLIC = (
    "farandole",
    "farandole.checkpoint",
    "farandole.elastic",
    "farandole.exceptions",
    "farandole.numpy",
    "farandole.torch",
    "farandole.torch.elastic",
)


def names_of(module: str) -> Set[str]:
    """The public names that a module defines, or as a package gathers from its modules, and those that it claims to have."""
    found = importlib.import_module(module)
    source = "farandole" if hasattr(found, "__path__") else module
    own = {
        name
        for name, value in vars(found).items()
        if not name.startswith("_") and str(getattr(value, "__module__", "")).startswith(source)
    }
    return own | set(getattr(found, "__all__", ()))


def uses(path: pathlib.Path) -> None:
    """Writes a program that asks for the type of every public name."""
    lines: List[str] = [f"import {module}" for module in PUBLIC]
    lines += [f"reveal_type({module}.{name})" for module in PUBLIC for name in sorted(names_of(module))]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def errors_of(said: str) -> List[str]:
    """mypy's errors in the programs, and those of the package that say that a function lacks types."""
    errors = [line for line in said.splitlines() if re.search(r":\d+: error: ", line)]
    return [line for line in errors if "sdk/python/" not in line or "[no-untyped-def]" in line]


def mypy(config: pathlib.Path, *paths: object) -> str:
    """mypy's output for some files and the package."""
    options = ["--config-file", config, "--cache-dir", ROOT / "build" / "mypy", "--no-error-summary"]
    command = [ROOT / ".venv/bin/python", "-m", "mypy", *options, *paths, "sdk/python/farandole"]
    return output_of(*command, codes=(0, 1))


def test_all_public_names_have_types_and_programs_pass_strict_rules(
    tmp_path: pathlib.Path, request: pytest.FixtureRequest
) -> None:
    uses(tmp_path / "uses.py")
    config = tmp_path / "mypy.ini"
    text = (TYPED / "mypy.ini").read_text(encoding="utf-8")
    config.write_text(text.partition("# torch's")[0] if request.config.getoption("--everywhere") else text)
    said = mypy(config, *sorted(TYPED.glob("*.py")), tmp_path / "uses.py")
    assert not errors_of(said), "\n".join(errors_of(said))
    revealed = re.findall(r"note: Revealed type is \"(.*)\"", said)
    assert len(revealed) > 150 and "Any" not in revealed, said
