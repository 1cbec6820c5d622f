"""Calls of workers as bytes: a proxy that records them, and their file.

A tape is what workers of some version sent to a coordinator after it had been killed, and what that one answered. A later
coordinator is given the same state directory and the same calls (test_upgrade.py).
"""

import base64
import concurrent.futures
import json
import pathlib
import queue
import threading
from typing import Any, Iterator, List, NamedTuple, Optional, Tuple

import grpc

# A worker's stream has one for as long as it lives.
THREADS = 16


class Line(NamedTuple):
    """Something of a call, in the order in which it happened."""

    call: int
    what: str
    """"begin", "sent" by the worker, "got" by it, or "end"."""
    data: str = ""
    """Base64 of a message; the method of "begin"; the status code's name of "end"."""
    metadata: Tuple[Tuple[str, str], ...] = ()
    """Of "begin": what the worker adds to the call."""

    @property
    def message(self) -> bytes:
        """Of "sent" and "got"."""
        return base64.b64decode(self.data)


def write(lines: List[Line], path: pathlib.Path) -> None:
    """A line of JSON each."""
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="ascii")


def read(path: pathlib.Path) -> List[Line]:
    """Of a file that write() has written."""
    lines = [Line(*json.loads(text)) for text in path.read_text(encoding="ascii").splitlines()]
    return [line._replace(metadata=tuple((key, value) for key, value in line.metadata)) for line in lines]


def _own(metadata: Any) -> Tuple[Tuple[str, str], ...]:
    """Without what gRPC adds by itself."""
    return tuple((key, value) for key, value in metadata if key in ("authorization",) or key.startswith("farandole"))


class Proxy(grpc.GenericRpcHandler):
    """Listens on a port of loopback, passes all calls on to `target`, and records them."""

    def __init__(self, target: str) -> None:
        self.target = target
        self._lock = threading.Lock()
        self._lines: List[Line] = []
        self._calls = 0
        self._server = grpc.server(concurrent.futures.ThreadPoolExecutor(THREADS))
        self._server.add_generic_rpc_handlers((self,))
        self.address = f"127.0.0.1:{self._server.add_insecure_port('127.0.0.1:0')}"
        self._server.start()

    def take(self) -> List[Line]:
        """The lines since the last call of this."""
        with self._lock:
            lines, self._lines = self._lines, []
        return lines

    def close(self) -> None:
        """Ends all calls."""
        self._server.stop(0).wait()

    def service(self, handler_call_details: Any) -> Any:
        """gRPC's: how this call is handled, which is always as a stream both ways, since that is the same on the wire."""
        method = handler_call_details.method
        return grpc.stream_stream_rpc_method_handler(lambda requests, context: self._pass_on(method, requests, context))

    def _note(self, line: Line) -> None:
        with self._lock:
            self._lines.append(line)

    def _pass_on(self, method: str, requests: Iterator[bytes], context: grpc.ServicerContext) -> Iterator[bytes]:
        metadata = _own(context.invocation_metadata())
        with self._lock:
            self._calls += 1
            call = self._calls
        self._note(Line(call, "begin", method, metadata))

        def sent() -> Iterator[bytes]:
            for message in requests:
                self._note(Line(call, "sent", base64.b64encode(message).decode()))
                yield message

        with grpc.insecure_channel(self.target) as channel:
            answers = channel.stream_stream(method)(sent(), metadata=metadata)
            context.add_callback(answers.cancel)
            code, text = grpc.StatusCode.OK, ""
            try:
                for message in answers:
                    self._note(Line(call, "got", base64.b64encode(message).decode()))
                    yield message
            except grpc.RpcError as error:
                code, text = error.code(), error.details()
            self._note(Line(call, "end", code.name))
        if code is not grpc.StatusCode.OK:
            context.abort(code, text)


class Replayed:
    """A recorded call that is made again."""

    def __init__(self, channel: grpc.Channel, method: str, metadata: Tuple[Tuple[str, str], ...]) -> None:
        self._to_send: "queue.Queue[Optional[bytes]]" = queue.Queue()
        self._answers = channel.stream_stream(method)(iter(self._to_send.get, None), metadata=metadata)
        self._got: "queue.Queue[object]" = queue.Queue()
        self.method = method
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        try:
            for message in self._answers:
                self._got.put(message)
            self._got.put(grpc.StatusCode.OK)
        except grpc.RpcError as error:
            self._got.put(error)

    def send(self, message: bytes) -> None:
        """One message."""
        self._to_send.put(message)

    def close(self) -> None:
        """No more is sent."""
        self._to_send.put(None)

    def get(self, seconds: float) -> object:
        """The next message (bytes), the status OK, or the error that ended the call; TimeoutError: none came."""
        try:
            return self._got.get(timeout=seconds)
        except queue.Empty:
            raise TimeoutError(f"{self.method}: nothing came within {seconds} s") from None

    def cancel(self) -> None:
        """Ends it."""
        self._answers.cancel()
