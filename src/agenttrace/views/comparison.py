"""Two sessions side by side: turns, tools, files, models, tokens and cost; shared by CLI, API and MCP."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from agenttrace.ids import session_key
from agenttrace.prices.costing import TOKEN_FIELDS, Bill, Cashier, cost_of
from agenttrace.record.outcomes import session_facts
from agenttrace.store.questions import MAIN_STREAM
from agenttrace.views.outcomes import outcomes_of
from agenttrace.views.sessions import title_of
from agenttrace.views.times import iso

if TYPE_CHECKING:
    from agenttrace.model import Session
    from agenttrace.store.questions import SpanRow
    from agenttrace.store.store import Store
    from agenttrace.views.outcomes import SessionOutcomes

_UNKNOWN = "unknown"


class Spent(msgspec.Struct, frozen=True, kw_only=True):
    """Tokens by kind, and their cost."""

    #: Neither read from nor written to a cache.
    input_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    output_tokens: int = 0
    #: Part of ``output_tokens``.
    reasoning_tokens: int = 0
    requests: int = 0
    #: By currency.
    costs: dict[str, float] = {}
    #: Tokens without a known price: their cost is unknown, not zero.
    unpriced_tokens: int = 0


class ToolFigures(msgspec.Struct, frozen=True, kw_only=True):
    """The calls of a tool."""

    calls: int = 0
    failed: int = 0
    #: All calls together, in milliseconds.
    duration_ms: float = 0


class FileFigures(msgspec.Struct, frozen=True, kw_only=True):
    """What a session changed in a file."""

    changes: int
    #: ``None`` where the log names the file only.
    added: int | None
    removed: int | None


class TurnFigures(msgspec.Struct, frozen=True, kw_only=True):
    """A turn with everything in it."""

    span_id: str
    #: Milliseconds since the session began.
    start_ms: float
    #: ``None`` while it goes on.
    duration_ms: float | None
    steps: int
    tools: int
    failed: int
    tokens: int
    costs: dict[str, float]
    unpriced_tokens: int


class ToolComparison(msgspec.Struct, frozen=True, kw_only=True):
    """A tool in both sessions."""

    name: str
    a: ToolFigures
    b: ToolFigures


class FileComparison(msgspec.Struct, frozen=True, kw_only=True):
    """A changed file; null where a session did not change it."""

    path: str
    a: FileFigures | None
    b: FileFigures | None


class ModelComparison(msgspec.Struct, frozen=True, kw_only=True):
    """A model in both sessions."""

    model: str
    a: Spent
    b: Spent


class TurnComparison(msgspec.Struct, frozen=True, kw_only=True):
    """The turns of the same number; null where a session has fewer."""

    number: int
    a: TurnFigures | None
    b: TurnFigures | None


class ComparedSession(msgspec.Struct, frozen=True, kw_only=True):
    """One of the two sessions."""

    key: str
    session_id: str
    agent: str
    title: str | None
    project: str | None
    branch: str | None
    state: str
    started_at: str | None
    last_at: str | None
    #: From the first to the last event; ``None`` where the log has no times.
    duration_ms: float | None
    #: All turns together.
    active_ms: float
    turns: int
    steps: int
    tools: int
    errors: int
    spent: Spent
    files: int
    added: int | None
    removed: int | None
    commits: int


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """Two sessions side by side."""

    a: ComparedSession
    b: ComparedSession
    #: By number.
    turns: list[TurnComparison]
    #: The most called first.
    tools: list[ToolComparison]
    #: Those that both changed first, then by path.
    files: list[FileComparison]
    #: The one with the most tokens first.
    models: list[ModelComparison]


def compare(store: Store, cashier: Cashier, a: Session, b: Session) -> Comparison:
    """Two sessions side by side, as their logs have them; to be asked in a snapshot of the store."""
    return side_by_side(read_side(store, cashier, a), read_side(store, cashier, b))


def side_by_side(one: Side, other: Side) -> Comparison:
    """Two sessions that were read."""
    no_tool, nothing = ToolFigures(), Spent()
    tools = [
        ToolComparison(name=name, a=one.tools.get(name, no_tool), b=other.tools.get(name, no_tool))
        for name in _names(one.tools, other.tools)
    ]
    models = [
        ModelComparison(model=name, a=one.models.get(name, nothing), b=other.models.get(name, nothing))
        for name in _names(one.models, other.models)
    ]
    files = [
        FileComparison(path=path, a=one.files.get(path), b=other.files.get(path))
        for path in _names(one.files, other.files)
    ]
    return Comparison(
        a=one.session,
        b=other.session,
        turns=_turns(one.turns, other.turns),
        tools=sorted(tools, key=lambda tool: (-tool.a.calls - tool.b.calls, tool.name)),
        files=sorted(files, key=lambda file: (file.a is None or file.b is None, file.path)),
        models=sorted(models, key=lambda model: (-_tokens(model.a) - _tokens(model.b), model.model)),
    )


def _names(one: Iterable[str], other: Iterable[str]) -> list[str]:
    return list(dict.fromkeys([*one, *other]))


def _tokens(spent: Spent) -> int:
    return spent.input_tokens + spent.cache_read_tokens + spent.cache_write_tokens + spent.output_tokens


def _turns(one: Sequence[TurnFigures], other: Sequence[TurnFigures]) -> list[TurnComparison]:
    def at(turns: Sequence[TurnFigures], index: int) -> TurnFigures | None:
        return turns[index] if index < len(turns) else None

    longest = max(len(one), len(other))
    return [TurnComparison(number=index + 1, a=at(one, index), b=at(other, index)) for index in range(longest)]


# -- one of them --------------------------------------------------------------------------------------------------


class Side(NamedTuple):
    """What is compared of a session."""

    session: ComparedSession
    turns: list[TurnFigures]
    tools: Mapping[str, ToolFigures]
    files: Mapping[str, FileFigures]
    models: Mapping[str, Spent]


def read_side(store: Store, cashier: Cashier, session: Session) -> Side:
    """What is compared of a session: takes a pass over all its lines."""
    rows = list(store.span_rows(session))
    usage = store.usage_by_session([session.id]).get(session.id, [])
    outcomes = outcomes_of(session, session_facts(store, session), repository=False)
    turns = _turn_figures(rows, cashier, session.started_at)
    bills = cashier.by_group(usage, lambda row: row.model or _UNKNOWN)
    return Side(
        session=_compared(session, cashier.bill(usage), outcomes, turns),
        turns=turns,
        tools=_tool_figures(rows),
        files={
            file.path: FileFigures(changes=file.changes, added=file.added, removed=file.removed)
            for file in outcomes.files
        },
        models={model: _spent(bill) for model, bill in bills.items()},
    )


def _compared(session: Session, bill: Bill, outcomes: SessionOutcomes, turns: list[TurnFigures]) -> ComparedSession:
    known = session.started_at is not None and session.last_at is not None
    return ComparedSession(
        key=session_key(session.id),
        session_id=session.session_id,
        agent=session.agent,
        title=title_of(session) or None,
        project=session.project,
        branch=session.branch,
        state=session.state,
        started_at=iso(session.started_at),
        last_at=iso(session.last_at),
        duration_ms=_ms(session.started_at, session.last_at) if known else None,
        active_ms=sum(turn.duration_ms or 0 for turn in turns),
        turns=session.turns,
        steps=session.steps,
        tools=session.tools,
        errors=session.errors,
        spent=_spent(bill),
        files=len(outcomes.files),
        added=outcomes.added,
        removed=outcomes.removed,
        commits=len(outcomes.commits),
    )


def _spent(bill: Bill) -> Spent:
    tokens: dict[str, Any] = {name: bill.tokens[name] for name in TOKEN_FIELDS}
    return Spent(**tokens, requests=bill.requests, costs=bill.amounts, unpriced_tokens=bill.unpriced_tokens)


def _ms(start: int | None, end: int | None) -> float:
    return max((end or 0) - (start or 0), 0) / 1000


def _tool_figures(rows: Iterable[SpanRow]) -> dict[str, ToolFigures]:
    found: dict[str, list[float]] = {}
    for row in rows:
        if row.kind != "tool":
            continue
        sums = found.setdefault(row.name.removeprefix("execute_tool "), [0, 0, 0])
        sums[0] += 1
        sums[1] += row.status == "error"
        sums[2] += 0 if row.end is None else _ms(row.start, row.end)
    return {
        name: ToolFigures(calls=int(calls), failed=int(failed), duration_ms=ms)
        for name, (calls, failed, ms) in found.items()
    }


def _turn_figures(rows: Sequence[SpanRow], cashier: Cashier, began: int | None) -> list[TurnFigures]:
    """The turns of the main conversation; what subagents did counts in the turn that started them."""
    inside: dict[bytes, list[SpanRow]] = {}
    top = _tops(rows)
    for row in rows:
        inside.setdefault(top[row.span_id], []).append(row)
    turns = [row for row in rows if row.kind == "turn" and row.parent_id is None and row.stream == MAIN_STREAM]
    start = began if began is not None else min((row.start for row in turns), default=0)
    return [_turn(row, inside[row.span_id], cashier, start) for row in turns]


def _tops(rows: Iterable[SpanRow]) -> dict[bytes, bytes]:
    """The outermost span around each; a span that is its own ancestor is in itself."""
    parents = {row.span_id: row.parent_id for row in rows}
    found: dict[bytes, bytes] = {}
    for span in parents:
        path = [span]
        while True:
            up = parents.get(path[-1])
            if up is None or up not in parents or up in path:
                top = path[-1]
                break
            if up in found:
                top = found[up]
                break
            path.append(up)
        found.update(dict.fromkeys(path, top))
    return found


def _turn(turn: SpanRow, rows: Sequence[SpanRow], cashier: Cashier, began: int) -> TurnFigures:
    costs: dict[str, float] = {}
    tokens = unpriced = 0
    for row in rows:
        usage = row.usage if row.counted else None
        if usage is None:
            continue
        tokens += usage.total
        cost, currency = cost_of(row, cashier)
        if cost is None or currency is None:
            unpriced += usage.total
        else:
            costs[currency] = costs.get(currency, 0) + cost
    return TurnFigures(
        span_id=turn.span_id.hex(),
        start_ms=_ms(began, turn.start),
        duration_ms=None if turn.end is None else _ms(turn.start, turn.end),
        steps=sum(row.kind == "step" for row in rows),
        tools=sum(row.kind == "tool" for row in rows),
        failed=sum(row.status == "error" for row in rows),
        tokens=tokens,
        costs=costs,
        unpriced_tokens=unpriced,
    )
