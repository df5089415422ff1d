"""The spans of a session as one tree: subagents under the tool calls that started them.

A subagent writes a stream of its own. Where a link names the tool call that started it, its turns are children of that
call, and spans that its log left open end with the call. Open spans of a session that is over end with its last event.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from agenttrace.model import Session
from agenttrace.store.questions import ENDED_BY_CALL, ENDED_BY_LOG, SpanRow

#: Links may lead in a circle, which must not hang the reader.
_DEEPEST = 64


def over_at(session: Session) -> int | None:
    """When the last event of a session was, where the session is over: it ended, or was silent for long."""
    return (session.last_at or 0) if session.state in ("ended", "interrupted") else None


class LinkedSpan(NamedTuple):
    """A turn of a subagent, or a call that one carries out."""

    span_id: bytes
    trace_id: bytes
    parent_id: bytes | None
    stream: str
    kind: str
    start: int
    end: int | None
    status: str
    call: str | None


class Subagents:
    """The tool calls that the subagents of a session belong to, and when open spans ended.

    ``links`` gives the stream and the call that started a subagent, by its stream. ``linked`` are the turns of
    subagents and the calls that may have started them, in order of start. ``ends`` gives the last time of each stream,
    where the session is over.
    """

    def __init__(
        self, links: Mapping[str, tuple[str, str]], linked: Sequence[LinkedSpan], ends: Mapping[str, int]
    ) -> None:
        self._links, self._ends = links, ends
        #: The call that a trace belongs to, by trace.
        self._calls: dict[bytes, LinkedSpan] = {}
        self._connect(linked)

    def _connect(self, rows: Sequence[LinkedSpan]) -> None:
        calls: dict[tuple[str, str], LinkedSpan] = {}
        for row in rows:
            if row.call is not None:
                calls[(row.stream, row.call)] = row
                calls.setdefault(("", row.call), row)
        for row in rows:
            if row.kind == "turn":
                stream, call = self._links[row.stream]
                # A workflow's agents name its run, and the run is linked to the call.
                stream, call = self._links.get(call, (stream, call))
                found = calls.get((stream, call)) or calls.get(("", call))
                if found is not None and found.stream != row.stream:
                    self._calls[row.trace_id] = found

    def joined(self, row: SpanRow) -> SpanRow:
        """The row under its call, in that call's trace, and ended with it, or with the session."""
        call = self._calls.get(row.trace_id)
        if call is not None:
            if row.kind == "turn":
                row = row._replace(parent_id=call.span_id)
            if row.status == "open":
                row = self._ended(row, call)
            row = row._replace(trace_id=self.root_trace(row.trace_id))
        if row.status == "open" and row.stream in self._ends:
            end = max(self._ends[row.stream], row.start)
            row = row._replace(end=end, status="unclosed", ended_by=ENDED_BY_LOG)
        return row

    def _ended(self, row: SpanRow, call: LinkedSpan) -> SpanRow:
        """Work of a subagent whose log stops short was done when its call was answered."""
        for _ in range(_DEEPEST):
            if call.end is not None and call.status in ("ok", "error", "cancelled"):
                return row._replace(end=max(call.end, row.start), status=call.status, ended_by=ENDED_BY_CALL)
            above = self._calls.get(call.trace_id)
            if above is None or call.status != "open":
                break
            call = above  # which ends this call as well
        return row

    def root_trace(self, trace: bytes) -> bytes:
        """The trace of the turn that everything in this trace was done for."""
        for _ in range(_DEEPEST):
            call = self._calls.get(trace)
            if call is None:
                break
            trace = call.trace_id
        return trace

    def _streams(self, fresh: Iterable[SpanRow]) -> set[str]:
        """The streams of subagents among those of these spans."""
        return {row.stream for row in fresh} & self._links.keys()

    def changed(self, rows: Sequence[SpanRow], touched: set[bytes], after: int) -> list[SpanRow]:
        """Those of some rows that are not what they were when ``after`` was the last event, or that lines touched."""
        fresh = touched | {row.span_id for row in rows if row.changed > after}
        streams = self._streams(row for row in rows if row.span_id in fresh)
        return [self.joined(row) for row in rows if row.span_id in fresh or self._reach(row, streams, fresh)]

    def _reach(self, row: SpanRow, streams: set[str], fresh: set[bytes]) -> bool:
        """Whether a span may show differently because of a fresh call above it, or because that was found only now."""
        stream, trace = row.stream, row.trace_id
        for _ in range(_DEEPEST):
            call = self._calls.get(trace)
            if call is None:
                break
            if stream in streams or call.span_id in fresh or call.parent_id in fresh:
                return True
            stream, trace = call.stream, call.trace_id
        return False


class StoredTraces(NamedTuple):
    """All spans of a session by trace."""

    session: int
    #: In order of start; without their attributes.
    rows: dict[bytes, SpanRow]
    #: The first span of each response that this session owns.
    payers: set[bytes]
    subagents: Subagents

    def root_trace(self, trace: bytes) -> bytes:
        """The trace of the turn that everything in this trace was done for."""
        return self.subagents.root_trace(trace)
