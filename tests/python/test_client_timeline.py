"""The file that the control plane's client makes of a job's timeline; as web/files/job_timeline_test.cc."""

import dataclasses
import json
import zlib

import pytest
from farandole.client import Timeline, TimelinePart
from farandole.client._timeline import Chunk

NAME = r'{"ph":"M","name":"thread_name","pid":0,"tid":1,"args":{"name":"allreduce.\"ts\":5"}}'
SPAN = '{"ph":"X","name":"ALLREDUCE","pid":0,"tid":1,"ts":1000.250,"dur":2.000,"args":{"ts":7}}'


def part(rank: int, host: str, lines: str, ahead_ns: int, error_ns: int, sent_ns: int = 0) -> TimelinePart:
    chunk = Chunk(zlib.compress(lines.encode()), len(lines), 1, sent_ns, ahead_ns, error_ns)
    return TimelinePart(1, rank, host, host, chunk)


def test_hosts_stand_in_the_coordinators_time() -> None:
    # The second exchange of host a was the better one.
    first = part(0, "a", f"{NAME},\n{SPAN}", 9_000_000, 90_000)
    timeline = Timeline(
        parts=[first, part(1, "a", SPAN, 5_000_000, 1_000), part(2, "b", SPAN, -500_100, 2_000)], dropped=4, forgotten=5
    )
    read = json.loads(timeline.trace())
    name, *spans = read["traceEvents"]
    assert name["args"]["name"] == 'allreduce."ts":5'
    assert [span["ts"] for span in spans] == [6000.25, 6000.25, 500.15] and spans[2]["args"]["ts"] == 7
    assert read["otherData"]["error_between_hosts_us"] == 3 and read["otherData"]["lost_events"] == 9
    assert timeline.error_between_hosts == 3e-6 and timeline.left_out == 0


def test_the_error_grows_with_the_distance_from_the_best_exchange() -> None:
    later = part(0, "a", SPAN, 0, 50_000_000, 100_000_000_000)
    timeline = Timeline(parts=[part(0, "a", SPAN, 0, 1_000), later, part(1, "b", SPAN, 0, 1_000)])
    assert timeline.error_between_hosts == (2_000 + 10_000_000) / 1e9


def test_each_name_is_written_once() -> None:
    process = '{"ph":"M","name":"process_name","pid":0,"args":{"name":"rank 0","start_time_since_epoch_in_micros":%d}}'
    parts = [part(0, "a", f"{process % at},\n{NAME},\n{SPAN}", 0, 1) for at in (1, 2)]
    assert len(json.loads(Timeline(parts=parts).trace())["traceEvents"]) == 4


def test_a_host_without_a_clock_is_left_out() -> None:
    timeline = Timeline(parts=[part(0, "a", SPAN, 0, 0), part(1, "b", SPAN, 0, 1)])
    assert timeline.left_out == 1 and len(json.loads(timeline.trace())["traceEvents"]) == 1


def test_a_timeline_without_events_is_a_file() -> None:
    assert json.loads(Timeline().trace())["traceEvents"] == []
    first = TimelinePart(1, 0, "a", "a", Chunk(error_ns=1))
    assert first.lines() == [] and json.loads(Timeline(parts=[first]).trace())["traceEvents"] == []


@pytest.mark.parametrize("change", [{"lines_zlib": b"nothing"}, {"lines_bytes": 5}, {"lines_bytes": 500}])
def test_a_part_that_is_broken_is_named(change: "dict[str, object]") -> None:
    good = part(3, "a", SPAN, 0, 1)
    broken = dataclasses.replace(good, chunk=dataclasses.replace(good.chunk, **change))
    with pytest.raises(ValueError, match="of rank 3, cannot be unpacked"):
        Timeline(parts=[broken]).trace()


def test_a_part_unpacks_to_8_mib_at_most() -> None:
    large = b"x" * (9 << 20)
    with pytest.raises(ValueError, match="cannot be unpacked"):
        TimelinePart(chunk=Chunk(zlib.compress(large), len(large))).lines()
