"""``/team/v1/``: machines join with a code, and send their rows with the token that they got for it.

A page is answered after it is durable. A machine sends one page at a time; a server that has too much to do answers 503
with ``Retry-After``, and the machine tries again later.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Iterable, Iterator
from typing import TYPE_CHECKING, TypeVar

import msgspec
from fastapi import APIRouter, Request, Response
from starlette.datastructures import Headers

from agenttrace.serve.access.audit import Beginning, Ending
from agenttrace.serve.access.gate import address_of, authorization
from agenttrace.serve.access.machines import InviteError, Machine
from agenttrace.serve.problems import ProblemError, SlowDownError
from agenttrace.serve.team.allowances import Allowances
from agenttrace.serve.team.storing import Storing
from agenttrace.store.errors import STORE_FAILURES
from agenttrace.store.rows import RemovedRow, Row, StoredSession
from agenttrace.store.team import WrongPositionError
from agenttrace.team import wire

if TYPE_CHECKING:
    from agenttrace.serve.context import ServerContext

logger = logging.getLogger(__name__)

T = TypeVar("T")

JSON = "application/json"
#: Pages that are received or stored at once, and bytes of all of them.
_MOST_PAGES = 32
_MOST_HELD = 128 << 20
_MIB = 1 << 20
#: The body of a machine that joins.
_MOST_JOIN = 10_000
_BUSY_SECONDS = 2.0
_STORE_FAILURES: tuple[type[Exception], ...] = (*STORE_FAILURES, OSError)


def team_router(context: ServerContext, storing: Storing) -> APIRouter:
    """The endpoints, which are for machines only."""
    router = APIRouter(include_in_schema=False)
    team = _Team(context, storing)

    @router.post(wire.JOIN)
    async def join(request: Request) -> Response:
        return await team.join(request)

    @router.post(wire.LEAVE)
    async def leave(request: Request) -> Response:
        return await team.leave(request)

    @router.get(wire.POSITION)
    async def position(request: Request) -> Response:
        machine = await team.machine(request)
        return _json(wire.PositionReply(position=await team.stored(storing.position(machine.name))))

    @router.post(wire.ROWS)
    async def rows(request: Request) -> Response:
        return await team.rows(request)

    return router


class _Team:
    """Answers machines."""

    def __init__(self, context: ServerContext, storing: Storing) -> None:
        self._context, self._storing = context, storing
        self._access = context.access
        #: Machines whose page is on its way.
        self._sending: set[str] = set()
        team = context.settings.team
        self._allowances = Allowances(rows=team.max_rows_per_minute, size=team.max_mib_per_minute * _MIB)
        self._held = 0

    # -- joining ----------------------------------------------------------------------------------------------

    async def join(self, request: Request) -> Response:
        body = await _body(request, _MOST_JOIN)
        try:
            asked = msgspec.json.decode(body, type=wire.JoinRequest)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            raise ProblemError(400, "The request to join cannot be read.") from None
        _check_protocol(asked.protocol)
        address = address_of(request.scope)
        try:
            token, machine = await asyncio.to_thread(
                self._access.machines.join,
                asked.code,
                asked.name,
                asked.person,
                _token(request.headers),
                asked.share,
            )
        except InviteError as error:
            await self._access.refusals.wrong(address, "team", action="join")
            raise ProblemError(403, f"{str(error).capitalize()}. Ask the team's admin for a new one.") from None
        await self._noted(machine.name, address, "machine.join", machine.person)
        team = self._context.team or ""
        return _json(wire.JoinReply(token=token, machine=machine.name, person=machine.person, team=team))

    async def leave(self, request: Request) -> Response:
        machine = await self.machine(request)
        await asyncio.to_thread(self._access.machines.revoke, machine.name)
        await self._noted(machine.name, address_of(request.scope), "machine.leave", machine.person)
        return _json({})

    async def _noted(self, machine: str, address: str, action: str, person: str) -> None:
        entry = Beginning(user=f"machine:{machine}", address=address, action=action, target=f"{machine} ({person})")
        number = await self._access.audit_writer.write(entry)
        await self._access.audit_writer.write(Ending(number=number, outcome="done"))

    # -- rows -------------------------------------------------------------------------------------------------

    async def machine(self, request: Request) -> Machine:
        """The machine that asks; 401 for an unknown one."""
        found = self._access.machines.find(_token(request.headers))
        if found is None:
            await self._access.refusals.wrong(address_of(request.scope), "team")
            detail = "The token of this machine is not known, or was revoked."
            raise ProblemError(401, detail, headers={"WWW-Authenticate": 'Bearer realm="AgentTrace team"'})
        if self._access.machines.is_stale(found):
            await asyncio.to_thread(self._access.machines.seen, found)
        return found

    async def rows(self, request: Request) -> Response:
        machine = await self.machine(request)
        if self._context.life.stopping:
            raise _busy("The server is stopping.")
        if machine.name in self._sending:
            raise SlowDownError("pages of this machine at once", 1.0)
        if (slowed := self._allowances.slowed(machine.name)) is not None:
            self._context.metrics.team_slowed.labels(slowed.what).inc()
            raise SlowDownError(f"{slowed.what} of this machine", slowed.seconds)
        if len(self._sending) >= _MOST_PAGES:
            raise _busy("Too many machines send at once.")
        self._sending.add(machine.name)
        try:
            return await self._taken(request, machine)
        finally:
            self._sending.discard(machine.name)

    async def _taken(self, request: Request, machine: Machine) -> Response:
        if request.headers.get("content-encoding", "").strip().lower() != "zstd":
            raise ProblemError(415, "Send Content-Encoding: zstd.")
        held = _Held(self)
        try:
            body = await _body(request, wire.MOST_SENT, held)
            found = await self.stored(self._storing.take(body, machine.name, machine.person))
        except WrongPositionError as error:
            return _json(wire.Refusal(detail=str(error), position=error.position), 409)
        except wire.OtherProtocolError as error:
            return _other_protocol(error)
        except wire.TooLargeError as error:
            raise ProblemError(413, f"Too large: {error}.") from None
        except wire.BadPageError as error:
            raise ProblemError(422, f"Not stored: {error}.") from None
        finally:
            self._allowances.count(machine.name, size=held.size)
            held.release()
        self._allowances.count(machine.name, rows=len(found.page.rows))
        self._context.index.look_at(_changed(found.page.rows))
        self._context.metrics.team_rows.labels("stored").inc(len(found.page.rows))
        self._context.metrics.team_rows.labels("ignored").inc(found.ignored)
        return _json(wire.RowsReply(stored=len(found.page.rows), ignored=found.ignored))

    async def stored(self, work: Awaitable[T]) -> T:
        """The result of work with the store; 503 where it cannot be used at the moment."""
        try:
            return await work
        except _STORE_FAILURES as error:
            logger.warning("the team's store cannot be used: %s", error)
            raise _busy("The store cannot be written at the moment.") from error

    def hold(self, size: int) -> None:
        """Count bytes of bodies; 503 where there are too many."""
        self._held += size
        if self._held > _MOST_HELD:
            raise _busy("Too much is being received at once.")

    def release(self, size: int) -> None:
        """These bytes are not needed any more."""
        self._held -= size


class _Held:
    """The bytes of one body."""

    def __init__(self, team: _Team) -> None:
        self._team, self.size = team, 0

    def add(self, size: int) -> None:
        self.size += size
        self._team.hold(size)

    def release(self) -> None:
        self._team.release(self.size)


def _changed(rows: Iterable[Row]) -> Iterator[int]:
    """The sessions whose own rows changed, or are gone."""
    for row in rows:
        if isinstance(row, StoredSession):
            yield row.session.id
        elif isinstance(row, RemovedRow) and row.kind == "session":
            yield row.session


async def _body(request: Request, most: int, held: _Held | None = None) -> bytes:
    parts: list[bytes] = []
    size = 0
    async for part in request.stream():
        size += len(part)
        if size > most:
            raise ProblemError(413, f"The body is larger than {most} bytes.", headers={"Connection": "close"})
        if held is not None:
            held.add(len(part))
        parts.append(part)
    return b"".join(parts)


def _token(headers: Headers) -> str:
    scheme, token = authorization(headers)
    return token if scheme == "bearer" else ""


def _busy(why: str) -> ProblemError:
    # Spread, so that the machines do not come back at the same moment.
    wait = max(1, round(_BUSY_SECONDS * (1 + random.random())))  # noqa: S311 - no secret
    return ProblemError(503, why, headers={"Retry-After": str(wait)})


def _check_protocol(version: int) -> None:
    try:
        wire.check_protocol(version)
    except wire.OtherProtocolError as error:
        raise ProblemError(426, f"{error}", protocols=(wire.OLDEST, wire.PROTOCOL)) from None


def _other_protocol(error: wire.OtherProtocolError) -> Response:
    return _json(wire.Refusal(detail=str(error), protocols=(wire.OLDEST, wire.PROTOCOL)), 426)


def _json(value: object, status: int = 200) -> Response:
    return Response(msgspec.json.encode(value), status, media_type=JSON)
