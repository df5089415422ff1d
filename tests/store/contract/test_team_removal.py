"""The store of a team: rows that machines removed, annotations, and texts that are removed for good."""

from __future__ import annotations

import time
from typing import Any

import pytest

import clickhouse_on
from agenttrace.store.annotation_table import AnnotationTable
from agenttrace.store.annotations import NewAnnotation
from agenttrace.store.clickhouse.store import ClickHouseStore
from agenttrace.store.questions import SearchQuery, UsageQuery
from agenttrace.store.rows import ChangesCursor, RemovedRow, ResponseRow
from agenttrace.store.sqlite.store import SqliteStore

from . import machine as machine_module
from . import team_machine
from .data import Response
from .machine import all_changes, day_of
from .team_machine import ONE, TEAM_ENGINES, TWO, Member, Team, copies, lines, more, requests, team
from .team_reference import assert_same


@pytest.fixture(scope="module", autouse=True, params=TEAM_ENGINES)
def engine(request: pytest.FixtureRequest) -> None:
    """The engine of the team's store; machines record into SQLite."""
    if request.param == "clickhouse" and not clickhouse_on.has_clickhouse():
        pytest.skip("needs chdb (make test-team) or a server at TEST_CLICKHOUSE_URL")
    machine_module.engine = "recorded"
    team_machine.team_engine = request.param


# -- rows that are gone ---------------------------------------------------------------------------------------------


def test_a_store_that_was_rebuilt_takes_the_place_of_the_first() -> None:
    """What the new store does not say any more does not count twice; sessions whose logs are gone stay."""
    with team(("lap",)) as made:
        (lap,) = made.members.values()
        lap.record(
            lines("a", ONE, TWO) | lines("gone", Response(name="r3", model="m", input_tokens=1, output_tokens=1))
        )
        lap.push(made.store)
        for log in lap.machine.logs.glob("*.jsonl"):
            log.unlink()
        lap.rebuild()
        lap.record(lines("a", ONE) | {})
        lap.record(more("a", "later"))
        assert lap.push(made.store, 2) > 2
        made.index()
        assert requests(made) == {"a": 1, "gone": 1}
        assert copies(made) == {"lap": (2, 0)}
        assert [each.events for each in made.store.sessions() if each.session_id == "a"] == [4]


def test_what_a_machine_removed_is_removed_of_that_machine_only() -> None:
    """Recorded data that was removed on a machine; the copy of another machine is shown then."""
    with team(("lap", "desk")) as made:
        lap, desk = made.members.values()
        desk.record(lines("a", ONE) | lines("b", TWO))
        lap.record(lines("a", ONE))
        for member in (lap, desk):
            member.push(made.store)
        last = made.store.last_event()
        _lose(desk, removed=2)
        desk.push(made.store)
        made.index()
        assert {(each.session_id, each.machine) for each in made.store.sessions()} == {("a", "lap")}
        assert requests(made) == {"a": 1}
        assert made.store.last_event() >= last
        assert_same(made)


def test_numbers_of_removed_events_are_not_given_again() -> None:
    """A reader of events would take another event for the one that it knows."""
    with team(("desk",)) as made:
        (desk,) = made.members.values()
        desk.record(lines("a", ONE))
        desk.push(made.store)
        last = made.store.last_event()
        _lose(desk, removed=1)
        desk.push(made.store)
        assert (made.store.sessions(), made.store.last_event()) == ([], last)
        desk.record(lines("b", TWO))
        desk.push(made.store)
        assert {line.event_no > last for line in made.store.lines()} == {True}
        assert_same(made)


def _lose(member: Member, removed: int) -> None:
    """Remove the logs of a machine, and all that was recorded of them."""
    for log in member.machine.logs.glob("*.jsonl"):
        log.unlink()
    with SqliteStore.open(member.machine.settings.home / "agenttrace.db", read_only=False) as store:
        assert store.removal.remove_below(str(member.machine.logs)) == removed


def test_sums_of_sessions_that_a_machine_pruned() -> None:
    """A machine that joins when its old sessions are pruned has their usage."""
    with team(("desk",)) as made:
        (desk,) = made.members.values()
        desk.record(lines("a", ONE, age=9_000.0) | lines("b", TWO))
        with SqliteStore.open(desk.machine.settings.home / "agenttrace.db", read_only=False) as store:
            assert store.retention.prune(time.time() - 5_000).sessions == 1
            usage = store.usage()
        desk.push(made.store, 2)
        assert made.store.usage() == usage
        assert [each.session_id for each in made.store.sessions()] == ["b"]


def test_single_rows_that_a_machine_removed() -> None:
    """A span and a response that are gone, of the copy that is shown and of the one that is not."""
    with team(("lap", "desk")) as made:
        for member in made.members.values():
            member.record(lines("a", ONE, TWO))
            member.push(made.store)
        (session,) = made.store.sessions()
        spans = list(made.store.span_rows(session))
        with made.members["lap"].store() as store:
            responses = [row for row in all_changes(store)[0] if isinstance(row, ResponseRow)]
        gone = [
            RemovedRow("span", session.id, spans[-1].span_id, 2**60, 0),
            RemovedRow("response", 0, responses[0].response, 2**60, 0),
        ]
        for name, left in (("lap", 2), ("desk", 1)):
            member = made.members[name]
            until = ChangesCursor((2**60, 99), (2**60, 99))
            made.store.take(gone, member.page_to(until), day_of=day_of)
            assert requests(made) == {"a": left}
        assert [row.span_id for row in made.store.span_rows(session)] == [row.span_id for row in spans[:-1]]


# -- annotations ----------------------------------------------------------------------------------------------------


def test_annotations_of_machines_and_of_people() -> None:
    """Those of the copy that is shown, beside those that people made on the server, which a machine does not undo."""
    with team(("lap", "desk")) as made:
        lap, desk = made.members.values()
        for member in (lap, desk):
            member.record(lines("a", ONE))
            _annotate(member, f"of {member.name}")
            member.push(made.store)
        (session,) = made.store.sessions()
        _people(made).put(
            NewAnnotation(session=session.id, kind="note", text="of people", source="person", author="amy")
        )
        assert _notes(made) == ["of desk", "of people"]
        changed = next(note for note in made.store.annotations([session.id])[session.id] if note.text == "of desk")
        _people(made).change(changed.annotation_id, text="changed")
        desk.cursor = ChangesCursor()
        desk.push(made.store)
        assert _notes(made) == ["changed", "of people"]
        lap.record(more("a", "later"))
        lap.push(made.store)
        assert _notes(made) == ["of lap", "of people"]


def _people(made: Team) -> AnnotationTable:
    """What people write on the server."""
    assert isinstance(made.store, SqliteStore | ClickHouseStore)
    return made.store.annotation_table


def _annotate(member: Member, text: str) -> None:
    with SqliteStore.open(member.machine.settings.home / "agenttrace.db", read_only=False) as store:
        (session,) = store.sessions()
        store.annotation_table.put(
            NewAnnotation(session=session.id, kind="note", text=text, source="person", author="amy")
        )


def _notes(made: Team) -> list[str]:
    (session,) = made.store.sessions()
    return sorted(note.text for note in made.store.annotations([session.id])[session.id])


# -- removing texts -------------------------------------------------------------------------------------------------


def test_a_persons_texts_are_removed_and_sums_stay() -> None:
    """Nothing that the person's sessions said is found again, whatever machines send later; usage stays as it was."""
    with team(("lap", "desk", "old")) as made:
        lap, desk, old = made.members.values()
        lap.person = "bob"
        secret: dict[str, Any] = {
            "project": "/home/amy/secret",
            "title": "secret title",
            "prompt": "secret prompt",
            "branch": "secret",
        }
        for member in (desk, old):
            member.record(lines("a", ONE, TWO, **secret))
        _annotate(desk, "secret note")
        lap.record(lines("fork", ONE, age=500.0) | lines("b"))
        for member in made.members.values():
            member.push(made.store)
        made.index()
        usage = made.store.usage(UsageQuery(by="total"))
        assert made.store.search(SearchQuery(text="secret"))
        assert made.store.remove_texts("amy") == 1
        for _ in range(2):
            made.index()
            assert {each.session_id for each in made.store.sessions()} == {"fork", "b"}
            assert made.store.usage(UsageQuery(by="total")) == usage
            assert made.store.usage(UsageQuery(by="person"))[0].group == ""
            assert made.store.search(SearchQuery(text="secret")) == []
            assert not _planted(made, b"secret")
            for member in made.members.values():
                member.cursor = ChangesCursor()
                member.record(more("a", "secret later") if member is desk else {})
                member.push(made.store, 3)
        assert made.store.remove_texts("amy") == 0
        assert made.store.remove_texts("nobody") == 0


def _planted(made: Team, word: bytes) -> list[str]:
    """Files of the store that have a word in them."""
    return [path.name for path in made.root.glob("team.db*") if word in path.read_bytes()]


def test_old_sessions_lose_their_texts() -> None:
    """Sessions that ended before a moment, of a directory; the others stay, and sums do."""
    with team(("lap", "desk")) as made:
        lap, desk = made.members.values()
        lap.record(lines("old", ONE, age=9_000.0, project="/projects/shop") | lines("new", TWO, age=10.0))
        desk.record(
            lines("old", ONE, age=9_000.0, project="/projects/shop") | lines("other", age=9_000.0, project="/else")
        )
        for member in (lap, desk):
            member.push(made.store)
        usage = made.store.usage(UsageQuery(by="total"))
        before = int((time.time() - 5_000) * 1_000_000)
        assert made.store.prune(before, "/projects/*") == 1
        assert {each.session_id for each in made.store.sessions()} == {"new", "other"}
        assert made.store.prune(before) == 1
        for _ in range(2):
            assert {each.session_id for each in made.store.sessions()} == {"new"}
            assert {line.session for line in made.store.lines()} == {each.id for each in made.store.sessions()}
            assert made.store.usage(UsageQuery(by="total")) == usage
            assert {row.group for row in made.store.usage(UsageQuery(by="project"))} == {"/projects/shop", ""}
            for member in (lap, desk):
                member.cursor = ChangesCursor()
                member.push(made.store, 5)
        assert made.store.prune(before) == 0
