"""``read_session``: a session as a transcript in Markdown, page by page."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated, NamedTuple

import msgspec

from agenttrace.mcp.cursors import Hex, Int64, Natural, from_cursor, to_cursor
from agenttrace.mcp.naming import quoted, session_named
from agenttrace.mcp.order import ReadingOrder, TranscriptEntry, TurnSummary
from agenttrace.mcp.pages import LEAST_CHARS, MOST_CHARS, USUAL_CHARS, Page, Passage
from agenttrace.mcp.past import ToolContext
from agenttrace.mcp.telling import Detail, Manner, last_passages, passages, turn_line
from agenttrace.mcp.tool import DATA_NOTE, Arguments, SessionName, Tool, most
from agenttrace.model import Session
from agenttrace.prices.costing import cost_of
from agenttrace.views.transcript import TranscriptSpan, facts_of, heading_of
from agenttrace.views.trouble import TroubleError

#: So many spans are read at once.
_PORTION = 8
_FACT_CHARS = 300
_NOTHING = "\nNothing that would be told in this detail; ask for another one.\n"
_BEFORE_ALL, _TO_THE_END = -1, -1

MaxChars = Annotated[int, most(MOST_CHARS, f"How long the page may be, in characters; at least {LEAST_CHARS:,}.")]
#: Counted from the end where it is negative.
TurnNumber = Annotated[int, msgspec.Meta(description="A turn's number; -1 is the last turn, -2 the one before.")] | None


class TranscriptArguments(Arguments, frozen=True, kw_only=True):
    """Which part of a session, and how much of it."""

    session: SessionName
    first_turn: TurnNumber = None
    last_turn: TurnNumber = None
    detail: Annotated[
        Detail,
        msgspec.Meta(
            description="outline: one line a turn. conversation: prompts and answers, one line a tool call. short: "
            "with arguments and results, cut where they are long. full: everything, whole."
        ),
    ] = "short"
    thinking: Annotated[bool, msgspec.Meta(description="With what the model thought, where that was recorded.")] = False
    max_chars: MaxChars = USUAL_CHARS
    cursor: (
        Annotated[
            str,
            msgspec.Meta(
                max_length=200,
                description="Where the page before said that it goes on; turns, detail and thinking stay as they were.",
            ),
        ]
        | None
    ) = None


class TranscriptPlace(NamedTuple):
    """Where a page begins, and how it is told: all that a cursor holds."""

    span_id: Hex
    ends: Natural
    passage: Natural
    offset: Natural
    detail: Detail
    thinking: Natural
    #: The last turn, by its place among the turns.
    last: Int64

    def at(self, entry: TranscriptEntry, passage: int, offset: int) -> TranscriptPlace:
        """Another place, told in the same way."""
        return self._replace(span_id=entry.span_id.hex(), ends=int(entry.ends), passage=passage, offset=offset)


def read(look: ToolContext, asked: TranscriptArguments) -> list[str]:
    """A page, between what there is to know first and where the next one begins."""
    session = session_named(look, asked.session)
    order = look.machine.orders.of(look.store, session)
    place = _first(order, asked) if asked.cursor is None else from_cursor(asked.cursor, TranscriptPlace)
    page = Page(asked.max_chars)
    following = None if place is None else _fill(look, session, order, place, page)
    text = page.text or _NOTHING
    return [_head(look, session, whole=asked.cursor is None), text, _foot(look, session, order, following)]


def _first(order: ReadingOrder, asked: TranscriptArguments) -> TranscriptPlace | None:
    """Where reading begins; ``None`` where there is nothing to read."""
    first = _BEFORE_ALL if asked.first_turn is None else _turn_place(order.turns, asked.first_turn)
    last = _TO_THE_END if asked.last_turn is None else _turn_place(order.turns, asked.last_turn, end=True)
    if last != _TO_THE_END and last < first:
        raise TroubleError("last_turn comes before first_turn", "Exchange them.", misused=True)
    begun = next((entry for entry in _entries(order, asked.detail) if entry.turn >= first), None)
    if begun is None:
        return None
    return TranscriptPlace("", 0, 0, 0, asked.detail, int(asked.thinking), last).at(begun, 0, 0)


def _turn_place(turns: Sequence[TurnSummary], number: int, *, end: bool = False) -> int:
    """Where a turn stands among the turns; a log that was begun anew has turns of the same number."""
    if number < 0:
        places = [len(turns) + number] if number >= -len(turns) else []
    else:
        places = [place for place, turn in enumerate(turns) if turn.number == number]
    if not places:
        had = f"It has turns {turns[0].number} to {turns[-1].number}." if turns else "It has no turns."
        raise TroubleError(f"the session has no turn {number}", had, misused=True)
    return places[-1 if end else 0]


def _entries(order: ReadingOrder, detail: Detail) -> list[TranscriptEntry]:
    return order.outline if detail == "outline" else order.entries


def _fill(
    look: ToolContext, session: Session, order: ReadingOrder, place: TranscriptPlace, page: Page
) -> TranscriptPlace | None:
    """Fill the page: where the next one begins, ``None`` where this is the last."""
    entries = _entries(order, place.detail)
    skipped, offset = place.passage, place.offset
    for entry, told in _walk(look, session, entries, _index(entries, place), place.last):
        for number, passage in enumerate(_passages(look, order, entry, told, place)):
            if number < skipped:
                continue
            left = page.put(passage, offset)
            if left is not None:
                return place.at(entry, number, left)
            offset = 0
        skipped = offset = 0
    return None


def _index(entries: Sequence[TranscriptEntry], place: TranscriptPlace) -> int:
    wanted = (bytes.fromhex(place.span_id), bool(place.ends))
    for index, entry in enumerate(entries):
        if (entry.span_id, entry.ends) == wanted:
            return index
    raise TroubleError("the session has no such place any more", "Begin without a cursor.", misused=True)


def _passages(
    look: ToolContext, order: ReadingOrder, entry: TranscriptEntry, told: TranscriptSpan, place: TranscriptPlace
) -> Iterator[Passage]:
    manner = Manner(place.detail, bool(place.thinking))
    if place.detail == "outline":
        return iter([turn_line(told, order.turns[entry.turn], look.shown)])
    return (last_passages if entry.ends else passages)(told, manner, look.shown)


def _walk(
    look: ToolContext, session: Session, entries: Sequence[TranscriptEntry], start: int, last: int
) -> Iterator[tuple[TranscriptEntry, TranscriptSpan]]:
    """The entries from a place to a turn, each with what it is about."""
    subagents = look.store.subagents(session)
    for begin in range(start, len(entries), _PORTION):
        part = entries[begin : begin + _PORTION]
        wanted = list({entry.span_id for entry in part})
        rows = look.store.spans_by_id(session, wanted, subagents=subagents)
        contents = look.texts.contents(look.store, session, wanted)
        for entry in part:
            if last != _TO_THE_END and entry.turn > last:
                return
            row = rows.get(entry.span_id)
            if row is not None:
                yield (
                    entry,
                    TranscriptSpan(row, entry.depth, contents.get(entry.span_id, ()), *cost_of(row, look.prices)),
                )


def _head(look: ToolContext, session: Session, *, whole: bool) -> str:
    """What a reader wants to know first; of a further page only what it is a page of."""
    title = look.shown.line(heading_of(session), _FACT_CHARS)
    if not whole:
        return f"# {title} (continued)\n\n{DATA_NOTE}\n"
    bill = look.prices.bill(look.store.usage_by_session([session.id]).get(session.id, ()))
    facts = facts_of(session, bill) | {"State": session.state}
    rows = "".join(f"- {name}: {look.shown.line(text, _FACT_CHARS)}\n" for name, text in facts.items())
    return f"# {title}\n\n{rows}\n{DATA_NOTE}\n"


def _foot(look: ToolContext, session: Session, order: ReadingOrder, following: TranscriptPlace | None) -> str:
    """Where it goes on."""
    if following is None:
        return "\nEnd: the session is still at work.\n" if session.state == "working" else "\nEnd.\n"
    entries = _entries(order, following.detail)
    turn = entries[_index(entries, following)].turn
    where = f" (in turn {order.turns[turn].number} of {order.turns[-1].number})" if turn >= 0 else ""
    call = f'read_session(session={quoted(look, session)}, cursor="{to_cursor(*following)}")'
    return f"\nThe transcript goes on{where}. Next page: {call}\n"


TOOL = Tool(
    name="read_session",
    title="Read a past session",
    description=(
        "Read one recorded session as a transcript in Markdown: prompts, answers, tool calls with their arguments and "
        "results. Long sessions come in pages; each page ends with the call that gives the next one. Begin with "
        'detail="outline" for a long session, then read the turns you need (first_turn, last_turn; first_turn=-1 is '
        "the last turn). Each tool call is shown with its span: read_span gives its whole text."
    ),
    arguments=TranscriptArguments,
    answer=None,
    ask=read,
)
