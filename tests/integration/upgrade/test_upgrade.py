"""A coordinator of this version takes over from an earlier one, whose workers are still there: their job goes on."""

import pathlib
import subprocess
import tarfile
from typing import Callable, Dict

import grpc
import harness
import pytest
import tape
from coordinators import Coordinator

TAPES = pathlib.Path(__file__).parent / "tapes"
JOB = "upgraded"
SECONDS = 30.0
ATTACH = "/farandole.v1.WorkerService/Attach"
# Fields of CoordinatorMessage that come when they come: stalls, questions, and wishes of others.
PASSING = (6, 7, 8, 9, 10, 64)


def kind(message: bytes) -> int:
    """The number of the first field, which of a stream's messages is the only one."""
    number, shift = 0, 0
    for byte in message:
        number |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            break
    return number >> 3


def answer(call: tape.Replayed, recorded: tape.Line) -> None:
    """Waits for what the recorded coordinator has answered here."""
    while True:
        got = call.get(SECONDS)
        assert isinstance(got, bytes), f"{call.method} ended instead of answering: {got}"
        if call.method != ATTACH or kind(got) == kind(recorded.message):
            return
        assert kind(got) in PASSING, f"{call.method}: got {got!r}, recorded is {recorded.message!r}"


def end(call: tape.Replayed, recorded: tape.Line) -> None:
    """The call ends as it did."""
    call.close()
    while isinstance(got := call.get(SECONDS), bytes):
        assert call.method == ATTACH and kind(got) in PASSING, f"{call.method}: one more answer, {got!r}"
    code = got.code() if isinstance(got, grpc.RpcError) else got
    assert code.name == recorded.data, f"{call.method} ended with {got}, and with {recorded.data} when it was recorded"


def replay(address: str, lines: "list[tape.Line]") -> None:
    """Makes the recorded calls, in their order, but for those that no coordinator heard."""
    unheard = {line.call for line in lines if line.what == "end" and line.data == "UNAVAILABLE"}
    calls: Dict[int, tape.Replayed] = {}
    with grpc.insecure_channel(address) as channel:
        for line in lines:
            if line.call in unheard:
                continue
            if line.what == "begin":
                calls[line.call] = tape.Replayed(channel, line.data, line.metadata)
                continue
            call = calls[line.call]
            if line.what == "sent":
                call.send(line.message)
                if call.method != ATTACH:
                    call.close()
            elif line.what == "got":
                answer(call, line)
            else:
                end(call, line)


@pytest.mark.parametrize("version", sorted(path.name for path in TAPES.iterdir()))
def test_workers_of_an_earlier_version_go_on(
    version: str, serve: Callable[..., Coordinator], tmp_path: pathlib.Path
) -> None:
    state = tmp_path / "coordinator"
    state.mkdir(mode=0o700)
    with tarfile.open(TAPES / version / "state.tar.gz") as packed:
        packed.extractall(state)
    for folder in state.rglob("*/"):
        folder.chmod(0o700)
    coordinator = serve()
    lines = tape.read(TAPES / version / "calls.jsonl")
    assert sum(line.what == "begin" and line.data == ATTACH for line in lines) >= 3
    replay(coordinator.address, lines)
    coordinator.program.expect("everybody is back after the coordinator's restart: 3 members")
    coordinator.program.expect(r"checkpoint written: net at step 7")
    coordinator.program.expect("all 3 workers of epoch 1 left in order")

    def ask(*words: str) -> str:
        command = [str(harness.CLI), *words, *coordinator.options()]
        return subprocess.run(command, check=True, capture_output=True, text=True, timeout=60).stdout

    assert "finished" in ask("job", "list")
    assert "/tmp/farandole-tape/checkpoints/" in ask("checkpoint", "list", "--job", JOB)
