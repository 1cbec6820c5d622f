"""A collector of spans that speaks OTLP over HTTP in JSON, and takes nothing that OpenTelemetry's messages do not have."""

import base64
import http.server
import json
import threading
import time
from typing import Any, Callable, Dict, List

from google.protobuf import json_format
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

IDS = ("traceId", "spanId", "parentSpanId")


def read_request(body: bytes) -> ExportTraceServiceRequest:
    """The request; raises where the body is none. OTLP writes ids in hexadecimal digits, and protobuf bytes in base64."""
    document = json.loads(body)
    for of_resource in document["resourceSpans"]:
        for of_scope in of_resource["scopeSpans"]:
            for span in of_scope["spans"]:
                for key in filter(span.__contains__, IDS):
                    span[key] = base64.b64encode(bytes.fromhex(span[key])).decode()
                for key in ("startTimeUnixNano", "endTimeUnixNano"):
                    assert isinstance(span[key], str), f"{key} is not text: {span[key]}"
    return json_format.Parse(json.dumps(document), ExportTraceServiceRequest(), ignore_unknown_fields=False)


def value_of(value: Any) -> Any:
    """An attribute's value (AnyValue), as Python has it."""
    kind = value.WhichOneof("value")
    if kind == "array_value":
        return [value_of(one) for one in value.array_value.values]
    return getattr(value, kind)


def attributes_of(message: Any) -> Dict[str, Any]:
    """Of a span, an event or a resource."""
    found = {attribute.key: value_of(attribute.value) for attribute in message.attributes}
    assert len(found) == len(message.attributes), f"a key is there twice: {message.attributes}"
    return found


class Collector:
    """Serves until close(). `answer` is the status of its replies; 0: it does not reply until it is another."""

    def __init__(self, port: int = 0) -> None:
        self.spans: List[Any] = []
        self.headers: List[Dict[str, str]] = []
        self.resources: List[Dict[str, Any]] = []
        self.wrong: List[str] = []
        self._asked = 0
        self._answer = 200
        self._changed = threading.Condition()
        collector = self

        class Answers(http.server.BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                status = collector.take(self.path, dict(self.headers), body)
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", "2")
                self.end_headers()
                self.wfile.write(b"{}")

            def log_message(self, format: str, *words: object) -> None:
                pass

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", port), Answers)
        self._server.daemon_threads = True
        self.port = self._server.server_address[1]
        self.url = f"http://127.0.0.1:{self.port}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def take(self, path: str, headers: Dict[str, str], body: bytes) -> int:
        """A request has come; returns the reply's status. Keeps its spans if that is 200."""
        with self._changed:
            self._asked += 1
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._answer != 0)
            if self._answer != 200:
                return self._answer
            try:
                assert path == "/v1/traces" and headers["Content-Type"] == "application/json", (path, headers)
                request = read_request(body)
            except Exception as error:  # the test shows it
                self.wrong.append(f"{error!r}: {body!r}")
                return 400
            for of_resource in request.resource_spans:
                self.resources.append(attributes_of(of_resource.resource))
                for of_scope in of_resource.scope_spans:
                    self.spans.extend(of_scope.spans)
            self.headers.append(headers)
            self._changed.notify_all()
            return 200

    def answer(self, status: int) -> None:
        """From now on, and for requests that wait."""
        with self._changed:
            self._answer = status
            self._changed.notify_all()

    def await_request(self, seconds: float) -> None:
        """Waits until there has been a request, whatever the reply."""
        with self._changed:
            assert self._changed.wait_for(lambda: self._asked > 0, seconds), "nobody asks"

    def await_spans(self, name: str, count: int, seconds: float) -> List[Any]:
        """Waits until there are so many spans of this name; all spans, then."""
        deadline = time.monotonic() + seconds
        with self._changed:
            self._changed.wait_for(
                lambda: self.wrong or len(self.named(name)) >= count, max(0.0, deadline - time.monotonic())
            )
            assert not self.wrong, self.wrong
            assert len(self.named(name)) >= count, f"no {count} spans {name!r}, but {[one.name for one in self.spans]}"
            return list(self.spans)

    def named(self, name: str) -> List[Any]:
        """The spans of this name, in the order in which they came."""
        return [span for span in self.spans if span.name == name]

    def close(self) -> None:
        """Refuses connections from now on."""
        self.answer(503)
        self._server.shutdown()
        self._server.server_close()


def check_tree(spans: List[Any], is_root: Callable[[Any], bool]) -> None:
    """Fails unless the spans are one trace whose ids are all different, with one root, and each begins and ends in order
    and not before its parent."""
    by_id = {span.span_id: span for span in spans}
    assert len(by_id) == len(spans) and len({span.trace_id for span in spans}) == 1, spans
    assert [len(span.trace_id) for span in spans] == [16] * len(spans) and set(map(len, by_id)) == {8}
    roots = [span for span in spans if is_root(span)]
    assert [span.name for span in roots] == ["run"], roots
    for span in spans:
        assert span.start_time_unix_nano <= span.end_time_unix_nano, span
        for event in span.events:
            assert span.start_time_unix_nano <= event.time_unix_nano <= span.end_time_unix_nano, span
        if not is_root(span):
            assert by_id[span.parent_span_id].start_time_unix_nano <= span.start_time_unix_nano, span
