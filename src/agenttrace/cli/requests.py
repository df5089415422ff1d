"""``agenttrace requests``: what each model call of a session was sent, and where the prompt cache broke."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from agenttrace.cli import opening, output
from agenttrace.cli.columns import Column, print_table
from agenttrace.cli.options import AsJson
from agenttrace.cli.sessions import find_one
from agenttrace.store.questions import MAIN_STREAM
from agenttrace.views import figures
from agenttrace.views.model_names import model_name
from agenttrace.views.plain import one_line
from agenttrace.views.sessions import title_of

if TYPE_CHECKING:
    from rich.text import Text

    from agenttrace.record.formats.context import Part
    from agenttrace.record.texts.call_changes import ModelCall
    from agenttrace.views.requests import Requests

EPILOG = """
  agenttrace requests 5bc45ad6                     the beginning of an id is enough
  agenttrace requests 5bc45ad6 --cache-breaks      only the calls where the prompt cache broke
  agenttrace requests 5bc45ad6 --json | jq '.items[] | select(.cache_lost_tokens > 0)'

Sizes are characters. A call with = is known from the log's own record of the request; one with ~ is computed from
the conversation before it, and one with ? has tokens only. – means that the log does not have this part. The cache
broke where a call did not find in it what the call before had there.
"""

_MARKS = {"request": "=", "conversation": "~", "usage": "?"}
_SHOWN: tuple[tuple[str, tuple[Part, ...], int], ...] = (
    ("system", ("system",), 0),
    ("tools", ("tools",), 0),
    ("context", ("context",), 4),
    ("files", ("files",), 1),
    ("results", ("results",), 0),
    ("user", ("user",), 3),
    ("assistant", ("assistant", "arguments"), 2),
    ("thinking", ("thinking",), 5),
)
#: Cache breaks that are listed below the table.
_MOST_BREAKS = 20
Row = tuple[int, "ModelCall"]


def requests(
    session: Annotated[str, typer.Argument(metavar="SESSION", help="A session's id, or the beginning of one.")],
    cache_breaks: Annotated[
        bool, typer.Option("--cache-breaks", help="Only the calls where the prompt cache broke.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Show what each model call was sent: the context by part, cached tokens, and what changed."""
    import msgspec

    from agenttrace.views.requests import Requests, request_row

    with opening.shown_store(opening.settings()) as store:
        found = find_one(store, session)
        answer = Requests.of(store, found)
    rows = [row for row in enumerate(answer.calls, 1) if row[1].cache_lost or not cache_breaks]
    if as_json:
        items = msgspec.to_builtins([request_row(*row) for row in rows])
        output.print_json({"session_id": found.session_id, "agent": found.agent, **answer.fields(), "items": items})
        return
    output.say(one_line(title_of(found)) or "(no title)", "bold")
    _show(rows, answer)


def _show(rows: list[Row], answer: Requests) -> None:
    if not rows:
        output.say(_nothing_broke(answer.calls) if answer.calls else "No model call is recorded.")
        return
    known = {part for _, call in rows for part in call.parts}
    print_table(_columns(any(call.stream != rows[0][1].stream for _, call in rows), known), rows)
    counts = {"call": len(answer.calls), "cache break": answer.cache_breaks, "compaction": answer.compactions}
    found = ", ".join(figures.counted(number, name) for name, number in counts.items())
    _show_breaks([row for row in rows if row[1].cache_lost], answer)
    output.note(f"{found}; sizes are characters; assistant includes the arguments of tools")
    missing = [name for name, parts, _ in _SHOWN if not known.intersection(parts)]
    if missing:
        output.note(f"not in the log: {', '.join(missing)}")
    output.note("= from the record of the request   ~ computed from the conversation   ? only tokens are known")


def _nothing_broke(calls: list[ModelCall]) -> str:
    """Why no cache break is shown: there was none, or the log cannot tell."""
    usages = [call.usage for call in calls if call.usage is not None and call.known_from != "usage"]
    if not usages:
        return "Where the prompt cache broke is not in the log: it has no model calls in order with their tokens."
    if not any(usage.cache_read_tokens or usage.cache_write_tokens for usage in usages):
        return "No call read anything from a prompt cache, or wrote to it."
    return "The prompt cache never broke."


def _show_breaks(broken: list[Row], answer: Requests) -> None:
    """At which calls the cache broke, what it cost and why; and the tools that came and went."""
    from agenttrace.views.requests import reason_text

    if broken:
        lost = figures.tokens(answer.cache_lost)
        output.say(
            f"\nThe prompt cache broke {_times(len(broken))}: {lost} tokens were not read from it again.", "bold"
        )
    for number, call in broken[:_MOST_BREAKS]:
        agent = "" if call.stream == MAIN_STREAM else f" ({one_line(call.stream)})"
        why = one_line(reason_text(call))
        output.say(f"  call {number}{agent}: {figures.tokens(call.cache_lost)} tokens; {why}", "yellow")
    if len(broken) > _MOST_BREAKS:
        output.say(f"  and {len(broken) - _MOST_BREAKS} more: --cache-breaks lists them all")
    moved = answer.moved_tools()
    if moved:
        output.say("\nTools that came and went: " + one_line(", ".join(moved)))


def _times(number: int) -> str:
    return "once" if number == 1 else f"{number:,} times"


def _columns(streams: bool, known: set[Part]) -> list[Column[Row]]:
    return [
        Column("call", lambda row: f"{row[0]} {_MARKS[row[1].known_from]}", right=True),
        Column("time", lambda row: None if row[1].at is None else figures.time_of_day(row[1].at), optional=8),
        *([Column[Row]("agent", lambda row: row[1].stream, least=6)] if streams else []),
        Column("model", lambda row: one_line(model_name(row[1].model or "")) or None, least=8, optional=9),
        *(_part(name, parts, optional) for name, parts, optional in _SHOWN if known.intersection(parts)),
        Column("input", lambda row: _tokens(row[1], "input_tokens"), right=True, optional=6),
        Column("cache read", lambda row: _tokens(row[1], "cache_read_tokens"), right=True),
        Column("cache write", lambda row: _tokens(row[1], "cache_write_tokens"), right=True, optional=6),
        Column("what changed", lambda row: _changed(row[1]), least=26),
    ]


def _part(name: str, parts: tuple[Part, ...], optional: int) -> Column[Row]:
    def cell(row: Row) -> str | None:
        sizes = [row[1].parts[part] for part in parts if part in row[1].parts]
        return figures.tokens(sum(sizes)) if sizes else None

    return Column(name, cell, right=True, optional=optional)


def _tokens(call: ModelCall, name: str) -> str | None:
    return None if call.usage is None else figures.tokens(getattr(call.usage, name))


def _changed(call: ModelCall) -> Text:
    from agenttrace.views.requests import changes_text

    answered = "" if call.span_id is not None else "not answered"
    text = "; ".join(filter(None, (answered, changes_text(call))))
    return output.styled(text, "yellow" if call.cache_lost else "")
