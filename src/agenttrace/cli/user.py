"""``agenttrace user``: users of the console, their roles and passwords, and the audit log."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from agenttrace.cli import output
from agenttrace.cli.access import access_errors, access_store, audited_change
from agenttrace.cli.columns import Column, print_list
from agenttrace.cli.errors import UsageError
from agenttrace.cli.grouping import ListFirst
from agenttrace.cli.options import ROLES, AsJson, Role
from agenttrace.views import figures
from agenttrace.views.plain import one_line
from agenttrace.views.times import iso

if TYPE_CHECKING:
    from rich.text import Text

    from agenttrace.serve.access.audit import AuditEntry
    from agenttrace.serve.access.users import User

EPILOG = """
  agenttrace user add anna                 asks for a password; anna is a viewer
  agenttrace user add ben --role admin     ben is an admin
  agenttrace user add chris --role member  on a team server: own sessions in full, figures of others
  agenttrace user list
  agenttrace user audit --limit 20         who changed what

On this machine the link of agenttrace open is enough, unless serve.login is "always". From other machines every user
needs a login. A new password or role ends the user's logins at once.
"""

app = typer.Typer(cls=ListFirst, rich_markup_mode="rich")

NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="The name of the user, case-insensitive.")]
FromStdin = Annotated[
    bool, typer.Option("--password-stdin", help="Read the password from the first line of standard input.")
]


@app.command("add")
def add_user(
    name: NameArgument,
    role: Annotated[Role, typer.Option(help=ROLES)] = "viewer",
    password_stdin: FromStdin = False,
    sso: Annotated[bool, typer.Option("--sso", help="Without a password: the user logs in by OpenID Connect.")] = False,
    as_json: AsJson = False,
) -> None:
    """Add a user of the console."""
    if sso and password_stdin:
        raise UsageError("a user with --sso has no password", "Leave out --password-stdin.")
    name, password_hash = _stored_name(name), None if sso else _new_password(password_stdin)
    user = audited_change("user.add", name, lambda store: store.users.add(name, role, password_hash))
    output.answer(user_fields(user), f"{user.name} can log in now, as {_article(user.role)}.", as_json=as_json)


@app.command("list")
def list_users(as_json: AsJson = False) -> None:
    """List users."""
    with access_store() as store:
        users = store.users.all()
    empty = "There are no users, so there is no login. Add one: agenttrace user add NAME --role admin"
    print_list(users, _USER_COLUMNS, user_fields, as_json=as_json, empty=empty)


@app.command("remove")
def remove_user(name: NameArgument, as_json: AsJson = False) -> None:
    """Remove a user at once."""
    name = _stored_name(name)
    ended = audited_change("user.remove", name, lambda store: store.users.remove(name))
    output.answer({"removed": name, "ended_logins": ended}, f"{name} is removed.{_ended(ended)}", as_json=as_json)


@app.command("password")
def set_password(name: NameArgument, password_stdin: FromStdin = False, as_json: AsJson = False) -> None:
    """Change the password of a user."""
    with access_store() as store, access_errors(store):
        # Before a password is asked for: the user may not exist.
        name = store.users.get(name).name
    password_hash = _new_password(password_stdin)
    ended = audited_change("user.password", name, lambda store: store.users.set_password(name, password_hash))
    output.answer(
        {"changed": name, "ended_logins": ended}, f"{name} has a new password.{_ended(ended)}", as_json=as_json
    )


@app.command("role")
def set_role(
    name: NameArgument,
    role: Annotated[Role, typer.Argument(metavar="viewer|member|admin", help=ROLES)],
    as_json: AsJson = False,
) -> None:
    """Change the role of a user."""
    name = _stored_name(name)
    ended = audited_change("user.role", f"{name} {role}", lambda store: store.users.set_role(name, role))
    fields = {"changed": name, "role": role, "ended_logins": ended}
    output.answer(fields, f"{name} is {_article(role)} now.{_ended(ended)}", as_json=as_json)


@app.command("audit")
def show_audit(
    limit: Annotated[int, typer.Option(min=1, max=1_000_000, help="The maximum number of entries.")] = 100,
    as_json: AsJson = False,
) -> None:
    """Show the audit log: logins, and every change made through the console."""
    with access_store() as store:
        entries = store.audit.page(limit)
    print_list(entries, _AUDIT_COLUMNS, audit_fields, as_json=as_json, empty="The audit log is empty.")


def user_fields(user: User) -> dict[str, Any]:
    """A user for JSON."""
    return {
        "name": user.name,
        "role": user.role,
        "password": user.has_password,
        "created_at": iso(user.created_at),
        "changed_at": iso(user.changed_at),
        "logins": user.logins,
        "last_seen_at": iso(user.seen_at),
    }


def audit_fields(entry: AuditEntry) -> dict[str, Any]:
    """An entry of the audit log for JSON."""
    return {
        "id": entry.id,
        "at": iso(entry.at),
        "user": entry.user,
        "address": entry.address,
        "action": entry.action,
        "target": entry.target,
        "outcome": entry.outcome,
    }


def _stored_name(name: str) -> str:
    """The name as it is stored, or as it was typed where it cannot be a user's."""
    from agenttrace.serve.access.users import name_of

    return name_of(name) or name


def _new_password(from_stdin: bool) -> str:
    """The hash of a password that was typed twice, or read from standard input."""
    from agenttrace.serve.access.passwords import WeakPasswordError, check_strength, hashed

    password = _read_password() if from_stdin else _ask_password()
    try:
        check_strength(password)
    except WeakPasswordError as error:
        raise UsageError(str(error), "Use a longer one, such as four unrelated words.") from None
    return hashed(password)


def _read_password() -> str:
    line = sys.stdin.buffer.readline()
    try:
        return line.rstrip(b"\r\n").decode("utf-8")
    except UnicodeDecodeError:
        raise UsageError("the password on the standard input is not UTF-8 text") from None


def _ask_password() -> str:
    import getpass

    if not sys.stdin.isatty():
        fix = "Run this at a terminal, or add --password-stdin and send the password there."
        raise UsageError("the password cannot be asked for: this is not a terminal", fix)
    password = getpass.getpass("Password: ", stream=sys.stderr)
    if getpass.getpass("Repeat password: ", stream=sys.stderr) != password:
        raise UsageError("the two passwords differ", "Try again.")
    return password


def _article(role: str) -> str:
    return "an admin" if role == "admin" else f"a {role}"


def _ended(logins: int) -> str:
    return f" {figures.counted(logins, 'login')} ended." if logins else ""


_USER_COLUMNS: tuple[Column[User], ...] = (
    Column("name", lambda user: user.name, least=8),
    Column("role", lambda user: user.role, style={"admin": "bold"}),
    Column("logins", lambda user: figures.count(user.logins), right=True),
    Column("last seen", lambda user: figures.clock(user.seen_at), right=True),
    Column("added", lambda user: figures.clock(user.created_at), right=True, optional=2),
    Column("changed", lambda user: figures.clock(user.changed_at), right=True, optional=1),
)

_AUDIT_COLUMNS: tuple[Column[AuditEntry], ...] = (
    Column("when", lambda entry: figures.clock(entry.at), right=True),
    Column("who", lambda entry: one_line(entry.user), least=10),
    Column("from", lambda entry: one_line(entry.address), least=9, optional=1),
    Column("action", lambda entry: one_line(entry.action)),
    Column("on", lambda entry: one_line(entry.target), least=8),
    Column("outcome", lambda entry: _outcome(entry.outcome), least=12),
)


def _outcome(text: str) -> Text:
    return output.styled(one_line(text), "" if text == "done" else "yellow")
