"""``/api/v1/persons``: removing a person of a team: access ends, texts are removed, sums stay."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated

from fastapi import APIRouter, Path, Request, Response

from agenttrace.serve.access.audit import audited
from agenttrace.serve.access.users import NoSuchUserError, name_of
from agenttrace.serve.access.visitor import visitor
from agenttrace.serve.api.answers import answer, endpoint
from agenttrace.serve.api.shapes.settings import RemovedPerson
from agenttrace.serve.problems import ProblemError
from agenttrace.store.errors import STORE_FAILURES

if TYPE_CHECKING:
    from agenttrace.serve.access.access_store import AccessStore
    from agenttrace.serve.team.storing import Storing

PersonName = Annotated[str, Path(max_length=200, description="The person, as sessions name it.")]


def remove_person(access: AccessStore, remove_texts: Callable[[str], int], person: str) -> RemovedPerson:
    """End the access of a person, then remove the texts; it can be repeated after a failure."""
    machines, tokens, logins = end_access(access, person)
    return RemovedPerson(person=person, sessions=remove_texts(person), machines=machines, logins=logins, tokens=tokens)


def end_access(access: AccessStore, person: str) -> tuple[int, int, int]:
    """End machines, API tokens and logins of a person; how many of each."""
    # Machines first: nothing of the person comes in any more.
    machines, tokens = access.machines.revoke_of(person), access.tokens.of_person(person)
    with suppress(NoSuchUserError):
        return machines, tokens, access.users.remove(person)
    return machines, tokens, 0


def persons_router(access: AccessStore, storing: Storing) -> APIRouter:
    """The endpoint, of a team's server alone."""
    router = APIRouter(prefix="/api/v1", tags=["access"])

    @router.delete(
        "/persons/{person}",
        **endpoint("Remove a person of the team", RemovedPerson, 401, 409, 422, 503, for_admins=True),
        description="Logins, API tokens and machines of the person end; texts of all their sessions are removed.",
    )
    async def remove(request: Request, person: PersonName) -> Response:
        if name_of(person) is not None and name_of(person) == visitor(request).person:
            raise ProblemError(409, "You cannot remove yourself; another admin can.")
        async with audited(request, "person.remove", person) as change:
            machines, tokens, logins = await asyncio.to_thread(end_access, access, person)
            try:
                sessions = await storing.remove_texts(person)
            except STORE_FAILURES as error:
                problem = f"Access has ended, but the texts could not be removed yet ({error}). Try again."
                raise ProblemError(503, problem) from error
            change.target = f"{person}: {sessions} sessions"
            return answer(
                request,
                RemovedPerson(person=person, sessions=sessions, machines=machines, logins=logins, tokens=tokens),
            )

    return router
