"""Who may send spans: every program of this machine, and from elsewhere whoever knows the internal token."""

from __future__ import annotations

import base64
import binascii
import hmac

from fastapi import Request

from agenttrace.serve.access.gate import came_by_proxy
from agenttrace.serve.access.hosts import parse_host
from agenttrace.serve.intake.rejections import StrangerError, WrongTokenError

_FIX = "Send the header Authorization: Bearer TOKEN (OTEL_EXPORTER_OTLP_HEADERS=authorization=Bearer%20TOKEN)"


def check_sender(request: Request, *, token_always: bool, token: str | None) -> None:
    """Raise the 401 that the request deserves; ``token_always``: the server can be reached from elsewhere."""
    if not token_always and _is_local(request):
        return
    if not token:
        raise StrangerError("Spans from elsewhere need a token: set INTERNAL_API_TOKEN where AgentTrace runs.")
    headers = request.headers.getlist("authorization")
    given = _credentials(headers[0]) if len(headers) == 1 else ""
    if not given:
        raise StrangerError(f"{_FIX} with the server's INTERNAL_API_TOKEN.")
    # As bytes: a header may hold any, and comparing text of other letters would raise.
    if not hmac.compare_digest(given.encode("utf-8", "replace"), token.encode()):
        raise WrongTokenError("The token is not the one of this server.")


def _is_local(request: Request) -> bool:
    """Whether it can only have come from this machine; a page that had its name resolved to it asks for that name."""
    named = request.headers.getlist("host")
    host = parse_host(named[0]) if len(named) == 1 else None
    return host is not None and host.is_loopback and not came_by_proxy(request.scope, request.headers)


def _credentials(header: str) -> str:
    """The token in any of the ways in which senders can be told one; of a name and a password, the password."""
    scheme, _, given = header.strip().partition(" ")
    given = given.strip()
    if scheme.lower() in ("bearer", "internal-token"):
        return given
    if scheme.lower() != "basic":
        return ""
    try:
        return base64.b64decode(given, validate=True).decode().partition(":")[2]
    except (binascii.Error, UnicodeDecodeError):
        return ""
