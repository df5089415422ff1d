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
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from agenttrace.model import Event
from agenttrace.record.formats.base import agent_directory
from agenttrace.record.formats.contract import Content, Memory, Outcome, Source, Traits, Unusable
from agenttrace.record.formats.diffs import decoded, text_change
from agenttrace.record.formats.kimi_acts import meaning
from agenttrace.record.formats.kimi_lines import (
    LINES,
    LOG_NAME,
    Relayed,
    WireFormat,
    WireLine,
    WireMessage,
    Wrapped,
    is_wire_message,
    opening_objects,
    texts_of,
)
from agenttrace.record.formats.lenient import as_text, lookup, read_as, read_object, text_at
from agenttrace.record.ingest import acts as a

#: A first line too long for the head.
_CUT_LINE = re.compile(rb'\{"timestamp": ?[\d.]+, ?"message": ?\{"type": ?"\w+"')


class KimiCli(WireFormat[WireLine]):
    """The log format of Kimi CLI, from 0.59 to its last version."""

    name = "kimi-cli"
    title = "Kimi CLI"
    #: Beside its logs it keeps the messages that it sends, and lists of prompts.
    traits = Traits(
        provider="moonshot_ai",
        integration="kimi-cli",
        variables=("KIMI_SHARE_DIR",),
        side_files=re.compile(r"(context(_sub)?(_\d+)?|[0-9a-f]{32})\.jsonl"),
    )
    decoder = LINES

    def homes(self, environ: Mapping[str, str], home: Path) -> list[Path]:
        """The sessions under ``$KIMI_SHARE_DIR`` or ``~/.kimi``; imported copies are left out."""
        return [agent_directory(environ, home, "KIMI_SHARE_DIR", default=".kimi") / "sessions"]

    def is_log(self, path: Path) -> bool:
        """``wire.jsonl`` of a session or of one of its subagents."""
        return path.name == LOG_NAME and "imported_sessions" not in path.parts

    def recognise(self, path: Path, head: bytes) -> Source | None:
        """A header without ``created_at`` (that is Kimi Code's), or wire messages without any header."""
        if not _is_wire(head):
            return None
        if path.name == LOG_NAME and path.parent.parent.name == "subagents":
            return self._subagent(path)
        facts = _session_facts(path.parent) if path.name == LOG_NAME else {}
        return self.source(path, self.session_name(path), **facts)

    def _subagent(self, path: Path) -> Source:
        session = path.parent.parent.parent
        meta = read_object(path.parent / "meta.json")
        facts = _session_facts(session)
        model = text_at(meta, "launch_spec", "effective_model")
        if model is not None:
            facts["model"] = _configured_model(session.parent.parent.parent, model)
        return self.source(
            path,
            session.name,
            stream=path.parent.name,
            parent_stream="main",
            parent_call=_background_call(session, path.parent.name),
            name=text_at(meta, "subagent_type"),
            **facts,
        )

    def event(self, line: WireLine, raw: bytes, source: Source) -> Event | Unusable:
        """The line's type, time and key; a payload stays undecoded until it is needed."""
        message = line.message
        if message is None:
            if line.type == "metadata":
                return Unusable("header", harmless=True)
            message = WireMessage(line.type or "unknown", line.payload)
        at = key = None
        if line.timestamp is not None and 0 < line.timestamp < 1e11:
            # No ordinal: a line that is appended again is the same event.
            at = round(line.timestamp * 1e6)
            key = f"{at}:{zlib.crc32(raw):x}"
            key = key if source.stream == "main" else f"{source.stream}:{key}"
        if message.type == "SubagentEvent":
            relayed = _unwrap(message, source)
            if relayed is not None:
                return Event("SubagentEvent", key, at, relayed, None if relayed.mirrored else relayed.stream)
        return Event(message.type, key, at, message)

    def acts(self, event: Event, source: Source, memory: Memory) -> Iterable[a.Act]:
        """What the message means; a wrapped one is given for the subagent's stream."""
        return meaning(event, source, memory)

    def outcomes(self, raw: bytes) -> Iterable[Outcome]:
        """The texts before and after that the result of an edit shows."""
        line = decoded(raw, b'"diff"')
        if text_at(line, "message", "type") != "ToolResult":
            return
        payload = lookup(line, "message", "payload")
        result = lookup(payload, "return_value")
        shown = lookup(result, "display")
        for each in shown if isinstance(shown, list) and lookup(result, "is_error") is False else ():
            if text_at(each, "type") == "diff":
                old, new = text_at(each, "old_text") or "", text_at(each, "new_text") or ""
                yield from text_change(text_at(each, "path"), old, new, text_at(payload, "tool_call_id"))

    def content(self, event: Event, source: Source) -> list[Content]:
        """The texts of the message; none for a wrapped one that the subagent's own file has."""
        return texts_of(event.body)


def _is_wire(head: bytes) -> bool:
    """Whether the first lines are Kimi CLI's; a header alone is enough."""
    header = False
    for value in opening_objects(head):
        if is_wire_message(value):
            return True
        if header or value.get("type") != "metadata" or "protocol_version" not in value:
            return False
        if "created_at" in value:
            return False
        header = True
    return header or _CUT_LINE.match(head) is not None


def _session_facts(session: Path) -> dict[str, Any]:
    """Working directory, title, model: none of them is in the log."""
    title = text_at(read_object(session / "state.json"), "custom_title")
    title = title or text_at(read_object(session / "metadata.json"), "title")
    facts: dict[str, Any] = {"title": title, "copied": title is not None and title.startswith("Fork: ")}
    if session.parent.parent.name == "sessions":
        share = session.parent.parent.parent
        facts |= {"cwd": _work_dir(share, session.parent.name), "model": _configured_model(share)}
    return facts


def _work_dir(share: Path, bucket: str) -> str | None:
    """The directory whose digest the bucket is named after."""
    work_dirs = read_object(share / "kimi.json").get("work_dirs")
    for entry in work_dirs if isinstance(work_dirs, list) else []:
        path = text_at(entry, "path")
        if path is None:
            continue
        digest = hashlib.md5(path.encode("utf-8", "surrogatepass"), usedforsecurity=False).hexdigest()
        kaos = entry.get("kaos", "local")
        if bucket == (digest if kaos == "local" else f"{kaos}_{digest}"):
            return path
    return None


def _configured_model(share: Path, alias: str | None = None) -> str | None:
    """The model of the settings: a guess, because the log never has the model that answered."""
    if alias is None and (named := os.environ.get("KIMI_MODEL_NAME")):
        return named
    try:
        config = tomllib.loads((share / "config.toml").read_text("utf-8"))
    except (OSError, ValueError):
        return alias
    alias = alias or text_at(config, "default_model")
    return alias and (text_at(config, "models", alias, "model") or alias)


def _background_call(session: Path, agent: str) -> str | None:
    """The tool call that started a background subagent, from the task it runs as."""
    for spec_file in sorted(session.glob("tasks/*/spec.json"))[:256]:
        spec = read_object(spec_file)
        if lookup(spec, "kind_payload", "agent_id") == agent:
            return text_at(spec, "tool_call_id")
    return None


def _unwrap(message: WireMessage, source: Source) -> Relayed | None:
    """The innermost event; the calls of this file's own stream are the outermost wrapper's."""
    relayed = None
    for _ in range(8):
        wrapped = read_as(Wrapped, message.payload)
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
        relayed = Relayed(stream, call, as_text(wrapped.subagent_type), message, mirrored)
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
