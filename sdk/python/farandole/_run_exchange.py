"""How the driver of run() gives its workers their function, and gets their results: connections that prove a secret.

A worker connects to fetch the call, and again to deliver its outcome. Both sides prove that they know the secret, and that each
message comes from them, before anything is unpickled; what travels is not encrypted.
"""

import contextlib
import hmac
import secrets
import sys
import tempfile
import threading
import traceback
from multiprocessing.connection import (
    AuthenticationError,
    Client,
    Connection,
    Listener,
    answer_challenge,
    deliver_challenge,
)
from typing import Any, Iterator, List, NamedTuple, Union

from . import _options
from ._pickles import dumps, dumps_for_others, loads
from ._run_peers import Newcomers
from .exceptions import EpochEnded

FETCH, DELIVER = b"fetch", b"deliver"

_MAC_BYTES = 32


class _Proven:
    """The messages of a connection whose two ends know the secret; `nonce` is that of the connection."""

    def __init__(self, connection: Connection, key: bytes, nonce: bytes) -> None:
        self._connection = connection
        self._key = key
        self._nonce = nonce

    def send(self, kind: bytes, content: bytes) -> None:
        self._connection.send_bytes(self._mac(kind, content) + content)

    def receive(self, kind: bytes) -> bytes:
        """AuthenticationError: the other end has not sent this."""
        message = self._connection.recv_bytes()
        content = message[_MAC_BYTES:]
        if not hmac.compare_digest(message[:_MAC_BYTES], self._mac(kind, content)):
            raise AuthenticationError(
                f"a message of run() was changed on its way, and is not unpickled ({kind.decode()})"
            )
        return content

    def await_end(self) -> None:
        """Until the other end has taken everything."""
        self._connection.recv_bytes()

    def _mac(self, kind: bytes, content: bytes) -> bytes:
        made = hmac.new(self._key, self._nonce + kind + b" ", "sha256")
        made.update(content)
        return made.digest()


class Result(NamedTuple):
    """The function's result."""

    rank: int
    value: Any


class RemoteError(Exception):
    """The cause of an exception that run() raises: where it was raised, on its rank."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text

    def __str__(self) -> str:
        return f"\n\n{self.text}"


class Failure(NamedTuple):
    """The function's exception: pickled, "" if it cannot be."""

    rank: int
    pickled: bytes
    text: str
    is_consequence: bool

    @classmethod
    def of(cls, rank: int, error: BaseException) -> "Failure":
        """Of the exception that is being handled."""
        try:
            pickled = dumps(error)
            loads(pickled)
        except Exception:  # pylint: disable=broad-except; exceptions may have any content
            pickled = b""
        return cls(rank, pickled, f"on rank {rank}:\n{traceback.format_exc()}", isinstance(error, EpochEnded))

    def exception(self) -> BaseException:
        """It, with its traceback as its cause."""
        last = self.text.strip().splitlines()[-1]
        error: BaseException = RuntimeError(f"rank {self.rank} of run() has failed: {last}")
        if self.pickled:
            try:
                error = loads(self.pickled)
            except Exception:  # pylint: disable=broad-except; its class may be of the workers' modules only
                pass
        error.__cause__ = RemoteError(self.text)
        return error


Outcome = Union[Result, Failure]


class Exchange:
    """The driver's side, in threads of its own from __enter__ to __exit__."""

    def __init__(self, call: Any, has_other_hosts: bool) -> None:
        """`call` is the result of fetch(). Raises the exceptions of pickling it."""
        self.key = secrets.token_bytes(32)
        self._call = dumps((sys.path, dumps_for_others(call)))
        self._outcomes: List[bytes] = []
        self._lock = threading.Lock()
        self._over = threading.Event()
        self._directory = tempfile.TemporaryDirectory(prefix="farandole-run-")
        if has_other_hosts:
            self._listener = Listener(("", 0), "AF_INET", backlog=128)
            self.address = str(self._listener.address[1])
        else:
            self._listener = Listener(f"{self._directory.name}/socket", "AF_UNIX", backlog=128)
            self.address = str(self._listener.address)
        self._newcomers = Newcomers(self._prove, self._answer)
        self._thread = threading.Thread(target=self._serve, name="farandole-run", daemon=True)

    def __enter__(self) -> "Exchange":
        self._newcomers.start()
        self._thread.start()
        return self

    def __exit__(self, *_exception: Any) -> None:
        self._over.set()
        _dial(self.address, "127.0.0.1").close()  # wakes the thread
        self._thread.join()
        self._newcomers.stop()
        self._listener.close()
        self._directory.cleanup()

    def outcomes(self) -> List[Outcome]:
        """The delivered outcomes, in the order of delivery. Workers that have ended with it have delivered."""
        with self._lock:
            return [loads(outcome) for outcome in self._outcomes]

    def _serve(self) -> None:
        while True:
            try:
                connection = self._listener.accept()
            except OSError:
                # A peer that has gone already; or no descriptor is left, until some peers have gone.
                self._over.wait(0.05)
                continue
            if self._over.is_set():
                connection.close()
                return
            peer = self._listener.last_accepted
            self._newcomers.add(connection, peer[0] if isinstance(peer, tuple) else "")

    def _prove(self, connection: Connection) -> None:
        deliver_challenge(connection, self.key)
        answer_challenge(connection, self.key)

    def _answer(self, connection: Connection) -> None:
        nonce = secrets.token_bytes(_MAC_BYTES)
        connection.send_bytes(nonce)
        proven = _Proven(connection, self.key, nonce)
        if proven.receive(b"wish") == FETCH:
            proven.send(b"call", self._call)
            return
        outcome = proven.receive(b"outcome")
        with self._lock:
            self._outcomes.append(outcome)
        connection.send_bytes(b"")  # the worker may end


def _dial(address: str, host: str) -> Connection:
    where: Any = (host, int(address)) if address.isdecimal() else address
    return Client(where)


@contextlib.contextmanager
def _driver() -> Iterator[_Proven]:
    address, key = _options.run_rendezvous()
    with _dial(address, _options.coordinator_host() if address.isdecimal() else "") as connection:
        answer_challenge(connection, key)
        deliver_challenge(connection, key)
        yield _Proven(connection, key, connection.recv_bytes())


def fetch() -> Any:
    """On a worker: the arguments of the driver's Exchange; modules are looked for where the driver does."""
    with _driver() as driver:
        driver.send(b"wish", FETCH)
        paths, call = loads(driver.receive(b"call"))
    sys.path.extend(path for path in paths if path not in sys.path)
    return loads(call)


def deliver(outcome: Outcome) -> None:
    """On a worker: gives the driver its outcome. Raises the exceptions of pickling it."""
    pickled = dumps(outcome)
    with _driver() as driver:
        driver.send(b"wish", DELIVER)
        driver.send(b"outcome", pickled)
        driver.await_end()
