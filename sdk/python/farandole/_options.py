"""The environment variables of the Python SDK itself, and the only place where it reads the environment.

What the worker library reads (FARANDOLE_COORDINATOR and its relatives) is in worker/farandole.h.

| variable             | default                     | meaning                                                        |
|----------------------|-----------------------------|----------------------------------------------------------------|
| FARANDOLE_LIBRARY    | _lib/libfarandole.so beside | path of the worker library                                     |
|                      | this package                |                                                                |
| FARANDOLE_PROGRAM    | _bin/farandole in this      | path of `farandole`, of which rank 0 under plain mpirun or     |
|                      | package, farandole beside   | srun starts the job's coordinator                              |
|                      | the interpreter, or in PATH |                                                                |
| FARANDOLE_DEEPBIND   | 1                           | 0: open the library without RTLD_DEEPBIND, which ASan refuses  |
| FARANDOLE_GRADIENT_  | 1                           | 0: DistributedOptimizer leaves gradients in ordinary memory    |
| ARENA                |                             | where it is not told otherwise                                 |
| FARANDOLE_DEPART_    | 30000                       | elastic: how long a process has between SIGTERM and its end,   |
| GRACE_MS             |                             | in milliseconds; told to people                                |
"""

import os
import pathlib
import sys


def library_path() -> str:
    """Where libfarandole.so is."""
    return os.environ.get("FARANDOLE_LIBRARY") or str(pathlib.Path(__file__).parent / "_lib" / "libfarandole.so")


def program_path() -> str:
    """Where `farandole` is: in this package, as the wheel has it, or beside this interpreter; "" where it is at neither
    place, then the worker library looks for it."""
    if not os.environ.get("FARANDOLE_PROGRAM"):
        packed = pathlib.Path(__file__).parent / "_bin" / "farandole"
        for program in (packed, pathlib.Path(sys.executable).with_name("farandole")):
            if os.access(program, os.X_OK):
                return str(program)
    return ""


def gradient_arena() -> bool:
    """Whether gradients go into memory that the host's ranks share."""
    return os.environ.get("FARANDOLE_GRADIENT_ARENA", "1") != "0"


def depart_grace_ms() -> int:
    """How long a process has after SIGTERM. ValueError: the variable is no number >= 0."""
    text = os.environ.get("FARANDOLE_DEPART_GRACE_MS") or "30000"
    if not text.isdecimal():
        raise ValueError(f"FARANDOLE_DEPART_GRACE_MS must be a number of milliseconds >= 0, not {text!r}")
    return int(text)


def deepbind() -> bool:
    """Whether the library gets a symbol scope of its own."""
    return os.environ.get("FARANDOLE_DEEPBIND", "1") != "0"
