"""The contenders' processes. Those of Python start once and take orders (ranks/orders.py), so that a cell can alternate
between them; the programs in C and C++ are started for each measurement."""

import functools
import importlib.util
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from typing import Any, Dict, List, NamedTuple, Sequence

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
# Where the drivers, which import this before, find the tests' hosts and processes.
sys.path.append(str(ROOT / "tests" / "integration"))

RANKS = HERE / "ranks"
# Debian's mpi4py is for Debian's Python.
SYSTEM_PYTHON = "/usr/bin/python3"

# Importing torch, eight times at once, on two busy cores.
START_SECONDS = 120
# An order's steps are chosen to take a second or two; one that takes so long hangs.
ORDER_SECONDS = 120
END_SECONDS = 30


class BenchError(Exception):
    """A contender did not do what it was asked; the text names it."""


class Checkout(NamedTuple):
    """A checkout of Farandole in which `make install` has run."""

    root: pathlib.Path

    @property
    def farandole(self) -> str:
        """Its `farandole`."""
        return str(self.root / ".venv" / "bin" / "farandole")

    @property
    def python(self) -> str:
        """Its Python, which imports its worker library."""
        return str(self.root / ".venv" / "bin" / "python")


OWN = Checkout(ROOT)
FARANDOLE, PYTHON = OWN.farandole, OWN.python


class Launch(NamedTuple):
    """How a contender's ranks are started: commands (to which the driver's socket is added), and what they add to the
    environment."""

    name: str
    size: int
    commands: List[List[str]]
    environments: List[Dict[str, str]]


def environment(extra: Dict[str, str]) -> Dict[str, str]:
    """This process's without settings of a launcher; one thread a rank, as there are ranks enough for the cores."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("FARANDOLE_", "OMPI_", "PMIX_"))}
    mpi_as_root = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    return {**kept, **mpi_as_root, "OMP_NUM_THREADS": "1", **extra}


def _state_in(directory: str) -> Dict[str, str]:
    """`farandole run` keeps what a job leaves there, and not in the user's home."""
    return {"XDG_STATE_HOME": str(pathlib.Path(directory) / "state")}


def free_port() -> int:
    """A TCP port of loopback that is free at the moment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def mpirun(size: int) -> List[str]:
    """Open MPI's launcher; where ranks outnumber cores it must be told that they may."""
    return ["mpirun", "--oversubscribe", "-np", str(size)]


def farandole_launch(
    size: int, options: Sequence[str] = (), name: str = "farandole", checkout: Checkout = OWN
) -> Launch:
    """Farandole from Python, with torch; `options` are of `farandole run`."""
    return farandole_run(name, size, [checkout.python, str(RANKS / "farandole_rank.py")], options, checkout)


def farandole_run(
    name: str, size: int, program: Sequence[str], options: Sequence[str] = (), checkout: Checkout = OWN
) -> Launch:
    """A program under `farandole run` with these options."""
    command = [checkout.farandole, "run", "-np", str(size), "-x", "OMP_NUM_THREADS=1", *options]
    return Launch(name, size, [[*command, *program]], [{}])


def gloo_launch(size: int, address: str = "127.0.0.1", prefixes: Sequence[Sequence[str]] = ()) -> Launch:
    """torch.distributed over Gloo; `prefixes` go before the ranks' commands."""
    commands, environments = [], []
    port = free_port()
    for rank in range(size):
        prefix = list(prefixes[rank]) if prefixes else []
        commands.append([*prefix, PYTHON, str(RANKS / "gloo_rank.py")])
        place = {"RANK": str(rank), "WORLD_SIZE": str(size), "MASTER_ADDR": address, "MASTER_PORT": str(port)}
        environments.append({**place, "GLOO_SOCKET_IFNAME": "eth0" if prefixes else "lo"})
    return Launch("gloo", size, commands, environments)


def mpi4py_launch(size: int) -> Launch:
    """Open MPI from Python, with NumPy."""
    return Launch("mpi4py", size, [[*mpirun(size), SYSTEM_PYTHON, str(RANKS / "mpi4py_rank.py")]], [{}])


def horovod_launch(size: int) -> Launch:
    """Horovod from Python, with torch."""
    return Launch("horovod", size, [["horovodrun", "-np", str(size), PYTHON, str(RANKS / "horovod_rank.py")]], [{}])


def why_no_horovod() -> str:
    """Why Horovod takes no part; "" where it does."""
    if importlib.util.find_spec("horovod") is None:
        return "Horovod is not installed (its last release does not build against this torch)"
    return "" if shutil.which("horovodrun") else "Horovod is installed, but horovodrun is not in PATH"


class Group:
    """The running ranks of one contender."""

    def __init__(self, launch: Launch) -> None:
        self.name = launch.name
        self._directory = tempfile.TemporaryDirectory(prefix="farandole-bench-")
        self._log = pathlib.Path(self._directory.name) / "output"
        self._processes: List["subprocess.Popen[bytes]"] = []
        self._ranks: List[Any] = []
        path = str(pathlib.Path(self._directory.name) / "driver")
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(path)
            listener.listen(launch.size)
            try:
                self._start(launch, path)
                self._accept(listener, launch.size)
            except BaseException:
                self.close()
                raise

    def _start(self, launch: Launch, path: str) -> None:
        with self._log.open("wb") as log:
            for command, extra in zip(launch.commands, launch.environments):
                self._processes.append(
                    subprocess.Popen(
                        [*command, path],
                        cwd=self._directory.name,
                        env=environment({**extra, **_state_in(self._directory.name)}),
                        stdin=subprocess.DEVNULL,
                        stdout=log,
                        stderr=subprocess.STDOUT,
                        # A session of its own would be a scheduling group of its own: contenders share one.
                        process_group=0,
                    )
                )

    def _accept(self, listener: socket.socket, size: int) -> None:
        by_rank: Dict[int, Any] = {}
        deadline = time.monotonic() + START_SECONDS
        listener.settimeout(1)
        while len(by_rank) < size:
            ended = [process.returncode for process in self._processes if process.poll() is not None]
            if ended or time.monotonic() > deadline:
                raise BenchError(self._complaint(f"ended with {ended[0]}" if ended else "did not start in time"))
            try:
                connection, _ = listener.accept()
            except socket.timeout:
                continue
            connection.settimeout(ORDER_SECONDS)
            stream = connection.makefile("rw", encoding="ascii")
            connection.close()
            by_rank[json.loads(stream.readline())["rank"]] = stream
        self._ranks = [by_rank[rank] for rank in range(size)]

    def order(self, **fields: Any) -> List[Dict[str, Any]]:
        """The answers of all ranks to one order."""
        answers = []
        try:
            for stream in self._ranks:
                stream.write(json.dumps(fields) + "\n")
                stream.flush()
            for stream in self._ranks:
                answers.append(json.loads(stream.readline()))
        except (OSError, ValueError) as error:
            raise BenchError(self._complaint(f"did not answer {fields}: {error or 'no answer'}")) from None
        return answers

    def _complaint(self, what: str) -> str:
        tail = self._log.read_text(encoding="utf-8", errors="replace").splitlines()[-20:]
        return "\n".join([f"{self.name} {what}", *tail])

    def close(self) -> None:
        """Ends the ranks: orderly, since their orders end, or else by force."""
        for stream in self._ranks:
            try:
                stream.close()
            except OSError:  # its process has ended with something unsaid
                continue
        for process in self._processes:
            try:
                process.wait(END_SECONDS)
            except subprocess.TimeoutExpired:
                process.send_signal(signal.SIGTERM)
        for process in self._processes:
            try:
                process.wait(END_SECONDS)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        self._directory.cleanup()


# It takes a second.
OVERHEAD_SECONDS = 10.0


def run_native(command: Sequence[str], seconds: float) -> str:
    """The output of a program that measures by itself; it and all that it started have ended."""
    with tempfile.TemporaryFile() as errors, tempfile.TemporaryDirectory(prefix="farandole-bench-") as directory:
        with subprocess.Popen(
            command,
            env=environment(_state_in(directory)),
            stdout=subprocess.PIPE,
            stderr=errors,
            process_group=0,
        ) as process:
            try:
                output, _ = process.communicate(timeout=START_SECONDS + seconds)
            except BaseException:
                os.killpg(process.pid, signal.SIGTERM)
                try:
                    process.wait(END_SECONDS)
                except subprocess.TimeoutExpired:
                    os.killpg(process.pid, signal.SIGKILL)
                raise
        if process.returncode != 0:
            errors.seek(0)
            raise BenchError(f"{' '.join(command)} ended with {process.returncode}: {errors.read().decode()[-2000:]}")
    return output.decode()


@functools.lru_cache(maxsize=None)
def has_openmpi_headers() -> bool:
    """Whether programs for Open MPI can be compiled: its commands come with mpi4py, its headers do not."""
    look = ["mpicc", "-E", "-include", "mpi.h", "-x", "c", "/dev/null"]
    return shutil.which("mpicc") is not None and subprocess.run(look, capture_output=True, check=False).returncode == 0


def build_openmpi() -> str:
    """Compiles the program for Open MPI, and returns its path."""
    source, program = RANKS / "openmpi_allreduce.c", ROOT / "build" / "bench" / "openmpi_allreduce"
    program.parent.mkdir(parents=True, exist_ok=True)
    if not program.exists() or program.stat().st_mtime < source.stat().st_mtime:
        subprocess.run(["mpicc", "-O2", "-Wall", "-Wextra", str(source), "-o", str(program)], check=True)
    return str(program)


def openmpi_c(size: int, count_bytes: int, tensors: int, seconds: float) -> Dict[str, Any]:
    """One measurement of Open MPI in C."""
    command = [*mpirun(size), build_openmpi(), str(count_bytes), str(tensors), str(seconds)]
    return json.loads(run_native(command, seconds))


def farandole_bench(
    size: int,
    count_bytes: int,
    tensors: int,
    seconds: float,
    dtype: str = "f32",
    options: Sequence[str] = (),
    arena: bool = False,
    checkout: Checkout = OWN,
) -> Dict[str, Any]:
    """One measurement of `farandole bench`; `options` are of `farandole run`."""
    with tempfile.TemporaryDirectory(prefix="farandole-bench-") as directory:
        written = pathlib.Path(directory) / "result.json"
        what = ["--min", str(count_bytes), "--max", str(count_bytes), "--tensors", str(tensors), "--dtype", dtype]
        what += ["--arena"] if arena else []
        bench = [checkout.farandole, "bench", *what, "--seconds", str(seconds), "--json", str(written)]
        run_native([checkout.farandole, "run", "-np", str(size), *options, *bench], seconds)
        return json.loads(written.read_text(encoding="utf-8"))["rows"][0]


def cpp_overhead(count: int) -> str:
    """The line of tests/cpp/programs/overhead.cc for so many float32: a call of the C++ SDK beside one of the C interface,
    in turns."""
    program = pathlib.Path(FARANDOLE).parent.parent / "lib" / "cpp" / "overhead"
    output = run_native([FARANDOLE, "run", "-np", "2", str(program), str(count)], OVERHEAD_SECONDS)
    found = re.search(r"C \d+ ns, C\+\+ \d+ ns, ratio [\d.]+", output)
    if found is None:
        raise BenchError(f"{program} wrote no figures: {output[-500:]}")
    return found.group()


def go_overhead(count: int) -> str:
    """The line of tests/go/overhead for so many float32: a call of the Go SDK beside one of the C interface, in turns."""
    setup = subprocess.run([ROOT / "tools/setup", "--print-go-root"], stdout=subprocess.PIPE, text=True, check=True)
    with tempfile.TemporaryDirectory(prefix="farandole-bench-") as folder:
        build = [f"{setup.stdout.strip()}/bin/go", "build", "-o", folder, "./overhead"]
        subprocess.run(build, cwd=ROOT / "tests" / "go", check=True)
        library = f"FARANDOLE_LIBRARY={ROOT}/sdk/python/farandole/_lib/libfarandole.so"
        command = [FARANDOLE, "run", "-np", "2", "env", library, f"{folder}/overhead", str(count)]
        output = run_native(command, OVERHEAD_SECONDS)
    found = re.search(r"C \d+ ns, Go \d+ ns, -?\d+ ns more", output)
    if found is None:
        raise BenchError(f"tests/go/overhead wrote no figures: {output[-500:]}")
    return found.group()


def require_installed(checkout: Checkout) -> None:
    """Names a program of it that is missing."""
    for program in (checkout.farandole, checkout.python):
        if not os.access(program, os.X_OK):
            sys.exit(f"bench: {program} is missing; run `make install` in {checkout.root}")


def require_programs() -> None:
    """Names the missing ones."""
    require_installed(OWN)
    for program in ("mpirun", "mpicc"):
        if shutil.which(program) is None:
            sys.exit(f"bench: {program} is missing; run `make bench`, which installs it")
    if not has_openmpi_headers():
        sys.exit("bench: Open MPI's headers are missing; run `make bench`, which installs them")
