"""What a log format provides: recognise a file, decode a line, translate it into acts, find the texts in it.

To add a format, write one module with one class and name it in ``formats/__init__.py``, or in the entry points of a
package. ``base.py`` has what formats share. Nothing else in the product knows the formats.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import msgspec

from agenttrace.model import Event
from agenttrace.record.formats.context import ContextFact, Part, conversation
from agenttrace.record.formats.media import Media, MediaFacts, media_in
from agenttrace.record.ingest.acts import Act, ResponseUsage


class Source(msgspec.Struct, frozen=True, kw_only=True):
    """What a file is: from its path, its first bytes and the small files beside it."""

    agent: str
    session_id: str
    #: ``main``, or the id of the subagent that wrote this file.
    stream: str = "main"
    #: The stream and the tool call that started this one, where the files beside it have them.
    parent_stream: str | None = None
    parent_call: str | None = None
    #: The session this one was forked from, where the files beside it have it.
    parent_session: str | None = None
    #: True for a copy of an earlier session: tokens of both count for the original.
    copied: bool = False
    cwd: str | None = None
    title: str | None = None
    #: The subagent's kind ("coder"), for the name of its turns.
    name: str | None = None
    #: The model, where only the agent's settings have it.
    model: str | None = None
    #: The directory of the file, for agents that keep companions there.
    directory: str = ""


def stored_source(data: bytes | None) -> Source | None:
    """A source as the store has it; ``None`` where it cannot be read."""
    try:
        return None if data is None else msgspec.json.decode(data, type=Source)
    except msgspec.MsgspecError:
        return None


class Unusable(msgspec.Struct, frozen=True):
    """A line that is not an event."""

    reason: str
    #: True: known and of no interest (a header). False: broken, to be quarantined.
    harmless: bool
    #: Whole objects that could be cut out of the broken line, each to be recorded.
    salvaged: tuple[bytes, ...] = ()


class MediaPlace(msgspec.Struct, frozen=True, kw_only=True):
    """A picture of a recorded line."""

    facts: MediaFacts
    event_no: int
    #: Its place among the pictures of the line.
    number: int


class Content(msgspec.Struct, frozen=True):
    """A piece of text in a line, for people and for search."""

    kind: Literal["prompt", "text", "thinking", "arguments", "arguments_part", "result", "error", "note", "media"]
    text: str
    #: The tool call it belongs to, if any.
    call: str | None = None
    #: The picture that the text of the kind ``media`` describes.
    media: MediaPlace | None = None


class FileChange(msgspec.Struct, frozen=True, kw_only=True):
    """A file that a tool call changed, as the line of its result says."""

    path: str
    #: How many lines; ``None`` where the line names the file only.
    added: int | None = None
    removed: int | None = None
    #: The added lines themselves, some of a long change.
    lines: tuple[str, ...] = ()
    #: The hunks of a unified diff, each with its header; empty where the log does not have them.
    diff: str = ""
    #: Whether the numbers in the headers are those of the file; else they count from the text that was replaced.
    numbered: bool = False
    created: bool = False
    deleted: bool = False
    #: True where there is a diff that is too long to be carried along.
    cut: bool = False
    call: str | None = None
    #: True where the line is that of the call: it counts once the call is ``Applied``.
    asked: bool = False


class Applied(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a call, which says that the changes it was called with were made."""

    call: str


class Commit(msgspec.Struct, frozen=True, kw_only=True):
    """A commit that the agent itself reports."""

    hash: str
    subject: str = ""
    branch: str | None = None
    #: Whether it takes the place of the commit before it in its branch.
    amends: bool = False


class PullRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A pull request that belongs to the session."""

    url: str


#: What came of a session.
Outcome = FileChange | Applied | Commit | PullRequest

#: What a stream remembers from one line to the next.
Memory = dict[str, Any]
#: The raw line of another event of the same session, by trace, type and key; ``None`` where there is none.
Find = Callable[[str, str, str], bytes | None]


class LogCleanup(msgspec.Struct, frozen=True, kw_only=True):
    """After how long an agent deletes its logs of a directory."""

    directory: Path
    days: float
    #: Where the number comes from, for people.
    origin: str
    #: How many sessions of a project the agent keeps, where that is limited.
    most: int | None = None
    #: Logs that it deletes at its next start because there are more of them.
    surplus: frozenset[Path] = frozenset()


#: What a command cannot do. ``latest_only``: it takes no session, and goes on with the latest one.
#: ``copy``: it goes on in a copy of the session. ``whole_history``: it goes on with all chats of the directory.
ResumeLimit = Literal["latest_only", "copy", "whole_history"]


class ResumeCommand(msgspec.Struct, frozen=True):
    """The agent's own command that goes on with a session, run in the session's directory."""

    arguments: tuple[str, ...]
    limit: ResumeLimit | None = None


class Traits(msgspec.Struct, frozen=True, kw_only=True):
    """What the rest of the product has to know of an agent; a format may leave all of it out."""

    #: Who serves the models that it was made for, in the words of the GenAI conventions: ``anthropic``.
    provider: str | None = None
    #: What observability tools call it, for a coding agent: ``openai-codex``.
    integration: str | None = None
    #: Environment variables that move its logs: a service of the machine needs them, too.
    variables: tuple[str, ...] = ()
    #: Names of files that it writes beside its logs: no logs, and no damage.
    side_files: re.Pattern[str] | None = None
    #: The name of a log that it writes in the directory of a project, wherever that is.
    project_log: str = ""
    #: Whether one file may have several sessions, so that files cannot be divided among importers by session.
    mixes_sessions: bool = False
    #: Whether it writes a line again, in another file, with more of its response's usage than the line had before.
    repeats_usage: bool = False


class Table(msgspec.Struct, frozen=True):
    """A table of an agent's database to which rows are only added; each row becomes a line with these columns."""

    name: str
    columns: tuple[str, ...]
    #: Further columns: SQL expressions by name, which always say the same of a row.
    expressions: dict[str, str] = {}
    #: The short columns that tell one row from another.
    key: tuple[str, ...] = ()
    #: Another such table of the database; older versions of an agent may not have it.
    beside: Table | None = None
    #: Of a table with another one beside it, and of that one: the column by whose values their rows are put in order.
    time: str = ""


class Agent:
    """One log format. Instances have no state: what must be remembered goes into ``memory``."""

    #: The name used in commands and in the store: ``claude-code``.
    name: str
    #: The name people read: ``Claude Code``.
    title: str
    traits = Traits()
    #: Of an agent whose logs are databases.
    table: Table | None = None
    #: True where logs are documents that are written anew as a whole: see ``lines_of``.
    writes_documents = False
    #: Parts of the context that the agent sends and the log does not have: a size of 0 means "unknown" there.
    parts_not_in_log: frozenset[Part] = frozenset({"context"})

    @property
    def writes_lines(self) -> bool:
        """Whether its logs are files of lines, and neither databases nor documents."""
        return self.table is None and not self.writes_documents

    def homes(self, environ: Mapping[str, str], home: Path) -> list[Path]:
        """Directories where this agent writes sessions, as its environment variables say."""
        raise NotImplementedError

    def is_log(self, path: Path) -> bool:
        """Whether a file found under one of the homes is a session log (by name alone, no reading)."""
        raise NotImplementedError

    def recognise(self, path: Path, head: bytes) -> Source | None:
        """What this file is, from its first 64 KiB, or from some of its first lines; ``None`` if it is not ours.

        Content decides; the path only adds what the content leaves open. May read small companions.
        """
        raise NotImplementedError

    def decode(self, raw: bytes, source: Source) -> Event | Unusable:
        """Decode one line. Pure, fast, and never raises for bad input."""
        raise NotImplementedError

    def acts(self, event: Event, source: Source, memory: Memory) -> Iterable[Act]:
        """What the line means. Called once for each new event, in file order, never for duplicates.

        ``memory`` belongs to the stream, starts empty, is stored with every batch, and holds only what msgpack
        can carry. It must stay small however long the session gets.
        """
        raise NotImplementedError

    def content(self, event: Event, source: Source) -> list[Content]:
        """The text in the line, whole."""
        raise NotImplementedError

    def lines_of(self, document: bytes, path: Path) -> list[bytes] | None:
        """The lines of a document, one for each message; ``None`` where it is not whole. May read companions."""
        raise NotImplementedError

    # -- what most formats leave as it is -----------------------------------------------------------------------

    def session_name(self, path: Path) -> str:
        """The session of a log whose beginning is damaged."""
        return path.stem

    def repeated_usage(self, event: Event, source: Source, memory: Memory) -> ResponseUsage | None:
        """The usage in a line whose event is recorded already; called in file order, if ``traits`` say so."""
        return None

    def attributes(self, raw: bytes, find: Find) -> dict[str, Any]:
        """What a line says of its span that its acts do not carry; ``find`` looks up lines that it refers to."""
        return {}

    def context(self, event: Event, source: Source, memory: Memory, raw: bytes) -> Iterable[ContextFact]:
        """What the line adds to the context of model calls; called like ``acts``, with a memory of its own."""
        return conversation(self.acts(event, source, memory), self.content(event, source))

    def outcomes(self, raw: bytes) -> Iterable[Outcome]:
        """What a recorded line says that came of the session; texts of commands are in ``content``."""
        return ()

    def media(self, event: Event, raw: bytes) -> list[Media]:
        """The pictures in a recorded line, unless it only repeats those of another."""
        return media_in(raw)

    def cleanups(self, logs: Sequence[Path]) -> list[LogCleanup]:
        """The directories of these logs that the agent empties after a while."""
        return []

    def resume_command(self, session_id: str, logs: Sequence[Path]) -> ResumeCommand | None:
        """How to go on with a session that was read from these logs; ``None`` where the agent has no such command."""
        return None
