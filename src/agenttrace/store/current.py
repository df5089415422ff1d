"""The store that is at a path now: opened when it appears, and again when it was rebuilt, which is another file.

A server opens the store of its machine, or that of a team: a ``StoreSource`` says which one.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple, Protocol

from agenttrace.store import open_team_store
from agenttrace.store.errors import STORE_FAILURES, StoreError
from agenttrace.store.rule_store import RuleStore
from agenttrace.store.session_state import LIMITS, StateLimits
from agenttrace.store.sqlite.store import SqliteStore
from agenttrace.store.sqlite.team import SqliteTeamStore
from agenttrace.store.store import Store
from agenttrace.store.team import TeamStore


class StoreVersion(NamedTuple):
    """The store at a moment; between two equal versions nothing was committed."""

    #: Which file, counted from 1; 0 where there is none.
    file: int
    commits: int


NO_STORE = StoreVersion(0, 0)
#: Between two questions to a database on another machine whether it changed.
_ASK_SECONDS = 0.25
#: How long a store of this machine is asked often after a change of its files, and how often it is asked without one.
_CHANGING_SECONDS, _QUIET_SECONDS = 1.0, 1.0


class Current(Protocol):
    """The store that is there now, kept open; used by one thread at a time, closed by any."""

    @property
    def opened(self) -> Store | None:
        """The store that was opened last, without a look at what is there now."""

    def get(self) -> Store | None:
        """The store; None where there is none."""

    def version(self) -> StoreVersion:
        """Which store it is and how often it changed."""

    def interrupt(self) -> None:
        """Make the question that is being answered in another thread fail."""

    def close(self) -> None:
        """Release the store; the next question opens it again."""


class StoreSource(NamedTuple):
    """Which store a server shows: a file, or the URL of a database of a team."""

    target: Path | str
    limits: StateLimits = LIMITS
    is_team: bool = False
    #: Beside a database: the file with the bookkeeping of rules. A file has its own.
    rules: Path | None = None

    def current(self, *, cache_kib: int | None = None) -> Current:
        """The store, for reading."""
        if isinstance(self.target, str):
            return CurrentDatabase(
                lambda: open_team_store(str(self.target), read_only=True, limits=self.limits, rules=self.rules)
            )
        kind = SqliteTeamStore if self.is_team else SqliteStore
        return CurrentStore(self.target, limits=self.limits, cache_kib=cache_kib, kind=kind)

    @property
    def has_rules(self) -> bool:
        """Whether the store has a place for the bookkeeping of rules."""
        return self.rules is not None or not isinstance(self.target, str)

    def watch(self) -> ChangeWatch:
        """Whether it is worth asking what changed."""
        return ChangeWatch(self.target)

    def exists(self) -> bool:
        """Whether there is a store yet."""
        return isinstance(self.target, str) or self.target.exists()

    def team_store(self) -> TeamStore:
        """The store of the team, for writing; created where there is none yet."""
        return open_team_store(self.target, limits=self.limits, rules=self.rules)

    def writable(self) -> RuleStore:
        """The store, for writing; created where there is none yet."""
        if self.is_team:
            return self.team_store()
        return SqliteStore.open(Path(self.target), read_only=False, limits=self.limits)


class ChangeWatch:
    """Whether a store is worth asking what changed, from its files: a look costs a hundredth of a question.

    A commit changes the size or the time of a file. Times are coarse, so after a change everything is asked for a
    while; and now and then it is anyway. A database on another machine is always asked.
    """

    def __init__(self, target: Path | str, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._files = () if isinstance(target, str) else (target, target.with_name(f"{target.name}-wal"))
        self._seen: list[tuple[int, int, int] | None] = []
        self._changed = self._asked = -math.inf

    def due(self) -> bool:
        """Whether to ask now."""
        now = self._clock()
        found = [_stamp(path) for path in self._files]
        if found != self._seen:
            self._seen, self._changed = found, now
        due = not self._files or now - self._changed < _CHANGING_SECONDS or now - self._asked >= _QUIET_SECONDS
        if due:
            self._asked = now
        return due


def _stamp(path: Path) -> tuple[int, int, int] | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns


class CurrentStore:
    """Opens the store of a path read-only and keeps it open; used by one thread at a time, closed by any."""

    def __init__(
        self,
        path: Path,
        *,
        limits: StateLimits = LIMITS,
        cache_kib: int | None = None,
        kind: type[SqliteStore] = SqliteStore,
    ) -> None:
        self._path, self._kind = path, kind
        self._limits, self._cache_kib = limits, cache_kib
        self._identity: tuple[int, int] | None = None
        self._files = 0
        #: The store that was opened last, without a look at what is at the path now.
        self.opened: SqliteStore | None = None

    def get(self) -> SqliteStore | None:
        """The store; None where there is none, or one that is being made or that this version does not know."""
        try:
            status = os.stat(self._path)
        except OSError:
            self.close()
            return None
        identity = (status.st_dev, status.st_ino)
        if self.opened is None or identity != self._identity:
            self.close()
            try:
                self.opened = self._kind.open(
                    self._path, any_thread=True, limits=self._limits, cache_kib=self._cache_kib
                )
            except StoreError:
                return None
            self._identity = identity
            self._files += 1
        return self.opened

    def version(self) -> StoreVersion:
        """Which file it is and how often others committed to it; cheap enough to be asked many times a second."""
        try:
            store = self.get()
        except STORE_FAILURES:
            # Another process is creating it at this moment.
            return NO_STORE
        return NO_STORE if store is None else StoreVersion(self._files, store.foreign_version())

    def interrupt(self) -> None:
        """Make the question that is being answered in another thread fail."""
        if (store := self.opened) is not None:
            store.interrupt()

    def close(self) -> None:
        """Release the file; the next question opens it again."""
        store, self.opened = self.opened, None
        if store is not None:
            store.close()


class CurrentDatabase:
    """A database on other machines, which is opened once and asked now and then whether it changed."""

    def __init__(self, opened: Callable[[], Store]) -> None:
        self._open = opened
        self.opened: Store | None = None
        self._asked = 0.0
        self._version = NO_STORE
        self._seen: object = None

    def get(self) -> Store | None:
        """The store."""
        if self.opened is None:
            self.opened = self._open()
        return self.opened

    def version(self) -> StoreVersion:
        """A number of its own for every state that was seen."""
        now = time.monotonic()
        if self._version == NO_STORE or now - self._asked >= _ASK_SECONDS:
            store = self.get()
            assert store is not None
            # An engine that can tell every change apart says so; figures of machines come without events.
            version = getattr(store, "foreign_version", None)
            found = (store.last_event(), store.annotations_revision()) if version is None else version()
            if found != self._seen:
                self._seen, self._version = found, StoreVersion(1, self._version.commits + 1)
            self._asked = now
        return self._version

    def interrupt(self) -> None:
        """Make the question that is being answered in another thread fail."""
        if (store := self.opened) is not None:
            store.interrupt()

    def close(self) -> None:
        """Release the connection."""
        store, self.opened = self.opened, None
        if store is not None:
            store.close()
