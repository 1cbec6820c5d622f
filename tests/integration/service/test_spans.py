"""Spans of real jobs' runs, as a collector gets them by OTLP: their tree, what they say of a loss, and a collector that hangs,
refuses or is away."""

import json
import os
import pathlib
import re
import signal
import sys
import time
import urllib.request
from typing import Any, Callable, Dict, Iterator, List

import harness
import pytest
from collector import Collector, attributes_of, check_tree
from coordinators import Coordinator
from gates import Gate
from programs_run import SOON_SECONDS, START_SECONDS, Program
from test_diagnosis import pid_of

# Status.StatusCode of OpenTelemetry's trace.proto.
UNSET, ERROR = 0, 2
PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
PROGRAM = pathlib.Path(__file__).resolve().parents[1] / "programs" / "client_job.py"
# The longest pause between two tries of an exporter, and a busy machine.
AGAIN_SECONDS = 30 + SOON_SECONDS


@pytest.fixture
def collector() -> Iterator[Collector]:
    """One that takes all, until the test says otherwise."""
    made = Collector()
    yield made
    made.close()


@pytest.fixture
def run_job(start: Callable[..., Program]) -> Callable[..., Program]:
    """run_job(COORDINATOR, NAME, SIZE, OPTIONS, *words, **environment) starts client_job.py with these words."""

    def run(
        coordinator: Coordinator, name: str, size: int, options: List[str], *words: object, **environment: str
    ) -> Program:
        command = [str(harness.CLI), "run", "-np", str(size), "--job", name, *coordinator.options(*options)]
        return start(*command, sys.executable, str(PROGRAM), *map(str, words), **environment)

    return run


def counted(coordinator: Coordinator) -> Dict[str, int]:
    """The coordinator's own count of spans, by what became of them."""
    token = pathlib.Path(coordinator.token_file).read_text(encoding="utf-8").strip()
    request = urllib.request.Request(f"http://{coordinator.http}/metrics", headers={"Authorization": f"Bearer {token}"})
    with urllib.request.urlopen(request, timeout=30) as response:
        text = response.read().decode()
    return {
        result: int(count)
        for result, count in re.findall(r'^farandole_spans_total\{result="(\w+)"\} (\d+)$', text, re.MULTILINE)
    }


def await_count(coordinator: Coordinator, wanted: Dict[str, int]) -> None:
    """Waits until it has counted so: it counts when it has read the collector's reply."""
    deadline = time.monotonic() + SOON_SECONDS
    while (found := counted(coordinator)) != wanted:
        assert time.monotonic() < deadline, found


def test_a_run_is_a_trace(
    serve: Callable[..., Coordinator],
    run_job: Callable[..., Program],
    collector: Collector,
    gate: Gate,
    tmp_path: pathlib.Path,
) -> None:
    coordinator = serve(
        FARANDOLE_OTLP_ENDPOINT=collector.url,
        OTEL_EXPORTER_OTLP_HEADERS="X-Scope=vision%2Fone",
        OTEL_SERVICE_NAME="jobs",
    )
    before = time.time_ns()
    run = run_job(coordinator, "net", 2, [], "late", gate, tmp_path / "checkpoints", 2, TRACEPARENT=PARENT)
    run.expect("waits", START_SECONDS)
    gate.let_through(2)
    run.require_end(0)
    spans = collector.await_spans("run", 1, SOON_SECONDS)
    after = time.time_ns()
    assert sorted(span.name for span in spans) == ["checkpoint", "checkpoint", "epoch", "form", "launch", "run"]
    # The run is below its launcher's span, which is another program's.
    check_tree(spans, lambda span: span.parent_span_id.hex() == PARENT.split("-")[2])
    assert spans[0].trace_id.hex() == PARENT.split("-")[1]
    for span in spans:
        assert before <= span.start_time_unix_nano and span.end_time_unix_nano <= after, span
        assert span.status.code == UNSET and span.kind == span.SPAN_KIND_INTERNAL, span
        named = attributes_of(span)
        assert (named["farandole.tenant"], named["farandole.job"]) == ("default", "net")
    root, epoch, form = (collector.named(name)[0] for name in ("run", "epoch", "form"))
    of_root = attributes_of(root)
    assert of_root["farandole.state"] == "finished" and of_root["farandole.wanted_size"] == 2, of_root
    assert "(process " in of_root["farandole.launched_by"], of_root
    of_epoch = attributes_of(epoch)
    assert (of_epoch["farandole.epoch"], of_epoch["farandole.size"], of_epoch["farandole.hosts"]) == (1, 2, 1)
    assert "left in order" in of_epoch["farandole.end_reason"], of_epoch
    assert [event.name for event in form.events] == ["farandole.worker.joined"] * 2
    assert form.end_time_unix_nano == epoch.start_time_unix_nano
    for step, checkpoint in enumerate(collector.named("checkpoint"), 1):
        of_checkpoint = attributes_of(checkpoint)
        assert checkpoint.parent_span_id == epoch.span_id
        assert of_checkpoint["farandole.checkpoint.name"] == "net", of_checkpoint
        assert of_checkpoint["farandole.checkpoint.step"] == step, of_checkpoint
        assert of_checkpoint["farandole.checkpoint.outcome"] == "written", of_checkpoint
        assert of_checkpoint["farandole.checkpoint.size_bytes"] == len("state"), of_checkpoint
    assert {resource["service.name"] for resource in collector.resources} == {"jobs"}
    assert {headers["X-Scope"] for headers in collector.headers} == {"vision/one"}
    await_count(coordinator, {"sent": len(spans), "refused": 0})


def test_a_killed_worker_is_an_error_of_epoch_and_run(
    serve: Callable[..., Coordinator], run_job: Callable[..., Program], collector: Collector
) -> None:
    # As OpenTelemetry's own programs are told.
    coordinator = serve(OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=f"{collector.url}/v1/traces")
    run = run_job(coordinator, "dies", 2, [], "stall")
    collector.await_spans("form", 1, START_SECONDS)
    os.kill(pid_of(coordinator, "dies", 1), signal.SIGKILL)
    assert run.end() != 0
    spans = collector.await_spans("run", 1, SOON_SECONDS)
    check_tree(spans, lambda span: not span.parent_span_id)
    root, epoch = collector.named("run")[0], collector.named("epoch")[0]
    for span in (root, epoch):
        assert span.status.code == ERROR and "rank 1 (worker" in span.status.message, span
    assert attributes_of(root)["farandole.state"] == "failed"
    assert attributes_of(epoch)["farandole.lost_ranks"] == [1]
    (lost,) = [event for event in epoch.events if event.name == "farandole.worker.lost"]
    assert attributes_of(lost)["farandole.rank"] == 1 and attributes_of(lost)["host.name"], lost
    assert {span.status.code for span in spans if span.name in ("launch", "form")} == {UNSET}


def test_an_elastic_run_has_an_epoch_after_each_loss(
    serve: Callable[..., Coordinator], run_job: Callable[..., Program], collector: Collector, tmp_path: pathlib.Path
) -> None:
    coordinator = serve(FARANDOLE_OTLP_ENDPOINT=collector.url)
    run = run_job(coordinator, "grows", 2, ["--min-np", "1", "--max-np", "2"], "shrink", tmp_path / "checkpoints")
    collector.await_spans("checkpoint", 1, START_SECONDS)
    (first,) = collector.named("form")
    os.kill(pid_of(coordinator, "grows", 1), signal.SIGKILL)
    collector.await_spans("form", 2, START_SECONDS)
    lost = collector.named("epoch")[0]
    assert lost.status.code == ERROR and attributes_of(lost)["farandole.epoch"] == 1
    assert attributes_of(lost)["farandole.lost_ranks"] == [1]
    again = collector.named("form")[1]
    assert again.start_time_unix_nano == lost.end_time_unix_nano and again.trace_id == first.trace_id
    assert attributes_of(again)["farandole.epoch"] == 2 and again.status.code == UNSET
    run.signal(signal.SIGTERM)
    run.end()


def test_the_trace_goes_on_when_the_coordinator_is_killed(
    serve: Callable[..., Coordinator],
    run_job: Callable[..., Program],
    collector: Collector,
    gate: Gate,
    tmp_path: pathlib.Path,
) -> None:
    coordinator = serve(FARANDOLE_OTLP_ENDPOINT=collector.url)
    run = run_job(coordinator, "goes-on", 2, [], "late", gate, tmp_path / "checkpoints", 1)
    run.expect("waits", START_SECONDS)
    collector.await_spans("form", 1, SOON_SECONDS)
    os.kill(coordinator.program.pid, signal.SIGKILL)
    coordinator.program.end()
    killed = time.time_ns()
    serve(again=coordinator, FARANDOLE_OTLP_ENDPOINT=collector.url)
    gate.let_through(2)
    run.require_end(0, START_SECONDS)
    spans = collector.await_spans("run", 1, SOON_SECONDS)
    check_tree(spans, lambda span: not span.parent_span_id)
    epoch, root = collector.named("epoch")[0], collector.named("run")[0]
    assert root.start_time_unix_nano < epoch.start_time_unix_nano < killed < epoch.end_time_unix_nano
    assert [event.name for event in epoch.events] == ["farandole.coordinator.restarted"]
    assert epoch.status.code == root.status.code == UNSET


@pytest.mark.parametrize("status", (0, 503))
def test_a_collector_that_does_not_take_spans_delays_nobody(
    status: int,
    serve: Callable[..., Coordinator],
    run_job: Callable[..., Program],
    collector: Collector,
    gate: Gate,
    tmp_path: pathlib.Path,
) -> None:
    collector.answer(status)
    coordinator = serve(FARANDOLE_OTLP_ENDPOINT=collector.url, OTEL_EXPORTER_OTLP_TIMEOUT="60000")
    run = run_job(coordinator, "patient", 2, [], "late", gate, tmp_path / "checkpoints", 3)
    run.expect("waits", START_SECONDS)
    begun = time.monotonic()
    gate.let_through(2)
    run.require_end(0)
    assert time.monotonic() - begun < SOON_SECONDS
    collector.await_request(SOON_SECONDS)
    if status != 0:
        coordinator.program.expect(f"spans for .* cannot be sent, and wait: .* status {status}", SOON_SECONDS)
    assert counted(coordinator).get("sent", 0) == 0
    collector.answer(200)
    spans = collector.await_spans("run", 1, AGAIN_SECONDS)
    check_tree(spans, lambda span: not span.parent_span_id)
    assert len(spans) == 7, [span.name for span in spans]
    assert counted(coordinator).get("dropped", 0) == 0


def test_spans_wait_for_a_collector_that_is_away(
    serve: Callable[..., Coordinator], run_job: Callable[..., Program], collector: Collector
) -> None:
    collector.close()
    coordinator = serve(FARANDOLE_OTLP_ENDPOINT=collector.url)
    run_job(coordinator, "early", 1, [], "leave").require_end(0)
    coordinator.program.expect("spans for .* cannot be sent, and wait: cannot reach", SOON_SECONDS)
    back = Collector(collector.port)
    try:
        check_tree(back.await_spans("run", 1, AGAIN_SECONDS), lambda span: not span.parent_span_id)
        coordinator.program.expect("spans are sent again", SOON_SECONDS)
    finally:
        back.close()


def test_a_collector_that_hangs_does_not_keep_the_coordinator_from_its_end(
    serve: Callable[..., Coordinator], run_job: Callable[..., Program], collector: Collector
) -> None:
    collector.answer(0)
    coordinator = serve(FARANDOLE_OTLP_ENDPOINT=collector.url)
    run_job(coordinator, "lost", 1, [], "leave").require_end(0)
    begun = time.monotonic()
    coordinator.program.signal(signal.SIGTERM)
    coordinator.program.require_end(0)
    took = time.monotonic() - begun
    assert took < 8, (
        f"2 s for the collector and 1 s for clients are to be enough, on a busy machine too; it took {took} s"
    )
    assert "not all could be sent" in coordinator.program.output


def test_the_last_spans_are_sent_before_the_coordinator_ends(
    serve: Callable[..., Coordinator], run_job: Callable[..., Program], collector: Collector
) -> None:
    coordinator = serve(FARANDOLE_OTLP_ENDPOINT=collector.url)
    run = run_job(coordinator, "quick", 1, [], "leave", TRACEPARENT="00-none")
    run.expect("TRACEPARENT='00-none' names no span, and is ignored")
    run.require_end(0)
    coordinator.program.signal(signal.SIGTERM)
    coordinator.program.require_end(0)
    check_tree(collector.await_spans("run", 1, 0), lambda span: not span.parent_span_id)


def test_the_receiver_takes_no_unknown_field() -> None:
    def body(**more: Any) -> bytes:
        span = {"traceId": "00" * 16, "spanId": "01" * 8, "startTimeUnixNano": "1", "endTimeUnixNano": "2", **more}
        return json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": [span]}]}]}).encode()

    made = Collector()
    try:
        headers = {"Content-Type": "application/json"}
        assert made.take("/v1/traces", headers, body()) == 200 and not made.wrong
        assert made.take("/v1/traces", headers, body(began="1")) == 400
        assert made.take("/v1/traces", headers, body(endTimeUnixNano=2)) == 400
        assert made.take("/v1/traces", headers, body(spanId="xy")) == 400
        assert made.take("/elsewhere", headers, body()) == 400
        assert len(made.wrong) == 4
    finally:
        made.close()
