"""Runs checks.py on the GPUs of this machine, and jax_checks.py where JAX can use them:
`python tests/gpu/run.py [-np N] [--check NAME] [--device cpu]`.

Needs PyTorch and the wheel of farandole, and of this repository only the tests. Ends with a line that counts, and with 1
if a check has failed or there is no GPU. The output of what fails, or takes too long, is printed.
"""

import argparse
import os
import pathlib
import shutil
import subprocess
import sys
import sysconfig
from typing import Dict, List

import torch

CHECKS = pathlib.Path(__file__).resolve().with_name("checks.py")
# Modules of jax_checks.py; as names of checks they begin with "jax.".
JAX = ("ops", "programs", "derivatives", "training", "errors", "refused")
LIMIT_S = 120
# Compilers take a while.
LIMITS_S = {"compiled": 240}
# Of checks that want some.
VARIABLES: Dict[str, Dict[str, str]] = {"splits": {"FARANDOLE_NCCL_SPLIT": "1"}}
# In lines that are visible in every outcome of the check.
MEASURED = " MiB of the GPU "
# So that a hang says what hangs, and ends before the limit.
SETTINGS = {"NCCL_DEBUG": "WARN", "FARANDOLE_STALL_WARNING_MS": "10000", "FARANDOLE_STALL_LIMIT_MS": "60000"}


def farandole() -> str:
    """The command of this Python's environment. SystemExit: there is none."""
    beside = pathlib.Path(sys.executable).with_name("farandole")
    found = str(beside) if beside.exists() else shutil.which("farandole")
    if found is None:
        sys.exit("there is no farandole here: install its wheel into this environment")
    return found


def run(check: str, ranks: int, device: str) -> bool:
    """Whether a check has passed on so many ranks; else its output is printed."""
    sizes = ["-np", str(ranks), *(["--min-np", "1"] if check == "elastic" else [])]
    program = [str(CHECKS), check, "--device", device]
    if check.startswith("jax."):
        program = [str(CHECKS.with_name("jax_checks.py")), check[len("jax.") :]]
    command = [farandole(), "run", *sizes, sys.executable, *program]
    limit = LIMITS_S.get(check, LIMIT_S)
    one = {
        "stdout": subprocess.PIPE,
        "stderr": subprocess.STDOUT,
        "env": {**SETTINGS, **os.environ, **VARIABLES.get(check, {})},
    }
    try:
        done = subprocess.run(command, **one, timeout=limit, check=False)
        said, code = done.stdout.decode(errors="replace"), done.returncode
    except subprocess.TimeoutExpired as expired:
        said, code = (expired.stdout or b"").decode(errors="replace") + f"\nit hung for {limit} s", -1
    # The rank that has killed itself is the cause; the others have been told.
    told = said.count("told: ") == ranks - 1
    passed = (code == 128 + 9 and told) if check == "death" else code == 0
    print(f"{check} on {ranks} ranks: {'passed' if passed else 'FAILED'}", flush=True)
    for line in said.splitlines():
        if not passed or MEASURED in line:
            print(line, flush=True)
    return passed


def has_jax() -> bool:
    """Whether JAX is here, and finds a GPU."""
    found = [sys.executable, "-c", "import jax; jax.devices('cuda')"]
    return subprocess.run(found, capture_output=True, check=False).returncode == 0


def can_compile() -> bool:
    """Whether torch.compile finds on this machine what it builds kernels' launchers with."""
    headers = pathlib.Path(sysconfig.get_paths()["include"], "Python.h").exists()
    return headers and any(shutil.which(name) for name in (os.environ.get("CC", "cc"), "gcc", "clang"))


def checks_of(ranks: int, device: str) -> List[str]:
    """The checks for so many ranks."""
    names = ["operations", "process_sets", "training", "compressed"]
    names += ["splits", "death", "elastic"] if ranks > 1 else []
    # Of a host nothing of these is ours.
    return names + (["compiled", "graphs", *(f"jax.{module}" for module in JAX)] if device == "cuda" else [])


def main() -> int:
    """The exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-np", type=int, default=0, help="ranks; default: 2, and one for each GPU if there are more")
    parser.add_argument(
        "--check", action="append", help="one of checks.py, or jax.MODULE; may be repeated; default: all"
    )
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    arguments = parser.parse_args()
    if arguments.device == "cuda" and not torch.cuda.is_available():
        print("there is no GPU that PyTorch can use here: nothing was run")
        return 1
    gpus = torch.cuda.device_count() if arguments.device == "cuda" else 0
    sizes = [arguments.np] if arguments.np else sorted({1, 2, max(2, gpus)})
    plan = [(check, ranks) for ranks in sizes for check in checks_of(ranks, arguments.device)]
    plan = [each for each in plan if not arguments.check or each[0] in arguments.check]
    if not can_compile() and any(check == "compiled" for check, _ in plan):
        print("compiled: skipped, as this machine has no C compiler, or no headers of Python, for torch.compile")
        plan = [each for each in plan if each[0] != "compiled"]
    if any(check.startswith("jax.") for check, _ in plan) and not has_jax():
        print("jax.*: skipped, as JAX is not here, or finds no GPU")
        plan = [each for each in plan if not each[0].startswith("jax.")]
    results = [run(check, ranks, arguments.device) for check, ranks in plan]
    print(f"{results.count(True)} passed, {results.count(False)} failed")
    return 0 if results and all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
