"""Which paths are the console's: all but those of programs, which bring tokens of their own."""

from __future__ import annotations

from agenttrace.serve.intake.routes import INTAKE

API = "/api/"
LOGIN = "/api/v1/login"
LOGOUT = "/api/v1/logout"

#: What a page needs before anybody is logged in.
_WITHOUT_LOGIN = ("/api/v1/me", LOGIN)
_PROGRAMS = ("/api/internal/", "/api/xcx/")
_OPERATION = ("/healthz", "/readyz", "/metrics", "/openapi.json")


def is_console(path: str) -> bool:
    """Whether the gate stands before a path; what nobody thought of is behind it."""
    return path not in _OPERATION and path not in INTAKE and not path.startswith(_PROGRAMS)


def is_open(path: str) -> bool:
    """Whether a path of the console is answered before anybody is logged in: the page and its files are no secret."""
    return path in _WITHOUT_LOGIN or not path.startswith(API)
