"""``GET /api/v1/sessions/{session}``: a session with its bill by model, its relatives and its files."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import msgspec
from fastapi import APIRouter, Request, Response

from agenttrace.model import Session
from agenttrace.prices.costing import Cashier
from agenttrace.record.texts.line_index import LineIndex
from agenttrace.serve.api.answers import answer, shaped
from agenttrace.serve.api.finding import SessionName, no_session, ref_of, session_named
from agenttrace.serve.api.rows import bill_of, row_of
from agenttrace.serve.api.session_texts import session_texts
from agenttrace.serve.api.shapes import NamedBill, SessionDetail, SourceFile, UsageCheck
from agenttrace.serve.problems import documented
from agenttrace.store.questions import UsageRow

if TYPE_CHECKING:
    from agenttrace.serve.context import Context
    from agenttrace.store.sqlite.store import SqliteStore

#: As many as a page shows.
_MOST_FORKS = 100
#: The session of a job is named after it and the time it was made.
_JOB = re.compile(r"job_(\d{1,18})_\d+")


def session_router(context: Context) -> APIRouter:
    """The endpoint."""
    router = APIRouter(prefix="/api/v1", tags=["sessions"])
    prices, texts = Cashier.load(context.settings), session_texts(context.reader)

    @router.get(
        "/sessions/{session}",
        summary="A session",
        responses=shaped(SessionDetail) | documented(404, 409, 422),
    )
    async def one(request: Request, session: SessionName) -> Response:
        def question(store: SqliteStore) -> Response:
            found = session_named(store, session)
            return answer(request, session_detail(store, found, prices, texts.index))

        return await context.reader.query(question, empty=no_session)

    return router


def session_detail(store: SqliteStore, session: Session, prices: Cashier, index: LineIndex) -> SessionDetail:
    """A session with what a page about it needs beside its timeline."""
    usage = store.usage_by_session([session.id]).get(session.id, [])
    row = row_of(session, prices.bill(usage))
    parent = store.parent_of(session)
    return SessionDetail(
        **msgspec.structs.asdict(row),
        by_model=_by_model(usage, prices),
        check=msgspec.convert(store.agreement(session.id), UsageCheck, from_attributes=True),
        parent_session=None if parent is None else ref_of(parent),
        forks=[ref_of(fork) for fork in store.forks_of(session, _MOST_FORKS)],
        files=[SourceFile(*file) for file in store.source_files(index.of(store, session.id).files())],
        job_id=job_of(session),
        cursor=store.last_event(),
    )


def _by_model(usage: list[UsageRow], prices: Cashier) -> list[NamedBill]:
    """A bill for each model, the one with the most tokens first."""
    bills = [NamedBill(row.model, bill_of(prices.bill([row]))) for row in usage]
    totals = {row.model: row.usage.total for row in usage}
    return sorted(bills, key=lambda named: (-totals[named.name], named.name))


def job_of(session: Session) -> int | None:
    """The job whose trace this is."""
    from agenttrace.run.results.trace_log import AGENT

    match = _JOB.fullmatch(session.session_id) if session.agent == AGENT else None
    return None if match is None else int(match[1])
