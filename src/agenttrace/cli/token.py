"""``agenttrace token``: a bearer token to try the chat with."""

from __future__ import annotations

import time
from typing import Annotated

import typer

from agenttrace.cli import opening, output
from agenttrace.cli.errors import CommandError, UsageError
from agenttrace.views import times

EPILOG = """
[bold]Examples[/bold]

  agenttrace token --user u1 --site 1

  TOKEN=$(agenttrace token --user u1 --site 1 --days 1)

The token is signed with the secret that the server checks with: AGENTTRACE_JWT_SECRET, or secret under \\[jwt] in
agenttrace.toml. Whoever has the token can chat as that user until it expires.
"""

_DAY = 86_400
#: HS256 is as strong as its key, up to this many bytes.
#: What the server takes for a user.
_LONGEST = 100
_FIX = (
    "Set AGENTTRACE_JWT_SECRET to the server's secret; a new one: "
    "python3 -c 'import secrets; print(secrets.token_urlsafe(32))'"
)


def token(
    user: Annotated[str, typer.Option(metavar="NAME", help="The user it is for.")],
    site: Annotated[int, typer.Option(min=1, metavar="ID", help="The store that the user belongs to.")],
    days: Annotated[float, typer.Option(min=0.001, max=3650, help="How long it is good for.")] = 30,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Make a bearer token for a user of the chat, to try things out."""
    secret = opening.settings().jwt.secret
    if secret is None:
        raise CommandError("there is no secret to sign a token with", _FIX)
    if not 0 < len(user) <= _LONGEST or not user.isprintable():
        raise UsageError(f"a user has 1 to {_LONGEST} printable characters", "Give one such as --user u1.")
    now = int(time.time())
    expires = now + round(days * _DAY)
    signed = signed_token(secret, user, site, now, expires)
    if as_json:
        until = times.iso(expires * times.MICROS)
        output.print_json({"token": signed, "user": user, "site_id": site, "expires_at": until})
    else:
        output.say(signed)


def signed_token(secret: str, user: str, site: int, issued: int, expires: int) -> str:
    """A JWT as the server reads it: the subject is the user, ``site_id`` the store."""
    import jwt

    return jwt.encode({"sub": user, "site_id": site, "iat": issued, "exp": expires}, secret, algorithm="HS256")
