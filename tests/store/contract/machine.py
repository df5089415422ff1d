"""Logs that are recorded by the real recorder and indexed for search, and the stores that hold them.

The contract is tested for every engine: the store that was recorded into, and a copy that was merged from its changes,
which come in pieces, in any order and some of them twice.
"""

from __future__ import annotations

import json
import random
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from agenttrace.calendar import day_finder
from agenttrace.config import Settings, UsageSettings, ensure_home
from agenttrace.record.recorder import Recorder
from agenttrace.record.texts.search_index import index_all
from agenttrace.store.rows import ChangesCursor, Row
from agenttrace.store.sqlite.store import SqliteStore

#: Which stores the questions of the contract are asked.
ENGINES = ("recorded", "merged")
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

    def record(self, logs: Logs) -> None:
        """Append lines to the files, record and index them."""
        for name, lines in logs.items():
            with (self.logs / f"{name}.jsonl").open("a", encoding="utf-8") as file:
                file.writelines(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)
        recorder = Recorder(self.settings, paths=[str(self.logs)], environ={})
        try:
            recorder.run_once()
            index_all(recorder.store)
            if engine == "merged":
                self._merge(recorder.store)
        finally:
            recorder.close()

    def _merge(self, recorded: SqliteStore) -> None:
        """Bring the copy up to date."""
        rows, self._cursor = all_changes(recorded, self._cursor)
        with SqliteStore.open(self._path, read_only=False) as copy:
            for portion in shuffled(rows, random.Random(len(rows))):
                copy.merge(portion, day_of=day_of)
                index_all(copy)

    @property
    def _path(self) -> Path:
        return self.settings.home / ("agenttrace.db" if engine == "recorded" else "merged.db")

    @contextmanager
    def store(self, **options: Any) -> Iterator[SqliteStore]:  # noqa: ANN401 - of the engine
        """The store, to ask."""
        with SqliteStore.open(self._path, **options) as store:
            yield store


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
        yield Machine(Path(root))


@contextmanager
def store_of(logs: Logs, **options: Any) -> Iterator[SqliteStore]:  # noqa: ANN401 - of the engine
    """A store that holds what these logs say."""
    with machine() as made:
        made.record(logs)
        with made.store(**options) as store:
            yield store
