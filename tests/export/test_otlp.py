"""Spans to a real receiver: HTTP on loopback, decoded as OTLP."""

import gzip
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from export.samples import RUN
from ostler.errors import OstlerError
from ostler.export.otlp import send
from ostler.export.spans import spans


class Receiver(BaseHTTPRequestHandler):
    """Keeps what it is sent."""

    taken: "list[tuple[str, ExportTraceServiceRequest]]"
    status = 200

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.headers.get("Content-Encoding") == "gzip":
            body = gzip.decompress(body)
        self.taken.append((self.path, ExportTraceServiceRequest.FromString(body)))
        self.send_response(self.status)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        pass


@contextmanager
def receiver(status: int = 200) -> Iterator[tuple[str, list[tuple[str, ExportTraceServiceRequest]]]]:
    own = type("OwnReceiver", (Receiver,), {"taken": [], "status": status})
    server = ThreadingHTTPServer(("127.0.0.1", 0), own)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/v1/traces", own.taken
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def test_spans_arrive_as_they_were() -> None:
    made = spans(RUN, content=False)
    with receiver() as (address, taken):
        send(made, address, "1.2")
    ((path, request),) = taken
    assert path == "/v1/traces"
    (resource,) = request.resource_spans
    about = {each.key: each.value.string_value for each in resource.resource.attributes}
    assert (about["service.name"], about["service.version"]) == ("ostler", "1.2")
    arrived = resource.scope_spans[0].spans
    assert [(s.trace_id.hex(), s.span_id.hex(), s.parent_span_id.hex(), s.name) for s in arrived] == [
        (s.trace, s.id, s.parent, s.name) for s in made
    ]
    assert [(s.start_time_unix_nano / 1e9, s.end_time_unix_nano / 1e9) for s in arrived] == [
        (s.start, s.end) for s in made
    ]
    assert [s.status.message for s in arrived] == [s.error or "" for s in made]
    tokens = {each.key: each.value.int_value for each in arrived[2].attributes}
    assert tokens["gen_ai.usage.input_tokens"] == 10


def test_a_receiver_that_refuses_is_told() -> None:
    with receiver(status=400) as (address, _), pytest.raises(OstlerError, match="did not accept the spans") as told:
        send(spans(RUN, content=False), address, "1.2")
    assert told.value.kind == "crashed"
