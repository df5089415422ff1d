"""Sealing: a trace that can no longer change is queued, whole, for every destination that wants it.

A trace is a turn with everything under it, subagents included. It is sealed when it has its root, nothing in it is
open, and nothing of it was recorded for a while; where its session was silent for long, also with open spans. Lines may
come hours after the turn: spans that they add are queued then; spans that they change are not sent again, as not every
destination would replace them, but counted as late.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from fnmatch import fnmatchcase
from itertools import groupby
from typing import NamedTuple

from agenttrace.config import Settings
from agenttrace.destinations import TEAM, DestinationSettings
from agenttrace.export.traces import SessionTraces, digest_of, end_of, status_of
from agenttrace.model import Session
from agenttrace.projects import is_demo
from agenttrace.store.exports import DestinationRow, Queue, Touched
from agenttrace.store.questions import SpanRow
from agenttrace.store.sqlite.store import SqliteStore

#: Traces in one pass; between two passes other connections may use the store.
_PORTION = 2_000


class Target(NamedTuple):
    """The settings of a destination, and its row in the store."""

    settings: DestinationSettings
    row: DestinationRow

    def wants(self, session: Session, root: SpanRow | None, ended: int) -> bool:
        """Whether a trace passes the destination's filters and ended after its start."""
        wanted = self.settings
        if wanted.agents and session.agent not in wanted.agents:
            return False
        if wanted.projects and not any(fnmatchcase(session.project or "", glob) for glob in wanted.projects):
            return False
        if wanted.states and (root is None or status_of(root) not in wanted.states):
            return False
        return ended >= self.row.since


def targets(store: SqliteStore, settings: Settings) -> list[Target]:
    """The destinations of spans of the settings that are not removed."""
    return [each for each in _configured(store, settings) if each.settings.type != TEAM]


def team_targets(store: SqliteStore, settings: Settings) -> list[Target]:
    """The servers of teams of the settings."""
    return [each for each in _configured(store, settings) if each.settings.type == TEAM]


def _configured(store: SqliteStore, settings: Settings) -> list[Target]:
    rows = {row.name: row for row in store.exports.destinations.rows() if row.removed_at is None}
    return [Target(each, rows[each.name]) for each in settings.destinations if each.name in rows]


class Sealer:
    """Finds recorded traces that can no longer change, and queues them."""

    def __init__(self, store: SqliteStore, settings: Settings, clock: Callable[[], float] = time.time) -> None:
        self._store = store
        self._exports = store.exports
        self._settings = settings
        self._clock = clock
        #: Traces that are not complete, with the time of their last change and the time when their session counts as
        #: over: they are skipped until either differs.
        self._waiting: dict[tuple[int, bytes], tuple[float, float]] = {}

    def run(self, stop: Callable[[], bool] = lambda: False, quiet_seconds: float | None = None) -> int:
        """Seal the traces that were quiet for long enough; how many were sealed."""
        wanted = targets(self._store, self._settings)
        quiet = self._settings.export.quiet_seconds if quiet_seconds is None else quiet_seconds
        quiet_before = self._clock() - quiet
        sealed, after = 0, -1
        while not stop():
            touched = self._exports.quiet(quiet_before, after_session=after, limit=_PORTION)
            if not touched:
                break
            if len(touched) == _PORTION and touched[0].session != touched[-1].session:
                # The last session may continue beyond the portion: it is handled as a whole.
                touched = [each for each in touched if each.session != touched[-1].session]
            for session, group in groupby(filter(self._is_changed, touched), key=lambda each: each.session):
                sealed += self._seal(session, list(group), quiet_before, wanted)
            after = touched[-1].session
        return sealed

    def _is_changed(self, each: Touched) -> bool:
        at, over_at = self._waiting.get((each.session, each.trace), (None, 0.0))
        return at != each.at or self._clock() >= over_at

    def _seal(self, number: int, touched: Sequence[Touched], quiet_before: float, wanted: Sequence[Target]) -> int:
        found = self._store.sessions_by_number([number])
        if not found or is_demo(found[0].project):
            # Pruned in the meantime, or demo data: there is nothing to send.
            self._exports.seal(number, touched, [])
            return 0
        traces = SessionTraces(self._store.traces(number))
        moving = {traces.stored.root_trace(trace) for trace in self._exports.busy(number, quiet_before)}
        over = self._is_over(found[0])
        families = traces.families(each.trace for each in touched)
        sealed = {
            trace: rows for trace, rows in families.items() if trace not in moving and (over or _is_complete(rows))
        }
        settled = [each for each in touched if self._is_settled(traces, each, families, sealed)]
        self._remember(found[0], touched, settled)
        queues = [self._queue_of(target, found[0], traces, sealed) for target in wanted]
        self._exports.seal(number, settled, queues)
        return len(sealed)

    def _remember(self, session: Session, touched: Sequence[Touched], settled: Sequence[Touched]) -> None:
        over_at = (session.last_at or 0) / 1_000_000 + self._settings.record.stale_minutes * 60
        for each in touched:
            self._waiting.pop((each.session, each.trace), None)
        for each in set(touched) - set(settled):
            self._waiting[(each.session, each.trace)] = (each.at, over_at)

    @staticmethod
    def _is_settled(
        traces: SessionTraces, each: Touched, families: Mapping[bytes, object], sealed: Mapping[bytes, object]
    ) -> bool:
        """Whether a trace needs no further pass: it is sealed, or its spans are gone."""
        root = traces.stored.root_trace(each.trace)
        return root in sealed or root not in families

    def _is_over(self, session: Session) -> bool:
        """Whether a session has ended, or was silent for long enough."""
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
    """Whether all spans are closed, and the root is there: received spans come children first."""
    return all(row.status != "open" for row in rows) and any(row.parent_id is None for row in rows)
