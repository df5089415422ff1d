"""A receiver of webhooks as a process that can be killed: notes each request in a file before it answers."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple

import forked


class Delivery(NamedTuple):
    """A request that was noted."""

    key: str
    body: dict[str, Any]
    at: float


class Receiver:
    """The process, on one port for its whole life and those of its successors."""

    def __init__(self, root: Path) -> None:
        self.file = root / "deliveries.jsonl"
        self.file.touch()
        with socket.socket() as found:
            found.bind(("127.0.0.1", 0))
            self.port = found.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}/hook"
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it, and wait until it answers."""
        command = [sys.executable, __file__, str(self.port), str(self.file)]
        self.process = forked.popen(command, env=dict(os.environ), stderr=subprocess.DEVNULL)
        deadline = time.monotonic() + 30
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
            except OSError:
                assert time.monotonic() < deadline
                time.sleep(0.02)
            else:
                return

    def kill(self) -> None:
        """SIGKILL, also in the middle of an answer."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()

    def deliveries(self) -> list[Delivery]:
        """What has arrived, in order; half a line of a kill was not answered."""
        lines = self.file.read_bytes().split(b"\n")
        return [Delivery(**json.loads(line)) for line in lines[:-1] if line.endswith(b"}")]


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        noted = {"key": self.headers["Idempotency-Key"], "body": body, "at": time.time()}
        # The newline first: half a line of a receiver that was killed stays alone.
        with open(sys.argv[2], "ab") as file:
            file.write(b"\n" + json.dumps(noted).encode() + b"\n")
        self.send_response(200)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"ok")

    def log_message(self, *_: object) -> None:
        return


if __name__ == "__main__":
    ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), _Handler).serve_forever()
