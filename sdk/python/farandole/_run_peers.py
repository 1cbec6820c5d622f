"""The peers of run()'s driver, or of a compute service, that have not proved yet that they know its secret: how many are
served at a time, and for how long, so that strangers on the port keep no worker out."""

import collections
import contextlib
import errno
import math
import resource
import socket
import threading
import time
from multiprocessing.connection import AuthenticationError, Connection
from typing import Any, Callable, Counter, List, Union

# A peer has so long, from when it is served, until it has proved that it knows the secret.
PROOF_SECONDS = 10.0
# So many are served at a time before they have, or a quarter of the process's descriptors, if that is less.
MOST_SERVED = 64
# One that is served for longer than this gives its place to the next.
PATIENCE_SECONDS = 1.0
# So many wait for a place, or a quarter of the descriptors.
MOST_WAITING = 1024

AnyConnection = Union[Connection, socket.socket]


class _Peer:
    def __init__(self, connection: AnyConnection, address: str) -> None:
        self.connection = connection
        self.address = address
        # When it began to be served.
        self.since = 0.0

    def end(self) -> None:
        """Its thread finds that the connection has ended."""
        with contextlib.suppress(OSError):
            # No descriptor of its own: there may be none left.
            peer = socket.socket(fileno=self.connection.fileno())
            try:
                peer.shutdown(socket.SHUT_RDWR)
            finally:
                peer.detach()


def _crowd(peers: List[_Peer]) -> str:
    """The address that has most of them."""
    counts = collections.Counter(peer.address for peer in peers)
    # Counter.most_common() reads a module's file at its first call, for which there may be no descriptor.
    return max(counts, key=lambda address: counts[address])


def _quarter_of_descriptors() -> float:
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return math.inf if soft == resource.RLIM_INFINITY else max(1, soft // 4)


class Newcomers:
    """Serves each connection in a thread of its own: `prove` raises where the peer does not know the secret; `serve` gets
    its result. From start() to stop(); any thread may call it."""

    def __init__(self, prove: Callable[[Any], Any], serve: Callable[[Any], None]) -> None:
        self._prove = prove
        self._serve = serve
        self._most_served = min(MOST_SERVED, _quarter_of_descriptors())
        self._most_waiting = min(MOST_WAITING, _quarter_of_descriptors())
        self._changed = threading.Condition()
        self._is_over = False
        # Those that have not proved it yet, the oldest first.
        self._served: List[_Peer] = []
        self._waiting: List[_Peer] = []
        self._thread = threading.Thread(target=self._run, name="farandole-run-peers", daemon=True)

    def start(self) -> None:
        """Begins to serve."""
        self._thread.start()

    def add(self, connection: AnyConnection, address: str) -> None:
        """Takes a connection over, which `address` has made."""
        with self._changed:
            self._waiting.append(_Peer(connection, address))
            if len(self._waiting) > self._most_waiting:
                self._drop_waiting()
            self._changed.notify()

    def refused(self, error: OSError) -> bool:
        """After an accept() that has failed: whether there may be a descriptor for another one now."""
        with self._changed:
            has_place = error.errno in (errno.EMFILE, errno.ENFILE) and bool(self._waiting)
            if has_place:
                self._drop_waiting()
        return has_place

    def stop(self) -> None:
        """Ends the connections of those that have not proved that they know the secret."""
        with self._changed:
            self._is_over = True
            self._changed.notify()
        self._thread.join()
        with self._changed:
            for peer in self._served:
                peer.end()
            for peer in self._waiting:
                peer.connection.close()

    def _run(self) -> None:
        with self._changed:
            while not self._is_over:
                now = time.monotonic()
                while self._served and self._served[0].since + PROOF_SECONDS <= now:
                    self._served.pop(0).end()
                while self._waiting and self._make_place(now):
                    self._start(now)
                self._changed.wait(self._pause(now))

    def _oldest_of_crowd(self) -> _Peer:
        crowd = _crowd(self._served)
        return next(peer for peer in self._served if peer.address == crowd)

    def _make_place(self, now: float) -> bool:
        if len(self._served) < self._most_served:
            return True
        oldest = self._oldest_of_crowd()
        if oldest.since + PATIENCE_SECONDS > now:
            return False
        self._served.remove(oldest)
        oldest.end()
        return True

    def _drop_waiting(self) -> None:
        self._take_waiting(_crowd(self._waiting)).connection.close()

    def _take_waiting(self, address: str) -> _Peer:
        peer = next(peer for peer in self._waiting if peer.address == address)
        self._waiting.remove(peer)
        return peer

    def _start(self, now: float) -> None:
        """The next is of the address of which the fewest are served: one that has many waiting holds up none but its own."""
        served: Counter[str] = collections.Counter(peer.address for peer in self._served)
        peer = self._take_waiting(min((peer.address for peer in self._waiting), key=lambda address: served[address]))
        peer.since = now
        self._served.append(peer)
        threading.Thread(target=self._answer, args=(peer,), daemon=True).start()

    def _pause(self, now: float) -> "float | None":
        """How long nothing is to be done if nothing happens; None: for good."""
        ends = [self._served[0].since + PROOF_SECONDS] if self._served else []
        if self._waiting:
            ends.append(self._oldest_of_crowd().since + PATIENCE_SECONDS)
        return max(0.0, min(ends) - now) if ends else None

    def _answer(self, peer: _Peer) -> None:
        try:
            with peer.connection:
                try:
                    proven = self._prove(peer.connection)
                finally:
                    with self._changed, contextlib.suppress(ValueError):
                        self._served.remove(peer)
                        self._changed.notify()
                self._serve(proven)
        except (AuthenticationError, EOFError, OSError):
            pass  # no worker of ours, or one that has died: the launcher tells of it
