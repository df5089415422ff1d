"""Names that other modules still import from here."""

from __future__ import annotations

from agenttrace.store.questions import SpanView as SpanView
from agenttrace.store.questions import UsageRow as UsageRow
from agenttrace.store.sqlite.events import raw_lines as raw_lines
from agenttrace.store.sqlite.sessions import find_sessions as find_sessions
from agenttrace.store.sqlite.sessions import list_sessions as list_sessions
from agenttrace.store.sqlite.sessions import sessions_by_number as sessions_by_number
from agenttrace.store.sqlite.span_rows import session_spans as session_spans
from agenttrace.store.sqlite.usage import usage_by_session as usage_by_session
from agenttrace.store.sqlite.usage import usage_rows as usage_rows
