"""Spans of sessions, whole and in parts, and those that failed."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agenttrace.store.questions import ErrorQuery, FailedSpan, SpanRow
from agenttrace.store.sqlite.store import SqliteStore

from .machine import machine, store_of
from .recorded import AGENT, AGENTS, BASE, SECOND, Conversation, conversations, logs_of

periods = st.none() | st.integers(0, 50).map(lambda second: (BASE + second) * SECOND)


def rows_of(store: SqliteStore, each: Conversation) -> list[SpanRow]:
    """All spans of a session."""
    (session,) = store.sessions_by_number([each.number])
    return list(store.span_rows(session, attributes=True))


@settings(max_examples=10)
@given(made=conversations(), size=st.integers(1, 4), data=st.data())
def test_parts_are_parts_of_the_whole(made: list[Conversation], size: int, data: st.DataObject) -> None:
    """Pages, single spans, places and views all say what the whole list says."""
    with store_of(logs_of(made)) as store:
        for each in made:
            (session,) = store.sessions_by_number([each.number])
            rows = rows_of(store, each)
            assert len({row.span_id for row in rows}) == len(rows)
            assert [row.start for row in rows] == sorted(row.start for row in rows)
            pages = [
                row
                for start in range(0, len(rows), size)
                for row in store.span_rows(session, attributes=True, start=start, limit=size)
            ]
            assert pages == rows
            wanted = data.draw(st.lists(st.sampled_from(rows), unique=True)) if rows else []
            ids = [row.span_id for row in wanted]
            assert store.spans_by_id(session, [*ids, b"not there"]) == {row.span_id: row for row in wanted}
            places = store.span_places(session.id, ids)
            assert {span: (place.kind, place.turn_index) for span, place in places.items()} == {
                row.span_id: (row.kind, row.turn_index) for row in wanted
            }
            assert [store.span_name(session.id, row.span_id) for row in wanted] == [row.name for row in wanted]
            assert [view.span_id for view in store.spans(session)] == [row.span_id for row in rows]


@settings(max_examples=10)
@given(made=conversations())
def test_spans_form_a_forest_with_subagents_under_their_calls(made: list[Conversation]) -> None:
    """Every parent is a span of the session, none is its own ancestor; a subagent's turn is under a tool call."""
    with store_of(logs_of(made)) as store:
        for each in made:
            rows = {row.span_id: row for row in rows_of(store, each)}
            for row in rows.values():
                seen, above = {row.span_id}, row.parent_id
                while above is not None:
                    assert above in rows
                    assert above not in seen
                    seen.add(above)
                    above = rows[above].parent_id
                if row.stream != "main" and row.kind == "turn":
                    assert row.parent_id is not None
                    assert rows[row.parent_id].kind == "tool"
            tools = {line["id"]: line["name"] for line in each.lines if line["type"] == "tool.begin"}
            assert store.tool_names(each.number)[1] == tools


@settings(max_examples=10)
@given(made=conversations(max_size=2), data=st.data())
@pytest.mark.parametrize("engine", ["recorded"], indirect=True, scope="module")
def test_changes_bring_a_reader_up_to_date(made: list[Conversation], data: st.DataObject) -> None:
    """What was read, with the spans that changed since put over it, is what is there; nothing changes by itself."""
    cuts = {each.name: data.draw(st.integers(1, len(each.lines))) for each in made}
    with machine() as recorded:
        recorded.record({each.name: each.lines[: cuts[each.name]] for each in made})
        with recorded.store() as store:
            cursor = store.last_event()
            before = {each.name: {row.span_id: row for row in rows_of(store, each)} for each in made}
        recorded.record({each.name: each.lines[cuts[each.name] :] for each in made})
        with recorded.store() as store:
            for each in made:
                (session,) = store.sessions_by_number([each.number])
                changed = {row.span_id: row for row in store.changed_spans(session, cursor)}
                now = {row.span_id: row._replace(attributes=None) for row in rows_of(store, each)}
                assert changed.keys() <= now.keys()
                kept = {span: row._replace(attributes=None) for span, row in before[each.name].items()}
                merged = kept | {span: row._replace(attributes=None) for span, row in changed.items()}
                # What a session left open ends with its last event, which the reader knows from the session.
                assert {span: _as_logged(row) for span, row in merged.items()} == {
                    span: _as_logged(row) for span, row in now.items()
                }
                assert store.changed_spans(session, store.last_event()) == []


def _as_logged(row: SpanRow) -> SpanRow:
    return (
        row._replace(end=None, status="open", ended_by=0, changed=0) if row.ended_by == 2 else row._replace(changed=0)
    )


@st.composite
def error_queries(draw: st.DrawFn) -> ErrorQuery:
    """Any filter, alone and together with others."""
    return ErrorQuery(
        agents=draw(st.frozensets(st.sampled_from(AGENTS), max_size=1)),
        project_contains=draw(st.none() | st.sampled_from(["SHOP", "äpfel", "_", "nowhere"])),
        since=draw(periods),
        until=draw(periods),
        limit=draw(st.integers(1, 3)),
    )


@settings(max_examples=12)
@given(made=conversations(), query=error_queries(), which=st.none() | st.integers(0, 2))
def test_errors_are_the_spans_that_failed(made: list[Conversation], query: ErrorQuery, which: int | None) -> None:
    """Pages of any size together hold each failed span that fits the filters once, the latest first."""
    session = None if which is None else made[which % len(made)].number
    query = msgspec.structs.replace(query, session=session)
    with store_of(logs_of(made)) as store:
        found: list[FailedSpan] = []
        while page := store.errors(msgspec.structs.replace(query, before=found[-1].place if found else None)):
            assert len(page) <= query.limit
            found += page
        assert [failed.start for failed in found] == sorted((failed.start for failed in found), reverse=True)
        expected = {
            (each.number, row.span_id, row.name)
            for each in made
            if _fits(each, query)
            for row in rows_of(store, each)
            if row.status == "error" and not row.ended_by and _is_in_time(row, query)
        }
        assert {(failed.session, failed.span_id, failed.name) for failed in found} == expected
        assert len(found) == len(expected)


def _fits(each: Conversation, query: ErrorQuery) -> bool:
    part = query.project_contains
    return (
        query.session in (None, each.number)
        and (not query.agents or AGENT in query.agents)
        and (part is None or part.casefold() in (each.project or "").casefold())
    )


def _is_in_time(row: SpanRow, query: ErrorQuery) -> bool:
    return (query.since is None or row.start >= query.since) and (query.until is None or row.start < query.until)
