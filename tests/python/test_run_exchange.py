"""The way of run()'s function and results between hosts, with strangers on it."""

import concurrent.futures
import contextlib
import hmac
import multiprocessing
import os
import pickle
import socket
import struct
import subprocess
import sys
import threading
import time
from multiprocessing import AuthenticationError
from multiprocessing.connection import Connection
from typing import Any, Callable, List, Tuple

import pytest
from farandole import _options, _run_exchange, _run_peers
from farandole._run_exchange import Exchange, Result, deliver, fetch

KEY = b"k" * 32

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


class Longer(bytes):
    """A stranger on the way says that it is longer than it is."""


def send(peer: socket.socket, message: bytes) -> None:
    peer.sendall(struct.pack("!i", 2**31 - 1 if isinstance(message, Longer) else len(message)) + message)


def receive(peer: socket.socket) -> bytes:
    (size,) = struct.unpack("!i", read(peer, 4))
    return read(peer, size)


class Path:
    """Between a worker and the driver: messages pass as `change` gives them back."""

    def __init__(self, port: int, change: Callable[[bytes], bytes]) -> None:
        self._port = port
        self._change = change
        # The messages that each end was sent.
        self.to_driver: List[bytes] = []
        self.to_worker: List[bytes] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            worker, _ = self._listener.accept()
            driver = socket.create_connection(("127.0.0.1", self._port))
            for way in ((worker, driver, self.to_driver), (driver, worker, self.to_worker)):
                threading.Thread(target=self._carry, args=way, daemon=True).start()

    def _carry(self, source: socket.socket, target: socket.socket, sent: List[bytes]) -> None:
        try:
            while True:
                sent.append(self._change(receive(source)))
                send(target, sent[-1])
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
    """Those that prove the ends are short."""
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


def test_a_length_that_was_changed_takes_no_memory(exchange: Exchange, monkeypatch: pytest.MonkeyPatch) -> None:
    taken: List[int] = []
    whole = Connection._recv

    def counted(self: Any, size: int, *rest: Any) -> Any:
        taken.append(size)
        return whole(self, size, *rest)

    monkeypatch.setattr(Connection, "_recv", counted)
    at(
        monkeypatch,
        Path(int(exchange.address), lambda message: Longer(message) if len(message) > 120 else message).port,
        exchange.key,
    )
    for call in (fetch, lambda: deliver(Result(0, "x" * 200))):
        with pytest.raises((EOFError, OSError)):
            call()
    assert max(taken) < 1000, taken
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


def test_workers_come_by_the_chosen_interface_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    with Exchange(None, has_other_hosts=True, interfaces=("nothing0", "127.0.0.0/8")) as exchange:
        host, _, port = exchange.address.rpartition(":")
        assert host == "127.0.0.1"
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.2", int(port)))  # as each address of this host would be
        monkeypatch.setattr(_options, "run_rendezvous", lambda: (exchange.address, exchange.key))
        monkeypatch.setattr(_options, "coordinator_host", lambda: "192.0.2.1")
        deliver(Result(0, "value"))
        assert exchange.outcomes() == [Result(0, "value")]


def test_a_workers_host_that_has_gone_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    told: List[Tuple[int, int]] = []

    def look(_exchange: Any, met: Any) -> None:
        with socket.socket(fileno=os.dup(met[0]._connection.fileno())) as peer:
            keeps = peer.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
            told.append((keeps, peer.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT)))

    monkeypatch.setattr(Exchange, "_answer", look)
    with Exchange(None, has_other_hosts=True) as exchange:
        at(monkeypatch, int(exchange.address), exchange.key)
        with pytest.raises((EOFError, OSError)):
            deliver(Result(0, "value"))
    assert told == [(1, 30_000)]


# A driver with few descriptors, of which some are in use. It tells where it is, and its outcomes when its input ends.
FEW_DESCRIPTORS = """
import os, resource, sys
from farandole import _run_peers
from farandole._run_exchange import Exchange
_run_peers.PATIENCE_SECONDS = 0.2
resource.setrlimit(resource.RLIMIT_NOFILE, (int(sys.argv[1]),) * 2)
in_use = [os.dup(0) for _ in range(int(sys.argv[2]))]
with Exchange(None, has_other_hosts=True) as exchange:
    print(exchange.address, exchange.key.hex(), flush=True)
    sys.stdin.read()
    print(exchange.outcomes(), flush=True)
"""


@pytest.mark.parametrize("descriptors, in_use", ((64, 0), (80, 40)))
def test_silent_peers_take_not_all_descriptors(descriptors: int, in_use: int, monkeypatch: pytest.MonkeyPatch) -> None:
    command = [sys.executable, "-c", FEW_DESCRIPTORS, str(descriptors), str(in_use)]
    with contextlib.ExitStack() as stack:
        driver = stack.enter_context(
            subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        )
        stack.callback(driver.kill)
        assert driver.stdout is not None
        port, key = driver.stdout.readline().split()
        for _ in range(150):
            stack.enter_context(socket.create_connection(("127.0.0.1", int(port))))
        at(monkeypatch, int(port), bytes.fromhex(key))
        threads = stack.enter_context(concurrent.futures.ThreadPoolExecutor())
        stack.callback(driver.kill)  # ends the thread
        threads.submit(deliver, Result(0, "value")).result(20)
        told, _ = driver.communicate()
    assert told == f"{[Result(0, 'value')]}\n"


def test_a_worker_that_finds_no_room_tries_again(exchange: Exchange, monkeypatch: pytest.MonkeyPatch) -> None:
    at(monkeypatch, int(exchange.address), exchange.key)
    dial, tries = _run_exchange._dial, []

    def turned_away_twice(address: str, host: str) -> Any:
        tries.append(address)
        connection = dial(address, host)
        if len(tries) < 3:
            socket.socket(fileno=os.dup(connection.fileno())).shutdown(socket.SHUT_RDWR)
        return connection

    monkeypatch.setattr(_run_exchange, "_dial", turned_away_twice)
    assert fetch() is None and len(tries) == 3


def test_a_silent_peer_is_left_after_a_while(exchange: Exchange, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_run_peers, "PROOF_SECONDS", 1)
    with socket.create_connection(("127.0.0.1", int(exchange.address))) as silent:
        silent.settimeout(10)
        while silent.recv(4096):  # the nonce, and then the end
            pass


def test_a_peer_that_trickles_is_left_after_a_while(exchange: Exchange, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_run_peers, "PROOF_SECONDS", 1)
    begin = time.monotonic()
    with socket.create_connection(("127.0.0.1", int(exchange.address))) as slow:
        slow.sendall(struct.pack("!i", 32))
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
        assert peer.recv(4096), "the nonce"
    newcomer.settimeout(0.5)
    with pytest.raises(TimeoutError):
        newcomer.recv(4096)
    served[0].settimeout(0.1)
    with pytest.raises(TimeoutError):
        served[0].recv(4096)
    # A place that is free goes to it.
    served[1].close()
    newcomer.settimeout(20)
    assert newcomer.recv(4096), "the nonce"
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


class Stranger:
    """In the driver's place, without the secret. `worker` runs a function as a worker that finds it there."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._listener.settimeout(20)
        self.port = self._listener.getsockname()[1]
        self._threads = concurrent.futures.ThreadPoolExecutor()
        self._peers: List[socket.socket] = []
        at(monkeypatch, self.port, KEY)
        unpickled.clear()

    def __enter__(self) -> "Stranger":
        return self

    def __exit__(self, *_exception: Any) -> None:
        for peer in self._peers:
            peer.close()
        self._threads.shutdown()
        self._listener.close()

    def worker(self, call: Callable[[], Any]) -> Tuple["concurrent.futures.Future[Any]", socket.socket]:
        """The call's end, and the connection that it makes."""
        end = self._threads.submit(call)
        peer, _ = self._listener.accept()
        peer.settimeout(20)
        self._peers.append(peer)
        return end, peer


def assert_refuses(end: "concurrent.futures.Future[Any]") -> None:
    with pytest.raises((AuthenticationError, OSError)):
        end.result(20)
    assert not unpickled


def answer_of_python_3_12(connection: Any, authkey: bytes) -> None:
    """multiprocessing's answer_challenge from Python 3.12 on, which lets the challenge choose the digest."""
    message = connection.recv_bytes(256)
    assert message.startswith(b"#CHALLENGE#")
    message = message[len(b"#CHALLENGE#") :]
    if message.startswith(b"{sha256}"):
        connection.send_bytes(b"{sha256}" + hmac.new(authkey, message, "sha256").digest())
    else:
        connection.send_bytes(hmac.new(authkey, message, "md5").digest())
    if connection.recv_bytes(256) != b"#WELCOME#":
        raise AuthenticationError("digest sent was rejected")


def test_a_workers_answer_to_a_challenge_signs_no_call(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_run_exchange, "answer_challenge", answer_of_python_3_12, raising=False)
    trap = pickle.dumps(Trap())
    with Stranger(monkeypatch) as stranger:
        victim, peer = stranger.worker(fetch)
        with contextlib.suppress(EOFError, OSError):
            send(peer, b"#CHALLENGE#{sha256}call " + trap)
            signed = receive(peer)[len(b"{sha256}") :]
            send(peer, b"#WELCOME#")
            challenge = receive(peer)
            _, other = stranger.worker(fetch)
            send(other, challenge)
            send(peer, receive(other))
            assert receive(peer) == b"#WELCOME#"
            send(peer, b"{sha256}")
            receive(peer)  # its wish
            send(peer, signed + trap)
        assert_refuses(victim)


@pytest.mark.parametrize("size", [0, 1, 31, 33, 64])
def test_a_nonce_of_another_length_is_refused(exchange: Exchange, monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    with Stranger(monkeypatch) as stranger:
        for call in (fetch, lambda: deliver(Result(0, "value"))):
            end, peer = stranger.worker(call)
            send(peer, b"n" * size)
            assert_refuses(end)
    with socket.create_connection(("127.0.0.1", int(exchange.address)), 20) as peer:
        send(peer, b"n" * size)
        assert len(receive(peer)) == 32
        with pytest.raises((EOFError, OSError)):
            receive(peer)


@pytest.mark.parametrize("nonce", ["chosen", "its own", "another worker's"])
def test_messages_of_workers_do_not_pass_for_the_drivers(monkeypatch: pytest.MonkeyPatch, nonce: str) -> None:
    with Stranger(monkeypatch) as stranger:
        victim, peer = stranger.worker(fetch)
        other_end, other = stranger.worker(fetch)
        own, others = receive(peer), receive(other)
        send(peer, {"chosen": bytes(32), "its own": own, "another worker's": others}[nonce])
        send(other, own)
        wish, others_wish = receive(peer), receive(other)
        send(peer, others_wish if nonce == "another worker's" else wish)
        send(other, wish)
        assert_refuses(victim)
        assert_refuses(other_end)

        victim, peer = stranger.worker(fetch)
        send(peer, receive(peer))
        send(peer, receive(peer)[:32])  # as a welcome, which has no content
        assert_refuses(victim)


def test_a_stranger_in_the_drivers_place_gets_no_outcome(monkeypatch: pytest.MonkeyPatch) -> None:
    with Stranger(monkeypatch) as stranger:
        end, peer = stranger.worker(lambda: deliver(Result(0, "value")))
        send(peer, bytes(32))
        assert len(receive(peer)) == 32
        assert receive(peer)[32:] == b"deliver"
        send(peer, bytes(32))
        assert_refuses(end)
        with pytest.raises((EOFError, OSError)):
            receive(peer)


def test_messages_of_an_earlier_connection_are_refused(exchange: Exchange, monkeypatch: pytest.MonkeyPatch) -> None:
    path = Path(int(exchange.address), lambda message: message)
    at(monkeypatch, path.port, exchange.key)
    fetch()
    calls = list(path.to_worker)
    path.to_driver.clear()
    deliver(Result(0, "value"))
    assert (len(calls), len(path.to_driver)) == (4, 4)
    with socket.create_connection(("127.0.0.1", int(exchange.address)), 20) as peer:
        for message in path.to_driver:
            with contextlib.suppress(OSError):
                send(peer, message)
        receive(peer)  # its nonce
        with pytest.raises((EOFError, OSError)):
            receive(peer)
    assert exchange.outcomes() == [Result(0, "value")]
    with Stranger(monkeypatch) as stranger:
        at(monkeypatch, stranger.port, exchange.key)
        end, peer = stranger.worker(fetch)
        for message in calls:
            with contextlib.suppress(OSError):
                send(peer, message)
        assert_refuses(end)


@pytest.fixture(name="pair")
def make_pair() -> Any:
    """The messages of a worker and of the driver, and the connection at the driver's end and at the worker's."""
    at_driver, at_worker = multiprocessing.Pipe()
    with at_driver, at_worker, concurrent.futures.ThreadPoolExecutor() as threads:
        driver = threads.submit(_run_exchange._Messages, at_driver, KEY, _run_exchange._DRIVER)
        worker = _run_exchange._Messages(at_worker, KEY, _run_exchange._WORKER)
        yield worker, driver.result(), at_driver, at_worker


def test_a_message_is_taken_once(pair: Any) -> None:
    worker, driver, at_driver, at_worker = pair
    worker.send(b"outcome", b"value")
    sent = at_driver.recv_bytes()
    at_worker.send_bytes(sent)
    assert driver.receive(b"outcome", 16) == b"value"
    at_worker.send_bytes(sent)
    with pytest.raises(AuthenticationError):
        driver.receive(b"outcome", 16)


def test_messages_are_taken_in_their_order(pair: Any) -> None:
    worker, driver, at_driver, _ = pair
    worker.send(b"outcome", b"first")
    worker.send(b"outcome", b"second")
    at_driver.recv_bytes()
    with pytest.raises(AuthenticationError):
        driver.receive(b"outcome", 16)


def test_a_message_is_of_one_kind_and_one_sender(pair: Any) -> None:
    worker, driver, at_driver, at_worker = pair
    worker.send(b"outcome", b"value")
    sent = at_driver.recv_bytes()
    at_worker.send_bytes(sent)
    with pytest.raises(AuthenticationError):
        driver.receive(b"outcom", 100)
    at_driver.send_bytes(sent)
    with pytest.raises(AuthenticationError):
        worker.receive(b"outcome", 16)


def test_no_two_lists_of_fields_have_the_same_mac() -> None:
    lists = [(b"ab", b"c"), (b"a", b"bc"), (b"abc",), (b"abc", b""), (b"", b"abc")]
    assert len({_run_exchange._mac(KEY, *fields) for fields in lists}) == len(lists)
