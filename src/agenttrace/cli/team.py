"""``agenttrace team``: join a team and push to its server; run that server, invite machines and revoke them."""

from __future__ import annotations

import asyncio
import platform
from typing import TYPE_CHECKING, Annotated, Literal

import msgspec
import typer

from agenttrace.cli import opening, output, team_export, team_import
from agenttrace.cli.access import audited_change
from agenttrace.cli.errors import CommandError, UsageError
from agenttrace.cli.grouping import ListFirst, StatusFirst
from agenttrace.cli.invocation import program_line
from agenttrace.cli.options import ROLES, AsJson, AsJsonLine, Host, Machine, Person, Port, Role
from agenttrace.cli.team_lists import show_machines, show_status, show_users
from agenttrace.config import Settings, ensure_home, load_settings
from agenttrace.destinations import TEAM, TeamLevel
from agenttrace.views import times
from agenttrace.views.team import current_filter

if TYPE_CHECKING:
    from agenttrace.store.errors import StoreAwayError
    from agenttrace.team.levels import Sharing

EPILOG = """
  agenttrace team serve --store team.db        on the server
  agenttrace team invite --user amy            on the server: prints a code
  agenttrace team join URL --code CODE         on each machine
  agenttrace team status                       what was sent, and what waits
  agenttrace team now                          on the server: who works on what
  agenttrace team machines revoke laptop       on the server
  agenttrace team machines share laptop full   on the server: all members see its sessions
  agenttrace team remove-person amy            on the server: removes texts, keeps sums
  agenttrace team export desk.changes.zst      on a machine: all of its store as a file
  agenttrace team import /srv/old-stores       on the server: history of machines

A machine keeps its own store and pushes what changes while agenttrace up or record runs. The guide: docs/team.md
"""

_LEVELS = "full: everything; masked: everything with secrets masked; figures: no texts, titles and paths."

app = typer.Typer(cls=StatusFirst, rich_markup_mode="rich")
tokens = typer.Typer(cls=ListFirst, rich_markup_mode="rich")
machines = typer.Typer(cls=ListFirst, rich_markup_mode="rich")

Share = Literal["full", "figures"]
Store = Annotated[
    str | None,
    typer.Option("--store", metavar="PATH|URL", help="A file, or clickhouse://…", show_default="team.db"),
]


# -- the server -----------------------------------------------------------------------------------------------------


@app.command()
def serve(host: Host = None, port: Port = None, store: Store = None, as_json: AsJsonLine = False) -> None:
    """Run the server of a team: it takes the rows of machines, and shows all of them in its console and API.

    Several of them may serve one ClickHouse database behind a balancer. Other machines need https: put a proxy in
    front.
    """
    from agenttrace.cli.rules_run import running_team_rules
    from agenttrace.cli.serve import announce
    from agenttrace.cli.stopping import until_stopped
    from agenttrace.serve.process import run_process
    from agenttrace.serve.team.waiting import await_store
    from agenttrace.store.team_place import note_target, source_of

    settings = load_settings(flags={"serve.host": host, "serve.port": port})
    ensure_home(settings)
    if settings.team.name is None:
        settings = load_settings(flags={"serve.host": host, "serve.port": port, "team.name": "Team"})
    source = source_of(settings, store)
    note_target(settings.home, source)
    output.show_warnings()

    def waiting(error: StoreAwayError) -> None:
        output.note(f"{error.problem}; it is tried again for a minute.", "yellow")

    async def main(stop: asyncio.Event) -> None:
        await await_store(source.team_store, stop, on_wait=waiting)
        if stop.is_set():
            return
        await run_process(
            settings,
            role="server",
            server=True,
            worker=False,
            stop=stop,
            on_ready=lambda ready: announce(ready, as_json=as_json, brief=True),
            team=source,
            program=program_line(anywhere=True),
        )

    with running_team_rules(settings, source):
        until_stopped(main, drain_seconds=settings.run.drain_seconds)
    if not as_json:
        output.say("Stopped. Machines go on recording, and send what is new when the server is back.")


@app.command()
def invite(
    user: Annotated[
        str | None, typer.Option(metavar="NAME", help="Whose machine it will be.", show_default="what it says itself")
    ] = None,
    expires: Annotated[float, typer.Option(min=0.01, max=8784, metavar="HOURS", help="Hours until it expires.")] = 24,
    as_json: AsJson = False,
) -> None:
    """Print a code with which one machine can join. It can be used once. Run this where the server runs."""
    seconds = round(expires * 3600)
    target = "any person" if user is None else user
    code, until = audited_change("machine.invite", target, lambda store: store.machines.invite(user, seconds))
    fields = {"code": code, "user": user, "expires_at": times.iso(until)}
    output.answer(fields, code, as_json=as_json)
    if not as_json:
        output.note(f"On the machine: agenttrace team join URL --code {code}")


@tokens.command("create")
def create_token(
    name: Annotated[str | None, typer.Argument(metavar="NAME", show_default="the role and a number")] = None,
    role: Annotated[Role, typer.Option(help=ROLES)] = "viewer",
    user: Annotated[str | None, typer.Option(metavar="NAME", help="The user whom it acts for.")] = None,
    days: Annotated[
        float | None, typer.Option(min=0.001, max=3650, help="Days until it expires.", show_default="until revoked")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Create an API token for /api/v1. It is printed once and cannot be shown again."""
    from agenttrace.cli.token import create_token as create

    create(name or _free_name(role), role=role, user=user, days=days, as_json=as_json)


def _free_name(role: str) -> str:
    from agenttrace.cli.access import access_store

    with access_store() as store:
        taken = {token.name for token in store.tokens.all()}
    return next(name for number in range(1, len(taken) + 2) if (name := f"{role}-{number}") not in taken)


@tokens.command("list")
def list_tokens(as_json: AsJson = False) -> None:
    """List API tokens, without their secrets."""
    from agenttrace.cli.token import list_tokens as listed

    listed(as_json=as_json)


@tokens.command("revoke")
def revoke_token(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The name of the token.")], as_json: AsJson = False
) -> None:
    """Revoke an API token at once."""
    from agenttrace.cli.token import revoke_token as revoke

    revoke(name, as_json=as_json)


@machines.command("list")
def list_machines(store: Store = None, as_json: AsJson = False) -> None:
    """List the machines of the team: whose they are, what they sent, and when. Run this where the server runs."""
    show_machines(opening.settings(), store, as_json=as_json)


@machines.command("revoke")
def revoke_machine(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The name of the machine.")], as_json: AsJson = False
) -> None:
    """Refuse what a machine sends from now on. What it sent before stays."""
    revoked = audited_change("machine.revoke", name, lambda store: store.machines.revoke(name))
    output.answer({"revoked": revoked}, f"The machine {revoked} is revoked.", as_json=as_json)


@machines.command("share")
def share_machine(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The name of the machine.")],
    share: Annotated[Share, typer.Argument(metavar="full|figures", help="What members see of its sessions.")],
    as_json: AsJson = False,
) -> None:
    """Change what other members see of a machine's sessions: all of them in full, or figures."""
    audited_change("machine.share", f"{name} {share}", lambda store: store.machines.set_share(name, share))
    output.answer({"machine": name, "share": share}, f"The machine {name} shares: {share}.", as_json=as_json)


@app.command("remove-person")
def remove_person(
    person: Annotated[str, typer.Argument(metavar="NAME", help="The person, as sessions name it.")],
    store: Store = None,
    as_json: AsJson = False,
) -> None:
    """Remove a person: logins, tokens and machines end, texts of all sessions are removed, sums stay.

    Run this where the server runs.
    """
    from agenttrace.serve.access.persons import remove_person as remove
    from agenttrace.store.team_place import source_of

    source = source_of(opening.settings(), store)

    def texts(name: str) -> int:
        if not source.exists():
            return 0
        with source.team_store() as opened:
            return opened.remove_texts(name)

    found = audited_change("person.remove", person, lambda access: remove(access, texts, person))
    fields = msgspec.to_builtins(found)
    ended = f"{found.machines} machines, {found.logins} logins and {found.tokens} API tokens ended"
    text = f"{person} is removed: the texts of {found.sessions} sessions are gone, {ended}."
    output.answer(fields, text, as_json=as_json)


@app.command()
def users(store: Store = None, as_json: AsJson = False) -> None:
    """List the persons of the team with their machines and roles. Run this where the server runs."""
    show_users(opening.settings(), store, as_json=as_json)


@app.command()
def now(person: Person = None, machine: Machine = None, store: Store = None, as_json: AsJson = False) -> None:
    """Show who works on what now: sessions that work or wait, by person, with machine and project."""
    from agenttrace.cli.team_now import show_now

    show_now(opening.settings(), store, current_filter(person, machine), as_json=as_json)


# -- a machine ------------------------------------------------------------------------------------------------------


@app.command()
def join(
    url: Annotated[str, typer.Argument(metavar="URL", help="The address of the team's server.")],
    code: Annotated[str, typer.Option(metavar="CODE", help="From agenttrace team invite.")],
    backfill: Annotated[bool, typer.Option("--backfill", help="Also send what was recorded before.")] = False,
    name: Annotated[
        str | None, typer.Option(metavar="NAME", help="The name of this machine.", show_default="its host name")
    ] = None,
    person: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Whose machine it is, unless the code says.", show_default="your login"),
    ] = None,
    level: Annotated[TeamLevel, typer.Option(help=_LEVELS)] = "full",
    project: Annotated[
        list[str], typer.Option("--project", metavar="GLOB=LEVEL", help="Another level for projects; repeatable.")
    ] = [],  # noqa: B006 - never changed
    share: Annotated[
        Share, typer.Option(help="What other members see of its sessions: full, or figures without texts and titles.")
    ] = "figures",
    insecure: Annotated[bool, typer.Option("--insecure", help="Allow http:// to another machine.")] = False,
    as_json: AsJson = False,
) -> None:
    """Join a team: from now on what changes in this machine's store is sent to the team's server.

    Without --backfill, sessions that were over before are sent when they continue.
    """
    from agenttrace.cli.access import os_user
    from agenttrace.team import joining

    settings = opening.settings()
    _check_not_elsewhere(settings, url)
    try:
        joined = joining.join(
            ensure_home(settings),
            joining.checked_url(url, insecure=insecure),
            code,
            name=name or platform.node() or "machine",
            person=person or os_user(),
            sharing=_sharing(level, project),
            backfill=backfill,
            share=share,
        )
    except joining.JoinError as error:
        raise CommandError(str(error), error.fix) from None
    _begin(load_settings(), is_new=joined.is_new, backfill=backfill)
    found = joined.membership
    fields = {"machine": found.machine, "person": found.person, "url": found.url, "team": joined.team, "level": level}
    text = f"This machine is {found.machine} of {found.person} at {found.url}; it shares: {level}."
    output.answer(fields, text, as_json=as_json, style="green")
    if not as_json:
        once = "agenttrace export run --once"
        output.note(f"Rows are sent while agenttrace up or record runs (restart it now); once: {once}")


def _check_not_elsewhere(settings: Settings, url: str) -> None:
    from agenttrace.team.membership import stored_membership

    known = stored_membership(settings.home)
    if known is not None and known.url.rstrip("/") != url.rstrip("/"):
        raise CommandError(f"this machine is a member of {known.url}", "Leave it first: agenttrace team leave")


def _sharing(level: TeamLevel, projects: list[str]) -> Sharing:
    from agenttrace.team.levels import LEVELS, Sharing

    found: dict[str, TeamLevel] = {}
    for given in projects:
        glob, _, wanted = given.rpartition("=")
        if not glob or wanted not in LEVELS:
            raise UsageError(f"{given!r} is no glob with a level", f"Write --project '*/secret/*=figures': {_LEVELS}")
        found[glob] = next(each for each in LEVELS if each == wanted)
    return Sharing(level=level, projects=found)


def _begin(settings: Settings, *, is_new: bool, backfill: bool) -> None:
    """Add the destination to the store, anew for a new machine."""
    with opening.opened_store(settings, read_only=False) as store:
        destinations = store.exports.destinations
        for each in settings.destinations:
            if each.type == TEAM and is_new:
                destinations.forget(each.name)
        destinations.keep(settings.destinations)
        for each in settings.destinations:
            if each.type == TEAM and backfill:
                destinations.backfill(each.name, 0)


@app.command()
def leave(as_json: AsJson = False) -> None:
    """Leave the team: nothing is sent any more, and the token is revoked. What was sent stays at the server."""
    from agenttrace.team import joining
    from agenttrace.team.membership import stored_membership

    settings = opening.settings()
    known = stored_membership(settings.home)
    if known is None:
        raise CommandError("this machine is no member of a team", "Join one: agenttrace team join URL --code CODE")
    told = joining.leave(settings.home)
    fields = {"left": known.url, "machine": known.machine, "revoked": told}
    output.answer(fields, f"This machine sends nothing to {known.url} any more.", as_json=as_json)
    if not told and not as_json:
        fix = f"there: agenttrace team machines revoke {known.machine}"
        output.note(f"The server was not reached, and still knows its token; {fix}", "yellow")


@app.command()
def status(store: Store = None, as_json: AsJson = False) -> None:
    """Show what this machine shares with its team and what waits; on the server, what is stored."""
    show_status(opening.settings(), store, as_json=as_json)


app.command("import", epilog=team_import.EPILOG)(team_import.import_stores)
app.command("export", epilog=team_export.EPILOG)(team_export.export_changes)
app.add_typer(machines, name="machines", help="List and revoke the machines of the team.")
app.add_typer(tokens, name="token", help="Manage API tokens of the team's server.")
