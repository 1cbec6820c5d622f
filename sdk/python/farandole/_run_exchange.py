"""How the driver of run() gives its workers their function, and gets their results: connections that prove a secret.

A worker connects to fetch the call, and again to deliver its outcome. Messages are not encrypted:

    both     a nonce of 32 random bytes, at the same time
    worker   wish      FETCH or DELIVER, which proves the worker
    driver   welcome   empty, which proves the driver
    driver   call      if FETCH, behind its size
    worker   outcome   if DELIVER, behind its size
    driver   taken     empty: the worker may end

Each message but the nonces has a MAC, HMAC-SHA256, over its sender, its number, its kind and its content. The MAC's key is for
this connection and this sender: it follows from the secret and both nonces. The secret has no other use, so that nothing which
an end answers can pass for a message. Nothing is unpickled before its MAC has been checked, nor memory taken for more than the
size whose MAC has been.
"""

import contextlib
import hmac
import random
import secrets
import socket
import sys
import tempfile
import threading
import time
import traceback
from multiprocessing.connection import AuthenticationError, Client, Connection, Listener
from typing import Any, Iterator, List, NamedTuple, Sequence, Tuple, Union

from . import _options
from ._interfaces import address_of_first
from ._pickles import dumps, dumps_for_others, loads
from ._run_peers import Newcomers
from .exceptions import EpochEnded

FETCH, DELIVER = b"fetch", b"deliver"

# The two ends.
_DRIVER, _WORKER = b"driver", b"worker"

_NONCE_BYTES = 32
_MAC_BYTES = 32
_SIZE_BYTES = 8
# So long a worker tries again that the driver has turned away.
RETRY_SECONDS = 60
# After this, a peer's host that does not answer has gone.
_GONE_SECONDS = 30


def _mac(key: bytes, *fields: bytes) -> bytes:
    """Each field is behind its length, so that no two lists of fields give the same text."""
    made = hmac.new(key, digestmod="sha256")
    for field in fields:
        made.update(len(field).to_bytes(8, "big"))
        made.update(field)
    return made.digest()


class _Messages:
    """The messages of a connection whose two ends know the secret; `own` is this end. For one thread."""

    def __init__(self, connection: Connection, secret: bytes, own: bytes) -> None:
        """Exchanges the nonces. AuthenticationError, OSError: the other end has sent something else."""
        self._connection = connection
        self._own, self._other = own, _WORKER if own == _DRIVER else _DRIVER
        nonces = {own: secrets.token_bytes(_NONCE_BYTES)}
        connection.send_bytes(nonces[own])
        nonces[self._other] = connection.recv_bytes(_NONCE_BYTES)
        if len(nonces[self._other]) != _NONCE_BYTES:
            raise AuthenticationError(f"a nonce of run() has {len(nonces[self._other])} bytes, not {_NONCE_BYTES}")
        self._keys = {
            sender: _mac(secret, b"farandole run 2", sender, nonces[_DRIVER], nonces[_WORKER])
            for sender in (_DRIVER, _WORKER)
        }
        self._counts = {_DRIVER: 0, _WORKER: 0}

    def send(self, kind: bytes, content: bytes = b"") -> None:
        """In the order in which the other end receives."""
        self._connection.send_bytes(self._next_mac(self._own, kind, content) + content)

    def send_behind_its_size(self, kind: bytes, content: bytes) -> None:
        """Content of any size."""
        self.send(kind + b"'s size", len(content).to_bytes(_SIZE_BYTES, "big"))
        self.send(kind, content)

    def receive_behind_its_size(self, kind: bytes) -> bytes:
        """As receive(), of what send_behind_its_size() has sent."""
        return self.receive(kind, int.from_bytes(self.receive(kind + b"'s size", _SIZE_BYTES), "big"))

    def receive(self, kind: bytes, most: int) -> bytes:
        """The content, of at most so many bytes. AuthenticationError: the other end has not sent this as its next message.
        OSError: it is larger."""
        message = self._connection.recv_bytes(_MAC_BYTES + most)
        content = message[_MAC_BYTES:]
        if not hmac.compare_digest(message[:_MAC_BYTES], self._next_mac(self._other, kind, content)):
            raise AuthenticationError(
                f"a message of run() was changed on its way, and is not unpickled ({kind.decode()})"
            )
        return content

    def _next_mac(self, sender: bytes, kind: bytes, content: bytes) -> bytes:
        number = self._counts[sender].to_bytes(8, "big")
        self._counts[sender] += 1
        return _mac(self._keys[sender], sender, number, kind, content)


class Result(NamedTuple):
    """The function's result."""

    rank: int
    value: Any


class Ended(NamedTuple):
    """The function has ended its process with code 0: there is no result."""

    rank: int


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

    def exception(self) -> Exception:
        """It, with its traceback as its cause. A RuntimeError in place of one that would end the driver's program, as
        SystemExit does."""
        last = self.text.strip().splitlines()[-1]
        error: Exception = RuntimeError(f"rank {self.rank} of run() has failed: {last}")
        if self.pickled:
            try:
                raised = loads(self.pickled)
                error = raised if isinstance(raised, Exception) else error
            except Exception:  # pylint: disable=broad-except; its class may be of the workers' modules only
                pass
        error.__cause__ = RemoteError(self.text)
        return error


Outcome = Union[Result, Ended, Failure]


class Exchange:
    """The driver's side, in threads of its own from __enter__ to __exit__."""

    def __init__(self, call: Any, has_other_hosts: bool, interfaces: Sequence[str] = ()) -> None:
        """`call` is the result of fetch(). Workers of other hosts come by the first of these network interfaces that this
        host has, if it has one. Raises the exceptions of pickling the call."""
        self.key = secrets.token_bytes(32)
        self._call = dumps((sys.path, dumps_for_others(call)))
        self._outcomes: List[bytes] = []
        self._lock = threading.Lock()
        self._over = threading.Event()
        self._directory = tempfile.TemporaryDirectory(prefix="farandole-run-")
        if has_other_hosts:
            host = address_of_first(interfaces)
            self._listener = Listener((host, 0), "AF_INET", backlog=128)
            port = str(self._listener.address[1])
            self.address = f"{host}:{port}" if host else port
        else:
            self._listener = Listener(f"{self._directory.name}/socket", "AF_UNIX", backlog=128)
            self.address = str(self._listener.address)
        self._newcomers = Newcomers(self._meet, self._answer)
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
            except OSError as error:
                # A peer that has gone already; or no descriptor is left, until some peers have gone.
                if not self._newcomers.refused(error):
                    self._over.wait(0.05)
                continue
            if self._over.is_set():
                connection.close()
                return
            peer = self._listener.last_accepted
            self._newcomers.add(connection, peer[0] if isinstance(peer, tuple) else "")

    def _meet(self, connection: Connection) -> Tuple[_Messages, bytes]:
        """The worker, which has proved that it knows the secret, and its wish."""
        worker = _Messages(connection, self.key, _DRIVER)
        wish = worker.receive(b"wish", max(len(FETCH), len(DELIVER)))
        worker.send(b"welcome")
        _end_if_gone(connection)
        return worker, wish

    def _answer(self, met: Tuple[_Messages, bytes]) -> None:
        worker, wish = met
        if wish == FETCH:
            worker.send_behind_its_size(b"call", self._call)
            return
        outcome = worker.receive_behind_its_size(b"outcome")
        with self._lock:
            self._outcomes.append(outcome)
        worker.send(b"taken")


def _end_if_gone(connection: Connection) -> None:
    """Nobody waits for a peer whose host has gone for longer than half a minute, however long the call or its outcome takes."""
    peer = socket.socket(fileno=connection.fileno())
    try:
        if peer.family == socket.AF_INET:
            peer.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            for option in (socket.TCP_KEEPIDLE, socket.TCP_KEEPINTVL):
                peer.setsockopt(socket.IPPROTO_TCP, option, _GONE_SECONDS // 3)
            peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 2)
            peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, _GONE_SECONDS * 1000)
    finally:
        peer.detach()


def _dial(address: str, host: str) -> Connection:
    """`address` is a port at `host`, HOST:PORT, or the path of a socket."""
    where: Any = address
    if not address.startswith("/"):
        own_host, _, port = address.rpartition(":")
        where = (own_host or host, int(port))
    return Client(where)


def _introduced(connection: Connection, secret: bytes, wish: bytes) -> _Messages:
    driver = _Messages(connection, secret, _WORKER)
    driver.send(b"wish", wish)
    driver.receive(b"welcome", 0)
    return driver


@contextlib.contextmanager
def _driver(wish: bytes) -> Iterator[_Messages]:
    """The driver, which has proved that it knows the secret. If more peers come at once than it has room for, it closes
    the connections of some before it knows who they are; a worker then tries again."""
    address, secret = _options.run_rendezvous()
    until = time.monotonic() + RETRY_SECONDS
    while True:
        with _dial(address, _options.coordinator_host() if address.isdecimal() else "") as connection:
            try:
                driver = _introduced(connection, secret, wish)
            except (EOFError, ConnectionError):
                if time.monotonic() > until:
                    raise
            else:
                yield driver
                return
        threading.Event().wait(random.uniform(0.05, 0.5))


def fetch() -> Any:
    """On a worker: the arguments of the driver's Exchange; modules are looked for where the driver does."""
    with _driver(FETCH) as driver:
        paths, call = loads(driver.receive_behind_its_size(b"call"))
    sys.path.extend(path for path in paths if path not in sys.path)
    return loads(call)


def deliver(outcome: Outcome) -> None:
    """On a worker: gives the driver its outcome. Raises the exceptions of pickling it."""
    pickled = dumps(outcome)
    with _driver(DELIVER) as driver:
        driver.send_behind_its_size(b"outcome", pickled)
        driver.receive(b"taken", 0)
