"""The usage ledger: whatever the order and the batches, one response counts once, in the session that had it first."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agenttrace.ids import response_key
from agenttrace.model import Session, Span, Usage
from agenttrace.store import ledger
from agenttrace.store.database import connect
from agenttrace.store.ledger import UNKNOWN_MODEL, Claim
from agenttrace.store.writing import Batch, span_row, write_rows

#: The store is emptied for each example.
reuses_store = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])

HOUR = 3_600_000_000
SESSIONS = range(1, 6)
RESPONSES = [response_key(name) for name in ("a", "b", "c", "d")]
MODELS = {response: f"model-{number % 2}" for number, response in enumerate(RESPONSES)}


def day_of(at: int) -> str:
    return f"day-{at // (24 * HOUR)}"


def other_day_of(at: int) -> str:
    return f"day-{(at + 8 * HOUR) // (24 * HOUR)}"


class Store:
    """A store that holds nothing but what the example put in."""

    def __init__(self, path: Path) -> None:
        self.connection = connect(path)

    @contextmanager
    def empty(self) -> Iterator[Store]:
        """Everything inside is forgotten afterwards."""
        self.connection.execute("BEGIN")
        try:
            yield self
        finally:
            self.connection.execute("ROLLBACK")

    def write(self, claims: Iterable[Claim], sessions: Iterable[Session]) -> None:
        """A batch as the recorder writes it: the claims, the spans they come from, the sessions' rows."""
        claims, sessions = list(claims), list(sessions)
        spans = [span_row(_span(claim), claim.session, "main") for claim in claims]
        write_rows(self.connection, Batch(claims=claims, sessions=sessions, spans=spans), day_of=day_of)

    def responses(self) -> dict[bytes, tuple[object, ...]]:
        """The ledger."""
        rows = self.connection.execute("SELECT * FROM responses").fetchall()
        return {row[0]: row[1:] for row in rows}

    def rollup(self) -> dict[tuple[object, ...], tuple[int, ...]]:
        """The sums by day, session and model."""
        return {row[:3]: row[3:] for row in self.connection.execute("SELECT * FROM usage_rollup")}


def _span(claim: Claim) -> Span:
    name = claim.response[:8]
    return Span(
        span_id=name,
        trace_id=name * 2,
        parent_id=None,
        kind="step",
        name="chat",
        start=claim.at,
        response=claim.response,
    )


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    found = Store(tmp_path / "agenttrace.db")
    yield found
    found.connection.close()


class Case(NamedTuple):
    """Claims in the order of reading, in batches, and what is known of the sessions in the end."""

    claims: list[Claim]
    order: list[int]
    cuts: list[int]
    copied: dict[int, bool]
    born: dict[int, int | None]

    def sessions(self) -> list[Session]:
        return [Session(id=n, agent="a", session_id=str(n), copied=self.copied[n], born=self.born[n]) for n in SESSIONS]

    def batches(self) -> list[list[Claim]]:
        claims = [self.claims[place] for place in self.order]
        ends = sorted({0, len(claims), *(cut for cut in self.cuts if cut < len(claims))})
        return [claims[start:end] for start, end in itertools.pairwise(ends)]


@st.composite
def claims(draw: st.DrawFn) -> Claim:
    """One mention. A response has one model, which some copies do not name."""
    response = draw(st.sampled_from(RESPONSES))
    small = st.integers(0, 3)
    return Claim(
        response=response,
        session=draw(st.sampled_from(SESSIONS)),
        at=draw(st.integers(0, 96)) * HOUR,
        model=draw(st.sampled_from([MODELS[response], UNKNOWN_MODEL])),
        estimated=draw(st.booleans()),
        copies=draw(small),
        usage=Usage(
            input_tokens=draw(small),
            output_tokens=draw(small),
            cache_read_tokens=draw(small),
            cache_write_tokens=draw(small),
            cache_write_1h_tokens=draw(st.integers(0, 1)),
            reasoning_tokens=draw(st.integers(0, 1)),
            web_searches=draw(st.integers(0, 1)),
        ),
    )


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """No two sessions rank alike: draws are a matter of who was recorded first, and of a test of their own."""
    made = draw(st.lists(claims(), min_size=1, max_size=25))
    births = draw(st.permutations([None, *range(len(SESSIONS) - 1)]))
    return Case(
        claims=made,
        order=draw(st.permutations(range(len(made)))),
        cuts=draw(st.lists(st.integers(1, 25), max_size=6)),
        copied={n: draw(st.booleans()) for n in SESSIONS},
        born=dict(zip(SESSIONS, births, strict=True)),
    )


def expected(case: Case) -> dict[bytes, tuple[object, ...]]:
    """The ledger by its rules, looking at all claims at once."""
    grouped: dict[bytes, list[Claim]] = defaultdict(list)
    for claim in case.claims:
        grouped[claim.response].append(claim)
    return {response: _entry(case, mentions) for response, mentions in grouped.items()}


def _entry(case: Case, mentions: Sequence[Claim]) -> tuple[object, ...]:
    def first_had(number: int) -> tuple[object, ...]:
        born = case.born[number]
        return case.copied[number], born is None, born, number

    best = max(mentions, key=lambda claim: ledger.weight(claim.usage, claim.estimated))
    at = min(claim.at for claim in mentions)
    named = {claim.model for claim in mentions} - {UNKNOWN_MODEL}
    return (
        min({claim.session for claim in mentions}, key=first_had),
        at,
        day_of(at),
        named.pop() if named else UNKNOWN_MODEL,
        int(best.estimated),
        sum(claim.copies + 1 for claim in mentions) - 1,
        *tokens_of(best.usage),
    )


def tokens_of(usage: Usage) -> tuple[int, ...]:
    return (
        usage.input_tokens,
        usage.output_tokens,
        usage.cache_read_tokens,
        usage.cache_write_tokens,
        usage.cache_write_1h_tokens,
        usage.reasoning_tokens,
        usage.web_searches,
    )


def summed(responses: dict[bytes, tuple[object, ...]]) -> dict[tuple[object, ...], tuple[int, ...]]:
    """The roll-up that a ledger must have."""
    sums: dict[tuple[object, ...], list[int]] = {}
    for session, _, day, model, *figures in responses.values():
        row = sums.setdefault((day, session, model), [0] * (1 + len(figures)))
        for place, figure in enumerate([1, *figures]):
            assert isinstance(figure, int)
            row[place] += figure
    return {place: tuple(row) for place, row in sums.items()}


@reuses_store
@given(case=cases())
def test_order_and_batches_change_nothing(store: Store, case: Case) -> None:
    """The ledger is what its rules make of all claims, and the roll-up its sums, after every single batch."""
    with store.empty():
        for batch in case.batches():
            store.write(batch, case.sessions())
            assert store.rollup() == summed(store.responses())
        assert store.responses() == expected(case)


@reuses_store
@given(case=cases(), data=st.data())
def test_what_becomes_known_later_counts(store: Store, case: Case, data: st.DataObject) -> None:
    """When a session began, and that it is a copy, may be learnt after its claims: the outcome is the same."""
    known = {n: Session(id=n, agent="a", session_id=str(n)) for n in SESSIONS}
    final = {session.id: session for session in case.sessions()}
    with store.empty():
        for batch in case.batches():
            for number in {claim.session for claim in batch}:
                if data.draw(st.booleans(), label=f"the truth about {number} is known"):
                    known[number] = final[number]
            store.write(batch, [known[number] for number in {claim.session for claim in batch}])
        store.write([], [final[number] for number in {claim.session for claim in case.claims}])
        assert store.responses() == expected(case)
        assert store.rollup() == summed(store.responses())


@reuses_store
@given(case=cases())
def test_rebuilding_changes_nothing(store: Store, case: Case) -> None:
    """The roll-up computed anew is the one that was kept; another time zone moves days and nothing else."""
    with store.empty():
        store.write(case.claims, case.sessions())
        kept, totals = store.rollup(), _totals(store)
        ledger.rebuild_rollup(store.connection, day_of=day_of)
        assert store.rollup() == kept
        ledger.rebuild_rollup(store.connection, day_of=other_day_of)
        assert _totals(store) == totals
        assert {row[2] for row in store.responses().values()} == {
            other_day_of(int(str(row[1]))) for row in store.responses().values()
        }


def _totals(store: Store) -> list[int]:
    return [sum(column) for column in zip(*store.rollup().values(), strict=True)]


# -- examples -----------------------------------------------------------------------------------------------------

A = RESPONSES[0]


def claim(session: int, output: int, *, at: int = 0, estimated: bool = False) -> Claim:
    return Claim(A, session, at, "m", estimated, 0, Usage(input_tokens=10, output_tokens=output))


def test_a_draw_stays_with_whoever_was_recorded_first(store: Store) -> None:
    """A copy that nothing tells from its original takes nothing from the session that was there before it."""
    for first, second in ((1, 2), (2, 1)):
        with store.empty():
            store.write([claim(first, 7)], [session(first, born=5)])
            store.write([claim(second, 7)], [session(second, born=5)])
            (entry,) = store.responses().values()
            assert entry[0] == first


def session(number: int, *, born: int | None = 0, copied: bool = False) -> Session:
    return Session(id=number, agent="a", session_id=str(number), born=born, copied=copied)


def test_a_response_that_grows(store: Store) -> None:
    """Lines of one streaming response are merged by the largest output, not added."""
    with store.empty():
        store.write([claim(1, 1, estimated=True), claim(1, 7), claim(1, 5)], [session(1)])
        assert store.rollup() == {("day-0", 1, "m"): (1, 0, 2, 10, 7, 0, 0, 0, 0, 0)}


def test_a_fork_counts_nothing_of_what_it_copied(store: Store) -> None:
    """The original owns the response, whichever of the two logs is read first."""
    for first, second in ((1, 2), (2, 1)):
        with store.empty():
            logs = {1: session(1, born=5), 2: session(2, born=9)}
            store.write([claim(first, 7)], [logs[first]])
            store.write([claim(second, 7)], [logs[second]])
            assert list(store.rollup()) == [("day-0", 1, "m")]


def test_a_known_copy_never_owns(store: Store) -> None:
    """A fork whose log repeats the times of its original looks older; that it says it is a copy decides."""
    with store.empty():
        store.write([claim(1, 7)], [session(1, born=1, copied=True)])
        store.write([claim(2, 7)], [session(2, born=5)])
        assert list(store.rollup()) == [("day-0", 2, "m")]


def test_a_subagents_log_before_the_main_log(store: Store) -> None:
    """The subagent's log is read first, so the session's age is unknown; once known, it takes back what is its own."""
    with store.empty():
        store.write([claim(1, 7)], [session(1, born=None)])
        store.write([claim(2, 7)], [session(2, born=9)])
        assert list(store.rollup()) == [("day-0", 2, "m")]
        store.write([], [session(1, born=5)])
        assert store.rollup() == {("day-0", 1, "m"): (1, 0, 1, 10, 7, 0, 0, 0, 0, 0)}


def test_a_session_that_turns_out_to_be_a_copy(store: Store) -> None:
    """What it owned goes to the session that had it before, even if nothing is read of that one any more."""
    with store.empty():
        store.write([claim(1, 7)], [session(1, born=1)])
        store.write([claim(2, 7)], [session(2, born=5)])
        store.write([], [session(1, born=1, copied=True)])
        assert list(store.rollup()) == [("day-0", 2, "m")]
