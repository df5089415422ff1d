"""``/api/v1/sessions/{session}/timeline``: all spans as columns, and what changed since."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agenttrace.model import Session
from agenttrace.serve.api.lists import from_cursor
from agenttrace.serve.api.sessions.timeline import changed_timeline, whole_timeline
from agenttrace.serve.api.shapes.spans import Timeline
from agenttrace.store.sqlite.span_rows import session_spans
from store_on import store_on

from .session_rig import (
    CLAUDE,
    CLAUDE_FORK,
    DATA,
    Store,
    call,
    columns,
    fresh_store,
    log_files,
    result,
    said,
    samples,
    turn,
)

#: Samples with several streams, and the forks among their sessions. Whose a response is that two sessions share may
#: change without a line of one of them, which is not the timeline's to tell.
CUT = {
    "claude-code-2.1.197": f"{CLAUDE_FORK}*",
    "kimi-cli-1.49.0": "675e04d1*",
    "kimi-code-2.1.0": "none",
    "codex-0.166.0": "none",
    "native": "none",
}


def timelines(store: Store) -> Iterator[tuple[Session, Timeline]]:
    with store.reading() as connection:
        for session in store.sessions():
            yield session, whole_timeline(store_on(connection), session, store.prices)


@pytest.mark.parametrize("sample", samples(), ids=lambda path: path.name)
def test_spans(sample: Path, tmp_path: Path) -> None:
    """The columns are the spans that every other view shows, in the same order, with subagents under their calls."""
    store = Store(tmp_path)
    store.record(sample)
    for session, timeline in timelines(store):
        with store.reading() as connection:
            spans = session_spans(connection, session)
        assert timeline.complete
        assert timeline.next is None
        assert timeline.span_id == [span.span_id.hex() for span in spans]
        found = columns(timeline)
        for span in spans:
            row = found[span.span_id.hex()]
            assert row["parent_id"] == (None if span.parent_id is None else span.parent_id.hex())
            for name in ("kind", "name", "start", "end", "status", "model", "counted", "estimated"):
                assert row[name] == getattr(span, name)
            assert (row["turn"], row["step"]) == (span.turn_index, span.step_n)
            assert row["stream"] == ("" if span.stream == "main" else span.stream)
            usage = span.usage
            assert row["output"] == (None if usage is None else usage.output_tokens)
            if usage is not None:
                assert row["input"] == usage.input_tokens + usage.cache_read_tokens + usage.cache_write_tokens
                assert row["cached"] == usage.cache_read_tokens


@pytest.mark.parametrize("sample", samples(), ids=lambda path: path.name)
def test_costs(sample: Path, tmp_path: Path) -> None:
    """What the spans of a session cost adds up to its bill, and spans that count elsewhere cost nothing here."""
    store = Store(tmp_path)
    store.record(sample)
    for session, timeline in timelines(store):
        with store.reading() as connection:
            from agenttrace.store.sqlite.usage import usage_by_session

            bill = store.prices.bill(usage_by_session(connection, [session.id]).get(session.id, ()))
        sums: dict[str, float] = {}
        for row in columns(timeline).values():
            assert row["counted"] or row["cost"] is None
            assert (row["cost"] is None) == (row["currency"] is None)
            if row["cost"] is not None:
                sums[row["currency"]] = sums.get(row["currency"], 0.0) + row["cost"]
        rounding = 1e-6 * (1 + len(timeline.span_id))
        assert sums == {name: pytest.approx(micros / 1e6, abs=rounding) for name, micros in bill.costs.items()}


@settings(max_examples=25)  # each records twice
@given(sample=st.sampled_from(sorted(CUT)), data=st.data())
def test_changes(sample: str, data: st.DataObject) -> None:
    """Wherever the logs are cut in two, the first timeline with the changes after it equals the last timeline."""
    with fresh_store() as store:
        rest = []
        shutil.copytree(DATA / sample, store.logs, dirs_exist_ok=True, ignore=shutil.ignore_patterns(CUT[sample]))
        for path in log_files(store.logs):
            lines = path.read_bytes().splitlines(keepends=True)
            cut = data.draw(st.integers(0, len(lines)), label=path.name)
            path.write_bytes(b"".join(lines[:cut]))
            rest.append((path, b"".join(lines[cut:])))
        store.record()
        first = {session.id: columns(timeline) for session, timeline in timelines(store)}
        cursor = max((timeline.cursor for _, timeline in timelines(store)), default=0)
        for path, missing in rest:
            with path.open("ab") as file:
                file.write(missing)
        store.record()
        for session, last in timelines(store):
            with store.reading() as connection:
                changed = changed_timeline(store_on(connection), session, cursor, store.prices)
            assert first.get(session.id, {}) | columns(changed) == columns(last)
            assert changed.cursor == last.cursor


def _subagent(store: Store) -> None:
    """A call that a subagent carries out, whose log stops short."""
    store.write(
        turn(1, "delegate"),
        call(1, 1, "Agent", {"task": "look"}, spawns="helper"),
        {"type": "turn.begin", "id": "h1", "turn": 1, "stream": "helper", "prompt": "look"},
    )
    store.record()


def test_only_changes(tmp_path: Path) -> None:
    """Changes hold the spans that a new line touched or closed, and no others."""
    store = Store(tmp_path)
    for number in range(5):
        store.write(turn(number, f"ask {number}"), said(number, 1, f"answer {number}"))
    store.record()
    (session,) = store.sessions()
    with store.reading() as connection:
        before = whole_timeline(store_on(connection), session, store.prices)
        assert changed_timeline(store_on(connection), session, before.cursor, store.prices).span_id == []
    store.write(call(4, 1, "Bash", {"command": "ls"}))
    store.record()
    with store.reading() as connection:
        changed = changed_timeline(store_on(connection), session, before.cursor, store.prices)
    assert not changed.complete
    assert "tool" in changed.kind
    assert set(changed.turn) == {4}
    assert len(changed.span_id) <= 3


def test_unknown_cursor(tmp_path: Path) -> None:
    """A cursor of another store, or of long ago, is answered with everything."""
    store = Store(tmp_path)
    store.write(turn(1, "ask"), said(1, 1, "answer"))
    store.record()
    (session,) = store.sessions()
    with store.reading() as connection:
        whole = whole_timeline(store_on(connection), session, store.prices)
        assert changed_timeline(store_on(connection), session, whole.cursor + 1, store.prices) == whole


@given(limit=st.integers(1, 40))
def test_pages(limit: int, claude: Store) -> None:
    """Pages of any size hold every span once, in order, and all go by the first page's cursor."""
    session = next(session for session in claude.sessions() if session.session_id == CLAUDE)
    with claude.reading() as connection:
        whole = whole_timeline(store_on(connection), session, claude.prices)
        found: list[str] = []
        start = 0
        while True:
            page = whole_timeline(store_on(connection), session, claude.prices, start=start, limit=limit)
            found += page.span_id
            place = from_cursor(page.next, tuple[int, int])
            if place is None:
                break
            assert place[0] == whole.cursor
            assert len(page.span_id) == limit
            start = place[1]
    assert found == whole.span_id


@pytest.fixture(scope="module")
def claude(tmp_path_factory: pytest.TempPathFactory) -> Store:
    store = Store(tmp_path_factory.mktemp("claude"))
    store.record(DATA / "claude-code-2.1.197")
    return store


def test_tag(tmp_path: Path) -> None:
    """A timeline that did not change is not sent again; a new line gives it another tag."""
    store = Store(tmp_path)
    store.write(turn(1, "ask"), said(1, 1, "answer"))
    store.record()
    with store.served() as client:
        first = client.get("/sessions/s-1/timeline")
        assert first.status_code == 200
        known = {"If-None-Match": first.headers["etag"]}
        again = client.get("/sessions/s-1/timeline", headers=known)
        assert (again.status_code, again.content) == (304, b"")
        store.write({"type": "usage", "id": "u", "turn": 1, "step": 1, "response": "r", "usage": {"input_tokens": 7}})
        store.record()
        later = client.get("/sessions/s-1/timeline", headers=known)
        assert later.status_code == 200
        assert 7 in later.json()["input"]
        changes = client.get("/sessions/s-1/timeline", params={"after": first.json()["cursor"]}).json()
        assert changes["complete"] is False
        assert set(changes["span_id"]) <= set(later.json()["span_id"])


def test_refused(tmp_path: Path) -> None:
    """No session, several sessions, and a wrong cursor are errors in one sentence."""
    store = Store(tmp_path)
    with store.served() as client:
        assert client.get("/sessions/s-1/timeline").status_code == 404
        store.write(turn(1, "ask"))
        store.write(turn(1, "ask") | {"session": "s-2"})
        store.record()
        for path, status in (
            ("/sessions/none/timeline", 404),
            ("/sessions/ffffffffffffffff/timeline", 404),
            ("/sessions/s-/timeline", 409),
            ("/sessions/s-1/timeline?cursor=x", 400),
            ("/sessions/s-1/timeline?after=-1", 422),
        ):
            answer = client.get(path)
            assert answer.status_code == status, path
            assert answer.headers["content-type"] == "application/problem+json"
            assert answer.json()["detail"]


def test_delegated(tmp_path: Path) -> None:
    """A subagent's turn hangs under its call, and what its log left open ends when the call is answered."""
    store = Store(tmp_path)
    _subagent(store)
    (session,) = store.sessions()
    with store.reading() as connection:
        before = whole_timeline(store_on(connection), session, store.prices)
    by_stream = {row["stream"]: row for row in columns(before).values() if row["kind"] == "turn"}
    (tool,) = (row for row in columns(before).values() if row["kind"] == "tool")
    assert by_stream["helper"]["parent_id"] == tool["span_id"]
    # The log is old, so the session is over: what it left open ended with its last event.
    assert by_stream["helper"]["status"] == "unclosed"
    store.write(result(1, 1, "found", ts=1_794_733_005.0))
    store.record()
    with store.reading() as connection:
        changes = columns(changed_timeline(store_on(connection), session, before.cursor, store.prices))
    helper = changes[by_stream["helper"]["span_id"]]
    assert (helper["status"], helper["end"]) == ("ok", 1_794_733_005_000_000)
