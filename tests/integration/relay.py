"""A relay of TCP connections, between a worker and its coordinator, which can lose what the one side says."""

import socket
import threading
from typing import List, Set, Tuple


class Relay:
    """Listens on loopback and connects each client with the target."""

    def __init__(self, target: str) -> None:
        host, port = target.rsplit(":", 1)
        self._target = (host, int(port))
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self._pairs: List[Tuple[socket.socket, socket.socket]] = []
        self._is_deaf = False
        self._is_cut = False
        # Bytes that the target has said on a connection after it was asked for events.
        self.event_bytes = 0
        self._followed: Set[socket.socket] = set()
        self._lock = threading.Lock()
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            if self._is_cut:
                near.close()
                continue
            try:
                far = socket.create_connection(self._target)
            except OSError:  # the target is not there; the client tries again
                near.close()
                continue
            with self._lock:
                self._pairs.append((near, far))
            threading.Thread(target=self._forward, args=(near, far, False), daemon=True).start()
            threading.Thread(target=self._forward, args=(far, near, True), daemon=True).start()

    def _forward(self, source: socket.socket, sink: socket.socket, is_answer: bool) -> None:
        try:
            while data := source.recv(65536):
                with self._lock:
                    if is_answer and self._is_deaf:
                        continue
                    if is_answer and sink in self._followed:
                        self.event_bytes += len(data)
                    if not is_answer and data.startswith(b"GET /api/v1/events?"):
                        self._followed.add(source)
                sink.sendall(data)
        except OSError:
            pass
        self._break([(source, sink)])

    @staticmethod
    def _break(pairs: List[Tuple[socket.socket, socket.socket]]) -> None:
        for pair in pairs:
            for end in pair:
                try:
                    end.shutdown(socket.SHUT_RDWR)
                except OSError:  # it has ended already
                    pass

    def lose_answers(self) -> None:
        """From now on nothing that the target says arrives."""
        with self._lock:
            self._is_deaf = True

    def cut(self) -> None:
        """Breaks all connections, and each later one at once."""
        self._is_cut = True
        self.renew()

    def mend(self) -> None:
        """Later connections work again."""
        self._is_cut = False

    def renew(self) -> None:
        """Breaks all connections; later ones work again."""
        with self._lock:
            pairs, self._pairs = self._pairs, []
            self._break(pairs)
            self._is_deaf = False

    def close(self) -> None:
        """Breaks all connections, and takes no more."""
        self._listener.close()
        self.renew()
