"""``agenttrace doctor``: every check with its fix."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from agenttrace.cli import opening, output
from agenttrace.cli.errors import FAILED

if TYPE_CHECKING:
    from agenttrace.cli.checks import Check

EPILOG = """
[bold]Examples[/bold]

  agenttrace doctor

  agenttrace doctor --json | jq '.checks[] | select(.state != "ok")'

Exit code 0 when nothing is wrong (warnings do not count), 1 otherwise.
"""

_MARKS = {"ok": ("✓", "green"), "warn": ("!", "bold yellow"), "fail": ("✗", "bold red")}


def doctor(as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False) -> None:
    """Check everything recording depends on, and say how to fix what is wrong."""
    found = []
    for check in all_checks():
        found.append(check)
        if not as_json:
            _show(check)
    failed = sum(1 for check in found if check.state == "fail")
    warned = sum(1 for check in found if check.state == "warn")
    if as_json:
        output.print_json({"ok": not failed, "checks": [check._asdict() for check in found]})
    elif failed or warned:
        output.say(f"{failed} wrong, {warned} to look at.", "bold red" if failed else "bold yellow")
    else:
        output.say("All is well.", "bold green")
    if failed:
        raise typer.Exit(FAILED)


def all_checks() -> Iterator[Check]:
    """Everything, in the order a newcomer would ask."""
    from agenttrace.cli import checks, run_checks
    from agenttrace.config import SettingsError
    from agenttrace.record.discover import list_files

    yield from checks.machine()
    try:
        settings = opening.settings()
    except SettingsError as error:
        yield checks.Check("settings", "fail", f"{error.where}: {error.key} {error.problem}", error.fix)
        return
    yield checks.settings_in_use(settings)
    yield from checks.data_directory(settings)
    yield from checks.store(settings)
    yield from checks.recorder(settings)
    listing = list_files(opening.roots(settings), settings.record.exclude)
    yield from checks.agents(settings, listing)
    yield from checks.watching(listing)
    yield from checks.deletions(settings, listing)
    yield from run_checks.applications(settings)
    yield run_checks.database(settings)


def _show(check: Check) -> None:
    from rich.text import Text

    mark, style = _MARKS[check.state]
    console = output.stdout()
    console.print(
        Text.assemble((f"{mark} ", style), (f"{check.name:<15}", "bold"), output.safe(check.found)), soft_wrap=True
    )
    if check.fix:
        console.print(Text.assemble(("  fix:           ", "green"), output.safe(check.fix)), soft_wrap=True)
