"""Where and with what a run was made."""

import datetime
import os
import pathlib
import platform
import re
import subprocess
from typing import List

from groups import FARANDOLE, PYTHON, ROOT, SYSTEM_PYTHON


def _output(*command: str) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    except FileNotFoundError:  # of the peers, where none is compared with
        return f"no {command[0]}"
    return done.stdout.strip() if done.returncode == 0 else "unknown"


def load() -> str:
    """Processes that wanted to run, on average over the last minute."""
    return f"{os.getloadavg()[0]:.2f}"


def commit() -> str:
    """The checkout's commit, and whether tracked files differ from it."""
    name = _output("git", "rev-parse", "--short=10", "HEAD")
    return name if not _output("git", "status", "--porcelain", "--untracked-files=no") else f"{name} with changes"


def describe(load_before: str) -> List[str]:
    """Facts, a sentence each."""
    cpu = pathlib.Path("/proc/cpuinfo").read_text(encoding="ascii", errors="replace")
    model = re.search(r"model name\s*: (.*)", cpu)
    memory = re.search(r"MemTotal:\s*(\d+)", pathlib.Path("/proc/meminfo").read_text(encoding="ascii"))
    mpi = _output("mpirun", "--version").splitlines()[0]
    return [
        f"machine: {os.cpu_count()} cores ({model.group(1) if model else platform.machine()}), "
        f"{int(memory.group(1)) / (1 << 20):.0f} GiB of memory, Linux {platform.release()}",
        f"load average: {load_before} before the run, {load()} after it (the run itself keeps both cores busy)",
        f"Farandole: {_output(FARANDOLE, '--version')}, commit {commit()}",
        f"peers: torch {_output(PYTHON, '-c', 'import torch; print(torch.__version__)')}, {mpi}, "
        f"mpi4py {_output(SYSTEM_PYTHON, '-c', 'import mpi4py; print(mpi4py.__version__)')}, Python {platform.python_version()}",
        f"date: {datetime.datetime.now(datetime.timezone.utc):%Y-%m-%d %H:%M} UTC",
    ]
