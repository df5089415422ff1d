"""Kimi Code's ``wire.jsonl``: one agent record a line, one file for each agent of a session.

The usage of a step is in four records; only ``usage.record`` is counted. Messages are in three; only
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

from agenttrace.model import Event
from agenttrace.record.formats.base import agent_directory
from agenttrace.record.formats.context import ContextFact, conversation, system_prompt, tool_set
from agenttrace.record.formats.contract import Applied, Content, FileChange, Memory, Outcome, Source, Traits, Unusable
from agenttrace.record.formats.diffs import asked, decoded, text_change, written
from agenttrace.record.formats.kimi_code_acts import meaning
from agenttrace.record.formats.kimi_code_lines import LINES, KimiRecord, is_record, texts_of
from agenttrace.record.formats.kimi_lines import LOG_NAME, WireFormat, opening_objects
from agenttrace.record.formats.lenient import json_object, lookup, microseconds, read_object, text_at
from agenttrace.record.ingest import acts as a

#: What ``kimi migrate`` names the sessions that it copies from Kimi CLI.
IMPORT_PREFIX = "ses_"
#: What the macOS desktop application keeps instead of ``~/.kimi-code``.
DESKTOP_HOME = "Library/Application Support/kimi-desktop/daimon-share/daimon/runtime/kimi-code/home"


class KimiCode(WireFormat[KimiRecord]):
    """The log format of Kimi Code, from protocol 1.0 on."""

    name = "kimi-code"
    title = "Kimi Code"
    parts_not_in_log = frozenset()
    traits = Traits(
        provider="moonshot_ai",
        integration="kimi-code",
        variables=("KIMI_CODE_HOME",),
        side_files=re.compile(r"session_index\.jsonl"),
    )
    decoder = LINES

    def homes(self, environ: Mapping[str, str], home: Path) -> list[Path]:
        """The sessions under ``$KIMI_CODE_HOME`` or ``~/.kimi-code``, and the desktop application's."""
        main = agent_directory(environ, home, "KIMI_CODE_HOME", default=".kimi-code")
        return [main / "sessions", home / DESKTOP_HOME / "sessions"]

    def recognise(self, path: Path, head: bytes) -> Source | None:
        """A header with ``created_at``, or records of one of the known families."""
        if not _is_wire(head):
            return None
        if path.name != LOG_NAME or path.parent.parent.name != "agents":
            return self.source(path, self.session_name(path))
        session = path.parent.parent.parent
        state = read_object(session / "state.json")
        agent = lookup(state, "agents", path.parent.name)
        parent = text_at(state, "forkedFrom")
        return self.source(
            path,
            session.name,
            stream=path.parent.name,
            parent_stream=text_at(agent, "parentAgentId"),
            parent_session=parent,
            copied=parent is not None,
            cwd=text_at(state, "cwd") or text_at(state, "workDir"),
            title=text_at(state, "title"),
            name=text_at(agent, "labels", "profileName"),
        )

    def event(self, line: KimiRecord, raw: bytes, source: Source) -> Event | Unusable:
        """The record's type, time and key; long parts stay undecoded until they are needed."""
        time = line.time
        at = round(time * 1000) if type(time) in (int, float) and 0 < time < 1e14 else None
        if line.type == "metadata" and line.protocol_version is not None:
            return Unusable("header", harmless=True)
        if _is_copy(at, source):
            return Unusable("imported copy of a Kimi CLI session", harmless=True)
        loop = line.event
        if loop is None:
            key = f"{source.stream}:{at}:{zlib.crc32(raw):x}" if at is not None else None
            return Event(line.type, key, at, line)
        # Migrations rewrite what is in a result; its ids and its time stay.
        name = loop.uuid or loop.parent_uuid or loop.tool_call_id
        key = f"{source.stream}:{loop.type}:{name}:{time}" if isinstance(name, str) else None
        return Event(f"{line.type}/{loop.type}", key, at, line)

    def acts(self, event: Event, source: Source, memory: Memory) -> Iterable[a.Act]:
        """What the record means."""
        return meaning(event, source, memory)

    def outcomes(self, raw: bytes) -> Iterable[Outcome]:
        """What ``Edit`` and ``Write`` were called with, once their result is not an error."""
        event = lookup(decoded(raw, b'"name":"Edit"', b'"name":"Write"', b'"tool.result"'), "event")
        call = text_at(event, "toolCallId")
        if text_at(event, "type") == "tool.result":
            return [Applied(call=call)] if call and lookup(event, "result", "isError") is not True else []
        arguments, name = lookup(event, "args"), text_at(event, "name")
        path = text_at(arguments, "path") or text_at(arguments, "file_path")
        if text_at(event, "type") != "tool.call" or path is None:
            return []
        if name == "Edit":
            old, new = text_at(arguments, "old_string") or "", text_at(arguments, "new_string") or ""
            # How often a text was replaced is not known from the call.
            whole = lookup(arguments, "replace_all") is True
            return asked([FileChange(path=path, call=call)] if whole else text_change(path, old, new, call))
        return written(path, text_at(arguments, "content"), call) if name == "Write" else []

    def content(self, event: Event, source: Source) -> list[Content]:
        """The texts of the record, unless it only repeats those of another."""
        return texts_of(event.body)

    def context(self, event: Event, source: Source, memory: Memory, raw: bytes) -> Iterable[ContextFact]:
        """The system prompt and the tools, which are logged when they change; and the conversation."""
        if event.type == "profile.bind":
            prompt = text_at(json_object(raw), "systemPrompt")
            if prompt is not None:
                yield system_prompt(prompt)
        elif event.type == "llm.tools_snapshot":
            yield tool_set(json_object(raw).get("tools"))
        sent = event.type == "context.append_message"
        yield from conversation(self.acts(event, source, memory), self.content(event, source), notes_sent=sent)


def _is_wire(head: bytes) -> bool:
    """Whether the first lines are Kimi Code's; its protocol numbers are Kimi CLI's over again."""
    for value in opening_objects(head):
        if value.get("type") == "metadata" and "protocol_version" in value:
            if "created_at" in value:
                return True
            continue
        return is_record(value)
    return False


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
