"""Copies of a store: merged from its changes in any order, any number of times, they answer as it does."""

from __future__ import annotations

import random
import tempfile
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agenttrace.config import Settings, ensure_home
from agenttrace.record.recorder import Recorder
from agenttrace.record.texts.search_index import index_all
from agenttrace.store.questions import SearchQuery, UsageQuery
from agenttrace.store.rows import (
    AnnotationRow,
    Changes,
    ChangesCursor,
    EventRow,
    FileOfLines,
    LinkRow,
    RemovedRow,
    ResponseRow,
    Row,
    StoredSession,
    StoredSpan,
    TotalRow,
)
from agenttrace.store.sqlite.store import SqliteStore

from . import machine as machine_module
from .data import Made, logs_of, recordings
from .machine import all_changes, day_of, machine, shuffled


@pytest.fixture(scope="module", autouse=True)
def engine() -> None:
    """The recorded store; the copies are made here."""
    machine_module.engine = "recorded"


DATA = Path(__file__).parents[2] / "data"

#: What tells the rows of one kind apart.
KEYS: dict[type, Callable[..., Hashable]] = {
    StoredSession: lambda row: row.session.id,
    StoredSpan: lambda row: (row.session, row.span_id),
    LinkRow: lambda row: (row.session, row.stream),
    ResponseRow: lambda row: row.response,
    TotalRow: lambda row: (row.session, row.scope, row.whose, row.name, row.moment, row.model),
    FileOfLines: lambda row: row.file_id,
    EventRow: lambda row: (row.session, row.event_id),
    AnnotationRow: lambda row: row.annotation_id,
    RemovedRow: lambda row: (row.kind, row.session, row.key),
}


def by_key(rows: Iterable[Row]) -> dict[str, dict[Hashable, Row]]:
    """The rows of each kind by their keys."""
    found: dict[str, dict[Hashable, Row]] = defaultdict(dict)
    for row in rows:
        # Files are read again without anything new in them.
        same = msgspec.structs.replace(row, revision=0) if isinstance(row, FileOfLines) else row
        found[type(row).__name__][KEYS[type(row)](row)] = same
    return found


def answers(store: SqliteStore) -> list[object]:
    """What a store says to many questions."""
    everything = store.sessions()
    return [
        everything,
        store.usage(UsageQuery(by="session", split="model")),
        store.usage(UsageQuery(by="day")),
        [[row._replace(changed=0) for row in store.span_rows(session, attributes=True)] for session in everything],
        [store.agreement(session.id) for session in everything],
        list(store.lines()),
        [store.file_source(line.file_id) for line in store.lines(limit=100)],
        [store.search(SearchQuery(text=word, limit=1000)) for word in ("a", "the", "test*", "hello", "转")],
    ]


@contextmanager
def empty_store() -> Iterator[SqliteStore]:
    """A store to merge into."""
    with tempfile.TemporaryDirectory() as place, SqliteStore.open(Path(place) / "t.db", read_only=False) as store:
        yield store


@settings(max_examples=10)
@given(made=st.lists(recordings, min_size=1, max_size=3), chance=st.randoms(use_true_random=False))
def test_any_order_gives_the_same_rows(made: list[list[Made]], chance: random.Random) -> None:
    """Changes that were read between recordings, shuffled and repeated, give the rows of the store itself."""
    with machine() as here, empty_store() as copy:
        rows: list[Row] = []
        cursor = ChangesCursor()
        for each in made:
            here.record(logs_of(each))
            with SqliteStore.open(here.settings.home / "agenttrace.db") as store:
                more, cursor = all_changes(store, cursor, chance.randint(1, 30))
                rows += more
        for portion in shuffled(rows, chance):
            copy.merge(portion, day_of=day_of)
        with SqliteStore.open(here.settings.home / "agenttrace.db") as store:
            assert by_key(all_changes(copy)[0]) == by_key(all_changes(store)[0])


def test_the_cursor_can_be_stored() -> None:
    """A cursor is JSON, in the middle of a round too; from there on every row comes once."""
    with machine() as here:
        here.record({"a": [{"v": 1, "session": "a", "type": "turn.begin", "id": str(n), "turn": n} for n in range(9)]})
        with SqliteStore.open(here.settings.home / "agenttrace.db") as store:
            whole = store.changes_since(limit=10_000).rows
            found, cursor = [], ChangesCursor()
            while (page := store.changes_since(cursor, 1)).rows:
                found += [row for row in page.rows if not isinstance(row, FileOfLines)]
                cursor = msgspec.json.decode(msgspec.json.encode(page.cursor), type=ChangesCursor)
            assert found == [row for row in whole if not isinstance(row, FileOfLines)]
            assert msgspec.json.decode(msgspec.json.encode(page), type=Changes) == page
            assert msgspec.json.decode(msgspec.json.encode(whole), type=list[Row]) == whole


@pytest.mark.parametrize("seed", range(2))
def test_a_copy_of_real_logs_answers_as_the_store_does(tmp_path: Path, seed: int) -> None:
    """Logs of real agents that grow while changes are read: forks, subagents, totals and calls that no line has."""
    chance = random.Random(seed)
    home = Settings(home=tmp_path / "home")
    ensure_home(home)
    rows: list[Row] = []
    cursor = ChangesCursor()
    for _ in growing(tmp_path / "logs", chance):
        recorder = Recorder(home, paths=[str(tmp_path / "logs")], environ={})
        recorder.run_once()
        more, cursor = all_changes(recorder.store, cursor, 500)
        rows += more
        recorder.close()
    assert any(isinstance(row, RemovedRow) for row in rows)
    with SqliteStore.open(home.home / "agenttrace.db", read_only=False) as store, empty_store() as copy:
        for portion in shuffled(rows, chance, largest=2000):
            copy.merge(portion, day_of=day_of)
        assert by_key(all_changes(copy)[0]) == by_key(all_changes(store)[0])
        index_all(store)
        index_all(copy)
        for found, expected in zip(answers(copy), answers(store), strict=True):
            assert found == expected


def growing(logs: Path, chance: random.Random, each: int = 1) -> Iterator[None]:
    """Logs of all agents, or each of so many of them, which are complete in the end."""
    small = [path for path in sorted(DATA.rglob("*.jsonl")) if path.stat().st_size < 300_000][::each]
    lines = {logs / path.relative_to(DATA): path.read_bytes().splitlines(keepends=True) for path in small}
    for portion in (0.3, 0.6, 1.0):
        for path, whole in lines.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            end = int(len(whole) * min(1.0, portion * chance.uniform(1.0, 1.3)))
            path.write_bytes(b"".join(whole[: len(whole) if portion == 1.0 else end]))
        yield
