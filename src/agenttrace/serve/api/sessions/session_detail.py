"""``GET /api/v1/sessions/{session}``: a session with its bill by model, its parent, its forks and its files."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import msgspec
from fastapi import APIRouter, Request, Response

from agenttrace.model import Session
from agenttrace.prices.costing import Cashier
from agenttrace.record.texts.line_index import LineIndex
from agenttrace.serve.api.answers import answer, endpoint
from agenttrace.serve.api.sessions.lookup import SessionName, bill_of, query_session, ref_of, row_of
from agenttrace.serve.api.shapes.figures import NamedBill
from agenttrace.serve.api.shapes.sessions import ResumeHint, SessionDetail, SourceFile, UsageCheck
from agenttrace.store.questions import UsageRow
from agenttrace.views.resume import resume_of

if TYPE_CHECKING:
    from agenttrace.serve.context import ServerContext
    from agenttrace.store.store import Store

_MOST_FORKS = 100
#: The session of a job has its number and the time it was created in the name.
_JOB = re.compile(r"job_(\d{1,18})_\d+")


def session_router(context: ServerContext) -> APIRouter:
    """The endpoint."""
    router = APIRouter(prefix="/api/v1", tags=["sessions"])

    @router.get("/sessions/{session}", **endpoint("A session", SessionDetail, 404, 409, 422))
    async def one(request: Request, session: SessionName) -> Response:
        def question(store: Store, found: Session) -> Response:
            return answer(request, _detail(store, found, context.index.prices, context.reader.texts.index))

        return await query_session(context.reader, session, question)

    return router


def _detail(store: Store, session: Session, prices: Cashier, index: LineIndex) -> SessionDetail:
    usage = store.usage_by_session([session.id]).get(session.id, [])
    outcomes = store.outcomes([session.id]).get(session.id)
    marks = store.marks([session.id]).get(session.id)
    parent = store.parent_of(session)
    return SessionDetail(
        **msgspec.structs.asdict(row_of(session, prices.bill(usage), outcomes, marks)),
        by_model=_by_model(usage, prices),
        check=msgspec.convert(store.agreement(session.id), UsageCheck, from_attributes=True),
        parent_session=None if parent is None else ref_of(parent),
        forks=[ref_of(fork) for fork in store.forks_of(session, _MOST_FORKS)],
        files=[SourceFile(*file) for file in store.source_files(index.of(store, session.id).files())],
        job_id=job_of(session),
        resume=_resume(store, session, index),
        cursor=store.last_event(),
    )


def _resume(store: Store, session: Session, index: LineIndex) -> ResumeHint | None:
    found = resume_of(store, session, index)
    if found is None:
        return None
    return ResumeHint(found.line, found.limit, found.directory_gone)


def _by_model(usage: list[UsageRow], prices: Cashier) -> list[NamedBill]:
    """A bill for each model, the one with the most tokens first."""
    ordered = sorted(usage, key=lambda row: (-row.usage.total, row.model))
    return [NamedBill(row.model, bill_of(prices.bill([row]))) for row in ordered]


def job_of(session: Session) -> int | None:
    """The job whose trace this is."""
    from agenttrace.run.results.trace_log import AGENT

    match = _JOB.fullmatch(session.session_id) if session.agent == AGENT else None
    return None if match is None else int(match[1])
