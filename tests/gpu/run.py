"""Runs checks.py on the GPUs of this machine: `python tests/gpu/run.py [-np N] [--device cpu]`.

Needs PyTorch and the wheel of farandole, and nothing else of this repository. Ends with a line that counts, and with 1
if a check has failed or there is no GPU.
"""

import argparse
import os
import pathlib
import shutil
import subprocess
import sys

import torch

CHECKS = pathlib.Path(__file__).resolve().with_name("checks.py")
LIMIT_S = 300


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
    command = [farandole(), "run", *sizes, sys.executable, str(CHECKS), check, "--device", device]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, check=False, env=os.environ)
        said, code = done.stdout + done.stderr, done.returncode
    except subprocess.TimeoutExpired as expired:
        said, code = f"{expired.stdout!r}\nit hung for {LIMIT_S} s", -1
    # Who has killed himself is the cause; the others have been told.
    told = said.count("told: ") == ranks - 1
    passed = (code == 128 + 9 and told) if check == "death" else code == 0
    print(f"{check} on {ranks} ranks: {'passed' if passed else 'FAILED'}")
    if not passed:
        print(said)
    return passed


def main() -> int:
    """The exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-np", type=int, default=0, help="ranks; default: 2, and one for each GPU if there are more")
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    arguments = parser.parse_args()
    if arguments.device == "cuda" and not torch.cuda.is_available():
        print("there is no GPU that PyTorch can use here: nothing was run")
        return 1
    gpus = torch.cuda.device_count() if arguments.device == "cuda" else 0
    sizes = [arguments.np] if arguments.np else sorted({1, 2, max(2, gpus)})
    results = []
    for ranks in sizes:
        checks = ["operations", "training", "compressed"] + (["death", "elastic"] if ranks > 1 else [])
        # Compilers take a while, and on the host nothing of it is ours.
        checks += ["compiled", "graphs"] if arguments.device == "cuda" else []
        results += [run(check, ranks, arguments.device) for check in checks]
    print(f"{results.count(True)} passed, {results.count(False)} failed")
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
