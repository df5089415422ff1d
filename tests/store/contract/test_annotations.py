"""Notes, scores, labels and stars: written once, found again, the same in every copy of a store."""

from __future__ import annotations

import random
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agenttrace.store.annotations import (
    MAX_NAME,
    MAX_PER_SESSION,
    MAX_TEXT,
    NO_MARKS,
    AnnotationError,
    AnnotationLimitError,
    NewAnnotation,
    ScoreTest,
    marks_of,
)
from agenttrace.store.questions import SearchQuery, SessionFilter
from agenttrace.store.rows import Row
from agenttrace.store.sqlite.store import SqliteStore
from agenttrace.views.hits import AnnotationMatch, TextMatch, find

from .data import NATIVE, Made, logs_of
from .machine import START, all_changes, another, day_of, prune, shuffled, store_of

NAMES = ("good", "bad", "轮转")
_names = st.sampled_from(NAMES)
#: What is done, in any order: kind, name, value, text, author, key.
_writes = st.tuples(
    st.sampled_from(("note", "score", "label", "star", "-label", "-star", "change", "-any")),
    _names,
    st.sampled_from((1.0, 2.0, -3.5)),
    st.sampled_from(("first", "second text", "转 one")),
    st.sampled_from(("ann", "bob")),
    st.none() | st.sampled_from(("k1", "k2")),
)
_tests = st.builds(
    ScoreTest, _names, st.sampled_from(("<", "<=", "=", ">=", ">")), st.sampled_from((-3.5, 1.0, 1.5, 2.0))
)
filters = st.builds(
    SessionFilter,
    labels=st.frozensets(_names, max_size=2),
    starred=st.none() | st.booleans(),
    noted=st.none() | st.booleans(),
    scores=st.lists(_tests, max_size=2).map(tuple),
)


@contextmanager
def some_sessions(count: int = 3) -> Iterator[SqliteStore]:
    """A store with a few sessions."""
    made = [Made(agent=NATIVE, session_id=f"s{number}", project=f"/home/{number}") for number in range(count)]
    with store_of(logs_of(made), read_only=False) as store:
        yield store


def write(store: SqliteStore, session: int, done: tuple[str, str, float, str, str, str | None]) -> None:
    """Do one of the writes."""
    kind, name, value, text, author, key = done
    table, present = store.annotation_table, store.annotations([session]).get(session, [])
    if kind == "change":
        for each in [each for each in present if each.kind == "note"][:1]:
            assert table.change(each.annotation_id, text=text) is not None
    elif kind == "-any":
        for each in present[:1]:
            assert table.remove(each.annotation_id)
            assert not table.remove(each.annotation_id)
    elif kind.startswith("-"):
        table.remove_named(session, kind[1:], name if kind == "-label" else "")
    else:
        table.put(
            NewAnnotation(
                session=session,
                kind=kind,  # type: ignore[arg-type] # one of the kinds
                source="rule" if key else "person",
                author=author,
                name=name if kind in ("label", "score") else "",
                value=value if kind == "score" else None,
                text=text if kind in ("note", "score") else "",
                key=key,
            )
        )


def note(session: int, text: str, *, key: str | None = None) -> NewAnnotation:
    """A note of a person."""
    return NewAnnotation(session=session, kind="note", source="person", author="ann", text=text, key=key)


@settings(max_examples=15)
@given(done=st.lists(st.tuples(st.integers(0, 2), _writes), max_size=25), wanted=st.lists(filters, min_size=10))
def test_lists_are_filtered_by_what_is_beside_sessions(
    done: list[tuple[int, tuple[str, str, float, str, str, str | None]]], wanted: list[SessionFilter]
) -> None:
    """The store lists the sessions that ``SessionFilter.matches`` accepts by their marks."""
    with some_sessions() as store:
        everything = store.sessions()
        for place, each in done:
            write(store, everything[place].id, each)
        numbers = [session.id for session in everything]
        marks = store.marks(numbers)
        assert marks == {number: marks_of(found) for number, found in store.annotations(numbers).items()}
        assert dict(store.labels()) == {
            name: count for name in NAMES if (count := sum(name in each.labels for each in marks.values()))
        }
        for asked in wanted:
            matching = [found for found in everything if asked.matches(found, (), None, marks.get(found.id, NO_MARKS))]
            assert store.sessions(asked) == matching


@settings(max_examples=15)
@given(
    rounds=st.lists(st.lists(st.tuples(st.integers(0, 2), _writes), max_size=8), max_size=4),
    seed=st.integers(0, 2**32),
)
def test_copies_have_the_same_annotations(
    rounds: list[list[tuple[int, tuple[str, str, float, str, str, str | None]]]], seed: int
) -> None:
    """Changes that are read between writes, shuffled and repeated: what was removed stays removed."""
    chance = random.Random(seed)
    with (
        some_sessions() as store,
        tempfile.TemporaryDirectory() as place,
        SqliteStore.open(Path(place) / "copy.db", read_only=False) as copy,
    ):
        numbers = [session.id for session in store.sessions()]
        rows: list[Row] = []
        more, cursor = all_changes(store, START, chance.randint(1, 9))
        rows += more
        for writes in rounds:
            before = store.annotations_revision()
            for number, each in writes:
                write(store, numbers[number], each)
            changed = set(store.sessions_annotated_since(before))
            assert changed <= {numbers[number] for number, _ in writes}
            more, cursor = all_changes(store, cursor, chance.randint(1, 9))
            rows += more
        for portion in shuffled(rows, chance):
            copy.merge(portion, day_of=day_of)
        assert copy.annotations(numbers) == store.annotations(numbers)
        assert copy.session_fingerprints().keys() == store.session_fingerprints().keys()
        for word in ("first", "second", "转", "good"):
            query = SearchQuery(text=word, limit=100)
            assert {each.annotation_id for _, each in copy.search_annotations(query)} == {
                each.annotation_id for _, each in store.search_annotations(query)
            }


@settings(max_examples=15)
@given(done=st.lists(_writes, max_size=25), text=st.sampled_from(("first", "text", "轮", "good", '"one"', "nothing")))
def test_search_finds_names_and_texts(done: list[tuple[str, str, float, str, str, str | None]], text: str) -> None:
    """Pages of any size together hold each annotation once whose words match."""
    with some_sessions(1) as store:
        (session,) = store.sessions()
        for each in done:
            write(store, session.id, each)
        word = text.strip('"')
        expected = {
            each.annotation_id
            for each in store.annotations([session.id]).get(session.id, [])
            if word in f"{each.name} {each.text}"
        }
        found, before = [], None
        query = SearchQuery(text=text, limit=2, agents=frozenset({NATIVE}))
        while page := store.search_annotations(msgspec.structs.replace(query, before=before)):
            found += [each.annotation_id for _, each in page]
            before = page[-1][0]
        assert len(found) == len(expected)
        assert set(found) == expected
        for nothing in (SearchQuery(text=text, agents=frozenset({"nobody"})), SearchQuery(text=text, session=1)):
            assert store.search_annotations(nothing) == []
        later = SearchQuery(text=text, since=int((time.time() + 60) * 1e6))
        assert store.search_annotations(later) == []


@pytest.mark.parametrize("limit", [1, 2, 3, 5, 100])
def test_pages_of_a_search_have_annotations_first(limit: int) -> None:
    """Every annotation and every event that matches once, whatever the size of a page; a wild cursor is no error."""
    with some_sessions(2) as store:
        for session in store.sessions():
            for text in ("hello one", "hello two", "other"):
                store.annotation_table.put(note(session.id, text))
        query = SearchQuery(text="hello", limit=limit)
        found: list[TextMatch | AnnotationMatch] = []
        before: int | None = None
        while True:
            page = find(store, msgspec.structs.replace(query, before=before))
            assert len(page.matches) <= limit
            found += page.matches
            if page.next is None:
                break
            before = page.next
        notes = [each.annotation.annotation_id for each in found[:4] if isinstance(each, AnnotationMatch)]
        events = [each.event.said.line.event_no for each in found[4:] if isinstance(each, TextMatch)]
        assert (len(set(notes)), len(set(events)), len(found)) == (4, 2, 6)
        assert find(store, msgspec.structs.replace(query, before=-(2**63))).matches


def test_a_key_is_written_once() -> None:
    """The same firing or request gives one note, also after a person removed it; a label comes back without a key."""
    with some_sessions(1) as store:
        (session,) = store.sessions()
        first, fresh = store.annotation_table.put(note(session.id, "one", key="k"))
        again, second = store.annotation_table.put(note(session.id, "another", key="k"))
        assert fresh
        assert not second
        assert again == first
        assert store.annotation_table.remove(first.annotation_id)
        store.annotation_table.put(note(session.id, "one", key="k"))
        assert store.annotations([session.id]) == {}
        label = NewAnnotation(session=session.id, kind="label", source="rule", author="r", name="x", key="k")
        by_hand = NewAnnotation(session=session.id, kind="label", source="person", author="ann", name=" x ")
        assert store.annotation_table.put(label)[1]
        assert not store.annotation_table.put(by_hand)[1]
        assert store.annotation_table.remove_named(session.id, "label", "x") == 1
        assert not store.annotation_table.put(label)[1]
        assert store.marks([session.id]) == {}
        assert store.annotation_table.put(by_hand)[1]
        assert store.marks([session.id])[session.id].labels == ("x",)


def test_a_key_is_written_once_by_many_writers() -> None:
    """Two programs that repeat one request at the same time write one note."""
    with some_sessions(1) as store:
        (session,) = store.sessions()

        def write_often(number: int) -> None:
            with another(store) as writer:
                for key in range(10):
                    writer.annotation_table.put(note(session.id, f"from {number}", key=f"k{key}"))

        threads = [threading.Thread(target=write_often, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(store.annotations([session.id])[session.id]) == 10


def test_a_score_given_again_replaces_the_own_one() -> None:
    """A person's second score changes the first; that of another person stands beside it."""
    with some_sessions(1) as store:
        (session,) = store.sessions()
        for author, value in (("ann", 4.0), ("bob", 2.0), ("ann", 3.0)):
            store.annotation_table.put(
                NewAnnotation(session=session.id, kind="score", source="person", author=author, name="q", value=value)
            )
        found = store.annotations([session.id])[session.id]
        assert [(each.author, each.value) for each in found] == [("ann", 3.0), ("bob", 2.0)]
        assert store.marks([session.id])[session.id].scores == (("q", 3.0),)


def test_annotations_of_a_pruned_session_stay() -> None:
    """Retention removes what a session said, not what people said of it."""
    with some_sessions(2) as store:
        session = store.sessions()[0]
        store.annotation_table.put(note(session.id, "remember this"))
        prune(store, session.id)
        assert [each.text for each in store.annotations([session.id])[session.id]] == ["remember this"]
        assert store.search_annotations(SearchQuery(text="remember")) == []


@pytest.mark.parametrize(
    "wrong",
    [
        {"text": ""},
        {"text": " \n "},
        {"text": "x" * (MAX_TEXT + 1)},
        {"text": "a\0b"},
        {"text": "a\x1b[31m"},
        {"text": "\ud800"},
        {"text": "a\u202eb"},
        {"kind": "label", "name": ""},
        {"kind": "label", "name": "a\nb"},
        {"kind": "label", "name": "x" * (MAX_NAME + 1)},
        {"kind": "label", "name": "x", "text": "y"},
        {"kind": "score", "name": "q"},
        {"kind": "score", "name": "q", "value": float("nan")},
        {"kind": "score", "name": "q", "value": float("-inf")},
        {"kind": "score", "name": "q", "value": 1e300},
        {"kind": "star", "value": 1.0},
        {"text": "x", "author": "a\nb"},
    ],
)
def test_what_is_no_text_or_number_is_refused(wrong: dict[str, object]) -> None:
    with some_sessions(1) as store:
        (session,) = store.sessions()
        fields = {"kind": "note", "source": "person", "author": "ann", "session": session.id} | wrong
        with pytest.raises(AnnotationError):
            store.annotation_table.put(NewAnnotation(**fields))  # type: ignore[arg-type]
        assert store.annotations([session.id]) == {}


def test_a_session_has_room_for_so_many(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond the limit an annotation is refused with the reason; changing one is not adding one."""
    monkeypatch.setattr("agenttrace.store.annotation_table.MAX_PER_SESSION", 3)
    assert MAX_PER_SESSION > 3
    with some_sessions(1) as store:
        (session,) = store.sessions()
        kept = [store.annotation_table.put(note(session.id, f"n{number}"))[0] for number in range(3)]
        with pytest.raises(AnnotationLimitError):
            store.annotation_table.put(note(session.id, "n4"))
        assert store.annotation_table.change(kept[0].annotation_id, text="other") is not None
        assert store.annotation_table.remove(kept[1].annotation_id)
        store.annotation_table.put(note(session.id, "n5"))
        with pytest.raises(AnnotationError):
            store.annotation_table.put(note(session.id + 1, "no such session"))
