"""Full text search: every filter, every page, compared with what the logs say."""

from __future__ import annotations

import json
from collections.abc import Iterator

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agenttrace.store.questions import SearchQuery
from agenttrace.store.sqlite.store import SqliteStore
from agenttrace.views.hits import TextMatch, find

from .machine import Line, store_of
from .recorded import AGENT, AGENTS, BASE, PROJECTS, SECOND, WORDS, Conversation, conversations, logs_of, texts_of


@pytest.fixture(autouse=True)
def short_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    """ClickHouse looks through the newest few texts first."""
    monkeypatch.setattr("agenttrace.store.clickhouse.search._FIRST_LOOK", 3)


periods = st.none() | st.integers(0, 50).map(lambda second: (BASE + second) * SECOND)


@st.composite
def queries(draw: st.DrawFn) -> SearchQuery:
    """Any filter, alone and together with others."""
    part = st.sampled_from(["shop", "SHOP", "äpf", "100%", "_", "/work", "nowhere"])
    session = draw(st.none() | st.integers(0, 2))
    return SearchQuery(
        text=" ".join(draw(st.lists(st.sampled_from(WORDS), min_size=1, max_size=2))),
        # The place among the conversations; the test puts the number there.
        session=session,
        agents=draw(st.frozensets(st.sampled_from(AGENTS), max_size=1)),
        projects=draw(st.frozensets(st.sampled_from([*PROJECTS, ""]), max_size=2)),
        project_contains=draw(st.none() | part),
        since=draw(periods),
        until=draw(periods),
        limit=draw(st.integers(1, 5)),
    )


@settings(max_examples=12)
@given(made=conversations(), query=queries())
def test_exactly_the_events_that_match_are_found(made: list[Conversation], query: SearchQuery) -> None:
    """Pages of any size together hold each event with all words that fits the filters once, the newest first."""
    session = None if query.session is None else made[query.session % len(made)].number
    query = msgspec.structs.replace(query, session=session)
    expected = {(each.name, line["id"], line["type"]) for each, line in _matching(made, query)}
    with store_of(logs_of(made)) as store:
        found = list(_pages(store, query))
        numbers = [number for number, _ in found]
        assert numbers == sorted(set(numbers), reverse=True)
        assert {place for _, place in found} == expected
        assert len(found) == len(expected)


def _pages(store: SqliteStore, query: SearchQuery) -> Iterator[tuple[int, tuple[str, str, str]]]:
    before: int | None = None
    while True:
        page = find(store, msgspec.structs.replace(query, before=before))
        assert len(page.matches) <= query.limit
        for match in page.matches:
            assert isinstance(match, TextMatch)
            line = json.loads(match.event.said.line.raw)
            assert match.content is not None
            yield match.event.said.line.event_no, (line["session"], line["id"], line["type"])
        if page.next is None:
            return
        assert before is None or page.next < before
        before = page.next


def _matching(made: list[Conversation], query: SearchQuery) -> Iterator[tuple[Conversation, Line]]:
    for each in made:
        if _fits(each, query):
            yield from ((each, line) for line in each.lines if _says(line, query) and _is_in_time(line, query))


def _fits(each: Conversation, query: SearchQuery) -> bool:
    project, part = each.project or "", query.project_contains
    return (
        query.session in (None, each.number)
        and (not query.agents or AGENT in query.agents)
        and (not query.projects or project in query.projects)
        and (part is None or part.casefold() in project.casefold())
    )


def _says(line: Line, query: SearchQuery) -> bool:
    said = " ".join(texts_of(line)).lower()
    return bool(said) and all(word.lower() in said for word in query.text.split())


def _is_in_time(line: Line, query: SearchQuery) -> bool:
    if "ts" not in line:
        return query.since is None and query.until is None
    at = line["ts"] * SECOND
    return (query.since is None or at >= query.since) and (query.until is None or at < query.until)


@given(text=st.text(max_size=40))
@settings(max_examples=12)
def test_no_text_is_an_error(text: str) -> None:
    """Whatever is typed has an answer."""
    with store_of({}) as store:
        assert store.search(SearchQuery(text=text)) == []


def test_what_is_not_indexed_is_not_found_and_counted() -> None:
    """The backlog says how much waits; after a reset all of it does."""
    with store_of({"a": [{"v": 1, "session": "a", "type": "turn.begin", "id": "1", "prompt": "alpha"}]}) as store:
        assert store.search_index.backlog == 0
        assert len(store.search(SearchQuery(text="alpha"))) == 1
