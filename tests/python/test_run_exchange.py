"""The way of run()'s function and results between hosts, with strangers on it."""

import contextlib
import socket
import struct
import threading
import time
from multiprocessing import AuthenticationError
from typing import Any, Callable, List

import pytest
from farandole import _options, _run_peers
from farandole._run_exchange import Exchange, Result, deliver, fetch

unpickled: List[str] = []


def spring() -> None:
    """A trap calls this when it is unpickled."""
    unpickled.append("sprung")


class Trap:
    """Says so when it is unpickled."""

    def __reduce__(self) -> Any:
        return spring, ()


def read(peer: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        more = peer.recv(size - len(data))
        if not more:
            raise EOFError
        data += more
    return data


class Path:
    """Between a worker and the driver: messages pass as `change` gives them back."""

    def __init__(self, port: int, change: Callable[[bytes], bytes]) -> None:
        self._port = port
        self._change = change
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            worker, _ = self._listener.accept()
            driver = socket.create_connection(("127.0.0.1", self._port))
            for ends in ((worker, driver), (driver, worker)):
                threading.Thread(target=self._carry, args=ends, daemon=True).start()

    def _carry(self, source: socket.socket, target: socket.socket) -> None:
        try:
            while True:
                (size,) = struct.unpack("!i", read(source, 4))
                message = self._change(read(source, size))
                target.sendall(struct.pack("!i", len(message)) + message)
        except (EOFError, OSError):
            with contextlib.suppress(OSError):
                target.shutdown(socket.SHUT_RDWR)


@pytest.fixture(name="exchange")
def make_exchange() -> Any:
    """With a call that is a trap, for workers on other hosts."""
    unpickled.clear()
    with Exchange(Trap(), has_other_hosts=True) as exchange:
        yield exchange


def at(monkeypatch: pytest.MonkeyPatch, port: int, key: bytes) -> None:
    """This process is a worker that finds the driver there."""
    monkeypatch.setattr(_options, "run_rendezvous", lambda: (str(port), key))
    monkeypatch.setattr(_options, "coordinator_host", lambda: "127.0.0.1")


def flip_large(message: bytes) -> bytes:
    """Challenges and their answers are short."""
    return message[:-1] + bytes([message[-1] ^ 1]) if len(message) > 120 else message


def test_what_nobody_changes_arrives(exchange: Exchange, monkeypatch: pytest.MonkeyPatch) -> None:
    at(monkeypatch, Path(int(exchange.address), lambda message: message).port, exchange.key)
    assert fetch() is None and unpickled == ["sprung"]
    deliver(Result(3, "value" * 100))
    assert exchange.outcomes() == [Result(3, "value" * 100)]


def test_a_call_that_was_changed_is_not_unpickled(exchange: Exchange, monkeypatch: pytest.MonkeyPatch) -> None:
    at(monkeypatch, Path(int(exchange.address), flip_large).port, exchange.key)
    with pytest.raises(AuthenticationError, match="was changed on its way"):
        fetch()
    assert not unpickled


def test_an_outcome_that_was_changed_is_not_unpickled(exchange: Exchange, monkeypatch: pytest.MonkeyPatch) -> None:
    at(monkeypatch, Path(int(exchange.address), flip_large).port, exchange.key)
    with pytest.raises((EOFError, OSError)):
        deliver(Result(0, [Trap(), "x" * 200]))
    unpickled.clear()  # pickling asks the trap for its way
    assert exchange.outcomes() == [] and not unpickled


def test_silent_peers_hold_few_threads_and_keep_no_worker_out(
    exchange: Exchange, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = threading.active_count()
    silent = [socket.create_connection(("127.0.0.1", int(exchange.address))) for _ in range(200)]
    at(monkeypatch, int(exchange.address), exchange.key)
    deliver(Result(0, "value"))
    assert exchange.outcomes() == [Result(0, "value")]
    assert threading.active_count() - before <= _run_peers.MOST_SERVED + 8
    for peer in silent:
        peer.close()


def test_a_silent_peer_is_left_after_a_while(exchange: Exchange, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_run_peers, "PROOF_SECONDS", 1)
    with socket.create_connection(("127.0.0.1", int(exchange.address))) as silent:
        silent.settimeout(10)
        while silent.recv(4096):  # the challenge, and then the end
            pass


def test_a_peer_that_trickles_is_left_after_a_while(exchange: Exchange, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_run_peers, "PROOF_SECONDS", 1)
    begin = time.monotonic()
    with socket.create_connection(("127.0.0.1", int(exchange.address))) as slow:
        slow.sendall(struct.pack("!i", 200))
        slow.settimeout(0.2)
        is_open = True
        while is_open and time.monotonic() < begin + 20:
            try:
                is_open = slow.recv(4096) != b""
            except TimeoutError:
                with contextlib.suppress(OSError):
                    slow.send(b"x")
            except ConnectionError:
                is_open = False
    assert not is_open and time.monotonic() < begin + 10


def test_a_newcomer_takes_no_place_within_a_second(exchange: Exchange, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_run_peers, "PATIENCE_SECONDS", 3600)
    peers = [socket.create_connection(("127.0.0.1", int(exchange.address))) for _ in range(_run_peers.MOST_SERVED + 1)]
    *served, newcomer = peers
    for peer in peers:
        peer.settimeout(20)
    for peer in served:
        assert peer.recv(4096), "the challenge"
    newcomer.settimeout(0.5)
    with pytest.raises(TimeoutError):
        newcomer.recv(4096)
    served[0].settimeout(0.1)
    with pytest.raises(TimeoutError):
        served[0].recv(4096)
    # A place that is free goes to it.
    served[1].close()
    newcomer.settimeout(20)
    assert newcomer.recv(4096), "the challenge"
    for peer in peers:
        peer.close()


def test_a_crowd_of_one_address_keeps_no_worker_of_another_out(
    exchange: Exchange, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_run_peers, "PATIENCE_SECONDS", 3)
    where = ("127.0.0.1", int(exchange.address))
    crowd = [socket.create_connection(where, source_address=("127.0.0.2", 0)) for _ in range(300)]
    at(monkeypatch, int(exchange.address), exchange.key)
    begin = time.monotonic()
    deliver(Result(0, "value"))
    assert exchange.outcomes() == [Result(0, "value")]
    assert time.monotonic() < begin + 9, "it has waited behind the crowd, of which 64 go in 3 s"
    for peer in crowd:
        peer.close()
