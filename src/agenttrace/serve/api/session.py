"""``GET /api/v1/sessions/{session}``: a session with its bill by model, its relatives and its files."""

from __future__ import annotations

import re
import sqlite3
from typing import TYPE_CHECKING

import msgspec
from fastapi import APIRouter, Request, Response

from agenttrace.costing import Cashier
from agenttrace.model import Session
from agenttrace.record.line_index import LineIndex
from agenttrace.serve.api.answers import answer, shaped
from agenttrace.serve.api.finding import SessionName, find_session, no_session, ref_of
from agenttrace.serve.api.rows import bill_of, row_of
from agenttrace.serve.api.session_texts import session_texts
from agenttrace.serve.api.shapes import NamedBill, SessionDetail, SessionRef, SourceFile, UsageCheck
from agenttrace.serve.problems import documented
from agenttrace.store.sqlite.agreement import check
from agenttrace.store.sqlite.reading import UsageRow, sessions_by_number, usage_by_session
from agenttrace.views.money import cashier

if TYPE_CHECKING:
    from agenttrace.serve.context import Context

#: As many as a page shows.
_MOST_FORKS = 100
_PORTION = 500
#: The session of a job is named after it and the time it was made.
_JOB = re.compile(r"job_(\d{1,18})_\d+")

_LAST_EVENT = "SELECT coalesce(max(event_no), 0) FROM processed_events"
_PARENT = "SELECT id FROM sessions WHERE agent = ? AND session_id = ?"
#: Those that say so, and copies that do not but begin with responses of this one.
_FORKS = f"""
SELECT id FROM sessions copy WHERE agent = :agent AND events > 0 AND id <> :number AND (
    parent = :session OR copied AND parent IS NULL AND :number = (
        SELECT responses.session_id FROM spans JOIN responses USING (response)
        WHERE spans.session_id = copy.id AND responses.session_id <> copy.id LIMIT 1
    )
) ORDER BY started_at LIMIT {_MOST_FORKS}
"""


def session_router(context: Context) -> APIRouter:
    """The endpoint."""
    router = APIRouter(prefix="/api/v1", tags=["sessions"])
    prices, texts = cashier(context.settings), session_texts(context.reader)

    @router.get(
        "/sessions/{session}",
        summary="A session",
        responses=shaped(SessionDetail) | documented(404, 409, 422),
    )
    async def one(request: Request, session: SessionName) -> Response:
        def question(connection: sqlite3.Connection) -> Response:
            found = find_session(connection, session, context.settings)
            return answer(request, session_detail(connection, found, prices, texts.index))

        return await context.reader.ask(question, empty=no_session)

    return router


def session_detail(
    connection: sqlite3.Connection, session: Session, prices: Cashier, index: LineIndex
) -> SessionDetail:
    """A session with what a page about it needs beside its timeline."""
    usage = usage_by_session(connection, [session.id]).get(session.id, [])
    row = row_of(session, prices.bill(usage))
    return SessionDetail(
        **msgspec.structs.asdict(row),
        by_model=_by_model(usage, prices),
        check=msgspec.convert(check(connection, session.id), UsageCheck, from_attributes=True),
        parent_session=_parent(connection, session),
        forks=_forks(connection, session),
        files=_files(connection, index.of(connection, session.id).files()),
        job_id=job_of(session),
        cursor=connection.execute(_LAST_EVENT).fetchone()[0],
    )


def _by_model(usage: list[UsageRow], prices: Cashier) -> list[NamedBill]:
    """A bill for each model, the one with the most tokens first."""
    bills = [NamedBill(row.model, bill_of(prices.bill([row]))) for row in usage]
    totals = {row.model: row.usage.total for row in usage}
    return sorted(bills, key=lambda named: (-totals[named.name], named.name))


def _parent(connection: sqlite3.Connection, session: Session) -> SessionRef | None:
    if session.parent is None:
        return None
    row = connection.execute(_PARENT, (session.agent, session.parent)).fetchone()
    found = [] if row is None else sessions_by_number(connection, [row[0]])
    return ref_of(found[0]) if found else None


def _forks(connection: sqlite3.Connection, session: Session) -> list[SessionRef]:
    values = {"agent": session.agent, "number": session.id, "session": session.session_id}
    numbers = [row[0] for row in connection.execute(_FORKS, values)]
    found = {each.id: each for each in sessions_by_number(connection, numbers)}
    return [ref_of(found[number]) for number in numbers if number in found]


def _files(connection: sqlite3.Connection, numbers: list[int]) -> list[SourceFile]:
    found: list[SourceFile] = []
    for start in range(0, len(numbers), _PORTION):
        part = numbers[start : start + _PORTION]
        rows = connection.execute(
            "SELECT filepath, offset, file_size, gone_at FROM file_offsets "
            f"WHERE file_id IN ({','.join('?' * len(part))})",
            part,
        )
        found += [SourceFile(path, offset, size, gone is not None) for path, offset, size, gone in rows]
    return sorted(found, key=lambda file: file.path)


def job_of(session: Session) -> int | None:
    """The job whose trace this is."""
    from agenttrace.run.trace_log import AGENT

    match = _JOB.fullmatch(session.session_id) if session.agent == AGENT else None
    return None if match is None else int(match[1])
