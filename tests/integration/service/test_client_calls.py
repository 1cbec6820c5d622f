"""The clients' calls about quotas, timelines and what ranks do, with real coordinators and jobs; each test has the rows of
test_clients.py."""

import json
import os
import pathlib
import signal
import time
from typing import Any, Callable, Dict

import harness
import pytest
from coordinators import Coordinator
from programs_run import START_SECONDS, Program
from test_clients import ROWS, Row, Tool, walk
from test_job_timeline import timeline

MISSING = "has not submitted allreduce 'grad.18', for which ranks 0,1 wait"


@pytest.fixture(name="tool", params=ROWS, ids=str)
def make_tool(request: pytest.FixtureRequest, start: Callable[..., Program], serve: Callable[..., Coordinator]) -> Tool:
    row: Row = request.param
    return Tool(row, start, serve())


def quota_of(row: Dict[str, Any]) -> "list[Any]":
    return [row[name] for name in ("max_jobs", "max_workers", "cohort", "weight", "borrow", "max_store_bytes")]


def test_a_quota_is_set_part_by_part(tool: Tool) -> None:
    admin = ("--token", tool.result("create-tenant", "vision"))
    first = tool.result("set-quota", "vision", "cohort=research", "weight=3", "borrow=5")
    assert (first["name"], quota_of(first)) == ("vision", [2, 8, "research", 3, 5, 1 << 30]), first
    second = tool.result("set-quota", "vision", "max_jobs=7", "max_workers=9", f"max_store_bytes={5 << 32}")
    assert quota_of(second) == [7, 9, "research", 3, 5, 5 << 32], "it has left the others as they are"
    # Zeros and an empty text are sent, too.
    third = tool.result("set-quota", "vision", "cohort=", "max_jobs=0", "borrow=0", "max_store_bytes=0")
    assert quota_of(third) == [64, 9, "", 3, 0, 1 << 30], third
    (seen,) = tool.result(*admin, "tenants")
    assert (
        seen["name"] == "vision"
        and quota_of(seen) == quota_of(third)
        and seen["tokens"] == 1
        and seen["created_ms"] > 0
    )
    assert [row["name"] for row in tool.result("tenants")] == ["default", "vision"]
    assert "refused to set the quota of tenant vision" in tool.refused(
        "PermissionError", *admin, "set-quota", "vision", "max_jobs=9"
    )
    assert "nobody" in tool.refused("LookupError", "set-quota", "nobody", "max_jobs=9")
    assert "weight" in tool.refused("InvalidRequest", "set-quota", "vision", "weight=1001")


def test_a_tenants_use_of_its_quota_is_told(tool: Tool, tmp_path: pathlib.Path) -> None:
    token = tool.result("create-tenant", "vision")
    (tmp_path / "token").write_text(token)
    options = ["--coordinator", tool.coordinator.address, "--token-file", str(tmp_path / "token")]
    run = [str(harness.CLI), "run", *options]
    first = tool.start(*run, "-np", "8", "--job", "first", "sh", "-c", "echo runs; exec sleep 600")
    first.expect(r"\[7\] runs")
    second = tool.start(*run, "-np", "2", "--job", "second", "echo", "started")
    second.expect("farandole: job 'second' waits in the queue")
    (seen,) = tool.result("--token", token, "tenants")
    use = [seen[name] for name in ("jobs", "workers", "queued_jobs", "queued_workers")]
    assert use == [1, 8, 1, 2], seen
    for program in (second, first):
        program.signal(signal.SIGINT)
        program.end()


def test_tenants_are_walked_page_by_page(tool: Tool, tmp_path: pathlib.Path) -> None:
    for name in ("b", "a", "c"):
        tool.lines("create-tenant", name)

    def meanwhile() -> None:
        tool.lines("create-tenant", "e")

    assert walk(tool, tmp_path / "gate", "tenants", meanwhile) == ["a", "b", "c", "default", "e"]


def test_a_timeline_is_recorded_and_read(tool: Tool, job: Callable[..., Program], tmp_path: pathlib.Path) -> None:
    run = job(3, "stepping", tmp_path, options=tool.coordinator.options("--job", "steps"))
    run.expect("process", START_SECONDS)
    file = tmp_path / "trace.json"
    assert "has recorded no timeline" in tool.refused("LookupError", "timeline", "steps", file)
    assert "refused to stop a timeline of job steps" in tool.refused("NotReady", "stop-timeline", "steps")
    assert "timeline 1 of job steps begins" in tool.result("start-timeline", "steps", "cycles")
    assert "refused to start a timeline of job steps" in tool.refused("NotReady", "start-timeline", "steps")
    for _ in range(START_SECONDS):
        found = tool.result("timeline", "steps", file)
        if found["ranks"] == [0, 1, 2] and found["events"] > 1000:
            break
    assert (found["recording"], found["is_on"], found["ranks"], len(found["hosts"])) == (1, True, [0, 1, 2], 1), found
    assert found["started_ms"] > 0 and found["dropped"] == found["forgotten"] == 0
    assert "timeline 1 of job steps has ended" in tool.result("stop-timeline", "steps")
    found = tool.result("timeline", "steps", file)
    assert not found["is_on"] and found["numbers"] == sorted(set(found["numbers"]))
    (tmp_path / "stop").touch()
    run.require_end(0)
    # It is what the command writes; the C++ client has no zlib, so it gives the events packed.
    command = tmp_path / "command.json"
    told = timeline(tool.coordinator, "get", "steps", "-o", str(command))
    assert f"{found['events']} events of 3 ranks on 1 host" in told, told
    if file.exists():
        assert file.read_bytes() == command.read_bytes()
        names = {event["name"] for event in json.loads(file.read_text())["traceEvents"]}
        assert {"NEGOTIATE_ALLREDUCE", "ALLREDUCE", "CYCLE_START"} <= names, names
    assert "nowhere" in tool.refused("LookupError", "start-timeline", "nowhere")


def test_the_ranks_tell_who_waits_for_whom_and_where(tool: Tool, job: Callable[..., Program]) -> None:
    run = job(3, "stuck", "sleep", options=tool.coordinator.options("--job", "net"))
    run.expect("stuck", START_SECONDS)
    deadline = time.monotonic() + START_SECONDS
    # One rank says that it is stuck; another one may be on its way into the wait.
    while len((found := tool.result("diagnose", "net"))["stacks"]) != 2 and time.monotonic() < deadline:
        assert run.is_running(), run.output
    assert MISSING in found["sentence"] and (found["epoch"], found["size"], found["stalled_ms"]) == (1, 3, 0), found
    assert found["waits"] == [["grad.18", "allreduce", 0, 21, [0, 1], [2], True]], found["waits"]
    most, outlier = found["stacks"]
    assert most[:2] == [[0, 1], True] and outlier[:2] == [[2], False], found["stacks"]
    assert any("load_batch" in function for function in outlier[2]), outlier
    pids = [worker["pid"] for worker in tool.result("job", "net")["workers"]]
    assert [rank["last"][:-1] for rank in found["ranks"]] == [
        [0, 3, pids[0], "grad.18", "submitted", "allreduce", "float32", 32768, 21],
        [1, 3, pids[1], "grad.18", "submitted", "allreduce", "float32", 32768, 21],
        [2, 3, pids[2], "grad.17", "finished", "allreduce", "float32", 32768, 21],
    ]
    for rank in found["ranks"]:
        assert ["MainThread", True] in rank["threads"] and rank["kernel_threads"] > 0 and rank["silence"] == "", rank
        assert any(setting.startswith("FARANDOLE_") for setting in rank["settings"]), rank["settings"]
    assert "refused to diagnose job net" in tool.refused("LookupError", "diagnose", "net", "last-stall")
    os.kill(pids[2], signal.SIGSTOP)
    # For 4 s those who ask for stacks are given the answer above.
    assert tool.result("diagnose", "net")["ranks"] == found["ranks"]
    brief = tool.result("diagnose", "net", "no-stacks")
    assert brief["stacks"] == [] and brief["sentence"] != "" and len(brief["ranks"]) == 3
    assert brief["ranks"][2]["silence"] != "" and brief["ranks"][2]["last"] is None, brief["ranks"][2]
    os.kill(pids[2], signal.SIGCONT)
    run.signal(signal.SIGINT)
    run.end()


def test_the_answers_to_the_coordinators_own_question_are_kept(tool: Tool, job: Callable[..., Program]) -> None:
    options = tool.coordinator.options("--job", "net")
    run = job(3, "stuck", "sleep", options=options, FARANDOLE_STALL_WARNING_MS="500")
    run.expect("stuck", START_SECONDS)
    while True:
        asked = tool.begin("diagnose", "net", "last-stall")
        if asked.end() == 0:
            break
        assert run.is_running() and "has not stalled" in asked.output, asked.output
    found = json.loads(asked.output)
    assert MISSING in found["sentence"] and found["stalled_ms"] > 0, found
    run.signal(signal.SIGINT)
    run.end()
