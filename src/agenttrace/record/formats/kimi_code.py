"""Kimi Code's ``wire.jsonl``: one agent record a line, one file for each agent of a session.

The usage of a step stands in four records; only ``usage.record`` is counted. Messages stand in three; only
``turn.prompt`` and the loop events are folded. Lines are in order, their times are not.
"""

from __future__ import annotations

import math
import re
import zlib
from collections.abc import Iterable, Mapping
from datetime import datetime
from functools import lru_cache
from pathlib import Path
from typing import Any

from agenttrace.model import Event
from agenttrace.record.formats.contract import Content, Source, Traits, Unusable
from agenttrace.record.formats.kimi_code_acts import meaning
from agenttrace.record.formats.kimi_code_lines import (
    Record,
    decode_record,
    is_record,
    read_odd_record,
    texts_of,
    unusable,
)
from agenttrace.record.formats.kimi_lines import LOG_NAME, opening_objects
from agenttrace.record.formats.lenient import DECODING_ERRORS, as_text, microseconds, read_object
from agenttrace.record.ingest.acts import Act

#: What ``kimi migrate`` names the sessions that it copies from Kimi CLI.
IMPORT_PREFIX = "ses_"
#: What the macOS desktop application keeps instead of ``~/.kimi-code``.
DESKTOP_HOME = "Library/Application Support/kimi-desktop/daimon-share/daimon/runtime/kimi-code/home"


class KimiCode:
    """The log format of Kimi Code, from protocol 1.0 on."""

    name = "kimi-code"
    title = "Kimi Code"
    traits = Traits(
        provider="moonshot_ai",
        integration="kimi-code",
        variables=("KIMI_CODE_HOME",),
        side_files=re.compile(r"session_index\.jsonl"),
    )

    def homes(self, environ: Mapping[str, str], home: Path) -> list[Path]:
        """The sessions under ``$KIMI_CODE_HOME`` or ``~/.kimi-code``, and the desktop application's."""
        own = environ.get("KIMI_CODE_HOME")
        main = Path(own).expanduser() if own else home / ".kimi-code"
        return [main / "sessions", home / DESKTOP_HOME / "sessions"]

    def is_log(self, path: Path) -> bool:
        """``wire.jsonl`` of one of a session's agents."""
        return path.name == LOG_NAME

    def recognise(self, path: Path, head: bytes) -> Source | None:
        """A header with ``created_at``, or records of one of the known families."""
        if not _is_wire(head):
            return None
        if path.name != LOG_NAME:
            return Source(agent=self.name, session_id=path.stem, directory=str(path.parent))
        if path.parent.parent.name != "agents":
            return Source(agent=self.name, session_id=path.parent.name, directory=str(path.parent))
        return _agent_source(path)

    def session_name(self, path: Path) -> str:
        """That of the directory: all logs have one name."""
        return path.parent.name if path.name == LOG_NAME else path.stem

    def decode(self, raw: bytes, source: Source) -> Event | Unusable:
        """The record's type, time and key; long parts stay undecoded until somebody asks."""
        try:
            record = decode_record(raw)
        except DECODING_ERRORS:
            odd = read_odd_record(raw)
            if odd is None:
                return unusable(raw)
            record = odd
        return _event(record, raw, source)

    def acts(self, event: Event, source: Source, memory: dict[str, Any]) -> Iterable[Act]:
        """What the record means."""
        return meaning(event, source, memory)

    def content(self, event: Event, source: Source) -> list[Content]:
        """The texts of the record, unless it only repeats those of another."""
        return texts_of(event.body)


def _is_wire(head: bytes) -> bool:
    """Whether the first lines are Kimi Code's; its protocol numbers are Kimi CLI's over again."""
    for value in opening_objects(head):
        if value.get("type") == "metadata" and "protocol_version" in value:
            if "created_at" in value:
                return True
            continue
        return is_record(value)
    return False


def _agent_source(path: Path) -> Source:
    session = path.parent.parent.parent
    stream = path.parent.name
    state = read_object(session / "state.json")
    agents = state.get("agents")
    agent = agents.get(stream) if isinstance(agents, dict) else None
    agent = agent if isinstance(agent, dict) else {}
    labels = agent.get("labels")
    parent = as_text(state.get("forkedFrom"))
    return Source(
        agent=KimiCode.name,
        session_id=session.name,
        stream=stream,
        parent_stream=as_text(agent.get("parentAgentId")),
        parent_session=parent,
        copied=parent is not None,
        cwd=as_text(state.get("cwd")) or as_text(state.get("workDir")),
        title=as_text(state.get("title")),
        name=as_text(labels.get("profileName")) if isinstance(labels, dict) else None,
        directory=str(path.parent),
    )


def _is_copy(at: int | None, source: Source) -> bool:
    try:
        until = _copied_until(source.directory)
    except FileNotFoundError:
        return True
    return until > 0 and (at is None or at < until)


@lru_cache(maxsize=1024)
def _copied_until(directory: str) -> float:
    """Up to when (microseconds) the records repeat a Kimi CLI session; later ones are its continuation."""
    agents = Path(directory).parent
    if agents.name != "agents":
        return 0
    session = agents.parent
    path = session / "state.json"
    if session.name.startswith(IMPORT_PREFIX) and not path.exists():
        raise FileNotFoundError(path)  # the import writes the log first: ask again
    custom = read_object(path).get("custom")
    if not isinstance(custom, dict) or custom.get("imported_from_kimi_cli") is not True:
        return 0
    try:
        return microseconds(datetime.fromisoformat(custom["imported_at"]))
    except (KeyError, TypeError, ValueError):
        return math.inf


def _event(record: Record, raw: bytes, source: Source) -> Event | Unusable:
    time = record.time
    at = round(time * 1000) if type(time) in (int, float) and 0 < time < 1e14 else None
    if record.type == "metadata" and record.protocol_version is not None:
        return Unusable("header", harmless=True)
    if _is_copy(at, source):
        return Unusable("imported copy of a Kimi CLI session", harmless=True)
    loop = record.event
    if loop is None:
        key = f"{source.stream}:{at}:{zlib.crc32(raw):x}" if at is not None else None
        return Event(record.type, key, at, record)
    # Migrations rewrite what is in a result; its ids and its time stay.
    name = loop.uuid or loop.parent_uuid or loop.tool_call_id
    key = f"{source.stream}:{loop.type}:{name}:{time}" if isinstance(name, str) else None
    return Event(f"{record.type}/{loop.type}", key, at, record)
