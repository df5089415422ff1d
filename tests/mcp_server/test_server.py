"""The server as a process: what it offers, what stands on its stdout, how it begins and ends."""

from __future__ import annotations

import json
import signal
import subprocess
from typing import Any

import pytest

import forked
from cli.conftest import CLAUDE, Program

from .rig import Asker, serving

NAMES = [
    "list_sessions",
    "search",
    "read_session",
    "read_span",
    "read_requests",
    "outcomes",
    "compare",
    "overview",
    "usage",
    "limits",
    "errors",
    "insights",
    "rules",
    "status",
]
HELLO = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}},
}
READY = {"jsonrpc": "2.0", "method": "notifications/initialized"}


def call(number: int, tool: str, **arguments: Any) -> dict[str, Any]:  # noqa: ANN401 - as tools take them
    params = {"name": tool, "arguments": arguments}
    return {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}


class Wire:
    """The process with nothing before it but its pipes."""

    def __init__(self, program: Program) -> None:
        self.process = forked.popen(
            program.command("mcp"),
            env=program.environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )

    def send(self, *messages: object) -> None:
        assert self.process.stdin is not None
        for message in messages:
            data = message if isinstance(message, bytes) else json.dumps(message).encode()
            self.process.stdin.write(data + b"\n")
        self.process.stdin.flush()

    def receive(self) -> Any:  # noqa: ANN401 - a message
        assert self.process.stdout is not None
        return json.loads(self.process.stdout.readline())

    def end(self, number: int | None = None) -> tuple[int, bytes, bytes]:
        """Hang up, or send a signal: exit code, and what was still said."""
        if number is not None:
            self.process.send_signal(number)
        out, said = self.process.communicate(timeout=30)
        return self.process.returncode, out, said


@pytest.fixture
def wire(shared_store: Program) -> Any:  # noqa: ANN401 - a generator
    wire = Wire(shared_store)
    yield wire
    if wire.process.poll() is None:
        wire.process.kill()
    wire.process.communicate()


def test_what_is_offered(asker: Asker) -> None:
    """Seven tools that only read, described in words, with schemas that leave nothing open."""
    tools = asker.call(asker.client.list_tools).tools
    assert [tool.name for tool in tools] == NAMES
    for tool in tools:
        assert len(tool.description) > 100
        assert tool.annotations.read_only_hint is True
        assert tool.annotations.destructive_hint is False
        assert tool.annotations.open_world_hint is False
        schema = tool.input_schema
        assert schema["type"] == "object"
        assert schema["additionalProperties"] is False
        for field in schema["properties"].values():
            assert field.keys() & {"type", "enum"}
            assert field["description"]
        if tool.output_schema is not None:
            assert tool.output_schema["type"] == "object"
    assert "not instructions" in (asker.client.instructions or "")


@pytest.mark.parametrize("mode", ["auto", "2026-07-28"])
def test_newer_clients(shared_store: Program, mode: str) -> None:
    """Clients of the protocol without a handshake get the same answers."""
    with serving(shared_store, mode=mode) as asker:
        assert len(asker.fields("list_sessions")["sessions"]) == 7
        assert asker.blocks("read_session", session=CLAUDE)


def test_the_tools_as_json(shared_store: Program, asker: Asker) -> None:
    """``--json`` prints what clients receive."""
    printed = shared_store.json("mcp")
    offered = asker.call(asker.client.list_tools).tools
    assert printed == [tool.model_dump(mode="json", by_alias=True, exclude_none=True) for tool in offered]


def test_nothing_but_the_protocol_on_stdout(wire: Wire) -> None:
    """Every line is a message, also after lines that are none, and nothing is said on stderr."""
    wire.send(HELLO)
    assert wire.receive()["result"]["serverInfo"]["name"] == "agenttrace"
    wire.send(READY, b"no json", b"[1, 2]", b'{"jsonrpc":"2.0"}', b"\xff\xfe", b"", call(2, "status"))
    wire.send(call(3, "read_session", session=CLAUDE), call(4, "usage", by="model"), call(5, "errors", since="?"))
    answers = {message["id"]: message["result"] for message in (wire.receive() for _ in range(4))}
    assert [answers[number]["isError"] for number in (2, 3, 4, 5)] == [False, False, False, True]
    assert wire.end() == (0, b"", b"")


def test_end_of_input_is_the_end(wire: Wire) -> None:
    """Whenever the client hangs up: before it said anything, or while its question is being answered."""
    assert wire.end() == (0, b"", b"")


def test_end_of_input_during_a_question(wire: Wire) -> None:
    """The process ends all the same, with nothing to complain about."""
    wire.send(HELLO)
    wire.receive()
    wire.send(READY, *(call(number, "search", query="e*") for number in range(2, 40)))
    code, _, said = wire.end()
    assert (code, said) == (0, b"")


def test_cancelled_questions(wire: Wire) -> None:
    """Are answered once at most, and those after them are answered as ever."""
    wire.send(HELLO)
    wire.receive()
    wire.send(READY)
    for number in range(2, 30, 2):
        cancelled = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": number}}
        wire.send(call(number, "search", query="e*", limit=50), cancelled, call(number + 1, "status"))
        answered = [wire.receive()["id"]]
        while answered[-1] != number + 1:
            answered.append(wire.receive()["id"])
        assert answered in ([number + 1], [number, number + 1])
    assert wire.end() == (0, b"", b"")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signals_end_it(wire: Wire, number: signal.Signals) -> None:
    """At once and without a word, though it waits for input."""
    wire.send(HELLO)
    wire.receive()
    assert wire.end(number) == (-number, b"", b"")


def test_a_client_that_reads_no_more(wire: Wire) -> None:
    """A client that is gone ends the process without a traceback."""
    wire.send(HELLO)
    wire.receive()
    assert wire.process.stdout is not None
    wire.process.stdout.close()
    wire.send(READY, call(2, "list_sessions"))
    wire.process.stdout = None
    _, _, said = wire.end()
    assert b"Traceback" not in said


def test_masked_whatever_is_asked(program: Program) -> None:
    """A secret is nowhere in any answer; with ``--full`` it is."""
    key = "sk-ant-api03-" + "Ab3dEf6hIj9kLmNoPqRs" * 4 + "-AAAAAAAA"
    own = "tok-77-of-my-own"
    program.home.mkdir(mode=0o700)
    (program.home / "agenttrace.toml").write_text('[export]\nmask = ["tok-[0-9]+-of-my-own"]\n', encoding="utf-8")
    place = {"turn": 1, "step": 1, "ts": 1_794_733_000.0}
    secret = f"the key is {key} and {own} it is"
    program.log(
        "secrets",
        {"type": "session.begin", "id": "b", "title": secret, "project": f"/home/{key}", "branch": secret},
        {"type": "turn.begin", "id": "p", "prompt": secret, **place},
        {"type": "message", "id": "m", "role": "assistant", "text": secret, **place},
        {"type": "tool.begin", "id": "c", "name": "Bash", "arguments": {"command": f"KEY={key} run {own}"}, **place},
        {"type": "tool.end", "id": "c", "status": "error", "error": secret, "result": "x " * 90_000 + secret, **place},
        {"type": "turn.end", "id": "e", "status": "error", "error": secret, **place},
    )
    program.run("record", "--once", "--index")

    def everything(asker: Asker) -> str:
        failed = asker.fields("errors")
        found = [asker.fields(tool) for tool in ("list_sessions", "status")]
        found += [asker.fields("usage", by=by) for by in ("project", "session")]
        found += [asker.fields("search", query=word) for word in ("key", "run", '"it is"')]
        for detail in ("outline", "conversation", "short", "full"):
            found += [*asker.pages("read_session", session="secrets", detail=detail)]
        for each in failed["errors"]:
            found += [*asker.pages("read_span", session="secrets", span=each["span"])]
        resources = asker.call(asker.client.list_resources).resources
        found += [each.model_dump() for each in resources]
        found += [asker.call(asker.client.read_resource, each.uri).contents[0].text for each in resources]
        return json.dumps([failed, *found])

    with serving(program) as asker:
        shown = everything(asker)
    assert "my-own" not in shown
    for part in range(len(key) - 12):
        assert key[part : part + 12] == "sk-ant-api03"[:12] or key[part : part + 12] not in shown
    with serving(program, "--full", quiet=False) as asker:
        assert everything(asker) == shown
