"""A stranger between workers of several hosts, who hears all that they send each other, and can change it."""

import re
import socket
import threading
from typing import Callable, Dict, List

# A worker's address in what the coordinator tells of the epoch. All ports that the system gives have five digits.
ENDPOINT = re.compile(rb"tcp:127\.0\.0\.1:(\d{5})")
# Of a connection: what the connector sends before its first byte of payload: its claim with its proof, and that it has
# chosen this connection (worker/transport/tcp/peer_proof.h). The acceptor sends its random bytes and its proof.
CONNECTORS_HANDSHAKE = 88 + 1
ACCEPTORS_HANDSHAKE = 32 + 32
PURPOSE_AT = 20
RELAY, DATA = 1, 2

Forward = Callable[[bytes], bytes]


class Direction:
    """The bytes that one end of a connection between two workers has sent, in order."""

    def __init__(self, handshake: int) -> None:
        self.handshake = handshake
        self.heard = bytearray()

    @property
    def payload(self) -> bytes:
        """Without the handshake."""
        return bytes(self.heard[self.handshake :])


class Connection:
    """One that was made between two workers, or tried."""

    def __init__(self) -> None:
        self.from_connector = Direction(CONNECTORS_HANDSHAKE)
        self.from_acceptor = Direction(ACCEPTORS_HANDSHAKE)

    @property
    def purpose(self) -> int:
        """RELAY or DATA; 0: it has not said so yet."""
        heard = self.from_connector.heard
        return heard[PURPOSE_AT] if len(heard) > PURPOSE_AT else 0


class Wire:
    """Stands in the coordinator's place for the workers of a job on loopback, and tells each that the others are reached
    at places of its own, from which it passes everything on."""

    def __init__(self, coordinator: str) -> None:
        self.connections: List[Connection] = []
        self._flips_after: Dict[int, int] = {}
        self._lock = threading.Lock()
        self._listeners: List[socket.socket] = []
        self._places: Dict[bytes, bytes] = {}
        host, port = coordinator.rsplit(":", 1)
        self.address = f"127.0.0.1:{self._listen((host, int(port)), self._tell)}"

    def flip(self, purpose: int, after: int) -> None:
        """Changes one bit of what the connector of one connection of this purpose sends, after so many bytes of its
        payload from now on."""
        with self._lock:
            self._flips_after[purpose] = after

    def heard(self, purpose: int) -> bytes:
        """All payload of all connections of this purpose, one direction of one connection after the other."""
        return b"".join(
            direction.payload
            for connection in self.connections
            if connection.purpose == purpose
            for direction in (connection.from_connector, connection.from_acceptor)
        )

    def close(self) -> None:
        """Takes no more connections; those there are go on."""
        for listener in self._listeners:
            listener.close()

    def _listen(self, target: "tuple[str, int]", serve: Callable[[socket.socket, socket.socket], None]) -> int:
        listener = socket.create_server(("127.0.0.1", 0))
        self._listeners.append(listener)

        def accept() -> None:
            while True:
                try:
                    near, _ = listener.accept()
                except OSError:  # closed
                    return
                try:
                    far = socket.create_connection(target)
                except OSError:  # the target is not there; the client tries again
                    near.close()
                    continue
                for end in (near, far):
                    end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                serve(near, far)

        threading.Thread(target=accept, daemon=True).start()
        return int(listener.getsockname()[1])

    @staticmethod
    def _forward(source: socket.socket, sink: socket.socket, change: Forward) -> None:
        def run() -> None:
            try:
                while data := source.recv(1 << 20):
                    sink.sendall(change(data))
            except OSError:
                pass
            for end in (source, sink):
                try:
                    end.shutdown(socket.SHUT_RDWR)
                except OSError:  # it has ended already
                    pass

        threading.Thread(target=run, daemon=True).start()

    def _tell(self, worker: socket.socket, coordinator: socket.socket) -> None:
        self._forward(worker, coordinator, lambda data: data)
        self._forward(coordinator, worker, self._move)

    def _move(self, told: bytes) -> bytes:
        """The coordinator's words, with places of this object instead of the workers' own."""

        def place(found: "re.Match[bytes]") -> bytes:
            port = found.group(1)
            with self._lock:
                if port not in self._places:
                    self._places[port] = b"%d" % self._listen(("127.0.0.1", int(port)), self._pass_on)
                return b"tcp:127.0.0.1:" + self._places[port]

        return ENDPOINT.sub(place, told)

    def _pass_on(self, connector: socket.socket, acceptor: socket.socket) -> None:
        connection = Connection()
        self.connections.append(connection)
        self._forward(connector, acceptor, lambda data: self._hear(connection, connection.from_connector, data))
        self._forward(acceptor, connector, lambda data: self._hear(connection, connection.from_acceptor, data))

    def _hear(self, connection: Connection, direction: Direction, data: bytes) -> bytes:
        before = len(direction.heard)
        direction.heard += data
        if direction is not connection.from_connector or before < direction.handshake:
            return data
        with self._lock:
            after = self._flips_after.get(connection.purpose)
            if after is None:
                return data
            if after >= len(data):
                self._flips_after[connection.purpose] = after - len(data)
                return data
            del self._flips_after[connection.purpose]
        return data[:after] + bytes([data[after] ^ 1]) + data[after + 1 :]
