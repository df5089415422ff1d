"""All commands of ``agenttrace``, their help, and how failures are reported."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from typing import Annotated

import typer

from agenttrace.cli import (
    annotate,
    apps,
    breakers,
    budget,
    cache,
    compare,
    demo,
    doctor,
    errors,
    export,
    guard,
    hooks,
    insights,
    jobs,
    limits,
    mcp,
    open,  # noqa: A004 - the command is called so
    outcomes,
    output,
    overview,
    prices,
    prune,
    quarantine,
    record,
    requests,
    resume,
    rules,
    runs,
    search,
    serve,
    service,
    sessions,
    share,
    show,
    simulate_dashscope,
    status,
    statusline,
    tail,
    team,
    token,
    trigger,
    up,
    usage,
    user,
)

EPILOG = """
  agenttrace             live view in the terminal; the first time: import, and open the console
  agenttrace up          find the logs of this machine and keep recording
  agenttrace open        print the link to the console
  agenttrace sessions    list sessions, newest first
  agenttrace show ID     one session: turns, model calls, tools
  agenttrace usage       tokens and cost by day

Every command has --json and its own --help with examples. Data is in ~/.agenttrace, or where AGENTTRACE_HOME says;
the logs themselves are only read. Exit codes: 0 success, 1 failure or not found, 2 wrong usage.
"""


def unwrapped(text: str) -> str:
    """Paragraphs on one line each: the terminal wraps them, not the source code."""
    paragraphs = re.split(r"\n\s*\n", inspect.cleandoc(text).strip("\n"))
    return "\n\n".join(re.sub(r"(?<=\S)\s*\n\s*", " ", paragraph) for paragraph in paragraphs)


def _examples(text: str, heading: str = "Examples") -> str:
    """An epilog: the first paragraph has one example a line, the others are prose."""
    examples, _, prose = text.strip("\n").partition("\n\n")
    # A paragraph each, as the lines of a paragraph would be joined.
    # The empty first line keeps the indentation of the examples, which cleandoc would remove.
    return "\n" + "\n\n".join([f"[bold]{heading}[/bold]", *examples.splitlines(), unwrapped(prose)])


app = typer.Typer(
    name="agenttrace",
    invoke_without_command=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog=_examples(EPILOG, "First steps"),
)


def _version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        print(f"agenttrace {version('agenttrace')}")
        raise typer.Exit


@app.callback()
def agenttrace(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Record what AI agents do and what it costs; run LLM applications with rate limits, budgets and breakers.

    Without a command: the live view of what is recorded, at a terminal.
    """
    if context.invoked_subcommand is None:
        from agenttrace.cli.terminal.launch import is_interactive, launch

        if not is_interactive():
            # Rich prints it, and returns nothing.
            context.get_help()
            raise typer.Exit(2)
        launch()


def _add(panel: str, name: str, function: Callable[..., None], epilog: str) -> None:
    text = unwrapped(function.__doc__ or "")
    app.command(name, help=text, epilog=_examples(epilog), rich_help_panel=panel)(function)


def _add_group(panel: str, name: str, group: typer.Typer, text: str, epilog: str) -> None:
    app.add_typer(group, name=name, help=text, epilog=_examples(epilog), rich_help_panel=panel)


_START, _LOOK, _RUN, _CARE = "Start", "Inspect", "Run applications", "Maintain"

_add(_START, "up", up.up, up.EPILOG)
_add(_START, "record", record.record, record.EPILOG)
_add(_START, "open", open.open_console, open.EPILOG)
_add(_START, "demo", demo.demo, demo.EPILOG)
_add_group(_START, "service", service.app, "Install recording as a service of this machine.", service.EPILOG)
_add(_LOOK, "overview", overview.overview, overview.EPILOG)
_add(_LOOK, "sessions", sessions.sessions, sessions.EPILOG)
_add(_LOOK, "show", show.show, show.EPILOG)
_add(_LOOK, "requests", requests.requests, requests.EPILOG)
_add(_LOOK, "outcomes", outcomes.outcomes, outcomes.EPILOG)
_add(_LOOK, "share", share.share, share.EPILOG)
_add(_LOOK, "compare", compare.compare, compare.EPILOG)
_add(_LOOK, "resume", resume.resume, resume.EPILOG)
_add(_LOOK, "note", annotate.note, annotate.NOTE_EPILOG)
_add(_LOOK, "label", annotate.label, annotate.LABEL_EPILOG)
_add(_LOOK, "star", annotate.star, annotate.STAR_EPILOG)
_add(_LOOK, "score", annotate.score, annotate.SCORE_EPILOG)
_add(_LOOK, "usage", usage.usage, usage.EPILOG)
_add(_LOOK, "insights", insights.insights, insights.EPILOG)
_add(_LOOK, "limits", limits.limits, limits.EPILOG)
_add_group(_LOOK, "prices", prices.app, "Show and update model prices.", prices.EPILOG)
_add(_LOOK, "tail", tail.tail, tail.EPILOG)
_add(_LOOK, "search", search.search, search.EPILOG)
_add(_LOOK, "mcp", mcp.mcp, mcp.EPILOG)
_add(_LOOK, "statusline", statusline.statusline, statusline.EPILOG)
_add(_RUN, "apps", apps.apps, apps.EPILOG)
_add(_RUN, "trigger", trigger.trigger, trigger.EPILOG)
_add_group(_RUN, "jobs", jobs.app, "List, cancel and re-run jobs.", jobs.EPILOG)
_add_group(_RUN, "runs", runs.app, "Show application calls.", runs.EPILOG)
_add(_RUN, "budget", budget.budget, budget.EPILOG)
_add_group(_RUN, "breakers", breakers.app, "Show circuit breakers, open and close them.", breakers.EPILOG)
_add_group(_RUN, "cache", cache.app, "Show and invalidate cached results.", cache.EPILOG)
_add(_RUN, "serve", serve.serve, serve.SERVE_EPILOG)
_add(_RUN, "worker", serve.worker, serve.WORKER_EPILOG)
_add(_RUN, "simulate-dashscope", simulate_dashscope.simulate_dashscope, simulate_dashscope.EPILOG)
_add(_CARE, "status", status.status, status.EPILOG)
_add(_CARE, "doctor", doctor.doctor, doctor.EPILOG)
_add_group(_CARE, "quarantine", quarantine.app, "Show and retry lines that could not be parsed.", quarantine.EPILOG)
_add_group(_CARE, "export", export.app, "Export spans to other systems, each span once.", export.EPILOG)
_add_group(_CARE, "rules", rules.app, "Start actions when something is recorded: rules.", rules.EPILOG)
_add(_CARE, "guard", guard.guard, guard.EPILOG)
_add_group(_CARE, "hooks", hooks.app, "Have agents ask the guard: hooks in their settings.", hooks.EPILOG)
_add_group(_CARE, "team", team.app, "Share sessions with a team: push to its server, or run one.", team.EPILOG)
_add(_CARE, "prune", prune.prune, prune.EPILOG)
_add_group(_CARE, "token", token.app, "Manage API tokens, and create chat tokens for tests.", token.EPILOG)
_add_group(_CARE, "user", user.app, "Manage users of the console.", user.EPILOG)


def run() -> int:
    """Run the command that the arguments name; its exit code comes back."""
    try:
        app(prog_name="agenttrace")
    except Exception as error:
        known = errors.explained(error)
        if known is None:
            raise
        output.complain(known.problem, known.fix)
        return known.code
    return 0
