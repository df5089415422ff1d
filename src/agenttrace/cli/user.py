"""``agenttrace user``: who may look at the console from another machine, who of them may change things, and the log."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from agenttrace.cli import output
from agenttrace.cli.access import access_store, audited_change, told
from agenttrace.cli.columns import Column, print_table
from agenttrace.cli.errors import UsageError
from agenttrace.cli.grouping import ListFirst
from agenttrace.views import figures
from agenttrace.views.plain import one_line
from agenttrace.views.times import iso

if TYPE_CHECKING:
    from agenttrace.serve.access.audit import AuditEntry
    from agenttrace.serve.access.users import User

EPILOG = """
[bold]Examples[/bold]

  agenttrace user add anna                 asks for a password; anna is a viewer

  agenttrace user add ben --role admin     ben is an admin

  agenttrace user list

  agenttrace user audit --limit 20         who changed what

On this machine the link of agenttrace open lets in, unless serve.login is "always". From any other machine everybody
needs a login.
Another password or role ends the user's logins at once.
"""

app = typer.Typer(cls=ListFirst, rich_markup_mode="rich")

Role = Literal["viewer", "admin"]
NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="The name of the user, case-insensitive.")]
FromStdin = Annotated[
    bool, typer.Option("--password-stdin", help="Read the password from the first line of standard input.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


@app.command("add")
def add_user(
    name: NameArgument,
    role: Annotated[Role, typer.Option(help="viewer: read only; admin: read and change.")] = "viewer",
    password_stdin: FromStdin = False,
    as_json: AsJson = False,
) -> None:
    """Add a user of the console."""
    name, password_hash = _kept(name), _new_password(password_stdin)
    user = audited_change("user.add", name, lambda store: store.users.add(name, role, password_hash))
    _tell(user_fields(user), as_json, f"{user.name} can log in now, as {_article(user.role)}.")


@app.command("list")
def list_users(as_json: AsJson = False) -> None:
    """List users."""
    with access_store() as store:
        users = store.users.all()
    if as_json:
        output.print_json([user_fields(user) for user in users])
    elif not users:
        output.say("There are no users: nobody can log in. Add one: agenttrace user add NAME --role admin")
    else:
        columns = (
            Column("name", least=8),
            Column("role"),
            Column("logins", right=True),
            Column("last seen", right=True),
            Column("added", right=True, optional=2),
            Column("changed", right=True, optional=1),
        )
        print_table(columns, [_user_row(user) for user in users])


@app.command("remove")
def remove_user(name: NameArgument, as_json: AsJson = False) -> None:
    """Remove a user at once."""
    name = _kept(name)
    ended = audited_change("user.remove", name, lambda store: store.users.remove(name))
    _tell({"removed": name, "ended_logins": ended}, as_json, f"{name} is no user any more.{_ended(ended)}")


@app.command("password")
def set_password(name: NameArgument, password_stdin: FromStdin = False, as_json: AsJson = False) -> None:
    """Change the password of a user."""
    with access_store() as store, told(store):
        # Nobody should think of a password for somebody who is not there.
        name = store.users.get(name).name
    password_hash = _new_password(password_stdin)
    ended = audited_change("user.password", name, lambda store: store.users.set_password(name, password_hash))
    _tell({"changed": name, "ended_logins": ended}, as_json, f"{name} has a new password.{_ended(ended)}")


@app.command("role")
def set_role(
    name: NameArgument,
    role: Annotated[Role, typer.Argument(metavar="viewer|admin", help="viewer: read only; admin: read and change.")],
    as_json: AsJson = False,
) -> None:
    """Change the role of a user."""
    name = _kept(name)
    ended = audited_change("user.role", f"{name} {role}", lambda store: store.users.set_role(name, role))
    fields = {"changed": name, "role": role, "ended_logins": ended}
    _tell(fields, as_json, f"{name} is {_article(role)} now.{_ended(ended)}")


@app.command("audit")
def show_audit(
    limit: Annotated[int, typer.Option(min=1, max=1_000_000, help="The maximum number of entries.")] = 100,
    as_json: AsJson = False,
) -> None:
    """Show the audit log: logins, and every change made through the console."""
    with access_store() as store:
        entries = store.audit.page(limit)
    if as_json:
        output.print_json([audit_fields(entry) for entry in entries])
    elif not entries:
        output.say("Nothing was changed yet.")
    else:
        columns = (
            Column("when", right=True),
            Column("who", least=10),
            Column("from", least=9, optional=1),
            Column("action"),
            Column("on", least=8),
            Column("outcome", least=12),
        )
        print_table(columns, [_audit_row(entry) for entry in entries])


def user_fields(user: User) -> dict[str, Any]:
    """A user for JSON."""
    return {
        "name": user.name,
        "role": user.role,
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


def _user_row(user: User) -> list[Any]:
    return [
        user.name,
        output.styled(user.role, "bold" if user.role == "admin" else ""),
        figures.count(user.logins),
        figures.clock(user.seen_at),
        figures.clock(user.created_at),
        figures.clock(user.changed_at),
    ]


def _audit_row(entry: AuditEntry) -> list[Any]:
    lines = (entry.user, entry.address, entry.action, entry.target)
    style = "" if entry.outcome == "done" else "yellow"
    outcome = output.styled(one_line(entry.outcome), style)
    return [figures.clock(entry.at), *map(one_line, lines), outcome]


def _kept(name: str) -> str:
    """A name as it is kept, or as it was typed where there can be no such user."""
    from agenttrace.serve.access.users import name_of

    return name_of(name) or name


def _new_password(from_stdin: bool) -> str:
    """The hash of a password that was typed twice, or came by the standard input."""
    from agenttrace.serve.access.passwords import WeakPasswordError, check_strength, hashed

    password = _read_password() if from_stdin else _ask_password()
    try:
        check_strength(password)
    except WeakPasswordError as error:
        raise UsageError(
            str(error), "Take a longer one, such as four words that have nothing to do with each other."
        ) from None
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
        fix = "Type it at a terminal, or add --password-stdin and give it there."
        raise UsageError("there is nobody to ask for the password", fix)
    password = getpass.getpass("Password: ", stream=sys.stderr)
    if getpass.getpass("The same again: ", stream=sys.stderr) != password:
        raise UsageError("the two passwords differ", "Try again.")
    return password


def _article(role: str) -> str:
    return "an admin" if role == "admin" else "a viewer"


def _ended(logins: int) -> str:
    return f" {figures.counted(logins, 'login')} ended." if logins else ""


def _tell(fields: dict[str, Any], as_json: bool, text: str) -> None:
    if as_json:
        output.print_json(fields)
    else:
        output.say(text)
