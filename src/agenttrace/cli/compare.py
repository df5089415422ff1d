"""``agenttrace compare``: two sessions side by side."""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING, Annotated, NamedTuple, TypeVar

import typer

from agenttrace.cli import opening, output
from agenttrace.cli.columns import Column, print_table
from agenttrace.cli.options import AsJson
from agenttrace.cli.sessions import find_one
from agenttrace.views import figures
from agenttrace.views.model_names import model_name
from agenttrace.views.plain import one_line

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from agenttrace.views.comparison import (
        ComparedSession,
        Comparison,
        FileComparison,
        FileFigures,
        ModelComparison,
        Spent,
        ToolComparison,
        TurnComparison,
    )

EPILOG = """
  agenttrace compare 5bc45ad6 01aa39ff           the beginning of an id is enough
  agenttrace compare 5bc45ad6 01aa39ff --json | jq '.tools[] | select(.a.failed != .b.failed)'

The difference is what B has more (▲) or less (▼) than A; = where they are equal. Files are what the logs say.
"""

T = TypeVar("T")

#: Turns that are listed.
_MOST_TURNS = 40
_TOKENS = {
    "input_tokens": "input",
    "cache_read_tokens": "cache read",
    "cache_write_tokens": "cache write",
    "output_tokens": "output",
    "reasoning_tokens": "reasoning",
}


def compare(
    a: Annotated[str, typer.Argument(metavar="A", help="A session's id, or the beginning of one.")],
    b: Annotated[str, typer.Argument(metavar="B", help="The session to compare it with.")],
    as_json: AsJson = False,
) -> None:
    """Compare two sessions: turns, tools, files, models, tokens and cost."""
    import msgspec

    from agenttrace.prices.costing import Cashier
    from agenttrace.views.comparison import compare as compared

    settings = opening.settings()
    with opening.shown_store(settings) as store, store.snapshot():
        found = compared(store, Cashier.load(settings), find_one(store, a), find_one(store, b))
    if as_json:
        output.print_json(msgspec.to_builtins(found))
    else:
        _show(found)


class _Figure(NamedTuple):
    name: str
    a: str
    b: str
    difference: str


def _show(found: Comparison) -> None:
    for letter, session in (("A", found.a), ("B", found.b)):
        output.say(f"{letter}  {one_line(session.title or '') or '(no title)'}", "bold")
        output.say(f"   {session.session_id}  {session.agent}  {one_line(session.project or '')}".rstrip(), "dim")
    output.say()
    print_table(_FIGURES, _figures(found.a, found.b))
    _table(_TOOLS, found.tools)
    _table(_MODELS, found.models)
    _table(_FILES, found.files)
    _table(_TURNS, found.turns[:_MOST_TURNS])
    if len(found.turns) > _MOST_TURNS:
        output.note(f"{len(found.turns) - _MOST_TURNS} more turns: --json has all of them")


def _table(columns: Sequence[Column[T]], rows: Sequence[T]) -> None:
    if rows:
        output.say()
        print_table(columns, rows)


def _figures(a: ComparedSession, b: ComparedSession) -> list[_Figure]:
    def number(name: str, of: Callable[[ComparedSession], int | None], show: Callable[[int], str]) -> _Figure:
        one, other = of(a), of(b)
        texts = ["–" if each is None else show(each) for each in (one, other)]
        unknown = one is None or other is None
        return _Figure(name, texts[0], texts[1], "" if unknown else difference((other or 0) - (one or 0), show))

    def micros(ms: float | None) -> int | None:
        return None if ms is None else round(ms * 1000)

    tokens = [number(name, attrgetter(f"spent.{field}"), figures.tokens) for field, name in _TOKENS.items()]
    return [
        number("duration", lambda each: micros(each.duration_ms), figures.duration),
        number("in turns", lambda each: micros(each.active_ms), figures.duration),
        number("turns", lambda each: each.turns, figures.count),
        number("model calls", lambda each: each.steps, figures.count),
        number("tool calls", lambda each: each.tools, figures.count),
        number("errors", lambda each: each.errors, figures.count),
        *tokens,
        *_costs(a.spent, b.spent),
        number("files changed", lambda each: each.files, figures.count),
        number("lines added", lambda each: each.added, figures.count),
        number("lines removed", lambda each: each.removed, figures.count),
        number("commits", lambda each: each.commits, figures.count),
    ]


def difference(number: int, show: Callable[[int], str]) -> str:
    """``▲ +3``, ``▼ -3`` or ``=``: the sign says it without colour."""
    if number == 0:
        return "="
    return f"▲ +{show(number)}" if number > 0 else f"▼ -{show(-number)}"


def _costs(a: Spent, b: Spent) -> Iterable[_Figure]:
    for currency in dict.fromkeys([*a.costs, *b.costs]):

        def show(micros: int, currency: str = currency) -> str:
            return figures.money(micros, currency)

        one, other = (_micros(each, currency) for each in (a, b))
        texts = ["?" if each is None else show(each) for each in (one, other)]
        unknown = one is None or other is None
        yield _Figure("cost", texts[0], texts[1], "?" if unknown else difference((other or 0) - (one or 0), show))
    if a.unpriced_tokens or b.unpriced_tokens:
        one, other = a.unpriced_tokens, b.unpriced_tokens
        yield _Figure(
            "without a price",
            figures.tokens(one),
            figures.tokens(other),
            difference(other - one, figures.tokens),
        )


def _micros(spent: Spent, currency: str) -> int | None:
    """The cost in a currency; ``None`` where there is none because nothing has a price."""
    known = spent.costs.get(currency)
    if known is None:
        return None if spent.unpriced_tokens else 0
    return round(known * 1e6)


_FIGURES: tuple[Column[_Figure], ...] = (
    Column("", lambda row: row.name),
    Column("A", lambda row: row.a, right=True),
    Column("B", lambda row: row.b, right=True),
    Column("difference", lambda row: row.difference, right=True),
)
_TOOLS: tuple[Column[ToolComparison], ...] = (
    Column("tool", lambda tool: one_line(tool.name, 200), least=12, style="cyan"),
    Column("A", lambda tool: tool.a.calls, right=True),
    Column("B", lambda tool: tool.b.calls, right=True),
    Column("difference", lambda tool: difference(tool.b.calls - tool.a.calls, figures.count), right=True),
    Column("A failed", lambda tool: tool.a.failed or None, right=True, optional=1),
    Column("B failed", lambda tool: tool.b.failed or None, right=True, optional=1),
    Column("A time", lambda tool: figures.duration(round(tool.a.duration_ms * 1000)), right=True, optional=2),
    Column("B time", lambda tool: figures.duration(round(tool.b.duration_ms * 1000)), right=True, optional=2),
)


def _sum(spent: Spent) -> int:
    return spent.input_tokens + spent.cache_read_tokens + spent.cache_write_tokens + spent.output_tokens


def _cost(costs: dict[str, float], unpriced: int) -> str | None:
    amounts = " + ".join(figures.money(round(cost * 1e6), currency) for currency, cost in costs.items())
    if not amounts:
        return "?" if unpriced else None
    return f"{amounts} +?" if unpriced else amounts


_MODELS: tuple[Column[ModelComparison], ...] = (
    Column("model", lambda model: one_line(model_name(model.model), 200), least=12, style="cyan"),
    Column("A tokens", lambda model: figures.tokens(_sum(model.a)), right=True),
    Column("B tokens", lambda model: figures.tokens(_sum(model.b)), right=True),
    Column(
        "difference", lambda model: difference(_sum(model.b) - _sum(model.a), figures.tokens), right=True, optional=1
    ),
    Column("A cost", lambda model: _cost(model.a.costs, model.a.unpriced_tokens), right=True),
    Column("B cost", lambda model: _cost(model.b.costs, model.b.unpriced_tokens), right=True),
)


def _lines(file: FileFigures | None) -> str | None:
    if file is None:
        return None
    return " ".join(filter(None, (figures.signed("+", file.added), figures.signed("-", file.removed)))) or "changed"


_FILES: tuple[Column[FileComparison], ...] = (
    Column("file", lambda file: one_line(file.path), least=20, keep_end=True, style="cyan"),
    Column("A", lambda file: _lines(file.a), right=True),
    Column("B", lambda file: _lines(file.b), right=True),
)


def _took(ms: float | None) -> str | None:
    return None if ms is None else figures.duration(round(ms * 1000))


_TURNS: tuple[Column[TurnComparison], ...] = (
    Column("turn", lambda turn: turn.number, right=True),
    Column("A time", lambda turn: turn.a and _took(turn.a.duration_ms), right=True),
    Column("B time", lambda turn: turn.b and _took(turn.b.duration_ms), right=True),
    Column("A tools", lambda turn: turn.a and turn.a.tools, right=True, optional=1),
    Column("B tools", lambda turn: turn.b and turn.b.tools, right=True, optional=1),
    Column("A tokens", lambda turn: turn.a and figures.tokens(turn.a.tokens), right=True),
    Column("B tokens", lambda turn: turn.b and figures.tokens(turn.b.tokens), right=True),
    Column("A cost", lambda turn: turn.a and _cost(turn.a.costs, turn.a.unpriced_tokens), right=True, optional=2),
    Column("B cost", lambda turn: turn.b and _cost(turn.b.costs, turn.b.unpriced_tokens), right=True, optional=2),
)
