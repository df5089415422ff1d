"""``agenttrace doctor``: every check with its fix."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import typer

from agenttrace.cli import opening, output
from agenttrace.cli.errors import FAILED
from agenttrace.cli.options import AsJson
from agenttrace.config import SettingsError
from agenttrace.views import checks
from agenttrace.views.plain import safe

if TYPE_CHECKING:
    from agenttrace.views.checks import Finding

EPILOG = """
  agenttrace doctor
  agenttrace doctor --json | jq '.checks[] | select(.state != "ok")'

Exit code 0 when nothing is wrong (warnings do not count), 1 otherwise.
"""

_MARKS = {"ok": ("✓", "green"), "warn": ("!", "bold yellow"), "fail": ("✗", "bold red")}


def doctor(as_json: AsJson = False) -> None:
    """Check settings, files, store and applications, and show how to fix problems."""
    found = []
    for check in _findings():
        found.append(check)
        if not as_json:
            _show(check)
    failed = sum(1 for check in found if check.state == "fail")
    warned = sum(1 for check in found if check.state == "warn")
    if as_json:
        output.print_json({"ok": not failed, "checks": [check._asdict() for check in found]})
    elif failed or warned:
        output.say(f"{failed} wrong, {warned} to check.", "bold red" if failed else "bold yellow")
    else:
        output.say("All is well.", "bold green")
    if failed:
        raise typer.Exit(FAILED)


def _findings() -> Iterator[Finding]:
    try:
        settings = opening.settings()
    except SettingsError as error:
        yield from checks.machine()
        yield checks.Finding("settings", "fail", f"{error.where}: {error.key} {error.problem}", error.fix)
        return
    from agenttrace.views.doctor import all_checks

    yield from all_checks(settings)


def _show(check: Finding) -> None:
    from rich.text import Text

    mark, style = _MARKS[check.state]
    output.wrapped(Text.assemble((f"{mark} ", style), (f"{check.name:<15}", "bold")), Text(safe(check.found)))
    if check.fix:
        output.wrapped(Text("  fix:           ", "green"), Text(safe(check.fix)))
