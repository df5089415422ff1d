"""``agenttrace service``: the recorder as a service of this machine."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from agenttrace.cli import opening, output
from agenttrace.cli.errors import FAILED, CommandError
from agenttrace.cli.invocation import temporary_environment
from agenttrace.cli.options import AsJson, DryRun
from agenttrace.config import ensure_home, load_settings
from agenttrace.record.lock import owner

if TYPE_CHECKING:
    from agenttrace.service import Plan

EPILOG = """
  agenttrace service install --dry-run    see the file and the commands first
  agenttrace service install
  agenttrace service status

Never needs root: a systemd user unit on Linux, a launchd agent on macOS, a scheduled task on Windows.
"""

app = typer.Typer(no_args_is_help=True, rich_markup_mode="rich")


ServiceKind = Literal["systemd", "launchd", "windows"]
KindOption = Annotated[
    ServiceKind | None, typer.Option("--for", help="The service manager; by default that of this machine.")
]


def _plan(kind: ServiceKind | None) -> Plan:
    from agenttrace import service

    return service.plan(kind or service.kind_here(), opening.settings())


@app.command()
def install(kind: KindOption = None, dry_run: DryRun = False, as_json: AsJson = False) -> None:
    """Install the service, which records whenever the machine runs."""
    from agenttrace import service

    what = _plan(kind)
    if not dry_run and (runner := temporary_environment()) is not None:
        raise CommandError(
            f"{runner} runs this program in an environment that does not last",
            "Install it first: uv tool install agenttrace",
        )
    if not dry_run:
        ensure_home(opening.settings())
        service.install(what)
    if as_json:
        output.print_json({**_fields(what), "file": what.text, "commands": what.install, "dry_run": dry_run})
        return
    if dry_run:
        output.note(f"# would write {what.path}:")
        output.say(what.text.rstrip("\n"))
        for step in what.install:
            output.note(f"# would run: {shlex.join(step)}")
        return
    output.say(f"Installed {what.path}; the recorder runs.", "green")
    output.say(what.hint)
    _note_missing_keys(what)


def _note_missing_keys(what: Plan) -> None:
    """Keys of destinations are often in the environment of a shell, which the service does not have."""
    from agenttrace import service

    here = opening.settings()
    there = load_settings(environ=service.kept_variables(here.home))
    missing = sorted(
        {name for each in there.destinations for name in each.missing} - service.variables_of_file(what, here.home)
    )
    if missing:
        place = "agenttrace.toml"
        if what.kind == "systemd":
            place += f", or as NAME=KEY into {here.home / service.ENVIRONMENT_FILE},"
        output.note(
            f"The service does not have {', '.join(missing)}: it cannot export to the destinations that need them. "
            f"Write the keys into {place} and make the file private (chmod 600).",
            "yellow",
        )
    left_out = service.left_out()
    if left_out:
        output.note(f"Not passed to the service, as recording does not need them: {', '.join(left_out)}.")


@app.command()
def status(kind: KindOption = None, as_json: AsJson = False) -> None:
    """Show whether the service is installed and whether a recorder is running."""
    from agenttrace import service

    what = _plan(kind)
    installed, active = service.is_installed(what), service.is_active(what)
    process = owner(opening.settings().home)
    if as_json:
        output.print_json({**_fields(what), "active": active, "recorder_pid": process})
    else:
        output.fact("service", f"installed, {what.path}" if installed else "not installed", width=11)
        output.fact(what.kind, "running" if active else "not running", "green" if active else "", width=11)
        output.fact("recorder", "not running" if process is None else f"process {process}", width=11)
        if not installed:
            output.note("Next: agenttrace service install")
    if not installed:
        raise typer.Exit(FAILED)


@app.command()
def uninstall(kind: KindOption = None, dry_run: DryRun = False, as_json: AsJson = False) -> None:
    """Stop and remove the service; recorded data stays."""
    from agenttrace import service

    what = _plan(kind)
    removed = not dry_run and service.uninstall(what)
    if as_json:
        output.print_json({**_fields(what), "removed": removed, "commands": what.uninstall, "dry_run": dry_run})
    elif dry_run:
        for step in what.uninstall:
            output.note(f"# would run: {shlex.join(step)}")
        output.note(f"# would remove {what.path}")
    else:
        output.say("The service is removed; recorded data stays." if removed else "The service was not installed.")


def _fields(what: Plan) -> dict[str, Any]:
    from agenttrace import service

    return {"kind": what.kind, "path": str(what.path), "installed": service.is_installed(what)}
