"""OTLP intake, compared with Phoenix: rate, CPU, and spans that are lost by a stop.

One client sends requests of a hundred spans, one after the other, as an SDK does. Acknowledged: the last request was
answered. Stored: all spans can be read. Then a fresh server gets the same spans and a SIGTERM right after the last
answer; spans that it has not stored by then are lost.
"""

from __future__ import annotations

import contextlib
import hashlib
import sqlite3
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import NamedTuple

import msgspec
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from benchmarks import console_phoenix, peers
from benchmarks.console_programs import free_port
from benchmarks.measure import sandbox_environ
from benchmarks.run_processes import Meter, Process
from benchmarks.table import Result, Row

SPANS, BATCH = 5_000, 100
_PER_TRACE = 20
_TEXT = "What the model was asked and what it said is most of a span. " * 12
_PATIENCE = 1800.0


class Server(NamedTuple):
    """A program with OTLP intake."""

    process: Process
    url: str
    #: How many spans can be read.
    stored: Callable[[], int]


class Taken(NamedTuple):
    """The result of one run."""

    acknowledged_s: float
    stored_s: float
    cpu_ms: float


def bodies(seed: str) -> list[bytes]:
    """Requests as an instrumented program sends them."""
    found = []
    for start in range(0, SPANS, BATCH):
        request = ExportTraceServiceRequest()
        group = request.resource_spans.add()
        _set(group.resource.attributes, {"service.name": "bench", "openinference.project.name": "bench"})
        scope = group.scope_spans.add()
        for number in range(start, start + BATCH):
            _fill(scope.spans.add(), seed, number)
        found.append(request.SerializeToString())
    return found


def _fill(span: Span, seed: str, number: int) -> None:
    trace, place = divmod(number, _PER_TRACE)
    span.trace_id = hashlib.sha256(f"{seed} {trace}".encode()).digest()[:16]
    span.span_id = _span_id(seed, trace, place)
    if place:
        span.parent_span_id = _span_id(seed, trace, 0)
    span.name = "chat qwen-max" if place else "invoke_agent bench"
    began = 1_794_732_800_000_000_000 + number * 1_000_000
    span.start_time_unix_nano, span.end_time_unix_nano = began, began + 900_000
    told: dict[str, str | int] = {
        "session.id": f"{seed}-{trace // 10}",
        "gen_ai.conversation.id": f"{seed}-{trace // 10}",
    }
    if place:
        message = msgspec.json.encode([{"role": "user", "parts": [{"type": "text", "content": _TEXT}]}]).decode()
        told |= {
            "gen_ai.operation.name": "chat",
            "gen_ai.provider.name": "dashscope",
            "gen_ai.request.model": "qwen-max",
            "gen_ai.response.model": "qwen-max",
            "gen_ai.usage.input_tokens": 900,
            "gen_ai.usage.output_tokens": 80,
            "gen_ai.input.messages": message,
            "gen_ai.output.messages": message,
            "openinference.span.kind": "LLM",
        }
    _set(span.attributes, told)


def _span_id(seed: str, trace: int, place: int) -> bytes:
    return hashlib.sha256(f"{seed} {trace} {place}".encode()).digest()[:8]


def _set(attributes: object, values: dict[str, str | int]) -> None:
    for name, value in values.items():
        pair = attributes.add()  # type: ignore[attr-defined] # of protobuf's repeated fields only the stubs know a type
        pair.key = name
        if isinstance(value, int):
            pair.value.int_value = value
        else:
            pair.value.string_value = value


def send(url: str, requests: list[bytes]) -> None:
    """Send the requests one after the other; an answer other than 200 is an error."""
    for body in requests:
        headers = {"Content-Type": "application/x-protobuf"}
        with urllib.request.urlopen(urllib.request.Request(f"{url}/v1/traces", body, headers), timeout=120) as answer:
            assert answer.status == 200


@contextlib.contextmanager
def agenttrace(home: Path) -> Iterator[Server]:
    """``agenttrace up``: the server that accepts spans, and the recorder that stores them."""
    port = free_port()
    environ = sandbox_environ(home, AGENTTRACE_HOME=str(home / "store"), AGENTTRACE_SERVE_PORT=str(port))
    process = Process([sys.executable, "-m", "agenttrace.cli.main", "up"], environ=environ, talks=False)
    url = f"http://127.0.0.1:{port}"
    try:
        _await_answer(f"{url}/readyz")
        yield Server(process, url, lambda: _count(home / "store" / "agenttrace.db"))
    finally:
        process.stop()


@contextlib.contextmanager
def phoenix(programs: Path, home: Path) -> Iterator[Server]:
    """``phoenix serve`` with its own SQLite."""
    with console_phoenix.serving(programs, home, (free_port(), free_port())) as (process, url):
        yield Server(process, url, lambda: _count(home / "data" / "phoenix.db"))


def _count(path: Path) -> int:
    with contextlib.closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=30)) as connection:
        return int(connection.execute("SELECT count(*) FROM spans").fetchone()[0])


def _await_answer(url: str) -> None:
    deadline = time.monotonic() + 180
    while time.monotonic() < deadline:
        with contextlib.suppress(OSError), urllib.request.urlopen(url, timeout=5):
            return
        time.sleep(0.1)
    raise RuntimeError(f"{url} does not answer")


def take(server: Server, seed: str) -> Taken:
    """Send everything and wait until it is stored."""
    requests, meter, before = bodies(seed), Meter(server.process.pid), server.stored()
    cpu, began = meter.cpu_seconds(), time.monotonic()
    send(server.url, requests)
    acknowledged = time.monotonic() - began
    while server.stored() < before + SPANS:
        if time.monotonic() - began > _PATIENCE:
            raise RuntimeError(f"only {server.stored() - before} of {SPANS} spans were stored")
        time.sleep(0.02)
    stored = time.monotonic() - began
    return Taken(acknowledged, stored, (meter.cpu_seconds() - cpu) / SPANS * 1000)


def lost(opened: Callable[[], contextlib.AbstractContextManager[Server]]) -> int:
    """Acknowledged spans that are missing after a stop right after the last answer."""
    with opened() as server:
        send(server.url, bodies("stop"))
        server.process.stop()
    with opened() as server:
        # Spans that are stored after the next start are not lost.
        deadline = time.monotonic() + 20
        while server.stored() < SPANS and time.monotonic() < deadline:
            time.sleep(0.2)
        return SPANS - server.stored()


def measure(peers_folder: Path, work: Path) -> Result:
    """Measure AgentTrace and Phoenix."""
    programs: dict[str, Callable[[Path], contextlib.AbstractContextManager[Server]]] = {"agenttrace up": agenttrace}
    absent = []
    try:
        installed = console_phoenix.installed(peers_folder)
        programs[f"Phoenix {console_phoenix.VERSION}"] = lambda home: phoenix(installed, home)
    except peers.AbsentError as error:
        absent = [Row("Phoenix", {}, note=str(error))]
    rows: list[Row] = []
    base = None
    for number, (name, opened) in enumerate(programs.items()):
        with opened(work / f"intake-{number}") as server:
            take(server, "warm")
            taken = take(server, "measured")
        gone = lost(partial(opened, work / f"intake-stop-{number}"))
        base = base or taken.cpu_ms
        figures = {
            "acknowledged/s": f"{SPANS / taken.acknowledged_s:,.0f}",
            "stored/s": f"{SPANS / taken.stored_s:,.0f}",
            "CPU ms a span": f"{taken.cpu_ms:.2f}",
            "lost by a stop": f"{gone:,} of {SPANS:,}",
        }
        rows.append(Row(name, figures, taken.cpu_ms / base))
    return Result(f"Taking in {SPANS:,} spans over OTLP, {BATCH} a request", rows + absent)
