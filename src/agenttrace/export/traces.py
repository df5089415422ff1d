"""The spans of one session as whole traces: parents, paths, and the order in which they are sent."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from functools import cached_property

from agenttrace.export.span import PathStep
from agenttrace.store.questions import SpanRow
from agenttrace.store.span_tree import StoredTraces

#: A damaged or hostile log may make a span its own ancestor.
_DEEPEST = 1_000


class SessionTraces:
    """All spans of a session; those of a subagent are under the call that started it."""

    def __init__(self, stored: StoredTraces) -> None:
        self.stored = stored
        self.rows = stored.rows

    def families(self, traces: Iterable[bytes]) -> dict[bytes, list[SpanRow]]:
        """The spans of these traces, each together with those of its subagents, by the trace they all belong to."""
        wanted = {self.stored.root_trace(trace) for trace in traces}
        found: dict[bytes, list[SpanRow]] = {}
        for row in self.rows.values():
            if row.trace_id in wanted:
                found.setdefault(row.trace_id, []).append(row)
        return found

    def path(self, span_id: bytes) -> tuple[PathStep, ...]:
        """From the root to the span; a parent that is missing, or in another trace, ends the path."""
        row: SpanRow | None = self.rows[span_id]
        steps: list[PathStep] = []
        seen: set[bytes] = set()
        while row is not None and row.span_id not in seen and len(steps) < _DEEPEST:
            seen.add(row.span_id)
            steps.append(PathStep(row.span_id, row.start))
            parent = self.rows.get(row.parent_id) if row.parent_id is not None else None
            row = parent if parent is not None and parent.trace_id == row.trace_id else None
        return tuple(reversed(steps))

    def ordered(self, rows: Iterable[SpanRow]) -> list[bytes]:
        """Parents before their children, and otherwise by start."""
        depths = {row.span_id: len(self.path(row.span_id)) for row in rows}
        return sorted(depths, key=lambda span_id: (depths[span_id], self.rows[span_id].start, span_id))

    @cached_property
    def last_steps(self) -> dict[bytes, bytes]:
        """The last model call of each turn, which has its answer."""
        found: dict[bytes, SpanRow] = {}
        for row in self.rows.values():
            if row.kind == "step" and row.parent_id is not None:
                before = found.get(row.parent_id)
                if before is None or (row.start, row.step_n) >= (before.start, before.step_n):
                    found[row.parent_id] = row
        return {turn: row.span_id for turn, row in found.items()}

    def ended(self, row: SpanRow) -> int:
        """When it ended; for a span without an end, the last time in it or under it."""
        return max(row.end, row.start) if row.end is not None else self._last.get(row.span_id, row.start)

    @cached_property
    def _last(self) -> dict[bytes, int]:
        """The last time in or under each span."""
        last: dict[bytes, int] = {}
        for row in self.rows.values():
            moment = row.start if row.end is None else row.end
            for step in self.path(row.span_id):
                last[step.span_id] = max(last.get(step.span_id, 0), moment)
        return last


def status_of(row: SpanRow) -> str:
    """The status of a span that can no longer change."""
    return "unclosed" if row.status == "open" else row.status


def digest_of(row: SpanRow) -> bytes:
    """Identifies the content of a span: it differs when anything that is sent differs, except texts."""
    fields = row._replace(attributes=None, changed=0, ended_by=bool(row.ended_by) or 0)._asdict()
    # Digests of spans that were sent before web searches were counted stay valid.
    searches = fields.pop("web_searches")
    parts = (*fields.values(), searches) if searches else tuple(fields.values())
    return hashlib.blake2b(repr(parts).encode("utf-8", "surrogatepass"), digest_size=8).digest()


def end_of(rows: Iterable[SpanRow]) -> int:
    """The last time in a trace."""
    return max(row.start if row.end is None else row.end for row in rows)
