"""The control plane's clients, with real coordinators and jobs. Each test has a row for each language whose client stands
on the worker library; tests/go/client has that of Go."""

import hashlib
import json
import os
import pathlib
import signal
import subprocess
import sys
from typing import Any, Callable, Dict, List, NamedTuple

import harness
import pytest
from coordinators import Coordinator
from gates import Gate
from impostors import NAMED, Impostor
from programs_run import START_SECONDS, Program
from test_tls import make_certificate

PROGRAMS = pathlib.Path(__file__).parent / "programs"
# The codes of docs/errors.md, and the exceptions that stand for them in Python.
CODES = {
    "InvalidRequest": 3,
    "LookupError": 5,
    "FileNotFoundError": 5,  # of a file that Python reads itself
    "FileExistsError": 6,
    "PermissionError": (7, 16),
    "NotReady": 9,
    "ConnectionError": 14,
}


class Row(NamedTuple):
    """One client."""

    name: str
    command: List[str]

    def __str__(self) -> str:
        return self.name


ROWS = (
    Row("python", [sys.executable, str(PROGRAMS / "client_tool.py")]),
    Row("cpp", [str(harness.ROOT / ".venv/lib/cpp/client_tool")]),
)


@pytest.fixture(params=ROWS, ids=str)
def row(request: pytest.FixtureRequest) -> Row:
    return request.param


class Tool:
    """A client's program for one coordinator."""

    def __init__(self, row: Row, start: Callable[..., Program], coordinator: Coordinator) -> None:
        self.row, self.start = row, start
        self.coordinator = coordinator
        self.environment: Dict[str, str] = {
            "FARANDOLE_COORDINATOR": coordinator.address,
            "FARANDOLE_TOKEN_FILE": coordinator.token_file,
        }

    def begin(self, *words: object) -> Program:
        return self.start(*self.row.command, *map(str, words), **self.environment)

    def lines(self, *words: object) -> List[Any]:
        """The results of a call that goes well."""
        program = self.begin(*words)
        program.require_end(0)
        return [json.loads(line) for line in program.output.splitlines()]

    def result(self, *words: object) -> Any:
        (found,) = self.lines(*words)
        return found

    def refused(self, kind: str, *words: object) -> str:
        """The sentence of a call that ends with an error of this kind."""
        program = self.begin(*words)
        program.require_end(1)
        told = json.loads(program.output)
        codes = CODES[kind]
        is_so = (
            kind in told["error"]
            if self.row.name == "python"
            else told["error"] in (codes if isinstance(codes, tuple) else (codes,))
        )
        assert is_so, told
        return told["sentence"]


@pytest.fixture
def tool(row: Row, start: Callable[..., Program], serve: Callable[..., Coordinator]) -> Tool:
    return Tool(row, start, serve())


def run_job(tool: Tool, name: str, *words: str, options: "tuple[str, ...]" = ()) -> Program:
    """A job of two ranks of programs/client_job.py."""
    command = [str(harness.CLI), "run", "-np", "2", "--attach", "--job", name, *tool.coordinator.options(*options)]
    worker = [sys.executable, str(PROGRAMS / "client_job.py"), *words]
    return tool.start(*command, *worker, FARANDOLE_STALL_WARNING_MS="200")


def watched(program: Program, is_so: Callable[[Dict[str, Any]], bool], since: int = 0) -> Dict[str, Any]:
    """The first line of a watch, from the number `since` on, that is as is asked for."""
    seen = since
    for _ in range(3000):
        lines = program.output.split("\n")[:-1]
        for line in lines[seen:]:
            if is_so(json.loads(line)):
                return json.loads(line)
        seen = max(seen, len(lines))
        assert program.is_running(), program.output
        program.await_output(1)
    raise AssertionError(f"it never came: {program.output[-3000:]}")


def test_a_watch_sees_the_blocker_a_restart_and_the_end(
    tool: Tool, serve: Callable[..., Coordinator], tmp_path: pathlib.Path
) -> None:
    job = run_job(tool, "mnist", "stall")
    watch = tool.begin("watch", "mnist")
    stalled = watched(watch, lambda told: told["job"]["last_stall"] != "")
    summary = stalled["job"]
    assert "late" in summary["blocker"] and summary["state"] == "running" and summary["has_stall_time"], summary
    assert summary["size"] == summary["wanted_size"] == 2 and summary["elastic"] is None and summary["epoch"] == 1
    (listed,) = tool.result("jobs")
    assert (listed["name"], listed["tenant"], listed["created_ms"]) == ("mnist", "default", summary["created_ms"])
    shown = tool.result("job", "mnist")
    assert [worker["rank"] for worker in shown["workers"]] == [0, 1]
    assert all(worker["state"] == "live" and worker["is_fresh"] for worker in shown["workers"]), shown
    command = [str(harness.CLI), "job", "show", "mnist", "--json", *tool.coordinator.options()]
    by_command = json.loads(subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout)
    # It may have grown.
    told = [entry["sentence"] for entry in by_command["history"]]
    assert [entry["sentence"] for entry in shown["history"]] == told[: len(shown["history"])]
    assert [worker["pid"] for worker in by_command["workers"]] == [worker["pid"] for worker in shown["workers"]]
    assert tool.result("checkpoints", "mnist") == []
    told = tool.refused("NotReady", "drain-rank", "mnist", "1", "a test")
    assert f"coordinator {tool.coordinator.address} refused to drain workers of job mnist: " in told

    seen = watch.output.count("\n")
    os.kill(tool.coordinator.program.pid, signal.SIGKILL)
    tool.coordinator.program.end()
    serve(again=tool.coordinator)
    assert "end it" in tool.refused("NotReady", "delete", "mnist")
    assert tool.lines("abort", "mnist", "the test has seen enough") == []
    ended = watched(watch, lambda told: told["job"]["has_ended"], since=seen)
    assert ended["job"]["state"] == "failed" and "the test has seen enough" in ended["job"]["reason"], ended
    watch.require_end(0)
    assert job.end() != 0
    assert tool.lines("delete", "mnist") == []
    assert tool.result("jobs") == []
    assert "mnist" in tool.refused("LookupError", "delete", "mnist")


def test_a_drained_rank_leaves_and_the_catalogue_has_the_checkpoint(tool: Tool, tmp_path: pathlib.Path) -> None:
    job = run_job(tool, "net", "shrink", str(tmp_path), options=("--min-np", "1", "--max-np", "2"))
    watch = tool.begin("watch", "net")
    formed = watched(watch, lambda told: told["job"]["state"] == "running" and told["job"]["size"] == 2)
    assert formed["job"]["elastic"][:2] == [1, 2]
    first, second = formed["workers"]
    assert first["pid"] != second["pid"] and first["incarnation"] != second["incarnation"]
    assert "nowhere" in tool.refused("LookupError", "drain-host", "net", "nowhere", "a test")
    assert tool.result("drain-rank", "net", "1", "the test wants its place") == [1]
    ended = watched(watch, lambda told: told["job"]["has_ended"])
    assert ended["job"]["state"] == "finished" and ended["job"]["size"] == 1, ended
    assert ended["job"]["epoch"] > formed["job"]["epoch"] and ended["job"]["elastic"][2] == 0
    assert any("the test wants its place" in entry["sentence"] for entry in ended["history"]), ended["history"]
    (row,) = tool.result("checkpoints", "net")
    content = pathlib.Path(row["path"]).read_bytes()
    assert (row["name"], row["step"], row["rank"], row["size_bytes"]) == ("net", 7, 0, len(content))
    assert row["sha256"] == hashlib.sha256(content).hexdigest() and row["fencing_token"] > 0 and row["committed_ms"] > 0
    job.require_end(0)
    watch.require_end(0)


def test_a_job_is_asked_for_a_checkpoint(tool: Tool, tmp_path: pathlib.Path) -> None:
    job = run_job(tool, "net", "asked", str(tmp_path))
    watch = tool.begin("watch", "net")
    running = watched(watch, lambda told: told["job"]["state"] == "running")
    assert running["checkpoint_request"] is None, running
    asked = tool.result("request-checkpoint", "net")
    assert (asked["number"], asked["times"], asked["is_pending"], asked["checkpoint"]) == (1, 1, True, None), asked
    assert asked["asker"].startswith("token ") and asked["since_ms"] >= running["job"]["created_ms"], asked
    ended = watched(watch, lambda told: told["job"]["has_ended"])
    (row,) = tool.result("checkpoints", "net")
    over = ended["checkpoint_request"]
    assert (over["number"], over["is_pending"], over["is_told"], over["checkpoint"]) == (1, False, True, row), over
    assert over["failure"] == "", over
    assert "refused to ask job net for a checkpoint" in tool.refused("NotReady", "request-checkpoint", "net")
    assert "nowhere" in tool.refused("LookupError", "request-checkpoint", "nowhere")
    job.require_end(0)
    watch.require_end(0)


def test_a_tenant_sees_its_jobs_only(tool: Tool) -> None:
    token = tool.result("create-tenant", "vision")
    assert "vision" in tool.refused("FileExistsError", "create-tenant", "vision")
    assert "Vision!" in tool.refused("InvalidRequest", "create-tenant", "Vision!")
    own = ("--token", token)
    assert tool.result(*own, "jobs") == []
    assert "refused to end job mnist" in tool.refused("LookupError", *own, "abort", "mnist", "no")
    assert "default" in tool.refused("PermissionError", *own, "job", "mnist", "default")
    assert "refused to show job mnist" in tool.refused("LookupError", *own, "job", "mnist")
    assert "rank -1 of job mnist" in tool.refused("InvalidRequest", "drain-rank", "mnist", "-1", "no")


def test_a_job_in_the_queue_has_its_place(tool: Tool, gate: Gate, tmp_path: pathlib.Path) -> None:
    token = tool.result("create-tenant", "vision")
    (tmp_path / "token").write_text(token)
    options = ["--coordinator", tool.coordinator.address, "--token-file", str(tmp_path / "token")]
    run = [str(harness.CLI), "run", *options]
    first = tool.start(*run, "-np", "8", "--job", "first", "sh", "-c", f"echo runs; head -c 1 <{gate} >/dev/null")
    first.expect(r"\[7\] runs")
    second = tool.start(*run, "-np", "2", "--job", "second", "echo", "started")
    second.expect("farandole: job 'second' waits in the queue")
    own = ("--token", token)
    job = tool.result(*own, "job", "second")["job"]
    reason = "it wants 2 workers, tenant vision has 8 in its other jobs, and its quota is 8"
    assert job["state"] == "queued" and job["queue"] == [1, 1, reason] and not job["has_ended"]
    assert job["blocker"] == f"place 1 of 1 in the queue: {reason}"
    assert [each["name"] for each in tool.result(*own, "jobs")] == ["second"]
    tool.lines(*own, "abort", "second", "not today")
    second.require_end(1)
    assert "an operator ended the job: not today" in second.output and "started" not in second.output
    gate.let_through(8)
    first.require_end(0)


def test_tokens_are_made_rotated_and_revoked(tool: Tool) -> None:
    admin = ("--token", tool.result("create-tenant", "vision"))
    text, token = tool.result(*admin, "create-token", "viewer", "", "a page", "3600")
    viewer = ("--token", text)
    assert tool.result(*viewer, "jobs") == []
    assert "may not manage tokens" in tool.refused("PermissionError", *viewer, "tokens")
    assert "of the role root" in tool.refused("PermissionError", *admin, "create-token", "root", "", "", "0")
    fresh = tool.result(*admin, "rotate-token", token, "60")
    assert fresh != text and tool.result(*viewer, "jobs") == [], "in the overlap both are good"
    assert tool.result(*admin, "revoke-token", token, "") == 1
    for each in (text, fresh):
        assert "was revoked" in tool.refused("PermissionError", "--token", each, "jobs")
    listed = tool.result(*admin, "tokens")
    assert [row[1:] for row in listed] == [["admin", "first token", False], ["viewer", "a page", True]]
    assert listed[1][0] == token


def test_tokens_are_read_for_each_call_and_named_in_errors(tool: Tool, tmp_path: pathlib.Path) -> None:
    path, address = tmp_path / "token", tool.coordinator.address
    tool.environment["FARANDOLE_TOKEN_FILE"] = str(path)
    assert str(path) in tool.refused("FileNotFoundError", "jobs")
    path.write_text("wrong")
    assert f"coordinator {address} refused the token in {path}: " in tool.refused("PermissionError", "jobs")
    path.write_text(" \n")
    assert "is empty" in tool.refused("PermissionError", "jobs")
    path.write_text("two\nlines")
    assert "has the byte 0x0a at position 3" in tool.refused("InvalidRequest", "jobs")
    path.write_text(pathlib.Path(tool.coordinator.token_file).read_text() + "\n")
    assert tool.result("jobs") == []
    assert "wants a token, and none was given" in tool.refused("PermissionError", "--token", "none", "jobs")


def test_calls_wait_for_a_coordinator_as_long_as_they_are_told(tool: Tool, serve: Callable[..., Coordinator]) -> None:
    address = tool.coordinator.address
    os.kill(tool.coordinator.program.pid, signal.SIGKILL)
    tool.coordinator.program.end()
    told = tool.refused("ConnectionError", "--patience", "0", "jobs")
    assert told == f"coordinator {address} is unreachable: Connection refused"
    waiting = tool.begin("--patience", "60000", "jobs")
    assert waiting.is_running()
    serve(again=tool.coordinator)
    waiting.require_end(0)
    assert json.loads(waiting.output) == []


def test_a_signal_ends_a_call_to_a_coordinator_that_hangs(tool: Tool) -> None:
    os.kill(tool.coordinator.program.pid, signal.SIGSTOP)
    try:
        # It is in the call when its connection is there.
        waiting = tool.begin("--patience", "60000", "jobs")
        port = int(tool.coordinator.address.rpartition(":")[2])
        while f":{port:04X} " not in pathlib.Path("/proc/net/tcp").read_text() or not _is_connected(port):
            assert waiting.is_running(), waiting.output
            waiting.await_output(0.05)
        waiting.signal(signal.SIGINT)
        waiting.require_end(1)
        told = json.loads(waiting.output)
        if tool.row.name == "python":
            assert told["error"] == "KeyboardInterrupt"
        else:
            assert "was given up before it answered" in told["sentence"]
    finally:
        os.kill(tool.coordinator.program.pid, signal.SIGCONT)


def _is_connected(port: int) -> bool:
    """Whether there is a connection to this port of this host."""
    for line in pathlib.Path("/proc/net/tcp").read_text().splitlines()[1:]:
        _, _, remote, state = line.split()[:4]
        if remote.endswith(f":{port:04X}") and state == "01":
            return True
    return False


def test_tls_proves_the_coordinator_or_says_why_not(
    row: Row, start: Callable[..., Program], tmp_path: pathlib.Path
) -> None:
    options = make_certificate(tmp_path / "good")
    make_certificate(tmp_path / "other")
    state, certificate = tmp_path / "state", str(tmp_path / "good/cert.pem")
    command = [str(harness.CLI), "serve", "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0", "--state-dir", str(state)]
    tool = Tool(row, start, Coordinator(start(*command, *options), state))
    address = tool.coordinator.address
    told = tool.refused("PermissionError", "jobs")
    assert f"coordinator {address} speaks TLS, and no CA file was given" in told
    tool.environment["FARANDOLE_CA_FILE"] = certificate
    assert tool.result("jobs") == []
    told = tool.refused("PermissionError", "--server-name", "elsewhere", "jobs")
    assert f"coordinator {address} has a certificate for localhost, 127.0.0.1, not for 'elsewhere'" in told
    assert tool.result("--server-name", "localhost", "jobs") == []
    told = tool.refused("InvalidRequest", "--cert", certificate, "jobs")
    assert "needs its key" in told and certificate in told
    key = str(tmp_path / "good/key.pem")
    assert tool.result("--cert", certificate, "--key", key, "jobs") == []
    tool.environment["FARANDOLE_CA_FILE"] = str(tmp_path / "other/cert.pem")
    told = tool.refused("PermissionError", "jobs")
    assert "descends from no authority in" in told and "other/cert.pem" in told
    tool.environment["FARANDOLE_CA_FILE"] = str(tmp_path / "nowhere.pem")
    assert "nowhere.pem" in tool.refused("LookupError", "jobs")
    del tool.environment["FARANDOLE_CA_FILE"]
    tool.environment["FARANDOLE_COORDINATOR"] = "10.1.2.3:7070"
    told = tool.refused("InvalidRequest", "jobs")
    assert "10.1.2.3:7070 is not on this host" in told and "the token would travel in the clear" in told


def test_another_users_program_on_the_port_gets_no_call(tool: Tool) -> None:
    impostor = Impostor(tool.start)
    tool.environment["FARANDOLE_COORDINATOR"] = impostor.address
    told = tool.refused("ConnectionError", "jobs")
    assert f"port {impostor.port} of this host {NAMED}, not of root" in told
    impostor.require_nothing_but_a_greeting()


def test_the_price_of_tensors_is_told_while_a_job_runs_and_when_it_is_over(tool: Tool, tmp_path: pathlib.Path) -> None:
    assert "has no job net" in tool.refused("LookupError", "collectives", "net")
    command = [str(harness.CLI), "run", "-np", "2", "--job", "net", *tool.coordinator.options()]
    job = tool.start(*command, sys.executable, str(PROGRAMS / "tensors.py"), str(tmp_path))
    job.expect("steps", START_SECONDS)
    told = tool.result("collectives", "net")
    assert (told["epoch"], told["size"], told["answered"], told["silent"]) == (1, 2, 2, []) and not told["is_over"], (
        told
    )
    names = {name: row for name, *row in told["costs"]}
    assert set(names) == {"late", "large", "small"} and told["found"] == 3, told
    operation, size_bytes, count, waits, has_part, last, least = names["late"]
    # Rank 0 may be among the last too: a busy machine holds it up now and then, but less often than rank 1.
    assert (operation, size_bytes, waits, has_part, last[0], least) == ("allreduce", 4, True, True, [1, True], 1), told
    assert count >= 5 and names["large"][1] == 4 << 20, told
    (tmp_path / "stop").touch()
    job.require_end(0)
    after = tool.result("collectives", "net")
    assert after["is_over"] and after["answered"] == 2 and after["asked_ms"] >= told["asked_ms"] > 0, after


def finish(tool: Tool, *names: str) -> None:
    """Ended jobs of one rank, one after the other."""
    for name in names:
        command = [str(harness.CLI), "run", "-np", "1", "--job", name, *tool.coordinator.options()]
        tool.start(*command, sys.executable, str(PROGRAMS / "client_job.py"), "leave").require_end(0)


def walk(tool: Tool, gate: pathlib.Path, kind: str, meanwhile: Callable[[], None], *name: str) -> List[Any]:
    """The rows of a list in pages of two; `meanwhile` is called when the first page is there and no other one."""
    os.mkfifo(gate)
    program = tool.begin("walk", kind, 2, gate, *name)
    while len(program.output.splitlines()) < 2:
        assert program.is_running(), program.output
        program.await_output(1)
    meanwhile()
    gate.write_text("", encoding="utf-8")
    program.require_end(0)
    return [json.loads(line) for line in program.output.splitlines()]


def test_jobs_are_walked_page_by_page_while_some_appear_and_vanish(tool: Tool, tmp_path: pathlib.Path) -> None:
    finish(tool, "one", "two", "three", "four", "five")

    def meanwhile() -> None:
        for name in ("four", "three"):
            tool.lines("delete", name)
        finish(tool, "six")

    assert walk(tool, tmp_path / "gate", "jobs", meanwhile) == ["five", "four", "two", "one"]
    assert [job["name"] for job in tool.result("jobs")] == ["six", "five", "two", "one"]


def test_checkpoints_are_walked_page_by_page_and_a_deleted_one_leaves_its_file(
    tool: Tool, tmp_path: pathlib.Path
) -> None:
    folder = tmp_path / "kept"
    steps = [str(step) for step in range(1, 6)]
    command = [str(harness.CLI), "run", "-np", "1", "--job", "net", *tool.coordinator.options()]
    job = tool.start(*command, sys.executable, str(PROGRAMS / "client_job.py"), "save", str(folder), *steps)
    while not list(folder.glob("*5*.txt")) or len(tool.result("checkpoints", "net")) < 5:
        assert job.is_running(), job.output
    deleted: List[Dict[str, Any]] = []

    def meanwhile() -> None:
        deleted.extend(tool.result("delete-checkpoint", "net", "net", step) for step in (2, 3))

    assert walk(tool, tmp_path / "gate", "checkpoints", meanwhile, "net") == [1, 2, 4, 5]
    assert [row["step"] for row in deleted] == [2, 3]
    for row in deleted:
        assert hashlib.sha256(pathlib.Path(row["path"]).read_bytes()).hexdigest() == row["sha256"]
    assert [row["step"] for row in tool.result("checkpoints", "net")] == [1, 4, 5]
    told = tool.refused("LookupError", "delete-checkpoint", "net", "net", 2)
    assert "the job has no checkpoint net at step 2" in told


def test_tokens_are_walked_page_by_page(tool: Tool, tmp_path: pathlib.Path) -> None:
    for label in ("a", "b", "c"):
        tool.lines("create-token", "viewer", "", label, 60)

    def meanwhile() -> None:
        tool.lines("create-token", "viewer", "", "d", 60)

    assert walk(tool, tmp_path / "gate", "tokens", meanwhile) == ["start token", "a", "b", "c", "d"]
