"""The way into the console for every test and benchmark that looks at it: a login as the link gives it."""

from __future__ import annotations

from pathlib import Path

from agenttrace.serve.access.access_store import AccessStore
from agenttrace.serve.access.cookie import NAME


def login_token(home: Path, seconds: int = 3600) -> str:
    """The token of a new login by the link to the console of a data directory."""
    with AccessStore(home / "access.db") as access:
        return access.logins.begin_local(seconds)[0]


def login_headers(home: Path) -> dict[str, str]:
    """What a client sends to be logged in."""
    return {"Cookie": f"{NAME}={login_token(home)}"}
