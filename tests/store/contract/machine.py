"""Logs that are recorded by the real recorder and indexed for search, and the stores that hold them.

The contract is tested for every engine: the store that was recorded into; copies that were merged from its changes,
which come in pieces, in any order and some of them twice; and a team's store that took them page by page. One copy is
in ClickHouse: on the server at ``TEST_CLICKHOUSE_URL``, or in the engine in process, which has one directory for all
databases of a process.
"""

from __future__ import annotations

import json
import random
import secrets
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any, cast

from agenttrace.calendar import day_finder
from agenttrace.config import Settings, UsageSettings, ensure_home
from agenttrace.record.recorder import Recorder
from agenttrace.record.texts.search_index import index_all
from agenttrace.store.clickhouse.connection import Database
from agenttrace.store.clickhouse.retention import forget
from agenttrace.store.clickhouse.store import ClickHouseStore
from agenttrace.store.rows import ChangesCursor, Row
from agenttrace.store.sqlite.store import SqliteStore
from agenttrace.store.sqlite.team import SqliteTeamStore
from agenttrace.store.team import Page
from clickhouse_on import clickhouse_address

#: Which stores the questions of the contract are asked.
ENGINES = ("recorded", "merged", "team", "clickhouse")
#: The one that is tested now.
engine = ENGINES[0]

Line = dict[str, Any]
#: Lines of log files by the name of the file.
Logs = Mapping[str, Sequence[Line]]


class Machine:
    """Log files, and the store that they are recorded into."""

    def __init__(self, root: Path) -> None:
        self.logs = root / "logs"
        self.logs.mkdir()
        self.settings = Settings(home=root / "home")
        ensure_home(self.settings)
        self._cursor = ChangesCursor()
        self._resources = ExitStack()

    def record(self, logs: Logs) -> None:
        """Append lines to the files, record and index them."""
        for name, lines in logs.items():
            with (self.logs / f"{name}.jsonl").open("a", encoding="utf-8") as file:
                file.writelines(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)
        recorder = Recorder(self.settings, paths=[str(self.logs)], environ={})
        try:
            recorder.run_once()
            index_all(recorder.store)
            if engine == "team":
                self._push(recorder.store)
            elif engine != "recorded":
                self._merge(recorder.store)
        finally:
            recorder.close()

    def _merge(self, recorded: SqliteStore) -> None:
        """Bring the copy up to date."""
        rows, self._cursor = all_changes(recorded, self._cursor)
        # A write of ClickHouse takes the same time for one row and for a thousand.
        largest = 1000 if engine == "clickhouse" else 20
        with self._opened(read_only=False) as copy:
            for portion in shuffled(rows, random.Random(len(rows)), largest):
                copy.merge(portion, day_of=day_of)
                if engine == "merged":
                    index_all(copy)
            index_all(copy)

    def _push(self, recorded: SqliteStore) -> None:
        """Bring the team's store up to date."""
        with SqliteTeamStore.open(self._path, read_only=False) as team:
            while (found := recorded.changes_since(self._cursor, limit=40)).rows:
                page = Page(machine="m", person="p", store="s", after=self._cursor, until=found.cursor)
                team.take(found.rows, page, day_of=day_of)
                self._cursor = found.cursor
            index_all(team)

    @property
    def _path(self) -> Path:
        return self.settings.home / ("agenttrace.db" if engine == "recorded" else f"{engine}.db")

    @cached_property
    def address(self) -> str:
        """A ClickHouse database of its own."""
        return self._resources.enter_context(empty_database())

    def _opened(self, **options: Any) -> SqliteStore:  # noqa: ANN401 - of the engine
        if engine == "clickhouse":
            options.pop("read_only", None)
            # The tests use what stores have beside the questions, and all have that.
            return cast("SqliteStore", ClickHouseStore.open(self.address, **options))
        return (SqliteTeamStore if engine == "team" else SqliteStore).open(self._path, **options)

    @contextmanager
    def store(self, **options: Any) -> Iterator[SqliteStore]:  # noqa: ANN401 - of the engine
        """The store, to ask."""
        with self._opened(**options) as store:
            yield store

    def close(self) -> None:
        """Give the database back."""
        self._resources.close()


#: Databases with tables and without rows.
_empty: list[str] = []


@contextmanager
def empty_database() -> Iterator[str]:
    """The address of a ClickHouse database: an emptied one, which is there sooner than a new one."""
    address = _empty.pop() if _empty else clickhouse_address(f"agenttrace_test_{secrets.token_hex(8)}")
    yield address
    with ClickHouseStore.open(address) as store:
        empty(store.database)
    _empty.append(address)


def empty(database: Database) -> None:
    """Remove all rows."""
    version = database.rows("SELECT key, value, ver FROM meta FINAL WHERE key = 'version'")
    for name, rows in database.rows("SELECT name, total_rows FROM system.tables WHERE database = currentDatabase()"):
        if rows:
            database.command(f"TRUNCATE TABLE {name}{database.on_cluster}")
    database.insert("meta", ("key", "value", "ver"), version)


def another(store: SqliteStore | ClickHouseStore) -> SqliteStore:
    """A further connection to a store, to write."""
    if isinstance(store, ClickHouseStore):
        return cast("SqliteStore", ClickHouseStore(Database(store.database.target)))
    return SqliteStore.open(store.path, read_only=False)


def prune(store: SqliteStore | ClickHouseStore, session: int) -> None:
    """Remove what a session said."""
    if isinstance(store, ClickHouseStore):
        forget(store.database, [session], "time")
    else:
        store.retention.prune_session(session, time.time())


#: The day of a time, as the recorder of these tests counts it.
day_of = day_finder(UsageSettings().timezone)


#: Before all changes.
START = ChangesCursor()


def all_changes(store: SqliteStore, cursor: ChangesCursor = START, limit: int = 7) -> tuple[list[Row], ChangesCursor]:
    """Everything that changed since, and where to go on."""
    rows: list[Row] = []
    while (page := store.changes_since(cursor, limit)).rows:
        rows += page.rows
        cursor = page.cursor
    return rows, cursor


def shuffled(rows: Sequence[Row], chance: random.Random, largest: int = 20) -> Iterator[list[Row]]:
    """The rows in any order, some of them twice, in portions."""
    some = [*rows, *chance.sample(rows, len(rows) // 4)]
    chance.shuffle(some)
    while some:
        size = chance.randint(1, largest)
        yield some[:size]
        some = some[size:]


@contextmanager
def machine() -> Iterator[Machine]:
    """A machine on which nothing is recorded yet."""
    with tempfile.TemporaryDirectory() as root:
        made = Machine(Path(root))
        try:
            yield made
        finally:
            made.close()


@contextmanager
def store_of(logs: Logs, **options: Any) -> Iterator[SqliteStore]:  # noqa: ANN401 - of the engine
    """A store that holds what these logs say."""
    with machine() as made:
        made.record(logs)
        with made.store(**options) as store:
            yield store
