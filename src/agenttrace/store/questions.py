"""What can be asked of a store: filters and queries, and the typed answers. No engine is named here."""

from __future__ import annotations

from typing import Literal

import msgspec

SessionState = Literal["working", "waiting", "ended", "interrupted"]
#: What usage is grouped by. ``session`` is the session's number: two agents may have a session of one id.
UsageGroup = Literal["total", "day", "month", "model", "agent", "project", "session"]


class SessionFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Which sessions; every field that is set must match. Times are microseconds since the epoch."""

    agents: frozenset[str] = frozenset()
    #: Exact directories; the empty text matches sessions without one.
    projects: frozenset[str] = frozenset()
    #: A part of the directory, in any case.
    project_contains: str | None = None
    states: frozenset[SessionState] = frozenset()
    models: frozenset[str] = frozenset()
    #: All of these occur in title, first prompt, id, directory, branch or model, in any case.
    words: tuple[str, ...] = ()
    #: Active at some moment from ``since`` and before ``until``.
    since: int | None = None
    until: int | None = None
    #: With errors, without any, or either.
    errors: bool | None = None


class UsageQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Tokens by group, and by part of a group; days are local dates such as ``2026-11-01``."""

    by: UsageGroup = "total"
    split: UsageGroup = "total"
    since_day: str | None = None
    before_day: str | None = None
    agents: frozenset[str] = frozenset()
    projects: frozenset[str] = frozenset()
    models: frozenset[str] = frozenset()


class SearchQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Full text: words, phrases in quotes and prefixes such as ``migrat*``, which all must occur in one event."""

    text: str
    #: The number of the one session to search.
    session: int | None = None
    agents: frozenset[str] = frozenset()
    projects: frozenset[str] = frozenset()
    project_contains: str | None = None
    #: When the event was written; events without a time match only where neither is set.
    since: int | None = None
    until: int | None = None
    #: Only events before this number; pages go from new to old.
    before: int | None = None
    limit: int = 50


# -- status of recording --------------------------------------------------------------------------------------


class LinesByOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """Lines that were read, and what became of them; files whose bookkeeping was removed are included."""

    lines: int
    recorded: int
    duplicate: int
    ignored: int
    quarantined: int


class DedupCounters(msgspec.Struct, frozen=True, kw_only=True):
    """Duplicates found by each tier of the deduplicator since the store was created, and what is recorded."""

    l0_hits: int
    l1_hits: int
    l2_hits: int
    #: Events that no tier knew.
    misses: int
    events: int
    sessions: int


class QuarantineCounts(msgspec.Struct, frozen=True, kw_only=True):
    """How many lines could not be understood."""

    open: int
    resolved: int
    #: Whole events that were cut out of broken lines and recorded.
    salvaged_events: int
    #: Lines beyond the limits of the quarantine: counted, not kept.
    counted_only: int


class FileStatus(msgspec.Struct, frozen=True):
    """A log file as it was when it was last read."""

    path: str
    #: Bytes that are recorded.
    offset: int
    size: int
    #: In seconds since the epoch; 0 where it was never read.
    read_at: float
    #: How often it was truncated or replaced.
    generation: int
    lines: int
    quarantined: int
    counted_only: int
    #: Bytes that vanished before they could be read.
    lost_bytes: int
    #: Why it could not be read.
    error: str | None
    #: Since when it is gone.
    gone_at: float | None


class SessionGroup(msgspec.Struct, frozen=True):
    """The sessions of an agent or of a project; times are microseconds since the epoch."""

    name: str
    sessions: int
    first_at: int | None
    last_at: int | None
