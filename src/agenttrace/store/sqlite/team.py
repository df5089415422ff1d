"""A team's store in one SQLite file: that of a machine, and beside it what machines sent. See ``store.team``.

A copy of such a store takes its changes in their order: an event may come again under another number.
"""

# ruff: noqa: D102 - described in store.team

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import msgspec

from agenttrace.store.questions import FileSource, SourceFile
from agenttrace.store.rows import ChangesCursor, Row
from agenttrace.store.session_state import LIMITS, StateLimits
from agenttrace.store.sqlite import team_removal, team_schema
from agenttrace.store.sqlite.database import BUSY_SECONDS, transaction
from agenttrace.store.sqlite.store import SqliteStore
from agenttrace.store.sqlite.team_files import path_on_machine
from agenttrace.store.sqlite.team_taking import Taking
from agenttrace.store.team import MachineFigures, Page, Position, TeamStore, WrongPositionError

_POSITION = "SELECT store, cursor FROM team_machines WHERE machine = ?"
_PUT_MACHINE = (
    "INSERT OR REPLACE INTO team_machines (machine, person, store, cursor, received_at) VALUES (?, ?, ?, ?, ?)"
)
_FIGURES = """
SELECT machine, person, coalesce(sum(shown AND told > 0), 0), coalesce(sum(NOT shown AND told > 0), 0),
    coalesce(sum(told), 0), received_at
FROM team_machines LEFT JOIN team_sources USING (machine) LEFT JOIN team_copies USING (source)
GROUP BY machine ORDER BY machine
"""


class SqliteTeamStore(SqliteStore, TeamStore):
    """The store of a small team."""

    @classmethod
    def open(
        cls,
        path: Path,
        *,
        read_only: bool = True,
        any_thread: bool = False,
        limits: StateLimits = LIMITS,
        busy_seconds: float = BUSY_SECONDS,
        cache_kib: int | None = None,
    ) -> SqliteTeamStore:
        store = super().open(
            path,
            read_only=read_only,
            any_thread=any_thread,
            limits=limits,
            busy_seconds=busy_seconds,
            cache_kib=cache_kib,
        )
        assert isinstance(store, SqliteTeamStore)
        try:
            store._prepare(read_only=read_only)
        except BaseException:
            store.close()
            raise
        return store

    def _prepare(self, *, read_only: bool) -> None:
        if read_only:
            team_schema.check(self.connection)
        else:
            team_schema.prepare(self.connection)
            self.sync_every_commit()
            # What is removed shall not be found in the file either.
            self.connection.execute("PRAGMA secure_delete = ON")

    # -- machines ---------------------------------------------------------------------------------------------

    def take(self, rows: Iterable[Row], page: Page, *, day_of: Callable[[int], str]) -> None:
        with transaction(self.connection):
            known = self.position(page.machine)
            if known == Position(store=page.store, cursor=page.until):
                return
            if page.after != ChangesCursor() and known != Position(store=page.store, cursor=page.after):
                raise WrongPositionError(known)
            Taking(self.connection, page).take(rows, day_of)
            cursor = msgspec.json.encode(page.until).decode()
            values = (page.machine, page.person, page.store, cursor, time.time())
            self.connection.execute(_PUT_MACHINE, values)

    def position(self, machine: str) -> Position | None:
        row = self.connection.execute(_POSITION, (machine,)).fetchone()
        if row is None:
            return None
        return Position(store=row[0], cursor=msgspec.json.decode(row[1], type=ChangesCursor))

    def machines(self) -> list[MachineFigures]:
        names = MachineFigures.__struct_fields__
        return [MachineFigures(**dict(zip(names, row, strict=True))) for row in self.connection.execute(_FIGURES)]

    # -- files of machines ------------------------------------------------------------------------------------

    def file_source(self, file_id: int) -> FileSource:
        found = super().file_source(file_id)
        return found._replace(path=path_on_machine(found.path))

    def source_files(self, file_ids: Sequence[int]) -> list[SourceFile]:
        found = super().source_files(file_ids)
        return sorted(file._replace(path=path_on_machine(file.path)) for file in found)

    # -- removing texts ---------------------------------------------------------------------------------------

    def remove_texts(self, person: str) -> int:
        removed = team_removal.remove_texts(self.connection, person)
        self.checkpoint()
        return removed

    def prune(self, before: int, project: str | None = None) -> int:
        removed = team_removal.prune(self.connection, before, project)
        self.checkpoint()
        return removed
