"""The compute service, by which a data service's processes meet: what it answers, and what a stranger gets."""

import json
import pickle
import socket
import threading
from typing import Any, Iterator, List

import pytest
from farandole import _compute_service, _run_peers
from farandole._compute_service import ComputeClient, ComputeService

KEY = b"k" * 32


@pytest.fixture(name="service")
def running() -> Iterator[ComputeService]:
    service = ComputeService(2, 2, KEY)
    yield service
    service.shutdown()


def client_of(service: ComputeService, key: bytes = KEY) -> ComputeClient:
    return ComputeClient(service.addresses(), key)


def in_thread(call: Any) -> "List[Any]":
    """A list that has the call's result, or its exception, when the thread, the list's first, has ended."""

    def run() -> None:
        try:
            found.append(call())
        except Exception as error:  # pylint: disable=broad-except; the test looks at it
            found.append(error)

    thread = threading.Thread(target=run)
    found: List[Any] = [thread]
    thread.start()
    return found


def ended(found: "List[Any]") -> Any:
    found[0].join(30)
    return found[1]


def test_a_dispatcher_is_there_when_it_and_its_workers_are(service: ComputeService) -> None:
    client = client_of(service)
    address = in_thread(lambda: client_of(service).wait_for_dispatcher_registration(1, 30))
    workers = in_thread(lambda: client_of(service).wait_for_dispatcher_worker_registration(1, 30))
    client.register_dispatcher(1, "grpc://a:1")
    assert ended(address) == "grpc://a:1"
    client.register_worker_for_dispatcher(1, 2)
    client.register_worker_for_dispatcher(1, 2)
    with pytest.raises(TimeoutError, match=r"for workers for dispatcher 1 to register, for 0.05 s"):
        client.wait_for_dispatcher_worker_registration(1, 0.05)
    client.register_worker_for_dispatcher(1, 3)
    assert ended(workers) is None
    assert client.own_address == "127.0.0.1"


def test_one_dispatcher_serves_all_trainers() -> None:
    service = ComputeService(1, 1, KEY)
    client_of(service).register_worker_for_dispatcher(0, 0)
    client_of(service).wait_for_dispatcher_worker_registration(5, 30)
    service.shutdown()


def test_errors_have_both_values(service: ComputeService) -> None:
    client = client_of(service)
    for call in (client.register_worker_for_dispatcher, client.wait_for_dispatcher_registration):
        with pytest.raises(IndexError, match=r"Dispatcher id must be within \[0..1\]: 2"):
            call(2, 1)
    client.register_dispatcher(0, "grpc://a:1")
    client.register_dispatcher(0, "grpc://a:1")
    with pytest.raises(ValueError, match="already been registered under different address grpc://a:1: grpc://b:1"):
        client.register_dispatcher(0, "grpc://b:1")
    with pytest.raises(TimeoutError, match="for dispatcher 1 to register, for 0.05 s"):
        client.wait_for_dispatcher_registration(1, 0.05)
    with pytest.raises(ValueError, match="workers per dispatcher must be larger than 0: 0"):
        ComputeService(1, 0, KEY)


def test_all_that_wait_hear_of_the_shutdown(service: ComputeService, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_compute_service, "SLICE_SECONDS", 0.05)
    waits = [in_thread(client_of(service).wait_for_shutdown) for _ in range(5)]
    client_of(service).shutdown()
    assert [ended(each) for each in waits] == [None] * 5


def test_a_service_that_has_ended_is_named() -> None:
    service = ComputeService(1, 1, KEY)
    client = client_of(service)
    waits = in_thread(lambda: client.wait_for_dispatcher_registration(0, 30))
    service.shutdown()
    assert isinstance(ended(waits), ConnectionError)
    port = service.addresses()["service"][0][1]
    with pytest.raises(ConnectionError, match=f"no compute service can be reached: .*127.0.0.1:{port} does not answer"):
        client_of(service)
    with pytest.raises(ConnectionError, match="it has no address"):
        ComputeClient({}, KEY)


def test_another_key_gets_nothing(service: ComputeService) -> None:
    with pytest.raises(ConnectionError, match="does not answer"):
        client_of(service, b"x" * 32)
    assert service._dispatchers[0].address is None  # pylint: disable=protected-access


class _Bomb:
    def __reduce__(self) -> Any:
        return pytest.fail, ("a stranger's pickle was read",)


def messages() -> Iterator[bytes]:
    """A stranger's: none has the key's digest."""
    request = json.dumps({"do": "shutdown", "terms": {}}).encode()
    for text in (request, pickle.dumps(_Bomb()), b""):
        yield _compute_service._HEADER.pack(b"\0" * 32, len(text)) + text  # pylint: disable=protected-access
    yield _compute_service._HEADER.pack(b"\0" * 32, 2**32 - 1)  # pylint: disable=protected-access
    yield b"GET / HTTP/1.1\r\n\r\n" * 100


def test_a_strangers_message_is_not_answered(service: ComputeService) -> None:
    place = service.addresses()["service"][0]
    for message in messages():
        with socket.create_connection(place, 10) as connection:
            assert len(connection.recv(100)) == _compute_service.NONCE_BYTES
            connection.sendall(message)
            connection.settimeout(10)
            try:
                assert connection.recv(100) == b""
            except ConnectionResetError:
                pass
    client_of(service).register_dispatcher(0, "grpc://a:1")


def test_a_recorded_request_is_worth_nothing(service: ComputeService, monkeypatch: pytest.MonkeyPatch) -> None:
    sent: List[bytes] = []
    send = socket.socket.sendall
    monkeypatch.setattr(socket.socket, "sendall", lambda self, data: (sent.append(bytes(data)), send(self, data))[1])
    client_of(service)
    request = next(data for data in sent if b'"ping"' in data)
    with socket.create_connection(service.addresses()["service"][0], 10) as connection:
        connection.recv(100)
        connection.sendall(request)
        assert connection.recv(100) == b""


def test_a_stranger_that_says_nothing_holds_up_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_compute_service, "READ_SECONDS", 0.2)
    service = ComputeService(1, 1, KEY)
    with socket.create_connection(service.addresses()["service"][0], 10) as silent:
        client_of(service).register_dispatcher(0, "grpc://a:1")
        service.shutdown()
        assert len(silent.recv(100)) == _compute_service.NONCE_BYTES and silent.recv(100) == b""


def test_silent_strangers_hold_few_threads_and_keep_no_client_out(service: ComputeService) -> None:
    before = threading.active_count()
    silent = [socket.create_connection(service.addresses()["service"][0], 10) for _ in range(200)]
    client_of(service).register_dispatcher(0, "grpc://a:1")
    assert threading.active_count() - before <= _run_peers.MOST_SERVED + 8
    for peer in silent:
        peer.close()
