"""The environment variables of the Python SDK itself, and the only place where it reads the environment.

worker/farandole.h lists the variables that the worker library reads (FARANDOLE_COORDINATOR and its relatives).

| variable             | default                     | meaning                                                        |
|----------------------|-----------------------------|----------------------------------------------------------------|
| FARANDOLE_LIBRARY    | _lib/libfarandole.so beside | path of the worker library                                     |
|                      | this package                |                                                                |
| FARANDOLE_PROGRAM    | _bin/farandole in this      | path of `farandole`, of which rank 0 under plain mpirun or     |
|                      | package, farandole beside   | srun starts the job's coordinator                              |
|                      | the interpreter, or in PATH |                                                                |
| FARANDOLE_DEEPBIND   | 1                           | 0: open the library without RTLD_DEEPBIND, which ASan refuses  |
| FARANDOLE_RUN_       | set by run()                | where its workers get their function, and with which secret    |
| ADDRESS, _KEY        |                             |                                                                |
| FARANDOLE_WORKER     | set by init()               | the worker's process, for processes that it starts: its place  |
|                      |                             | in the job is taken                                            |
| FARANDOLE_GRADIENT_  | 1                           | 0: DistributedOptimizer leaves gradients in ordinary memory    |
| ARENA                |                             | where it is not told otherwise                                 |
| FARANDOLE_DEPART_    | 30000                       | elastic: how long a process has between SIGTERM and its end,   |
| GRACE_MS             |                             | in milliseconds; told to people                                |
"""

import contextlib
import os
import pathlib
import shutil
import sys
from typing import Dict, Iterator, Optional, Tuple


def library_path() -> str:
    """Where libfarandole.so is."""
    return os.environ.get("FARANDOLE_LIBRARY") or str(pathlib.Path(__file__).parent / "_lib" / "libfarandole.so")


def library_beside(name: str) -> pathlib.Path:
    """Where another of our libraries is, beside the worker library."""
    return pathlib.Path(library_path()).with_name(name)


def gloo_library_exists() -> bool:
    """Whether the library of the transport over Gloo lies beside the worker library."""
    return library_beside("libfarandole_gloo.so").exists()


def program_path() -> str:
    """Where `farandole` is: in this package, as the wheel has it, or beside this interpreter; "" where it is at neither
    place, then the worker library looks for it."""
    if not os.environ.get("FARANDOLE_PROGRAM"):
        packed = pathlib.Path(__file__).parent / "_bin" / "farandole"
        for program in (packed, pathlib.Path(sys.executable).with_name("farandole")):
            if os.access(program, os.X_OK):
                return str(program)
    return ""


def launcher_path() -> str:
    """The path of the `farandole` command, for programs that run it. FileNotFoundError: it is nowhere."""
    found = os.environ.get("FARANDOLE_PROGRAM") or program_path() or shutil.which("farandole")
    if not found:
        raise FileNotFoundError(
            f"there is no `farandole` beside {sys.executable} nor in PATH; set FARANDOLE_PROGRAM to its path"
        )
    return found


def environment_with(**variables: str) -> Dict[str, str]:
    """This process's environment with some variables more, for another process."""
    return {**os.environ, **variables}


def variable(name: str) -> Optional[str]:
    """An environment variable of other launchers; None: it is not set."""
    return os.environ.get(name)


def run_rendezvous() -> Tuple[str, bytes]:
    """On a worker of run(): where its driver listens, and the secret. KeyError: it is none."""
    return os.environ["FARANDOLE_RUN_ADDRESS"], bytes.fromhex(os.environ["FARANDOLE_RUN_KEY"])


def coordinator_host() -> str:
    """The launcher's host as this worker reaches it. KeyError: nobody launched this process."""
    return os.environ["FARANDOLE_COORDINATOR"].rpartition(":")[0].strip("[]")


def launch_index() -> int:
    """The launcher's number for this worker. KeyError: nobody launched this process."""
    return int(os.environ["FARANDOLE_LAUNCH_INDEX"])


# The variables that give each worker its own place in the job: the launcher's, or those of mpirun and srun.
_PLACE = (
    "FARANDOLE_COORDINATOR",
    "FARANDOLE_JOB",
    "FARANDOLE_LAUNCH_INDEX",
    "OMPI_COMM_WORLD_RANK",
    "PMIX_NAMESPACE",
    "PMIX_RANK",
    "PMI_RANK",
    "SLURM_JOB_ID",
    "SLURM_STEP_ID",
    "SLURM_PROCID",
)


def _place() -> str:
    return " ".join(f"{name}={os.environ[name]}" for name in _PLACE if name in os.environ)


def take_place() -> None:
    """Lets processes that this one starts know that it is the worker of its place."""
    if _place():
        os.environ["FARANDOLE_WORKER"] = f"{os.getpid()} {_place()}"


def leave_place() -> None:
    """This process is no worker any more."""
    if place_is_taken_by() == os.getpid():
        del os.environ["FARANDOLE_WORKER"]


def place_is_taken_by() -> Optional[int]:
    """The process that was the worker of this one's place when it started this one, or this one itself."""
    pid, _, place = os.environ.get("FARANDOLE_WORKER", "").partition(" ")
    return int(pid) if pid.isdecimal() and place and place == _place() else None


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


@contextlib.contextmanager
def temporary_environment(**variables: Optional[str]) -> Iterator[None]:
    """Sets environment variables of this process within it; None leaves one as it is."""
    given = {name: value for name, value in variables.items() if value is not None}
    before: Dict[str, Optional[str]] = {name: os.environ.get(name) for name in given}
    os.environ.update(given)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
