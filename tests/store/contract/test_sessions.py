"""Sessions: what a filter means, how pages follow each other, which session a name is of, and what state it is in."""

from __future__ import annotations

from collections import Counter
from typing import get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agenttrace.config import RecordSettings
from agenttrace.ids import session_key
from agenttrace.model import Session
from agenttrace.store.errors import SessionNameError
from agenttrace.store.questions import (
    OUTCOME_FIELDS,
    OutcomeFigures,
    OutcomeKind,
    SessionFilter,
    SessionGroupKind,
    SessionPlace,
    StoredOutcomes,
    title_of,
)
from agenttrace.store.session_state import SessionState, StateLimits, state_now
from agenttrace.store.sqlite.store import SqliteStore

from .data import CLAUDE, IDS, MODELS, NATIVE, PROJECTS, Made, logs_of, recordings
from .machine import machine, store_of

#: Each example records a store; the questions to it are many.
few = settings(max_examples=15)

_moments = st.none() | st.sampled_from((5, 60, 600, 3_000, 200_000)).map(lambda age: StateLimits(age / 60).now().stale)

BOTH = OutcomeFigures(commits=1, test_runs=1, tests_failed=0)


def _some(values: tuple[str, ...]) -> st.SearchStrategy[frozenset[str]]:
    return st.frozensets(st.sampled_from(values), max_size=2)


_parts = st.sampled_from(
    ("", "%", "_", "\\", "shop", "SHOP", "äpf", "fix", "STRASSE", "转", "x1", "kimi", "feature", "\0")
)
filters = st.builds(
    SessionFilter,
    agents=_some((NATIVE, CLAUDE, "nobody")),
    projects=_some((*PROJECTS, "", "/nowhere")),
    project_contains=st.none() | _parts,
    states=_some(("working", "waiting", "ended", "interrupted")),
    models=_some((*MODELS, "none")),
    text=st.just("") | _parts,
    words=st.lists(_parts, max_size=2).map(tuple),
    since=_moments,
    until=_moments,
    errors=st.none() | st.booleans(),
    commits=st.none() | st.booleans(),
    outcomes=st.frozensets(st.sampled_from(get_args(OutcomeKind)), max_size=2),
)
#: Most filters set one thing: what sets many matches little.
_fields = SessionFilter.__struct_fields__
one_thing = st.tuples(filters, st.sampled_from(_fields)).map(
    lambda drawn: SessionFilter(**{drawn[1]: getattr(drawn[0], drawn[1])})
)


def _id(session: Session | Made) -> tuple[str, str]:
    return session.agent, session.session_id


def _models(store: SqliteStore, session: Session) -> set[str]:
    used = {row.model for row in store.usage_by_session([session.id]).get(session.id, ()) if row.usage.total}
    return used | ({session.model} if session.model else set())


@few
@given(made=recordings, wanted=st.lists(one_thing | filters, min_size=20, max_size=20))
def test_a_filter_means_what_its_definition_says(made: list[Made], wanted: list[SessionFilter]) -> None:
    """The store lists just the sessions that ``SessionFilter.matches`` accepts, newest first."""
    with store_of(logs_of(made), read_only=False) as store:
        everything = store.sessions()
        assert {(each.agent, each.session_id) for each in everything} == {
            (each.agent, each.session_id) for each in made
        }
        assert everything == sorted(everything, key=SessionPlace.of, reverse=True)
        models = {session.id: _models(store, session) for session in everything}
        came = [OutcomeFigures(), *(OutcomeFigures(**{name: 2}) for name in OUTCOME_FIELDS.values()), BOTH]
        figures = {session.id: came[place % len(came)] for place, session in enumerate(everything)}
        for session in everything[1:]:
            store.outcome_table.put(session.id, StoredOutcomes(1, figures[session.id]), now=0.0)
        for each in wanted:
            matching = [found for found in everything if each.matches(found, models[found.id], figures[found.id])]
            assert store.sessions(each) == matching


@few
@given(made=recordings, wanted=one_thing, limit=st.integers(1, 3))
def test_the_pages_together_are_the_whole(made: list[Made], wanted: SessionFilter, limit: int) -> None:
    """Pages of any size hold each session once, in order; a limit is the beginning of the list."""
    with store_of(logs_of(made)) as store:
        whole = store.sessions(wanted)
        page = paged = store.sessions(wanted, limit=limit)
        while page:
            page = store.sessions(wanted, limit=limit, after=SessionPlace.of(page[-1]))
            paged = paged + page
        assert paged == whole
        assert store.sessions(wanted, limit=limit) == whole[:limit]


def _named(sessions: list[Session], name: str) -> set[int]:
    """Which sessions a name is of, in the plainest way."""
    tests = (
        lambda each: session_key(each.id) == name,
        lambda each: each.session_id == name,
        lambda each: each.session_id.lower().startswith(name.lower()),
        lambda each: each.session_id.lower().startswith(f"session_{name.lower()}"),
    )
    found = ({each.id for each in sessions if test(each)} for test in tests)
    return next(filter(None, found), set())


@few
@given(made=recordings)
def test_a_name_is_a_key_an_id_or_the_beginning_of_one(made: list[Made]) -> None:
    """A name that several sessions have is refused with all of them, one that none has with none."""
    with store_of(logs_of(made)) as store:
        everything = store.sessions()
        assert sorted(store.session_ids()) == sorted(each.session_id for each in everything)
        names = {name[:length] for name in IDS for length in range(1, len(name) + 1)}
        for name in sorted({"", "nobody", "f" * 16, *names, *(session_key(each.id) for each in everything)}):
            expected = _named(everything, name) if name else set()
            assert {each.id for each in store.find_sessions(name)} == expected or not name
            if len(expected) == 1:
                assert store.session(name) in everything
                continue
            with pytest.raises(SessionNameError) as caught:
                store.session(name)
            assert {each.id for each in caught.value.found} == expected
            assert not caught.value.pruned


@few
@given(
    made=recordings,
    limits=st.builds(StateLimits, st.sampled_from((1, 15, 60, 10_000)), st.sampled_from((0, 0.1, 12, 100))),
)
def test_silence_changes_states_everywhere(made: list[Made], limits: StateLimits) -> None:
    """Lists, filters, single sessions and counts agree about which sessions still work or wait, for any time limits."""
    with store_of(logs_of(made), limits=limits) as store:
        everything = store.sessions()
        said = {_id(each): each for each in made}
        for session in everything:
            log = said[_id(session)]
            if log.agent == NATIVE:
                assert session.state == state_now(log.state, store.heard_of(session), *limits.now())
            assert store.session(session_key(session.id)) == session
        by_number = store.sessions_by_number([each.id for each in everything])
        assert sorted(by_number, key=SessionPlace.of, reverse=True) == everything
        working = sum(each.state == "working" for each in everything)
        waiting = sum(each.state == "waiting" for each in everything)
        assert store.active_counts() == (working, waiting)
        for state in get_args(SessionState):
            listed = store.sessions(SessionFilter(states=frozenset([state])))
            assert listed == [each for each in everything if each.state == state]


def test_the_default_is_that_of_the_settings() -> None:
    """Without settings, silence counts as stale after the time that the settings have by default."""
    assert StateLimits.of(RecordSettings()) == StateLimits()


@few
@given(made=recordings, more=st.data())
def test_what_changed_is_told(made: list[Made], more: st.DataObject) -> None:
    """Sessions with new events are named and get another fingerprint; the others keep theirs."""
    with machine() as here:
        here.record(logs_of(made))
        with here.store() as store:
            before, last = store.session_fingerprints(), store.last_event()
            numbers = {_id(each): each.id for each in store.sessions()}
        native = [each for each in made if each.agent == NATIVE]
        touched = more.draw(st.lists(st.sampled_from(native), unique=True)) if native else []
        here.record({each.file: [each._native("note", id="new", text="more")] for each in touched})
        with here.store() as store:
            changed = {numbers[_id(each)] for each in touched}
            assert set(store.sessions_changed_since(last)) == changed
            after = store.session_fingerprints()
            assert before.keys() == after.keys() == set(numbers.values())
            assert {number for number, found in after.items() if found != before[number]} == changed
            assert store.session_fingerprints(sorted(changed)) == {number: after[number] for number in changed}
            assert store.last_event() == last + len(touched)


@few
@given(made=recordings)
def test_names_and_agents(made: list[Made]) -> None:
    """Every session has a name by its number, and every agent with sessions is listed once."""
    with store_of(logs_of(made)) as store:
        everything = store.sessions()
        names = store.session_names([each.id for each in everything])
        assert {number: tuple(name) for number, name in names.items()} == {
            each.id: (each.session_id, title_of(each)) for each in everything
        }
        assert store.agents() == sorted({each.agent for each in made})
        for by in get_args(SessionGroupKind):
            groups = store.session_groups(by)
            assert {each.name: each.sessions for each in groups} == _counted(everything, by)
            ends = [each.last_at or 0 for each in groups]
            assert ends == sorted(ends, reverse=True)
            assert [each.name for each in store.session_groups(by, 1)] == [each.name for each in groups[:1]]


def _counted(sessions: list[Session], by: SessionGroupKind) -> dict[str, int]:
    return dict(Counter(name for each in sessions if (name := getattr(each, by)) is not None))
