"""Paths by who may use them: the console's are all but those of programs, which bring tokens of another kind."""

from __future__ import annotations

#: Programs send telemetry to these.
TRACES = "/v1/traces"
METRICS = "/v1/metrics"
LOGS = "/v1/logs"
#: The SDK of Langfuse sends its spans there, whatever host it is configured with.
LANGFUSE = "/api/public/otel/v1/traces"
INTAKE = frozenset({TRACES, METRICS, LOGS, LANGFUSE})

API = "/api/"
LOGIN = "/api/v1/login"
LOGOUT = "/api/v1/logout"

#: Every user may change what is below: it is their own.
_PERSONAL = "/api/v1/views"

#: What a page needs before a user is logged in.
_WITHOUT_LOGIN = ("/api/v1/me", LOGIN)
#: The machines of a team send their rows below this.
TEAM = "/team/v1/"
_PROGRAMS = ("/api/internal/", "/api/xcx/", TEAM)
_OPERATION = ("/healthz", "/readyz", "/metrics", "/openapi.json")


def is_console(path: str) -> bool:
    """Whether the gate checks a path; every path that is not listed here is checked."""
    return path not in _OPERATION and path not in INTAKE and not path.startswith(_PROGRAMS)


def is_open(path: str) -> bool:
    """Whether a path of the console needs no login: the page and its files are no secret."""
    return path in _WITHOUT_LOGIN or not path.startswith(API)


def is_for_viewers(path: str) -> bool:
    """Whether viewers may change something by this path: their login, and what is their own."""
    return path in (LOGIN, LOGOUT, _PERSONAL) or path.startswith(f"{_PERSONAL}/")
