"""``agenttrace token``: API tokens for scripts, and bearer tokens of chat users for tests."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated, Any

import typer

from agenttrace.cli import opening, output
from agenttrace.cli.access import access_store, audited_change
from agenttrace.cli.columns import Column, print_list
from agenttrace.cli.errors import CommandError, UsageError
from agenttrace.cli.grouping import ListFirst
from agenttrace.cli.options import ROLES, AsJson, Role
from agenttrace.views import figures, times

if TYPE_CHECKING:
    from rich.text import Text

    from agenttrace.serve.access.logins import ApiToken

EPILOG = """
  agenttrace token create ci --days 90     for a script that reads /api/v1
  TOKEN=$(agenttrace token create ops --role admin)
  agenttrace token create amys-script --role member --user amy
  agenttrace token list
  agenttrace token revoke ci
  agenttrace token chat --user u1 --site 1     for a test of the chat

A script sends it as the header Authorization: Bearer TOKEN. It is shown once: only its hash is stored.
"""

_DAY = 86_400
#: The longest user name that the server accepts.
_LONGEST = 100
_FIX = (
    "Set AGENTTRACE_JWT_SECRET to the server's secret; a new one: "
    "python3 -c 'import secrets; print(secrets.token_urlsafe(32))'"
)
_CHAT_OPTIONS = ("--user", "--site")

NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="The name of the token, case-insensitive.")]


class _Tokens(ListFirst):
    """``token`` is ``token list``; ``token --user u1 --site 1``, as in earlier versions, is ``token chat``."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:  # noqa: ANN401 - of click, or of Typer's copy of it
        """Insert the command that was left out."""
        is_chat = bool(args) and args[0].startswith("-") and any(each.startswith(_CHAT_OPTIONS) for each in args)
        return super().parse_args(ctx, ["chat", *args] if is_chat else args)


app = typer.Typer(cls=_Tokens, rich_markup_mode="rich")


@app.command("create")
def create_token(
    name: NameArgument,
    role: Annotated[Role, typer.Option(help=ROLES)] = "viewer",
    days: Annotated[
        float | None, typer.Option(min=0.001, max=3650, help="Days until it expires.", show_default="until revoked")
    ] = None,
    user: Annotated[
        str | None, typer.Option(metavar="NAME", help="The user it acts for, whose sessions are its own.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Create an API token. It is printed once and cannot be shown again."""
    seconds = None if days is None else round(days * _DAY)
    target = f"{name} {role}" if user is None else f"{name} {role} for {user}"
    made, stored = audited_change("token.create", target, lambda store: store.tokens.create(name, role, seconds, user))
    output.answer({"token": made, **token_fields(stored)}, made, as_json=as_json)
    if not as_json:
        output.note(
            f"Save it: it is not shown again. Use: curl -H 'Authorization: Bearer …' URL/api/v1/sessions ({role})"
        )


@app.command("list")
def list_tokens(as_json: AsJson = False) -> None:
    """List API tokens, without their secrets."""
    with access_store() as store:
        tokens = store.tokens.all()
    empty = "There are no API tokens. Create one for a script: agenttrace token create NAME"
    print_list(tokens, _COLUMNS, token_fields, as_json=as_json, empty=empty)


@app.command("revoke")
def revoke_token(name: NameArgument, as_json: AsJson = False) -> None:
    """Revoke an API token at once."""
    revoked = audited_change("token.revoke", name, lambda store: store.tokens.revoke(name))
    output.answer({"revoked": revoked}, f"The API token {revoked} is revoked.", as_json=as_json)


@app.command("chat")
def chat_token(
    user: Annotated[str, typer.Option(metavar="NAME", help="The user it is for.")],
    site: Annotated[int, typer.Option(min=1, metavar="ID", help="The store that the user belongs to.")],
    days: Annotated[float, typer.Option(min=0.001, max=3650, help="Days until it expires.")] = 30,
    as_json: AsJson = False,
) -> None:
    """Create a bearer token of a chat user, for tests.

    It is signed with the secret that the server checks with: AGENTTRACE_JWT_SECRET, or secret under \\[jwt] in
    agenttrace.toml. The token lets its bearer chat as that user until it expires.
    """
    secret = opening.settings().jwt.secret
    if secret is None:
        raise CommandError("there is no secret to sign a token with", _FIX)
    if not 0 < len(user) <= _LONGEST or not user.isprintable():
        raise UsageError(f"a user has 1 to {_LONGEST} printable characters", "Give one such as --user u1.")
    now = int(time.time())
    expires = now + round(days * _DAY)
    signed = signed_token(secret, user, site, now, expires)
    until = times.iso(expires * times.MICROS)
    output.answer({"token": signed, "user": user, "site_id": site, "expires_at": until}, signed, as_json=as_json)


def signed_token(secret: str, user: str, site: int, issued: int, expires: int) -> str:
    """A JWT as the server reads it: the subject is the user, ``site_id`` the store."""
    import jwt

    return jwt.encode({"sub": user, "site_id": site, "iat": issued, "exp": expires}, secret, algorithm="HS256")


def token_fields(token: ApiToken) -> dict[str, Any]:
    """An API token for JSON."""
    return {
        "name": token.name,
        "role": token.role,
        "user": token.person,
        "created_at": times.iso(token.created_at),
        "last_used_at": times.iso(token.seen_at),
        "expires_at": times.iso(token.expires_at),
        "expired": token.expired,
    }


def _expires(token: ApiToken) -> Text:
    if token.expired:
        return output.styled("expired", "yellow")
    return output.styled("never" if token.expires_at is None else figures.clock(token.expires_at))


_COLUMNS: tuple[Column[ApiToken], ...] = (
    Column("name", lambda token: token.name, least=8),
    Column("role", lambda token: token.role, style={"admin": "bold"}),
    Column("for", lambda token: token.person or "", optional=2),
    Column("created", lambda token: figures.clock(token.created_at), right=True, optional=1),
    Column("last used", lambda token: figures.clock(token.seen_at), right=True),
    Column("expires", _expires, right=True),
)
