"""What came of sessions: figures that a store derives from its own lines."""

from __future__ import annotations

import time

from hypothesis import given, settings

from agenttrace.record.outcome_updates import update_all
from agenttrace.record.outcomes import figures_of, session_facts
from agenttrace.store.questions import OutcomeFigures

from .data import Made, logs_of, recordings
from .machine import store_of


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
            figures = OutcomeFigures(files=2, commits=1, tests_passed=3, hashes=("1a2b3c4",))
            now = (session.last_at or 0) / 1e6
            for events, waits in ((session.events + 1, True), (session.events, False), (0, False)):
                store.outcome_table.put(session.id, figures, events=events, now=now)
                assert store.outcomes([session.id])[session.id].figures == figures
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
            store.retention.prune_session(session.id, time.time())
            assert store.outcomes([session.id]) == {}
            store.outcome_table.put(session.id, OutcomeFigures(files=1), events=session.events, now=0.0)
            assert store.outcomes([session.id]) == {}
            assert session.id not in store.outcome_table.waiting(time.time())
