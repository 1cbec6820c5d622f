"""A worker shares with other processes: its place in the job, its functions and objects, its library, its timeline."""

import concurrent.futures as futures
import json
import pathlib
import shutil
import signal
import subprocess
from typing import Callable

import farandole
import harness
from test_processes import alone

Job = Callable[..., "subprocess.CompletedProcess[str]"]

SPAWNING = """
import multiprocessing, os, subprocess, sys
import farandole as hvd
from farandole.objects import allgather_object

def child(queue):
    try:
        hvd.init()
        queue.put(f"rank {hvd.rank()} of {hvd.size()}")
    except RuntimeError as error:
        queue.put(str(error))

if __name__ == "__main__":
    hvd.init()
    for kind in ("spawn", "forkserver", "fork"):
        context = multiprocessing.get_context(kind)
        queue = context.Queue()
        process = context.Process(target=child, args=(queue,))
        process.start()
        sentence = queue.get()
        process.join()
        assert "\\n" not in sentence
        assert ("forked from a worker" if kind == "fork" else f"started by a worker, process {os.getpid()}") in sentence
    # Its peers hear nothing of that.
    assert allgather_object(hvd.rank()) == list(range(hvd.size()))
    other = [sys.executable, "-c", "import farandole as hvd; hvd.init(); print(f'{hvd.rank()} of {hvd.size()}')"]
    without = {name: value for name, value in os.environ.items() if not name.startswith("FARANDOLE_")}
    assert subprocess.check_output(other, env=without, text=True) == "0 of 1\\n", "a job of its own"
    hvd.shutdown()
    assert "FARANDOLE_WORKER" not in os.environ, "its place is free"
    print("good", flush=True)
"""


def test_processes_that_a_worker_starts_cannot_take_its_place(job: Job) -> None:
    result = job(2, SPAWNING)
    assert result.returncode == 0 and result.stdout.count("good") == 2, result.stdout


UNPICKLABLE = """
import threading
import farandole as hvd
from farandole.objects import allgather_object, broadcast_object
hvd.init()
last = hvd.size() - 1
mine = threading.Lock() if hvd.rank() == last else hvd.rank()
sentence = f"rank {last} cannot pickle its lock for "
for call in (allgather_object, lambda obj: broadcast_object(obj, last)):
    try:
        call(mine)
    except TypeError as error:
        assert hvd.rank() == last and "cannot pickle" in str(error), error
    except RuntimeError as error:
        assert hvd.rank() < last and str(error).startswith(sentence) and "cannot pickle" in str(error)[len(sentence):], error
    else:
        raise AssertionError("no error")
    assert allgather_object("goes on") == ["goes on"] * hvd.size()
print("good", flush=True)
"""


def test_what_one_rank_cannot_pickle_is_told_to_all(job: Job) -> None:
    result = job(3, UNPICKLABLE)
    assert result.returncode == 0 and result.stdout.count("good") == 3, result.stdout


WITHOUT_CLOUDPICKLE = """
import sys
sys.modules["cloudpickle"] = None  # as where it is not installed
import farandole as hvd
from farandole.objects import allgather_object, broadcast_object

class Local:
    pass

def function():
    return 7

hvd.init()
for call in (allgather_object, broadcast_object):
    try:
        call(lambda: 7)
    except Exception as error:
        assert "<lambda>" in str(error) and "pip install cloudpickle" in str(error) and "\\n" not in str(error), error
    else:
        raise AssertionError("no error")
assert isinstance(broadcast_object(Local()), Local), "ranks have the same main program"
for func, args in ((lambda: 7, ()), (function, ()), (len, ([Local()],))):
    try:
        hvd.run(func, args, np=1)
    except Exception as error:
        assert "main program" in str(error) and "pip install cloudpickle" in str(error) and "\\n" not in str(error), error
    else:
        raise AssertionError("no error")
assert hvd.run(divmod, (7, 2), np=1) == [(3, 1)], "what can be imported travels"
print("good")
"""


def test_without_cloudpickle_a_sentence_says_what_needs_it() -> None:
    result = alone(WITHOUT_CLOUDPICKLE)
    assert (result.returncode, result.stdout) == (0, "good\n")


KILLED = """
import os, signal, sys, time
import farandole.torch as hvd, torch
hvd.init()
hvd.start_timeline(sys.argv[1])
for number in range(3):
    hvd.allreduce(torch.ones(1), name=f"early.{number}")
time.sleep(0.2)
hvd.allreduce(torch.ones(1), name="last")
time.sleep(0.2)  # what docs/timeline.md promises, twice
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_killed_process_leaves_its_last_event_in_the_timeline(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "timeline.json"
    result = alone(f"import sys; sys.argv = ['', {str(path)!r}]\n{KILLED}")
    assert result.returncode == -signal.SIGKILL, result.stdout
    events = json.loads(path.read_text(encoding="utf-8") + "]")
    rows = [event["args"]["name"] for event in events if event["name"] == "thread_name"]
    assert rows == ["allreduce.early.0", "allreduce.early.1", "allreduce.early.2", "allreduce.last"]


BY_ITSELF = """
import ctypes, sys
library = ctypes.CDLL(sys.argv[1])
library.farandole_last_error.restype = ctypes.c_char_p
code = library.farandole_init(None, None)
assert code == 0, library.farandole_last_error()
print(library.farandole_rank(), library.farandole_size())
assert library.farandole_shutdown(None) == 0
"""


def test_the_library_finds_the_program_beside_its_package(tmp_path: pathlib.Path) -> None:
    """As a process of mpirun's, which needs `farandole` for the coordinator, and has not Python's package to find it."""
    built = pathlib.Path(farandole.__file__).parent / "_lib" / "libfarandole.so"
    (tmp_path / "_lib").mkdir()
    shutil.copy(built, tmp_path / "_lib")
    library = str(tmp_path / "_lib" / built.name)
    program = f"import sys; sys.argv = ['', {library!r}]\n{BY_ITSELF}"

    def process(rank: int) -> "subprocess.CompletedProcess[str]":
        sizes = {"OMPI_COMM_WORLD_SIZE": "2", "OMPI_COMM_WORLD_LOCAL_SIZE": "2", "PMIX_NAMESPACE": tmp_path.name}
        return alone(program, TMPDIR=str(tmp_path), OMPI_COMM_WORLD_RANK=str(rank), **sizes)

    result = process(0)
    assert result.returncode != 0 and "finds no `farandole` beside the worker library nor in PATH" in result.stdout
    for directory in ("_bin", "_lib"):
        (tmp_path / directory).mkdir(exist_ok=True)
        (tmp_path / directory / "farandole").symlink_to(harness.CLI)
        with futures.ThreadPoolExecutor() as pool:
            results = list(pool.map(process, (0, 1)))
        assert [(each.returncode, each.stdout) for each in results] == [(0, "0 2\n"), (0, "1 2\n")], directory
        (tmp_path / directory / "farandole").unlink()
