"""The store of a team: what it answers is what its machines hold, each session and each response once."""

from __future__ import annotations

import random
import shutil
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any
from unittest import mock

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import clickhouse_on
from agenttrace.record.outcome_updates import update_all
from agenttrace.store.clickhouse.connection import Database
from agenttrace.store.clickhouse.tables import Table, put
from agenttrace.store.questions import SpanRow, UsageQuery
from agenttrace.store.rows import ChangesCursor, EventRow, FileOfLines, Row, RowKind, StoredSession, StoredSpan
from agenttrace.store.team import Page, Position, WrongPositionError
from telemetry_rig import conversation, counter, points
from telemetry_rig import lines as telemetry_lines

from . import machine as machine_module
from . import team_machine
from .data import Response
from .machine import Line, Logs, all_changes, day_of
from .team_machine import ONE, TEAM_ENGINES, TWO, Member, Team, copies, lines, more, requests, rows_per_page, team
from .team_reference import assert_same
from .test_merge import growing
from .work import BASE, random_work


@pytest.fixture(scope="module", autouse=True, params=TEAM_ENGINES)
def engine(request: pytest.FixtureRequest) -> None:
    """The engine of the team's store; machines record into SQLite."""
    if request.param == "clickhouse" and not clickhouse_on.has_clickhouse():
        pytest.skip("needs chdb (make test-team) or a server at TEST_CLICKHOUSE_URL")
    machine_module.engine = "recorded"
    team_machine.team_engine = request.param


def test_a_machine_is_in_the_store_with_its_sessions() -> None:
    """Sessions carry machine and person; the machines are listed with their figures."""
    with team() as made:
        made.member("desk", "amy").record(lines("a", ONE))
        made.member("lap", "bob").record(lines("b", TWO))
        for member in made.members.values():
            assert member.push(made.store, 3) > 1
        assert {(each.session_id, each.machine, each.person) for each in made.store.sessions()} == {
            ("a", "desk", "amy"),
            ("b", "lap", "bob"),
        }
        assert [
            (each.machine, each.person, each.sessions, each.copies, each.events) for each in made.store.machines()
        ] == [
            ("desk", "amy", 1, 0, 3),
            ("lap", "bob", 1, 0, 3),
        ]
        assert all(each.received_at > 0 for each in made.store.machines())
        assert [(row.group, row.usage.output_tokens) for row in made.store.usage(UsageQuery(by="machine"))] == [
            ("desk", 10),
            ("lap", 20),
        ]


def test_pages_come_in_sequence() -> None:
    """A page that comes again changes nothing; one that does not continue the last one is refused with the position."""
    with team() as made:
        member = made.member("desk")
        assert made.store.position("desk") is None
        member.record(lines("a", ONE))
        first = member.page(2)
        assert first is not None
        late = member.page_to(ChangesCursor((5, 5), (5, 5)), ChangesCursor((1, 1), (1, 1)))
        with pytest.raises(WrongPositionError) as caught:
            made.store.take(first[0], late, day_of=day_of)
        assert caught.value.position is None
        made.store.take(*first, day_of=day_of)
        here = Position(store=member.store_name, cursor=first[1].until)
        assert made.store.position("desk") == here
        revision = made.store.changes_since().cursor
        made.store.take(*first, day_of=day_of)
        assert made.store.changes_since().cursor == revision
        with pytest.raises(WrongPositionError) as caught:
            made.store.take(first[0], late, day_of=day_of)
        assert caught.value.position == here
        member.cursor = first[1].until
        member.push(made.store)
        member.store_name = "another"
        member.record(more("a", "later"))
        found = member.page()
        assert found is not None
        with pytest.raises(WrongPositionError):
            made.store.take(*found, day_of=day_of)
        assert [each.events for each in made.store.sessions()] == [3]


def test_changes_of_some_kinds() -> None:
    """They are those rows among all changes, in the same order, page by page; after the end there are none."""
    with team() as made:
        member = made.member("desk")
        member.record(lines("a", ONE) | lines("b", TWO))
        member.push(made.store)
        whole = made.store.changes_since(limit=10_000).rows
        asked: list[tuple[tuple[RowKind, ...], Any]] = [
            (("session", "span"), StoredSession | StoredSpan),
            (("event",), EventRow | FileOfLines),
        ]
        for kinds, types in asked:
            found: list[Row] = []
            cursor = ChangesCursor()
            while (page := made.store.changes_since(cursor, 2, kinds)).rows:
                found += page.rows
                cursor = page.cursor
            some = [row for row in found if not isinstance(row, FileOfLines)]
            assert some == [row for row in whole if isinstance(row, types) and not isinstance(row, FileOfLines)]
            assert len(some) > 2
        end = made.store.changes_end()
        assert end == ChangesCursor(end.until, end.until)
        assert made.store.changes_since(end, 10, ("session", "span")).rows == []
        member.record(more("a", "later"))
        member.push(made.store)
        later = made.store.changes_since(end, 10_000, asked[0][0]).rows
        assert "a" in [row.session.session_id for row in later if isinstance(row, StoredSession)]


# -- several machines ---------------------------------------------------------------------------------------------


DAY = 86_400.0


@contextmanager
def clock_off(by: float) -> Iterator[None]:
    """The clock of a machine is wrong by so many seconds."""
    with mock.patch("agenttrace.store.sqlite.revisions.time") as clock:
        clock.time.side_effect = lambda: time.time() + by
        yield


class Work:
    """Logs that several machines have, each as far as it got."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.logs: dict[str, list[Line]] = {
            f"{name}-{seed}": [line | {"session": f"{line['session']}-{seed % 2}"} for line in lines]
            for seed in (rng.randint(0, 10**6) for _ in range(2))
            for name, lines in random_work(seed).items()
        }
        self._written: dict[tuple[str, str], int] = {}

    def next_for(self, member: Member, number: int) -> Logs:
        """What a machine writes next: of some logs a part, of some a line that no other machine has."""
        found: dict[str, list[Line]] = {}
        for name, log in self.logs.items():
            if self.rng.random() < 0.6:
                start = self._written.get((member.name, name), 0)
                end = self.rng.randint(start, len(log))
                found[name] = log[start:end]
                self._written[member.name, name] = end
                if self.rng.random() < 0.2 and end:
                    own = {"id": f"{member.name}{number}", "text": f"later {member.name}"}
                    found[name] = [*found[name], {"v": 1, "session": log[0]["session"], "type": "note", **own}]
        return found


@settings(max_examples=8)
@given(seed=st.integers(0, 10**6), rounds=st.integers(1, 3), steps=st.integers(1, 60))
def test_the_store_answers_as_its_machines_together(seed: int, rounds: int, steps: int) -> None:
    """Machines that share sessions and forks, push in pages of any size, in any order, some twice, some begin anew."""
    rng = random.Random(seed)
    with team(("lap", "desk", "tower")[: rng.randint(2, 3)]) as made:
        made.members["desk"].person = "bob"
        work, off = Work(rng), {name: rng.choice((-DAY, 0.0, DAY)) for name in made.members}
        for number in range(rounds):
            for member in made.members.values():
                with clock_off(off[member.name]):
                    member.record(work.next_for(member, number))
                    if rng.random() < 0.2:
                        member.rebuild()
                if rng.random() < 0.2:
                    member.cursor = ChangesCursor()
            made.push_some(rng, steps)
        made.push_all(rng)
        assert_same(made)


# -- copies of a session ------------------------------------------------------------------------------------------


def test_the_copy_with_the_most_events_is_shown_whole() -> None:
    """A session that two machines hold: of equal copies that of the first machine by name; then the one that grew."""
    with team(("lap", "desk")) as made:
        lap, desk = made.members.values()
        log = lines("a", ONE, TWO)
        for member in (lap, desk):
            member.record(log)
            member.push(made.store, 4)
        made.index()
        assert copies(made) == {"desk": (1, 0), "lap": (0, 1)}
        assert_same(made)
        (number,) = (each.id for each in made.store.sessions())
        before, last = list(made.store.session_events(number)), made.store.last_event()
        lap.record(more("a", "fix"))
        lap.push(made.store)
        made.index()
        assert copies(made) == {"desk": (0, 1), "lap": (1, 0)}
        # Both begin alike: readers that know the first events go on with the new one.
        *begin, new = made.store.session_events(number)
        assert begin == before
        assert new > last
        assert made.store.sessions_changed_since(last) == [number]
        assert_same(made)
        desk.record(more("a", "later") | more("a", "hello"))
        desk.record(more("a", "x1") | more("a", "x2"))
        desk.push(made.store, 1)
        made.index()
        assert copies(made) == {"desk": (1, 0), "lap": (0, 1)}
        # What the two do not share is new.
        assert min(set(made.store.session_events(number)) - set(before)) > last + 1
        assert_same(made)


def test_a_copy_is_shown_when_it_is_complete() -> None:
    """While the longer copy of another machine is on its way, the one that was shown stays."""
    with team(("lap", "desk")) as made:
        lap, desk = made.members.values()
        desk.record(lines("a", ONE))
        desk.push(made.store)
        lap.record(lines("a", ONE) | lines("b", TWO))
        lap.record(more("a", "later"))
        seen = set()
        while lap.push_page(made.store, 2):
            (shown,) = (each for each in made.store.sessions() if each.session_id == "a")
            assert len(made.store.session_events(shown.id)) == shown.events
            seen.add(shown.machine)
        assert seen == {"desk", "lap"}


def test_a_response_counts_once_whichever_machines_hold_it() -> None:
    """A fork that was carried to another machine repeats responses, which count in the first session."""
    with team(("lap", "desk")) as made:
        lap, desk = made.members.values()
        fork = lines("fork", ONE, TWO, age=500.0)
        lap.record(fork)
        lap.push(made.store)
        assert requests(made) == {"fork": 2}
        desk.record(lines("first", ONE, age=900.0))
        desk.push(made.store)
        assert requests(made) == {"first": 1, "fork": 1}
        assert_same(made)
        larger = Response(name="r1", model="gpt-5", input_tokens=100, output_tokens=99)
        desk.record(lines("first", larger, age=100.0))
        desk.push(made.store)
        assert requests(made) == {"first": 1, "fork": 1}
        assert_same(made)


def test_a_session_that_turns_out_to_be_the_first() -> None:
    """The main log, which tells when a session was begun, is often read last: what it had first goes to it then."""
    with team(("lap", "desk")) as made:
        lap, desk = made.members.values()
        lap.record(lines("one", ONE, TWO, age=500.0))
        desk.record(lines("other", ONE, age=900.0))
        for member in (lap, desk):
            member.push(made.store)
        assert requests(made) == {"one": 1, "other": 1}
        with lap.store() as store:
            (row,) = (row for row in all_changes(store)[0] if isinstance(row, StoredSession))
        earlier = msgspec.structs.replace(row, session=msgspec.structs.replace(row.session, born=1))
        made.store.take([earlier], lap.page_to(ChangesCursor((9, 9), (9, 9))), day_of=day_of)
        assert requests(made) == {"one": 2}


def test_files_are_those_of_their_machine() -> None:
    """Two machines have a log at one path, with one number."""
    with team(("lap", "desk")) as made:
        for name, member in zip(("a", "b"), made.members.values(), strict=True):
            member.record(lines(name, ONE))
            while (found := member.page(4)) is not None:
                made.store.take([_moved(row) for row in found[0]], found[1], day_of=day_of)
                member.cursor = found[1].until
        lines_of = list(made.store.lines())
        files = {line.session: line.file_id for line in lines_of}
        assert len(set(files.values())) == 2
        for file in files.values():
            path, source = made.store.file_source(file)
            assert path == "/home/dev/log: 1.jsonl"
            assert source is not None
        assert [file.path for file in made.store.source_files(list(files.values()))] == ["/home/dev/log: 1.jsonl"] * 2


def _moved(row: Row) -> Row:
    if isinstance(row, FileOfLines):
        return msgspec.structs.replace(row, file_id=7, path="/home/dev/log: 1.jsonl")
    return msgspec.structs.replace(row, file_id=7) if isinstance(row, EventRow) else row


# -- what goes on ---------------------------------------------------------------------------------------------------


@settings(max_examples=6)
@given(seed=st.integers(0, 10**6), limit=st.integers(1, 12))
def test_a_reader_follows_events(seed: int, limit: int) -> None:
    """Who reads the changed spans of sessions with new events has them all, wherever pages end."""
    rng = random.Random(seed)
    logs = random_work(seed)
    with team(("lap", "desk")) as made:
        known: dict[int, dict[bytes, object]] = {}
        cursor = 0
        for part in (0.5, 1.0):
            for member in made.members.values():
                member.record({name: _part(log, part) for name, log in logs.items()})
            for member in made.members.values():
                while member.push_page(made.store, limit * rows_per_page()):
                    if rng.random() < 0.7:
                        cursor = _follow(made, known, cursor)
        _follow(made, known, cursor)
        for session in made.store.sessions():
            now = {row.span_id: _as_stored(row) for row in made.store.span_rows(session)}
            assert known[session.id] == now


def _part(lines: Sequence[Line], part: float) -> Sequence[Line]:
    half = len(lines) // 2
    return lines[:half] if part < 1 else lines[half:]


def _follow(made: Team, known: dict[int, dict[bytes, object]], cursor: int) -> int:
    for session in made.store.sessions_by_number(made.store.sessions_changed_since(cursor)):
        if session.id not in known:
            known[session.id] = {row.span_id: _as_stored(row) for row in made.store.span_rows(session)}
        else:
            changed = made.store.changed_spans(session, cursor)
            known[session.id] |= {row.span_id: _as_stored(row) for row in changed}
    return made.store.last_event()


def _as_stored(row: SpanRow) -> object:
    """Without what follows from the session's end, and from the ledger."""
    logged = row._replace(end=None, status="open", ended_by=0) if row.ended_by == 2 else row
    return logged._replace(changed=0)[:13]


def test_a_span_that_changes_without_a_line_of_its_own() -> None:
    """A tool call that the next turn ends is among the changed spans, though its page came before that of the line."""
    with team(("lap",)) as made:
        (lap,) = made.members.values()
        place = {"v": 1, "session": "a", "turn": 1}
        call = {"id": "c", "name": "Bash", "arguments": {}, **place}
        lap.record({"a": [{"type": "turn.begin", **place}, {"type": "tool.begin", **call}]})
        lap.push(made.store)
        cursor = made.store.last_event()
        lap.record({"a": [{"type": "turn.begin", **place, "turn": 2}]})
        lap.push(made.store, 1)
        (session,) = made.store.sessions()
        assert made.store.sessions_changed_since(cursor) == [session.id]
        changed = {row.span_id for row in made.store.changed_spans(session, cursor)}
        assert changed == {row.span_id for row in made.store.span_rows(session)}


def test_outcomes_are_examined_when_all_lines_came() -> None:
    """A session that was looked at while its lines were on their way is looked at again."""
    with team(("lap",)) as made:
        (lap,) = made.members.values()
        place = {"v": 1, "session": "a", "turn": 1, "ts": BASE}
        commit = {"id": "c", "name": "Bash", "arguments": {"command": "git commit -m 'Fix'"}, **place}
        result = "[main 1a2b3c4] Fix\n 1 file changed, 2 insertions(+)"
        log = [{"type": "tool.begin", **commit}, {"type": "tool.end", "status": "ok", "result": result, **commit}]
        lap.record({"a": [{"type": "turn.begin", **place}, *log, {"type": "turn.end", **place}]})
        while lap.push_page(made.store, 1):
            update_all(made.store)
        (session,) = made.store.sessions()
        assert made.store.outcomes([session.id])[session.id].figures.commits == 1
        assert made.store.unexamined() == []


def test_a_page_is_stored_whole_or_not_at_all() -> None:
    """An error in the middle leaves nothing of the page, and the machine where it was."""

    def no_day(at: int) -> str:
        raise RuntimeError

    with team(("lap",)) as made:
        (lap,) = made.members.values()
        lap.record(lines("a", ONE))
        found = lap.page()
        assert found is not None
        with pytest.raises(RuntimeError):
            made.store.take(*found, day_of=no_day)
        assert (made.store.position("lap"), made.store.machines(), made.store.sessions()) == (None, [], [])
        assert made.store.last_event() == 0
        made.store.take(*found, day_of=day_of)
        made.index()
        assert_same(made)


def _half(made: Team, rows: list[Row], page: Page) -> None:
    """Store a page whose writing ends before its sessions are written, where an engine has no transactions."""

    def ending(database: Database, table: Table, *rest: Any, **facts: Any) -> None:  # noqa: ANN401 - of the call
        if table.name == "sessions":
            raise OSError
        put(database, table, *rest, **facts)

    with mock.patch("agenttrace.store.clickhouse.writing.put", ending), suppress(OSError):
        if team_machine.team_engine == "clickhouse":
            made.store.take(rows, page, day_of=day_of)


def test_a_page_that_ended_half_way_is_continued_with_what_came_since() -> None:
    """The machine says that it does not know whether the page arrived: nothing is sent anew."""
    with team(("lap",)) as made:
        (lap,) = made.members.values()
        lap.record(lines("a", ONE))
        lap.push(made.store)
        lap.record(more("a", "later"))
        found = lap.page()
        assert found is not None
        _half(made, *found)
        lap.record(more("a", "latest"))
        longer = lap.page()
        assert longer is not None
        made.store.take(longer[0], msgspec.structs.replace(longer[1], previous=found[1].until), day_of=day_of)
        lap.cursor = longer[1].until
        made.index()
        assert [each.events for each in made.store.sessions()] == [5]
        assert_same(made)


def test_a_page_that_ended_half_way_is_not_mixed_with_a_backup() -> None:
    """A machine that was restored does not have the rows of the page: it begins anew, and nothing of them is shown."""
    with team(("lap",)) as made:
        (lap,) = made.members.values()
        lap.record(lines("a", ONE))
        lap.push(made.store)
        backup = shutil.copytree(lap.root, lap.root.with_name("backup"))
        lap.record(more("a", "lost") | lines("b", TWO))
        found = lap.page()
        assert found is not None
        _half(made, *found)
        shutil.rmtree(lap.root)
        backup.rename(lap.root)
        lap.record(more("a", "other"))
        if team_machine.team_engine == "clickhouse":
            with pytest.raises(WrongPositionError):
                lap.push(made.store)
            lap.store_name, lap.cursor = "restored", ChangesCursor()
        lap.push(made.store)
        made.index()
        assert {(each.session_id, each.events) for each in made.store.sessions()} == {("a", 4)}
        assert requests(made) == {"a": 1}
        assert_same(made)


# -- logs of real agents --------------------------------------------------------------------------------------------


def test_logs_of_real_agents_on_two_machines() -> None:
    """Logs that grow while changes are sent: forks, subagents, totals, telemetry, sessions that become part of one."""
    rng = random.Random(3)
    # To compare a session of the real agents takes half a second on ClickHouse.
    each = 3 if rows_per_page() > 1 else 1
    with team(("lap", "desk")) as made:
        lap, desk = made.members.values()
        desk.record({})
        for _ in growing(lap.machine.logs, rng, each):
            lap.machine.record({})
            made.push_some(rng, 40)
        for part, _ in enumerate(growing(desk.machine.logs, rng, each)):
            if part == 1:
                break
        desk.machine.record({})
        made.push_all(rng, 300)
        assert any(each.copies for each in made.store.machines())
        assert_same(made)


def test_metrics_that_give_way_to_calls() -> None:
    """Calls that a machine made up from metrics leave the team's store with those that take their place."""
    rng = random.Random(5)
    with team(("lap",)) as made:
        (lap,) = made.members.values()
        log = lap.machine.logs / "spans-2026-11-15.1.jsonl"
        log.parent.mkdir(parents=True, exist_ok=True)
        for told in (points(counter({("claude-sonnet-4-5", "input"): 30}, 60)), telemetry_lines(*conversation())):
            with log.open("ab") as file:
                file.writelines(told)
            lap.machine.record({})
            made.push_all(rng, 7)
            assert_same(made)
        (session,) = made.store.sessions()
        found = made.store.agreement(session.id)
        assert (found.status, found.checked, found.claimed["input_tokens"]) == ("differ", 2, 30)
