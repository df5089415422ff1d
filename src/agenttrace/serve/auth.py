"""Callers: internal programs with a shared token, chat users with a signed token each."""

from __future__ import annotations

import hmac
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import jwt
from fastapi import Request

from agenttrace.serve.access.access_store import AccessStore
from agenttrace.serve.access.gate import UnauthorizedError, WrongTokenError, address_of, authorization

T = TypeVar("T")

#: In the OpenAPI document.
SECURITY_SCHEMES: dict[str, Any] = {
    "InternalToken": {
        "type": "apiKey",
        "in": "header",
        "name": "Authorization",
        "description": "`Authorization: Internal-Token <INTERNAL_API_TOKEN>`",
    },
    "ChatUser": {
        "type": "http",
        "scheme": "bearer",
        "bearerFormat": "JWT",
        "description": "HS256, signed with `AGENTTRACE_JWT_SECRET`; `sub` is the user, `site_id` (a number) the store, "
        "`exp` the end.",
    },
    "ApiToken": {
        "type": "http",
        "scheme": "bearer",
        "description": "For everything below `/api/v1`: a token of `agenttrace token create NAME`.",
    },
}
INTERNAL_ONLY: dict[str, Any] = {"security": [{"InternalToken": []}]}
CHAT_USERS_ONLY: dict[str, Any] = {"security": [{"ChatUser": []}]}
#: Nothing is needed on the machine itself.
INTAKE_SENDERS: dict[str, Any] = {"security": [{}, {"InternalToken": []}]}

_ALGORITHM = "HS256"
_LONGEST_SUBJECT = 100


@dataclass(frozen=True, slots=True)
class ChatUser:
    """The user of a chat token."""

    id: str
    site_id: int


def verify_internal_token(request: Request, expected: str) -> None:
    """Raise 401 unless the request has the token; takes the same time for every wrong one."""
    given = _credentials(request, "Internal-Token")
    # As bytes: comparing text that is not ASCII would raise.
    if not hmac.compare_digest(given.encode("latin-1"), expected.encode()):
        raise WrongTokenError("Internal-Token", "The token is not the one of this server.")


def chat_user(request: Request, secret: str) -> ChatUser:
    """The user of the request's token; raises a 401 that says what is wrong with it."""
    token = _credentials(request, "Bearer")
    try:
        claims = jwt.decode(token, secret, algorithms=[_ALGORITHM], options={"require": ["sub", "site_id", "exp"]})
    except jwt.ExpiredSignatureError:
        raise UnauthorizedError("Bearer", "The token has expired.") from None
    except jwt.MissingRequiredClaimError as error:
        raise UnauthorizedError("Bearer", f"The token has no claim {error.claim}.") from None
    except jwt.InvalidTokenError:
        raise WrongTokenError("Bearer", "The token is not valid.") from None
    return _user(claims["sub"], claims["site_id"])


async def slowly(request: Request, target: str, check: Callable[[], T]) -> T:
    """The result of a check; a wrong token is answered later and later, and written into the audit log."""
    try:
        return check()
    except WrongTokenError:
        access: AccessStore = request.app.state.access
        await access.refusals.wrong(address_of(request.scope), target)
        raise


def _user(subject: object, site_id: object) -> ChatUser:
    if not isinstance(subject, str) or not 0 < len(subject) <= _LONGEST_SUBJECT or not subject.isprintable():
        raise UnauthorizedError("Bearer", f"The claim sub has to be 1 to {_LONGEST_SUBJECT} printable characters.")
    if type(site_id) is not int or not 0 < site_id < 2**63:
        raise UnauthorizedError("Bearer", "The claim site_id has to be a whole number above 0.")
    return ChatUser(subject, site_id)


def _credentials(request: Request, scheme: str) -> str:
    named, given = authorization(request.headers)
    if named != scheme.lower() or not given:
        raise UnauthorizedError(scheme, f"The header Authorization: {scheme} … is missing.")
    return given
