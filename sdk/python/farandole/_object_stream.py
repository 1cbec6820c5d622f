"""A pickled object as a stream of bounded chunks, so that neither side ever holds it whole as bytes."""

import io
from typing import Any, Callable, Tuple

from ._pickles import Pickler, Unpickler

# Large enough to travel at full speed, small enough to be forgotten.
CHUNK_BYTES = 16 << 20

# The kinds of a chunk: one of several, the last one, or the sentence that says why there is no more.
MORE, LAST, FAILED = 0, 1, 2

Send = Callable[[int, bytearray], None]
Receive = Callable[[], Tuple[int, bytearray]]


class _Sender:
    """The file that a pickler writes to."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self.chunk = bytearray()

    def write(self, data: Any) -> int:
        view = memoryview(data).cast("B")
        start = 0
        while len(self.chunk) + len(view) - start > CHUNK_BYTES:
            end = start + CHUNK_BYTES - len(self.chunk)
            self.chunk += view[start:end]
            start = end
            self._send(MORE, self.chunk)
            self.chunk = bytearray()
        self.chunk += view[start:]
        return len(view)


class _Receiver(io.RawIOBase):
    """The file that an unpickler reads from."""

    def __init__(self, receive: Receive) -> None:
        super().__init__()
        self._receive = receive
        self._chunk = memoryview(b"")
        self.is_over = False

    def readable(self) -> bool:
        return True

    def readinto(self, target: Any) -> int:
        while not self._chunk and not self.is_over:
            self._next()
        count = min(len(target), len(self._chunk))
        target[:count] = self._chunk[:count]
        self._chunk = self._chunk[count:]
        return count

    def drain(self) -> None:
        """Receives the remaining pieces and drops them, so that the sender is not left alone."""
        while not self.is_over:
            self._next()

    def _next(self) -> None:
        self.is_over = True  # also where receiving fails
        kind, content = self._receive()
        if kind == FAILED:
            raise RuntimeError(content.decode(errors="replace"))
        self.is_over = kind == LAST
        self._chunk = memoryview(content)


def send(obj: Any, who: str, send_chunk: Send) -> None:
    """Pickles an object into chunks; `who` begins the sentence for the receivers of one that cannot be pickled, whose
    exception this raises too. Exceptions of `send_chunk` pass unchanged."""
    interrupted = []

    def sending(kind: int, chunk: bytearray) -> None:
        try:
            send_chunk(kind, chunk)
        except BaseException:
            interrupted.append(True)
            raise

    sender = _Sender(sending)
    try:
        Pickler(sender, protocol=5).dump(obj)
    except Exception as error:  # pylint: disable=broad-except; the others are told of whatever it is
        if not interrupted:
            send_chunk(FAILED, bytearray(f"{who}: {error}".encode()))
        raise
    send_chunk(LAST, sender.chunk)


def receive(receive_chunk: Receive) -> Any:
    """Makes the object of its chunks. RuntimeError: its sender could not pickle it."""
    receiver = _Receiver(receive_chunk)
    try:
        return Unpickler(io.BufferedReader(receiver)).load()
    finally:
        receiver.drain()
