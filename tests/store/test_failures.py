"""What a question may fail with has a type of the store, not of SQLite."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from agenttrace.store.errors import STORE_FAILURES, CorruptStoreError, QueryInterruptedError
from agenttrace.store.sqlite.database import connect
from agenttrace.store.sqlite.store import SqliteStore
from store_on import store_on

_FOR_EVER = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT count(*) FROM n"


@pytest.fixture
def store(tmp_path: Path) -> SqliteStore:
    """A new store."""
    return store_on(connect(tmp_path / "agenttrace.db"))


def test_a_question_that_is_interrupted(store: SqliteStore) -> None:
    """It ends with an error of its own, and the next question is answered."""
    with store:
        end = time.monotonic() + 0.05
        with pytest.raises(QueryInterruptedError), store.interrupted_when(lambda: time.monotonic() > end):
            store.connection.execute(_FOR_EVER).fetchall()
        assert store.last_event() == 0


def test_lines_that_cannot_be_decompressed(store: SqliteStore) -> None:
    """The store is damaged, and the error says so."""
    with store:
        store.connection.execute("INSERT INTO raw_blocks VALUES (1, 1, 0, 1, 5, 1.0, x'0000000000000000', x'00')")
        store.connection.execute("INSERT INTO processed_events VALUES (1, x'01', 1, 0, 0, 'message', NULL, 1.0, 1, 0)")
        with pytest.raises(CorruptStoreError, match="cannot be read"):
            list(store.lines())
        assert issubclass(CorruptStoreError, STORE_FAILURES)


def test_text_that_is_no_text(store: SqliteStore) -> None:
    """SQLite takes any bytes for a text; reading them fails as a damaged store, where a question is guarded."""
    with store:
        store.connection.execute(
            "INSERT INTO processed_events VALUES (1, x'01', 1, 0, 0, CAST(x'ff' AS TEXT), NULL, 1.0, 1, 0)"
        )
        with pytest.raises(CorruptStoreError), store.interrupted_when(lambda: False):
            list(store.lines())
