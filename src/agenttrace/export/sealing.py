"""Sealing: a trace that can no longer change is queued, whole, for every destination that wants it.

A trace is a turn with everything under it, subagents included. It is sealed when its root is there, nothing in it is
open, and nothing was recorded of it for a while; where its session has said nothing for long, also with what the log
left open. Late lines do come, hours after the turn: spans that they add are queued then, spans that they change are not
sent again, as no destination would replace them everywhere, but counted as late.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from fnmatch import fnmatchcase
from itertools import groupby
from typing import NamedTuple

from agenttrace.config import Settings
from agenttrace.destinations import DestinationSettings
from agenttrace.export.traces import SessionTraces, digest_of, end_of
from agenttrace.model import Session
from agenttrace.store.exports import DestinationRow, Queue, Touched
from agenttrace.store.questions import SpanRow
from agenttrace.store.sqlite.store import SqliteStore

#: Traces that one pass looks at; between two passes others may use the store.
_PORTION = 2_000


class Target(NamedTuple):
    """A destination as the settings and as the store know it."""

    settings: DestinationSettings
    row: DestinationRow

    def wants(self, session: Session, root: SpanRow | None, ended: int) -> bool:
        """Whether a trace passes the destination's filters and is young enough."""
        wanted = self.settings
        if wanted.agents and session.agent not in wanted.agents:
            return False
        if wanted.projects and not any(fnmatchcase(session.project or "", glob) for glob in wanted.projects):
            return False
        if wanted.states and (root is None or _status(root) not in wanted.states):
            return False
        return ended >= self.row.since


def _status(root: SpanRow) -> str:
    return "unclosed" if root.status == "open" else root.status


def targets(store: SqliteStore, settings: Settings) -> list[Target]:
    """The destinations that are sent to."""
    rows = {row.name: row for row in store.exports.destinations.rows() if row.removed_at is None}
    return [Target(each, rows[each.name]) for each in settings.destinations if each.name in rows]


class Sealer:
    """Looks at what was recorded, and queues what may be sent."""

    def __init__(self, store: SqliteStore, settings: Settings, clock: Callable[[], float] = time.time) -> None:
        self._store = store
        self._exports = store.exports
        self._settings = settings
        self._clock = clock
        #: Traces that were looked at and are not over, with the mark they had: nothing is new before it is another one,
        #: or before their session counts as over.
        self._waiting: dict[tuple[int, bytes], tuple[float, float]] = {}

    def run(self, stop: Callable[[], bool] = lambda: False, quiet_seconds: float | None = None) -> int:
        """Look at every trace that was quiet for long enough; how many were sealed."""
        wanted = targets(self._store, self._settings)
        quiet = self._settings.export.quiet_seconds if quiet_seconds is None else quiet_seconds
        quiet_before = self._clock() - quiet
        sealed, after = 0, -1
        while not stop():
            touched = self._exports.quiet(quiet_before, after_session=after, limit=_PORTION)
            if not touched:
                break
            if len(touched) == _PORTION and touched[0].session != touched[-1].session:
                # The last session may go on beyond the portion: it is looked at whole.
                touched = [each for each in touched if each.session != touched[-1].session]
            for session, group in groupby(filter(self._is_news, touched), key=lambda each: each.session):
                sealed += self._seal(session, list(group), quiet_before, wanted)
            after = touched[-1].session
        return sealed

    def _is_news(self, each: Touched) -> bool:
        at, look_again = self._waiting.get((each.session, each.trace), (None, 0.0))
        return at != each.at or self._clock() >= look_again

    def _seal(self, number: int, touched: Sequence[Touched], quiet_before: float, wanted: Sequence[Target]) -> int:
        found = self._store.sessions_by_number([number])
        if not found:
            # Pruned meanwhile: there is nothing left to send.
            self._exports.seal(number, touched, [])
            return 0
        traces = SessionTraces(self._store.traces(number))
        moving = {traces.stored.root_trace(trace) for trace in self._exports.busy(number, quiet_before)}
        over = self._is_over(found[0])
        families = traces.families(each.trace for each in touched)
        sealed = {
            trace: rows for trace, rows in families.items() if trace not in moving and (over or _is_complete(rows))
        }
        looked_at = [each for each in touched if self._is_settled(traces, each, families, sealed)]
        self._remember(found[0], touched, looked_at)
        queues = [self._queue_of(target, found[0], traces, sealed) for target in wanted]
        self._exports.seal(number, looked_at, queues)
        return len(sealed)

    def _remember(self, session: Session, touched: Sequence[Touched], looked_at: Sequence[Touched]) -> None:
        over_at = (session.last_at or 0) / 1_000_000 + self._settings.record.stale_minutes * 60
        for each in touched:
            self._waiting.pop((each.session, each.trace), None)
        for each in set(touched) - set(looked_at):
            self._waiting[(each.session, each.trace)] = (each.at, over_at)

    @staticmethod
    def _is_settled(
        traces: SessionTraces, each: Touched, families: Mapping[bytes, object], sealed: Mapping[bytes, object]
    ) -> bool:
        """Whether a trace need not be looked at again: it is sealed, or there is none of its spans any more."""
        root = traces.stored.root_trace(each.trace)
        return root in sealed or root not in families

    def _is_over(self, session: Session) -> bool:
        """Whether nothing more is to be expected of a session, as far as one can know."""
        if session.state == "ended":
            return True
        horizon = (self._clock() - self._settings.record.stale_minutes * 60) * 1_000_000
        return session.last_at is None or session.last_at < horizon

    def _queue_of(
        self, target: Target, session: Session, traces: SessionTraces, sealed: Mapping[bytes, list[SpanRow]]
    ) -> Queue:
        spans = [row.span_id for rows in sealed.values() for row in rows]
        known = self._exports.ledger.known(target.row.destination_id, spans)
        queue = Queue(target.row.destination_id, [], [])
        for trace, rows in sealed.items():
            root = next((row for row in rows if row.trace_id == trace and row.parent_id is None), None)
            ended = end_of(rows)
            for row in rows:
                sent = known.get(row.span_id)
                if sent is not None and sent.state == "acknowledged" and sent.digest not in (None, digest_of(row)):
                    queue.late.append(row.span_id)
            if target.wants(session, root, ended):
                queue.fresh.extend(traces.ordered(row for row in rows if row.span_id not in known))
        return queue


def _is_complete(rows: Sequence[SpanRow]) -> bool:
    """Whether all is closed, and the root is there: spans that are received come children first."""
    return all(row.status != "open" for row in rows) and any(row.parent_id is None for row in rows)
