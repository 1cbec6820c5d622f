"""Where the processes of a data service meet: trainers, and the workers that prepare their data, which are another job.

A ComputeService has a table of dispatchers and their workers. A ComputeClient makes one connection for a request. Both
prove in each message that they know the key: a message is a digest and a JSON text, which is parsed only if the digest
fits. Nothing is unpickled. Messages are not encrypted.
"""

import contextlib
import hashlib
import hmac
import json
import secrets
import socket
import struct
import threading
import time
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Set, Tuple

from ._run_peers import Newcomers

Addresses = Mapping[str, Sequence[Tuple[str, int]]]

NONCE_BYTES = 32
MOST_BYTES = 64 << 10
"""Of a message."""
READ_SECONDS = 10.0
"""How long a peer may take to send one."""
SLICE_SECONDS = 10.0
"""How long the service waits before it answers that there is nothing yet: so a client sees a service that is gone."""

_HEADER = struct.Struct(">32sI")
_ERRORS = {kind.__name__: kind for kind in (IndexError, ValueError)}


def _digest(key: bytes, direction: bytes, *parts: bytes) -> bytes:
    return hmac.new(key, direction + b"".join(parts), hashlib.sha256).digest()


def _receive(connection: socket.socket, count: int, end: float) -> bytes:
    """So many bytes. ConnectionError: the peer is gone, or slower than that."""
    received = bytearray()
    while len(received) < count:
        connection.settimeout(max(end - time.monotonic(), 0.001))
        part = connection.recv(count - len(received))
        if not part:
            raise ConnectionError("the peer has closed the connection")
        received += part
    return bytes(received)


def _receive_message(connection: socket.socket, end: float, digest_of: Callable[[bytes], bytes]) -> Tuple[bytes, Any]:
    """A message and its digest. PermissionError: the peer has another key, or none."""
    digest, length = _HEADER.unpack(_receive(connection, _HEADER.size, end))
    if length > MOST_BYTES:
        raise PermissionError(f"a message of {length} bytes")
    text = _receive(connection, length, end)
    if not hmac.compare_digest(digest, digest_of(text)):
        raise PermissionError("a message of another key")
    return digest, json.loads(text)


class _Dispatcher:
    """One, as far as the service knows it."""

    def __init__(self) -> None:
        self.address: Optional[str] = None
        self.workers: Set[int] = set()


class ComputeService:
    """The table, in threads of its own from when it is made to shutdown()."""

    def __init__(self, dispatchers: int, workers_per_dispatcher: int, key: bytes, address: str = "127.0.0.1") -> None:
        """Listens at `address`, one of this host's, only. ValueError: a number is below 1. OSError: no such address."""
        for what, number in (("dispatchers", dispatchers), ("workers per dispatcher", workers_per_dispatcher)):
            if number < 1:
                raise ValueError(f"The number of {what} must be larger than 0: {number}")
        self._dispatchers = [_Dispatcher() for _ in range(dispatchers)]
        self._workers_per_dispatcher = workers_per_dispatcher
        self._key = key
        self._is_shut_down = False
        self._is_over = threading.Event()
        self._changed = threading.Condition()
        self._requests: Dict[str, Callable[..., Any]] = {
            "ping": lambda: True,
            "register_dispatcher": self._register_dispatcher,
            "register_worker": self._register_worker,
            "wait_for_dispatcher": self._wait_for_dispatcher,
            "wait_for_workers": self._wait_for_workers,
            "wait_for_shutdown": self._wait_for_shutdown,
            "shutdown": self._announce_shutdown,
        }
        self._serving = 0
        self._listener = socket.create_server(
            (address, 0), family=socket.AF_INET6 if ":" in address else socket.AF_INET, backlog=128
        )
        host, port = self._listener.getsockname()[:2]
        self._place = (str(host), int(port))
        self._newcomers = Newcomers(self._meet, self._answer)
        self._newcomers.start()
        self._thread = threading.Thread(target=self._accept, name="farandole-compute-service", daemon=True)
        self._thread.start()

    def addresses(self) -> Dict[str, List[Tuple[str, int]]]:
        """Where clients find it."""
        return {"service": [self._place]}

    def shutdown(self) -> None:
        """Answers those that wait for this, and all others, and ends."""
        self._announce_shutdown()
        self._is_over.set()
        with contextlib.suppress(OSError):
            socket.create_connection(self._place, READ_SECONDS).close()  # wakes the thread
        self._thread.join()
        self._listener.close()
        self._newcomers.stop()
        with self._changed:
            self._changed.wait_for(lambda: self._serving == 0)

    def _accept(self) -> None:
        while True:
            try:
                connection, peer = self._listener.accept()
            except OSError as error:
                # A peer that has gone already; or no descriptor is left, until some peers have gone.
                if not self._newcomers.refused(error) and self._is_over.wait(0.05):
                    return
                continue
            if self._is_over.is_set():
                connection.close()
                return
            self._newcomers.add(connection, str(peer[0]))

    def _meet(self, connection: socket.socket) -> Tuple[socket.socket, bytes, Any]:
        """A peer that has proved that it knows the key, the digest of its request, and the request."""
        nonce = secrets.token_bytes(NONCE_BYTES)
        connection.sendall(nonce)
        asked, request = _receive_message(
            connection, time.monotonic() + READ_SECONDS, lambda text: _digest(self._key, b"request", nonce, text)
        )
        with self._changed:
            self._serving += 1
        return connection, asked, request

    def _answer(self, met: Tuple[socket.socket, bytes, Any]) -> None:
        connection, asked, request = met
        try:
            text = json.dumps(self._carry_out(request)).encode()
            connection.settimeout(READ_SECONDS)
            connection.sendall(_HEADER.pack(_digest(self._key, b"answer", asked, text), len(text)) + text)
        finally:
            with self._changed:
                self._serving -= 1
                self._changed.notify_all()

    def _carry_out(self, request: Any) -> Dict[str, Any]:
        try:
            return {"value": self._requests[request["do"]](**request["terms"])}
        except (IndexError, ValueError) as error:
            return {"error": type(error).__name__, "message": str(error)}
        except (KeyError, TypeError) as error:
            raise ConnectionError(f"a request of another version: {error}") from error

    def _find(self, dispatcher_id: int) -> _Dispatcher:
        if not 0 <= dispatcher_id < len(self._dispatchers):
            raise IndexError(f"Dispatcher id must be within [0..{len(self._dispatchers) - 1}]: {dispatcher_id}")
        return self._dispatchers[dispatcher_id]

    def _register_dispatcher(self, dispatcher_id: int, address: str) -> None:
        with self._changed:
            dispatcher = self._find(dispatcher_id)
            if dispatcher.address not in (None, address):
                raise ValueError(
                    f"Dispatcher with id {dispatcher_id} has already been registered under different address "
                    f"{dispatcher.address}: {address}"
                )
            dispatcher.address = address
            self._changed.notify_all()

    def _register_worker(self, dispatcher_id: int, worker_id: int) -> None:
        with self._changed:
            self._find(dispatcher_id).workers.add(worker_id)
            self._changed.notify_all()

    def _wait(self, holds: Callable[[], Any], seconds: float) -> Any:
        """Waits until `holds()` is true, for so many seconds at most or until the end, and gives its value."""
        with self._changed:
            self._changed.wait_for(lambda: self._is_shut_down or holds(), min(seconds, SLICE_SECONDS))
            return holds()

    def _wait_for_dispatcher(self, dispatcher_id: int, seconds: float) -> Any:
        dispatcher = self._find(dispatcher_id)
        return self._wait(lambda: dispatcher.address, seconds)

    def _wait_for_workers(self, dispatcher_id: int, seconds: float) -> Any:
        # All trainers share a single dispatcher.
        dispatcher = self._find(dispatcher_id if len(self._dispatchers) > 1 else 0)
        return self._wait(lambda: len(dispatcher.workers) >= self._workers_per_dispatcher, seconds)

    def _wait_for_shutdown(self, seconds: float) -> bool:
        return bool(self._wait(lambda: self._is_shut_down, seconds))

    def _announce_shutdown(self) -> None:
        with self._changed:
            self._is_shut_down = True
            self._changed.notify_all()


class ComputeClient:
    """Asks a ComputeService.

    ConnectionError: it cannot be reached, or is another one than that of the key. IndexError: there is no dispatcher of
    the number.
    """

    def __init__(self, compute_addresses: Addresses, key: bytes, verbose: int = 1) -> None:
        """`compute_addresses`: of the service, of which the first that answers is taken. `verbose` is Horovod's."""
        del verbose
        self._key = key
        self.own_address = ""
        """Of this host, as the service sees it."""
        places = [place for each in compute_addresses.values() for place in each]
        failures = []
        for self._address in places:
            try:
                self._ask("ping")
                return
            except OSError as error:
                failures.append(str(error))
        raise ConnectionError(f"no compute service can be reached: {'; '.join(failures) or 'it has no address'}")

    def register_dispatcher(self, dispatcher_id: int, dispatcher_address: str) -> None:
        """ValueError: it has another address already."""
        self._ask("register_dispatcher", dispatcher_id=dispatcher_id, address=dispatcher_address)

    def wait_for_dispatcher_registration(self, dispatcher_id: int, timeout: float) -> str:
        """Its address. TimeoutError: it has none after so many seconds."""
        what = f"dispatcher {dispatcher_id} to register"
        return str(self._wait("wait_for_dispatcher", timeout, what, "the dispatcher", dispatcher_id=dispatcher_id))

    def register_worker_for_dispatcher(self, dispatcher_id: int, worker_id: int) -> None:
        """The worker serves."""
        self._ask("register_worker", dispatcher_id=dispatcher_id, worker_id=worker_id)

    def wait_for_dispatcher_worker_registration(self, dispatcher_id: int, timeout: float) -> None:
        """Until all workers of the dispatcher serve. TimeoutError: some do not after so many seconds."""
        what = f"workers for dispatcher {dispatcher_id} to register"
        self._wait("wait_for_workers", timeout, what, "the workers", dispatcher_id=dispatcher_id)

    def shutdown(self) -> None:
        """Has the service and all its workers end."""
        self._ask("shutdown")

    def wait_for_shutdown(self) -> None:
        """Until someone calls shutdown."""
        while not self._ask("wait_for_shutdown", seconds=SLICE_SECONDS):
            pass

    def _wait(self, request: str, timeout: float, what: str, whom: str, **terms: Any) -> Any:
        end = time.monotonic() + timeout
        while True:
            left = end - time.monotonic()
            value = self._ask(request, seconds=max(left, 0.0), **terms)
            if value:
                return value
            if left <= 0:
                raise TimeoutError(
                    f"Timed out waiting for {what}, for {timeout:g} s. Try to find out what takes {whom} so long to "
                    "register or increase timeout."
                )

    def _ask(self, request: str, **terms: Any) -> Any:
        host, port = self._address
        # The number makes the request another one each time, so that nobody can answer it with what he has heard.
        asked = {"do": request, "terms": terms, "number": secrets.token_hex(NONCE_BYTES)}
        try:
            answer = self._exchange(json.dumps(asked).encode())
        except (OSError, ValueError) as error:
            raise ConnectionError(f"the compute service at {host}:{port} does not answer: {error}") from error
        if "error" in answer:
            raise _ERRORS[answer["error"]](answer["message"])
        return answer["value"]

    def _exchange(self, text: bytes) -> Any:
        limit = SLICE_SECONDS + READ_SECONDS
        with socket.create_connection(self._address, READ_SECONDS) as connection:
            self.own_address = connection.getsockname()[0]
            nonce = _receive(connection, NONCE_BYTES, time.monotonic() + READ_SECONDS)
            asked = _digest(self._key, b"request", nonce, text)
            connection.sendall(_HEADER.pack(asked, len(text)) + text)
            end = time.monotonic() + limit
            return _receive_message(connection, end, lambda got: _digest(self._key, b"answer", asked, got))[1]
