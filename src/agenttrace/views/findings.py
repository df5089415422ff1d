"""Findings: what stands out in many sessions, computed without a model. Shared by CLI, API and MCP."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from agenttrace.model import Price
from agenttrace.prices.parsing import MILLION, half_up
from agenttrace.prices.table import displayed
from agenttrace.record.formats.context import canonical
from agenttrace.store.insights import (
    LOOP_FAILURES,
    CacheLoss,
    CacheQuery,
    FailedCalls,
    FindingsQuery,
    InsightCall,
    InsightQuery,
    Rate,
    RepeatedFailure,
    TurnCost,
    TurnQuery,
    UserWait,
)
from agenttrace.store.questions import UsageRow
from agenttrace.views import figures
from agenttrace.views.insights import KINDS, FindingKind, InsightPeriod, InsightSpan, SpanLinks
from agenttrace.views.plain import one_line
from agenttrace.views.spans import joined
from agenttrace.views.times import iso

if TYPE_CHECKING:
    from agenttrace.model import Session
    from agenttrace.prices.costing import Bill, Cashier
    from agenttrace.record.texts.session_texts import SessionTexts
    from agenttrace.store.questions import SpanRow
    from agenttrace.store.store import Store


#: Turns whose arguments are read, for each loop that is wanted.
_CANDIDATES = 3
_ARGUMENT_CHARS, _ERROR_CHARS = 300, 160
#: Programs that send spans: their model calls are not one conversation.
_NO_CONVERSATION = frozenset({"otlp"})


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """Something that stands out, how much it cost, and where it is."""

    kind: FindingKind
    #: A sentence.
    text: str
    tool: str | None = None
    model: str | None = None
    error: str | None = None
    #: What the tool was given, where it was always the same.
    arguments: str | None = None
    #: Failures, or model calls.
    count: int
    sessions: int
    #: Counted from 1; null where it is not about one turn.
    turn: int | None = None
    #: Tokens that it cost; null where that is not known.
    tokens: int | None = None
    #: Money that it cost, by currency.
    costs: dict[str, float] = {}
    #: Time that it took, in milliseconds; null where the log does not say.
    duration_ms: int | None = None
    #: Since the model call before, where a cache broke.
    pause_ms: int | None = None
    first_at: str | None
    last_at: str | None
    #: The latest or the most important ones.
    spans: list[InsightSpan]


class Findings(msgspec.Struct, frozen=True, kw_only=True):
    """What stands out, by kind; in each, what cost most first."""

    items: list[Finding]


def findings(
    store: Store,
    cashier: Cashier,
    texts: SessionTexts,
    period: InsightPeriod,
    *,
    kinds: Iterable[FindingKind] = KINDS,
    limit: int = 10,
) -> Findings:
    """What stands out."""
    finder = _Finder(store, cashier, texts, period, limit)
    return Findings(items=[each for kind in KINDS if kind in set(kinds) for each in finder.find(kind)])


class _Finder:
    def __init__(self, store: Store, cashier: Cashier, texts: SessionTexts, period: InsightPeriod, limit: int) -> None:
        self._store, self._cashier, self._texts, self._period, self._limit = store, cashier, texts, period, limit
        self._query = period.query(cashier.settings.timezone)

    def find(self, kind: FindingKind) -> list[Finding]:
        finders: dict[FindingKind, Callable[[], Iterable[Finding]]] = {
            "retry_loop": self._loops,
            "repeated_failure": self._repeated,
            "cache_break": self._breaks,
            "expensive_turn": self._turns,
            "long_wait": self._waits,
        }
        return list(finders[kind]())

    def _asked(self, **more: Any) -> dict[str, Any]:  # noqa: ANN401 - fields of a question
        shared = {name: getattr(self._query, name) for name in InsightQuery.__struct_fields__}
        return {**shared, "limit": self._limit, **more}

    def _links(self, numbers: Iterable[int]) -> SpanLinks:
        return SpanLinks(self._store, list(numbers))

    # -- failures --------------------------------------------------------------------------------------------------

    def _loops(self) -> list[Finding]:
        """The same tool with the same arguments, failing again and again in one turn."""
        runs = self._store.failed_in_a_turn(FindingsQuery(**self._asked(limit=self._limit * _CANDIDATES)))
        links = self._links(run.session for run in runs)
        found: list[Finding] = []
        for run in runs:
            session = links.session(run.session)
            if session is not None:
                found += self._loops_of(session, run, links)
        found.sort(key=lambda each: each.count, reverse=True)
        return found[: self._limit]

    def _loops_of(self, session: Session, run: FailedCalls, links: SpanLinks) -> Iterator[Finding]:
        said = self._texts.contents(self._store, session, [call.span_id for call in run.calls])
        groups: dict[bytes, list[tuple[InsightCall, str]]] = {}
        for call in run.calls:
            arguments = joined(said.get(call.span_id, ()), "arguments", "arguments_part")
            if arguments is not None:
                groups.setdefault(_canonical(arguments), []).append((call, arguments))
        for group in groups.values():
            if len(group) >= LOOP_FAILURES:
                yield self._loop(session, run, [call for call, _ in group], group[0][1], links)

    def _loop(
        self, session: Session, run: FailedCalls, calls: list[InsightCall], arguments: str, links: SpanLinks
    ) -> Finding:
        bill = self._bill_of_calls(session, calls[1:])
        given = one_line(arguments, _ARGUMENT_CHARS)
        return Finding(
            kind="retry_loop",
            text=f"{run.tool} failed {len(calls)} times with the same arguments in turn {run.turn_index + 1}: {given}",
            tool=run.tool,
            error=calls[-1].error,
            arguments=given,
            count=len(calls),
            sessions=1,
            turn=run.turn_index + 1,
            tokens=bill.all_tokens,
            costs=bill.amounts,
            duration_ms=_sum(call.duration_ms for call in calls),
            first_at=iso(calls[0].at or None),
            last_at=iso(calls[-1].at or None),
            spans=links.calls(calls),
        )

    def _bill_of_calls(self, session: Session, calls: Sequence[InsightCall]) -> Bill:
        """What the model calls cost that asked for these tool calls."""
        own = self._store.spans_by_id(session, [call.span_id for call in calls], attributes=False)
        askers = {row.parent_id for row in own.values() if row.parent_id is not None}
        rows = self._store.spans_by_id(session, sorted(askers), attributes=False) if askers else {}
        return self._cashier.bill(_usage_rows(rows.values()))

    def _repeated(self) -> list[Finding]:
        """The same error of a tool in several sessions."""
        rows = self._store.repeated_failures(FindingsQuery(**self._asked()))
        links = self._links(call.session for row in rows for call in row.calls)
        return [_repeated(row, links) for row in rows]

    # -- tokens ----------------------------------------------------------------------------------------------------

    def _breaks(self) -> list[Finding]:
        """Where the prompt cache broke."""
        losses = self._store.cache_losses(CacheQuery(**self._asked(), without_agents=_NO_CONVERSATION))
        links = self._links(loss.session for loss in losses)
        return [self._break(loss, links) for loss in losses]

    def _break(self, loss: CacheLoss, links: SpanLinks) -> Finding:
        price = self._cashier.prices.price(loss.model, loss.day, loss.variant)
        pause = f", {figures.duration(loss.pause)} after the call before" if loss.pause > 0 else ""
        turn = loss.turn_index + 1
        return Finding(
            kind="cache_break",
            text=f"{figures.tokens(loss.lost_tokens)} cached tokens were sent again in turn {turn}{pause}.",
            model=loss.model,
            count=1,
            sessions=1,
            turn=turn,
            tokens=loss.lost_tokens,
            costs={} if price is None else self._amount(_sent_again(price, loss), price.currency),
            pause_ms=max(0, loss.pause) // 1000,
            first_at=iso(loss.at or None),
            last_at=iso(loss.at or None),
            spans=_known(links.span(loss.session, loss.span_id, loss.at, loss.turn_index)),
        )

    def _turns(self) -> list[Finding]:
        """The most expensive turns of each currency, the user's currency first."""
        rates = list(_rates(self._cashier, self._store.usage(self._period.usage(None))))
        rows = self._store.expensive_turns(TurnQuery(**self._asked(), rates=rates)) if rates else []
        links = self._links(row.session for row in rows)
        found = [self._turn(row, links) for row in rows]
        own, ranked = self._cashier.settings.currency, list[Finding]()
        currencies = {currency for each in found for currency in each.costs}
        for shown in sorted(currencies, key=lambda currency: (currency != own, currency)):
            alike = [each for each in found if shown in each.costs]
            ranked += sorted(alike, key=lambda each: each.costs[shown], reverse=True)[: self._limit]
        return ranked

    def _turn(self, row: TurnCost, links: SpanLinks) -> Finding:
        costs = self._amount(row.numerator, row.currency)
        money = " + ".join(figures.money(round(cost * MILLION), currency) for currency, cost in costs.items())
        calls = figures.counted(row.requests, "model call")
        turn = row.turn_index + 1
        return Finding(
            kind="expensive_turn",
            text=f"Turn {turn} cost {money}: {calls}, {figures.tokens(row.usage.total)} tokens.",
            count=row.requests,
            sessions=1,
            turn=turn,
            tokens=row.usage.total,
            costs=costs,
            duration_ms=row.duration_ms,
            first_at=iso(row.at or None),
            last_at=iso(row.at or None),
            spans=_known(links.span(row.session, row.span_id, row.at, row.turn_index, duration_ms=row.duration_ms)),
        )

    def _amount(self, numerator: int, currency: str) -> dict[str, float]:
        micros, shown = displayed(half_up(numerator, MILLION), currency, self._cashier.settings)
        return {shown: micros / MILLION}

    # -- time ------------------------------------------------------------------------------------------------------

    def _waits(self) -> list[Finding]:
        """Where agents waited for the user."""
        rows = self._store.user_waits(FindingsQuery(**self._asked()))
        links = self._links(row.session for row in rows)
        return [_wait(row, links) for row in rows]


def _canonical(arguments: str) -> bytes:
    """Arguments as they are compared: the order of the keys of an object means nothing."""
    try:
        value = msgspec.json.decode(arguments)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return arguments.encode("utf-8", "surrogatepass")
    return canonical(value) or arguments.encode("utf-8", "surrogatepass")


def _usage_rows(rows: Iterable[SpanRow]) -> Iterator[UsageRow]:
    for row in rows:
        usage = row.usage if row.counted else None
        if usage is not None:
            yield UsageRow("", row.billed_model or "", 1, 0, 0, usage, "", row.day or "", row.variant or "")


def _sum(values: Iterable[int | None]) -> int | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def _known(span: InsightSpan | None) -> list[InsightSpan]:
    return [] if span is None else [span]


def _repeated(row: RepeatedFailure, links: SpanLinks) -> Finding:
    failed = f"{row.tool} failed {figures.count(row.failures)} times in {figures.count(row.sessions)} sessions"
    return Finding(
        kind="repeated_failure",
        text=f"{failed} with the same error: {one_line(row.error, _ERROR_CHARS)}",
        tool=row.tool,
        error=row.error,
        count=row.failures,
        sessions=row.sessions,
        duration_ms=row.total_ms,
        first_at=iso(row.first_at or None),
        last_at=iso(row.last_at or None),
        spans=links.calls(row.calls),
    )


def _sent_again(price: Price, loss: CacheLoss) -> int:
    """What lost tokens cost more than reading them from the cache, in millionths of a millionth."""
    read = price.input if price.cache_read is None else price.cache_read
    write = price.input if price.cache_write is None else price.cache_write
    return loss.lost_tokens * max(0, (write if loss.wrote else price.input) - read)


def _rates(cashier: Cashier, rows: Iterable[UsageRow]) -> Iterator[Rate]:
    """What the tokens of these rows cost, of models that have a price."""
    for model, day, variant in {(row.model, row.day, row.variant) for row in rows}:
        price = cashier.prices.price(model, day, variant)
        if price is not None:
            read = price.input if price.cache_read is None else price.cache_read
            write = price.input if price.cache_write is None else price.cache_write
            an_hour = write if price.cache_write_1h is None else price.cache_write_1h
            yield Rate(
                model,
                day,
                variant,
                price.currency,
                price.input,
                price.output,
                read,
                write,
                an_hour,
                price.web_search or 0,
            )


def _wait(row: UserWait, links: SpanLinks) -> Finding:
    turn, length = row.turn_index + 1, figures.duration(row.wait_ms * 1000)
    text = f"{row.tool} waited {length} for an answer in turn {turn}." if row.tool else ""
    return Finding(
        kind="long_wait",
        text=text or f"Waited {length} for the prompt of turn {turn}.",
        tool=row.tool or None,
        count=1,
        sessions=1,
        turn=turn,
        duration_ms=row.wait_ms,
        first_at=iso(row.at or None),
        last_at=iso(row.at or None),
        spans=_known(links.span(row.session, row.span_id, row.at, row.turn_index)),
    )
