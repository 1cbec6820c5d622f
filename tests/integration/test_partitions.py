"""Elastic jobs over hosts whose network fails in parts, so that not all of them are heard by all others."""

import pathlib
from typing import Callable, List, Optional, Tuple

import harness
import hosts
import pytest
from coordinators import Coordinator
from elastic_jobs import ElasticJob
from programs_run import Program
from test_elastic import finish
from test_tls import make_certificate

# Between hosts 0, 1 and 2, and None, where the coordinator is.
Cuts = List[Tuple[int, Optional[int]]]
# Each with what the coordinator says of the worker on host 0.
PARTITIONS = {
    "from_all": ([(0, None), (0, 1), (0, 2)], r"nothing was heard of it for 2\.\d s"),
    # A healthy data plane with a wedged control plane, and the reverse.
    "from_the_coordinator": ([(0, None)], r"nothing was heard of it for 2\.\d s"),
    "from_the_other_workers": (
        [(0, 1), (0, 2)],
        r"it is at odds with rank \d|.* broke: |.* cannot be reached|.* not connect",
    ),
}


@pytest.fixture(name="coordinator")
def _coordinator(three_hosts: hosts.Namespaces, start: Callable[..., Program], tmp_path: pathlib.Path) -> Coordinator:
    """On this machine, for all hosts."""
    state, here = tmp_path / "state", three_hosts.machine
    command = [str(harness.CLI), "serve", "--listen", f"{here}:0", "--http", "127.0.0.1:0", "--state-dir", str(state)]
    return Coordinator(start(*command, *make_certificate(tmp_path / "tls", f"IP:{here}")), state)


@pytest.mark.parametrize("name", PARTITIONS)
def test_a_host_that_is_cut_is_gone_without_and_comes_back(
    name: str,
    three_hosts: hosts.Namespaces,
    coordinator: Coordinator,
    start: Callable[..., Program],
    tmp_path: pathlib.Path,
) -> None:
    cuts, sentence = PARTITIONS[name]
    job = ElasticJob(
        *(start, coordinator, "elastic_stepping", tmp_path),
        sizes=(1, 3, 3),
        prefixes=[three_hosts.inside(index) for index in range(3)],
        FARANDOLE_CA_FILE=str(tmp_path / "tls" / "cert.pem"),
    )
    job.expect_steps(3, 0, 1, 2)
    for one, other in cuts:
        three_hosts.cut(one, other)
    job.expect_steps(2, 1, 2)
    coordinator.program.expect(rf"rank \d \(worker {job.workers[0].pid} on host \S+\) was lost: ({sentence})")
    for one, other in cuts:
        three_hosts.heal(one, other)
    job.expect_steps(3, 0, 1, 2)
    told = job.workers[0].output
    assert " as rank 2 from step " in told, f"it stands behind the survivors: {told}"
    finish(job, tmp_path, 3, 0, 1, 2)
