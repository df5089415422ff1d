"""Sending spans: CPU of the exporter from the store to the acknowledgement, compared with OpenTelemetry's SDK.

Both send to the same sink on 127.0.0.1, which reads a body and answers 200. AgentTrace reads spans and texts from the
store, masks them, and writes its ledger. OpenTelemetry's SDK for Python creates as many spans and attributes,
with texts of the same average length, and sends them in batches of the same size; it stores nothing.
"""

from __future__ import annotations

import contextlib
import sqlite3
import sys
from collections.abc import Iterator
from pathlib import Path

from benchmarks.generate import cached_claude
from benchmarks.measure import Cost, run, sandbox_environ
from benchmarks.run_processes import running
from benchmarks.table import Result, Row

MEGABYTES = 100.0
BATCH = 500
_ROOT = Path(__file__).parents[1]
_SINK = """
import asyncio, json
from aiohttp import web
async def take(request):
    global count
    count += len(await request.read())
    return web.Response(content_type="application/x-protobuf")
async def said(request):
    return web.json_response({"bytes": count})
count = 0
async def main():
    app = web.Application(client_max_size=1 << 30)
    app.router.add_post("/v1/traces", take)
    app.router.add_get("/said", said)
    runner = web.AppRunner(app, auto_decompress=False)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    print(json.dumps(runner.addresses[0][1]), flush=True)
    await asyncio.Event().wait()
asyncio.run(main())
"""
_SDK = """
import sys
from opentelemetry.exporter.otlp.proto.http import Compression
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
url, count, chars, batch = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
provider = TracerProvider()
exporter = OTLPSpanExporter(endpoint=url, compression=Compression.Gzip)
processor = BatchSpanProcessor(exporter, max_queue_size=2 * batch, max_export_batch_size=batch)
provider.add_span_processor(processor)
tracer = provider.get_tracer("bench")
text = ("all work and no play " * (chars // 20 + 1))[:chars]
facts = {f"gen_ai.fact.{number}": f"value {number}" for number in range(12)}
for number in range(count):
    with tracer.start_as_current_span("chat qwen-max", attributes=facts) as span:
        span.set_attribute("gen_ai.output.messages", text)
        span.set_attribute("gen_ai.usage.input_tokens", number)
    if number % batch == batch - 1:
        processor.force_flush()
processor.force_flush()
provider.shutdown()
"""


@contextlib.contextmanager
def sink() -> Iterator[str]:
    """The sink that all spans are sent to."""
    environ = sandbox_environ(_ROOT / "benchmarks" / "data")
    with running([sys.executable, "-c", _SINK], environ=environ) as process:
        yield f"http://127.0.0.1:{process.line()}/v1/traces"


def measure(data: Path, work: Path) -> Result:
    """Content off, masked and full, and the SDK."""
    tree, _ = cached_claude(data, MEGABYTES)
    home = work / "export"
    rows: list[Row] = []
    base: float | None = None
    with sink() as url:
        for level in ("masked", "full", "off"):
            spans, chars, cost = _sent(tree, home / level, url, level)
            base = base or cost.cpu_seconds / spans
            rows.append(_row(f"agenttrace export, content {level}", cost, spans, base))
            if level == "full":
                program = [sys.executable, "-c", _SDK, url, str(spans), str(chars // spans), str(BATCH)]
                theirs = run(program, environ=sandbox_environ(home / "sdk"))
                assert theirs.exit_code == 0, theirs.output
                rows.append(_row("opentelemetry-sdk, as many spans", theirs, spans, base))
    return Result(f"Sending {spans:,} spans over OTLP, {BATCH} a request", rows)


def _sent(tree: Path, home: Path, url: str, level: str) -> tuple[int, int, Cost]:
    """The number of spans, the characters of their texts, and the cost of sending them."""
    store = home / "store"
    store.mkdir(parents=True)
    (store / "agenttrace.toml").write_text(
        f'[destinations.sink]\ntype = "otlp"\nurl = "{url}"\nstart = "all"\nbatch_spans = {BATCH}\n'
        f'prompts = "{level}"\ntool_inputs = "{level}"\ntool_outputs = "{level}"\n'
    )
    environ = sandbox_environ(home, AGENTTRACE_HOME=str(store), CLAUDE_CONFIG_DIR=str(tree))
    program = [sys.executable, "-m", "agenttrace.cli.main"]
    recorded = run([*program, "record", "--once"], environ=environ)
    assert recorded.exit_code == 0, recorded.output
    cost = run([*program, "export", "run", "--once"], environ=environ)
    assert cost.exit_code == 0, cost.output
    with contextlib.closing(sqlite3.connect(store / "agenttrace.db")) as connection:
        (spans,) = connection.execute("SELECT count(*) FROM export_spans WHERE state = 'acknowledged'").fetchone()
        (chars,) = connection.execute("SELECT sum(raw_bytes) FROM raw_blocks").fetchone()
    return int(spans), int(chars) // 2, cost


def _row(name: str, cost: Cost, spans: int, base: float) -> Row:
    each = cost.cpu_seconds / spans
    figures = {
        "CPU ms a span": f"{each * 1000:.3f}",
        "spans/s": f"{spans / cost.wall_seconds:,.0f}",
        "peak MB": f"{cost.peak_mb:.0f}",
    }
    return Row(name, figures, each / base)
