"""A session as a file, written while it is read, a piece at a time.

Neither memory nor the time of one piece depends on the length of the session. Each span is masked whole before
anything of it is written, so a field that is added later cannot be forgotten.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeAlias

from agenttrace.record.outcomes import session_facts
from agenttrace.record.texts.session_texts import SessionTexts
from agenttrace.redaction import redacted, redacted_line, redacted_session
from agenttrace.share.html_page import HtmlPage
from agenttrace.share.markdown_page import MarkdownPage
from agenttrace.share.masks import MaskedPlaces, ShareMask, UserNames, own_homes
from agenttrace.share.options import MaskedExcerpt, MaskedKind, ShareOptions, SharePreview
from agenttrace.share.parts import DocumentHead, SharedSpan, outcome_rows
from agenttrace.share.tool_calls import tool_call
from agenttrace.views.annotations import annotation_text
from agenttrace.views.outcomes import outcomes_of
from agenttrace.views.transcript import Transcript, facts_of, heading_of

if TYPE_CHECKING:
    from agenttrace.masking import Mask
    from agenttrace.model import Session
    from agenttrace.prices.costing import Cashier
    from agenttrace.share.parts import DocumentWriter
    from agenttrace.store.annotations import Annotation
    from agenttrace.store.store import Store
    from agenttrace.views.transcript import TranscriptSpan

#: Makes the next piece; an empty one is the last.
Pieces: TypeAlias = Callable[["Store"], bytes]
#: A piece is complete when it has reached this size.
_PIECE_BYTES = 1 << 18
_LINES_AT_ONCE = 100
_BLOCK_BYTES = 2 << 20


class ShareJob:
    """The file of a session, piece by piece, and what is masked in it."""

    def __init__(
        self,
        store: Store,
        session: Session,
        options: ShareOptions,
        *,
        mask: Mask | None,
        prices: Cashier,
        texts: SessionTexts | None = None,
        places: int = 0,
    ) -> None:
        names = UserNames([session.project, *own_homes()]) if options.hide_paths else None
        hide = ShareMask(None if options.secrets else mask, names)
        self.masked = MaskedPlaces(places)
        self.name = share_name(redacted_session(session, hide.text) if hide.hides else session, options.format)
        # Every line is read once: a cache of its own leaves the shared one to the pages.
        own = SessionTexts(None if texts is None else texts.index, _BLOCK_BYTES)
        self.more: Pieces
        if options.format == "jsonl":
            self.more = _Lines(store, session, own, hide, self.masked).more
        else:
            self.more = _Document(store, session, own, prices, hide, options, self.masked).more

    def preview(self, size: int) -> SharePreview:
        """What was masked, after the last piece; ``size`` is that of all pieces."""
        masked = self.masked
        return SharePreview(
            name=self.name,
            bytes=size,
            masked=masked.kinds.total(),
            kinds=[MaskedKind(kind=kind, count=count) for kind, count in masked.kinds.most_common()],
            places=[MaskedExcerpt(**place._asdict()) for place in masked.places],
        )


def share_name(session: Session, ending: str) -> str:
    """A name for the file that is safe in a shell, a header and a file system."""
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", f"{session.agent}-{session.session_id}")
    return f"{name[:120].strip('.-') or 'session'}.{ending}"


class _Lines:
    """The recorded lines in the order in which they were recorded; without a mask as they were."""

    def __init__(
        self, store: Store, session: Session, texts: SessionTexts, hide: ShareMask, masked: MaskedPlaces
    ) -> None:
        self._blocks, self._hide, self._masked = texts.blocks, hide, masked
        self._numbers = store.session_events(session.id)
        self._written = 0

    def more(self, store: Store) -> bytes:
        """The next lines."""
        piece = bytearray()
        while self._written < len(self._numbers) and len(piece) < _PIECE_BYTES:
            part = self._numbers[self._written : self._written + _LINES_AT_ONCE]
            last = part[-1]
            for line in store.lines_by_number(part, self._blocks):
                piece += self._line(line.raw, line.event_no) + b"\n"
                if len(piece) >= _PIECE_BYTES:
                    last = line.event_no  # the others are in the next piece
                    break
            self._written = bisect_right(self._numbers, last)
        return bytes(piece)

    def _line(self, raw: bytes, number: int) -> bytes:
        if not self._hide.hides:
            return raw
        shown = redacted_line(raw, self._hide)
        if b"[masked:" in shown:
            self._masked.note(shown.decode("utf-8", "replace"), f"Line {number}")
        return shown


class _Document:
    """A page about the session, span by span."""

    def __init__(
        self,
        store: Store,
        session: Session,
        texts: SessionTexts,
        prices: Cashier,
        hide: ShareMask,
        options: ShareOptions,
        masked: MaskedPlaces,
    ) -> None:
        self._hide, self._options, self.masked = hide, options, masked
        self._page: DocumentWriter = HtmlPage() if options.format == "html" else MarkdownPage()
        self._transcript = Transcript(store, session, texts, prices, tools=options.tools)
        self._notes: dict[bytes | None, list[Annotation]] = {}
        for note in store.annotations([session.id]).get(session.id, []):
            self._notes.setdefault(note.span_id, []).append(self._masked(note))
        self._begun = self._page.begin(self._head(store, session, prices))
        #: The turn that is open, and its prompts by the depth of the turn.
        self._turn = ""
        self._prompts: list[tuple[int, frozenset[int]]] = []
        #: Spans that were read and are not written yet, the next one last.
        self._read: list[TranscriptSpan] = []
        self._ended = False

    def _masked(self, record: Annotation) -> Annotation:
        return redacted(record, self._hide.text) if self._hide.hides else record

    def _head(self, store: Store, session: Session, prices: Cashier) -> DocumentHead:
        bill = prices.bill(store.usage_by_session([session.id]).get(session.id, ()))
        outcomes = (
            outcomes_of(session, session_facts(store, session), repository=False) if self._options.tools else None
        )
        if self._hide.hides:
            session = redacted_session(session, self._hide.text)
            bill.models = redacted(bill.models, self._hide.text)
            outcomes = redacted(outcomes, self._hide.text)
        head = DocumentHead(
            heading_of(session), facts_of(session, bill), outcomes, self._notes.pop(None, []), self._remarks()
        )
        for text in (head.title, *head.facts.values()):
            self.masked.note(text, "Facts")
        for name, rows in [] if outcomes is None else outcome_rows(outcomes):
            for text in (part for row in rows for part in row):
                self.masked.note(text, name)
        self._count_notes(head.annotations, "Notes", None)
        return head

    def _remarks(self) -> list[str]:
        options = self._options
        found = ["This file includes secrets." if options.secrets else "Secrets are masked: [masked:…]."]
        if options.hide_paths:
            found.append("Names of users in paths are masked.")
        if not options.tools:
            found.append("Tool calls are left out.")
        return found

    def more(self, store: Store) -> bytes:
        """The next spans."""
        parts, self._begun = [self._begun], ""
        length = len(parts[0])
        while length < _PIECE_BYTES and not self._ended:
            self._read = self._read or self._transcript.more(store)[::-1]
            self._ended = not self._read
            parts.append(self._page.end(self._summary()) if self._ended else self._written(self._read.pop()))
            length += len(parts[-1])
        return "".join(parts).encode("utf-8", "replace")

    def _summary(self) -> str:
        if not self._hide.hides:
            return ""
        return f"Masked: {self.masked.listed()}." if self.masked.kinds else "Nothing had to be masked."

    def _written(self, told: TranscriptSpan) -> str:
        notes = self._notes.pop(told.row.span_id, [])
        told = self._without_repeated_prompt(told)
        if self._hide.hides:
            told = redacted(told, self._hide.text)
        shared = self._shared(told, notes)
        self._count(shared)
        return self._page.span(shared)

    def _without_repeated_prompt(self, told: TranscriptSpan) -> TranscriptSpan:
        """A model call often has the prompt of its turn, which is shown once."""
        while self._prompts and self._prompts[-1][0] >= told.depth:
            self._prompts.pop()
        if told.row.kind == "turn":
            prompts = frozenset(hash(each.text) for each in told.contents if each.kind == "prompt")
            self._prompts.append((told.depth, prompts))
            return told
        if told.row.kind != "step" or not any(each.kind == "prompt" for each in told.contents):
            return told
        known = frozenset[int]().union(*(prompts for _, prompts in self._prompts))
        shown = [each for each in told.contents if each.kind != "prompt" or hash(each.text) not in known]
        return told._replace(contents=shown)

    def _shared(self, told: TranscriptSpan, notes: list[Annotation]) -> SharedSpan:
        row = told.row
        arguments = next((each.text for each in told.contents if each.kind == "arguments"), None)
        call = None if arguments is None or row.kind in ("turn", "step") else tool_call(told.title, arguments)
        figures = told.figures
        if row.kind == "turn" and row.span_id in self._transcript.sums:
            # The time of a turn, the sums of all in it, how long it took.
            figures = [*figures[:1], *self._transcript.sums[row.span_id].figures, *figures[1:]]
        return SharedSpan(told, figures, call, notes)

    def _count(self, shared: SharedSpan) -> None:
        """Count what is masked in all that is shown of a span."""
        row, call = shared.told.row, shared.call
        if row.kind == "turn":
            self._turn = shared.told.title
        where = self._turn if row.kind in ("turn", "step") else f"{self._turn}, {shared.told.title}"
        if call is not None:
            self.masked.note(call.command or "", f"{where}, command", row.span_id)
            for text in (text for edit in call.edits for text in edit):
                self.masked.note(text, f"{where}, edit", row.span_id)
        for content in (*shared.contents, *shared.told.after):
            self.masked.note(content.text, f"{where}, {content.kind}", row.span_id)
        self._count_notes(shared.annotations, f"{where}, notes", row.span_id)

    def _count_notes(self, notes: Sequence[Annotation], where: str, span_id: bytes | None) -> None:
        for note in notes:
            self.masked.note(annotation_text(note), where, span_id)
