"""The cookie that carries the token of a login.

A cookie is valid for all ports: the port is part of its name, so that two consoles on one machine do not overwrite each
other's.
"""

from __future__ import annotations

from collections.abc import Iterator

from fastapi import Response
from starlette.datastructures import Headers

from agenttrace.serve.access.hosts import Host

NAME = "agenttrace_session"

#: Tokens that are looked up in one request; a browser sends one, or two with that of an earlier version.
_MOST = 4


def name_for(host: Host) -> str:
    """The name of the cookie of a console at this host."""
    return f"{NAME}_{host.port}" if host.port else NAME


def tokens(headers: Headers, host: Host) -> Iterator[str]:
    """The tokens of a request."""
    names, found = (name_for(host), NAME), 0
    for header in headers.getlist("cookie"):
        for part in header.split(";"):
            name, _, value = part.strip().partition("=")
            if name in names and value and found < _MOST:
                found += 1
                yield value


def set_token(response: Response, token: str, host: Host, *, seconds: int, secure: bool) -> None:
    """Set the cookie, which neither the page nor other sites can read."""
    response.set_cookie(
        name_for(host), token, max_age=seconds, path="/", secure=secure, httponly=True, samesite="strict"
    )


def delete_token(response: Response, host: Host, *, secure: bool) -> None:
    """Delete the cookie."""
    for name in dict.fromkeys((name_for(host), NAME)):
        response.delete_cookie(name, path="/", secure=secure, httponly=True, samesite="strict")
