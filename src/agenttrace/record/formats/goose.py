"""Goose: a database with the table ``messages``, and ``usage_ledger`` with one row a call of a model.

Untested on real logs: made after the public source of the program and fixtures that follow it.

Messages are inserted again, under other numbers, when a conversation is compacted: their ids tell. Rows of the ledger
name no message, and times are whole seconds, so a row may come behind the results of the call's tools. A call is the
first step of the turn whose tokens are not known, or, where it is told first, that of the messages that come next;
tokens count by the ledger alone. Versions before the ledger (schema 15) have no tokens of single calls.

Goose counts sessions by day (``20260101_1``), so two databases have the same ids: the time at which a session was
created makes them distinct.

``memory`` holds ``step``, the open step; ``unpaid``, steps of the turn whose tokens are not known; ``cwd``; ``model``.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from agenttrace.model import Event
from agenttrace.record.formats.base import (
    LineDecoder,
    LogFormat,
    agent_directory,
    expanded,
    first_lines,
    remember,
    usage_of_prompt,
)
from agenttrace.record.formats.contract import Content, Memory, ResumeCommand, Source, Table, Traits
from agenttrace.record.formats.lenient import count, duration, json_text, lookup, text_at, time_at, value_of
from agenttrace.record.ingest import acts as a

_ABSENT = msgspec.Raw()
#: Times are seconds; should they become milliseconds, they are larger than this.
_MOST_SECONDS = 100_000_000_000
#: Of Goose's own table of sessions, which only shares its name with one of the store.
_OF_SESSION = '(SELECT {column} FROM "sessions" AS own WHERE own.id = {table}.session_id)'
#: An id with its mark.
_MARKED = re.compile(r"(.+)-[0-9a-f]{8}", re.DOTALL)
_LEDGER = Table(
    "usage_ledger",
    (
        "id",
        "session_id",
        "created_timestamp",
        "model",
        "input_tokens",
        "output_tokens",
        "cache_read_tokens",
        "cache_write_tokens",
        "is_compaction",
    ),
    {"created": _OF_SESSION.format(column="created_at", table="usage_ledger")},
    key=("id", "session_id", "created_timestamp"),
    time="created_timestamp",
)


class GooseRow(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A message, or a row of the ledger."""

    session_id: str | None = None
    created_timestamp: float | None = None
    message_id: str | None = None
    role: str | None = None
    content_json: msgspec.Raw = _ABSENT
    metadata_json: msgspec.Raw = _ABSENT
    cwd: str | None = None
    #: When the session was.
    created: str | int | float | None = None
    #: Of the ledger.
    id: int | None = None
    model: str | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_read_tokens: int | None = None
    cache_write_tokens: int | None = None
    is_compaction: int | None = None

    @property
    def session(self) -> str:
        """The session's id, which no other database has."""
        if self.created is None:
            return self.session_id or ""
        return f"{self.session_id}-{zlib.crc32(str(self.created).encode('utf-8', 'surrogatepass')):08x}"


class Goose(LogFormat[GooseRow]):
    """The database of Goose, from version 1.10 on."""

    name = "goose"
    title = "Goose"
    traits = Traits(integration="goose", variables=("GOOSE_PATH_ROOT", "XDG_DATA_HOME", "APPDATA"), mixes_sessions=True)
    table = Table(
        "messages",
        ("session_id", "message_id", "role", "content_json", "created_timestamp", "metadata_json"),
        {
            "cwd": _OF_SESSION.format(column="working_dir", table="messages"),
            "created": _OF_SESSION.format(column="created_at", table="messages"),
        },
        ("session_id", "message_id", "created_timestamp"),
        beside=_LEDGER,
        time="created_timestamp",
    )
    decoder = LineDecoder(GooseRow)

    def homes(self, environ: Mapping[str, str], home: Path) -> list[Path]:
        """``data/sessions`` in ``$GOOSE_PATH_ROOT``, or ``goose/sessions`` in the directories for data."""
        if named := environ.get("GOOSE_PATH_ROOT"):
            return [expanded(named, home) / "data" / "sessions"]
        data = agent_directory(environ, home, "XDG_DATA_HOME", default=".local/share")
        found = [data / "goose" / "sessions", home / "Library" / "Application Support" / "goose" / "sessions"]
        if appdata := environ.get("APPDATA"):
            found.append(Path(appdata) / "Block" / "goose" / "data" / "sessions")
        return found

    def is_log(self, path: Path) -> bool:
        """``sessions.db`` of Goose."""
        return path.name == "sessions.db" and path.parent.name == "sessions"

    def recognise(self, path: Path, head: bytes) -> Source | None:
        """By the first row."""
        row = self.decoder(first_lines(head, 1)[0])
        if row is None or not row.session_id or (row.role is None and row.input_tokens is None):
            return None
        return self.source(path, row.session)

    def event(self, line: GooseRow, raw: bytes, source: Source) -> Event:
        """The message's id; the number and the time of a row of the ledger."""
        # A damaged row without an id belongs to the first session of the database.
        session = line.session if line.session_id and line.session != source.session_id else None
        at = _time(line.created_timestamp)
        if line.role is None:
            return Event("usage", f"usage:{line.id}:{line.created_timestamp}", at, line, None, session)
        key = line.message_id or f"{line.created_timestamp}:{zlib.crc32(raw):x}"
        return Event(f"message/{line.role}", key, at, line, None, session)

    def acts(self, event: Event, source: Source, memory: Memory) -> Iterable[a.Act]:
        """What the row means."""
        row: GooseRow = event.body
        if row.role is None:
            return _charged(row, memory)
        found: list[a.Act] = []
        if row.cwd and row.cwd != memory.get("cwd"):
            memory["cwd"] = row.cwd
            found.append(a.SessionInfo(cwd=row.cwd))
        found += _answered(row, event.key or "", memory) if row.role == "assistant" else _asked(row, event.key, memory)
        return found

    def content(self, event: Event, source: Source) -> list[Content]:
        """The text in the row, whole."""
        row: GooseRow = event.body
        return [text for text in _texts(row) if text.text]

    def resume_command(self, session_id: str, logs: Sequence[Path]) -> ResumeCommand | None:
        """``goose session --resume --session-id <session>``."""
        marked = _MARKED.fullmatch(session_id)
        return ResumeCommand(("goose", "session", "--resume", "--session-id", marked[1] if marked else session_id))


def _time(value: float | None) -> int | None:
    if value is None:
        return None
    micros = duration(value if value > _MOST_SECONDS else value * 1000)
    return None if micros is None else time_at(micros)


def _parts(row: GooseRow) -> list[object]:
    value = value_of(row.content_json)
    return value if isinstance(value, list) else []


def _is_shown(row: GooseRow) -> bool:
    """Not a summary of what was said before, which only the model sees."""
    return lookup(value_of(row.metadata_json), "userVisible") is not False


def _asked(row: GooseRow, key: str | None, memory: Memory) -> list[a.Act]:
    """A prompt, or the results of tools: both end the step."""
    memory.pop("step", None)
    results = [part for part in _parts(row) if text_at(part, "type") == "toolResponse" and text_at(part, "id")]
    if results:
        return [_tool_end(part) for part in results]
    prompt = "\n".join(text for part in _parts(row) if (text := text_at(part, "text")))
    if not _is_shown(row):
        return [a.Note("compaction")]
    if not prompt:
        return []
    memory.pop("unpaid", None)
    return [a.TurnBegin(prompt, turn=key)]


def _tool_end(part: object) -> a.Act:
    error = _failure(part)
    return a.ToolEnd(text_at(part, "id") or "", "ok" if error is None else "error", error)


def _failure(part: object) -> str | None:
    """Why a tool failed; ``None`` where it did not."""
    if text_at(part, "toolResult", "status") == "error":
        return text_at(part, "toolResult", "error") or "failed"
    if lookup(part, "toolResult", "value", "isError") is True:
        return _result(part) or "failed"
    return None


def _result(part: object) -> str:
    value = lookup(part, "toolResult", "value")
    listed = lookup(value, "content") if isinstance(value, dict) else value
    return "\n".join(text for each in (listed if isinstance(listed, list) else []) if (text := text_at(each, "text")))


def _calls(row: GooseRow) -> list[object]:
    return [part for part in _parts(row) if text_at(part, "type") == "toolRequest" and text_at(part, "id")]


def _answered(row: GooseRow, key: str, memory: Memory) -> list[a.Act]:
    """A part of a model's answer: several messages in a row are one call."""
    if "step" not in memory:
        memory["step"] = key
        remember(memory.setdefault("unpaid", {}), key, 1)
    step = memory["step"]
    found: list[a.Act] = [a.StepBegin(step, model=memory.get("model"), implied=True)]
    calls = _calls(row)
    for call in calls:
        name = text_at(call, "toolCall", "value", "name") or "unknown"
        found.append(a.ToolBegin(text_at(call, "id") or "", name, step))
    if not calls and any(text_at(part, "text") for part in _parts(row)):
        found.append(a.FinalAnswer())
    return found


def _charged(row: GooseRow, memory: Memory) -> list[a.Act]:
    """A call of a model: that of the first step without tokens, or of the step that it opens."""
    name = f"{row.session}:{row.id}:{row.created_timestamp}"
    counts = (row.input_tokens, row.output_tokens, row.cache_read_tokens, row.cache_write_tokens)
    usage = usage_of_prompt(*map(count, counts))
    if row.is_compaction:
        return [a.Note("compaction"), a.ResponseUsage(f"goose:{name}", usage, row.model, detached=True)]
    if row.model:
        memory["model"] = row.model
    unpaid = memory.get("unpaid")
    if unpaid:
        step = next(iter(unpaid))
        del unpaid[step]
    else:
        step = memory["step"] = f"usage:{name}"
    return [a.ResponseUsage(f"goose:{name}", usage, row.model, step)]


def _texts(row: GooseRow) -> Iterator[Content]:
    shown = _is_shown(row)
    for part in _parts(row):
        match text_at(part, "type"):
            case "text":
                kind = "text" if row.role == "assistant" else "prompt" if shown else "note"
                yield Content(kind, text_at(part, "text") or "")  # type: ignore[arg-type]  # one of the kinds above
            case "thinking":
                yield Content("thinking", text_at(part, "thinking") or "")
            case "toolRequest":
                arguments = lookup(part, "toolCall", "value", "arguments")
                yield Content("arguments", json_text(arguments), text_at(part, "id"))
            case "toolResponse":
                failure = _failure(part)
                yield Content("result" if failure is None else "error", failure or _result(part), text_at(part, "id"))
