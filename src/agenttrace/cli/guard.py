"""``agenttrace guard``: a hook that warns an agent near its budget and refuses it beyond; ``guard_hook.py`` answers."""

from __future__ import annotations

import getpass
import json
import os
import time
from typing import Annotated

import typer

from agenttrace.cli import opening, output
from agenttrace.cli.errors import UsageError
from agenttrace.cli.options import AsJson
from agenttrace.rules import guard as rules
from agenttrace.views import figures
from agenttrace.views.times import iso, parse_span

EPILOG = """
  agenttrace hooks install claude-code       have Claude Code ask before every prompt and tool call
  agenttrace guard                           what would be refused now, and what is allowed
  agenttrace guard --allow 1h                let agents go on for an hour
  agenttrace guard --allow 1h --budget shop  the same for one budget
  agenttrace guard --revoke                  end that

Agents call it as a hook and say on stdin which session it is about. From a budget's warning levels on it warns, once
for each session and level. When the budget is used up it refuses, and says how to go on. If anything fails, the agent
goes on, and guard/guard.log in the data directory says why. Budgets are in agenttrace.toml: \\[budgets.NAME].
"""


def guard(
    agent: Annotated[
        str | None, typer.Option("--agent", metavar="NAME", help="Answer a hook of this agent; its JSON is on stdin.")
    ] = None,
    allow: Annotated[
        str | None, typer.Option("--allow", metavar="TIME", help="Refuse nothing for this long: 30m, 1h, 1d.")
    ] = None,
    budget: Annotated[
        str | None, typer.Option("--budget", metavar="NAME", help="With --allow or --revoke: this budget only.")
    ] = None,
    revoke: Annotated[bool, typer.Option("--revoke", help="End what --allow has begun.")] = False,
    refresh: Annotated[bool, typer.Option("--refresh", hidden=True)] = False,
    transcript: Annotated[str | None, typer.Option("--transcript", hidden=True)] = None,
    as_json: AsJson = False,
) -> None:
    """Warn agents near a budget and refuse them beyond it, as a hook."""
    if agent is not None:
        from agenttrace.cli.guard_hook import run

        raise typer.Exit(run(agent))
    if refresh:
        from agenttrace.cli.guard_refresh import refresh_beside

        refresh_beside(transcript)
        return
    settings = opening.settings()
    if budget is not None and budget not in settings.budgets:
        known = ", ".join(settings.budgets) or "none; write [budgets.NAME] in agenttrace.toml"
        raise UsageError(f"there is no budget named {budget!r}", f"Budgets: {known}.")
    if allow is not None or revoke:
        until = 0.0 if revoke else time.time() + parse_span(allow or "").total_seconds()
        _allow(str(settings.home), budget or "", until)
    _show(str(settings.home), as_json=as_json)


def _allow(home: str, budget: str, until: float) -> None:
    """Append a line: who allowed what, and until when."""
    path = rules.allowed_path(home)
    os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
    line = {"at": time.time(), "until": until, "budget": budget, "by": getpass.getuser()}
    with open(path, "a", encoding="utf-8") as stream:
        stream.write(json.dumps(line, ensure_ascii=False) + "\n")


def _show(home: str, *, as_json: bool) -> None:
    from agenttrace.cli.guard_refresh import refreshed

    now = time.time()
    state = refreshed(home)
    allowed = {name: until for name, until in rules.allowances(home).items() if until > now}
    over = [each for each in state["budgets"] if each["share"] is not None and each["share"] >= rules.HARD]
    if as_json:
        listed = [{"budget": name or None, "until": iso(round(until * 1e6))} for name, until in allowed.items()]
        fields = ("name", "period", "share", "session", "agent", "agents", "projects", "models")
        refused = [{name: each[name] for name in fields} for each in over if not _lifted(each["name"], allowed)]
        output.print_json({"refused": refused, "allowed": listed, "budgets": len(state["budgets"])})
        return
    for name, until in allowed.items():
        what = f"Budget {name}" if name else "Every budget"
        output.say(f"{what} refuses nothing until {figures.clock(round(until * 1e6))}.", "yellow")
    for each in over:
        if not _lifted(each["name"], allowed):
            whose = f" (session {each['session']})" if each["session"] else ""
            output.say(f"Refused: budget {each['name']}{whose}: {each['text']}.", "red")
    if state["idle"]:
        output.say("No budget is set. Write [budgets.NAME] in agenttrace.toml; see docs/limits.md.")
    elif not over:
        output.say("Nothing is refused.")


def _lifted(name: str, allowed: dict[str, float]) -> bool:
    return name in allowed or "" in allowed
