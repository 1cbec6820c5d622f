"""Programs for Horovod, unchanged: under `farandole run --horovod` and `horovodrun`, and by horovod.run."""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import zipfile
from typing import List

import harness
import pytest

PROGRAMS = harness.ROOT / "tests" / "python" / "programs"


def launch(tmp_path: pathlib.Path, *command: str, **environment: str) -> str:
    """The output of a command, which ends with code 0."""
    harness.require_cli()
    result = subprocess.run(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=harness.JOB_SECONDS,
        cwd=tmp_path,
        env={**os.environ, "OMP_NUM_THREADS": "1", "XDG_STATE_HOME": str(tmp_path), **environment},
        check=False,
    )
    assert result.returncode == 0, result.stdout
    return result.stdout


def test_a_program_of_its_documentation_trains(tmp_path: pathlib.Path) -> None:
    horovodrun = tmp_path / "horovodrun"
    # By this name farandole is `farandole run --horovod`.
    start = f'exec -a horovodrun "{harness.CLI}" "$@"'
    horovodrun.write_text(f"#!/bin/bash\n{start}\n", encoding="utf-8")
    horovodrun.chmod(0o755)
    options = ("-np2", "-H", "localhost:2", "--gloo", "--cycle-time-ms", "3.5", "--disable-cache")
    program = (sys.executable, str(PROGRAMS / "horovod_mnist.py"), "--fp16-allreduce")
    output = launch(tmp_path, str(horovodrun), *options, *program, HOROVOD_IMAGE="registry/horovod:1")
    found = re.findall(r"Accuracy: ([\d.]+)%", output)
    assert len(found) == 2 and float(found[-1]) > 80, output
    assert "without effect here: --cycle-time-ms" in output
    assert output.count("HOROVOD_IMAGE is set, but without effect") == 1, output
    wrong = subprocess.run([str(horovodrun), "-np", "2"], stderr=subprocess.PIPE, text=True, check=False)
    assert wrong.returncode == 2 and wrong.stderr.startswith("horovodrun: no command is given"), wrong.stderr


@pytest.mark.parametrize("name", ("horovodrun", "farandole"))
def test_the_launcher_speaks_by_the_name_by_which_it_was_called(name: str, tmp_path: pathlib.Path) -> None:
    (tmp_path / name).symlink_to(harness.CLI)
    run = [str(tmp_path / name), *(["run"] if name == "farandole" else []), "-np", "2"]

    def lines(*arguments: str) -> List[str]:
        environment = {**os.environ, "XDG_STATE_HOME": str(tmp_path)}
        ended = subprocess.run(
            [*run, *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=environment,
            check=False,
        )
        assert ended.returncode != 0 and ended.stdout, ended
        return ended.stdout.splitlines()

    program = "import farandole; farandole.init(); raise SystemExit(farandole.rank())"
    said = lines("--verbose", "--cycle-time-ms", "1", sys.executable, "-c", program)
    said += lines("no-such-program")
    said += lines("sh", "-c", "kill -9 $PPID; sleep 1000")
    assert [line for line in said if not line.startswith(f"{name}: ")] == []
    # The command line, its coordinator, the run's start, its end, programs that cannot be started, and the launcher's
    # guard.
    for words in (
        "without effect",
        ": coordinator:",
        "2 workers",
        "worker 1 .* failed first",
        "no-such-program",
        "SIGKILL",
    ):
        assert any(re.search(words, line) for line in said), (words, said)


def test_libraries_find_horovods_sentence_before_init(tmp_path: pathlib.Path) -> None:
    """pytorch-ignite compares the whole of it."""
    program = """
import horovod.torch as hvd
for call in (hvd.rank, hvd.size, hvd.barrier):
    try:
        call()
    except ValueError as error:
        print(error)
"""
    names = harness.ROOT / "sdk" / "python" / "farandole" / "_dropin"
    output = launch(tmp_path, sys.executable, "-c", program, PYTHONPATH=str(names))
    assert output == 3 * "Horovod has not been initialized; use hvd.init().\n", output


def test_what_a_program_sets_goes_before_its_launchers_options(tmp_path: pathlib.Path) -> None:
    program = """
import os
os.environ["HOROVOD_FUSION_THRESHOLD"] = "0"
import horovod.torch as hvd
hvd.init()
print("size", hvd.size())
"""
    command = (str(harness.CLI), "run", "--horovod", "-np", "1", "--fusion-threshold-mb", "32")
    assert "size 1" in launch(tmp_path, *command, sys.executable, "-c", program)


def test_an_elastic_program_of_its_documentation_trains(tmp_path: pathlib.Path) -> None:
    text = (PROGRAMS / "documented_elastic.py").read_text(encoding="utf-8")
    program = tmp_path / "elastic.py"
    program.write_text(text.replace("import farandole.torch as hvd", "import horovod.torch as hvd"), encoding="utf-8")
    command = (str(harness.CLI), "run", "--horovod", "-np", "2", "--min-np", "1", sys.executable, str(program), "1")
    launch(tmp_path, *command)


DRIVER = """
import sys
import horovod

def rank_and_sum(factor, add=0):
    import farandole
    import numpy
    import farandole.numpy as hvd
    hvd.init()
    if factor < 0 and hvd.rank() == 1:
        raise KeyError("the factor is negative")
    return hvd.rank(), float(hvd.allreduce(numpy.full(2, factor * hvd.rank() + add), op=hvd.Sum)[0])

assert horovod.run(rank_and_sum, args=(2.0,), kwargs={"add": 1.0}, np=2) == [(0, 4.0), (1, 4.0)]
assert horovod.run(rank_and_sum, (1.0,), np=2, hosts="localhost:2") == [(0, 1.0), (1, 1.0)]
assert horovod.run(lambda: "alone", num_proc=1, use_mpi=True, mpi_args="-x A=b --tag-output") == ["alone"]
try:
    horovod.run(rank_and_sum, (-1.0,), np=2)
except KeyError as error:
    assert "negative" in str(error) and "on rank 1" in str(error.__cause__) and "rank_and_sum" in str(error.__cause__)
else:
    raise AssertionError("no KeyError")
try:
    horovod.run(sys.exit, (7,), np=1)
except RuntimeError as error:  # Its SystemExit would end this program without a word.
    assert str(error) == "rank 0 of run() has failed: SystemExit: 7", error
else:
    raise AssertionError("no RuntimeError")
for wrong in ({"hosts": "a:1", "hostfile": "b"}, {"use_gloo": True, "use_mpi": True}):
    try:
        horovod.run(sys.exit, **wrong)
    except ValueError as error:
        assert "only allow one" in str(error)
    else:
        raise AssertionError("no ValueError")
# Its name before Horovod 0.20, which is a function as well.
import horovod.run
from horovod.run import run, run_commandline
assert horovod.run(len, ("abc",), np=1) == horovod.run.run(len, ("abc",), np=1) == [3] and run is not horovod.run
print("good")
"""


def test_run_returns_results_by_rank_and_raises_what_a_rank_raises(tmp_path: pathlib.Path) -> None:
    (tmp_path / "driver.py").write_text(DRIVER, encoding="utf-8")
    dropin = str(harness.ROOT / "sdk" / "python" / "farandole" / "_dropin")
    output = launch(tmp_path, sys.executable, str(tmp_path / "driver.py"), PYTHONPATH=dropin)
    assert output.endswith("good\n"), output
    assert output.count("without effect here: --mpi-args (no MPI is used), --mpi (no MPI is used)") == 1, output


@pytest.mark.parametrize("framework", ["spark", "ray"])
def test_what_is_not_there_is_one_sentence(tmp_path: pathlib.Path, framework: str) -> None:
    dropin = str(harness.ROOT / "sdk" / "python" / "farandole" / "_dropin")
    result = subprocess.run(
        [sys.executable, "-c", f"import horovod.{framework}"],
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": dropin},
        cwd=tmp_path,
        check=False,
    )
    assert result.stderr.splitlines()[-1].startswith(f"ImportError: horovod.{framework} is not in this version")


SITE = """
import site, sys
site.addsitedir(sys.argv[1])
import farandole, horovod
assert horovod.__version__ == "0.28.1" and horovod.run is farandole.run
assert horovod.__file__.startswith(sys.argv[1]), horovod.__file__
# A Horovod that is installed comes first.
sys.path.insert(0, sys.argv[2])
del sys.modules["horovod"]
import horovod
assert horovod.__file__.startswith(sys.argv[2])
print("good")
"""


def test_the_distribution_of_names_overwrites_no_module(tmp_path: pathlib.Path) -> None:
    source = tmp_path / "source"
    shutil.copytree(harness.ROOT / "sdk" / "horovod", source)
    build = "import setuptools.build_meta as backend; print(backend.build_wheel('.'))"
    made = subprocess.run(
        [sys.executable, "-c", build], cwd=source, check=True, stdout=subprocess.PIPE, text=True
    ).stdout.splitlines()[-1]
    packages = tmp_path / "packages"
    with zipfile.ZipFile(source / made) as wheel:
        wheel.extractall(packages)
        entry_points = [name for name in wheel.namelist() if name.endswith("entry_points.txt")]
        assert "horovodrun = farandole.runner:run_commandline" in wheel.read(entry_points[0]).decode()
        assert [name for name in wheel.namelist() if ".dist-info/" not in name] == ["farandole_horovod.pth"]
    (packages / "farandole").symlink_to(harness.ROOT / "sdk" / "python" / "farandole")
    (tmp_path / "other" / "horovod").mkdir(parents=True)
    (tmp_path / "other" / "horovod" / "__init__.py").touch()
    result = subprocess.run(
        [sys.executable, "-c", SITE, str(packages), str(tmp_path / "other")],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert result.stdout == "good\n", result.stdout
