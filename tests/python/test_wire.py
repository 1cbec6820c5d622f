"""Messages of the control plane's client, held against protoc, of which the client needs nothing."""

import datetime
import re
import subprocess
from typing import List

import harness
import pytest
from farandole._operations import OPERATIONS
from farandole.client import (
    BarredHost,
    Checkpoint,
    CollectiveCost,
    Collectives,
    Details,
    Elastic,
    Event,
    Evidence,
    Findings,
    Flight,
    Frame,
    Gpu,
    GpuUsage,
    Job,
    KernelThread,
    LastArrival,
    Member,
    Progress,
    RankFindings,
    StackGroup,
    State,
    Submission,
    Tenant,
    Thread,
    Timeline,
    TimelinePart,
    Wait,
    Worker,
)
from farandole.client._findings import _DTYPES
from farandole.client._timeline import Chunk
from farandole.client._types import CheckpointList, TenantList
from farandole.client._wire import decode, encode, numbers

FULL = """
summary {
  tenant: "vision" job: "mnist" state: JOB_STATE_FAILED reason: "rank 1 died" epoch: 1099511627776 size: 2
  wanted_size: 300 created_unix_ms: 1700000000123 batches_per_second: 0.5 last_stall: "rank 0 waits"
  steps_per_second: 0 last_stall_unix_ms: 7000 elastic { min_size: 1 max_size: 128 join_window_ms: 5 } waiting: 3 resets: 4
  gpus { gpus: 8 telling_gpus: 7 busy_percent: 99.5 memory_used_bytes: 34359738368 memory_total_bytes: 68719476736 }
}
workers {
  rank: 1 member { incarnation: "0a" host_id: "host" hostname: "node-3" pid: 4711 endpoints: "tcp:1" } silence_ms: 1500
  batches: 9 state: "lost: it died" gpu { name: "H100" busy_percent: 0 memory_used_bytes: 5 memory_total_bytes: 6 }
  missed: true
}
workers { gpu { name: "a part" } }
history { at_unix_ms: 1000 sentence: "it began" }
history { sentence: "it ended" }
negotiation_messages: 12
barred_hosts { hostname: "node-4" failures: 2 barred_ms: 250 }
"""
ROW = """
checkpoints {
  name: "net" step: 7 token: 8 path: "/net.pt" size_bytes: 9 sha256: "\\000\\377\\020" committed_unix_ms: 10000 epoch: 11
  rank: 12
}
"""
TENANT = """
tenants {
  tenant: "vision" max_jobs: 1 max_workers: 2 created_unix_ms: 3000 tokens: 4 jobs: 5 workers: 6 store_bytes: 7
  max_store_bytes: 1099511627776 cohort: "research" weight: 9 borrow: 10 queued_jobs: 11 queued_workers: 12
}
next_page_token: "more"
"""
TIMELINE = """
recording: 2 is_on: true started_unix_ms: 3000 next: 4 dropped: 5 forgotten: 6
parts {
  number: 7 rank: 8 host_id: "host" hostname: "node-3"
  chunk { lines_zlib: "\\000\\377" lines_bytes: 9 events: 10 sent_ns: 11 ahead_ns: -12 error_ns: 13 is_last: true }
}
"""
COLLECTIVES = """
epoch: 2 size: 3 asked_unix_ms: 4000 is_over: true answered: 5 found: 6 left_out: 7 waited_us: 8 moving_us: 9
costs {
  name: "grad" group: 10 op: OP_TYPE_SCATTER is_on_gpu: true count: 11 bytes: 12 waited_us: 13 moving_us: 14
  mean_wait_us: 1.5 mean_moving_us: 2.5 longest_wait_us: 15 longest_wait_rank: 16 wait_percent: 3.5
  algorithm_bytes_per_second: 4.5 bus_bytes_per_second: 5.5 compared: 17 last { rank: 18 times: 19 } last { rank: 20 }
  least_wait_rank: 21 least_wait_us: 6.5
}
silent { rank: 22 silence: "it is stopped" }
"""
FINDINGS = """
sentence: "rank 1 is missing" epoch: 2 size: 3 stalled_unix_ms: 4000
waits { name: "grad" op: OP_TYPE_REDUCESCATTER group: 5 ordinal: 6 waiting: 0 waiting: 2 missing: 1 waited_us: 1500000 }
stacks { ranks: 0 ranks: 300 frames { function: "load" file: "a.py" line: 7 } is_dominant: true
  native_frames { function: "read" module: "libc.so.6" } }
ranks {
  rank: 1 evidence {
    epoch: 2 about_stacks: "by signal" about_native_stacks: "by ptrace" settings: "A=b" settings: "C=d"
    flight {
      epoch: 2 rank: 0 size: 3 pid: 8 unrecorded: 9 names: "grad" names: "loss"
      records {
        name: 1 ordinal: 10 state: ENDED op: OP_TYPE_SCATTER dtype: DTYPE_F8E5M2 bytes: 11 group: 12 batch: 13
        is_on_gpu: true age_us: 3000000 started_after_us: 1000000 ended_after_us: 2000000
      }
    }
    threads {
      name: "MainThread" tid: 14 frames { function: "wait" } native_frames { function: "poll" } alike: 16 why_no_native: "gone"
    }
    kernel_threads { tid: 15 name: "python" state: "sleeping" call: "poll" }
  }
}
ranks { rank: 2 silence: "it is stopped" }
"""


def protoc(what: str, file: str, given: bytes) -> bytes:
    command = ["/usr/bin/protoc", f"-I{harness.ROOT}/proto", what, f"farandole/v1/{file}.proto"]
    return subprocess.run(command, input=given, stdout=subprocess.PIPE, check=True).stdout


def at(seconds: float) -> datetime.datetime:
    return datetime.datetime.fromtimestamp(seconds, datetime.timezone.utc)


def test_every_field_of_a_job_is_read() -> None:
    read = decode(Details, protoc("--encode=farandole.v1.GetJobResponse", "monitor", FULL.encode()))
    assert read.job == Job(
        tenant="vision",
        name="mnist",
        state=State.FAILED,
        reason="rank 1 died",
        epoch=1 << 40,
        size=2,
        wanted_size=300,
        created=at(1700000000.123),
        batches_per_second=0.5,
        steps_per_second=0.0,
        last_stall="rank 0 waits",
        last_stall_at=at(7),
        elastic=Elastic(1, 128),
        waiting=3,
        resets=4,
        gpus=GpuUsage(8, 7, 99.5, 1 << 35, 1 << 36),
    )
    assert read.job.has_ended and read.job.blocker == ""
    busy = Worker(1, Member("0a", "host", "node-3", 4711), 1.5, 9, "lost: it died", Gpu("H100", 0, 5, 6), True)
    assert read.workers == [busy, Worker(gpu=Gpu("a part", None))], "one idles, the other does not tell"
    assert read.history == [Event(at(1), "it began"), Event(None, "it ended")]
    assert read.negotiation_messages == 12
    assert read.barred_hosts == [BarredHost("node-4", 2, 0.25)]


def test_every_field_of_a_checkpoint_is_read() -> None:
    encoded = protoc("--encode=farandole.v1.ListCheckpointsResponse", "monitor", ROW.encode())
    row = Checkpoint("net", 7, 8, "/net.pt", 9, "00ff10", at(10), 11, 12)
    assert decode(CheckpointList, encoded).checkpoints == [row]


def test_every_field_of_a_tenant_is_read() -> None:
    read = decode(TenantList, protoc("--encode=farandole.v1.ListTenantsResponse", "access", TENANT.encode()))
    assert read == TenantList([Tenant("vision", 1, 2, at(3), 4, 5, 6, "research", 9, 10, 11, 12, 7, 1 << 40)], "more")


def test_every_field_of_a_timeline_is_read() -> None:
    read = decode(Timeline, protoc("--encode=farandole.v1.GetTimelineResponse", "timeline", TIMELINE.encode()))
    part = TimelinePart(7, 8, "host", "node-3", Chunk(b"\0\xff", 9, 10, 11, -12, 13))
    assert read == Timeline(2, True, at(3), [part], 4, 5, 6)


def test_every_field_of_collectives_is_read() -> None:
    read = decode(
        Collectives, protoc("--encode=farandole.v1.SurveyCollectivesResponse", "monitor", COLLECTIVES.encode())
    )
    arrivals = [LastArrival(18, 19), LastArrival(20, 0)]
    sizes, times = ("scatter", True, 11, 12), (13e-6, 14e-6, 1.5e-6, 2.5e-6, 15e-6)
    cost = CollectiveCost("grad", 10, *sizes, *times, 16, 3.5, 4.5, 5.5, 17, arrivals, 21, 6.5e-6)
    silent = [RankFindings(22, None, "it is stopped")]
    assert read == Collectives(2, 3, at(4), True, 5, 6, 7, 8e-6, 9e-6, [cost], silent)


def test_every_field_of_findings_is_read() -> None:
    read = decode(Findings, protoc("--encode=farandole.v1.DiagnoseResponse", "monitor", FINDINGS.encode()))
    submission = Submission(1, 10, Progress.ENDED, "scatter", "float8_e5m2", 11, 12, 13, True, 3.0, 1.0, 2.0)
    flight = Flight(2, 0, 3, 8, 9, ["grad", "loss"], [submission])
    assert read == Findings(
        sentence="rank 1 is missing",
        waits=[Wait("grad", "reducescatter", 5, 6, [0, 2], [1], 1.5)],
        stacks=[StackGroup([0, 300], [Frame("load", "a.py", 7)], True, [Frame("read", module="libc.so.6")])],
        ranks=[
            RankFindings(
                1,
                Evidence(
                    2,
                    flight,
                    [Thread("MainThread", 14, [Frame("wait")], [Frame("poll")], 16, "gone")],
                    "by signal",
                    [KernelThread(15, "python", "sleeping", "poll")],
                    ["A=b", "C=d"],
                    "by ptrace",
                ),
            ),
            RankFindings(2, None, "it is stopped"),
        ],
        epoch=2,
        size=3,
        stalled=at(4),
    )
    assert flight.name_of(submission) == "loss" and flight.name_of(Submission(name_index=2)) == ""
    # A newer coordinator may know more.
    newer = decode(Submission, encode({3: 99, 4: 99, 5: 99}))
    assert (newer.progress, newer.operation, newer.dtype) == (Progress.UNKNOWN, "unknown", "unknown")


def test_an_empty_message_has_what_a_proto_takes_for_granted() -> None:
    assert decode(Details, b"") == Details()
    assert Details().job.state is State.UNKNOWN and Details().job.elastic is None


def test_messages_that_are_cut_are_none() -> None:
    whole = protoc("--encode=farandole.v1.GetJobResponse", "monitor", FULL.encode())
    read = 0
    for size in range(len(whole)):
        try:
            decode(Details, whole[:size])
            read += 1
        except ValueError:
            continue
    assert read <= FULL.count("\n"), "it can end only between fields"
    with pytest.raises(ValueError, match="within a number"):
        decode(Details, b"\xff" * 11)
    with pytest.raises(ValueError, match="within field 1"):
        decode(Details, b"\x0a\x05ab")
    with pytest.raises(ValueError, match="kind 3"):
        decode(Details, b"\x0b")
    with pytest.raises(ValueError, match="bytes there"):
        decode(Details, b"\x22\x01a")


def test_what_is_written_protoc_reads() -> None:
    drain = protoc("--decode=farandole.v1.DrainWorkersRequest", "admin", encode({1: "", 2: "mnist", 3: 0, 5: "why"}))
    assert drain.decode().split() == ["job:", '"mnist"', "rank:", "0", "reason:", '"why"'], (
        "rank 0 is said, although it is 0"
    )
    name = "x" * 300
    tenant = protoc("--decode=farandole.v1.CreateTenantRequest", "admin", encode({1: name, 2: None, 3: 4_000_000_000}))
    assert tenant.decode().split() == ["tenant:", f'"{name}"', "max_workers:", "4000000000"]
    quota = protoc("--decode=farandole.v1.SetQuotaRequest", "admin", encode({1: "a", 2: 0, 4: b"", 5: None, 7: ""}))
    assert quota.decode().split() == ["tenant:", '"a"', "max_jobs:", "0", "cohort:", '""'], "what is given is said"
    ranks = protoc("--encode=farandole.v1.DrainWorkersResponse", "admin", b"ranks: 0 ranks: 1 ranks: 200")
    assert numbers(ranks, 1) == [0, 1, 200]


def words_of(enum: str, prefix: str) -> List[str]:
    """The values of an enum of the protos, in their order, without the prefix."""
    text = (harness.ROOT / "proto/farandole/v1/types.proto").read_text(encoding="utf-8")
    (body,) = re.findall(rf"^enum {enum} {{(.*?)^}}", text, re.M | re.S)
    found = sorted((int(number), word.lower()) for word, number in re.findall(rf"\b{prefix}(\w+) = (\d+);", body))
    assert [number for number, _ in found] == list(range(len(found)))
    return [word for _, word in found]


@pytest.mark.parametrize(
    "enum, prefix, function, table",
    [("OpType", "OP_TYPE_", "OperationName", OPERATIONS), ("DType", "DTYPE_", "DTypeName", _DTYPES)],
)
def test_clients_have_a_word_for_each_value(enum: str, prefix: str, function: str, table: "tuple[str, ...]") -> None:
    header = (harness.ROOT / "sdk/cpp/farandole/client_findings.h").read_text(encoding="utf-8")
    (words,) = re.findall(
        rf"{function}\(uint64_t number\) {{\s*constexpr const char\* kNames\[\] = {{(.*?)}};", header, re.S
    )
    in_cpp = re.findall(r'"(\w+)"', words)
    assert in_cpp == list(table)
    assert len(table) == len(words_of(enum, prefix))
    if enum == "OpType":
        assert in_cpp == words_of(enum, prefix)
