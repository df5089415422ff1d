"""Traces and sessions: however spans arrive, a trace is in one session, and everything of it is there once."""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from otlp_rig import (
    EVENTS,
    NOW,
    PLACES,
    RESPONSES,
    SECOND,
    SESSIONS,
    SPANS,
    USAGE,
    Store,
    chat,
    line,
    shared,
    span_id,
    trace_id,
    written,
)

from agenttrace.calendar import day_finder
from agenttrace.record.files import reader
from agenttrace.record.files.stored_paths import still_there
from agenttrace.record.maintenance import remove_recorded_logs
from agenttrace.record.recovery import recover
from agenttrace.record.texts.search_index import index_all
from agenttrace.store.annotations import NewAnnotation
from agenttrace.store.rows import ChangesCursor, Row
from agenttrace.store.sqlite.database import connect
from agenttrace.store.sqlite.events import raw_lines
from agenttrace.store.sqlite.retention import Retention
from agenttrace.store.sqlite.sessions import find_sessions
from agenttrace.store.sqlite.store import SqliteStore
from store_on import store_on


class Arrival(NamedTuple):
    """Spans as they arrive, and how they are recorded."""

    #: The session that spans of each trace name; None for a trace none of whose spans does.
    named: dict[int, str | None]
    lines: list[dict[str, Any]]
    #: After so many lines everything is recorded, and where it says so, the recorder is another one from then on.
    cuts: list[tuple[int, bool]]
    #: How much of a file is read at a time, in bytes: a batch is made of several such pieces.
    piece: int


@st.composite
def arrivals(draw: st.DrawFn) -> Arrival:
    """A few traces, each a tree, whose spans, and what they share, arrive in any order, some of them again."""
    named: dict[int, str | None] = {}
    spans: list[dict[str, Any]] = []
    for trace in range(1, draw(st.integers(1, 4)) + 1):
        named[trace] = draw(st.sampled_from(["red", "blue", None]))
        size = draw(st.integers(1, 5))
        tells = draw(st.sets(st.integers(0, size - 1), min_size=1)) if named[trace] else set()
        for place in range(size):
            number = trace * 100 + place
            parent = None if place == 0 else trace * 100 + draw(st.integers(0, place - 1))
            told = {"session.id": named[trace]} if place in tells else {}
            make = chat if draw(st.booleans()) else line
            made = make(number, trace=trace, parent=parent, start=place, attributes=told)
            spans.append(made | ({"status": "error"} if draw(st.booleans()) else {}))
        if draw(st.booleans()):
            spans.append(shared(trace))
    again = draw(st.lists(st.sampled_from(spans), max_size=4))
    lines = draw(st.permutations(spans + again))
    places = sorted(draw(st.sets(st.integers(0, len(lines)), max_size=4)))
    cuts = [(place, draw(st.booleans())) for place in places]
    return Arrival(named, list(lines), cuts, draw(st.sampled_from([500, 1500, 1 << 20])))


def played(
    store: Store, lines: Sequence[dict[str, Any]], cuts: Sequence[tuple[int, bool]], piece: int = 1 << 20
) -> Store:
    """Record the lines part by part."""
    done = 0
    with pytest.MonkeyPatch.context() as patch, ExitStack() as stack:
        patch.setattr(reader, "CHUNK_BYTES", piece)
        recorder = stack.enter_context(store.recorder())
        for cut, renew in (*cuts, (len(lines), False)):
            store.append(*lines[done:cut])
            recorder.scan()
            recorder.drain()
            done = cut
            if renew:
                stack.pop_all().close()
                recorder = stack.enter_context(store.recorder())
    return store


@settings(max_examples=60)
@given(arrivals())
def test_a_trace_is_in_one_session(arrival: Arrival) -> None:
    """All spans of a trace end up in the session that any of them names, else in one named after the trace: each once,
    with its tokens, its events and its counts."""
    with tempfile.TemporaryDirectory() as root:
        store = played(Store(Path(root)), arrival.lines, arrival.cuts, arrival.piece)
        expected = {trace_id(trace): {name or trace_id(trace)} for trace, name in arrival.named.items()}
        assert store.homes() == expected
        unique = {each["span"]: each for each in arrival.lines if "span" in each}
        parts = {each["trace"] for each in arrival.lines if "digest" in each}
        assert _parents(store) == {each["span"]: each.get("parent") for each in unique.values()}
        for name in store.names():
            own = [each for each in unique.values() if expected[each["trace"]] == {name}]
            calls = [each for each in own if "gen_ai.request.model" in each["attributes"]]
            row = store.session(name)
            assert row["events"] == len(own) + sum(expected[trace] == {name} for trace in parts)
            assert row["steps"] == len(calls)
            assert row["turns"] == sum("parent" not in each for each in own)
            assert row["errors"] == sum(each.get("status") == "error" for each in own)
            assert row["started_at"] == min(each["start"] for each in own) // 1000
            assert row["last_at"] == max(each["end"] for each in own) // 1000
            assert store.used().get(name, (0, 0)) == (len(calls), 11 * len(calls))
        assert set(store.names()) == {name for names in expected.values() for name in names}


def _parents(store: Store) -> dict[str, str | None]:
    """Every span with its parent; no span twice."""
    found = store.rows("SELECT lower(hex(span_id)), iif(parent_id IS NULL, NULL, lower(hex(parent_id))) FROM spans")
    assert len(dict(found)) == len(found)
    return dict(found)


@settings(max_examples=40)
@given(arrivals())
def test_where_runs_end_changes_nothing(arrival: Arrival) -> None:
    """Recorded in several runs and pieces or in one, the rows are the same, but for the numbers of events."""
    tables = (SPANS, PLACES, EVENTS, SESSIONS, USAGE, RESPONSES)
    with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as other:
        whole = played(Store(Path(one)), arrival.lines, [])
        parts = played(Store(Path(other)), arrival.lines, arrival.cuts, arrival.piece)
        assert parts.tables(*tables) == whole.tables(*tables)


@settings(max_examples=25)
@given(arrivals(), st.randoms(use_true_random=False))
def test_sent_again_in_any_order(arrival: Arrival, random: Any) -> None:  # noqa: ANN401 - a Random
    """Everything sent once more, in another order, changes no row at all."""
    tables = (SPANS, PLACES, EVENTS, SESSIONS, USAGE, RESPONSES, "SELECT event_no FROM processed_events ORDER BY 1")
    with tempfile.TemporaryDirectory() as root:
        store = played(Store(Path(root)), arrival.lines, arrival.cuts, arrival.piece)
        before = store.tables(*tables)
        again = list(arrival.lines)
        random.shuffle(again)
        played(store, again, [(len(again) // 2, True)], arrival.piece)
        assert store.tables(*tables) == before


@settings(max_examples=25)
@given(arrivals(), st.randoms(use_true_random=False))
def test_copies_follow_traces_that_move(arrival: Arrival, random: Any) -> None:  # noqa: ANN401 - a Random
    """Changes that were read after each run, merged in any order and some twice, give the rows of the store."""
    tables = (SPANS, PLACES, EVENTS, SESSIONS, USAGE, RESPONSES, "SELECT event_no FROM processed_events ORDER BY 1")
    with tempfile.TemporaryDirectory() as root, tempfile.TemporaryDirectory() as other:
        store, copy = Store(Path(root)), Store(Path(other))
        rows: list[Row] = []
        cursor = ChangesCursor()
        ends = [place for place, _ in arrival.cuts] + [len(arrival.lines)]
        for begin, end in itertools.pairwise([0, *sorted(set(ends))]):
            store.recorded(*arrival.lines[begin:end])
            with SqliteStore.open(store.settings.home / "agenttrace.db") as recorded:
                while (page := recorded.changes_since(cursor, 5)).rows:
                    rows, cursor = rows + page.rows, page.cursor
        rows += random.sample(rows, len(rows) // 3)
        random.shuffle(rows)
        with SqliteStore.open(copy.settings.home / "agenttrace.db", read_only=False) as merged:
            for start in range(0, len(rows), 10):
                merged.merge(rows[start : start + 10], day_of=day_finder(store.settings.usage.timezone))
        assert copy.tables(*tables) == store.tables(*tables)


def test_children_first(tmp_path: Path) -> None:
    """Children that were recorded as a separate session move when their root names the session."""
    store = Store(tmp_path).recorded(chat(2, parent=1), line(3, parent=2))
    assert store.names() == [trace_id(1)]
    store.recorded(line(1, attributes={"session.id": "talk"}, seconds=9))
    assert store.names() == ["talk"]
    assert store.used() == {"talk": (1, 11)}
    row = store.session("talk")
    assert (row["events"], row["turns"], row["steps"], row["state"]) == (3, 1, 1, "ended")
    assert (row["started_at"], row["last_at"]) == (NOW // 1000, (NOW + 9 * SECOND) // 1000)
    with connect(store.settings.home / "agenttrace.db") as connection:
        assert len(list(raw_lines(connection, session=row["id"]))) == 3


def test_annotations_move_with_their_trace(tmp_path: Path) -> None:
    """What was written beside a trace is beside the session that it becomes part of, in copies too."""
    store = Store(tmp_path).recorded(chat(2, parent=1))
    path, copied = store.settings.home / "agenttrace.db", tmp_path / "copy.db"
    with SqliteStore.open(path, read_only=False) as opened:
        part = opened.session(trace_id(1)).id
        label = NewAnnotation(session=part, kind="label", source="person", author="ann", name="bug")
        opened.annotation_table.put(label)
        before = opened.changes_since(limit=1_000).rows
    store.recorded(line(1, attributes={"session.id": "talk"}, seconds=9))
    with SqliteStore.open(path, read_only=False) as opened, SqliteStore.open(copied, read_only=False) as copy:
        talk = opened.session("talk").id
        assert not opened.annotation_table.put(label)[1]
        assert not opened.annotation_table.put(msgspec.structs.replace(label, session=talk))[1]
        note = NewAnnotation(session=part, kind="note", source="rule", author="r", text="late", key="k")
        assert opened.annotation_table.put(note)[0].session == talk
        assert [each.kind for each in opened.annotations([talk])[talk]] == ["label", "note"]
        assert opened.annotations([part]) == {}
        for rows in (opened.changes_since(limit=1_000).rows, before):
            copy.merge(rows, day_of=day_finder(store.settings.usage.timezone))
        assert copy.annotations([talk, part]) == opened.annotations([talk, part])


def test_sent_again_right_after_the_move(tmp_path: Path) -> None:
    """A span that is sent again while its trace is on the way to its session, or just arrived there, is known."""
    child, root = chat(2, parent=1), line(1, attributes={"session.id": "talk"})
    store = played(Store(tmp_path), [child, root, child, child], [(1, True), (3, False)], piece=500)
    assert (store.session("talk")["events"], store.session("talk")["steps"]) == (2, 1)
    assert store.used() == {"talk": (1, 11)}


def test_children_last(tmp_path: Path) -> None:
    """Spans that come after the one that named the session belong to it, also after a restart."""
    store = Store(tmp_path).recorded(line(1, attributes={"gen_ai.conversation.id": "talk"}))
    store.recorded(chat(2, parent=1))
    assert store.names() == ["talk"]
    assert store.session("talk")["events"] == 2


def test_the_first_name_counts(tmp_path: Path) -> None:
    """A trace whose spans name two sessions is in the one that was named first, whole."""
    store = Store(tmp_path).recorded(line(2, parent=1, attributes={"session.id": "first"}))
    store.recorded(line(1, attributes={"session.id": "second"}), line(3, parent=1))
    assert store.homes() == {trace_id(1): {"first"}}


def test_a_session_named_as_a_trace(tmp_path: Path) -> None:
    """Names that go round in a circle end in one session."""
    store = Store(tmp_path)
    one, two = trace_id(1), trace_id(2)
    store.recorded(line(1, trace=1, attributes={"session.id": one}))
    store.recorded(line(2, trace=2, parent=1), line(3, trace=2, attributes={"session.id": one}))
    store.recorded(line(4, trace=1, attributes={"session.id": two}), line(5, trace=2))
    assert store.homes() == {one: {one}, two: {one}}
    assert store.session(one)["events"] == 5


def test_found_by_trace(tmp_path: Path) -> None:
    """A session is found by the id of any of its traces, and by its own."""
    store = Store(tmp_path).recorded(line(2, parent=1), line(1, attributes={"session.id": "talk"}))
    with connect(store.settings.home / "agenttrace.db") as connection:
        for name in ("talk", trace_id(1), trace_id(1)[:-1]):
            assert [session.session_id for session in find_sessions(connection, name)] == ["talk"]


def test_a_session_of_many_traces(tmp_path: Path) -> None:
    """Each trace of a session is a turn of it, in the order of arrival."""
    spans = [line(number, trace=number, attributes={"session.id": "talk"}, start=number) for number in range(1, 101)]
    store = Store(tmp_path).recorded(*spans)
    assert store.session("talk")["turns"] == 100
    turns = store.rows("SELECT turn_index FROM spans ORDER BY start")
    assert turns == [(number,) for number in range(100)]


def test_several_programs(tmp_path: Path) -> None:
    """Programs that share a trace share the session; the one in which the trace begins gives it the project."""
    store = Store(tmp_path).recorded(
        chat(3, parent=2, service="gateway"),
        line(2, parent=1, service="agent", flags=0x300, attributes={"gen_ai.operation.name": "invoke_agent"}),
        line(1, service="shop", attributes={"session.id": "talk"}),
    )
    row = store.session("talk")
    assert (row["project"], row["turns"], row["steps"]) == ("shop", 1, 1)


def test_a_root_that_never_comes(tmp_path: Path) -> None:
    """An agent that was called remotely is a turn, although its caller is missing; other spans are just recorded."""
    agent = line(2, parent=1, flags=0x300, attributes={"gen_ai.operation.name": "invoke_agent", "session.id": "talk"})
    store = Store(tmp_path).recorded(chat(3, parent=2), agent)
    assert (store.session("talk")["turns"], store.session("talk")["state"]) == (1, "ended")
    store.recorded(line(9, trace=2, parent=8))
    assert (store.session(trace_id(2))["turns"], store.session(trace_id(2))["state"]) == (0, "working")


def test_torn_lines(tmp_path: Path) -> None:
    """A line that was torn in the middle costs itself only; what was written into it is recorded."""
    store = Store(tmp_path)
    whole = written([line(number) for number in (1, 2, 3)])
    store.append(whole[: len(whole) // 2] + b"\n")
    store.append(whole)
    store.append(written([line(4)])[:40] + written([line(5)]))
    summary = store.record()
    assert {row[0] for row in store.rows("SELECT lower(hex(span_id)) FROM spans")} == {span_id(n) for n in (1, 2, 3, 5)}
    assert summary.quarantined == 2


def test_a_damaged_first_line(tmp_path: Path) -> None:
    """In its own directory a log is known for what it is, even if its beginning is not."""
    store = Store(tmp_path)
    store.append(b"\0" * 100_000 + b"\n")
    store.recorded(line(1))
    assert store.names() == [trace_id(1)]


def test_what_retention_removed_stays_away(tmp_path: Path) -> None:
    """A pruned trace that is sent again, with a root that names its session, does not come back."""
    store = Store(tmp_path).recorded(chat(2, parent=1))
    with connect(store.settings.home / "agenttrace.db") as connection:
        Retention(connection).prune((NOW + 100 * SECOND) / SECOND)
    assert store.names() == []
    store.recorded(line(1, attributes={"session.id": "talk"}), chat(2, parent=1))
    assert store.session("talk")["events"] == 1
    assert store.used() == {"talk": (1, 11)}
    assert store.rows("SELECT session_id FROM pruned") == [(store.session("talk")["id"],)]


def test_moved_texts_are_found(tmp_path: Path) -> None:
    """What was searched before its session was known is found in the session afterwards, once."""
    said = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.call.arguments": "a lighthouse"}
    store = Store(tmp_path).recorded(line(2, parent=1, attributes=said))
    for _ in range(2):
        with connect(store.settings.home / "agenttrace.db") as connection:
            index_all(store_on(connection))
            query = (
                "SELECT session_id FROM search JOIN processed_events ON event_no = search.rowid "
                "WHERE search MATCH 'lighthouse'"
            )
            (found,) = connection.execute(query).fetchall()
        store.recorded(line(1, attributes={"session.id": "talk"}))
    assert found[0] == store.session("talk")["id"]


@pytest.mark.parametrize("told", [True, False])
def test_parents_that_repeat_the_sum(tmp_path: Path, told: bool) -> None:
    """An agent's sum of its model calls does not count again; a root's counts where no model call has usage."""
    total = {"gen_ai.usage.input_tokens": 100, "gen_ai.usage.output_tokens": 5, "gen_ai.request.model": "gpt-4o"}
    agent = {"gen_ai.operation.name": "invoke_agent", **total}
    call = chat(3, parent=2) if told else line(3, parent=2, attributes={"gen_ai.operation.name": "chat"})
    store = Store(tmp_path).recorded(call, line(2, parent=1, attributes=agent))
    store.recorded(line(1, attributes={"session.id": "talk", **agent}))
    assert store.used() == {"talk": (1, 11 if told else 105)}


def test_logs_go_with_retention(tmp_path: Path) -> None:
    """Only a log of which every byte was recorded, and that has not changed since, is removed."""
    store = Store(tmp_path).recorded(line(1))
    later = store.log.stat().st_mtime + 10
    with SqliteStore.open(store.settings.home / "agenttrace.db") as stored:
        assert remove_recorded_logs(stored.files, store.settings.home, later - 20) == 0
        store.append(line(2))
        assert remove_recorded_logs(stored.files, store.settings.home, later) == 0
        store.record()
        assert remove_recorded_logs(stored.files, store.settings.home, later) == 1
    assert not store.log.exists()
    store.record()
    assert store.session(trace_id(1))["events"] == 2


def test_notes_of_traces_go_last(tmp_path: Path) -> None:
    """Where traces went is forgotten once nothing is known of their session any more, and not before."""
    store = Store(tmp_path).recorded(chat(2, parent=1), line(1, attributes={"session.id": "talk"}))
    notes = "SELECT count(*) FROM sessions WHERE parent = 'talk'"
    later = store.log.stat().st_mtime + 1_000_000
    with SqliteStore.open(store.settings.home / "agenttrace.db", read_only=False) as stored:
        # The newest event of the store stays whatever its session: here that is another one.
        stored.connection.execute("INSERT INTO processed_events VALUES (1000, x'00', 1, 0, 0, '', NULL, 0, 1, 0)")
        stored.retention.prune(later)
        list(stored.retention.expire_ids(later, still_there))
        assert store.rows(notes) == [(1,)]
        assert remove_recorded_logs(stored.files, store.settings.home, later) == 1
        list(stored.retention.expire_ids(later, still_there))
    assert store.rows(notes) == [(0,)]
    assert store.used() == {"talk": (1, 11)}


@pytest.mark.parametrize("gone", [False, True])
def test_a_rebuilt_store(tmp_path: Path, gone: bool) -> None:
    """A store that was damaged is made anew with the same rows, from the log or, where that is gone, from its lines."""
    store = Store(tmp_path)
    spans = [chat(10 * trace + place, trace=trace, parent=10 * trace) for trace in range(1, 9) for place in (1, 2)]
    roots = [line(10 * trace, trace=trace, attributes={"session.id": f"talk-{trace % 3}"}) for trace in range(1, 9)]
    store.recorded(*spans[:5])
    store.recorded(*spans[5:], *roots)
    tables = (SPANS, PLACES, EVENTS, SESSIONS, USAGE, RESPONSES)
    before = store.tables(*tables)
    if gone:
        store.log.unlink()
    recover(store.settings.home)
    store.record()
    assert store.tables(*tables) == before


def test_a_rebuilt_store_forgets_what_was_pruned(tmp_path: Path) -> None:
    """What retention removed does not come back when the store is made anew from the log."""
    store = Store(tmp_path).recorded(chat(2, parent=1), line(1, attributes={"session.id": "talk"}))
    with connect(store.settings.home / "agenttrace.db") as connection:
        Retention(connection).prune((NOW + 100 * SECOND) / SECOND)
    recover(store.settings.home)
    store.record()
    assert store.names() == []
    assert store.rows("SELECT count(*) FROM spans") == [(0,)]
    assert store.used() == {"talk": (1, 11)}
