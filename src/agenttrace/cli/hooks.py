"""``agenttrace hooks``: have agents ask the guard, by a hook in their own settings."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from agenttrace.cli import opening, output
from agenttrace.cli.errors import CommandError, UsageError
from agenttrace.cli.options import AsJson, DryRun, Yes
from agenttrace.hooks.installing import Installer, Plan, Status
from agenttrace.hooks.targets import TARGETS, Target, find_target

EPILOG = """
  agenttrace hooks status
  agenttrace hooks install claude-code                have it ask before prompts and tool calls
  agenttrace hooks install claude-code --statusline   and show limits and budgets in its status line
  agenttrace hooks install codex --dry-run            show the change, and do nothing
  agenttrace hooks uninstall claude-code

Agents: claude-code, codex, gemini-cli, qwen-code, copilot-cli, opencode. The change is shown before it is made. Other
hooks, comments and the order of the settings stay; a copy of the old file is beside it. See docs/limits.md.
"""

app = typer.Typer(no_args_is_help=True)
AgentName = Annotated[
    str, typer.Argument(metavar="AGENT", help="claude-code, codex, gemini, qwen, copilot or opencode.")
]


@app.command("install")
def install(
    agent: AgentName,
    statusline: Annotated[
        bool,
        typer.Option("--statusline", help="Be its status line, too, and call yours (Claude Code)."),
    ] = False,
    guard: Annotated[
        bool, typer.Option("--guard/--no-guard", help="Ask the guard; without it: the status line only.")
    ] = True,
    dry_run: DryRun = False,
    yes: Yes = False,
    as_json: AsJson = False,
) -> None:
    """Write the guard into the settings of an agent."""
    target = _target(agent)
    if not guard and not statusline:
        raise UsageError("without the guard there is nothing to install", "Add --statusline.")
    if statusline and not target.status_line:
        raise UsageError(f"{target.title} has no status line for other programs", "Leave --statusline out.")
    installer = _installer()
    plan = installer.plan_install(target, status_line=statusline, guard=guard)
    _carry_out(installer, plan, "installed", dry_run=dry_run, yes=yes, as_json=as_json)
    if plan.changes and not dry_run and not as_json and target.note:
        output.note(target.note)
    if plan.status_line_problem is not None:
        raise CommandError(f"{plan.path}: {plan.status_line_problem}", "Or leave --statusline out.")


@app.command("uninstall")
def uninstall(agent: AgentName, dry_run: DryRun = False, yes: Yes = False, as_json: AsJson = False) -> None:
    """Take the guard out of the settings of an agent."""
    installer = _installer()
    _carry_out(
        installer, installer.plan_uninstall(_target(agent)), "removed", dry_run=dry_run, yes=yes, as_json=as_json
    )


@app.command("status")
def status(as_json: AsJson = False) -> None:
    """Show which agents ask the guard."""
    installer = _installer()
    found = [installer.status(target) for target in TARGETS]
    if as_json:
        output.print_json([_fields(each) for each in found])
        return
    for each in found:
        output.fact(each.target.title, f"{_word(each)}  {each.path}", "green" if each.current else "", width=20)


def _word(each: Status) -> str:
    if each.problem is not None:
        return f"unknown: {each.problem}"
    if not each.installed:
        return "not installed" if not each.status_line else "status line only"
    word = "installed" if each.current else "installed by another copy of AgentTrace; install again"
    return f"{word}, status line" if each.status_line else word


def _fields(each: Status) -> dict[str, object]:
    return {
        "agent": each.target.agent,
        "path": str(each.path),
        "installed": each.installed,
        "current": each.current,
        "statusline": each.status_line,
        "problem": each.problem,
    }


def _carry_out(installer: Installer, plan: Plan, done: str, *, dry_run: bool, yes: bool, as_json: bool) -> None:
    fields = {"agent": plan.target.agent, "path": str(plan.path), "changed": plan.changes and not dry_run}
    if not plan.changes:
        output.answer({**fields, "backup": None}, f"Nothing to change in {plan.path}.", as_json=as_json)
        return
    if not as_json:
        for line in plan.difference().splitlines():
            output.say(line, "green" if line.startswith("+") else "red" if line.startswith("-") else "dim")
    if dry_run:
        output.answer({**fields, "diff": plan.difference()}, "Nothing was changed.", as_json=as_json)
        return
    if not yes:
        question, fix = f"Write this to {plan.path}?", "Look at the change with --dry-run, then give --yes."
        output.confirm(question, fix=fix, refused="nothing was changed")
    backup = installer.apply(plan)
    kept = f" The old file is {backup}." if backup else ""
    text = f"The hook of {plan.target.title} is {done}.{kept}"
    output.answer({**fields, "backup": str(backup) if backup else None}, text, as_json=as_json)


def _target(name: str) -> Target:
    target = find_target(name)
    if target is None:
        raise UsageError(f"there are no hooks for {name!r}", f"Agents: {', '.join(each.agent for each in TARGETS)}.")
    return target


def _installer() -> Installer:
    home = Path(os.environ.get("HOME") or Path.home())
    return Installer(opening.settings().home, os.environ, home)
