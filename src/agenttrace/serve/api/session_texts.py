"""The texts of a store, shared by all endpoints that show them."""

from __future__ import annotations

from weakref import WeakKeyDictionary

from agenttrace.record.texts.session_texts import SessionTexts
from agenttrace.serve.api.trace_reader import TraceReader

_OPEN: WeakKeyDictionary[TraceReader, SessionTexts] = WeakKeyDictionary()


def session_texts(reader: TraceReader) -> SessionTexts:
    """The texts of one store, shared by all endpoints that show them."""
    return _OPEN.setdefault(reader, SessionTexts())
