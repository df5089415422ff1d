"""Search finds what was said, in any script, and takes any query."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agenttrace.config import ensure_home, load_settings
from agenttrace.record.recorder import Recorder
from agenttrace.record.texts import search_index
from agenttrace.store.questions import SearchQuery
from agenttrace.store.sqlite import search
from agenttrace.store.sqlite.database import connect
from agenttrace.store.sqlite.search import match_expression, segmented

DATA = Path(__file__).resolve().parents[1] / "data"


@pytest.fixture(scope="module")
def index() -> Iterator[sqlite3.Connection]:
    connection = sqlite3.connect(":memory:")
    connection.execute("CREATE VIRTUAL TABLE search USING fts5(text, content = '', tokenize = 'unicode61')")
    yield connection
    connection.close()


def found(index: sqlite3.Connection, text: str, query: str) -> bool:
    index.execute("INSERT INTO search (search) VALUES ('delete-all')")
    index.execute("INSERT INTO search (rowid, text) VALUES (1, ?)", (segmented(text),))
    expression = match_expression(query)
    return bool(index.execute("SELECT rowid FROM search WHERE search MATCH ?", (expression,)).fetchall())


WORD = st.text(alphabet="abcdefghijklmnopqrstuvwxyz0123456789", min_size=1, max_size=12)
CHINESE = st.text(
    alphabet="的一是了我不人在他有这个上们来到时大地为子中你说生国年着就那和要她出也得里后自以会",
    min_size=1,
    max_size=12,
)


@given(words=st.lists(st.one_of(WORD, CHINESE), min_size=1, max_size=8), data=st.data())
def test_every_word_of_a_text_is_found(index: sqlite3.Connection, words: list[str], data: st.DataObject) -> None:
    """Any of a text's words, and any several of them, find it."""
    chosen = data.draw(st.lists(st.sampled_from(words), min_size=1, max_size=3))
    assert found(index, " ".join(words), " ".join(chosen))


@given(before=CHINESE, wanted=CHINESE, after=CHINESE)
def test_chinese_is_found_inside_a_sentence(index: sqlite3.Connection, before: str, wanted: str, after: str) -> None:
    """Chinese has no spaces: a query is found wherever its characters are in sequence."""
    assert found(index, before + wanted + after, wanted)


def test_chinese_characters_in_another_order_are_not_found(index: sqlite3.Connection) -> None:
    """A query of several characters is a phrase."""
    assert found(index, "日志轮转时偶尔丢行", "轮转")
    assert not found(index, "日志轮转时偶尔丢行", "转轮")


def test_words_phrases_and_beginnings(index: sqlite3.Connection) -> None:
    """All words must be there; quotes make a phrase; a star makes a prefix."""
    text = "connection reset by peer"
    assert found(index, text, "peer connection")
    assert not found(index, text, "peer refused")
    assert found(index, text, '"reset by"')
    assert not found(index, text, '"by reset"')
    assert found(index, text, "conn*")
    assert not found(index, text, "conn")


@given(query=st.text(max_size=60))
def test_no_query_is_a_syntax_error(index: sqlite3.Connection, query: str) -> None:
    """Whatever is typed is a search, never an error of the search language."""
    expression = match_expression(query)
    if expression:
        index.execute("SELECT rowid FROM search WHERE search MATCH ?", (expression,)).fetchall()


def test_indexing_goes_on_where_it_stopped(tmp_path: Path) -> None:
    """Indexing in two halves gives what indexing at once gives; nothing is indexed twice."""
    settings = load_settings({"HOME": str(tmp_path), "AGENTTRACE_HOME": str(tmp_path / "home")})
    ensure_home(settings)
    recorder = Recorder(settings, paths=[str(DATA / "claude-code-2.1.197")])
    recorder.run_once()
    store, query = recorder.store, SearchQuery(text="SCENARIO parallel")
    first = search_index.index_all(store)
    assert first == recorder.summary.recorded
    assert search_index.index_all(store) == 0
    found = store.search(query)
    store.search_index.reset()
    assert store.search(query) == []
    search_index.index_all(store)
    assert store.search(query) == found != []
    recorder.close()


def test_looking_for_late_lines_scans_no_events(tmp_path: Path) -> None:
    """It is done in every idle round, whatever the size of the store."""
    with closing(connect(tmp_path / "agenttrace.db")) as connection:
        plan = connection.execute(f"EXPLAIN QUERY PLAN {search._LATE}", (1,)).fetchall()
    assert not [step for *_, step in plan if step.startswith("SCAN processed_events")]
