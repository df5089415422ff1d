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
