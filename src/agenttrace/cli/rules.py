"""``agenttrace rules``: what recorded events start."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer

from agenttrace.cli import opening, output
from agenttrace.cli.columns import Column, print_list, print_table
from agenttrace.cli.errors import CommandError, UsageError
from agenttrace.cli.grouping import ListFirst
from agenttrace.cli.options import AsJson, Limit, Number
from agenttrace.views import figures, times
from agenttrace.views.plain import one_line
from agenttrace.views.rule_costs import cost_remarks, cost_text

if TYPE_CHECKING:
    from agenttrace.config import Settings
    from agenttrace.config.rules import RuleMode, RuleSettings
    from agenttrace.store.rules import FiringState
    from agenttrace.views.rule_costs import RuleCost
    from agenttrace.views.rules import Rule as RuleRow
    from agenttrace.views.rules import RuleAttempt, RuleFiring, RuleFiringAction, TriedEvent

EPILOG = """
  agenttrace rules                        all rules, and how often they fired
  agenttrace rules test done --since 7d   what a rule would have done
  agenttrace rules enable waiting         notify me when an agent waits
  agenttrace rules enable done --dry      only note what it would do
  agenttrace rules log --state failed     what fired, what did not, and why
  agenttrace rules show 12                a firing: actions and attempts
  agenttrace rules retry 12               run failed actions again
  agenttrace rules new --on tool.failed   a table for agenttrace.toml

Your own rules are tables of agenttrace.toml; the console writes others. Files are read again when they change.
Guide: docs/rules.md
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
    from agenttrace.config.rule_tables import all_rules
    from agenttrace.prices.costing import Cashier
    from agenttrace.views.rules import rules_of

    settings = opening.settings()
    with opening.rule_store(settings) as store:
        found = rules_of(store, all_rules(settings), day=_today(settings), cashier=Cashier.load(settings))
    print_list(
        found,
        _RULE_COLUMNS,
        msgspec.to_builtins,
        as_json=as_json,
        empty="No rules.",
        hint="Next: agenttrace rules test NAME, agenttrace rules enable NAME. Your own rules: agenttrace rules new",
    )
    if not as_json:
        _say_trouble(settings, found)


def _say_trouble(settings: Settings, found: Sequence[RuleRow]) -> None:
    """What keeps rules from firing, each with what to do about it."""
    from agenttrace.rules.lock import owner

    active = [each for each in found if each.mode != "off"]
    for each in active:
        if each.paused:
            output.note(f"{each.name} is paused: {one_line(each.paused)}", "yellow")
            output.note(f"When that is fixed: agenttrace rules enable {each.name}", "yellow")
        for action in each.do:
            if action.missing:
                names = ", ".join(action.missing)
                where = "where agenttrace up or agenttrace record is started"
                output.note(f"{each.name}: {names} is not set here; action {action.name} needs it {where}.", "yellow")
    if active and owner(settings.home) is None:
        programs = "agenttrace team serve" if opening.shows_team(settings) else "agenttrace up or agenttrace record"
        output.note(f"No rules are run now. They are while {programs} does.", "yellow")


def _mode(rule: RuleRow) -> str:
    return "paused" if rule.paused and rule.mode != "off" else rule.mode


_RULE_COLUMNS: tuple[Column[RuleRow], ...] = (
    Column("rule", lambda each: each.name),
    Column("mode", _mode, style=_MODES),
    Column("on", lambda each: each.on),
    Column("do", lambda each: ", ".join(action.name for action in each.do), least=8),
    Column("today", lambda each: f"{each.fired_today}/{each.max_per_day}", right=True),
    Column(
        "tokens", lambda each: figures.count(each.tokens_today) if each.tokens_today else None, right=True, optional=2
    ),
    Column("cost", lambda each: cost_text(each.cost_today), right=True, optional=2),
    Column("last", lambda each: _clock(each.last_fired_at), right=True, optional=1),
    Column("title", lambda each: one_line(each.title) or None, least=10, optional=3),
)


def _count(number: int) -> str | None:
    return figures.count(number) if number else None


def _clock(text: str | None) -> str | None:
    return None if text is None else figures.clock(times.parse_when(text, "UTC"))


@app.command("log")
def log(
    rule: Annotated[str | None, typer.Argument(metavar="RULE", help="Filter by rule.")] = None,
    state: Annotated[
        list[str] | None,
        typer.Option(metavar="STATE", help="Filter by state: done, failed, skipped, held, settling, dry …"),
    ] = None,
    session: Annotated[str | None, typer.Option(metavar="ID", help="Filter by session.")] = None,
    limit: Limit = 30,
    as_json: AsJson = False,
) -> None:
    """List what rules decided, the latest first: what fired, what did not, and why."""
    from agenttrace.prices.costing import Cashier
    from agenttrace.views.rules import firings_of

    settings = opening.settings()
    with opening.rule_store(settings) as store:
        number = None if session is None else store.session(session).id
        found = store.rules.firings(rule=rule, states=_states(state or []), session=number, limit=limit or -1)
        rows = firings_of(store, found, Cashier.load(settings))
    if rule is not None and not rows:
        # A rule that was removed from the settings still has its log.
        _rule(settings, rule)
    print_list(
        rows,
        _FIRING_COLUMNS,
        msgspec.to_builtins,
        as_json=as_json,
        empty="Nothing matches." if rule or state or session else "Nothing fired yet.",
        hint="Next: agenttrace rules show ID. Events that do not match are not listed: agenttrace rules test RULE",
    )


_FIRING_COLUMNS: tuple[Column[RuleFiring], ...] = (
    Column("id", lambda each: each.id, right=True),
    Column("when", lambda each: _clock(each.at), right=True),
    Column("rule", lambda each: each.rule, least=8),
    Column("event", lambda each: each.event),
    Column("state", lambda each: each.state, style=_STATES),
    Column("about", lambda each: one_line(each.title or _about(each.facts)) or None, least=12),
    Column("tokens", lambda each: _count(each.tokens), right=True, optional=2),
    Column("cost", lambda each: cost_text(each.cost), right=True, optional=2),
    Column("reason", lambda each: one_line(each.reason or "") or None, least=12, optional=1),
)


def _about(facts: dict[str, Any]) -> str:
    return ", ".join(f"{name} {value}" for name, value in facts.items() if name != "call")


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
    from agenttrace.prices.costing import Cashier
    from agenttrace.views.rules import firing_detail

    settings = opening.settings()
    with opening.rule_store(settings) as store:
        found = firing_detail(store, firing, Cashier.load(settings))
    if found is None:
        raise CommandError(f"there is no firing {firing}", "List them: agenttrace rules log")
    if as_json:
        output.print_json(msgspec.to_builtins(found))
        return
    for name in ("id", "rule", "event", "at", "session_id", "title", "state", "reason", "fired_at", "ended_at"):
        value = getattr(found, name)
        if value is not None:
            output.fact(name, one_line(str(value)))
    _show_cost(found.tokens, found.cost)
    for name, value in found.facts.items():
        output.fact(name, one_line(str(value)))
    for action in found.actions:
        _show_action(action)


def _show_cost(tokens: int, cost: RuleCost | None) -> None:
    if tokens:
        output.fact("tokens", figures.count(tokens))
        output.fact("cost", cost_text(cost) or "–")
    for remark in cost_remarks(cost):
        output.fact("", remark)


def _show_action(action: RuleFiringAction) -> None:
    output.say()
    output.fact("action", action.name, "bold")
    output.fact("state", action.state, _STATES.get(action.state, ""))
    output.fact("key", action.idempotency_key)
    _show_cost(action.tokens, action.cost)
    if action.answer is not None:
        output.fact("answer", one_line(action.answer))
    if action.attempts:
        print_table(_ATTEMPT_COLUMNS, action.attempts)


_ATTEMPT_COLUMNS: tuple[Column[RuleAttempt], ...] = (
    Column("attempt", lambda each: _clock(each.at)),
    Column("seconds", lambda each: f"{each.seconds:.2f}", right=True),
    Column("outcome", lambda each: each.outcome),
    Column("detail", lambda each: one_line(each.detail) or None, least=20),
)


@app.command("test")
def try_out(
    rule: Rule,
    since: Annotated[str, typer.Option(metavar="WHEN", help="Try it on events since: 7d, 24h, 2026-11-01.")] = "7d",
    limit: Limit = 20,
    as_json: AsJson = False,
) -> None:
    """Show what a rule would have done, without doing it, and what it would have cost.

    Below stands what cannot be known of the past, and how tokens and cost were estimated.
    """
    from agenttrace.config.rule_tables import all_rules
    from agenttrace.rules.trial import try_rule
    from agenttrace.store.sqlite.store import SqliteStore
    from agenttrace.views.rules import trial_of

    settings = opening.settings()
    wanted = _rule(settings, rule)
    begin = times.parse_when(since, settings.usage.timezone)
    with opening.rule_store(settings) as store:
        if not isinstance(store, SqliteStore):
            raise CommandError(
                "rules are tried on what a machine or a team's file holds, not on a database",
                f"Run it dry on the server: agenttrace rules enable {rule} --dry",
            )
        trial = try_rule(store, settings, all_rules(settings), wanted, since=begin, until=time.time_ns() // 1000)
        found = trial_of(trial, store, settings)
    if as_json:
        output.print_json(msgspec.to_builtins(found))
        return
    fired = [each for each in found.examples if each.fires]
    if fired:
        print_table(_TRIED_COLUMNS, fired[: limit or None])
    output.say(
        f"{figures.counted(found.fired, 'event')} of {figures.count(found.events)} would have fired "
        f"{rule}, in {figures.counted(found.messages, 'message')}.",
        "bold",
    )
    if found.chains:
        money = cost_text(found.cost) or "unknown"
        output.say(f"Its applications would have used about {figures.tokens(found.tokens)} tokens, cost: {money}.")
        for unknown in cost_remarks(found.cost):
            output.note(f"  {unknown}")
    for each in found.reasons[: limit or None]:
        output.note(f"  {figures.count(each.events):>8}  did not: {each.reason}")
    if found.cut:
        output.note("Only the latest events were tried.")
    for remark in found.remarks:
        output.note(remark.text)


_TRIED_COLUMNS: tuple[Column[TriedEvent], ...] = (
    Column("when", lambda each: _clock(each.at), right=True),
    Column("agent", lambda each: each.agent, optional=1),
    Column("about", lambda each: one_line(each.title or "") or None, least=16),
    Column("facts", lambda each: one_line(_about(each.facts)) or None, least=8, optional=2),
)


@app.command("new")
def new(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The name of the new rule.")] = "my-rule",
    on: Annotated[str, typer.Option("--on", metavar="EVENT", help="The event, such as tool.failed.")] = "session.ended",
    do: Annotated[list[str] | None, typer.Option("--do", metavar="ACTION", help="An action; several in order.")] = None,
    as_json: AsJson = False,
) -> None:
    """Print a rule to be written into agenttrace.toml: its table, all settings explained.

    Nothing is written: the file is yours. Append it with >>, then try the rule before it is switched on.
    """
    from agenttrace.config import did_you_mean
    from agenttrace.config.rule_tables import all_rules
    from agenttrace.config.rules import EVENT_KINDS, BadRuleError, parse_rule

    settings = opening.settings()
    tables = all_rules(settings)
    if on not in EVENT_KINDS:
        raise UsageError(f"there is no event {on!r}", did_you_mean(on, EVENT_KINDS))
    actions = do or ["desktop"]
    for each in actions:
        if each not in tables.actions:
            raise UsageError(f"there is no action {each!r}", did_you_mean(each, tables.actions))
    if name in tables.rules and tables.rules[name].origin == "file":
        raise UsageError(f"there is a rule {name!r} in {settings.file} already", "Choose another name.")
    try:
        rule = parse_rule(name, {"on": on, "do": actions})
    except BadRuleError as error:
        raise UsageError(f"{error.key} {error.problem}", error.fix) from None
    lines = [f"[rules.{_toml_key(name)}]"]
    for line, meaning in _TEMPLATE:
        written = line.format(on=on, do=json.dumps(actions), settle=rule.settle, once=rule.once)
        lines.append(f"{written:<24} # {meaning}" if meaning else written)
    text = "\n".join(lines)
    if as_json:
        output.print_json({"name": name, "file": str(settings.file), "table": text})
        return
    # As it is: a table of TOML has no place for colours and wrapped lines.
    typer.echo(f"\n{text}")
    output.note(f"Write it into {settings.file}, then: agenttrace rules test {name}; agenttrace rules enable {name}")


def _toml_key(name: str) -> str:
    return json.dumps(name) if "." in name else name


#: The lines of a new rule, and what is said about each.
_TEMPLATE = (
    ('title = ""', "the headline of its messages"),
    ('on = "{on}"', ""),
    ("do = {do}", "in order; later ones see the answers of earlier ones"),
    ('mode = "off"', "on, dry or off; or: agenttrace rules enable NAME"),
    ('# where = {{ agent = ["claude-code"], project = "shop", min_cost = 0.5 }}', ""),
    ('# settle = "{settle:.0f}s"', "silence of the session before the event counts"),
    ('# cooldown = "10m"', "at most one message in this time; what is held back is in the next one"),
    ('# once = "{once}"', "session, turn, span, or crossing for every event"),
    ("# max_per_day = 200", "messages"),
    ("# tokens_per_day = 50_000", "of its chains, inside run.daily_tokens"),
    ("# sample = 1.0", "the share of sessions"),
    ('# start = "now"', 'now, all, or a day such as "2026-11-01"'),
    ("", ""),
    ("# [actions.my-action]", "an action of your own, to be named in do"),
    ('# type = "webhook"', "chain, webhook, notify or command"),
    ('# url = "${{HOOK_URL}}"', "an environment variable, or the address"),
    ('# format = "slack"', "slack, teams, dingtalk, feishu or json"),
    ('# language = "en"', "en or zh"),
)


@app.command("enable")
def enable(
    rule: Rule,
    dry: Annotated[bool, typer.Option("--dry", help="Only note what it would do.")] = False,
    as_json: AsJson = False,
) -> None:
    """Switch a rule on, whatever its settings say. A paused rule goes on with what waits."""
    settings = opening.settings()
    wanted = _rule(settings, rule)
    mode: RuleMode = "dry" if dry else "on"
    _switch(settings, wanted, mode)
    if as_json:
        output.print_json({"name": rule, "mode": mode})
        return
    output.say(f"{rule} is {'dry: it notes what it would do' if dry else 'on'}.")
    from agenttrace.rules.lock import owner

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
def disable(rule: Rule, as_json: AsJson = False) -> None:
    """Switch a rule off. What fired already goes on."""
    settings = opening.settings()
    _switch(settings, _rule(settings, rule), "off")
    if as_json:
        output.print_json({"name": rule, "mode": "off"})
        return
    output.say(f"{rule} is off.")


@app.command("retry")
def retry(
    firings: Annotated[list[int], typer.Argument(metavar="ID...", help="Numbers from agenttrace rules log.")],
    as_json: AsJson = False,
) -> None:
    """Run the failed actions of firings again, or fire what was skipped or dry."""
    from agenttrace.config.rule_tables import all_rules
    from agenttrace.rules.switches import retry as run_again

    settings = opening.settings()
    with opening.rule_store(settings) as store:
        retried = run_again(store, all_rules(settings), sorted(set(firings)), day=_today(settings))
    if as_json:
        output.print_json({"queued": retried})
    else:
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
    as_json: Annotated[bool, typer.Option("--json", help="Print the number of the process as a line of JSON.")] = False,
) -> None:
    """Run the rules until Ctrl-C. agenttrace up and agenttrace record do it by themselves."""
    from agenttrace.cli import rules_run

    settings = opening.settings()
    if as_json:
        output.print_json({"pid": os.getpid()}, one_line=True)
    elif not until_input_ends:
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
    from agenttrace.calendar import day_finder
    from agenttrace.config.rule_tables import all_rules
    from agenttrace.rules.switches import switch

    day_of = day_finder(settings.usage.timezone)
    with opening.rule_store(settings) as store:
        switch(store, all_rules(settings), rule, mode, home=settings.home, day_of=day_of)


def _today(settings: Settings) -> str:
    from agenttrace.calendar import day_finder

    return day_finder(settings.usage.timezone)(time.time_ns() // 1000)
