"""Kimi CLI's ``wire.jsonl``: one wire message a line, with no id but its time.

A foreground subagent is written twice, in its own file and wrapped in the parent's. Where its own file is
there, that one is folded and the wrapped events only say who started whom; where it is not (old versions,
forks) the wrapped events are folded in a stream of their own.
"""

from __future__ import annotations

import hashlib
import os
import re
import tomllib
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, TypeVar

import msgspec

from agenttrace.model import Event, Usage
from agenttrace.record.acts import (
    Act,
    Note,
    ResponseUsage,
    Spawned,
    StepBegin,
    StepEnd,
    ToolArguments,
    ToolBegin,
    ToolEnd,
    TurnBegin,
    TurnEnd,
    Waiting,
)
from agenttrace.record.agents.contract import Content, Source, Unusable
from agenttrace.record.agents.lenient import DECODING_ERRORS, count, value_of, whole_objects

LOG_NAME = "wire.jsonl"
#: Tools that hand the work to a subagent (``Task`` until 1.24).
AGENT_TOOLS = frozenset({"Agent", "Task"})
#: A turn that begins this soon after another's edge, with no step between, was started by a flow.
NESTED_TURN_GAP = 1_000_000
#: Shorter message ids are counters (``scripted-1``, ``chatcmpl-123``) and repeat between sessions.
PROVIDER_ID_LENGTH = 16
#: No companion file of any use is larger.
COMPANION_LIMIT = 4 << 20
#: How many subagents a stream's memory holds; a forgotten one is only announced again.
REMEMBERED = 64
#: How much of a prompt or an error message goes onto a span.
TEXT_LIMIT = 400

_NULL = msgspec.Raw(b"null")


class _Message(msgspec.Struct, gc=False):
    type: str = "unknown"
    payload: msgspec.Raw = _NULL


class _Line(msgspec.Struct, gc=False):
    timestamp: float | None = None
    message: _Message | None = None
    type: Any = None


class _Wrapped(msgspec.Struct, gc=False):
    parent_tool_call_id: Any = None
    task_tool_call_id: Any = None
    agent_id: Any = None
    subagent_type: Any = None
    event: _Message | None = None


class _Relayed(msgspec.Struct, gc=False):
    """A subagent's event in its parent's file."""

    stream: str
    call: str | None
    name: str | None
    message: _Message
    #: True where the subagent's own file has it too.
    mirrored: bool


class _Function(msgspec.Struct, gc=False):
    name: Any = None


class _ReturnValue(msgspec.Struct, gc=False):
    is_error: Any = None
    message: Any = None
    output: msgspec.Raw = _NULL


class _Payload(msgspec.Struct):
    """The fields of all payloads that acts are made of; long texts are not among them."""

    user_input: Any = None
    n: Any = None
    token_usage: Any = None
    message_id: Any = None
    id: Any = None
    function: _Function | None = None
    tool_call_id: Any = None
    return_value: _ReturnValue | None = None
    request_id: Any = None
    response: Any = None
    title: Any = None
    error_type: Any = None
    status_code: Any = None
    event: Any = None
    target: Any = None
    action: Any = None
    question: Any = None
    file_path: Any = None


class _Scene(msgspec.Struct):
    """What an act's author may look at besides the payload."""

    event: Event
    source: Source
    stream: str
    #: What is known of the turn under way; emptied when it ends.
    turn: dict[str, Any]
    memory: dict[str, Any]


_Author = Callable[[msgspec.Raw, _Scene], Iterator[Act]]
_Speaker = Callable[[dict[str, Any]], Iterator[Content]]
_LINE = msgspec.json.Decoder(_Line)
S = TypeVar("S", bound=msgspec.Struct)


class KimiCli:
    """The log format of Kimi CLI, from 0.59 to its last version."""

    name = "kimi-cli"
    title = "Kimi CLI"

    def homes(self, environ: Mapping[str, str], home: Path) -> list[Path]:
        """The sessions under ``$KIMI_SHARE_DIR`` or ``~/.kimi``; imported copies are left out."""
        share = environ.get("KIMI_SHARE_DIR")
        return [(Path(share).expanduser() if share else home / ".kimi") / "sessions"]

    def is_log(self, path: Path) -> bool:
        """``wire.jsonl`` of a session or of one of its subagents."""
        return path.name == LOG_NAME and "imported_sessions" not in path.parts

    def recognise(self, path: Path, head: bytes) -> Source | None:
        """A header without ``created_at`` (that is Kimi Code's), or wire messages without any header."""
        if not _is_wire(head):
            return None
        if path.name != LOG_NAME:
            return Source(agent=self.name, session_id=path.stem, directory=str(path.parent))
        if path.parent.parent.name == "subagents":
            return _subagent_source(path)
        return Source(
            agent=self.name,
            session_id=path.parent.name,
            directory=str(path.parent),
            **_session_facts(path.parent),
        )

    def decode(self, raw: bytes, source: Source) -> Event | Unusable:
        """The line's type, time and key; a payload stays undecoded until somebody asks."""
        try:
            line = _LINE.decode(raw)
        except DECODING_ERRORS:
            return _decode_odd(raw, source)
        message = line.message
        if message is None:
            return _decode_odd(raw, source)
        return _event(message, line.timestamp, raw, source)

    def acts(self, event: Event, source: Source, memory: dict[str, Any]) -> Iterable[Act]:
        """What the message means; a wrapped one is given for the subagent's stream."""
        body = event.body
        if not isinstance(body, _Relayed):
            turn = memory.setdefault("turn", {})
            return _message_acts(body, _Scene(event, source, source.stream, turn, memory))
        acts: list[Act] = []
        if body.call is not None:
            acts += _spawned(body.call, body.stream, body.name, memory)
        if body.mirrored:
            return acts
        inline = memory.setdefault("inline", {})
        turn = inline.setdefault(body.stream, {})
        acts += _message_acts(body.message, _Scene(event, source, body.stream, turn, memory))
        if not turn:
            del inline[body.stream]
        shorten(inline)
        return acts

    def content(self, event: Event, source: Source) -> list[Content]:
        """The texts of the message; none for a wrapped one that the subagent's own file has."""
        body = event.body
        if isinstance(body, _Relayed):
            if body.mirrored:
                return []
            body = body.message
        author = _CONTENT.get(body.type)
        payload = value_of(body.payload) if author is not None else None
        if author is None or not isinstance(payload, dict):
            return []
        # Arguments may be empty as yet: the parts that follow belong to this call all the same.
        return [content for content in author(payload) if content.text or content.kind == "arguments"]


# Values of any shape (Kimi Code's module reads with these too)


def read_as(kind: type[S], raw: bytes | msgspec.Raw) -> S:
    """The object as a struct; one of defaults where the text has another shape."""
    try:
        return msgspec.json.decode(raw, type=kind)
    except DECODING_ERRORS:
        return kind()


def read_object(path: Path) -> dict[str, Any]:
    """A companion file's object; empty where there is none to be had."""
    try:
        with path.open("rb") as file:
            value = value_of(msgspec.Raw(file.read(COMPANION_LIMIT)))
    except (OSError, ValueError):
        return {}
    return value if isinstance(value, dict) else {}


def as_text(value: object) -> str | None:
    """The value if it is a text with something in it."""
    return value if isinstance(value, str) and value else None


def text_of(value: object) -> str:
    """The text of a string or of a list of content parts; pictures have none."""
    if isinstance(value, list):
        texts = (part.get("text") if isinstance(part, dict) else part for part in value)
        return "\n".join(text for text in texts if isinstance(text, str))
    return value if isinstance(value, str) else ""


def cut(text: str) -> str | None:
    """The beginning of a text, for spans: they carry no bodies."""
    return text[:TEXT_LIMIT] or None


def shorten(remembered: dict[str, Any]) -> None:
    """Forget the oldest, so that memory stays small."""
    while len(remembered) > REMEMBERED:
        del remembered[next(iter(remembered))]


# What a file is


def _is_wire(head: bytes) -> bool:
    """Whether the first lines are Kimi CLI's; a header alone is enough, a torn line is passed over."""
    header = False
    for raw in head.split(b"\n")[:32]:
        value = value_of(msgspec.Raw(raw))
        if not isinstance(value, dict):
            continue
        if _is_wire_message(value):
            return True
        if header or value.get("type") != "metadata" or "protocol_version" not in value:
            return False
        if "created_at" in value:
            return False
        header = True
    return header or re.match(rb'\{"timestamp": ?[\d.]+, ?"message": ?\{"type": ?"\w+"', head) is not None


def _is_wire_message(value: dict[str, Any]) -> bool:
    message = value.get("message")
    return (
        isinstance(value.get("timestamp"), int | float)
        and isinstance(message, dict)
        and isinstance(message.get("type"), str)
        and "payload" in message
    )


def _session_facts(session: Path) -> dict[str, Any]:
    """Working directory, title, model: all of it stands outside the log."""
    title = as_text(read_object(session / "state.json").get("custom_title"))
    title = title or as_text(read_object(session / "metadata.json").get("title"))
    facts: dict[str, Any] = {"title": title, "copied": title is not None and title.startswith("Fork: ")}
    if session.parent.parent.name == "sessions":
        share = session.parent.parent.parent
        facts |= {"cwd": _work_dir(share, session.parent.name), "model": _configured_model(share)}
    return facts


def _subagent_source(path: Path) -> Source:
    session = path.parent.parent.parent
    stream = path.parent.name
    meta = read_object(path.parent / "meta.json")
    facts = _session_facts(session)
    launch = meta.get("launch_spec")
    model = as_text(launch.get("effective_model")) if isinstance(launch, dict) else None
    if model is not None:
        facts["model"] = _configured_model(session.parent.parent.parent, model)
    return Source(
        agent=KimiCli.name,
        session_id=session.name,
        stream=stream,
        parent_stream="main",
        parent_call=_background_call(session, stream),
        name=as_text(meta.get("subagent_type")),
        directory=str(path.parent),
        **facts,
    )


def _work_dir(share: Path, bucket: str) -> str | None:
    """The directory whose digest the bucket is named after."""
    work_dirs = read_object(share / "kimi.json").get("work_dirs")
    for entry in work_dirs if isinstance(work_dirs, list) else []:
        path = as_text(entry.get("path")) if isinstance(entry, dict) else None
        if path is None:
            continue
        digest = hashlib.md5(path.encode("utf-8", "surrogatepass"), usedforsecurity=False).hexdigest()
        kaos = entry.get("kaos", "local")
        if bucket == (digest if kaos == "local" else f"{kaos}_{digest}"):
            return path
    return None


def _configured_model(share: Path, alias: str | None = None) -> str | None:
    """The model the settings name: a guess, for the log never says which one answered."""
    if alias is None and (named := os.environ.get("KIMI_MODEL_NAME")):
        return named
    try:
        config = tomllib.loads((share / "config.toml").read_text("utf-8"))
    except (OSError, ValueError):
        return alias
    alias = alias or as_text(config.get("default_model"))
    models = config.get("models")
    entry = models.get(alias) if isinstance(models, dict) else None
    return (as_text(entry.get("model")) if isinstance(entry, dict) else None) or alias


def _background_call(session: Path, agent: str) -> str | None:
    """The tool call that started a background subagent, from the task it runs as."""
    for spec_file in sorted(session.glob("tasks/*/spec.json"))[:256]:
        spec = read_object(spec_file)
        payload = spec.get("kind_payload")
        if isinstance(payload, dict) and payload.get("agent_id") == agent:
            return as_text(spec.get("tool_call_id"))
    return None


# A line


def _event(message: _Message, seconds: float | None, raw: bytes, source: Source) -> Event:
    at = key = None
    if seconds is not None and 0 < seconds < 1e11:
        # No ordinal: a line that is appended again is the same event.
        at = round(seconds * 1e6)
        key = f"{at}:{zlib.crc32(raw):x}" if source.stream == "main" else f"{source.stream}:{at}:{zlib.crc32(raw):x}"
    if message.type == "SubagentEvent":
        relayed = _unwrap(message, source)
        if relayed is not None:
            stream = None if relayed.mirrored else relayed.stream
            return Event("SubagentEvent", key, at, relayed, stream)
    return Event(message.type, key, at, message)


def _decode_odd(raw: bytes, source: Source) -> Event | Unusable:
    """A header, or an object of another shape than expected, taken as far as it goes."""
    value = value_of(msgspec.Raw(raw))
    if not isinstance(value, dict):
        salvaged = whole_objects(raw, re.compile(r'\{"timestamp"'), _is_wire_message)
        return Unusable("not a JSON object", harmless=not raw.strip(), salvaged=salvaged)
    if value.get("type") == "metadata" and "message" not in value:
        return Unusable("header", harmless=True)
    message = value.get("message")
    inner = message if isinstance(message, dict) else value
    kind = as_text(inner.get("type")) or "unknown"
    stamp = value.get("timestamp")
    seconds = stamp if isinstance(stamp, int | float) else None
    payload = msgspec.Raw(msgspec.json.encode(inner.get("payload")))
    return _event(_Message(kind, payload), seconds, raw, source)


def _unwrap(message: _Message, source: Source) -> _Relayed | None:
    """The innermost event; the calls of this file's own stream are the outermost wrapper's."""
    relayed = None
    for _ in range(8):
        wrapped = read_as(_Wrapped, message.payload)
        if wrapped.event is None:
            break
        call = as_text(wrapped.parent_tool_call_id) or as_text(wrapped.task_tool_call_id)
        agent = as_text(wrapped.agent_id)
        stream = agent or (f"task:{call}" if call else None)
        if stream is None:
            break
        mirrored = agent is not None and _has_own_file(agent, source)
        if relayed is not None:
            call, mirrored = relayed.call, mirrored or relayed.mirrored
        message = wrapped.event
        relayed = _Relayed(stream, call, as_text(wrapped.subagent_type), message, mirrored)
        if message.type != "SubagentEvent":
            break
    return relayed


def _has_own_file(agent: str, source: Source) -> bool:
    session = source.directory
    if not session:
        return False
    if source.stream != "main":
        session = os.path.dirname(os.path.dirname(session))
    try:
        return os.stat(os.path.join(session, "subagents", agent, LOG_NAME)).st_size > 0
    except (OSError, ValueError):
        return False


# What it means


def _message_acts(message: _Message, scene: _Scene) -> list[Act]:
    author = _ACTS.get(message.type)
    if author is None:
        return []
    acts = list(author(message.payload, scene))
    if acts and scene.turn.get("waiting") and not isinstance(acts[-1], Waiting):
        # Usage and other results arrive while the question is still open: the wait goes on after them.
        acts.append(Waiting())
    return acts


def _turn_begin(raw: msgspec.Raw, scene: _Scene) -> Iterator[Act]:
    turn = scene.turn
    at = scene.event.at
    edge = turn.get("edge")
    soon = at is not None and edge is not None and 0 <= at - edge <= NESTED_TURN_GAP
    if soon and turn.get("depth", 0) > 0:
        turn["depth"] += 1
        turn["edge"] = at
        return
    turn.clear()
    turn["depth"] = 1
    turn["edge"] = at
    text = text_of(read_as(_Payload, raw).user_input)
    yield TurnBegin(prompt=cut(text), origin=_origin(text, scene))


def _origin(text: str, scene: _Scene) -> str:
    if text.startswith("<system-reminder>"):
        return "task" if "Background task" in text[:80] else "system"
    return "user" if scene.stream == "main" else "subagent"


def _turn_end(raw: msgspec.Raw, scene: _Scene) -> Iterator[Act]:
    turn = scene.turn
    if turn.get("depth", 0) > 1:
        turn["depth"] -= 1
        turn["edge"] = scene.event.at
        return
    status = "ok"
    if turn.get("failed"):
        status = "error"
    elif turn.get("step") == "asked" or turn.get("calls"):
        # Only a cancelled turn ends before its model or its tools have answered.
        status = "cancelled"
    turn.clear()
    yield TurnEnd(status=status)


def _step_begin(raw: msgspec.Raw, scene: _Scene) -> Iterator[Act]:
    for stale in ("edge", "failed", "calls", "waiting"):
        scene.turn.pop(stale, None)
    scene.turn["step"] = "asked"
    n = read_as(_Payload, raw).n
    yield StepBegin(n=n if type(n) is int else None, model=scene.source.model)


def _step_interrupted(raw: msgspec.Raw, scene: _Scene) -> Iterator[Act]:
    # Written for exceptions alone; a user's cancel leaves no line.
    if scene.turn.get("step") in ("asked", "answered"):
        yield StepEnd(status="error")
    scene.turn["step"] = "over"
    scene.turn["failed"] = True
    # Until 1.29 no TurnEnd follows.
    yield TurnEnd(status="error", error="the step was interrupted")


def _status_update(raw: msgspec.Raw, scene: _Scene) -> Iterator[Act]:
    status = read_as(_Payload, raw)
    message = as_text(status.message_id)
    if scene.turn.get("step") == "asked":
        scene.turn["step"] = "answered"
    spent = status.token_usage
    if isinstance(spent, dict):
        usage = Usage(
            input_tokens=count(spent.get("input_other")),
            output_tokens=count(spent.get("output")),
            cache_read_tokens=count(spent.get("input_cache_read")),
            cache_write_tokens=count(spent.get("input_cache_creation")),
        )
        yield ResponseUsage(_response(message, raw, scene), usage, model=scene.source.model)
    elif message is None:
        return  # a change of mode or of the context, not the end of a model call
    if scene.turn.get("step") == "answered":
        scene.turn["step"] = "over"
        yield StepEnd()


def _response(message: str | None, raw: msgspec.Raw, scene: _Scene) -> str:
    """A name that forks share; a subagent's two records share their payload, not their line."""
    if message is not None and len(message) >= PROVIDER_ID_LENGTH:
        return f"kimi:{message}"
    if scene.stream == "main" and scene.event.key is not None:
        return f"kimi:{scene.event.key}"
    return f"kimi:{scene.stream}:{hashlib.sha256(bytes(raw)).hexdigest()[:32]}"


def _tool_call(raw: msgspec.Raw, scene: _Scene) -> Iterator[Act]:
    payload = read_as(_Payload, raw)
    call = as_text(payload.id)
    if call is None:
        return
    name = (as_text(payload.function.name) if payload.function else None) or "unknown"
    calls = scene.turn.setdefault("calls", {})
    calls[call] = name in AGENT_TOOLS
    shorten(calls)
    yield ToolBegin(call, name, subagent=name in AGENT_TOOLS)


def _tool_call_part(raw: msgspec.Raw, scene: _Scene) -> Iterator[Act]:
    yield ToolArguments()


def _tool_result(raw: msgspec.Raw, scene: _Scene) -> Iterator[Act]:
    payload = read_as(_Payload, raw)
    call = as_text(payload.tool_call_id)
    if call is None:
        return
    value = payload.return_value or _ReturnValue()
    waiting = scene.turn.get("waiting", {})
    for request in [request for request, asker in waiting.items() if asker == call]:
        del waiting[request]
    if scene.turn.get("calls", {}).pop(call, False):
        # A background subagent sends no events here: only the result of the call names it.
        named = re.search(r"^agent_id: (\S+)$", text_of(value_of(value.output))[:1000], re.MULTILINE)
        if named is not None:
            yield from _spawned(call, named[1], None, scene.memory)
    failed = bool(value.is_error)
    yield ToolEnd(call, "error" if failed else "ok", cut(text_of(value.message)) if failed else None)


def _spawned(call: str, stream: str, name: str | None, memory: dict[str, Any]) -> list[Act]:
    """Says once who carries out a call; a resumed subagent carries out another."""
    known: dict[str, str] = memory.setdefault("spawned", {})
    if known.get(stream) == call:
        return []
    known[stream] = call
    shorten(known)
    return [Spawned(call, stream, name)]


def _request(raw: msgspec.Raw, scene: _Scene) -> Iterator[Act]:
    payload = read_as(_Payload, raw)
    waiting = scene.turn.setdefault("waiting", {})
    waiting[as_text(payload.id) or ""] = as_text(payload.tool_call_id)
    shorten(waiting)
    yield Waiting()


def _answer(raw: msgspec.Raw, scene: _Scene) -> Iterator[Act]:
    payload = read_as(_Payload, raw)
    scene.turn.get("waiting", {}).pop(as_text(payload.request_id) or "", None)
    yield Note("approval", as_text(payload.response))


def _note(kind: str, *fields: str) -> _Author:
    def author(raw: msgspec.Raw, scene: _Scene) -> Iterator[Act]:
        payload = read_as(_Payload, raw)
        values = (getattr(payload, field) for field in fields)
        yield Note(kind, cut(" ".join(str(v) if type(v) is int else text_of(v) for v in values).strip()))

    return author


_ACTS: dict[str, _Author] = {
    "TurnBegin": _turn_begin,
    "TurnEnd": _turn_end,
    "StepBegin": _step_begin,
    "StepInterrupted": _step_interrupted,
    "StatusUpdate": _status_update,
    "ToolCall": _tool_call,
    "ToolCallPart": _tool_call_part,
    "ToolResult": _tool_result,
    "ApprovalRequest": _request,
    "QuestionRequest": _request,
    "ApprovalResponse": _answer,
    "ApprovalRequestResolved": _answer,
    "SteerInput": _note("steer", "user_input"),
    "StepRetry": _note("retry", "error_type", "status_code"),
    "CompactionBegin": _note("compaction"),
    "Notification": _note("notification", "title"),
    "HookResolved": _note("hook", "event", "target", "action"),
    "BtwBegin": _note("btw", "question"),
    "PlanDisplay": _note("plan", "file_path"),
}


# What it says


def _tool_call_content(payload: dict[str, Any]) -> Iterator[Content]:
    function = payload.get("function")
    arguments = function.get("arguments") if isinstance(function, dict) else None
    yield Content("arguments", text_of(arguments), as_text(payload.get("id")))


def _tool_result_content(payload: dict[str, Any]) -> Iterator[Content]:
    call = as_text(payload.get("tool_call_id"))
    value = payload.get("return_value")
    if not isinstance(value, dict):
        return
    output = text_of(value.get("output"))
    yield Content("result", output, call)
    if value.get("is_error"):
        yield Content("error", text_of(value.get("message")), call)
    elif not output:
        yield Content("note", text_of(value.get("message")), call)


def _part_content(payload: dict[str, Any]) -> Iterator[Content]:
    yield Content("thinking", text_of(payload.get("think")))
    yield Content("text", text_of(payload.get("text")))


def _questions(payload: dict[str, Any]) -> Iterator[Content]:
    questions = payload.get("questions")
    for question in questions if isinstance(questions, list) else []:
        if isinstance(question, dict):
            yield Content("note", text_of(question.get("question")), as_text(payload.get("tool_call_id")))


def _says(kind: Literal["prompt", "arguments_part", "note"], *fields: str) -> _Speaker:
    def speaker(payload: dict[str, Any]) -> Iterator[Content]:
        for field in fields:
            yield Content(kind, text_of(payload.get(field)), as_text(payload.get("tool_call_id")))

    return speaker


_CONTENT: dict[str, _Speaker] = {
    "TurnBegin": _says("prompt", "user_input"),
    "SteerInput": _says("prompt", "user_input"),
    "ContentPart": _part_content,
    "ToolCall": _tool_call_content,
    "ToolCallPart": _says("arguments_part", "arguments_part"),
    "ToolResult": _tool_result_content,
    "ApprovalRequest": _says("note", "description"),
    "ApprovalResponse": _says("note", "feedback"),
    "QuestionRequest": _questions,
    "Notification": _says("note", "title", "body"),
    "HookResolved": _says("note", "reason"),
    "BtwBegin": _says("note", "question"),
    "BtwEnd": _says("note", "response", "error"),
    "PlanDisplay": _says("note", "content"),
}
