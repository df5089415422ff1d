"""Texts of sessions for the actions of rules: an outline, the conversation, the transcript, a turn or a span; masked.

They are what ``read_session`` of the MCP server shows, cut to a length at whole messages.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from agenttrace.cli import opening
from agenttrace.config.rules import ChainInput
from agenttrace.mcp.masked_texts import MaskedTexts
from agenttrace.mcp.pages import Passage
from agenttrace.mcp.passages import DetailLevel, last_passages, passages, turn_line
from agenttrace.mcp.reading_order import ReadingOrder, TranscriptEntry
from agenttrace.prices.costing import Cashier, cost_of
from agenttrace.record.texts.session_texts import SessionTexts
from agenttrace.rules.actions.inputs import fitted
from agenttrace.views.markdown import fenced
from agenttrace.views.transcript import TranscriptSpan, facts_of, heading_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from agenttrace.config import Settings
    from agenttrace.config.rules import ActionSettings
    from agenttrace.model import Session
    from agenttrace.rules.facts import Facts
    from agenttrace.store.current import StoreSource
    from agenttrace.store.store import Store

#: So many spans are read at once.
_PORTION = 16
#: Spans of which the texts are read, half of them at each end; those between are only counted.
_MOST_ENTRIES = 4_000
_FACT_CHARACTERS = 300
_LEVELS: dict[ChainInput, DetailLevel] = {
    "conversation": DetailLevel("conversation", False),
    "transcript": DetailLevel("short", False),
    "turn": DetailLevel("short", False),
    "span": DetailLevel("full", False),
}


class SessionInputs:
    """Makes the texts; may be called in any thread, as each call opens the store for itself."""

    def __init__(self, settings: Settings, hide: Callable[[str], str], source: StoreSource | None = None) -> None:
        """``source``: the store, where it is not that of this machine."""
        self._settings = settings
        self._hide = hide
        self._source = source

    def __call__(self, action: ActionSettings, facts: Facts) -> str:
        """The text for an event, of at most ``max_chars`` characters."""
        if facts.session is None:
            told = self._hide(json.dumps({"event": facts.event.kind, **facts.event.facts}, ensure_ascii=False))
            return fitted([told], action.max_chars)
        with opening.opened_store(self._settings) if self._source is None else self._source.team_store() as store:
            # No single text takes more than a quarter of the room.
            shown = MaskedTexts(self._hide, action.max_chars // 4)
            reader = _SessionReader(store, facts.session, shown, self._settings)
            return fitted(reader.messages(action.input, facts), action.max_chars)


class _SessionReader:
    """The messages of a session, as an action wants them."""

    def __init__(self, store: Store, session: Session, shown: MaskedTexts, settings: Settings) -> None:
        self._store, self._session, self._shown = store, session, shown
        self._texts = SessionTexts()
        self._prices = Cashier.load(settings)
        self._order = ReadingOrder(store.span_rows(session))

    def messages(self, kind: ChainInput, facts: Facts) -> Iterator[str | int]:
        """The facts of the session, and one message after another; a number for those that are only counted."""
        yield self._head()
        entries = self._entries(kind, facts)
        half = _MOST_ENTRIES // 2
        if len(entries) <= _MOST_ENTRIES:
            yield from self._rendered(entries, kind)
        else:
            yield from self._rendered(entries[:half], kind)
            yield len(entries) - _MOST_ENTRIES
            yield from self._rendered(entries[-half:], kind)

    def _entries(self, kind: ChainInput, facts: Facts) -> Sequence[TranscriptEntry]:
        order, span = self._order, facts.event.span
        if kind == "outline":
            return order.outline
        if kind not in ("turn", "span"):
            return order.entries
        own = [entry for entry in order.entries if entry.span_id == span]
        if kind == "span" and own:
            return own
        # Of an event without a span the turn is given as people count them: 1 is the first.
        turn = own[0].turn if own else min(facts.event.turn, len(order.turns)) - 1
        place = turn if turn >= 0 else len(order.turns) - 1
        return [entry for entry in order.entries if entry.turn == place]

    def _rendered(self, entries: Sequence[TranscriptEntry], kind: ChainInput) -> Iterator[str]:
        subagents = self._store.subagents(self._session)
        for begin in range(0, len(entries), _PORTION):
            part = entries[begin : begin + _PORTION]
            wanted = list({entry.span_id for entry in part})
            rows = self._store.spans_by_id(self._session, wanted, subagents=subagents)
            contents = self._texts.contents(self._store, self._session, wanted)
            for entry in part:
                row = rows.get(entry.span_id)
                if row is not None:
                    costs = cost_of(row, self._prices)
                    told = TranscriptSpan(row, entry.depth, contents.get(entry.span_id, ()), *costs)
                    yield from map(self._block, self._passages(entry, told, kind))

    def _passages(self, entry: TranscriptEntry, told: TranscriptSpan, kind: ChainInput) -> Iterator[Passage]:
        if kind == "outline":
            return iter([turn_line(told, self._order.turns[entry.turn], self._shown)])
        return (last_passages if entry.ends else passages)(told, _LEVELS[kind], self._shown)

    def _head(self) -> str:
        session = self._session
        bill = self._prices.bill(self._store.usage_by_session([session.id]).get(session.id, ()))
        rows = (
            f"- {name}: {self._shown.line(text, _FACT_CHARACTERS)}\n" for name, text in facts_of(session, bill).items()
        )
        return self._shown.leaving(f"# {self._shown.line(heading_of(session), _FACT_CHARACTERS)}\n\n{''.join(rows)}")

    def _block(self, passage: Passage) -> str:
        text = f"\n{passage.line}\n" if passage.text is None else f"\n{passage.line}:\n{fenced(passage.text)}"
        return self._shown.leaving(text)
