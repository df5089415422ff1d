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
from agenttrace.prices.table import variant_of
from agenttrace.store.batch import UNKNOWN_MODEL, Batch, Claim, span_row
from agenttrace.store.sqlite import ledger
from agenttrace.store.sqlite.database import connect
from agenttrace.store.sqlite.writing import write_rows

#: The store is emptied for each example.
reuses_store = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])

HOUR = 3_600_000_000
SESSIONS = range(1, 6)
RESPONSES = [response_key(name) for name in ("a", "b", "c", "d")]
MODELS = ["model-0", "model-1", UNKNOWN_MODEL, "deepseek-flash"]


TOKENS = Usage.__struct_fields__


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
        claims = [claim._replace(order=place) for place, claim in enumerate(claims)]
        sessions = list(sessions)
        spans = [span_row(_span(claim), claim.session, "main") for claim in claims]
        write_rows(self.connection, Batch(claims=claims, sessions=sessions, spans=spans), day_of=day_of)

    def responses(self) -> dict[bytes, tuple[object, ...]]:
        """The ledger."""
        columns = "response, session_id, at, day, model, variant, terms, estimated, copies"
        rows = self.connection.execute(f"SELECT {columns}, {', '.join(TOKENS)} FROM responses").fetchall()
        return {row[0]: row[1:] for row in rows}

    def rollup(self) -> dict[tuple[object, ...], tuple[int, ...]]:
        """The sums by day, session, model and variant."""
        columns = "day, session_id, model, variant, requests, estimated, copies"
        rows = self.connection.execute(f"SELECT {columns}, {', '.join(TOKENS)} FROM usage_rollup")
        return {row[:4]: row[4:] for row in rows}


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
    last_at: dict[int, int | None]

    def sessions(self) -> list[Session]:
        return [session(n, copied=self.copied[n], born=self.born[n], last_at=self.last_at[n]) for n in SESSIONS]

    def batches(self) -> list[list[Claim]]:
        claims = _after_their_events([self.claims[place] for place in self.order])
        ends = sorted({0, len(claims), *(cut for cut in self.cuts if cut < len(claims))})
        return [claims[start:end] for start, end in itertools.pairwise(ends)]


def session(number: int, *, born: int | None = 0, copied: bool = False, last_at: int | None = None) -> Session:
    return Session(id=number, agent="a", session_id=str(number), born=born, copied=copied, last_at=last_at)


def _after_their_events(claims: Sequence[Claim]) -> list[Claim]:
    """In this order, but for repeated lines: a session has recorded the event of one before it meets it again."""
    ordered: list[Claim] = []
    waiting: list[Claim] = []
    for claim in claims:
        if claim.copies < 0 and not any(told[:2] == claim[:2] for told in ordered):
            waiting.append(claim)
            continue
        ordered.append(claim)
        ordered += [told for told in waiting if told[:2] == claim[:2]]
        waiting = [told for told in waiting if told[:2] != claim[:2]]
    return ordered


@st.composite
def claims(draw: st.DrawFn) -> Claim:
    """One mention, perhaps in a line that was recorded before. Some copies do not name the model."""
    response = draw(st.sampled_from(RESPONSES))
    small = st.integers(0, 3)
    return Claim(
        response=response,
        session=draw(st.sampled_from(SESSIONS)),
        at=draw(st.integers(0, 96)) * HOUR,
        model=draw(st.sampled_from(MODELS)),
        estimated=draw(st.booleans()),
        copies=draw(st.integers(-1, 3)),
        usage=Usage(
            input_tokens=draw(small),
            output_tokens=draw(small),
            cache_read_tokens=draw(small),
            cache_write_tokens=draw(small),
            cache_write_1h_tokens=draw(st.integers(0, 1)),
            reasoning_tokens=draw(st.integers(0, 1)),
            web_searches=draw(st.integers(0, 1)),
        ),
        terms=draw(st.sampled_from(["", "fast", "us"])),
    )


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """Sessions may share a beginning, or an end as well."""
    made = _after_their_events(draw(st.lists(claims(), min_size=1, max_size=25)))
    times = st.none() | st.integers(0, 2)
    return Case(
        claims=made,
        order=draw(st.permutations(range(len(made)))),
        cuts=draw(st.lists(st.integers(1, 25), max_size=6)),
        copied={n: draw(st.booleans()) for n in SESSIONS},
        born={n: draw(times) for n in SESSIONS},
        last_at={n: draw(times) for n in SESSIONS},
    )


def expected(case: Case) -> dict[bytes, tuple[object, ...]]:
    """The ledger by its rules, looking at all claims at once."""
    grouped: dict[bytes, list[Claim]] = defaultdict(list)
    for claim in case.claims:
        grouped[claim.response].append(claim)
    return {response: _entry(case, mentions) for response, mentions in grouped.items()}


def _entry(case: Case, mentions: Sequence[Claim]) -> tuple[object, ...]:
    def first_had(number: int) -> tuple[object, ...]:
        born, ended = case.born[number], case.last_at[number]
        return case.copied[number], born is None, born or 0, 0 if born is None else ended or 0, number

    best = max(mentions, key=lambda claim: ledger.weight(claim.usage, claim.estimated))
    at = min(claim.at for claim in mentions)
    model = max({claim.model for claim in mentions} - {UNKNOWN_MODEL}, default=UNKNOWN_MODEL)
    terms = " ".join(sorted({term for claim in mentions for term in claim.terms.split()}))
    return (
        min({claim.session for claim in mentions}, key=first_had),
        at,
        day_of(at),
        model,
        variant_of(model, best.usage.total - best.usage.output_tokens, at, terms),
        terms,
        int(best.estimated),
        sum(claim.copies + 1 for claim in mentions) - 1,
        *tokens_of(best.usage),
    )


def tokens_of(usage: Usage) -> tuple[int, ...]:
    return tuple(getattr(usage, name) for name in TOKENS)


def summed(responses: dict[bytes, tuple[object, ...]]) -> dict[tuple[object, ...], tuple[int, ...]]:
    """The roll-up that a ledger must have."""
    sums: dict[tuple[object, ...], list[int]] = {}
    for session, _, day, model, variant, _, *figures in responses.values():
        row = sums.setdefault((day, session, model, variant), [0] * (3 + len(TOKENS)))
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
    """When a session began and ended, and that it is a copy, is learnt bit by bit: the outcome is the same."""
    known = {n: session(n, born=None) for n in SESSIONS}
    final = {row.id: row for row in case.sessions()}
    with store.empty():
        for batch in case.batches():
            for number in data.draw(st.sets(st.sampled_from(SESSIONS)), label="more is known of"):
                _learn(known[number], final[number], data)
            store.write(batch, [known[number] for number in {claim.session for claim in batch}])
            assert store.rollup() == summed(store.responses())
        for number in data.draw(st.permutations(SESSIONS)):
            store.write([], [final[number]])
        assert store.responses() == expected(case)
        assert store.rollup() == summed(store.responses())


def _learn(row: Session, final: Session, data: st.DataObject) -> None:
    """A log grows: its end moves on, its beginning becomes known once."""
    if final.last_at is not None:
        row.last_at = max(row.last_at or 0, data.draw(st.integers(0, final.last_at)))
    if data.draw(st.booleans()):
        row.copied, row.born = final.copied, final.born


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


def test_a_resumed_session_owns_what_it_added(store: Store) -> None:
    """A copy with the beginning of its original takes nothing from it, in whatever order the two are read and grow."""
    for first, second in ((1, 2), (2, 1)):
        with store.empty():
            store.write([claim(first, 7)], [session(first, born=5, last_at=7)])
            store.write([claim(second, 7)], [session(second, born=5, last_at=7)])
            assert [entry[0] for entry in store.responses().values()] == [1]
            store.write([], [session(1, born=5, last_at=9)])
            assert list(store.rollup()) == [("day-0", 2, "m", "")]


def test_a_repeated_line_raises_what_is_known(store: Store) -> None:
    """It counts no mention, takes nothing over, and adds no response that no event told of."""
    with store.empty():
        again = claim(2, 9)._replace(copies=-1)
        store.write([again], [session(1, born=5), session(2, born=1)])
        assert store.rollup() == {}
        store.write([again, claim(1, 7)], [])
        store.write([again], [])
        assert store.rollup() == {("day-0", 1, "m", ""): (1, 0, 0, 10, 9, 0, 0, 0, 0, 0)}


def test_a_response_that_grows(store: Store) -> None:
    """Lines of one streaming response are merged by the largest output, not added."""
    with store.empty():
        store.write([claim(1, 1, estimated=True), claim(1, 7), claim(1, 5)], [session(1)])
        assert store.rollup() == {("day-0", 1, "m", ""): (1, 0, 2, 10, 7, 0, 0, 0, 0, 0)}


def test_a_fork_counts_nothing_of_what_it_copied(store: Store) -> None:
    """The original owns the response, whichever of the two logs is read first."""
    for first, second in ((1, 2), (2, 1)):
        with store.empty():
            logs = {1: session(1, born=5), 2: session(2, born=9)}
            store.write([claim(first, 7)], [logs[first]])
            store.write([claim(second, 7)], [logs[second]])
            assert list(store.rollup()) == [("day-0", 1, "m", "")]


def test_a_known_copy_never_owns(store: Store) -> None:
    """A fork whose log repeats the times of its original looks older; that it says it is a copy decides."""
    with store.empty():
        store.write([claim(1, 7)], [session(1, born=1, copied=True)])
        store.write([claim(2, 7)], [session(2, born=5)])
        assert list(store.rollup()) == [("day-0", 2, "m", "")]


def test_a_subagents_log_before_the_main_log(store: Store) -> None:
    """The subagent's log is read first, so the session's age is unknown; once known, it takes back what is its own."""
    with store.empty():
        store.write([claim(1, 7)], [session(1, born=None)])
        store.write([claim(2, 7)], [session(2, born=9)])
        assert list(store.rollup()) == [("day-0", 2, "m", "")]
        store.write([], [session(1, born=5)])
        assert store.rollup() == {("day-0", 1, "m", ""): (1, 0, 1, 10, 7, 0, 0, 0, 0, 0)}


def test_a_session_that_turns_out_to_be_a_copy(store: Store) -> None:
    """What it owned goes to the session that had it before, even if nothing is read of that one any more."""
    with store.empty():
        store.write([claim(1, 7)], [session(1, born=1)])
        store.write([claim(2, 7)], [session(2, born=5)])
        store.write([], [session(1, born=1, copied=True)])
        assert list(store.rollup()) == [("day-0", 2, "m", "")]
