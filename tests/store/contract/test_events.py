"""Recorded events: their order, their lines and what belongs to them, compared with the logs."""

from __future__ import annotations

import json

from hypothesis import given, settings
from hypothesis import strategies as st

from agenttrace.views.events import EventReader

from .machine import store_of
from .recorded import Conversation, conversations, logs_of, texts_of


@settings(max_examples=10)
@given(made=conversations())
def test_every_line_is_an_event_with_its_text(made: list[Conversation]) -> None:
    """All lines of all sessions, as they were written, in their order; and by session the same."""
    with store_of(logs_of(made)) as store:
        lines = list(store.lines())
        assert [line.event_no for line in lines] == sorted({line.event_no for line in lines})
        for each in made:
            own = [line for line in lines if line.session == each.number]
            assert own == list(store.lines(session=each.number))
            assert [json.loads(line.raw) for line in own] == each.lines
            assert list(store.session_events(each.number)) == [line.event_no for line in own]
            assert {store.file_source(line.file_id).path.rsplit("/", 1)[-1] for line in own} == {f"{each.name}.jsonl"}
        assert len(lines) == sum(len(each.lines) for each in made)
        assert store.last_event() == (lines[-1].event_no if lines else 0)


@settings(max_examples=10)
@given(made=conversations(), count=st.integers(1, 8), which=st.none() | st.integers(0, 2))
def test_the_newest_events_and_those_after_them(made: list[Conversation], count: int, which: int | None) -> None:
    """Going on after each last event gives every event once; the newest are the end of that."""
    session = None if which is None else made[which % len(made)].number
    with store_of(logs_of(made)) as store:
        expected = [line.event_no for line in store.lines(session=session)]
        assert store.newest_events(count, session) == expected[-count:]
        found: list[int] = []
        while more := store.events_after(found[-1] if found else 0, session, limit=count):
            assert len(more) <= count
            found += more
        assert found == expected


@settings(max_examples=10)
@given(made=conversations(), data=st.data())
def test_events_by_number_with_session_span_and_tools(made: list[Conversation], data: st.DataObject) -> None:
    """Any events in any order come in order, each with its session, its texts, its span and the names of its tools."""
    with store_of(logs_of(made)) as store:
        lines = {line.event_no: line for line in store.lines()}
        wanted = data.draw(st.lists(st.sampled_from(sorted(lines)), unique=True))
        found = list(EventReader(store).read(wanted))
        assert [event.said.line for event in found] == [lines[number] for number in sorted(wanted)]
        names = {each.number: each.name for each in made}
        for event in found:
            line = json.loads(event.said.line.raw)
            assert (event.session.session_id, names[event.said.line.session]) == (line["session"], line["session"])
            assert [content.text for content in event.said.contents] == texts_of(line)
            assert (event.span is None) == (event.said.line.span_id is None)
            if line["type"] == "tool.begin":
                assert event.tools == {line["id"]: line["name"]}


@settings(max_examples=10)
@given(made=conversations())
def test_places_are_those_of_the_lines(made: list[Conversation]) -> None:
    """The short form of a session's events says the same as its lines; a mark names one event."""
    with store_of(logs_of(made)) as store:
        last = store.last_event()
        for each in made:
            lines = list(store.lines(session=each.number))
            middle = lines[len(lines) // 2].event_no
            parts = [*store.event_places(each.number, 0, middle), *store.event_places(each.number, middle, last)]
            assert parts == [
                (line.event_no, line.span_id, line.turn_index, line.step_n, line.file_id) for line in lines
            ]
            assert [file.path.rsplit("/", 1)[-1] for file in store.source_files([lines[0].file_id])] == [
                f"{each.name}.jsonl"
            ]
        mark = store.event_mark()
        assert mark is not None
        assert (mark.event_no, store.event_mark(last), store.event_mark(last + 1)) == (last, mark, None)
