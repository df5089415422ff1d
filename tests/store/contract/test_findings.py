"""Findings are those that one gets by looking at every span of every session."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from agenttrace.config import Settings
from agenttrace.model import USAGE_FIELDS, Price, Session, Usage
from agenttrace.prices.costing import Cashier
from agenttrace.prices.table import cost_numerator
from agenttrace.record.texts.call_changes import lost_tokens
from agenttrace.record.texts.session_texts import SessionTexts
from agenttrace.store.insights import (
    LONGEST_WAIT,
    LOOP_FAILURES,
    QUESTION_TOOLS,
    SHORTEST_WAIT,
    CacheQuery,
    FindingsQuery,
    InsightQuery,
    Rate,
    TurnQuery,
)
from agenttrace.store.questions import MAIN_STREAM, SpanRow
from agenttrace.store.store import Store
from agenttrace.views.findings import findings
from agenttrace.views.insights import InsightPeriod
from agenttrace.views.requests import Requests

from .machine import store_of
from .test_insights import Call, every_tool_call, few, matches, queries, seeds, stored_rows, tool_of
from .work import AGENT, random_work

#: In a thousandth of the currency for a million tokens, so that every price is another one.
PRICES = {
    "claude-sonnet-4-5": Price(model="", currency="USD", input=3_000_000, output=15_000_000, cache_read=300_000),
    "gpt-5": Price(model="", currency="CNY", input=1_250_000, output=10_000_000, cache_write=2_000_001),
}


def _asked(query: InsightQuery, limit: int) -> dict[str, object]:
    return {**{name: getattr(query, name) for name in InsightQuery.__struct_fields__}, "limit": limit}


@few
@given(seed=seeds, query=queries, limit=st.sampled_from((1, 3, 100)))
def test_failures_that_repeat(seed: int, query: InsightQuery, limit: int) -> None:
    """The same error of a tool in several sessions; and a tool that fails again and again in one turn."""
    with store_of(random_work(seed)) as store:
        calls = [call for call in every_tool_call(store) if matches(query, call) and call.row.status == "error"]
        asked = FindingsQuery(**_asked(query, limit))  # type: ignore[arg-type]
        same: dict[tuple[str, str], list[Call]] = {}
        turns: dict[tuple[int, bytes, str], list[Call]] = {}
        for call in calls:
            trace = store.span_rows(call.session)
            stored = next(row for row in trace if row.span_id == call.row.span_id)
            turn = (call.session.id, str(stored.turn_index).encode() + stored.stream.encode(), tool_of(call))
            turns.setdefault(turn, []).append(call)
            if call.error:
                same.setdefault((tool_of(call), call.error), []).append(call)
        expected = {key: group for key, group in same.items() if len({call.session.id for call in group}) > 1}
        found = store.repeated_failures(asked)
        assert len(found) == min(limit, len(expected))
        assert [each.failures for each in found] == sorted((len(g) for g in expected.values()), reverse=True)[:limit]
        for each in found:
            group = expected[each.tool, each.error]
            lengths = [call.ms for call in group if call.ms is not None]
            assert each[2:7] == (
                len(group),
                len({call.session.id for call in group}),
                min(call.row.start for call in group),
                max(call.row.start for call in group),
                sum(lengths) if lengths else None,
            )
            latest = sorted(group, key=lambda call: (-call.row.start, call.row.span_id))[:5]
            assert [call.span_id for call in each.calls] == [call.row.span_id for call in latest]
        loops = [group for group in turns.values() if len(group) >= LOOP_FAILURES]
        runs = store.failed_in_a_turn(asked)
        assert [run.failures for run in runs] == sorted(map(len, loops), reverse=True)[:limit]
        spans = {frozenset(call.row.span_id for call in group) for group in loops}
        for run in runs:
            assert frozenset(call.span_id for call in run.calls) in spans
            assert [call.at for call in run.calls] == sorted(call.at for call in run.calls)


@few
@given(seed=seeds)
def test_loops_are_failures_with_the_same_arguments(seed: int) -> None:
    """A tool that fails at least three times in a turn with the same arguments, and what the retries cost."""
    logs = random_work(seed)
    given_to = {
        (line["session"], line["id"]): msgspec.json.encode(line["arguments"])
        for lines in logs.values()
        for line in lines
        if line["type"] == "tool.begin"
    }
    with store_of(logs) as store:
        groups: dict[tuple[int, str, int, str, bytes], list[Call]] = {}
        for call in every_tool_call(store):
            if call.row.status == "error":
                name = msgspec.json.decode(call.row.attributes or "{}")["call"]
                place = (call.session.id, call.row.stream, call.row.turn_index, tool_of(call))
                groups.setdefault((*place, given_to[call.session.session_id, name]), []).append(call)
        expected = [group for group in groups.values() if len(group) >= LOOP_FAILURES]
        cashier = Cashier.load(Settings(home=Path("/nowhere")))
        found = findings(store, cashier, SessionTexts(), InsightPeriod(), kinds=["retry_loop"], limit=100).items
        spans = {frozenset(call.row.span_id.hex() for call in group): group for group in expected}
        assert {frozenset(span.span_id or "" for span in each.spans) for each in found} == spans.keys()
        for each in found:
            group = sorted(spans[frozenset(span.span_id or "" for span in each.spans)], key=lambda call: call.row.start)
            rows = {row.span_id: row for row in store.span_rows(group[0].session)}
            assert (each.count, each.tool) == (len(group), tool_of(group[0]))
            # Of calls that began at the same moment, either may be the first.
            if len({call.row.start for call in group}) == len(group):
                asked = {call.row.parent_id for call in group[1:]}
                usages = [rows[asker].usage for asker in asked if asker and rows[asker].counted]
                assert each.tokens == sum(usage.total for usage in usages if usage)


@few
@given(seed=seeds, query=queries, limit=st.sampled_from((2, 100)))
def test_cache_losses(seed: int, query: InsightQuery, limit: int) -> None:
    """Calls that read less from the cache than the call before left in it."""
    with store_of(random_work(seed)) as store:
        expected = []
        for session, rows in stored_rows(store):
            before: dict[str, SpanRow] = {}
            for row in rows:
                usage = row.usage
                if row.kind != "step" or usage is None or not usage.total - usage.output_tokens:
                    continue
                last = before.get(row.stream)
                before[row.stream] = row
                lost = 0 if last is None or last.usage is None else lost_tokens(last.usage, usage)
                call = Call(session, row, row.billed_model or "", None, None)
                if lost and last is not None and row.counted and matches(query, call):
                    expected.append((session.id, row.span_id, row.start, lost, row.start - last.start))
        asked = CacheQuery(**_asked(query, limit))  # type: ignore[arg-type]
        found = [
            (each.session, each.span_id, each.at, each.lost_tokens, each.pause) for each in store.cache_losses(asked)
        ]
        expected.sort(key=lambda each: (-each[3], -each[2], each[1]))
        assert found == expected[:limit]
        assert store.cache_losses(msgspec.structs.replace(asked, without_agents=frozenset((AGENT,)))) == []


@few
@given(seed=seeds)
def test_cache_losses_are_those_of_the_requests(seed: int) -> None:
    """What the Requests view of a session finds, where its calls have times to be ordered by."""
    with store_of(random_work(seed)) as store:
        found = store.cache_losses(CacheQuery(limit=1_000))
        for session in store.sessions():
            starts = [row.start for row in store.span_rows(session) if row.kind == "step"]
            if session.parent is None and len(set(starts)) == len(starts):
                shown = {call.span_id: call.cache_lost for call in Requests.of(store, session).calls if call.cache_lost}
                assert {each.span_id: each.lost_tokens for each in found if each.session == session.id} == shown


def _rates(store: Store) -> Iterator[Rate]:
    for row in store.usage():
        price = PRICES.get(row.model)
        if price is not None:
            read = price.input if price.cache_read is None else price.cache_read
            write = price.input if price.cache_write is None else price.cache_write
            yield Rate(
                row.model, row.day, row.variant, price.currency, price.input, price.output, read, write, write, 0
            )


@few
@given(seed=seeds, query=queries, limit=st.sampled_from((2, 100)))
def test_expensive_turns(seed: int, query: InsightQuery, limit: int) -> None:
    """What the calls of a turn cost together, those of its subagents included; the most expensive of each currency."""
    with store_of(random_work(seed)) as store:
        costs: dict[tuple[int, bytes, str], list[tuple[int, Usage]]] = {}
        for session, rows in stored_rows(store):
            for row in rows:
                price, usage = PRICES.get(row.billed_model or ""), row.usage
                call = Call(session, row, row.billed_model or "", None, None)
                if row.kind == "step" and usage and price and row.counted and matches(query, call):
                    # ``span_rows`` already names the trace of the turn that the work was done for.
                    turn = (session.id, row.trace_id, price.currency)
                    costs.setdefault(turn, []).append((cost_numerator(price, usage), usage))
        asked = TurnQuery(**_asked(query, limit), rates=list(_rates(store)))  # type: ignore[arg-type]
        found = store.expensive_turns(asked)
        for currency in ("CNY", "USD"):
            own = {turn: calls for turn, calls in costs.items() if turn[2] == currency and any(c for c, _ in calls)}
            told = [each for each in found if each.currency == currency]
            sums = sorted((sum(cost for cost, _ in calls) for calls in own.values()), reverse=True)
            assert [each.numerator for each in told] == sums[:limit]
            for each in told:
                calls = own[each.session, each.trace_id, currency]
                assert each.requests == len(calls)
                assert each.usage == Usage(
                    **{name: sum(getattr(usage, name) for _, usage in calls) for name in USAGE_FIELDS}
                )


def _waits(session: Session, rows: list[SpanRow]) -> Iterator[tuple[int, bytes, int, int, str]]:
    copied = {row.turn_index for row in rows if not row.counted and row.stream == MAIN_STREAM}
    turns = [row for row in rows if row.kind == "turn" and row.stream == MAIN_STREAM]
    for last, row in itertools.pairwise(turns):
        own = row.attributes is None or "origin" not in msgspec.json.decode(row.attributes)
        if own and last.status in ("ok", "error") and last.end is not None and row.turn_index not in copied:
            yield session.id, row.span_id, row.start, row.start - last.end, ""
    for row in rows:
        tool = row.name.removeprefix("execute_tool ")
        ended = row.end is not None and row.status in ("ok", "error", "cancelled")
        if row.kind == "tool" and tool in QUESTION_TOOLS and ended and row.turn_index not in copied:
            yield session.id, row.span_id, row.start, (row.end or 0) - row.start, tool


@few
@given(seed=seeds, query=queries, limit=st.sampled_from((2, 100)))
def test_waits_for_the_user(seed: int, query: InsightQuery, limit: int) -> None:
    """From the end of a turn to the next prompt, and while a tool asks; neither short ones nor breaks."""
    with store_of(random_work(seed)) as store:
        expected = []
        for session, rows in stored_rows(store):
            models = {row.model for each in store.usage_by_session([session.id]).values() for row in each}
            call = Call(session, rows[0], next(iter(sorted(models & query.models)), ""), None, None) if rows else None
            if call is None or (query.models and not models & query.models):
                continue
            for wait in _waits(session, rows):
                placed = call._replace(row=call.row._replace(start=wait[2]))
                if SHORTEST_WAIT <= wait[3] < LONGEST_WAIT and matches(query, placed):
                    expected.append(wait)
        expected.sort(key=lambda each: (-each[3], -each[2], each[1]))
        asked = FindingsQuery(**_asked(query, limit))  # type: ignore[arg-type]
        found = [(each.session, each.span_id, each.at, each.wait_ms, each.tool) for each in store.user_waits(asked)]
        assert found == [(*each[:3], each[3] // 1000, each[4]) for each in expected[:limit]]
