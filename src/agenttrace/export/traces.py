"""The spans of one session as whole traces: who is under whom, and in what order they may leave."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from functools import cached_property

from agenttrace.export.span import Step
from agenttrace.store.questions import SpanRow
from agenttrace.store.span_tree import StoredTraces

#: A damaged or hostile log may make a span its own ancestor.
_DEEPEST = 1_000


class SessionTraces:
    """All spans of a session, subagents under the calls that started them."""

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

    def path(self, span_id: bytes) -> tuple[Step, ...]:
        """From the root to the span; a parent that is not there, or is in another trace, is left out."""
        row: SpanRow | None = self.rows[span_id]
        steps: list[Step] = []
        seen: set[bytes] = set()
        while row is not None and row.span_id not in seen and len(steps) < _DEEPEST:
            seen.add(row.span_id)
            steps.append(Step(row.span_id, row.start))
            parent = self.rows.get(row.parent_id) if row.parent_id is not None else None
            row = parent if parent is not None and parent.trace_id == row.trace_id else None
        return tuple(reversed(steps))

    def ordered(self, rows: Iterable[SpanRow]) -> list[bytes]:
        """Parents before their children, and otherwise as they began."""
        depths = {row.span_id: len(self.path(row.span_id)) for row in rows}
        return sorted(depths, key=lambda span_id: (depths[span_id], self.rows[span_id].start, span_id))

    def pays(self, span_id: bytes) -> bool:
        """Whether the tokens of the span's response are told with this span: with one, wherever it stands again."""
        return span_id in self.stored.payers

    def last_step(self, turn: bytes) -> bytes | None:
        """The last model call of a turn, which holds its answer."""
        return self._last_steps.get(turn)

    @cached_property
    def _last_steps(self) -> dict[bytes, bytes]:
        found: dict[bytes, SpanRow] = {}
        for row in self.rows.values():
            if row.kind == "step" and row.parent_id is not None:
                before = found.get(row.parent_id)
                if before is None or (row.start, row.step_n) >= (before.start, before.step_n):
                    found[row.parent_id] = row
        return {turn: row.span_id for turn, row in found.items()}

    def ended(self, row: SpanRow) -> int:
        """When it ended; for what the log left open, when the last thing happened under it."""
        return max(row.end, row.start) if row.end is not None else self._last.get(row.span_id, row.start)

    @cached_property
    def _last(self) -> dict[bytes, int]:
        """When the last thing happened under each span that has something under it."""
        last: dict[bytes, int] = {}
        for row in self.rows.values():
            moment = row.start if row.end is None else row.end
            for step in self.path(row.span_id):
                last[step.span_id] = max(last.get(step.span_id, 0), moment)
        return last


def digest_of(row: SpanRow) -> bytes:
    """Names a span as it is now; another one when anything that is sent of it differs, but for what was said."""
    told = row._replace(attributes=None, changed=0, ended_by=bool(row.ended_by) or 0)._asdict()
    # Names of spans that were sent before searches were counted stay what they were.
    searches = told.pop("web_searches")
    parts = (*told.values(), searches) if searches else tuple(told.values())
    return hashlib.blake2b(repr(parts).encode("utf-8", "surrogatepass"), digest_size=8).digest()


def end_of(rows: Iterable[SpanRow]) -> int:
    """When the last thing happened in a trace."""
    return max(row.start if row.end is None else row.end for row in rows)
