"""``read_session``: a session as a transcript in Markdown, page by page."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated, NamedTuple

import msgspec

from agenttrace.mcp.naming import quoted, session_named
from agenttrace.mcp.pages import LEAST_CHARS, MOST_CHARS, USUAL_CHARS, Passage, TextPage
from agenttrace.mcp.passages import Detail, DetailLevel, last_passages, passages, turn_line
from agenttrace.mcp.reading_order import ReadingOrder, TranscriptEntry, TurnSummary
from agenttrace.mcp.tool import DATA_NOTE, Arguments, SessionName, Tool, most, text
from agenttrace.mcp.tool_runner import ToolContext
from agenttrace.model import Session
from agenttrace.prices.costing import cost_of
from agenttrace.views.annotations import annotation_text, written_by
from agenttrace.views.cursors import Hex, Int64, Natural, from_cursor, to_cursor
from agenttrace.views.resume import resume_of
from agenttrace.views.transcript import TranscriptSpan, facts_of, heading_of
from agenttrace.views.trouble import TroubleError

#: So many spans are read at once.
_PORTION = 8
_FACT_CHARS = 300
_MOST_NOTES = 20
_NOTE_CHARS = 500
_NOTHING = "\nThere is nothing to show at this level of detail; ask for another one.\n"
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
    cursor: Annotated[str, text("The cursor of the page before; turns, detail and thinking stay.", 200)] | None = None


class TranscriptPlace(NamedTuple):
    """Where a page begins, and its level of detail: the content of a cursor."""

    span_id: Hex
    ends: Natural
    passage: Natural
    offset: Natural
    detail: Detail
    thinking: Natural
    #: The last turn, by its place among the turns.
    last: Int64

    def at(self, entry: TranscriptEntry, passage: int, offset: int) -> TranscriptPlace:
        """Another place, at the same level of detail."""
        return self._replace(span_id=entry.span_id.hex(), ends=int(entry.ends), passage=passage, offset=offset)


def read(context: ToolContext, asked: TranscriptArguments) -> list[str]:
    """A page, between the facts of the session and the call for the next page."""
    session = session_named(context, asked.session)
    order = context.machine.orders.of(context.store, session)
    place = _first(order, asked) if asked.cursor is None else from_cursor(asked.cursor, TranscriptPlace)
    page = TextPage(asked.max_chars)
    following = None if place is None else _fill(context, session, order, place, page)
    body = page.text or _NOTHING
    return [_head(context, session, whole=asked.cursor is None), body, _foot(context, session, order, following)]


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
    """The index of a turn; a log that was started anew has several turns of one number."""
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
    context: ToolContext, session: Session, order: ReadingOrder, place: TranscriptPlace, page: TextPage
) -> TranscriptPlace | None:
    """Fill the page: where the next one begins, ``None`` where this is the last."""
    entries = _entries(order, place.detail)
    skipped, offset = place.passage, place.offset
    for entry, told in _walk(context, session, entries, _index(entries, place), place.last):
        for number, passage in enumerate(_passages(context, order, entry, told, place)):
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
    context: ToolContext, order: ReadingOrder, entry: TranscriptEntry, told: TranscriptSpan, place: TranscriptPlace
) -> Iterator[Passage]:
    level = DetailLevel(place.detail, bool(place.thinking))
    if place.detail == "outline":
        return iter([turn_line(told, order.turns[entry.turn], context.shown)])
    return (last_passages if entry.ends else passages)(told, level, context.shown)


def _walk(
    context: ToolContext, session: Session, entries: Sequence[TranscriptEntry], start: int, last: int
) -> Iterator[tuple[TranscriptEntry, TranscriptSpan]]:
    """The entries from a place to a turn, each with its span."""
    subagents = context.store.subagents(session)
    for begin in range(start, len(entries), _PORTION):
        part = entries[begin : begin + _PORTION]
        wanted = list({entry.span_id for entry in part})
        rows = context.store.spans_by_id(session, wanted, subagents=subagents)
        contents = context.texts.contents(context.store, session, wanted)
        for entry in part:
            if last != _TO_THE_END and entry.turn > last:
                return
            row = rows.get(entry.span_id)
            if row is not None:
                yield (
                    entry,
                    TranscriptSpan(row, entry.depth, contents.get(entry.span_id, ()), *cost_of(row, context.prices)),
                )


def _head(context: ToolContext, session: Session, *, whole: bool) -> str:
    """The facts of the session; on further pages only its title."""
    title = context.shown.line(heading_of(session), _FACT_CHARS)
    if not whole:
        return f"# {title} (continued)\n\n{DATA_NOTE}\n"
    bill = context.prices.bill(context.store.usage_by_session([session.id]).get(session.id, ()))
    facts = facts_of(session, bill) | {"State": session.state}
    resume = resume_of(context.store, session, context.texts.index)
    if resume is not None:
        facts["Resume"] = " ".join(filter(None, (resume.line, resume.remark and f"({resume.remark})")))
    rows = "".join(f"- {name}: {context.shown.line(text, _FACT_CHARS)}\n" for name, text in facts.items())
    return f"# {title}\n\n{rows}{_beside(context, session)}\n{DATA_NOTE}\n"


def _beside(context: ToolContext, session: Session) -> str:
    """Notes, scores, labels and the star, a line each; of many the latest."""
    found = context.store.annotations([session.id]).get(session.id, [])
    lines = [
        f"- {each.kind} by {context.shown.line(written_by(each), 100)}: "
        f"{context.shown.line(annotation_text(each), _NOTE_CHARS)}\n"
        for each in found[-_MOST_NOTES:]
    ]
    left_out = f"- {len(found) - _MOST_NOTES} earlier ones\n" if len(found) > _MOST_NOTES else ""
    return f"\nBeside the session:\n\n{left_out}{''.join(lines)}" if lines else ""


def _foot(context: ToolContext, session: Session, order: ReadingOrder, following: TranscriptPlace | None) -> str:
    """Where it goes on."""
    if following is None:
        return "\nEnd: the session is still at work.\n" if session.state == "working" else "\nEnd.\n"
    entries = _entries(order, following.detail)
    turn = entries[_index(entries, following)].turn
    where = f" (in turn {order.turns[turn].number} of {order.turns[-1].number})" if turn >= 0 else ""
    call = f'read_session(session={quoted(context, session)}, cursor="{to_cursor(*following)}")'
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
