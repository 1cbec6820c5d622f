"""A stranger hears and changes the bytes between workers of several hosts, with and without --encrypt."""

import pathlib
import re
import sys
from typing import Callable, Iterator, Tuple

import harness
import pytest
from coordinators import Coordinator
from elastic_jobs import ElasticJob
from programs_run import Program
from wire import DATA, RELAY, Wire

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "programs"))

import averaging  # noqa: E402

AVERAGING = pathlib.Path(averaging.__file__)
TAMPERED = (
    r"(its )?connection (of rank \d )?to rank \d \(pid \d+ on [^)]+\) broke: its record \d+, of \d+ bytes, does not "
    r"verify: the bytes were changed on the way, left out, or sent twice or in another order"
)


class Job:
    """Two workers on pretended hosts of their own, and the wire between them."""

    def __init__(self, program: Program, wire: Wire, end: pathlib.Path) -> None:
        self.program = program
        self.wire = wire
        self._end = end

    def finish(self) -> None:
        """Has it end in order."""
        self._end.touch()
        self.program.require_end(0)


@pytest.fixture
def averaging_job(
    job: Callable[..., Program], serve: Callable[..., Coordinator], tmp_path: pathlib.Path
) -> Iterator[Callable[..., Job]]:
    """averaging_job(*options, **environment) starts averaging.py on two hosts; options are of `farandole run`."""
    coordinator = serve()
    wire = Wire(coordinator.address)

    def heard_job(*options: str, **environment: str) -> Job:
        end = tmp_path / "end"
        place = ["--coordinator", wire.address, "--token-file", coordinator.token_file]
        variables = {"FARANDOLE_NETWORK_INTERFACES": "127.0.0.1", **environment}
        program = job(2, "averaging", end, options=[*place, *options], hosts=2, **variables)
        return Job(program, wire, end)

    yield heard_job
    wire.close()


def test_the_wire_hears_tensors(averaging_job: Callable[..., Job]) -> None:
    """Without encryption; but not those that travel with their order."""
    job = averaging_job()
    job.program.expect("small right")
    job.finish()
    assert averaging.PATTERN in job.wire.heard(DATA)
    assert averaging.PATTERN not in job.wire.heard(RELAY)
    assert len(job.wire.heard(RELAY)) > averaging.SIZES["small"]


def test_with_encryption_the_wire_hears_none(averaging_job: Callable[..., Job]) -> None:
    job = averaging_job("--encrypt")
    job.program.expect("small right")
    job.finish()
    assert "WRONG" not in job.program.output
    # As much as without it; and none of the pattern's halves, wherever a record begins.
    half = len(averaging.PATTERN) // 2
    assert len(job.wire.heard(DATA)) > averaging.SIZES["large"]
    assert len(job.wire.heard(RELAY)) > averaging.SIZES["small"]
    for purpose in (DATA, RELAY):
        for part in (averaging.PATTERN[:half], averaging.PATTERN[half:]):
            assert part not in job.wire.heard(purpose), f"purpose {purpose}"


def test_a_changed_bit_changes_the_sum_without_encryption(averaging_job: Callable[..., Job]) -> None:
    """So the wire does change what the other tests say it changes."""
    job = averaging_job()
    job.program.expect("small right")
    job.wire.flip(DATA, after=300_001)
    job.program.expect("large WRONG")
    job.finish()


@pytest.mark.parametrize("options, purpose", [(("--encrypt",), DATA), (("--encrypt",), RELAY), ((), RELAY)])
def test_a_changed_bit_ends_the_epoch(
    averaging_job: Callable[..., Job], options: Tuple[str, ...], purpose: int
) -> None:
    """With encryption; without it, where it would change the order, and so where in memory bytes are read and written."""
    job = averaging_job(*options)
    job.program.expect("small right")
    job.wire.flip(purpose, after=300_001 if purpose == DATA else 101)
    assert job.program.end() != 0
    assert "WRONG" not in job.program.output
    found = re.findall(rf"^\[\d\] \w+: .*{TAMPERED}", job.program.output, re.MULTILINE)
    assert len(found) >= 2, f"not both ranks say why:\n{job.program.output[-3000:]}"


def test_ranks_that_disagree_hear_both_values(start: Callable[..., Program], tmp_path: pathlib.Path) -> None:
    worker = harness.split(2, [sys.executable, str(AVERAGING), str(tmp_path / "end")])
    command = ("sh", "-c", 'FARANDOLE_ENCRYPT=$FARANDOLE_LAUNCH_INDEX exec "$0" "$@"', *worker)
    run = start(str(harness.CLI), "run", "-np", "2", *command)
    assert run.end(120) != 0
    sentence = (
        r"InvalidRequest: FARANDOLE_ENCRYPT is 0 on rank 0 \(pid \d+ on \S+\), and 1 on rank 1 \(pid \d+ on \S+\); all "
        r"ranks must have the same"
    )
    for rank in (0, 1):
        assert re.search(rf"^\[{rank}\] {sentence}", run.output, re.MULTILINE), run.output[-3000:]


def test_an_elastic_job_goes_on_without_a_newcomer_that_disagrees(
    start: Callable[..., Program], serve: Callable[..., Coordinator], tmp_path: pathlib.Path
) -> None:
    places = [["env", f"FARANDOLE_HOST_ID={name}", f"FARANDOLE_ENCRYPT={value}"] for name, value in ("a1", "b1", "c0")]
    job = ElasticJob(start, serve(), "elastic_stepping", tmp_path, sizes=(1, 1, 3), prefixes=places)
    job.expect_steps(1, 0)
    job.add()
    job.expect_steps(2, 0, 1)
    odd = job.add()
    odd.expect(r"FARANDOLE_ENCRYPT is 1 on rank 0 \(pid \d+ on \S+\), and 0 on rank 2 \(pid \d+ on \S+\); all ranks")
    assert odd.end() != 0
    job.expect_steps(2, 0, 1)
    (tmp_path / "stop").touch()
    job.require_end(0, 0, 1)


NCCL = """
import ctypes, os
ctypes.CDLL(os.environ["FARANDOLE_NCCL_LIBRARY"]).fake_begin(os.environ["FARANDOLE_CHECKS_GPUS"].encode())
import farandole.numpy as hvd
from farandole._library import failure, ffi, lib
hvd.init()
print("by", ffi.string(lib.farandole_gpu_transport()).decode() or failure(lib.farandole_use_stream(0, 0)))
hvd.barrier()
"""


@pytest.mark.parametrize(
    "hosts, options, way",
    [
        (2, (), r"nccl \d"),
        (1, ("--encrypt",), r"nccl \d"),
        (2, ("--encrypt",), "FARANDOLE_ENCRYPT is 1, and what NCCL sends to other hosts is not encrypted"),
    ],
)
def test_nccl_is_not_used_between_hosts(
    start: Callable[..., Program], tmp_path: pathlib.Path, hosts: int, options: Tuple[str, ...], way: str
) -> None:
    worker = harness.split(hosts, [sys.executable, "-c", NCCL])
    run = start(str(harness.CLI), "run", "-np", "2", *options, *worker, **harness.imitate_gpus(tmp_path / "gpus"))
    run.require_end(0, 120)
    for rank in (0, 1):
        assert re.search(rf"^\[{rank}\] by {way}", run.output, re.MULTILINE), run.output[-3000:]


def test_a_coordinator_elsewhere_wants_tls(start: Callable[..., Program], tmp_path: pathlib.Path) -> None:
    token = tmp_path / "token"
    token.touch(mode=0o600)
    token.write_text("farandole_token")
    variables = {"FARANDOLE_COORDINATOR": "127.example.org:7070", "FARANDOLE_ENCRYPT": "1", "FARANDOLE_SIZE": "2"}
    variables["FARANDOLE_TOKEN_FILE"] = str(token)
    program = start(sys.executable, "-c", "import farandole; farandole.init()", **variables)
    assert program.end(60) != 0
    sentence = "FARANDOLE_ENCRYPT is 1, but coordinator 127.example.org:7070 is not on this host, and without"
    assert sentence in program.output, program.output[-3000:]


def test_gloo_is_refused(start: Callable[..., Program], tmp_path: pathlib.Path) -> None:
    worker = [sys.executable, str(AVERAGING), str(tmp_path / "end")]
    run = start(str(harness.CLI), "run", "-np", "1", "--encrypt", *worker, FARANDOLE_TRANSPORT="gloo")
    assert run.end(120) != 0
    assert 'FARANDOLE_ENCRYPT is 1 and FARANDOLE_TRANSPORT is "gloo", but Gloo encrypts nothing' in run.output
