"""Search over HTTP: what it finds, in any script, where it says so, and what it does with queries that are none."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agenttrace.serve.api.sessions.search import LONGEST_QUERY, pieces
from agenttrace.views.hits import terms_of

from .trace_rig import Logs, Running, console


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Logs:
    made = Logs(tmp_path_factory.mktemp("search"))
    made.use_samples()
    for number in range(7):
        made.append("english", role="user", text=f"the quick brown fox number{number} jumps")
    made.append("english", role="assistant", text="<script>alert('fox')</script> brown quick")
    made.append("chinese", role="user", text="日志轮转时偶尔丢行，请重试连接")
    made.append("elsewhere", "session.begin", project="/home/fox", title="Other")
    made.append("elsewhere", role="user", text="a fox in another project")
    made.record()
    return made


@pytest.fixture(scope="module")
def server(logs: Logs) -> Iterator[Running]:
    running = Running(logs.settings)
    yield running
    running.close()


def search(server: Running, query: str, **filters: Any) -> list[dict[str, Any]]:  # noqa: ANN401 - an address's query
    return server.run(server.console.pages("/search", 500, q=query, **filters))


def text_of(hit: dict[str, Any]) -> str:
    return "".join(piece["text"] for piece in hit["snippet"])


def marked(hit: dict[str, Any]) -> list[str]:
    return [piece["text"] for piece in hit["snippet"] if piece["hit"]]


def test_a_hit_says_where_it_is(server: Running) -> None:
    """A hit names its event, session and span, and shows the text around what was searched for, marked."""
    (hit,) = search(server, "number3")
    assert text_of(hit) == "the quick brown fox number3 jumps"
    assert marked(hit) == ["number3"]
    assert hit["session"]["session_id"] == "english"
    assert (hit["kind"], len(hit["session"]["key"])) == ("prompt", 16)
    assert hit["span_id"] is not None
    assert hit["at"] is not None


@pytest.mark.parametrize(
    ("query", "count", "hits"),
    [
        ("fox", 9, {"fox"}),
        ("FOX", 9, {"fox"}),
        ("quick fox", 8, {"quick", "fox"}),
        ('"quick brown"', 7, {"quick brown"}),
        ("numb*", 7, {"numb"}),
        ("fox - !", 9, {"fox"}),
        ("轮转", 1, {"轮转"}),
        ("重试连接", 1, {"重试连接"}),
        ("转轮", 0, set()),
        ("丢行 重试", 1, {"丢行", "重试"}),
        ("unheardof", 0, set()),
    ],
)
def test_words_phrases_beginnings_and_chinese(server: Running, query: str, count: int, hits: set[str]) -> None:
    """Each way to search finds what it describes and marks it."""
    found = search(server, query)
    assert len(found) == count
    assert {text for hit in found for text in marked(hit)} == hits


def test_text_stays_text(server: Running) -> None:
    """What looks like a page in a log is a text like any other: nothing is taken from it and nothing added."""
    (hit,) = search(server, "alert")
    assert text_of(hit) == "<script>alert('fox')</script> brown quick"


def test_filters(server: Running) -> None:
    """Agent, project and session keep the hits that they describe, and together those that fit all."""
    everything = search(server, "fox")
    key = next(hit["session"]["key"] for hit in everything if hit["session"]["session_id"] == "english")
    assert [hit["session"]["project"] for hit in search(server, "fox", project="/home/fox")] == ["/home/fox"]
    assert len(search(server, "fox", project="")) == 8
    assert len(search(server, "fox", project=["", "/home/fox"])) == 9
    assert [hit["event_no"] for hit in search(server, "fox", session=key)] == [
        hit["event_no"] for hit in everything if hit["session"]["key"] == key
    ]
    assert search(server, "fox", agent="codex") == []
    assert len(search(server, "fox", agent=["codex", "agenttrace"])) == 9
    assert search(server, "fox", session=key, project="/home/fox") == []
    assert search(server, "fox", session="0" * 16) == []
    assert {hit["session"]["agent"] for hit in search(server, "SCENARIO", agent="codex")} == {"codex"}


@given(limit=st.integers(1, 12), query=st.sampled_from(["fox", "scenario", "error", "the"]), inside=st.booleans())
def test_the_pages_together_are_all_hits(server: Running, limit: int, query: str, inside: bool) -> None:
    """For any page size each hit is on exactly one page, newest first, in all sessions and in one of them."""
    everything = search(server, query)
    numbers = [hit["event_no"] for hit in everything]
    assert numbers == sorted(set(numbers), reverse=True)
    key = everything[-1]["session"]["key"]
    filters = {"session": key} if inside else {}
    expected = [hit for hit in everything if not inside or hit["session"]["key"] == key]
    assert server.run(server.console.pages("/search", limit, q=query, **filters)) == expected


@given(query=st.text(max_size=80))
def test_any_text_is_searched_for_or_refused(server: Running, query: str) -> None:
    """No query breaks the search: it is answered, or refused because there is no word in it."""
    answer = server.run(server.console.get("/search", q=query.encode("utf-8", "replace").decode()))
    assert answer.status in (200, 400)
    if any(character.isalnum() for character in query.replace("\x00", " ")):
        assert answer.status == 200


@pytest.mark.parametrize("query", ["", "  ", '"', '""', "!!!", "*", "- - -", "…", "。", "x" * (LONGEST_QUERY + 1)])
def test_a_query_without_a_word_is_refused_in_words(server: Running, query: str) -> None:
    """A query in which there is nothing to search for is a problem that says what to give."""
    answer = server.run(server.console.get("/search", q=query))
    assert answer.status == 400
    assert "word" in answer.json()["detail"] or "longer" in answer.json()["detail"]


@pytest.mark.parametrize("session", ["english", "", "F" * 16, "f" * 16, "0" * 15, "../x"])
def test_what_is_no_key_is_refused(server: Running, session: str) -> None:
    """A session is named by its key."""
    assert server.run(server.console.get("/search", q="fox", session=session)).status == 400


@given(text=st.text(max_size=40), query=st.text(max_size=12))
def test_pieces_are_the_text(text: str, query: str) -> None:
    """Whatever is marked in a text, its pieces are that text, and none of them is empty."""
    found = list(pieces(text, terms_of(query)))
    assert "".join(piece.text for piece in found) == text
    assert all(piece.text for piece in found)


def test_what_is_not_indexed_yet_is_counted(tmp_path: Path) -> None:
    """Events that were recorded and cannot be found yet are the backlog; without a store there are none."""

    async def main() -> None:
        made = Logs(tmp_path)
        async with console(made.settings) as server:
            assert await server.json("/search", q="fox") == {"items": [], "next": None, "backlog": 0}
            made.append("a", text="a fox")
            made.append("a", text="a hen")
            await asyncio.to_thread(made.record, index=False)
            assert await server.json("/search", q="fox") == {"items": [], "next": None, "backlog": 2}
            await asyncio.to_thread(made.record)
            answer = await server.json("/search", q="fox")
            assert (len(answer["items"]), answer["backlog"]) == (1, 0)

    asyncio.run(main())


def test_an_answer_that_is_known_is_not_sent_again(server: Running) -> None:
    """With the tag of the last answer the same search is 304."""
    first = server.run(server.console.get("/search", q="fox"))
    again = server.run(server.console.get("/search", {"If-None-Match": first.headers["ETag"]}, q="fox"))
    assert (again.status, again.body) == (304, b"")
