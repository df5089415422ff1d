"""What came of sessions: figures that a store derives from its own lines."""

from __future__ import annotations

import time

from hypothesis import given, settings

from agenttrace.record.outcome_updates import update_all
from agenttrace.record.outcomes import figures_of, session_facts
from agenttrace.store.questions import OutcomeFigures, OutcomeShare, StoredOutcomes, UsageQuery

from .data import Made, logs_of, recordings
from .machine import prune, store_of


@settings(max_examples=10)
@given(made=recordings)
def test_all_sessions_are_examined_once(made: list[Made]) -> None:
    """After an update every session has the figures of its lines, and none waits."""
    with store_of(logs_of(made), read_only=False) as store:
        everything = store.sessions()
        assert set(store.outcome_table.waiting(time.time())) == {session.id for session in everything}
        update_all(store)
        assert store.outcome_table.waiting(time.time()) == []
        stored = store.outcomes([session.id for session in everything])
        for session in everything:
            assert stored[session.id].events == session.events
            assert stored[session.id].figures == figures_of(session_facts(store, session), session.project)
        assert store.outcomes([]) == store.outcomes([1]) == {}


@settings(max_examples=5)
@given(made=recordings)
def test_a_session_with_new_events_waits_until_it_is_quiet(made: list[Made]) -> None:
    """Old figures stay until then; those of unread lines wait for longer."""
    with store_of(logs_of(made), read_only=False) as store:
        for session in store.sessions()[:1]:
            figures = OutcomeFigures(files=2, commits=1, tests_passed=3)
            shares = (OutcomeShare(quarter=3, model="m", commits=1, hashes=("1a2b3c4",), known_from=("log",)),)
            now = (session.last_at or 0) / 1e6
            for events, waits in ((session.events + 1, True), (session.events, False), (0, False)):
                put = StoredOutcomes(events, figures, shares)
                store.outcome_table.put(session.id, put, now=now)
                assert store.outcomes([session.id]) == {session.id: put}
                assert (session.id in store.outcome_table.waiting(now + 120)) is waits
                if session.last_at is not None:
                    assert session.id not in store.outcome_table.waiting(now + 1)
            assert session.id in store.outcome_table.waiting(now + 7_200)


@settings(max_examples=5)
@given(made=recordings)
def test_a_pruned_session_has_no_outcomes(made: list[Made]) -> None:
    with store_of(logs_of(made), read_only=False) as store:
        update_all(store)
        for session in store.sessions()[:1]:
            prune(store, session.id)
            assert store.outcomes([session.id]) == {}
            store.outcome_table.put(session.id, StoredOutcomes(session.events, OutcomeFigures(files=1)), now=0.0)
            assert store.outcomes([session.id]) == {}
            assert session.id not in store.outcome_table.waiting(time.time())


@settings(max_examples=10)
@given(made=recordings)
def test_shares_are_those_of_the_sessions_that_match(made: list[Made]) -> None:
    """By agent and project; a session with lines that were not examined is named until it is."""
    with store_of(logs_of(made), read_only=False) as store:
        everything = store.sessions()
        share = OutcomeShare(quarter=1, model="m", added=None, commits=2, hashes=("1a2b3c4",), known_from=("log",))
        for session in everything[1:]:
            store.outcome_table.put(session.id, StoredOutcomes(session.events, OutcomeFigures(), (share,)), now=0.0)
        for query in (UsageQuery(), *(UsageQuery(agents=frozenset([each.agent])) for each in everything[:2])):
            matching = sorted(each.id for each in everything if not query.agents or each.agent in query.agents)
            waiting = [number for number in matching if number == everything[0].id]
            assert store.unexamined(query) == waiting
            assert [each.number for each in store.outcome_shares(query)] == [
                number for number in matching if number not in waiting
            ]
        assert all(each.shares == (share,) for each in store.outcome_shares())
        projects = {session.id: session.project or "" for session in everything[1:]}
        for project in set(projects.values()):
            found = store.outcome_shares(UsageQuery(projects=frozenset([project])))
            assert {each.number for each in found} == {number for number, name in projects.items() if name == project}
