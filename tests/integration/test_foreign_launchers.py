"""Plain `mpirun` and `srun`: rank 0 brings the coordinator, which ends with it; nothing else has to be started."""

import os
import pathlib
import re
import shutil
import signal
import sys
from typing import Callable, Dict, List, Sequence

import harness
import pytest
from hosts import Namespaces
from programs_run import MARK, SOON_SECONDS, Program

PROGRAMS = pathlib.Path(__file__).parent / "programs"
# Its processes may be more than the machine's cores, and their user may be root, in a container.
MPIRUN = ["mpirun", "--oversubscribe"]
AS_ROOT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}

RANK = b"OMPI_COMM_WORLD_RANK="
# Variables that mpirun takes from here to other hosts, where sshd gives each process its own.
TRAVELLING = ["TMPDIR", "XDG_STATE_HOME", MARK, "OMP_NUM_THREADS"]

needs_mpirun = pytest.mark.skipif(shutil.which("mpirun") is None, reason="openmpi-bin is not installed")


def worker(name: str, *arguments: object) -> List[str]:
    """The command of one worker."""
    return [sys.executable, str(PROGRAMS / f"{name}.py"), *map(str, arguments)]


def mpirun_over(hosts: Namespaces, *slots: int) -> List[str]:
    """mpirun with so many processes on the first, second, ... host. MPI's own shared memory differs by the hosts'
    names, which these hosts have in common."""
    where = ",".join(f"{name}:{count}" for name, count in zip(hosts.names, slots))
    agent = ["--mca", "plm_rsh_agent", f"ssh -F {hosts.keys.config}", "--mca", "btl", "self,tcp"]
    return [*MPIRUN, *agent, "-H", where, *(word for name in TRAVELLING for word in ("-x", name))]


def job_directory(program: Program) -> pathlib.Path:
    """Where the job's coordinator keeps its state."""
    (directory,) = (program.directory / "state/farandole/jobs").iterdir()
    return directory


def step(rank: int, size: int, nodes: int = 1) -> Dict[str, str]:
    """The variables that srun gives a process. Slurm itself needs its daemons, a database and a user of its own."""
    return {
        "SLURM_JOB_ID": "77",
        "SLURM_STEP_ID": "3",
        "SLURM_STEP_NUM_TASKS": str(size),
        "SLURM_STEP_NUM_NODES": str(nodes),
        "SLURM_PROCID": str(rank),
    }


@needs_mpirun
def test_mpirun_alone_starts_a_job(start: Callable[..., Program]) -> None:
    run = start(*MPIRUN, "-np", "4", *worker("over_hosts"), **AS_ROOT)
    run.require_end(0)
    # mpirun mixes the lines of its processes.
    assert run.output.count("sum 10.0 of 4 without TLS") == 4, run.output


@needs_mpirun
def test_a_killed_rank_zero_is_named_under_mpirun_and_nothing_stays(
    start: Callable[..., Program], tmp_path: pathlib.Path
) -> None:
    run = start(*MPIRUN, "-np", "2", *worker("stepping", tmp_path), **AS_ROOT)
    victim = int(run.expect(r"process (\d+)").group(1))
    run.expect(r"step \d+")
    os.kill(victim, signal.SIGKILL)
    assert run.end() != 0
    run.require_nothing_left()


def test_the_processes_of_a_step_of_slurm_are_one_job(start: Callable[..., Program], tmp_path: pathlib.Path) -> None:
    # They meet in the temporary directory, which the processes of a step on one host share.
    temporary = {"TMPDIR": str(tmp_path)}
    ranks = [start(*worker("over_hosts"), **step(rank, 3), **temporary) for rank in range(3)]
    for run in ranks:
        run.require_end(0)
        assert run.output == "sum 6.0 of 3 without TLS\n"
    meeting = list(tmp_path.glob("farandole-*"))
    assert len(meeting) == 1 and not list(meeting[0].iterdir()), "nothing is left in it"


def test_a_killed_rank_zero_is_named_before_its_coordinator_ends(
    start: Callable[..., Program], tmp_path: pathlib.Path
) -> None:
    temporary = {"TMPDIR": str(tmp_path)}
    ranks = [start(*worker("stepping", tmp_path), **step(rank, 2), **temporary) for rank in range(2)]
    for run in ranks:
        run.expect(r"step \d+")
    ranks[0].signal(signal.SIGKILL)
    ranks[1].expect(r"EpochEnded: .*rank 0\b", SOON_SECONDS)
    ranks[1].end()
    ranks[0].end()
    for run in ranks:
        run.require_nothing_left()


@needs_mpirun
@pytest.mark.parametrize("first", ("mpi", "farandole"))
@pytest.mark.parametrize("last", ("mpi", "farandole"))
def test_mpirun_over_hosts_starts_a_job_beside_mpi(
    first: str, last: str, start: Callable[..., Program], two_hosts: Namespaces
) -> None:
    run = start(*mpirun_over(two_hosts, 2, 2), *worker("with_mpi", first, last), **AS_ROOT)
    run.require_end(0)
    assert run.output.count("sum 10.0 and 10.0 of 4 on 2 hosts, same rank: True\n") == 4, run.output


@needs_mpirun
@pytest.mark.parametrize("kind, expected", [("job", ("[2, 0]", "[3, 1]")), ("set", ("[0, 2]", "[1, 3]"))])
def test_communicators_of_mpi_say_who_is_meant(
    kind: str, expected: Sequence[str], start: Callable[..., Program]
) -> None:
    run = start(*MPIRUN, "-np", "4", *worker("with_communicator", kind), **AS_ROOT)
    run.require_end(0)
    assert all(run.output.count(f"with {ranks}\n") == 2 for ranks in expected), run.output


@needs_mpirun
def test_mpirun_over_hosts_needs_no_mpi(start: Callable[..., Program], two_hosts: Namespaces) -> None:
    run = start(*mpirun_over(two_hosts, 1, 2), *worker("over_hosts"), **AS_ROOT)
    run.require_end(0)
    assert run.output.count("sum 6.0 of 3 ") == 3, run.output


@needs_mpirun
@pytest.mark.parametrize("victim", (0, 1, 2))
def test_whoever_is_killed_under_mpirun_over_hosts_nothing_is_left(
    victim: int, start: Callable[..., Program], two_hosts: Namespaces, tmp_path: pathlib.Path
) -> None:
    run = start(*mpirun_over(two_hosts, 1, 2), *worker("stepping", tmp_path), **AS_ROOT)
    run.expect(r"step \d+")
    os.kill(pids_by_rank(run)[victim], signal.SIGKILL)
    assert run.end() != 0
    run.require_nothing_left()


def pids_by_rank(program: Program) -> Dict[int, int]:
    """The processes that mpirun has started."""
    found = {}
    for pid in program.descendants():
        try:
            variables = pathlib.Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
            command = pathlib.Path(f"/proc/{pid}/cmdline").read_bytes()
        except OSError:  # ended meanwhile
            continue
        ranks = [int(text[len(RANK) :]) for text in variables if text.startswith(RANK)]
        if ranks and b"stepping.py" in command:
            found[ranks[0]] = pid
    return found


@needs_mpirun
def test_when_mpirun_is_killed_nothing_is_left(
    start: Callable[..., Program], two_hosts: Namespaces, tmp_path: pathlib.Path
) -> None:
    run = start(*mpirun_over(two_hosts, 1, 2), *worker("stepping", tmp_path), **AS_ROOT)
    run.expect(r"step \d+")
    run.signal(signal.SIGKILL)
    assert run.end() != 0
    for session in (run.directory / "tmp").glob("ompi.*"):
        shutil.rmtree(session)  # mpirun's own; it had no time for that
    run.require_nothing_left()


@needs_mpirun
def test_only_its_user_can_read_what_the_hosts_tell_each_other(
    start: Callable[..., Program], two_hosts: Namespaces, tmp_path: pathlib.Path
) -> None:
    run = start(*mpirun_over(two_hosts, 1, 1), *worker("stepping", tmp_path), **AS_ROOT)
    run.expect(r"step \d+")
    state = job_directory(run)
    token = (state / "token").read_bytes().strip()
    for pid in filter(str.isdigit, os.listdir("/proc")):
        for name in ("cmdline", "environ"):
            assert token not in read_if_there(pathlib.Path("/proc", pid, name)), (
                f"{name} of process {pid} has the token"
            )
    # Open MPI's session directories, in which PMIx keeps its exchange, and the temporary one.
    places = [run.directory / "tmp", *(two_hosts.keys.temporary(host) for host in two_hosts.names)]
    holders = [path for place in places for path in place.rglob("*") if path.is_file() and token in read_if_there(path)]
    assert holders, "it is looked for where it is"
    for path in holders:
        assert any(not parent.stat().st_mode & 0o077 for parent in (path, *path.parents)), path

    # Strangers: one without the certificate, and one with it but without the token.
    port = (state / "address").read_text(encoding="ascii").strip().rsplit(":", 1)[1]
    address = f"{two_hosts.names[0]}:{port}"
    wrong = tmp_path / "wrong"
    wrong.write_text("not-the-token", encoding="ascii")
    wrong.chmod(0o600)
    listed = start(str(harness.CLI), "job", "list", "--coordinator", address, "--token-file", str(wrong))
    listed.require_end(2)
    assert "is not on this host, and no CA file was given" in listed.output, listed.output
    ca = ["--ca", str(state / "ca.pem")]
    listed = start(str(harness.CLI), "job", "list", "--coordinator", address, "--token-file", str(wrong), *ca)
    listed.require_end(1)
    assert "refused the token" in listed.output, listed.output
    (tmp_path / "stop").touch()
    run.require_end(0)


def read_if_there(path: pathlib.Path) -> bytes:
    """A file that may be gone meanwhile."""
    try:
        return path.read_bytes()
    except OSError:
        return b""


def test_the_processes_of_a_step_without_pmix_meet_in_the_home_that_their_hosts_share(
    start: Callable[..., Program], tmp_path: pathlib.Path
) -> None:
    shared = tmp_path / "state"
    ranks = [
        start(
            *worker("over_hosts"),
            **step(rank, 4, nodes=2),
            XDG_STATE_HOME=str(shared),
            FARANDOLE_HOST_ID=f"host{rank // 2}",
        )
        for rank in range(4)
    ]
    for run in ranks:
        run.require_end(0)
        assert run.output == "sum 10.0 of 4 without TLS\n", run.output
    meeting = shared / "farandole/launches"
    assert meeting.stat().st_mode & 0o777 == 0o700 and not list(meeting.iterdir()), "nothing is left in it"


def test_who_does_not_meet_rank_zero_says_where_they_would_have_met(
    start: Callable[..., Program], tmp_path: pathlib.Path
) -> None:
    own = {"XDG_STATE_HOME": str(tmp_path / "not-shared"), "FARANDOLE_JOIN_TIMEOUT_MS": "500"}
    run = start(*worker("over_hosts"), **step(1, 2, nodes=2), **own)
    run.require_end(1)
    assert f"does it call init, and do all hosts share {own['XDG_STATE_HOME']}?" in run.output, run.output


def test_several_hosts_without_pmix_are_refused_with_what_to_do_instead(start: Callable[..., Program]) -> None:
    # Of MPICH's mpirun.
    run = start(*worker("over_hosts"), PMI_RANK="0", PMI_SIZE="4", MPI_LOCALNRANKS="2")
    run.require_end(1)
    assert re.search(
        r"mpirun has started 4 processes on several hosts.* \(it serves no PMIx\); start the job by `farandole run"
        r" -H HOST:SLOTS",
        run.output,
    )


def test_another_pmix_than_the_servers_is_not_used(start: Callable[..., Program], tmp_path: pathlib.Path) -> None:
    served = {"PMIX_NAMESPACE": "slurm.pmix.77.3", "PMIX_RANK": "0", "PMIX_VERSION": "99.1.0"}
    run = start(*worker("over_hosts"), **step(0, 4, nodes=2), **served, TMPDIR=str(tmp_path))
    run.require_end(1)
    assert re.search(r"libpmix\.so\.2 is of PMIx \d\S+, but srun serves PMIx 99\.1\.0\); start the job by", run.output)


def test_a_directory_that_others_can_write_is_refused(start: Callable[..., Program], tmp_path: pathlib.Path) -> None:
    meeting = tmp_path / f"farandole-{os.geteuid()}"
    meeting.mkdir()
    meeting.chmod(0o777)
    run = start(*worker("over_hosts"), **step(0, 2), TMPDIR=str(tmp_path))
    run.require_end(1)
    assert f"the processes of this job would meet there, but {meeting} is not a directory that only" in run.output


def test_a_program_that_is_not_found_is_said(start: Callable[..., Program], tmp_path: pathlib.Path) -> None:
    run = start(*worker("over_hosts"), **step(0, 2), TMPDIR=str(tmp_path), FARANDOLE_PROGRAM="/no/such/farandole")
    run.require_end(1)
    assert "cannot start the job's coordinator, /no/such/farandole: No such file or directory" in run.output


# Of a process that has ended before the others looked for it, only the host is known.
ENDED = r"{who} (?:\(pid \d+ on \S+\)|on \S+) ended(?: with exit code {code})? before it joined, but job \S+ waits for 1 of {size} workers"


@needs_mpirun
def test_a_rank_that_ends_well_before_it_joins_ends_the_job_under_mpirun(start: Callable[..., Program]) -> None:
    run = start(*MPIRUN, "-np", "3", *worker("ends_before_init", 2, 0), **AS_ROOT)
    assert run.end() != 0
    assert re.search(ENDED.format(who="rank 2 of mpirun", code=0, size=3), run.output), run.output
    run.require_nothing_left()


@needs_mpirun
def test_a_rank_zero_that_ends_well_before_it_starts_the_coordinator_is_named(start: Callable[..., Program]) -> None:
    run = start(*MPIRUN, "-np", "2", *worker("ends_before_init", 0, 0), **AS_ROOT)
    assert run.end() != 0
    ended = r"rank 0 of mpirun .*ended.* before it called init, and with it the job's coordinator would have started"
    assert re.search(ended, run.output), run.output
    run.require_nothing_left()


@needs_mpirun
def test_a_rank_that_ends_well_on_another_host_ends_the_job_on_all(
    start: Callable[..., Program], two_hosts: Namespaces, tmp_path: pathlib.Path
) -> None:
    # Rank 1, on the same host, calls init when rank 2 is gone: mpirun itself ends the job where a rank ends beside one
    # that has asked for the addresses of the other hosts (PMIx_Init).
    program = worker("ends_before_init", 2, 0, "", tmp_path / "pid")
    run = start(*mpirun_over(two_hosts, 1, 2), *program, **AS_ROOT)
    assert run.end() != 0
    assert re.search(ENDED.format(who="rank 2 of mpirun", code=0, size=3), run.output), run.output
    run.require_nothing_left()


@needs_mpirun
def test_a_rank_that_ends_well_beside_one_that_waits_in_init_is_named_by_mpirun_or_by_that_rank(
    start: Callable[..., Program], two_hosts: Namespaces
) -> None:
    run = start(*mpirun_over(two_hosts, 1, 2), *worker("ends_before_init", 2, 0), **AS_ROOT)
    assert run.end() != 0
    by_mpirun = r"mpirun has exited due to process rank 2 with PID \d+ on\s+node \S+ exiting improperly"
    by_rank = ENDED.format(who="rank 2 of mpirun", code=0, size=3)
    assert re.search(f"{by_mpirun}|{by_rank}", run.output), run.output
    run.require_nothing_left()


def test_a_task_of_a_step_that_fails_before_it_joins_ends_the_job_of_some_of_the_step(
    start: Callable[..., Program], tmp_path: pathlib.Path
) -> None:
    # Unless it is told otherwise, srun lets a step go on when a task has failed.
    step_of_three = worker("slurm_step", 3, *worker("ends_before_init", 1, 3, "2-1"))
    run = start(*step_of_three, TMPDIR=str(tmp_path))
    assert run.end() != 0
    assert re.search(ENDED.format(who="rank 1 of srun", code=3, size=2), run.output), run.output
    assert run.output.count("joined a job of 1\n") == 1, run.output
