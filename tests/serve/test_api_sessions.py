"""Lists of sessions: what is in them, what filters and sorts do, and how the index follows the store."""

from __future__ import annotations

import asyncio
import shutil
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any, cast, get_args

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agenttrace.config import Settings
from agenttrace.model import Session
from agenttrace.serve.api.sessions import session_index
from agenttrace.serve.api.sessions.session_index import SessionEntry, SessionIndex
from agenttrace.serve.api.sessions.session_list import Order, Sort, Sorted, facets
from agenttrace.serve.api.shapes.figures import Bill
from agenttrace.serve.api.shapes.sessions import SessionMarks, SessionRow
from agenttrace.serve.problems import ProblemError
from agenttrace.store.questions import OutcomeFigures, SessionFilter
from agenttrace.store.session_state import SessionState
from agenttrace.store.sqlite.database import connect
from agenttrace.store.sqlite.retention import Retention
from agenttrace.store.sqlite.store import SqliteStore
from agenttrace.views.sessions import bills_of, session_fields
from agenttrace.views.times import iso

from .servers import eventually
from .trace_rig import Console, Logs, console, opened

SORTS: tuple[Sort, ...] = get_args(Sort)


@pytest.fixture
def logs(tmp_path: Path) -> Logs:
    return Logs(tmp_path)


@pytest.fixture(scope="module")
def samples(tmp_path_factory: pytest.TempPathFactory) -> Logs:
    made = Logs(tmp_path_factory.mktemp("samples"))
    made.use_samples()
    made.record()
    return made


# -- what is in them ----------------------------------------------------------------------------------------------


def test_rows_say_what_the_command_line_says(samples: Logs) -> None:
    """A row has the same fields with the same values as ``agenttrace sessions --json``, and its session's key."""

    async def main() -> None:
        async with console(samples.settings) as server:
            answer = await server.json("/sessions", limit=500)
        rows = {row["session_id"]: row for row in answer["items"]}
        expected = _printed(samples.settings)
        assert answer["total"] == len(rows) == len(expected) > 5
        for name, fields in expected.items():
            row = rows[name]
            bill = row["bill"]
            usage = fields.pop("usage")
            money = {key: fields.pop(key) for key in ("cost", "currency", "costs", "unpriced_tokens")}
            assert {key: row[key] for key in fields} == fields
            assert {key: bill[key] for key in usage} == usage
            assert {key: bill[key] for key in money} == money

    asyncio.run(main())


def _printed(settings: Settings) -> dict[str, dict[str, Any]]:
    with SqliteStore.open(settings.home / "agenttrace.db") as store:
        found = store.sessions()
        bills = bills_of(store, settings, found)
    return {session.session_id: session_fields(session, bills[session.id]) for session in found}


def test_long_titles_are_cut(logs: Logs) -> None:
    """Only so much of a title is stored as a list shows."""
    logs.append("long", "session.begin", title="字" * 5_000)
    logs.record()
    row = _rows(logs)["long"]
    assert row.title is not None
    assert len(row.title) == 300
    assert row.title.endswith("…")


def test_an_empty_machine_has_an_empty_list(logs: Logs) -> None:
    """Before anything was recorded the list is empty, and afterwards it is not, without a restart."""

    async def main() -> None:
        async with console(logs.settings) as server:
            empty: dict[str, Any] = {"items": [], "next": None, "total": 0, "cursor": 0, "since": None, "until": None}
            assert await server.json("/sessions") == empty
            assert (await server.json("/sessions/facets"))["agents"] == []
            logs.append("first")
            await asyncio.to_thread(logs.record)
            answer = await server.json("/sessions")
            assert [row["session_id"] for row in answer["items"]] == ["first"]
            assert answer["cursor"] == 1

    asyncio.run(main())


def test_every_answer_goes_by_the_setting(tmp_path: Path) -> None:
    """A session that is silent for longer than ``record.stale_minutes`` is interrupted in lists and single answers."""

    async def main() -> None:
        logs = Logs(tmp_path, stale_minutes=1)
        logs.append("silent", "turn.begin", ts=time.time() - 300, prompt="go")
        logs.record()
        with opened(logs.settings) as (reader, index):
            await index.refresh()
            assert [row.state for row in index.rows()] == ["interrupted"]
            found: list[Session] = await reader.query(lambda store: store.sessions(), empty=list)
            assert [session.state for session in found] == ["interrupted"]

    asyncio.run(main())


# -- filters, sorts and pages -------------------------------------------------------------------------------------

_times = st.none() | st.integers(0, 2_000_000_000_000_000)
_counts = st.integers(0, 3)


@st.composite
def _bills(draw: st.DrawFn) -> Bill:
    costs = draw(st.dictionaries(st.sampled_from(["USD", "CNY"]), st.sampled_from([0.0, 0.5, 1.25, 7.0]), max_size=2))
    return Bill(
        input_tokens=draw(_counts),
        output_tokens=draw(_counts),
        cache_read_tokens=draw(_counts),
        cache_write_tokens=draw(_counts),
        reasoning_tokens=draw(_counts),
        requests=1,
        cost=next(iter(costs.values())) if len(costs) == 1 else None,
        currency="mixed" if len(costs) == 2 else next(iter(costs), None),
        costs=costs,
        unpriced_tokens=0,
        unpriced_models=[],
        estimated_requests=0,
        folded_copies=0,
    )


_lines = st.none() | _counts
_outcomes = st.none() | st.builds(
    OutcomeFigures, files=_counts, added=_lines, removed=_lines, commits=_counts, test_runs=_counts, tests_failed=_lines
)


@st.composite
def _sessions(draw: st.DrawFn, number: int) -> SessionEntry:
    started, last = draw(_times), draw(_times)
    model = draw(st.none() | st.sampled_from(["gpt", "kimi"]))
    row = SessionRow(
        key=f"{number:016x}",
        session_id=draw(st.sampled_from(["abc", "abd", "X-1"])),
        agent=draw(st.sampled_from(["codex", "kimi-cli"])),
        title=draw(st.none() | st.sampled_from(["Fix it", "Straße", "轮转"])),
        project=draw(st.none() | st.sampled_from(["/home/shop", "/home/log"])),
        machine=draw(st.none() | st.sampled_from(["laptop", "desktop"])),
        person=draw(st.none() | st.sampled_from(["amy", "ben"])),
        state=draw(st.sampled_from(["working", "waiting", "ended", "interrupted"])),
        started_at=iso(started),
        last_at=iso(last),
        turns=draw(_counts),
        steps=0,
        tools=0,
        errors=draw(_counts),
        events=1,
        branch=None,
        model=model,
        models=[model] if model else [],
        version=None,
        parent=None,
        demo=False,
        bill=draw(_bills()),
        outcomes=draw(_outcomes),
        marks=SessionMarks(starred=False, labels=[], scores={}, notes=0, revision=0),
    )
    session = Session(
        id=number,
        agent=row.agent,
        session_id=row.session_id,
        title=row.title,
        project=row.project,
        machine=row.machine,
        person=row.person,
        state=row.state,
        started_at=started,
        last_at=last,
        errors=row.errors,
    )
    return SessionEntry(session, row)


_entries = st.sets(st.integers(0, 2**63 - 1), max_size=14).flatmap(
    lambda numbers: st.tuples(*map(_sessions, sorted(numbers))).map(list)
)


def _some(values: list[str]) -> st.SearchStrategy[frozenset[str]]:
    return st.frozensets(st.sampled_from(values), max_size=2)


_wanted = st.builds(
    SessionFilter,
    agents=_some(["codex", "kimi-cli", "other"]),
    projects=_some(["/home/shop", "", "/nowhere"]),
    states=_some(["working", "waiting"]),
    models=_some(["gpt", "kimi"]),
    text=st.sampled_from(["", "", "fix", "STRASSE", "转", "home", "x-"]),
    since=_times,
    until=_times,
    errors=st.none() | st.booleans(),
    commits=st.none() | st.booleans(),
    outcomes=_some(["files", "tests", "failed_tests"]),
)
_min_cost = st.none() | st.sampled_from([0.0, 0.5, 6.0])


def _expected(
    entries: list[SessionEntry], wanted: SessionFilter, sort: Sort, order: Order, min_cost: float | None
) -> list[SessionRow]:
    """The list as its documentation describes it, in the plainest way."""

    def fits(entry: SessionEntry) -> bool:
        row, costs = entry.row, entry.row.bill.costs.values()
        came = row.outcomes or OutcomeFigures()
        text = wanted.text.casefold()
        started, last = entry.session.started_at, entry.session.last_at
        return all(
            (
                row.agent in (wanted.agents or {row.agent}),
                (row.project or "") in (wanted.projects or {row.project or ""}),
                row.state in (wanted.states or {row.state}),
                not wanted.models or row.model in wanted.models,
                wanted.since is None or (last is not None and last >= wanted.since),
                wanted.until is None or (started is not None and started < wanted.until),
                min_cost is None or any(cost >= min_cost for cost in costs),
                wanted.errors in (None, row.errors > 0),
                wanted.commits in (None, came.commits > 0),
                "files" not in wanted.outcomes or came.files > 0,
                "tests" not in wanted.outcomes or came.test_runs > 0,
                "failed_tests" not in wanted.outcomes or (came.tests_failed or 0) > 0,
                any(text in (name or "").casefold() for name in (row.title, row.session_id, row.project)),
            )
        )

    def value(entry: SessionEntry) -> float | None:
        bill = entry.row.bill
        came = entry.row.outcomes
        lines = (None, None) if came is None else (came.added, came.removed)
        both = entry.session.started_at is not None and entry.session.last_at is not None
        values: dict[Sort, float | None] = {
            "last": entry.session.last_at,
            "started": entry.session.started_at,
            "cost": max(bill.costs.values()) if bill.costs else None,
            "tokens": bill.input_tokens + bill.output_tokens + bill.cache_read_tokens + bill.cache_write_tokens,
            "errors": entry.row.errors,
            "turns": entry.row.turns,
            "duration": (entry.session.last_at or 0) - (entry.session.started_at or 0) if both else None,
            "changes": None if None in lines else sum(number or 0 for number in lines),
            "commits": None if came is None else came.commits,
        }
        return values[sort]

    fitting = sorted((entry for entry in entries if fits(entry)), key=lambda entry: entry.row.key)
    valued = [entry for entry in fitting if value(entry) is not None]
    valued.sort(key=lambda entry: value(entry) or 0, reverse=order == "desc")
    return [entry.row for entry in valued + [entry for entry in fitting if value(entry) is None]]


@given(
    entries=_entries,
    wanted=_wanted,
    sort=st.sampled_from(SORTS),
    order=st.sampled_from(("desc", "asc")),
    limit=st.integers(1, 7),
    min_cost=_min_cost,
)
def test_the_pages_together_are_the_sorted_filtered_whole(
    entries: list[SessionEntry], wanted: SessionFilter, sort: Sort, order: Order, limit: int, min_cost: float | None
) -> None:
    """For any sessions, filters, order and page size, each fitting session is on exactly one page, in its place."""
    found = Sorted(entries, wanted, sort, order, min_cost)
    rows, following = found.page(None, limit)
    paged = list(rows)
    while following is not None:
        assert len(rows) == limit
        rows, following = Sorted(entries, wanted, sort, order, min_cost).page(following, limit)
        paged += rows
    assert paged == found.rows == _expected(entries, wanted, sort, order, min_cost)


@given(entries=_entries, changed=st.data(), sort=st.sampled_from(SORTS), order=st.sampled_from(("desc", "asc")))
def test_sessions_that_change_do_not_make_others_vanish(
    entries: list[SessionEntry], changed: st.DataObject, sort: Sort, order: Order
) -> None:
    """Whatever changes in some sessions while pages are turned, the others come exactly once."""
    everything = Sorted(entries, SessionFilter(), sort, order)
    first, following = everything.page(None, 3)
    moving = changed.draw(st.sets(st.sampled_from([entry.row.key for entry in entries]))) if entries else set()
    later = [changed.draw(_sessions(int(entry.row.key, 16))) if entry.row.key in moving else entry for entry in entries]
    rest = [] if following is None else Sorted(later, SessionFilter(), sort, order).page(following, 500)[0]
    shown = [row.key for row in [*first, *rest]]
    for entry in entries:
        if entry.row.key not in moving:
            assert shown.count(entry.row.key) == 1


@given(text=st.text(max_size=60))
def test_no_invented_cursor_breaks_the_list(text: str) -> None:
    """Any text in the place of a cursor is refused in words."""
    with pytest.raises(ProblemError) as caught:
        Sorted([], SessionFilter(), "last", "desc").page(text, 1)
    assert caught.value.status == 400


@given(entries=_entries)
def test_facets_count_each_session_under_each_of_its_values(entries: list[SessionEntry]) -> None:
    """Filtering by a facet's value shows as many sessions as the facet says."""
    found = facets([entry.row for entry in entries])
    chosen = [
        *((SessionFilter(agents=frozenset([facet.value])), facet) for facet in found.agents),
        *((SessionFilter(projects=frozenset([facet.value])), facet) for facet in found.projects),
        *((SessionFilter(models=frozenset([facet.value])), facet) for facet in found.models),
        *((SessionFilter(states=frozenset([cast("SessionState", facet.value)])), facet) for facet in found.states),
        *((SessionFilter(machines=frozenset([facet.value])), facet) for facet in found.machines),
        *((SessionFilter(persons=frozenset([facet.value])), facet) for facet in found.persons),
    ]
    for wanted, facet in chosen:
        assert len(Sorted(entries, wanted, "last", "desc").rows) == facet.count > 0
    for whole in (found.agents, found.projects, found.states):
        assert sum(facet.count for facet in whole) == len(entries)


FILTERS: list[tuple[dict[str, Any], Callable[[dict[str, Any]], bool]]] = [
    ({"agent": ["claude-code", "codex"]}, lambda row: row["agent"] in ("claude-code", "codex")),
    ({"project": "shop"}, lambda row: row["project"] == "shop"),
    ({"model": "qwen-max"}, lambda row: "qwen-max" in row["models"]),
    ({"q": "PARALLEL"}, lambda row: "parallel" in (row["title"] or "").casefold()),
    ({"errors": "true"}, lambda row: row["errors"] > 0),
    ({"errors": "false"}, lambda row: row["errors"] == 0),
    ({"min_cost": "0.01"}, lambda row: (row["bill"]["cost"] or 0) >= 0.01),
    ({"since": "2026-11-15T09:05:00Z"}, lambda row: row["last_at"] >= "2026-11-15T09:05"),
    ({"until": "2026-11-15T09:05:00Z"}, lambda row: row["started_at"] < "2026-11-15T09:05"),
]


def test_filters_over_http(samples: Logs) -> None:
    """Each filter of the address keeps just the sessions that it describes, some and not all of them."""

    async def main() -> None:
        async with console(samples.settings) as server:
            everything = await server.pages("/sessions", 4)
            for query, fits in FILTERS:
                found = await server.pages("/sessions", 2, **query)
                assert found == [row for row in everything if fits(row)], query
                assert 0 < len(found) < len(everything), query
            assert [row["last_at"] for row in everything] == sorted(
                (row["last_at"] for row in everything), reverse=True
            )

    asyncio.run(main())


BAD = [
    ({"since": "soon"}, 400, "soon"),
    ({"cursor": "nonsense"}, 400, "cursor"),
    ({"sort": "colour"}, 422, "sort"),
    ({"limit": "0"}, 422, "limit"),
    ({"state": "asleep"}, 422, "state"),
    ({"min_cost": "nan"}, 422, "min_cost"),
]


def test_what_is_no_filter_is_refused_in_words(samples: Logs) -> None:
    """A filter that makes no sense is a problem that names it, and so is the cursor of another order."""

    async def main() -> None:
        async with console(samples.settings) as server:
            following = (await server.json("/sessions", limit=1))["next"]
            bad = [*BAD, ({"cursor": following, "sort": "cost"}, 400, "another order")]
            for query, status, word in bad:
                answer = await server.get("/sessions", **query)
                assert answer.status == status, query
                assert answer.headers["Content-Type"] == "application/problem+json"
                assert word in answer.json()["detail"]

    asyncio.run(main())


def test_nothing_is_sent_again_until_something_changed(logs: Logs) -> None:
    """With the tag of the last answer a list is 304 until an event is recorded; another question has another tag."""

    async def main() -> None:
        logs.append("a", prompt="x")
        await asyncio.to_thread(logs.record)
        async with console(logs.settings) as server:
            for path in ("/sessions", "/sessions/facets"):
                tag = {"If-None-Match": (await server.get(path)).headers["ETag"]}
                assert (await server.get(path, tag)).status == 304
                assert (await server.get(path, tag)).body == b""
                logs.append(f"new {len(path)}")
                await asyncio.to_thread(logs.record)
                assert (await server.get(path, tag)).status == 200
            tag = {"If-None-Match": (await server.get("/sessions", sort="cost")).headers["ETag"]}
            assert (await server.get("/sessions", tag, sort="turns")).status == 200

    asyncio.run(main())


# -- how the index follows the store ------------------------------------------------------------------------------


def _rows(logs: Logs) -> dict[str, SessionRow]:
    """By session, as a new index has them."""

    async def main() -> dict[str, SessionRow]:
        with opened(logs.settings) as (_, index):
            await index.refresh()
            return {row.session_id: row for row in index.rows()}

    return asyncio.run(main())


def compare_always(monkeypatch: pytest.MonkeyPatch) -> None:
    """All sessions are compared at the second look after a change, instead of a second later."""
    for name in ("_SETTLING_SECONDS", "RELOAD_SECONDS", "_RELOAD_SHARE"):
        monkeypatch.setattr(session_index, name, 0)


def _by_name(index: SessionIndex) -> dict[str, SessionRow]:
    return {row.session_id: row for row in index.rows()}


def test_only_what_changed_is_built_again(logs: Logs) -> None:
    """A line changes the row of its session; the rows of the others are the very same objects."""
    for name in ("a", "b", "c"):
        logs.append(name)

    async def main() -> None:
        with logs.recorder() as recorder, opened(logs.settings) as (_, index):
            recorder.run_once()
            await index.refresh()
            before, cursor, revision = _by_name(index), index.cursor, index.revision
            await index.refresh()
            assert index.revision == revision
            logs.append("b", text="more")
            recorder.run_once()
            await index.refresh()
            after = _by_name(index)
            assert (after["a"], after["c"]) == (before["a"], before["c"])
            assert after["a"] is before["a"]
            assert after["c"] is before["c"]
            assert after["b"].events == before["b"].events + 1 == 2
            assert index.cursor == cursor + 1
            assert index.changed_since(cursor) == index.revised_since(revision) == [after["b"]]
            assert index.changed_since(index.cursor) == []

    asyncio.run(main())


_STEPS = st.lists(
    st.tuples(st.sampled_from("abcd"), st.sampled_from(["message", "usage", "turn.end", "session.end", "error"])),
    min_size=1,
    max_size=8,
)


def test_the_updated_index_equals_a_new_one(logs: Logs, monkeypatch: pytest.MonkeyPatch) -> None:
    """However sessions grow and share responses, the index that followed has the rows of one that just began, and
    for each moment it passed it tells every session that has changed since, as it is now."""
    compare_always(monkeypatch)
    logs.append("start")
    runner = asyncio.Runner()
    with runner, logs.recorder() as recorder, opened(logs.settings) as (_, kept):

        @given(steps=_STEPS, responses=st.data())
        def follow(steps: list[tuple[str, str]], responses: st.DataObject) -> None:
            recorder.run_once()
            runner.run(_settled(kept))
            passed: list[tuple[int, dict[str, SessionRow]]] = [(kept.cursor, _by_name(kept))]
            for name, kind in steps:
                shared = responses.draw(st.integers(0, 3))
                logs.append(name, kind, response=f"r{shared}", model="qwen-max", usage={"output_tokens": shared + 1})
                recorder.run_once()
                runner.run(_settled(kept))
                passed.append((kept.cursor, _by_name(kept)))
            with opened(logs.settings) as (_, fresh):
                runner.run(fresh.refresh())
                assert _by_name(kept) == _by_name(fresh)
                assert kept.cursor == fresh.cursor
            for cursor, rows in passed:
                told = {row.session_id: row for row in kept.changed_since(cursor) or ()}
                now = _by_name(kept)
                assert {name for name in now if rows.get(name) != now[name]} <= told.keys()
                assert all(now[name] == row for name, row in told.items())
            assert kept.changed_since(kept.cursor + 1) is None

        follow()


async def _settled(index: SessionIndex) -> None:
    """What changed, and then what changed without an event."""
    await index.refresh()
    await index.refresh()


def test_a_bill_that_moves_to_another_session_is_noticed(logs: Logs, monkeypatch: pytest.MonkeyPatch) -> None:
    """When a session that is read later turns out to have had a response first, the other's cost goes, unasked."""
    compare_always(monkeypatch)
    answered: dict[str, Any] = {"response": "r", "model": "qwen-max", "usage": {"output_tokens": 1_000_000}}

    async def main() -> None:
        with logs.recorder() as recorder, opened(logs.settings) as (_, index):
            logs.append("copy", "usage", ts=2_000.0, **answered)
            recorder.run_once()
            await _settled(index)
            cursor = index.cursor
            key = _by_name(index)["copy"].key
            assert _by_name(index)["copy"].bill.requests == 1
            logs.append("original", "usage", ts=1_000.0, **answered)
            recorder.run_once()
            await index.refresh()
            between = index.cursor
            await index.refresh()
            assert index.cursor == between
            # A cursor from between the two refreshes has not seen it.
            assert [row.session_id for row in index.changed_since(between) or ()] == ["copy"]
            rows = _by_name(index)
            assert (rows["copy"].bill.requests, rows["original"].bill.requests) == (0, 1)
            assert {row.session_id for row in index.changed_since(cursor) or ()} == {"copy", "original"}
            assert index.is_rebilled(key, cursor)
            assert not index.is_rebilled(rows["original"].key, cursor)

    asyncio.run(main())


def test_a_rebuilt_store_is_another_one(logs: Logs) -> None:
    """When the file is replaced, the index has its sessions, begins a new epoch, and knows nothing since before."""
    logs.append("old")
    logs.record()

    async def main() -> None:
        with opened(logs.settings) as (_, index):
            await index.refresh()
            cursor, epoch = index.cursor, index.epoch
            await asyncio.to_thread(_replace_store, logs)
            await index.refresh()
            assert set(_by_name(index)) == {"old", "new"}
            assert index.epoch != epoch
            assert index.changed_since(cursor) is None
            assert index.changed_since(index.cursor) == []

    asyncio.run(main())


def _replace_store(logs: Logs) -> None:
    aside = Logs(_made(logs.directory.parent / "aside"))
    for name in ("old", "new"):
        aside.append(name)
    aside.record()
    shutil.move(logs.store, logs.store.with_name("damaged.db"))
    shutil.move(aside.store, logs.store)


def _made(directory: Path) -> Path:
    directory.mkdir()
    return directory


def test_event_numbers_that_go_back_begin_a_new_epoch(logs: Logs) -> None:
    """A store whose last events are gone is read whole, and cursors of before are not known any more."""
    for _ in range(3):
        logs.append("a")
    logs.append("b")
    logs.record()

    async def main() -> None:
        with opened(logs.settings) as (_, index):
            await index.refresh()
            cursor, epoch = index.cursor, index.epoch
            connection = connect(logs.store)
            connection.execute("DELETE FROM processed_events WHERE event_no > 2")
            connection.close()
            await index.refresh()
            assert index.cursor == 2
            assert index.epoch != epoch
            assert index.changed_since(cursor) is None

    asyncio.run(main())


def test_pruned_sessions_leave_the_list(logs: Logs, monkeypatch: pytest.MonkeyPatch) -> None:
    """What retention removed is gone from the list, and earlier cursors are invalid."""
    compare_always(monkeypatch)
    logs.append("old", ts=1_000.0)
    logs.append("young")
    logs.record()

    async def main() -> None:
        with opened(logs.settings) as (_, index):
            await index.refresh()
            assert set(_by_name(index)) == {"old", "young"}
            epoch = index.epoch
            connection = connect(logs.store)
            Retention(connection).prune(time.time() - 3600)
            connection.close()
            await _settled(index)
            assert set(_by_name(index)) == {"young"}
            assert index.epoch != epoch

    asyncio.run(main())


@pytest.fixture
def stale(tmp_path: Path) -> Logs:
    return Logs(tmp_path, stale_minutes=1)


def test_silence_becomes_interruption_by_itself(stale: Logs) -> None:
    """A working session that says nothing for long is interrupted, in lists and facets, without any event."""
    stale.append("quiet", "turn.begin", ts=time.time() - 58.5)
    stale.append("busy", "turn.begin")
    stale.record()

    async def main() -> None:
        async with console(stale.settings) as server:
            tag = {"If-None-Match": (await server.get("/sessions")).headers["ETag"]}
            assert await _states(server) == {"quiet": "working", "busy": "working"}
            cursor = server.context.index.cursor

            async def is_interrupted() -> bool:
                return await _states(server) == {"quiet": "interrupted", "busy": "working"}

            await eventually(is_interrupted)
            assert (await server.get("/sessions", tag)).status == 200
            told = server.context.index.changed_since(cursor)
            assert [row.session_id for row in told or ()] == ["quiet"]
            states = (await server.json("/sessions/facets"))["states"]
            assert {facet["value"] for facet in states} == {"interrupted", "working"}

    asyncio.run(main())


def test_waiting_becomes_history_by_itself(tmp_path: Path) -> None:
    """A session that waits for longer than ``record.waiting_hours`` has ended, in lists, filters and single answers."""
    logs = Logs(tmp_path, waiting_hours=1)
    for name, ago in (("old", 3601), ("soon", 3598.5), ("new", 10)):
        logs.append(name, "turn.begin", ts=time.time() - ago, turn=1)
        logs.append(name, "turn.end", ts=time.time() - ago, turn=1)
    logs.record()

    async def main() -> None:
        async with console(logs.settings) as server:
            first = await _states(server)
            assert (first["old"], first["new"]) == ("ended", "waiting")

            async def is_over() -> bool:
                return await _states(server) == {"old": "ended", "soon": "ended", "new": "waiting"}

            await eventually(is_over)
            waiting = (await server.json("/sessions?state=waiting"))["items"]
            assert [row["session_id"] for row in waiting] == ["new"]
            states = (await server.json("/sessions/facets"))["states"]
            assert {facet["value"]: facet["count"] for facet in states} == {"ended": 2, "waiting": 1}
            kept = await server.context.reader.query(lambda store: store.active_counts(), empty=lambda: (0, 0))
            assert kept == (0, 1)

    asyncio.run(main())
    with closing(sqlite3.connect(logs.store)) as connection:
        assert {state for (state,) in connection.execute("SELECT state FROM sessions")} == {"waiting"}


async def _states(server: Console) -> dict[str, str]:
    return {row["session_id"]: row["state"] for row in (await server.json("/sessions"))["items"]}


def test_rows_are_replaced_and_never_changed(stale: Logs) -> None:
    """A row that was handed out stays as it was: an answer that is being written does not change under the pen."""
    stale.append("quiet", "turn.begin", ts=time.time() - 59.5)
    stale.record()

    async def main() -> None:
        with opened(stale.settings) as (_, index):
            await index.refresh()
            (row,) = index.rows()
            kept = msgspec.structs.replace(row)

            async def is_interrupted() -> bool:
                return index.rows()[0].state == "interrupted"

            await eventually(is_interrupted)
            assert row == kept

    asyncio.run(main())
