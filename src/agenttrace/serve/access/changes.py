"""Whether a request comes from our own page: a token that other sites cannot read, and what browsers tell."""

from __future__ import annotations

import hmac
from urllib.parse import urlsplit

from starlette.datastructures import Headers

from agenttrace.serve.access.hosts import Host, parse_host
from agenttrace.serve.problems import ProblemError

HEADER = "X-CSRF-Token"
SAFE_METHODS = ("GET", "HEAD", "OPTIONS")

_OURS = ("same-origin", "none")
_PORTS = {"http": "80", "https": "443"}


def check_origin(headers: Headers, host: Host) -> None:
    """Raise 403 where another site wants to change something."""
    if not _from_here(headers) or not _origin_is(headers, host):
        raise _elsewhere()


def check_csrf(headers: Headers, token: str) -> None:
    """Raise 403 unless a change was asked for by our page, or by a script that asked for a token first."""
    given = headers.getlist(HEADER)
    # As bytes: a header may hold any, and comparing text of other letters would raise.
    if len(given) != 1 or not hmac.compare_digest(given[0].encode("latin-1"), token.encode()):
        detail = f"The header {HEADER} is missing or out of date; GET /api/v1/me has the right one."
        raise ProblemError(403, detail, reason="csrf")


def check_question(headers: Headers) -> None:
    """Raise 403 where another site asks behind its visitor's back: how long an answer takes would tell it something."""
    if not _from_here(headers) and headers.get("sec-fetch-mode") != "navigate":
        raise _elsewhere()


def _from_here(headers: Headers) -> bool:
    return all(value in _OURS for value in headers.getlist("sec-fetch-site"))


def _origin_is(headers: Headers, host: Host) -> bool:
    return all(_is_origin_of(origin, host) for origin in headers.getlist("origin"))


def _is_origin_of(origin: str, host: Host) -> bool:
    try:
        parts = urlsplit(origin)
    except ValueError:
        return False
    named = parse_host(parts.netloc)
    port = _PORTS.get(parts.scheme)
    return named is not None and port is not None and named.is_same(host, port)


def _elsewhere() -> ProblemError:
    return ProblemError(403, "This request comes from another site.", reason="origin")
