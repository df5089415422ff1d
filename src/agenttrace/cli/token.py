"""``agenttrace token``: API tokens for scripts, and bearer tokens to try the chat with."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from agenttrace.cli import opening, output
from agenttrace.cli.access import access_store, audited_change
from agenttrace.cli.columns import Column, print_table
from agenttrace.cli.errors import CommandError, UsageError
from agenttrace.cli.grouping import ListFirst
from agenttrace.views import figures, times

if TYPE_CHECKING:
    from agenttrace.serve.access.logins import ApiToken

EPILOG = """
[bold]Examples[/bold]

  agenttrace token create ci --days 90     for a script that reads /api/v1

  TOKEN=$(agenttrace token create ops --role admin)

  agenttrace token list

  agenttrace token revoke ci

  agenttrace token chat --user u1 --site 1     to try the chat of applications

A script sends it as the header Authorization: Bearer TOKEN. It is shown once: only its hash is kept.
"""

_DAY = 86_400
#: What the server takes for a user.
_LONGEST = 100
_FIX = (
    "Set AGENTTRACE_JWT_SECRET to the server's secret; a new one: "
    "python3 -c 'import secrets; print(secrets.token_urlsafe(32))'"
)
_CHAT_OPTIONS = ("--user", "--site")

NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="The name of the token, case-insensitive.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


class _Tokens(ListFirst):
    """``token`` is ``token list``; ``token --user u1 --site 1``, as it was once, is ``token chat``."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:  # noqa: ANN401 - of click, or of Typer's copy of it
        """Put in the command that was left out."""
        is_chat = bool(args) and args[0].startswith("-") and any(each.startswith(_CHAT_OPTIONS) for each in args)
        return super().parse_args(ctx, ["chat", *args] if is_chat else args)


app = typer.Typer(cls=_Tokens, rich_markup_mode="rich")


@app.command("create")
def create_token(
    name: NameArgument,
    role: Annotated[
        Literal["viewer", "admin"], typer.Option(help="viewer: read only; admin: read and change.")
    ] = "viewer",
    days: Annotated[
        float | None, typer.Option(min=0.001, max=3650, help="Days until it expires.", show_default="until revoked")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Create an API token. It is printed once and cannot be shown again."""
    seconds = None if days is None else round(days * _DAY)
    made, kept = audited_change(
        "token.create", f"{name} {role}", lambda store: store.tokens.create(name, role, seconds)
    )
    if as_json:
        output.print_json({"token": made, **token_fields(kept)})
        return
    output.say(made)
    output.note(f"Keep it: it is not shown again. Use: curl -H 'Authorization: Bearer …' URL/api/v1/sessions ({role})")


@app.command("list")
def list_tokens(as_json: AsJson = False) -> None:
    """List API tokens, without their secrets."""
    with access_store() as store:
        tokens = store.tokens.all()
    if as_json:
        output.print_json([token_fields(token) for token in tokens])
    elif not tokens:
        output.say("There are no API tokens. Make one for a script: agenttrace token create NAME")
    else:
        columns = (
            Column("name", least=8),
            Column("role"),
            Column("created", right=True, optional=1),
            Column("last used", right=True),
            Column("expires", right=True),
        )
        print_table(columns, [_row(token) for token in tokens])


@app.command("revoke")
def revoke_token(name: NameArgument, as_json: AsJson = False) -> None:
    """Revoke an API token at once."""
    revoked = audited_change("token.revoke", name, lambda store: store.tokens.revoke(name))
    if as_json:
        output.print_json({"revoked": revoked})
    else:
        output.say(f"The API token {revoked} opens nothing any more.")


@app.command("chat")
def chat_token(
    user: Annotated[str, typer.Option(metavar="NAME", help="The user it is for.")],
    site: Annotated[int, typer.Option(min=1, metavar="ID", help="The store that the user belongs to.")],
    days: Annotated[float, typer.Option(min=0.001, max=3650, help="Days until it expires.")] = 30,
    as_json: AsJson = False,
) -> None:
    """Create a bearer token of a chat user, for tests.

    It is signed with the secret that the server checks with: AGENTTRACE_JWT_SECRET, or secret under \\[jwt] in
    agenttrace.toml. Whoever has the token can chat as that user until it expires.
    """
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


def token_fields(token: ApiToken) -> dict[str, Any]:
    """An API token for JSON."""
    return {
        "name": token.name,
        "role": token.role,
        "created_at": times.iso(token.created_at),
        "last_used_at": times.iso(token.seen_at),
        "expires_at": times.iso(token.expires_at),
        "expired": token.expired,
    }


def _row(token: ApiToken) -> list[Any]:
    expires = "never" if token.expires_at is None else figures.clock(token.expires_at)
    return [
        token.name,
        output.styled(token.role, "bold" if token.role == "admin" else ""),
        figures.clock(token.created_at),
        figures.clock(token.seen_at),
        output.styled("expired", "yellow") if token.expired else expires,
    ]
