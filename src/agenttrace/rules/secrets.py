"""Secrets in recorded lines: ``secret.found``, once for each secret and session.

Lines are read in the order in which they were recorded, after a cursor that is stored with what was found. How much is
read in one look is limited, so that a long history delays nothing else.
"""

from __future__ import annotations

import hashlib
import re
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

import msgspec

from agenttrace.store.questions import EventLine
from agenttrace.store.rules import RuleEvent, key_of
from agenttrace.store.sqlite.store import SqliteStore
from agenttrace.store.store import Store

KIND = "secret.found"
_CURSOR = "secrets"
#: Lines, and bytes of them, that one look reads at most.
_LINES, _BYTES = 2_000, 2_000_000
#: How often there is a look where nothing was left to read.
_SECONDS = 1.0
#: Bytes of lines that a look at the past reads at most, the latest.
_PAST_BYTES = 100_000_000
#: Secrets that were noted; the same one is in most later lines of a session.
_REMEMBERED = 20_000
_MARKER = re.compile(r"\[masked:([a-z0-9-]+)\]")
#: Kinds that are told by what stands beside them, and not by their own form.
_NAMED = frozenset({"url-password", "url-token", "basic-auth", "bearer-token"})
_FORMS = frozenset({"own", "webhook"})

#: Masks a text, such as ``Mask(patterns).text``.
MaskText = Callable[[str], str]


class Found(NamedTuple):
    """A secret of a text: its kind, and a digest of it; empty where it cannot be told apart from the text."""

    kind: str
    digest: str


def is_certain(kind: str) -> bool:
    """Whether a secret of this kind has a form of its own, as the keys of vendors do."""
    return kind in _FORMS or ("-" in kind and kind not in _NAMED)


def find_secrets(text: str, mask: MaskText) -> set[Found]:
    """The secrets that masking replaces in a text."""
    masked = mask(text)
    if masked == text:
        return set()
    pieces = _MARKER.split(masked)
    values = _values(text, pieces[::2])
    kinds = pieces[1::2]
    if values is None:
        # The document was written anew: one for each kind is better than one for each line.
        return {Found(kind, "") for kind in kinds if f"[masked:{kind}]" not in text}
    return {
        Found(kind, hashlib.sha256(value.encode("utf-8", "surrogatepass")).hexdigest())
        for kind, value in zip(kinds, values, strict=True)
        if value != f"[masked:{kind}]"
    }


def _values(text: str, literals: list[str]) -> list[str] | None:
    """What stands in a text between these parts of it; ``None`` where they are not parts of it."""
    if not text.startswith(literals[0]):
        return None
    values, place = [], len(literals[0])
    for number, literal in enumerate(literals[1:], start=1):
        last = number == len(literals) - 1
        found = len(text) - len(literal) if last and text.endswith(literal) else text.find(literal, place + 1)
        if found < place or (last and found + len(literal) != len(text)):
            return None
        values.append(text[place:found])
        place = found + len(literal)
    return values


class _Cursor(msgspec.Struct, frozen=True, array_like=True):
    """Up to which event lines were read, and since when that is of interest."""

    number: int
    event_id: str
    since: int


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(_Cursor).decode


class SecretSource:
    """Looks for secrets in what is recorded, while a rule asks for them."""

    def __init__(self, store: SqliteStore, mask: MaskText, steady: Callable[[], float] = time.monotonic) -> None:
        self._store, self._secrets, self._steady = store, LineSecrets(store, mask), steady
        self._next = 0.0

    def __call__(self, wanted: Mapping[str, int]) -> Iterator[RuleEvent]:
        """Read on; what is found is noted together with the cursor, so nothing is left to be noted."""
        since = wanted.get(KIND)
        if since is not None and self._steady() >= self._next:
            cursor = self._cursor(since)
            lines = self._lines(cursor.number)
            if not lines:
                self._next = self._steady() + _SECONDS
            if lines or cursor.since != since:
                secrets = self._secrets
                events = [
                    event
                    for line in lines
                    for event in secrets.events(line.session, line.span_id, line.turn_index, line.raw)
                ]
                last = lines[-1].event_no if lines else cursor.number
                mark = self._store.event_mark(last)
                name = "" if mark is None else mark.event_id.hex()
                self._store.rules.advance(_CURSOR, _encode(_Cursor(last, name, since)).decode(), events)
        return iter(())

    def _cursor(self, since: int) -> _Cursor:
        """Where to read on: a new rule, and a store that was rebuilt, begin where the rule does."""
        stored = self._store.rules.cursor(_CURSOR)
        start = _Cursor(0, "", -1)
        if stored is not None:
            known = _decode(stored)
            mark = self._store.event_mark(known.number)
            is_there = known.number == 0 or (mark is not None and mark.event_id.hex() == known.event_id)
            if is_there and known.since <= since:
                start = known
        if start.since == since:
            return start
        first = self._store.rules.first_event_since(since)
        return _Cursor(max(start.number, first - 1), "", start.since)

    def _lines(self, after: int) -> list[EventLine]:
        found, size = list[EventLine](), 0
        for line in self._store.lines(after=after, limit=_LINES):
            found.append(line)
            size += len(line.raw)
            if size >= _BYTES:
                break
        return found


class LineSecrets:
    """Tells the events of a line; the same secret is in most later lines of a session."""

    def __init__(self, store: Store, mask: MaskText) -> None:
        self._store, self._mask = store, mask
        self._known: OrderedDict[bytes, None] = OrderedDict()

    def events(self, session: int, span: bytes | None, turn: int, raw: bytes) -> Iterator[RuleEvent]:
        """The secrets of a line that were not in one that was looked at lately."""
        for kind, digest in sorted(find_secrets(raw.decode("utf-8", "replace"), self._mask)):
            key = key_of(KIND, session, kind, digest)
            if key in self._known:
                continue
            self._known[key] = None
            if len(self._known) > _REMEMBERED:
                self._known.popitem(last=False)
            yield RuleEvent(
                key=key,
                kind=KIND,
                at=self._time_of(session, span),
                session=session,
                span=span,
                turn=turn,
                facts={"kind": kind, "certain": is_certain(kind)},
            )

    def _time_of(self, session: int, span_id: bytes | None) -> int:
        """When a line was written, as far as its span or its session tells."""
        sessions = self._store.sessions_by_number([session])
        if not sessions:
            return 0
        if span_id is not None:
            span = self._store.spans_by_id(sessions[0], [span_id], attributes=False).get(span_id)
            if span is not None:
                return span.end or span.start
        return sessions[0].last_at or 0


class PastSecrets(NamedTuple):
    """Secrets of lines that were recorded since a moment."""

    events: list[RuleEvent]
    #: How many bytes of the latest lines were read, where that was not all.
    cut_at: int | None


def past_secrets(store: SqliteStore, mask: MaskText, since: int) -> PastSecrets:
    """Each secret once for its session, by the first line that has it; read from the latest lines back."""
    first, last, size = store.rules.first_event_since(since), store.last_event(), 0
    found: dict[bytes, RuleEvent] = {}
    while last >= first and size < _PAST_BYTES:
        begin, secrets = max(first, last - _LINES + 1), LineSecrets(store, mask)
        for line in store.lines(after=begin - 1, limit=_LINES):
            if line.event_no > last:
                break
            size += len(line.raw)
            events = secrets.events(line.session, line.span_id, line.turn_index, line.raw)
            found |= {event.key: event for event in events}
        last = begin - 1
    return PastSecrets(list(found.values()), None if last < first else size)
