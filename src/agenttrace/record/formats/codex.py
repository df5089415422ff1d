"""OpenAI Codex CLI: rollout files of ``{"timestamp", "type", "payload"}`` lines, one thread a file.

``response_item`` lines have the texts of the model and the tools; ``event_msg`` lines repeat many of them and mark
where turns begin and end. ``codex_usage.py`` describes how tokens are counted.

``memory`` has, for this module: ``turn``, the open turn's id, in logs that mark turns; ``step``, the open
step, with ``spoke``, ``called`` and ``answered`` (what it has had); ``calls`` that wait for their answer, with what is
known of how they ended; ``model``; of the first ``session_meta``: ``named``, ``origin``, ``delegate`` (a review or the
like), ``spawned``; of a review that is an item: ``reviewer`` while its first turn is still to come, and ``reviewed``
after it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import Raw

from agenttrace.model import Event
from agenttrace.record.formats import codex_lines as lines
from agenttrace.record.formats import codex_usage as usage
from agenttrace.record.formats.base import LogFormat, agent_directory, first_lines, remember
from agenttrace.record.formats.codex_changes import changes
from agenttrace.record.formats.codex_settings import settings
from agenttrace.record.formats.context import ContextFact, SystemPrompt, conversation, system_prompt
from agenttrace.record.formats.contract import Content, Memory, Outcome, ResumeCommand, Source, Traits, Unusable
from agenttrace.record.formats.lenient import json_object, lookup, text_at, value_of
from agenttrace.record.formats.media import Media
from agenttrace.record.ingest import acts as a

#: Calls without an answer that a stream remembers; the next turn clears them.
OPEN_CALLS_LIMIT = 256

_UUID = r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
_FILE_NAME = re.compile(rf"rollout-.*?({_UUID})")
_CUT_META = re.compile(rb'\{"timestamp":"[^"]*",(?:"ordinal":\d+,)?"type":"session_meta","payload":\{')
_CUT_ID = re.compile(rf'"id":"({_UUID})"'.encode())
_CUT_PARENT = re.compile(rf'"(?:forked_from_id|parent_thread_id)":"({_UUID})"'.encode())

_ENVELOPES = frozenset(
    {
        "session_meta",
        "turn_context",
        "response_item",
        "event_msg",
        "compacted",
        "world_state",
        "token_usage_record",
    }
)
#: Calls, and the tool's name for those that have none.
_CALLS = {
    "function_call": "function",
    "custom_tool_call": "custom_tool",
    "local_shell_call": "local_shell",
    "tool_search_call": "tool_search",
    "web_search_call": "web_search",
    "image_generation_call": "image_generation",
}
#: Carried out by the provider: the line is written when it is over, and no answer follows.
_REMOTE_CALLS = frozenset({"web_search_call", "image_generation_call"})
_ANSWERS = (
    "function_call_output",
    "custom_tool_call_output",
    "tool_search_output",
    "local_shell_call_output",
)
_BARE_ITEMS = frozenset({"message", "reasoning", *_CALLS, *_ANSWERS})
_BARE_BODY = b'{"payload":'
_IDE_REQUEST = "## My request for Codex:"

Handler = Callable[[Event, Source, Memory], Iterable[a.Act]]


class Codex(LogFormat[lines.CodexHead]):
    """Rollouts under ``$CODEX_HOME`` of any version; cold ones (``.zst``) arrive here decompressed."""

    name = "codex"
    title = "Codex"
    parts_not_in_log = frozenset()
    traits = Traits(
        provider="openai",
        integration="openai-codex",
        variables=("CODEX_HOME",),
        side_files=re.compile(r"(session_index|history)\.jsonl"),
    )
    decoder = lines.HEADS

    def homes(self, environ: Mapping[str, str], home: Path) -> list[Path]:
        """The live sessions and the archived ones."""
        root = agent_directory(environ, home, "CODEX_HOME", default=".codex")
        return [root / "sessions", root / "archived_sessions"]

    def is_log(self, path: Path) -> bool:
        """``rollout-*.jsonl``, or the same compressed."""
        return path.name.startswith("rollout-") and path.name.endswith((".jsonl", ".jsonl.zst"))

    def recognise(self, path: Path, head: bytes) -> Source | None:
        """A rollout by its first lines; the file names the thread, or else its first ``session_meta``."""
        named = _FILE_NAME.search(path.name)
        metas = (self._meta_in(line, named is not None) for line in first_lines(head, 8) if line.strip())
        meta = next((found for found in metas if found is not None), None)
        if meta is None:
            return None
        parent, begun_by = meta.lineage()
        session = named[1] if named else meta.id or path.name.partition(".")[0]
        facts = {"parent_session": parent, "copied": parent is not None, "cwd": meta.cwd, "name": begun_by}
        return self.source(path, session, **facts)

    def _meta_in(self, line: bytes, named: bool) -> lines.SessionMeta | None:
        """The facts about the thread in a line of Codex (often none); ``None`` if it is not a line of Codex."""
        event = self.decode(line, Source(agent="codex", session_id=""))
        if isinstance(event, Unusable):
            return _meta_in_cut(line) if _CUT_META.match(line) else None
        if event.body is not line:
            return (lines.read_meta(event.body) or lines.SessionMeta()) if named else None
        envelope, _, detail = event.type.partition("/")
        if envelope not in _ENVELOPES or event.at is None:
            return None
        if envelope in ("response_item", "event_msg") and not detail:
            return None
        return (lines.read_meta(line) if envelope == "session_meta" else None) or lines.SessionMeta()

    def event(self, line: lines.CodexHead, raw: bytes, source: Source) -> Event:
        """A line's kind, time and ordinal; the rest is read when it is asked for."""
        payload = line.payload
        if payload is None:
            return _bare_event(raw, line)
        kind = line.type or "unknown"
        at = lines.micros(line.timestamp)
        # Codex has been seen to use an ordinal again (openai/codex#35746), though never at the same time.
        key = None if line.ordinal is None else f"ord:{line.ordinal}:{at}"
        return Event(f"{kind}/{payload.type}" if payload.type else kind, key, at, raw)

    def acts(self, event: Event, source: Source, memory: Memory) -> Iterable[a.Act]:
        """What the line means."""
        handler = _HANDLERS.get(event.type)
        return handler(event, source, memory) if handler else ()

    def content(self, event: Event, source: Source) -> list[Content]:
        """Texts of ``response_item`` lines; ``event_msg`` lines repeat them and are skipped."""
        kind, _, detail = event.type.partition("/")
        if kind == "response_item":
            item = lines.read_item(event.body)
            return _item_content(item) if item else []
        if kind == "compacted" or detail == "error":
            said = lines.read_said(event.body)
            return _texts("error" if detail == "error" else "note", said.message if said else None)
        if detail == "item_completed":
            completed = lines.read_completed(event.body)
            done = completed.item if completed else None
            return _texts("text", done.text if done and done.type == "Plan" else None)
        return []

    def context(self, event: Event, source: Source, memory: Memory, raw: bytes) -> Iterable[ContextFact]:
        """The instructions, the settings, and the items: all are sent, also those that the harness wrote."""
        contents = self.content(event, source)
        if event.type == "session_meta":
            yield from _instructions(raw)
        elif event.type == "compacted":
            contents = _replacement(raw) or contents
        yield from settings(event.type, raw, memory)
        yield from conversation(
            self.acts(event, source, memory), contents, notes_sent=event.type.startswith("response_item/")
        )

    def media(self, event: Event, raw: bytes) -> list[Media]:
        """Those of ``response_item`` lines, which others repeat."""
        return super().media(event, raw) if event.type.startswith("response_item") else []

    def outcomes(self, raw: bytes) -> Iterable[Outcome]:
        """The patches that ``apply_patch`` was called with, once its result says that it applied them."""
        return changes(raw)

    def resume_command(self, session_id: str, logs: Sequence[Path]) -> ResumeCommand | None:
        """``codex resume <session>``."""
        return ResumeCommand(("codex", "resume", session_id))


# -- lines ---------------------------------------------------------------------------------------------------


def _meta_in_cut(line: bytes) -> lines.SessionMeta:
    """A first line that is longer than what was read of it."""
    thread, parent = _CUT_ID.search(line), _CUT_PARENT.search(line)
    return lines.SessionMeta(
        id=thread[1].decode() if thread else None, forked_from_id=parent[1].decode() if parent else None
    )


def _bare_event(raw: bytes, head: lines.CodexHead) -> Event:
    """Before the envelope (2025): a header, then bare response items. An envelope is added to them."""
    at = lines.micros(head.timestamp)
    if head.type in _BARE_ITEMS:
        return Event(f"response_item/{head.type}", None, at, _BARE_BODY + raw + b"}")
    if head.type is None and at is not None:
        fields = value_of(Raw(raw))
        if isinstance(fields, dict) and "id" in fields and "instructions" in fields:
            return Event("session_meta", None, at, _BARE_BODY + raw + b"}")
    return Event(head.type or "unknown", None, at, raw)


# -- turns ---------------------------------------------------------------------------------------------------


def _session_meta(event: Event, source: Source, memory: Memory) -> Iterator[a.Act]:
    """The first one, and later ones of the same thread; others are copied with a parent's history."""
    meta = lines.read_meta(event.body)
    if meta is None or (memory.get("named") and meta.id != source.session_id):
        return
    parent, begun_by = meta.lineage()
    delegate = isinstance(meta.subagent, str)
    memory["named"] = True
    memory["origin"] = "subagent" if begun_by else "user"
    memory["delegate"] = delegate
    memory["spawned"] = bool(parent and begun_by and not delegate)
    memory["counts_first"] = meta.counts_first
    branch = meta.git.branch if meta.git else None
    yield a.SessionInfo(cwd=meta.cwd, branch=branch, version=meta.cli_version, parent=parent)


def _context(event: Event, source: Source, memory: Memory) -> Iterator[a.Act]:
    context = lines.read_context(event.body)
    if context is None:
        return
    if context.turn_id:
        memory["turn_id"] = context.turn_id
    model = context.model or (context.thread_settings.model if context.thread_settings else None)
    if model and model != memory.get("model"):
        memory["model"] = model
        yield a.SessionInfo(model=model)


def _task_started(event: Event, source: Source, memory: Memory) -> Iterator[a.Act]:
    turn = lines.read_turn(event.body)
    turn_id = turn.turn_id if turn else None
    if memory.pop("reviewer", None):
        return  # the reviewer's turn, which has a separate log
    usage.leave_review(memory)
    memory.pop("reviewed", None)
    _forget_turn(memory)
    memory["turn"] = turn_id or f"at {event.at}"
    if turn_id:
        memory["turn_id"] = turn_id
    yield a.TurnBegin(origin=memory.get("origin", "user"), turn=memory["turn"])


def _task_ended(event: Event, source: Source, memory: Memory) -> Iterator[a.Act]:
    turn = lines.read_turn(event.body)
    ended = (turn.turn_id if turn else None) or memory.get("turn")
    if event.type == "event_msg/turn_aborted":
        usage.leave_review(memory)
        yield a.TurnEnd("cancelled", turn.reason if turn else None, ended)
    else:
        error = turn.failure() if turn else None
        yield a.TurnEnd("error" if error else "ok", error, ended)
    if ended == memory.get("turn"):
        memory["turn"] = None
        memory.pop("reviewer", None)
        memory.pop("reviewed", None)
        usage.forget_step(memory)


def _user_message(event: Event, source: Source, memory: Memory) -> Iterator[a.Act]:
    said = lines.read_said(event.body)
    if said and said.message and said.kind in (None, "plain"):
        yield from _prompt(said.message, memory)


def _prompt(text: str, memory: Memory) -> Iterator[a.Act]:
    """Opens a turn where no ``task_started`` did; a review logs its prompt twice."""
    if not lines.is_said_by_user(text):
        return
    digest = usage.digest(text.encode("utf-8", "surrogatepass"))
    if memory.get("review"):
        if memory.get("prompt") == digest:
            return
        if memory.get("prompt"):
            usage.leave_review(memory)
    memory["prompt"] = digest
    if not memory.get("turn"):
        yield from usage.end_of_answer(memory)
        _forget_turn(memory)
    memory["trail"] = digest
    asked = text.rpartition(_IDE_REQUEST)[2].strip() or text
    yield a.TurnBegin(asked, memory.get("origin", "user"), memory.get("turn"))


def _forget_turn(memory: Memory) -> None:
    usage.forget_step(memory)
    memory.pop("calls", None)


def _entered_review(event: Event, source: Source, memory: Memory) -> Iterator[a.Act]:
    usage.enter_review(memory)
    usage.forget_step(memory)
    yield a.Note("review")


def _exited_review(event: Event, source: Source, memory: Memory) -> Iterable[a.Act]:
    usage.leave_review(memory)
    return ()


def _review_item(completed: lines.CompletedItem, memory: Memory) -> Iterator[a.Act]:
    """0.166: the turn of a review begins with an item, then the reviewer's ``task_started`` is in this log too."""
    item = completed.item
    assert item is not None
    if item.type == "ExitedReviewMode":
        usage.leave_review(memory)
        memory.pop("reviewer", None)
        memory["reviewed"] = True
        return
    _forget_turn(memory)
    memory["turn"] = memory["turn_id"] = completed.turn_id
    memory["reviewer"] = True
    usage.enter_review(memory)
    yield a.TurnBegin(f"/review {item.user_facing_hint or ''}".strip(), memory.get("origin", "user"), completed.turn_id)
    yield a.Note("review")


# -- steps and tools -----------------------------------------------------------------------------------------


def _response_item(event: Event, source: Source, memory: Memory) -> Iterator[a.Act]:
    item = lines.read_item(event.body)
    if item is None:
        return
    if item.type == "message" and item.role != "assistant":
        # Bare logs have no events that mark the user's messages.
        if item.role == "user" and event.body.startswith(_BARE_BODY):
            text = lines.text_of(item.content)
            yield from _prompt(text, memory)
            if (cwd := lines.working_directory(text)) is not None:
                yield a.SessionInfo(cwd=cwd)
        return
    if memory.get("reviewed") and item.type == "message":
        return  # the result of the review, repeated; no model wrote this message
    yield from _open_step(item, memory)
    if item.type in _CALLS:
        yield from _begin_call(item, memory)
    elif item.type == "message":
        memory["spoke"] = True
        if memory.get("counts_first") and not memory.get("called") and not memory.get("turn"):
            yield a.FinalAnswer()


def _open_step(item: lines.ResponseItem, memory: Memory) -> Iterator[a.Act]:
    """The first item after a counted response begins the next; so does one after a tool's answer."""
    unnamed = bytes(item.encrypted_content) or bytes(item.content) or bytes(item.summary)
    name = memory["trail"] = item.call_id or item.id or usage.digest(unnamed)
    if memory.get("step") and not memory.get("answered"):
        return
    yield from usage.begin_step(memory)
    memory["item"] = name


def _begin_call(item: lines.ResponseItem, memory: Memory) -> Iterator[a.Act]:
    memory["called"] = memory.get("called", 0) + 1
    call = item.call_id or item.id or f"{memory['step']} call {memory['called']}"
    name = f"{item.namespace or ''}{item.name}" if item.name else _CALLS[item.type]
    yield a.ToolBegin(call, name, memory["step"], subagent=name == "spawn_agent")
    if item.type in _REMOTE_CALLS:
        yield a.ToolEnd(call, "error" if item.status == "failed" else "ok")
    else:
        remember(memory.setdefault("calls", {}), call, None, OPEN_CALLS_LIMIT)


def _answer(event: Event, source: Source, memory: Memory) -> Iterator[a.Act]:
    item = lines.read_item(event.body)
    call = (item.call_id or item.id) if item else None
    if item is None or not call:
        return
    memory["answered"] = True
    memory["trail"] = f"answer {call}"
    status, error, duration = lines.answer_verdict(item.output)
    known = memory.get("calls", {}).pop(call, None)
    if known:
        status, error, duration = known[0], known[1] or error, duration if known[2] is None else known[2]
    yield a.ToolEnd(call, status, error, duration)


def _call_ended(event: Event, source: Source, memory: Memory) -> Iterable[a.Act]:
    done = lines.read_done(event.body)
    if done is not None:
        _remember_end(done, memory)
    return ()


def _item_completed(event: Event, source: Source, memory: Memory) -> Iterator[a.Act]:
    completed = lines.read_completed(event.body)
    if completed is None or completed.item is None or completed.thread_id not in (None, source.session_id):
        return
    if completed.item.type in ("EnteredReviewMode", "ExitedReviewMode"):
        yield from _review_item(completed, memory)
    elif completed.item.type == "UserMessage":
        yield from _prompt(lines.text_of(completed.item.content), memory)
    else:
        _remember_end(completed.item, memory)


def _remember_end(done: lines.ItemEnd, memory: Memory) -> None:
    """Remember how a call ended; the answer, which follows, ends it."""
    calls = memory.get("calls", {})
    call = done.call_id or done.id
    if call in calls:
        calls[call] = done.verdict()


# -- notes ---------------------------------------------------------------------------------------------------


def _note(event: Event, source: Source, memory: Memory) -> Iterator[a.Act]:
    said = lines.read_said(event.body)
    message = said.message if said else None
    if event.type == "event_msg/error":
        yield a.Error(message or "error", scope="turn")
    elif event.type == "event_msg/thread_name_updated":
        yield a.SessionInfo(title=said.thread_name if said else None)
    else:
        yield a.Note(_NOTES[event.type])


_NOTES = {
    "compacted": "compaction",
    "event_msg/stream_error": "retry",
    "event_msg/thread_rolled_back": "rollback",
    "event_msg/warning": "warning",
}

_HANDLERS: dict[str, Handler] = {
    "session_meta": _session_meta,
    "turn_context": _context,
    "token_usage_record": usage.usage_record,
    "event_msg/thread_settings_applied": _context,
    "event_msg/token_count": usage.token_count,
    "event_msg/task_started": _task_started,
    "event_msg/task_complete": _task_ended,
    "event_msg/turn_aborted": _task_ended,
    "event_msg/user_message": _user_message,
    "event_msg/entered_review_mode": _entered_review,
    "event_msg/exited_review_mode": _exited_review,
    "event_msg/item_completed": _item_completed,
    "event_msg/exec_command_end": _call_ended,
    "event_msg/mcp_tool_call_end": _call_ended,
    "event_msg/patch_apply_end": _call_ended,
    "event_msg/error": _note,
    "event_msg/thread_name_updated": _note,
    **dict.fromkeys(_NOTES, _note),
    **{f"response_item/{kind}": _response_item for kind in ("message", "reasoning", *_CALLS)},
    **{f"response_item/{kind}": _answer for kind in _ANSWERS},
}


# -- texts ---------------------------------------------------------------------------------------------------

_TextKind = Literal["prompt", "text", "thinking", "arguments", "result", "error", "note"]


def _item_content(item: lines.ResponseItem) -> list[Content]:
    call = item.call_id or item.id
    if item.type == "message":
        text = lines.text_of(item.content)
        return _texts(_message_kind(item.role, text), text)
    if item.type == "reasoning":
        return _texts("thinking", lines.text_of(item.summary), lines.text_of(item.content))
    if item.type in _CALLS:
        raw = bytes(item.arguments) or bytes(item.input) or bytes(item.action)
        return _texts("arguments", lines.text_of(Raw(raw)), call=call)
    if item.type in _ANSWERS:
        return _texts("result", lines.answer_text(item), call=call)
    return []


def _instructions(raw: bytes) -> Iterator[SystemPrompt]:
    """The system prompt: an object since 0.100, a text before."""
    payload = json_object(raw).get("payload")
    text = text_at(payload, "base_instructions", "text") or text_at(payload, "instructions")
    if text is not None:
        yield system_prompt(text)


def _replacement(raw: bytes) -> list[Content]:
    """What a compacted conversation goes on with."""
    history = lookup(json_object(raw), "payload", "replacement_history")
    items = (
        lines.read_item(msgspec.json.encode({"payload": item}))
        for item in (history if isinstance(history, list) else ())
    )
    return [content for item in items if item is not None for content in _item_content(item)]


def _texts(kind: _TextKind, *texts: str | None, call: str | None = None) -> list[Content]:
    return [Content(kind, text, call) for text in texts if text]


def _message_kind(role: str | None, text: str) -> _TextKind:
    if role == "assistant":
        return "text"
    return "prompt" if role == "user" and lines.is_said_by_user(text) else "note"
