"""The frameworks that an import brings along."""

import os
import pathlib
import subprocess
import sys
from typing import List, Sequence

FRAMEWORKS = ("torch", "tensorflow", "keras", "tf_keras", "jax", "mxnet")


def imported_by(folder: pathlib.Path, module: str, own: Sequence[str]) -> List[str]:
    """The frameworks, other than its own, that a process has which has imported the module. Empty modules in `folder` stand
    for them: the environment may lack the real ones."""
    others = [name for name in FRAMEWORKS if name not in own]
    for name in others:
        (folder / f"{name}.py").write_text("", encoding="utf-8")
    code = f"import sys, {module}; print(*[name for name in {others} if name in sys.modules])"
    environment = {**os.environ, "PYTHONPATH": str(folder)}
    return subprocess.check_output([sys.executable, "-c", code], text=True, env=environment).split()
