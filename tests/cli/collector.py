"""A server that takes OTLP over HTTP and keeps what it gets, or behaves badly as a test wants it to."""

from __future__ import annotations

import gzip
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Literal

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

#: Take spans; refuse them; say that it is too much for now.
Manner = Literal["take", "refuse", "busy"]


class Collector:
    """What came, and how the next requests are met."""

    def __init__(self) -> None:
        self.manner: Manner = "take"
        self.spans: Counter[bytes] = Counter()
        self.bodies: list[bytes] = []
        #: Set when a request has come.
        self.asked = threading.Event()
        self.url = ""

    def meet(self, body: bytes) -> tuple[int, bytes]:
        """The answer to a request."""
        found = ExportTraceServiceRequest.FromString(body)
        ids = [span.span_id for each in found.resource_spans for scope in each.scope_spans for span in scope.spans]
        if ids:
            self.asked.set()
        if self.manner == "refuse" and ids:
            return 400, b"these are no good"
        if self.manner == "busy" and ids:
            return 503, b"later"
        self.spans.update(ids)
        self.bodies.append(body)
        return 200, b""


@contextmanager
def collecting() -> Iterator[Collector]:
    """A collector that listens while the block lasts."""
    collector = Collector()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if self.headers.get("Content-Encoding") == "gzip":
                body = gzip.decompress(body)
            status, answer = collector.meet(body)
            self.send_response(status)
            self.send_header("Content-Type", "application/x-protobuf")
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    collector.url = f"http://127.0.0.1:{server.server_address[1]}/v1/traces"
    try:
        yield collector
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
