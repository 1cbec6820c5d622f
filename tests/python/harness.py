"""Many checks in one job: what runs on the ranks, and what pytest asks about it.

A check is a function in a module of `checks/` that all ranks of a job call. One job runs all checks of several
modules in order, which is much quicker than a job for each. Each rank appends a line of JSON for every check that it
has passed or failed; it ends at its first failure, and so do the others, by its death.

    farandole run -np 2 python tests/python/harness.py numpy_ops,state DIRECTORY
"""

import contextlib
import importlib
import json
import os
import pathlib
import subprocess
import sys
import traceback
import types
from typing import Any, Callable, Dict, Iterator, List, NamedTuple, Sequence, Tuple
from unittest import mock

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
CLI = ROOT / ".venv" / "bin" / "farandole"

# The sizes of jobs in which a module's checks run.
SIZES = {
    "numpy_ops": (1, 2, 3, 4),
    "torch_ops": (1, 2, 3, 4),
    "derivatives": (1, 2, 3, 4),
    "tensor_kinds": (2,),
    "arguments": (2,),
    "state": (1, 2, 3, 4),
    "replicas": (1, 2, 3, 4),
    "sections": (1, 2),
    "optimizer": (1, 2, 3, 4),
    "idioms": (1, 2, 3),
    "random_loops": (1, 2, 3),
    "stray_gradients": (1, 2, 3),
    "frozen": (1, 2, 3),
    "shared_gradients": (1, 2, 3),
    "late_groups": (1, 2, 3),
    "several_optimizers": (1, 2, 3),
    "training": (1, 2, 3, 4),
    "horovod_names": (1, 2, 3, 4),
    "batch_norm": (1, 2, 3, 4),
    "arena": (1, 2, 3, 4),
    "disagreement": (2, 3, 4),
    "elastic": (1, 2, 3, 4),
    "proofs": (1, 2, 3, 4),
    "groups": (2, 3, 4),
    "join": (1, 2, 3, 4),
    "adasum": (1, 2, 3, 4),
    "compression": (1, 2, 3, 4),
}


class Setup(NamedTuple):
    """How the ranks of a job are connected."""

    size: int
    hosts: int = 1
    """So many pretended hosts share the ranks; those of different ones share no memory."""
    transport: str = "auto"
    far: bool = False
    """Tensors of torch say that they are not in the host's memory, as those of a device do."""
    gpus: bool = False
    """Tensors of torch say that they are in a GPU, and the machine has imitated ones, with an imitated NCCL."""
    encrypts: bool = False
    """Bytes that cross a network are encrypted."""

    def __str__(self) -> str:
        if self == Setup(self.size):
            return str(self.size)
        words = [word for word in ("far", "gpus", "encrypts") if getattr(self, word)]
        return f"{self.size}x{self.hosts}{self.transport}{''.join(words)}"


# How ranks may be connected, and the modules whose checks `make test` runs so; () stands for all that are made for the
# size. `make soak` runs all of them in each (--all-setups). Every check runs in memory with one and two ranks, and over
# hosts with three; what adds ranks to the first, or another transport, runs what depends on that.
SETUPS: Dict[Setup, Sequence[str]] = {
    Setup(1): (),
    Setup(2): (),
    Setup(3): ("numpy_ops", "torch_ops", "optimizer", "groups", "join", "adasum", "arena"),
    Setup(4): ("numpy_ops", "torch_ops", "training", "groups", "join", "adasum", "elastic", "proofs"),
    Setup(2, hosts=2, transport="tcp"): ("torch_ops", "disagreement"),
    Setup(2, hosts=2, transport="gloo"): ("torch_ops", "disagreement"),
    Setup(2, hosts=2, encrypts=True): ("proofs",),
    Setup(3, hosts=2): (),
    Setup(3, hosts=3): ("torch_ops", "groups"),
    Setup(3, hosts=1, transport="tcp"): ("torch_ops", "groups"),
    Setup(4, hosts=2): ("torch_ops", "optimizer"),
    Setup(4, hosts=2, transport="gloo"): ("torch_ops",),
    Setup(1, gpus=True): ("batch_norm",),
    Setup(2, gpus=True): (
        "torch_ops",
        "state",
        "optimizer",
        "adasum",
        "compression",
        "join",
        "disagreement",
        "batch_norm",
    ),
    Setup(3, gpus=True): ("torch_ops", "groups", "join", "batch_norm"),
    Setup(2, far=True): (
        "torch_ops",
        "tensor_kinds",
        "state",
        "optimizer",
        "adasum",
        "compression",
        "join",
        "batch_norm",
    ),
}


def modules_of(setup: Setup, has_all: bool) -> List[str]:
    """The modules whose checks run in a setup, or all that can."""
    chosen = () if has_all else SETUPS[setup]
    return [module for module, sizes in SIZES.items() if setup.size in sizes and (not chosen or module in chosen)]


# Set for ranks whose tensors are to be far.
FAR = "FARANDOLE_CHECKS_FAR"
# For those with imitated GPUs, the directory in which they meet.
GPUS = "FARANDOLE_CHECKS_GPUS"
# In the place of CUDA's driver, NCCL and NVML (worker/device/fake/fake_libraries.cc).
FAKE_LIBRARIES = ROOT / ".venv" / "lib" / "fake_libraries.so"

# A job that takes longer hangs. The longest needs a quarter of it on two busy cores.
JOB_SECONDS = 480


def expect_error(kind: type, call: Callable[[], Any], *words: str) -> None:
    """Fails unless the call raises `kind` with these words."""
    try:
        call()
    except kind as error:
        for word in words:
            assert word in str(error), f"{word!r} is not in: {error}"
        return
    raise AssertionError(f"no {kind.__name__}")


@contextlib.contextmanager
def noted_sections() -> Iterator[List[str]]:
    """The sections of the program that begin and end within it: "[NAME" and "]". The library does not see them."""
    from farandole import _sections  # here, since the processes that only collect tests have none

    seen: List[str] = []

    def begin(name: bytes) -> int:
        seen.append(f"[{name.decode()}")
        return 1

    noting = types.SimpleNamespace(farandole_section_begin=begin, farandole_section_end=lambda _: seen.append("]"))
    with contextlib.ExitStack() as patched:
        for module in (_sections, sys.modules.get("farandole.torch.backward_mark")):
            if module is not None:
                patched.enter_context(mock.patch.object(module, "lib", noting))
        yield seen


class Checks:
    """The checks of one module."""

    def __init__(self) -> None:
        self.functions: Dict[str, Callable[[], None]] = {}

    def __call__(self, function: Callable[[], None]) -> Callable[[], None]:
        """Decorates a check without arguments."""
        self.functions[function.__name__] = function
        return function

    def each(self, *rows: Any) -> Callable[[Callable[..., None]], Callable[..., None]]:
        """Decorates a check that is run once for each row, which is its argument (a tuple: its arguments)."""

        def decorate(function: Callable[..., None]) -> Callable[..., None]:
            for row in rows:
                arguments = row if isinstance(row, tuple) else (row,)
                name = f"{function.__name__}[{'-'.join(map(str, arguments))}]"
                self.functions[name] = lambda arguments=arguments: function(*arguments)
            return function

        return decorate


class Outcome(NamedTuple):
    """Of one job."""

    size: int
    code: int
    output: str
    reports: List[Dict[str, str]]
    """For each rank: check to its error, empty where it passed."""

    def require(self, name: str) -> None:
        """Fails unless all ranks passed the check."""
        for rank, report in enumerate(self.reports):
            error = report.get(name)
            if error is None:
                before = [f"{check} failed" for check, text in report.items() if text]
                raise AssertionError(
                    f"rank {rank} of {self.size} did not come to it: {', '.join(before) or 'it ended before'}; "
                    f"the job's code is {self.code}, its last output:\n{self.output[-3000:]}"
                )
            if error:
                raise AssertionError(f"on rank {rank} of {self.size}:\n{error}")


def require_cli() -> None:
    """Fails with a sentence where the checkout is not built."""
    if not CLI.exists():
        raise AssertionError(f"there is no {CLI}: run `make install` first")


# Gives the worker the host that it pretends to be on, and becomes the command.
SPLIT = 'FARANDOLE_HOST_ID=$((FARANDOLE_LAUNCH_INDEX * $0 / FARANDOLE_SIZE)) exec "$@"'


def split(hosts: int, command: Sequence[str]) -> Sequence[str]:
    """A worker's command, such that the ranks lie on so many pretended hosts."""
    return ("sh", "-c", SPLIT, str(hosts), *command) if hosts > 1 else command


def imitate_gpus(directory: pathlib.Path) -> Dict[str, str]:
    """Variables of a job on a machine that has them; `directory` is made, and the ranks meet there."""
    directory.mkdir()
    for name in ("libcuda.so.1", "libnvidia-ml.so.1"):
        (directory / name).symlink_to(FAKE_LIBRARIES)
    # Not found by its name: PyTorch looks for the real one.
    return {
        GPUS: str(directory),
        "LD_LIBRARY_PATH": str(directory),
        "FARANDOLE_NCCL_LIBRARY": str(FAKE_LIBRARIES),
    }


def run(setup: Setup, state: pathlib.Path, *command: str) -> "subprocess.CompletedProcess[str]":
    """Runs a command as a job, with stdout and stderr together. Fails if it hangs.

    `state` is a directory for the job's state, so that no test meets what another one has left.
    """
    require_cli()
    launch = [str(CLI), "run", "-np", str(setup.size), "--state-dir", str(state), *split(setup.hosts, command)]
    # A thread a rank: more ranks than cores with a pool of threads each spend their time in turning each other out.
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "FARANDOLE_TRANSPORT": setup.transport}
    if setup.encrypts:
        environment["FARANDOLE_ENCRYPT"] = "1"
    if setup.far:
        environment[FAR] = "1"
    if setup.gpus:
        environment.update(imitate_gpus(state.parent / "gpus"))
    process = subprocess.Popen(
        launch, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=ROOT, env=environment
    )
    try:
        output, _ = process.communicate(timeout=JOB_SECONDS)
    except subprocess.TimeoutExpired:
        process.terminate()  # the launcher ends its workers
        output, _ = process.communicate()
        raise AssertionError(f"the job hangs: {' '.join(launch)}\n{output[-3000:]}") from None
    return subprocess.CompletedProcess(launch, process.returncode, output)


def run_program(
    folder: pathlib.Path, program: str, *options: str, workers: int = 2, **variables: str
) -> "subprocess.CompletedProcess[str]":
    """Runs the text of a program with so many workers, in `folder`; `options` are of `farandole run`."""
    require_cli()
    path = folder / "program.py"
    path.write_text(program, encoding="utf-8")
    launch = [str(CLI), "run", "-np", str(workers), *options, "--state-dir", str(folder / "state")]
    command = [*launch, sys.executable, str(path)]
    environment = {**os.environ, **variables}
    return subprocess.run(command, capture_output=True, text=True, timeout=JOB_SECONDS, check=False, env=environment)


def run_checks(modules: Sequence[str], setup: Setup, directory: pathlib.Path) -> Outcome:
    """Runs all checks of some modules in one job."""
    size = setup.size
    result = run(
        setup, directory / "state", sys.executable, str(HERE / "harness.py"), ",".join(modules), str(directory)
    )
    reports = []
    for rank in range(size):
        path = directory / f"{rank}.jsonl"
        lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
        reports.append(dict(json.loads(line) for line in lines))
    return Outcome(size, result.returncode, result.stdout, reports)


def rounds_once() -> bool:
    """On a rank: whether sums of short floats are rounded once. Over several hosts, where some have several ranks,
    they are rounded after each host's sum as well.
    """
    import farandole

    return farandole.size() in (farandole.local_size(), farandole.cross_size())


def functions(module: str) -> Dict[str, Callable[[], None]]:
    """The checks of a module of `checks`, or of another package that it names, by `module.name`."""
    found = importlib.import_module(module if "." in module else f"checks.{module}").check.functions
    return {f"{module}.{name}": function for name, function in found.items()}


def make_tensors_far() -> None:
    """From now on tensors of torch are not in the host's memory, as far as they say. (No machine without a device has
    others whose elements can be compared.)"""
    import torch

    torch.Tensor.is_cpu = property(lambda _tensor: False)


def put_tensors_into_gpus() -> None:
    """From now on tensors of torch are in the imitated GPU, as far as they say, and what the host does with them is the
    work of the current stream."""
    import ctypes
    import types

    import batch_norm_kernels
    import torch
    from farandole.torch import ops

    library = ctypes.CDLL(str(FAKE_LIBRARIES))
    library.fake_begin(os.environ[GPUS].encode())
    library.fake_framework_stream.restype = ctypes.c_void_p
    stream = types.SimpleNamespace(cuda_stream=library.fake_framework_stream())
    to_host = ops.on_host

    def on_host(tensor: torch.Tensor) -> torch.Tensor:
        host = to_host(tensor)
        host.is_of_host = True
        return host

    ops.on_host = on_host
    torch.Tensor.is_cpu = property(lambda tensor: getattr(tensor, "is_of_host", False))
    torch.Tensor.is_cuda = property(lambda tensor: not tensor.is_cpu)
    torch.Tensor.get_device = lambda _tensor: 0
    torch.cuda.current_stream = lambda _index=None: stream
    torch.cuda.synchronize = lambda _index=None: None
    torch.cuda.get_device_capability = lambda _device=None: (9, 0)
    for name, kernel in batch_norm_kernels.KERNELS.items():
        setattr(torch, name, kernel)


def run_functions(checks: Dict[str, Callable[[], None]]) -> Iterator[Tuple[str, str]]:
    """Runs the checks up to the first that fails; gives the name and the error of each, which is empty for a pass."""
    for name, function in checks.items():
        try:
            function()
        except BaseException:  # pylint: disable=broad-except; whatever it is belongs into the report
            yield name, traceback.format_exc()
            return
        yield name, ""


def run_alone(modules: Sequence[str]) -> Outcome:
    """Runs all checks of some modules in this process, as a program without a launcher: a job of size 1."""
    import farandole

    farandole.init()
    try:
        checks = {name: function for module in modules for name, function in functions(module).items()}
        return Outcome(1, 0, "", [dict(run_functions(checks))])
    finally:
        farandole.shutdown()


def main() -> int:
    """A rank's part."""
    modules, directory = sys.argv[1].split(","), pathlib.Path(sys.argv[2])
    checks = {name: function for module in modules for name, function in functions(module).items()}
    import farandole

    if FAR in os.environ:
        make_tensors_far()
    if GPUS in os.environ:
        put_tensors_into_gpus()
    farandole.init()
    with open(directory / f"{farandole.rank()}.jsonl", "w", encoding="utf-8", buffering=1) as report:
        for name, error in run_functions(checks):
            report.write(json.dumps([name, error]) + "\n")
            if error:
                return 1
    farandole.shutdown()
    return 0


if __name__ == "__main__":
    sys.exit(main())
