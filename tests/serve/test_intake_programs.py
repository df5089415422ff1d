"""Real programs send to a real server, and a real recorder records: nothing is missing, nothing is there twice."""

from __future__ import annotations

import http.client
import os
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import forked
import telemetry_rig
from agenttrace.config import Settings
from serve.intake_rig import PROTOBUF, TRACES, record, request, rows, sessions, span, tokens

HERE = Path(__file__).resolve().parent
DOCS = HERE.parents[1] / "docs" / "otlp-intake.md"
PATIENCE = 60.0


class Processes:
    """A server and a recorder on one data directory; each may be killed and started again."""

    def __init__(self, root: Path) -> None:
        self.settings = Settings(home=root / "home")
        self.environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(root),
            "AGENTTRACE_HOME": str(self.settings.home),
            "AGENTTRACE_RECORD_POLL_SECONDS": "0.2",
        }
        self._port = _free_port()
        self._server: subprocess.Popen[bytes] | None = None
        self._recorder: subprocess.Popen[bytes] | None = None
        #: Set while the server listens.
        self.listening = threading.Event()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    def start_server(self) -> None:
        command = [sys.executable, str(HERE / "intake_process.py"), str(self.settings.home), str(self._port)]
        self._server = forked.popen(command, env=self.environment, stdout=subprocess.PIPE)
        assert self._server.stdout is not None
        assert self._server.stdout.readline().decode().strip() == self.url
        self.listening.set()

    def start_recorder(self) -> None:
        command = [sys.executable, "-m", "agenttrace.cli.main", "record", "--json"]
        self._recorder = forked.popen(command, env=self.environment, stdout=subprocess.DEVNULL)

    def kill_server(self) -> None:
        self.listening.clear()
        _end(self._server, signal.SIGKILL)

    def kill_recorder(self) -> None:
        _end(self._recorder, signal.SIGKILL)

    def close(self) -> None:
        _end(self._server, signal.SIGTERM)
        _end(self._recorder, signal.SIGTERM)

    def wait_for(self, query: str, expected: Any) -> None:  # noqa: ANN401 - a value of the store
        """Wait until the store says so; the recorder works beside us."""
        until = time.monotonic() + PATIENCE
        found: Any = None
        while time.monotonic() < until:
            # The store may not be there yet.
            with suppress(Exception):
                ((found,),) = rows(self.settings, query)
                if found == expected:
                    return
            time.sleep(0.05)
        raise AssertionError(f"{query}: {found}, not {expected}")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _end(process: subprocess.Popen[bytes] | None, how: signal.Signals) -> None:
    if process is not None:
        process.send_signal(how)
        process.wait(PATIENCE)
        if process.stdout is not None:
            process.stdout.close()


@pytest.fixture
def processes(tmp_path: Path) -> Iterator[Processes]:
    found = Processes(tmp_path)
    found.start_server()
    found.start_recorder()
    yield found
    found.close()


def run_program(code: str, processes: Processes, tmp_path: Path, **environment: str) -> None:
    """Run a program that sends, as users would."""
    script = tmp_path / "program.py"
    script.write_text(code, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, str(script)],
        env={**processes.environment, **environment},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "Failed to export" not in done.stderr


AGENT = """
import json
from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http import Compression
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SimpleSpanProcessor

provider = TracerProvider(resource=Resource.create({"service.name": "shop"}))
exporter = OTLPSpanExporter(compression=Compression.Gzip)
provider.add_span_processor(PROCESSOR(exporter))
tracer = provider.get_tracer("test")
for turn in range(20):
    with tracer.start_as_current_span("POST /chat", attributes={"session.id": f"talk-{turn % 4}"}):
        with tracer.start_as_current_span("invoke_agent shopper", attributes={
            "gen_ai.operation.name": "invoke_agent", "gen_ai.usage.input_tokens": 300, "gen_ai.usage.output_tokens": 15,
        }):
            for call in range(3):
                with tracer.start_as_current_span("chat gpt-4o", attributes={
                    "gen_ai.operation.name": "chat", "gen_ai.request.model": "gpt-4o",
                    "gen_ai.usage.input_tokens": 100, "gen_ai.usage.cache_read.input_tokens": 40,
                    "gen_ai.usage.output_tokens": 5,
                    "gen_ai.input.messages": json.dumps([{"role": "user", "content": "hi"}]),
                }):
                    with tracer.start_as_current_span("POST"):
                        pass
                with tracer.start_as_current_span("execute_tool find", attributes={
                    "gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "find",
                }):
                    pass
provider.shutdown()
"""


@pytest.mark.parametrize("processor", ["BatchSpanProcessor", "SimpleSpanProcessor"])
def test_the_official_sdk(processes: Processes, tmp_path: Path, processor: str) -> None:
    """Whatever the SDK of OpenTelemetry exports, all at once or each span as it ends, is there: counts and tokens."""
    code = AGENT.replace("PROCESSOR", processor)
    run_program(code, processes, tmp_path, OTEL_EXPORTER_OTLP_ENDPOINT=processes.url)
    processes.wait_for("SELECT count(*) FROM spans", 20 * 11)
    found = list(sessions(processes.settings))
    assert [each["session_id"] for each in found] == [f"talk-{number}" for number in range(4)]
    for each in found:
        assert (each["turns"], each["steps"], each["tools"], each["errors"]) == (5, 15, 15, 0)
        assert (each["project"], each["first_prompt"], each["state"]) == ("shop", "hi", "ended")
    used = tokens(processes.settings)
    assert (used["requests"], used["input_tokens"], used["cache_read_tokens"], used["output_tokens"]) == (
        60,
        3600,
        2400,
        300,
    )


LANGFUSE = """
from langfuse import get_client, propagate_attributes

langfuse = get_client()
with langfuse.start_as_current_observation(as_type="agent", name="support", input={"q": "Where is it?"}) as agent:
    with propagate_attributes(session_id="parcel"):
        with langfuse.start_as_current_observation(
            as_type="generation", name="answer", model="gpt-4o", input=[{"role": "user", "content": "Where is it?"}]
        ) as generation:
            usage = {"input": 60, "output": 7, "input_cached_tokens": 40}
            generation.update(output={"role": "assistant", "content": "On its way."}, usage_details=usage)
        with langfuse.start_as_current_observation(as_type="tool", name="track", input={"id": 1}) as tool:
            tool.update(output="in transit")
    agent.update(output="On its way.")
langfuse.shutdown()
"""


def test_the_sdk_of_langfuse(processes: Processes, tmp_path: Path) -> None:
    """Langfuse's SDK, pointed at us by its own variables, shows up with session, model and tokens."""
    keys = {"LANGFUSE_PUBLIC_KEY": "pk-lf-1", "LANGFUSE_SECRET_KEY": "sk-lf-1", "LANGFUSE_BASE_URL": processes.url}
    run_program(LANGFUSE, processes, tmp_path, **keys)
    processes.wait_for("SELECT count(*) FROM spans", 3)
    (found,) = sessions(processes.settings)
    assert (found["session_id"], found["turns"], found["steps"], found["tools"]) == ("parcel", 1, 1, 1)
    assert (found["model"], found["first_prompt"]) == ("gpt-4o", "Where is it?")
    used = tokens(processes.settings)
    assert (used["input_tokens"], used["cache_read_tokens"], used["output_tokens"]) == (60, 40, 7)


@pytest.mark.parametrize("number", range(1))
def test_the_program_in_the_guide(processes: Processes, tmp_path: Path, number: int) -> None:
    """The Python programs of the guide work as they stand there."""
    program = re.findall(r"```python\n(.*?)```", DOCS.read_text(encoding="utf-8"), re.DOTALL)[number]
    run_program(program, processes, tmp_path, OTEL_EXPORTER_OTLP_ENDPOINT=processes.url)
    processes.wait_for("SELECT count(*) FROM sessions WHERE events > 0 AND session_id = 'order-4711'", 1)


@pytest.mark.skipif(shutil.which("curl") is None, reason="no curl on this machine")
def test_the_request_in_the_guide(processes: Processes, tmp_path: Path) -> None:
    """So does the request with curl."""
    (command,) = re.findall(r"```sh\n(curl .*?)```", DOCS.read_text(encoding="utf-8"), re.DOTALL)
    command = command.replace("http://127.0.0.1:8317", processes.url)
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "{}"
    processes.wait_for("SELECT count(*) FROM spans", 1)
    assert tokens(processes.settings)["requests"] == 1


# -- killed in the middle -----------------------------------------------------------------------------------------

#: What must not depend on when anything was killed.
OUTCOME = (
    "SELECT session_id, span_id, trace_id, parent_id, kind, name, start, end, status, model, response FROM spans "
    "ORDER BY 1, 2",
    "SELECT session_id, count(*), count(DISTINCT event_id), count(DISTINCT span_id) FROM processed_events GROUP BY 1",
    "SELECT session_id, turns, steps, tools, errors, events, started_at, last_at FROM sessions ORDER BY 1",
    "SELECT * FROM usage_rollup ORDER BY 1, 2, 3",
)


#: Where a request is sent, and its body.
Body = tuple[str, bytes]


def portions(chance: random.Random) -> list[Body]:
    """Requests of some conversations: model calls before their roots, which alone name the session; and telemetry."""
    spans = []
    for trace in range(1, 41):
        root = trace * 1000
        name = {"session.id": f"talk-{trace % 7}"}
        spans.append(span(root, trace=trace, start=trace, seconds=9, attributes=name if trace % 5 else {}))
        for number in range(1, chance.randint(2, 9)):
            told = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "gpt-4o", "gen_ai.usage.input_tokens": 10}
            spans.append(span(root + number, trace=trace, parent=root, start=trace, attributes=told))
    chance.shuffle(spans)
    bodies = [
        ("/v1/logs", telemetry_rig.request(*telemetry_rig.conversation(f"agent-{number}")).SerializeToString())
        for number in range(10)
    ]
    while spans:
        size = chance.randint(1, 6)
        bodies.append((TRACES, request(*spans[:size]).SerializeToString()))
        spans = spans[size:]
    chance.shuffle(bodies)
    return bodies


class Sender(threading.Thread):
    """Sends requests as an exporter does: again and again, until each is answered with 200."""

    def __init__(self, processes: Processes, bodies: list[Body], answered: threading.Semaphore) -> None:
        super().__init__()
        self._processes, self._bodies, self._answered = processes, bodies, answered

    def run(self) -> None:
        for body in self._bodies:
            while not self._sent(body):
                self._processes.listening.wait(PATIENCE)
            self._answered.release()

    def _sent(self, body: Body) -> bool:
        connection = http.client.HTTPConnection(self._processes.url.removeprefix("http://"), timeout=PATIENCE)
        try:
            connection.request("POST", *body, {"Content-Type": PROTOBUF})
            return connection.getresponse().status == 200
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_killed_in_the_middle(tmp_path: Path, seed: int) -> None:
    """Server and recorder are killed again and again while clients send and send again: in the end the store is the
    same as if nothing had happened, each span once, in its session, with its tokens counted once."""
    chance = random.Random(seed)
    bodies = portions(chance)
    expected = undisturbed(tmp_path / "calm", bodies)
    (tmp_path / "wild").mkdir()
    processes = Processes(tmp_path / "wild")
    processes.start_server()
    processes.start_recorder()
    answered = threading.Semaphore(0)
    shares = [bodies[number::3] for number in range(3)]
    # A sender may also send everything twice.
    senders = [Sender(processes, [*share, *share[: len(share) // 2]], answered) for share in shares]
    for sender in senders:
        sender.start()
    try:
        for _ in range(6):
            for _ in range(chance.randint(1, 12)):
                answered.acquire(timeout=PATIENCE)
            if chance.random() < 0.6:
                processes.kill_server()
                processes.start_server()
            else:
                processes.kill_recorder()
                processes.start_recorder()
        for sender in senders:
            sender.join(PATIENCE)
            assert not sender.is_alive()
    finally:
        processes.close()
    record(processes.settings)
    assert [rows(processes.settings, query) for query in OUTCOME] == expected


def undisturbed(root: Path, bodies: list[Body]) -> list[list[tuple[Any, ...]]]:
    """What the store says after everything was sent once, in order, to a server that lives."""
    root.mkdir()
    processes = Processes(root)
    processes.start_server()
    try:
        sender = Sender(processes, bodies, threading.Semaphore(0))
        sender.run()
    finally:
        processes.close()
    record(processes.settings)
    return [rows(processes.settings, query) for query in OUTCOME]
