"""``agenttrace rules``: what recorded events start."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Annotated, Any

import typer

from agenttrace.cli import opening, output
from agenttrace.cli.columns import Column, print_list, print_table
from agenttrace.cli.errors import CommandError, UsageError
from agenttrace.cli.grouping import ListFirst
from agenttrace.cli.options import AsJson, Limit, Number
from agenttrace.views import figures, times
from agenttrace.views.plain import one_line

if TYPE_CHECKING:
    from agenttrace.config import Settings
    from agenttrace.config.rules import RuleMode, RuleSettings
    from agenttrace.store.rules import FiringState
    from agenttrace.store.sqlite.store import SqliteStore

EPILOG = """
  agenttrace rules                          all rules, and how often they fired
  agenttrace rules enable waiting           notify me when an agent waits for me
  agenttrace rules test done --since 7d     what a rule would have done
  agenttrace rules log                      what fired, what did not, and why
  agenttrace rules show 12                  one firing with its actions and their attempts
  agenttrace rules retry 12                 run failed actions again, or fire what was skipped
"""

app = typer.Typer(cls=ListFirst, rich_markup_mode="rich")

Rule = Annotated[str, typer.Argument(metavar="RULE", help="The name of a rule.")]

_MODES = {"on": "bold green", "dry": "cyan", "off": "dim", "paused": "bold red"}
_STATES = {
    "done": "green",
    "failed": "bold red",
    "running": "bold cyan",
    "queued": "cyan",
    "settling": "cyan",
    "held": "yellow",
    "skipped": "dim",
}


@app.command("list")
def list_rules(as_json: AsJson = False) -> None:
    """List all rules, with those that ship."""
    from agenttrace.views.rules import rules_fields

    settings = opening.settings()
    with opening.opened_store(settings, read_only=False) as store:
        found = rules_fields(store, settings, day=_today(settings))
    print_list(
        found,
        _RULE_COLUMNS,
        dict,
        as_json=as_json,
        empty="No rules.",
        hint="Next: agenttrace rules enable NAME, agenttrace rules test NAME. Guide: docs/rules.md",
    )
    for each in [] if as_json else found:
        if each["paused"]:
            output.note(f"{each['name']} is paused: {one_line(each['paused'])}", "yellow")
            output.note(f"When that is fixed: agenttrace rules enable {each['name']}", "yellow")


def _mode(rule: dict[str, Any]) -> str:
    return "paused" if rule["paused"] and rule["mode"] != "off" else str(rule["mode"])


_RULE_COLUMNS: tuple[Column[dict[str, Any]], ...] = (
    Column("rule", lambda each: each["name"]),
    Column("mode", _mode, style=_MODES),
    Column("on", lambda each: each["on"]),
    Column("do", lambda each: ", ".join(action["name"] for action in each["do"]), least=8),
    Column("today", lambda each: f"{each['fired_today']}/{each['max_per_day']}", right=True),
    Column("tokens", lambda each: figures.count(each["tokens_today"]) or None, right=True, optional=2),
    Column("last", lambda each: _clock(each["last_fired_at"]), right=True, optional=1),
    Column("title", lambda each: one_line(each["title"]) or None, least=10, optional=3),
)


def _clock(text: str | None) -> str | None:
    return None if text is None else figures.clock(times.parse_when(text, "UTC"))


@app.command("log")
def log(
    rule: Annotated[str | None, typer.Argument(metavar="[RULE]", help="Filter by rule.")] = None,
    state: Annotated[
        list[str] | None,
        typer.Option(metavar="STATE", help="Filter by state: done, failed, skipped, held, settling, dry …"),
    ] = None,
    session: Annotated[str | None, typer.Option(metavar="ID", help="Filter by session.")] = None,
    limit: Limit = 30,
    as_json: AsJson = False,
) -> None:
    """List what rules decided, the latest first: what fired, what did not, and why."""
    from agenttrace.views.rules import firing_fields, sessions_of

    settings = opening.settings()
    if rule is not None:
        _rule(settings, rule)
    with opening.opened_store(settings, read_only=False) as store:
        number = None if session is None else store.session(session).id
        found = store.rules.firings(rule=rule, states=_states(state or []), session=number, limit=limit or -1)
        known = sessions_of(store, found)
        rows = [firing_fields(each, known.get(each.event.session or -1)) for each in found]
    print_list(
        rows,
        _FIRING_COLUMNS,
        dict,
        as_json=as_json,
        empty="Nothing fired yet.",
        hint="Next: agenttrace rules show ID. Events that do not match are not listed: agenttrace rules test RULE",
    )


_FIRING_COLUMNS: tuple[Column[dict[str, Any]], ...] = (
    Column("id", lambda each: each["id"], right=True),
    Column("when", lambda each: _clock(each["at"]), right=True),
    Column("rule", lambda each: each["rule"], least=8),
    Column("event", lambda each: each["event"]),
    Column("state", lambda each: each["state"], style=_STATES),
    Column("about", lambda each: one_line(each["title"] or _about(each["facts"])) or None, least=12),
    Column("reason", lambda each: one_line(each["reason"] or "") or None, least=12, optional=1),
)


def _about(facts: dict[str, Any]) -> str:
    return ", ".join(f"{name} {value}" for name, value in facts.items())


def _states(given: list[str]) -> list[FiringState]:
    from typing import get_args

    from agenttrace.config import did_you_mean
    from agenttrace.store.rules import FiringState

    valid = get_args(FiringState)
    for each in given:
        if each not in valid:
            raise UsageError(f"there is no state {each!r}", did_you_mean(each, valid))
    return given  # type: ignore[return-value]


@app.command("show")
def show(firing: Number, as_json: AsJson = False) -> None:
    """Show one firing: its event, its actions, and each attempt."""
    from agenttrace.views.rules import firing_details, sessions_of

    with opening.opened_store(opening.settings(), read_only=False) as store:
        found = [each for each in store.rules.firings(before=firing + 1, limit=1) if each.number == firing]
        if not found:
            raise CommandError(f"there is no firing {firing}", "List them: agenttrace rules log")
        known = sessions_of(store, found)
        actions = store.rules.actions([firing]).get(firing, [])
        fields = firing_details(
            found[0], known.get(found[0].event.session or -1), actions, store.rules.attempts(firing)
        )
    if as_json:
        output.print_json(fields)
        return
    for name in ("id", "rule", "event", "at", "session_id", "title", "state", "reason", "fired_at", "ended_at"):
        if fields[name] is not None:
            output.fact(name, fields[name])
    for name, value in fields["facts"].items():
        output.fact(name, value)
    for action in fields["actions"]:
        output.say()
        output.fact("action", action["name"], "bold")
        output.fact("state", action["state"], _STATES.get(action["state"], ""))
        output.fact("key", action["idempotency_key"])
        if action["tokens"]:
            output.fact("tokens", figures.count(action["tokens"]))
        if action["answer"] is not None:
            output.fact("answer", one_line(action["answer"]))
        print_table(_ATTEMPT_COLUMNS, action["attempts"])


_ATTEMPT_COLUMNS: tuple[Column[dict[str, Any]], ...] = (
    Column("attempt", lambda each: _clock(each["at"])),
    Column("seconds", lambda each: f"{each['seconds']:.2f}", right=True),
    Column("outcome", lambda each: each["outcome"]),
    Column("detail", lambda each: one_line(each["detail"]) or None, least=20),
)


@app.command("test")
def try_out(
    rule: Rule,
    since: Annotated[str, typer.Option(metavar="WHEN", help="Try it on events since: 7d, 24h, 2026-11-01.")] = "7d",
    limit: Limit = 20,
    as_json: AsJson = False,
) -> None:
    """Show what a rule would have done, without doing it.

    Sessions are judged by what they cost by now. Waits for permissions are not stored, so a rule on session.waiting is
    tried on the ends of turns.
    """
    from agenttrace.prices.costing import Cashier
    from agenttrace.record.calendar import day_finder
    from agenttrace.rules.trial import TRIED, try_rule
    from agenttrace.views.rules import trial_fields

    settings = opening.settings()
    wanted = _rule(settings, rule)
    if wanted.on not in TRIED:
        fix = f"Run it dry instead: agenttrace rules enable {rule} --dry"
        raise CommandError(f"{wanted.on} cannot be told from what is stored", fix)
    zone = settings.usage.timezone
    with opening.opened_store(settings, read_only=False) as store:
        trial = try_rule(
            store,
            Cashier.load(settings),
            wanted,
            since=times.parse_when(since, zone),
            until=time.time_ns() // 1000,
            day_of=day_finder(zone),
        )
    fields = trial_fields(trial)
    if as_json:
        output.print_json(fields)
        return
    fired = [each for each in fields["examples"] if each["fires"]]
    print_table(_TRIED_COLUMNS, fired[: limit or None])
    output.say(
        f"{figures.counted(fields['fired'], 'event')} of {figures.count(fields['events'])} would have fired "
        f"{rule}, in {figures.counted(fields['messages'], 'message')}.",
        "bold",
    )
    for each in fields["reasons"][: limit or None]:
        output.note(f"  {figures.count(each['events']):>8}  did not: {each['reason']}")


_TRIED_COLUMNS: tuple[Column[dict[str, Any]], ...] = (
    Column("when", lambda each: _clock(each["at"]), right=True),
    Column("agent", lambda each: each["agent"], optional=1),
    Column("about", lambda each: one_line(each["title"] or "") or None, least=16),
    Column("facts", lambda each: one_line(_about(each["facts"])) or None, least=8, optional=2),
)


@app.command("enable")
def enable(
    rule: Rule,
    dry: Annotated[bool, typer.Option("--dry", help="Only note what it would do.")] = False,
) -> None:
    """Switch a rule on, whatever its settings say. A paused rule goes on with what waits."""
    settings = opening.settings()
    wanted = _rule(settings, rule)
    _switch(settings, wanted, "dry" if dry else "on")
    output.say(f"{rule} is {'dry: it notes what it would do' if dry else 'on'}.")
    from agenttrace.cli.rules_run import owner

    if owner(settings.home) is None:
        output.note("Rules run while agenttrace up or agenttrace record does.")
    _note_missing_apps(settings, wanted)


def _note_missing_apps(settings: Settings, rule: RuleSettings) -> None:
    """Say now what the chains of a rule would lack later."""
    from agenttrace.cli.chain_jobs import objection
    from agenttrace.config.rule_tables import all_rules

    actions = all_rules(settings).actions
    for name in rule.do:
        if name in actions and actions[name].type == "chain":
            problem = objection(settings, actions[name].apps, os.environ)
            if problem is not None:
                output.note(f"{name}: {problem}", "yellow")


@app.command("disable")
def disable(rule: Rule) -> None:
    """Switch a rule off. What fired already goes on."""
    settings = opening.settings()
    _switch(settings, _rule(settings, rule), "off")
    output.say(f"{rule} is off.")


@app.command("retry")
def retry(
    firings: Annotated[list[int], typer.Argument(metavar="ID...", help="Numbers from agenttrace rules log.")],
) -> None:
    """Run the failed actions of firings again, or fire what was skipped or dry."""
    from agenttrace.config.rule_tables import all_rules
    from agenttrace.rules.engine import actions_of

    settings = opening.settings()
    rules = all_rules(settings).rules
    with opening.opened_store(settings, read_only=False) as store:
        known = {
            number: found[0]
            for number in firings
            if (found := store.rules.firings(before=number + 1, limit=1)) and found[0].number == number
        }
        usable = {number: each for number, each in known.items() if each.rule in rules}
        actions = {number: actions_of(rules[each.rule], each.once_key) for number, each in usable.items()}
        retried = store.rules.retry(list(usable), actions, day=_today(settings))
    output.say(f"{figures.counted(retried, 'firing')} queued again.")
    if retried < len(set(firings)):
        raise CommandError(
            "some were not: only firings that failed, were skipped or dry can be, and each session, turn or span once",
            "See them: agenttrace rules log",
        )


@app.command("run")
def run(
    until_input_ends: Annotated[
        bool, typer.Option("--until-input-ends", hidden=True, help="Stop when standard input ends.")
    ] = False,
) -> None:
    """Run the rules until Ctrl-C. agenttrace up and agenttrace record do it by themselves."""
    from agenttrace.cli import rules_run

    settings = opening.settings()
    if not until_input_ends:
        output.say("Running the rules. Ctrl-C stops it; nothing is lost.", "bold")
    rules_run.run(settings, until_input_ends=until_input_ends)


def _rule(settings: Settings, name: str) -> RuleSettings:
    from agenttrace.config import did_you_mean
    from agenttrace.config.rule_tables import all_rules

    rules = all_rules(settings).rules
    if name not in rules:
        raise UsageError(f"there is no rule {name!r}", did_you_mean(name, rules))
    return rules[name]


def _switch(settings: Settings, rule: RuleSettings, mode: RuleMode) -> None:
    from agenttrace.record.calendar import day_finder
    from agenttrace.rules.engine import start_of

    now = time.time()
    with opening.opened_store(settings, read_only=False) as store:
        store.rules.switch(rule.name, mode, since=start_of(rule, now, day_finder(settings.usage.timezone)))
        _register(settings, store, now)


def _register(settings: Settings, store: SqliteStore, now: float) -> None:
    """Have events noted from now on, also where no engine runs yet."""
    from agenttrace.config.rule_tables import all_rules
    from agenttrace.record.calendar import day_finder
    from agenttrace.rules.engine import register

    register(store, all_rules(settings), home=settings.home, day_of=day_finder(settings.usage.timezone), now=now)


def _today(settings: Settings) -> str:
    from agenttrace.record.calendar import day_finder

    return day_finder(settings.usage.timezone)(time.time_ns() // 1000)
