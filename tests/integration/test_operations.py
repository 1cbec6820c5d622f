"""An operator sees a job that stalls, and acts on it: logs, job list, show and abort, the config file."""

import json
import pathlib
import re
from typing import Any, Callable, Dict, List

import harness
from coordinators import Coordinator
from gates import Gate
from programs_run import Program

STALL = r"tensor late .*missing is rank 1 \(last submitted before"


def run_job_command(start: Callable[..., Program], *arguments: str, code: int = 0, **environment: str) -> str:
    """The output of `farandole job`."""
    command = start(str(harness.CLI), "job", *arguments, **environment)
    command.require_end(code)
    return command.output


def log_records(output: str, prefix: str = "") -> List[Dict[str, Any]]:
    """The lines of JSON in an output, each of which has the fields that every line has."""
    lines = re.findall(rf"^{prefix}(\{{.*\}})$", output, re.MULTILINE)
    records = [json.loads(line) for line in lines]
    for record in records:
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", record["time"]), record
        assert record["level"] in ("info", "warning", "error") and record["sentence"], record
    return records


def test_a_stall_reaches_the_logs_and_job_show_and_an_abort_ends_it(
    start: Callable[..., Program], job: Callable[..., Program], gate: Gate, tmp_path: pathlib.Path
) -> None:
    state = tmp_path / "coordinator"
    config = tmp_path / "serve.yaml"
    config.write_text(
        f"listen: 127.0.0.1:0\nhttp: 127.0.0.1:1\nstate-dir: {state}\nlog-format: json\n", encoding="utf-8"
    )
    serve = start(str(harness.CLI), "serve", "--config", str(config), "--http", "127.0.0.1:0")
    coordinator = Coordinator(serve, state)
    options = ["--state-dir", str(state)]
    run = job(
        2,
        "late",
        gate,
        options=coordinator.options(),
        FARANDOLE_STALL_WARNING_MS="1000",
        FARANDOLE_LOG_FORMAT="json",
    )
    run.expect(rf"\[0\] .*{STALL}")
    serve.expect(STALL)
    said = [record for record in log_records(run.output, r"\[0\] ") if record["level"] == "warning"][0]
    assert said["job"] == "late" and said["rank"] == 0, said
    logged = [record for record in log_records(serve.output) if record["level"] == "warning"][0]
    assert logged["tenant"] == "default" and logged["job"] == "late", logged
    assert re.match(STALL, logged["sentence"]) and re.match(STALL, said["sentence"]), (logged, said)

    shown = json.loads(run_job_command(start, "show", "late", "--json", *options))
    assert shown["state"] == "running" and re.match(STALL, shown["last_stall"]), shown
    assert [worker["state"] for worker in shown["workers"]] == ["live", "live"], shown
    assert {worker["pid"] for worker in shown["workers"]} <= set(run.descendants()), shown
    text = run_job_command(start, "show", "late", *options)
    assert re.search(rf"^last stall   \d+ s ago: {STALL}", text, re.MULTILINE), text
    assert re.search(rf"^late stalled \d+ s ago: {STALL}", run_job_command(start, "list", *options), re.MULTILINE)

    unknown = run_job_command(start, "abort", "lat", "--reason", "enough of this", *options, code=1)
    assert "there is no job lat at" in unknown and "did you mean late?" in unknown, unknown
    assert "--reason" in run_job_command(start, "abort", "late", *options, code=2)
    run_job_command(start, "abort", "late", "--reason", "enough of this", *options)
    run.expect("an operator ended the job: enough of this")
    gate.let_through(1)
    assert run.end() != 0
    run.require_nothing_left()
    ended = json.loads(run_job_command(start, "show", "late", "--json", *options))
    assert ended["state"] == "failed" and "enough of this" in ended["reason"], ended


def test_a_job_without_a_coordinator_of_its_own_choice_is_found_from_a_second_terminal(
    start: Callable[..., Program], job: Callable[..., Program], gate: Gate, tmp_path: pathlib.Path
) -> None:
    home = {"XDG_STATE_HOME": str(tmp_path / "home")}
    run = job(2, "late", gate, FARANDOLE_STALL_WARNING_MS="1000", **home)
    run.expect(rf"\[0\] farandole: \S+Z warning job late rank 0: {STALL}")
    text = run_job_command(start, "show", "late", **home)
    assert re.search(r"^ +0 +\S+ +\d+ +\d+ +.* live( |$)", text, re.MULTILINE), text
    listed = json.loads(run_job_command(start, "list", "--json", **home))
    assert [(one["job"], one["state"]) for one in listed] == [("late", "running")], listed
    gate.let_through(1)
    run.require_end(0)
    # When all have ended, it is read from the disk.
    shown = json.loads(run_job_command(start, "show", "late", "--json", **home))
    assert shown["state"] == "finished" and "left in order" in shown["history"][-1]["sentence"], shown
    listed = json.loads(run_job_command(start, "list", "--json", **home))
    assert [(one["job"], one["state"]) for one in listed] == [("late", "finished")], listed


def test_a_wrong_config_file_is_told_with_line_and_key(start: Callable[..., Program], tmp_path: pathlib.Path) -> None:
    config = tmp_path / "serve.yaml"
    config.write_text("listen: 127.0.0.1:0\nheartbeat-interval: 5\n", encoding="utf-8")
    serve = start(str(harness.CLI), "serve", "--config", str(config))
    serve.require_end(2)
    sentence = "heartbeat-interval: no setting has this name; did you mean heartbeat-interval-ms?"
    assert serve.output == f"farandole serve: {config}:2: {sentence}\n"
    config.write_text("max-workers: 7\n", encoding="utf-8")
    printed = start(str(harness.CLI), "serve", "--config", str(config), "--print-config", FARANDOLE_MAX_SLOTS="2048")
    printed.require_end(0)
    assert f"max-workers: 7  # {config}\n" in printed.output, printed.output
    assert "max-slots: 2048  # FARANDOLE_MAX_SLOTS\n" in printed.output, printed.output
