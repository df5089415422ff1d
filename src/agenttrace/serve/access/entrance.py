"""Logging in: the same work and the same sentence for a wrong name and a wrong password."""

from __future__ import annotations

import asyncio
import math

from agenttrace.serve.access import passwords
from agenttrace.serve.access.access_store import AccessStore
from agenttrace.serve.access.attempts import TooManyAttemptsError
from agenttrace.serve.access.audit_log import DONE, REFUSED
from agenttrace.serve.access.logins import Login
from agenttrace.serve.access.users import NOBODY, name_of
from agenttrace.serve.problems import ProblemError

WRONG = "The name or the password is wrong."
#: In the audit log where there is no such user: what was typed may have been a password.
UNKNOWN_NAME = "(unknown name)"

#: Each check takes 64 MiB for a moment.
_AT_A_TIME = 2


class Entrance:
    """Lets people in who know their password, and slows down those who guess."""

    def __init__(self, access: AccessStore, seconds: int) -> None:
        self._access, self._seconds = access, seconds
        self._checking = asyncio.Semaphore(_AT_A_TIME)

    async def log_in(self, typed_name: str, password: str, address: str) -> tuple[str, Login]:
        """A token and the login it opens; raises 401 for what is wrong, 429 for too many attempts."""
        name = name_of(typed_name)
        try:
            attempt = await asyncio.to_thread(self._access.attempts.begin, name or typed_name, address)
        except TooManyAttemptsError as error:
            raise _slow_down(error.seconds) from None
        kept = self._access.users.password_hash(name)
        async with self._checking:
            is_right = await asyncio.to_thread(passwords.matches, kept or passwords.NOBODYS, password)
        begun = None
        if name is not None and kept is not None and is_right:
            begun = await asyncio.to_thread(self._access.logins.begin, name, kept, self._seconds)
        if begun is None:
            await self._note(NOBODY, address, UNKNOWN_NAME if kept is None else str(name), REFUSED)
            raise ProblemError(401, WRONG)
        await asyncio.to_thread(self._access.attempts.succeeded, attempt)
        await self._note(begun[1].user, address, begun[1].user, DONE)
        return begun

    async def _note(self, user: str, address: str, target: str, outcome: str) -> None:
        await asyncio.to_thread(self._access.audit.begin, user, address, "login", target, outcome)


def _slow_down(seconds: float) -> ProblemError:
    wait = max(1, math.ceil(seconds))
    detail = f"Too many failed logins; try again in {wait} seconds."
    return ProblemError(429, detail, headers={"Retry-After": str(wait)}, retry_after=wait)
