"""The cookie that carries the token of a login."""

from __future__ import annotations

from collections.abc import Iterator

from fastapi import Response
from starlette.datastructures import Headers

NAME = "agenttrace_session"

#: Tokens that are looked up in one request; a browser sends one, or two where another path left one behind.
_MOST = 4


def tokens(headers: Headers) -> Iterator[str]:
    """The tokens a request brings."""
    found = 0
    for header in headers.getlist("cookie"):
        for part in header.split(";"):
            name, _, value = part.strip().partition("=")
            if name == NAME and value and found < _MOST:
                found += 1
                yield value


def give(response: Response, token: str, *, seconds: int, secure: bool) -> None:
    """Have the browser keep a token, out of reach of the page and of other sites."""
    response.set_cookie(NAME, token, max_age=seconds, path="/", secure=secure, httponly=True, samesite="lax")


def take(response: Response, *, secure: bool) -> None:
    """Have the browser forget it."""
    response.delete_cookie(NAME, path="/", secure=secure, httponly=True, samesite="lax")
