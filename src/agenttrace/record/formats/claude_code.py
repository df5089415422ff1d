"""Claude Code: one content block, user message or system note a line, in files that copy each other.

One model response fills several lines, each with the usage of the whole; forks, compaction replays and
parallel subagents repeat lines of other files under the same uuid. Hence a line's uuid is its key, a message
id names the response in every file, and the fold and the ledger merge what is repeated.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from agenttrace.model import Event
from agenttrace.record.formats.base import (
    UUID,
    LineDecoder,
    LogFormat,
    agent_directory,
    expanded,
    first,
    first_lines,
)
from agenttrace.record.formats.claude_acts import meaning, repeated_usage
from agenttrace.record.formats.claude_lines import ABSENT, LINES, NOT_SAID, ClaudeLine, texts_of
from agenttrace.record.formats.claude_requests import context_of
from agenttrace.record.formats.context import ContextFact
from agenttrace.record.formats.contract import (
    Content,
    FileChange,
    LogCleanup,
    Memory,
    Outcome,
    PullRequest,
    ResumeCommand,
    Source,
    Traits,
)
from agenttrace.record.formats.diffs import Hunk, Made, change_of, decoded, text_change
from agenttrace.record.formats.lenient import lookup, read_object, text_at, time_of
from agenttrace.record.formats.media import Media
from agenttrace.record.ingest import acts as a

_NOT_LOGS = frozenset({"history.jsonl", "journal.jsonl", "audit.jsonl"})
#: Kinds of lines without the usual envelope.
_BARE = NOT_SAID | frozenset(
    {
        "agent-name",
        "ai-title",
        "custom-title",
        "file-history-snapshot",
        "last-prompt",
        "mode",
        "permission-mode",
        "queue-operation",
        "summary",
    }
)
#: After so many days transcripts are deleted, unless a setting says otherwise.
_CLEANUP_DAYS = 30
#: A larger number is no period.
_MOST_DAYS = 1_000_000
#: So many first lines are read to recognise a file; a damaged beginning is rarely longer.
_OPENING_LINES = 16

#: A first line too long for the head; Qwen Code's begin with the uuid.
_CUT_LINE = re.compile(rb'\{(?!"uuid")[^\n]{0,2000}?"isSidechain": ?(?:true|false)')
_SESSION = re.compile(rb'"sessionId": ?"([^"\\]{1,200})"')


class _Opening(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The fields of first lines by which a file is recognised."""

    type: str | None = None
    uuid: str | None = None
    session_id: str | None = None
    agent_id: str | None = None
    cwd: str | None = None
    leaf_uuid: str | None = None
    message_id: str | None = None
    is_sidechain: bool | None = None
    message: msgspec.Raw = ABSENT
    system_payload: msgspec.Raw = ABSENT
    tool_call_result: msgspec.Raw = ABSENT


_read_opening = LineDecoder(_Opening, {})


class ClaudeCode(LogFormat[ClaudeLine]):
    """The log format of Claude Code, its desktop app included."""

    name = "claude-code"
    title = "Claude Code"
    traits = Traits(
        provider="anthropic",
        integration="claude-code",
        variables=("CLAUDE_CONFIG_DIR", "XDG_CONFIG_HOME", "APPDATA"),
        side_files=re.compile("|".join(map(re.escape, sorted(_NOT_LOGS)))),
        repeats_usage=True,
    )
    decoder = LINES

    def homes(self, environ: Mapping[str, str], home: Path) -> list[Path]:
        """``projects`` under each configuration directory, and the desktop app's sessions."""
        settings = agent_directory(environ, home, "XDG_CONFIG_HOME", default=".config")
        named = [part.strip() for part in environ.get("CLAUDE_CONFIG_DIR", "").split(",")]
        chosen = [expanded(part, home) for part in named if part]
        desktop = [home / "Library" / "Application Support", settings]
        if environ.get("APPDATA"):
            desktop.append(Path(environ["APPDATA"]))
        return [
            *(base / "projects" for base in chosen or [home / ".claude", settings / "claude"]),
            *(base / "Claude" / "local-agent-mode-sessions" for base in desktop),
        ]

    def is_log(self, path: Path) -> bool:
        """Every JSONL file but those that only list prompts or mirror a session in another shape."""
        return path.suffix == ".jsonl" and path.name not in _NOT_LOGS

    def recognise(self, path: Path, head: bytes) -> Source | None:
        """A session's main file, or the file of one of its subagents."""
        lines = [line for raw in first_lines(head, _OPENING_LINES) if (line := _read_opening(raw)) is not None]
        if not (any(_is_ours(line, path) for line in lines) or (not lines and _CUT_LINE.match(head))):
            return None
        cut = _SESSION.search(head)
        inside = first(line.session_id for line in lines) or (cut and cut[1].decode("utf-8", "replace"))
        if path.stem.startswith("agent-"):
            return self._subagent(path, inside, first(line.agent_id for line in lines))
        own = path.stem if UUID.fullmatch(path.stem) else inside or path.stem
        origin = inside if inside != own else None
        return self.source(
            path,
            own,
            parent_session=origin,
            copied=origin is not None,
            cwd=first(line.cwd for line in lines),
        )

    def _subagent(self, path: Path, inside: str | None, agent_id: str | None) -> Source:
        session = inside or path.stem
        if "subagents" in path.parts:
            above = path.parts[len(path.parts) - path.parts[::-1].index("subagents") - 2]
            session = above if UUID.fullmatch(above) else inside or above
        meta = read_object(path.with_suffix(".meta.json"))
        depth = meta.get("spawnDepth")
        # The call that runs a workflow names the run, and all its agents are in the run's directory.
        run = path.parent.name if path.parent.parent.name == "workflows" else None
        return self.source(
            path,
            session,
            stream=path.stem.removeprefix("agent-") or agent_id or path.stem,
            parent_stream=None if isinstance(depth, int) and depth > 1 else "main",
            parent_call=text_at(meta, "toolUseId") or run,
            name=text_at(meta, "agentType"),
        )

    def event(self, line: ClaudeLine, raw: bytes, source: Source) -> Event:
        """A line's uuid is its key."""
        stream = None
        if line.is_sidechain and source.stream == "main":
            stream = line.agent_id or "sidechain"
        return Event(line.type or "unknown", line.uuid or None, time_of(line.timestamp), line, stream)

    def acts(self, event: Event, source: Source, memory: Memory) -> Iterable[a.Act]:
        """What the line means."""
        return meaning(event.body, memory, event.stream is None and source.stream == "main")

    def repeated_usage(self, event: Event, source: Source, memory: Memory) -> a.ResponseUsage | None:
        """The usage in a line that was recorded before."""
        return repeated_usage(event.body, memory)

    def content(self, event: Event, source: Source) -> list[Content]:
        """The text in the line, whole."""
        return texts_of(event.body)

    def context(self, event: Event, source: Source, memory: Memory, raw: bytes) -> Iterable[ContextFact]:
        """The requests that the log has, and the conversation."""
        acts = self.acts(event, source, memory)
        return context_of(event.body, raw, acts, self.content(event, source), memory.setdefault("requests", {}))

    def media(self, event: Event, raw: bytes) -> list[Media]:
        """Those of messages; lines about requests repeat them."""
        return [] if event.type.startswith("api-request") else super().media(event, raw)

    def outcomes(self, raw: bytes) -> Iterable[Outcome]:
        """The patch in the result of an edit; the link of a pull request."""
        line = decoded(raw, b'"structuredPatch"', b'"notebook_path"', b'"pr-link"')
        if text_at(line, "type") == "pr-link":
            url = text_at(line, "prUrl")
            return [PullRequest(url=url)] if url else []
        return _changes(line)

    def cleanups(self, logs: Sequence[Path]) -> list[LogCleanup]:
        """The configuration directories of these logs, and after how many days each deletes its transcripts."""
        places = (next((each for each in path.parents if each.name == "projects"), None) for path in logs)
        return [_cleanup(base) for base in sorted({each.parent for each in places if each is not None})]

    def resume_command(self, session_id: str, logs: Sequence[Path]) -> ResumeCommand | None:
        """``claude --resume <session>``."""
        return ResumeCommand(("claude", "--resume", session_id))


def _cleanup(base: Path) -> LogCleanup:
    found = LogCleanup(directory=base, days=float(_CLEANUP_DAYS), origin="its default; cleanupPeriodDays is not set")
    for name in ("settings.json", "settings.local.json"):
        days = read_object(base / name).get("cleanupPeriodDays")
        if isinstance(days, int | float) and not isinstance(days, bool) and 0 <= days <= _MOST_DAYS:
            origin = f"cleanupPeriodDays in {base / name}"
            found = LogCleanup(directory=base, days=float(days), origin=origin)
    return found


def _is_ours(line: _Opening, path: Path) -> bool:
    if line.is_sidechain is not None:
        # Qwen Code's subagents write this flag too, on messages made of parts.
        of_qwen = line.system_payload or line.tool_call_result or b'"parts"' in bytes(line.message)[:200]
        return not of_qwen
    if line.type is None or line.uuid is not None:
        return False
    if line.type in _BARE:
        return any((line.session_id, line.leaf_uuid, line.message_id))
    return line.session_id is not None and UUID.fullmatch(path.stem) is not None


def _changes(line: object) -> Iterator[FileChange]:
    """What an edit changed; a new file has its content and no patch, a cell of a notebook neither."""
    result = lookup(line, "toolUseResult")
    parts, hunks = lookup(line, "message", "content"), lookup(result, "structuredPatch")
    calls = [text_at(part, "tool_use_id") for part in parts] if isinstance(parts, list) else []
    call, path = next(filter(None, calls), None), text_at(result, "filePath")
    if isinstance(hunks, list) and hunks:
        yield from change_of(path, filter(None, map(_hunk, hunks)), call)
    elif isinstance(hunks, list) and text_at(result, "type") == "create":
        yield from text_change(path, "", text_at(result, "content") or "", call, Made(created=True))
    elif (notebook := text_at(result, "notebook_path")) and not text_at(result, "error"):
        yield FileChange(path=notebook, call=call)


def _hunk(value: object) -> Hunk | None:
    old, new, lines = lookup(value, "oldStart"), lookup(value, "newStart"), lookup(value, "lines")
    if not isinstance(lines, list):
        return None
    marked = [each for each in lines if isinstance(each, str)]
    return Hunk(old, new, marked) if isinstance(old, int) and isinstance(new, int) else Hunk(None, None, marked)
