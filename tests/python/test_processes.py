"""Whole processes: life, signals, forks, deaths, and a worker without a launcher."""

import os
import pathlib
import re
import shutil
import subprocess
import sys
from typing import Callable

import harness
import pytest

Job = Callable[..., "subprocess.CompletedProcess[str]"]


def alone(program: str, *options: str, **environment: str) -> "subprocess.CompletedProcess[str]":
    """Runs a program without the launcher, in `environment` with PATH, HOME and the SDK's choice of library."""
    kept = {name: os.environ[name] for name in ("FARANDOLE_LIBRARY", "FARANDOLE_DEEPBIND") if name in os.environ}
    variables = {"PATH": "/usr/bin:/bin", "HOME": "/nonexistent", **kept, **environment}
    return subprocess.run(
        [sys.executable, *options, "-c", program],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=60,
        env=variables,
        cwd=harness.ROOT,
        check=False,
    )


def test_program_without_launcher_is_a_job_of_size_one() -> None:
    result = alone("""
import farandole.torch as hvd, torch
assert not hvd.is_initialized()
hvd.init()
hvd.init()  # Horovod's may be called again too
who = (hvd.rank(), hvd.size(), hvd.local_rank(), hvd.local_size(), hvd.cross_rank(), hvd.cross_size())
assert who == (0, 1, 0, 1, 0, 1), who
assert hvd.allreduce(torch.ones(3), op=hvd.Sum).tolist() == [1, 1, 1]
model = torch.nn.Linear(2, 1)
optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1), named_parameters=model.named_parameters())
model(torch.ones(1, 2)).sum().backward()
optimizer.step()
hvd.broadcast_parameters(model.state_dict(), 0)
hvd.shutdown()
hvd.shutdown()
assert not hvd.is_initialized()
hvd.init(process_sets="dynamic")
assert hvd.allreduce(torch.ones(2)).tolist() == [1, 1]
print("good")
""")
    assert (result.returncode, result.stdout) == (0, "good\n")


def test_calls_before_init_and_after_shutdown_are_a_runtime_error() -> None:
    result = alone("""
import farandole.torch as hvd, torch
def expect(call):
    try:
        call()
    except RuntimeError as error:
        assert "init" in str(error) and "\\n" not in str(error), error
    else:
        raise AssertionError("no RuntimeError")
def wrap():
    return hvd.DistributedOptimizer(torch.optim.SGD([torch.nn.Parameter(torch.ones(1))], lr=1.0))
calls = [hvd.rank, hvd.size, hvd.local_rank, hvd.is_homogeneous, hvd.barrier, lambda: hvd.allreduce(torch.ones(1)),
         lambda: hvd.allgather(torch.ones(1)), lambda: hvd.broadcast_object(1), wrap]
for call in calls:
    expect(call)
hvd.init()
hvd.shutdown()
for call in calls:
    expect(call)
print("good")
""")
    assert (result.returncode, result.stdout) == (0, "good\n")


def test_unsupported_arguments_of_init_are_named() -> None:
    result = alone("""
import farandole as hvd
for arguments, kind in (({"comm": 7}, ValueError), ({"comm": [1]}, ValueError), ({"process_sets": "static"}, ValueError)):
    try:
        hvd.init(**arguments)
    except kind as error:
        assert ("[1]" if arguments == {"comm": [1]} else next(iter(arguments))) in str(error), error
    else:
        raise AssertionError("no error")
    assert not hvd.is_initialized()
print("good")
""")
    assert (result.returncode, result.stdout) == (0, "good\n")


def test_some_of_a_launch_may_be_jobs_of_their_own(job: Job) -> None:
    result = job(
        3,
        """
import os, numpy, farandole.numpy as hvd
mine = int(os.environ["FARANDOLE_LAUNCH_INDEX"])
comm = [2, 0] if mine != 1 else [1]
hvd.init(comm=comm)
assert (hvd.size(), hvd.rank()) == (len(comm), comm.index(mine)), (hvd.size(), hvd.rank())
assert hvd.allgather(numpy.array([mine])).tolist() == comm
print("good", flush=True)
""",
    )
    assert (result.returncode, result.stdout.count("good")) == (0, 3), result.stdout


def test_an_excepthook_of_the_program_does_not_hide_who_raised_first(job: Job) -> None:
    result = job(
        3,
        """
import sys, numpy, farandole.numpy as hvd
sys.excepthook = lambda kind, error, trace: print("kept to itself", flush=True)
hvd.init()
try:
    hvd.allreduce(numpy.ones(1))  # all have left init(), where the failure would be raised, too
    if hvd.rank() == 1:
        raise ValueError("of rank 1")
    hvd.allreduce(numpy.ones(1))
except hvd.EpochEnded as error:
    print(f"told: {error}", flush=True)
    sys.exit(7)
""",
    )
    assert result.stdout.count("kept to itself") == 1 and "Traceback" not in result.stdout, result.stdout
    assert len(re.findall(r"told: rank 1 \(.*\) failed: ValueError: of rank 1\n", result.stdout)) == 2, result.stdout
    assert re.search(r"farandole: worker 1 \(.*\) failed first, with exit code 1,", result.stdout), result.stdout


# The interpreter's prompt, at which a worker without input ends, and a console within the program.
@pytest.mark.parametrize("options, at_prompt", (("-i", "1 / 0"), ("-u", "code.InteractiveConsole().push('1 / 0')")))
def test_an_exception_at_a_prompt_is_no_failure(options: str, at_prompt: str, tmp_path: pathlib.Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        f"""
import code, numpy, farandole.numpy as hvd
hvd.init()
if hvd.rank() == 1:
    {at_prompt}
else:
    try:
        hvd.allreduce(numpy.ones(1))
    except hvd.EpochEnded as error:
        print(f"told: {{error}}", flush=True)
""",
        encoding="utf-8",
    )
    result = harness.run(harness.Setup(2), tmp_path / "state", sys.executable, options, str(program))
    assert result.returncode == 0 and "[1] ZeroDivisionError" in result.stdout, result.stdout
    assert "told: rank 1 " in result.stdout and "failed" not in result.stdout, result.stdout


def test_process_sets_of_init_must_differ() -> None:
    result = alone("""
import farandole as hvd
try:
    hvd.init(process_sets=[hvd.ProcessSet([0]), hvd.ProcessSet([0])])
except ValueError as error:
    assert "process_sets entry number 1 is a duplicate" in str(error), error
else:
    raise AssertionError("no error")
print("good")
""")
    assert (result.returncode, result.stdout) == (0, "good\n")


def test_a_misspelt_variable_of_horovods_is_named_with_the_nearest() -> None:
    result = alone("import farandole; farandole.init()", HOROVOD_FUSION_TRESHOLD="1")
    assert "did you mean HOROVOD_FUSION_THRESHOLD?" in result.stdout.splitlines()[-1]


def test_wrong_setting_is_named() -> None:
    result = alone("import farandole; farandole.init()", FARANDOLE_SIZE="many", FARANDOLE_COORDINATOR="127.0.0.1:1")
    assert (
        result.returncode == 1
        and "InvalidRequest" in result.stdout
        and "FARANDOLE_SIZE" in result.stdout
        and "many" in result.stdout
    )


def test_missing_torch_and_missing_library_are_one_sentence_each(tmp_path: pathlib.Path) -> None:
    (tmp_path / "torch.py").write_text("raise ImportError('No module named torch')", encoding="utf-8")
    result = alone(f"import sys; sys.path.insert(0, {str(tmp_path)!r})\nimport farandole.torch")
    assert "farandole.torch needs PyTorch" in result.stdout.splitlines()[-1] and "pip install torch" in result.stdout
    assert "During handling" not in result.stdout
    result = alone("import farandole", FARANDOLE_LIBRARY=str(tmp_path / "libfarandole.so"))
    assert f"there is no worker library at {tmp_path}" in result.stdout.splitlines()[-1]
    other = tmp_path / "other.so"
    source = tmp_path / "other.c"
    source.write_text("int farandole_abi_version(void) { return 1; }", encoding="utf-8")
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", str(other), str(source)], check=True)
    result = alone("import farandole", FARANDOLE_LIBRARY=str(other))
    assert f"the worker library {other} cannot be loaded: it lacks the function" in result.stdout.splitlines()[-1]


def test_only_the_transport_gloo_needs_its_library(tmp_path: pathlib.Path) -> None:
    library = tmp_path / "libfarandole.so"
    shutil.copy(harness.ROOT / "sdk" / "python" / "farandole" / "_lib" / "libfarandole.so", library)
    needs = subprocess.run(["readelf", "--dynamic", str(library)], check=True, capture_output=True, text=True).stdout
    assert "libgloo" not in needs and "libc.so" in needs
    token = tmp_path / "token"
    token.write_text("token", encoding="utf-8")
    result = alone(
        "import farandole; farandole.init()",
        FARANDOLE_LIBRARY=str(library),
        FARANDOLE_TOKEN_FILE=str(token),
        FARANDOLE_TRANSPORT="gloo",
        FARANDOLE_SIZE="2",
        FARANDOLE_COORDINATOR="127.0.0.1:1",
    )
    assert "InvalidRequest: the transport is to be gloo, but its library cannot be used: " in result.stdout
    assert f"{tmp_path}/libfarandole_gloo.so: cannot open shared object file" in result.stdout


INTERRUPT = """
import os, signal, sys, threading, time
import farandole.torch as hvd, torch
from farandole import _handles
hvd.init()
def interrupt():
    global sent
    sent = time.monotonic()
    os.kill(os.getpid(), signal.SIGINT)
def expect_interrupt(wait, after=0.3):
    threading.Timer(after, interrupt).start()
    try:
        wait()
    except KeyboardInterrupt:
        assert time.monotonic() - sent < 1.0
    else:
        raise AssertionError("no KeyboardInterrupt")
if hvd.rank() == 1:
    expect_interrupt(lambda: hvd.allreduce(torch.ones(5), name="never"))
    expect_interrupt(lambda: hvd.grouped_allreduce([torch.ones(5), torch.ones(2)], name="nor these"))
    expect_interrupt(lambda: hvd.allgather(torch.ones(5), name="neither"))
    late = hvd.allreduce_async(torch.ones(5), op=hvd.Sum, name="late")
    expect_interrupt(late.synchronize)
    # While the library is in the call that submits.
    before = _handles.borrowed_count()
    expect_interrupt(hvd.barrier, 0.05)
    expect_interrupt(lambda: hvd.broadcast_object(None, 0, name="nothing"), 0.05)
    assert _handles.borrowed_count() == before + 2, "what the library has borrowed is kept"
    hvd.allreduce(torch.ones(1), name="go on")
else:
    hvd.allreduce(torch.ones(1), name="go on")
    hvd.barrier()
hvd.barrier()
if hvd.rank() == 0:
    late = hvd.allreduce_async(torch.ones(5), op=hvd.Sum, name="late")
assert late.synchronize().tolist() == [2] * 5, "a handle stays valid when its wait is interrupted"
print("good", flush=True)
"""


def test_ctrl_c_ends_a_wait_within_a_second_and_the_job_may_go_on(job: Job) -> None:
    result = job(2, INTERRUPT)
    assert result.returncode == 0 and result.stdout.count("good") == 2, result.stdout


def test_ctrl_c_ends_init_within_a_second() -> None:
    # No server listens on port 1: init tries again until its time is over.
    result = alone(
        """
import os, signal, threading, time
import farandole
def interrupt():
    global sent
    sent = time.monotonic()
    os.kill(os.getpid(), signal.SIGINT)
threading.Timer(0.3, interrupt).start()
try:
    farandole.init()
except KeyboardInterrupt:
    assert time.monotonic() - sent < 1.0
    print("good")
""",
        FARANDOLE_COORDINATOR="127.0.0.1:1",
        FARANDOLE_SIZE="2",
        FARANDOLE_TOKEN_FILE="/dev/null",
    )
    assert (result.returncode, result.stdout) == (0, "good\n")


FORK = """
import os
import farandole.torch as hvd, torch
from torch.utils.data import DataLoader, Dataset
hvd.init()
class Data(Dataset):
    def __len__(self):
        return 64
    def __getitem__(self, index):
        assert not hvd.is_initialized()
        # Programs share out data by them.
        assert [hvd.rank(), hvd.size(), hvd.local_rank(), hvd.cross_size()] == place
        for call in (lambda: hvd.allreduce(torch.ones(1)), hvd.barrier, hvd.shutdown, hvd.init):
            try:
                call()
            except RuntimeError as error:
                assert "fork" in str(error), error
            else:
                raise AssertionError("no RuntimeError in a forked child")
        return torch.full((3,), float(index))
place = [hvd.rank(), hvd.size(), hvd.local_rank(), hvd.cross_size()]
pending = hvd.allreduce_async(torch.ones(100_000), name="across")
child = os.fork()
if child == 0:
    assert os.waitpid(os.fork() or os._exit(hvd.rank()), 0)[1] >> 8 == place[0]
    raise SystemExit(0)  # the way out with atexit and destructors
assert os.waitpid(child, 0)[1] == 0
loader = DataLoader(Data(), batch_size=8, num_workers=2, multiprocessing_context="fork", persistent_workers=True)
for epoch in range(2):
    for batch in loader:
        hvd.allreduce_(batch, name="batch")
assert (pending.synchronize() == 1).all()
print("good", flush=True)
"""


def test_forked_data_loaders_are_no_workers_and_do_no_harm(job: Job) -> None:
    result = job(2, FORK)
    assert result.returncode == 0 and result.stdout.count("good") == 2, result.stdout


def test_uncaught_exception_ends_the_job_with_its_code(job: Job) -> None:
    result = job(
        2,
        """
import farandole.torch as hvd, torch
hvd.init()
hvd.allreduce(torch.ones(1), name="a")
if hvd.rank() == 1:
    raise LookupError("on purpose")
hvd.allreduce(torch.ones(1), name="b")
""",
    )
    assert result.returncode == 1 and "LookupError: on purpose" in result.stdout, result.stdout


def test_killed_worker_is_named_to_its_peers(job: Job) -> None:
    result = job(
        3,
        """
import os, signal
import farandole.torch as hvd, torch
from torch.utils.data import DataLoader
hvd.init()
loader = iter(DataLoader(torch.ones(1000), num_workers=2))  # its children hold all that the worker holds
for i in range(5):
    hvd.allreduce(next(loader), name="a")
if hvd.rank() == 1:
    os.kill(os.getpid(), signal.SIGKILL)
try:
    hvd.allreduce(next(loader), name="a")
except hvd.HorovodInternalError as error:
    assert isinstance(error, hvd.EpochEnded)
    print(f"told: {error}", flush=True)
""",
    )
    assert result.returncode == 128 + 9, result.stdout
    assert result.stdout.count("told: rank 1 ") == 2, result.stdout


def test_ranks_may_leave_without_shutdown_and_at_different_times(job: Job) -> None:
    result = job(
        3,
        """
import farandole.torch as hvd, torch
hvd.init()
hvd.allreduce(torch.ones(1), name="a")
if hvd.rank() == 0:
    sum(range(10_000_000))
print("good", flush=True)
""",
    )
    assert result.returncode == 0 and result.stdout.count("good") == 3, result.stdout


CHECKPOINT = """
import os, sys
import farandole.checkpoint, farandole.torch as hvd, torch
directory = sys.argv[1]
hvd.init()
save, load, latest = farandole.checkpoint.save, farandole.checkpoint.load, farandole.checkpoint.latest
assert latest(directory) is None
for step in (10, 20):
    path = save({"weight": torch.full((3,), float(step)), "step": step}, directory, step)
    assert (path is None) == (hvd.rank() != 0)
path = save(lambda p: open(p, "w").write("text"), directory, 5, name="other", extension="txt", wait=True)
assert open(path).read() == "text"
state = load(latest(directory))
assert state["step"] == 20 and state["weight"].tolist() == [20.0] * 3
assert latest(directory, "nothing") is None

def expect(kind, call, *words):
    try:
        call()
    except kind as error:
        for word in words:
            assert word in str(error), (word, str(error))
    else:
        raise AssertionError(f"no {kind.__name__}")

broken = os.path.join(directory, "broken.pt")
if hvd.rank() == 0:
    open(broken, "w").write("no checkpoint")
hvd.barrier()
expect(hvd.CheckpointError, lambda: load(broken), broken)
expect(hvd.CheckpointError, lambda: load("/nowhere/x.pt"), "/nowhere/x.pt", "No such file")
def fails(path):
    open(path, "w").write("half")
    raise OSError(28, "No space left on device")
if hvd.rank() == 0:
    expect(hvd.CheckpointError, lambda: save(fails, directory, 30), "No space left", directory)
    expect(FileExistsError, lambda: save({}, directory, 20), "20")
    expect(hvd.CheckpointError, lambda: save({}, "/proc/nowhere", 31), "/proc/nowhere")
    save({"step": 29}, directory, 30)
    replaced = latest(directory)
    save({"step": 30}, directory, 30, replace=True)
    assert not os.path.exists(replaced)
hvd.barrier()
expect(hvd.CheckpointError, lambda: save(fails, directory, 40, wait=True), "No space left")
assert load(latest(directory))["step"] == 30
hvd.barrier()
assert not [name for name in os.listdir(directory) if ".partial" in name], os.listdir(directory)
print("good", flush=True)
"""


@pytest.mark.parametrize("size", (1, 2))
def test_checkpoints_are_there_whole_or_not_at_all(size: int, job: Job, tmp_path: pathlib.Path) -> None:
    directory = tmp_path / "checkpoints"
    directory.mkdir()
    result = job(size, CHECKPOINT, str(directory))
    assert result.returncode == 0 and result.stdout.count("good") == size, result.stdout


def test_checkpoints_work_without_a_coordinator(tmp_path: pathlib.Path) -> None:
    (tmp_path / "checkpoints").mkdir()
    result = alone(f"import sys; sys.argv = ['', {str(tmp_path / 'checkpoints')!r}]\n{CHECKPOINT}")
    assert (result.returncode, result.stdout) == (0, "good\n")
