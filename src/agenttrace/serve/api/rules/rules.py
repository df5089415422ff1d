"""``/api/v1/rules``: rules and their actions; switch them, write them, and try them on the past."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path as FilePath
from typing import Annotated, Any

from fastapi import APIRouter, Path, Query, Request, Response
from pydantic import Field

from agenttrace.calendar import day_finder
from agenttrace.config import SettingsError, current_rules
from agenttrace.config.console_rules import Written
from agenttrace.config.rule_tables import RuleTables, console_file, merged, ready_tables
from agenttrace.config.rules import BadRuleError, RuleMode, RuleSettings, parse_rule
from agenttrace.prices.costing import Cashier
from agenttrace.rules.lock import owner
from agenttrace.rules.switches import switch
from agenttrace.rules.trial import try_rule
from agenttrace.run import availability
from agenttrace.serve.access.audit import audited
from agenttrace.serve.api.answers import Cached, answer, endpoint
from agenttrace.serve.api.lists import micros_of
from agenttrace.serve.api.rules.rule_files import Wish, environ_of, named_rule, tables_now, write
from agenttrace.serve.api.shapes.rules import RuleApp, RuleChange, RuleEngineState, RuleList
from agenttrace.serve.api.trace_reader import change_beside
from agenttrace.serve.bodies import StrictModel, documented_body, read_body
from agenttrace.serve.context import ServerContext
from agenttrace.serve.problems import ProblemError
from agenttrace.store.rule_store import RuleStore
from agenttrace.store.sqlite.store import SqliteStore
from agenttrace.views.rules import Rule, RuleTrial, action_of, event_kinds, rules_of, trial_of

#: An answer is cached for this long.
_SECONDS = 0.5
#: Of the endpoints that change something.
_ERRORS = (400, 401, 404, 409, 422, 503)
_NAME = r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$"
Name = Annotated[str, Path(pattern=_NAME, description="The name of a rule or an action.")]
GivenName = Annotated[str, Field(pattern=_NAME)]
Table = Annotated[dict[str, Any], Field(max_length=50, description="The settings, as a table of agenttrace.toml.")]
Since = Annotated[str, Field(max_length=100)]


class RuleSwitch(StrictModel):
    """How a rule is switched, whatever its settings say."""

    mode: RuleMode


class NewRule(StrictModel):
    """A rule for ``rules.toml``."""

    name: GivenName
    rule: Table


class ChangedRule(StrictModel):
    """The settings of a rule."""

    rule: Table


class NewAction(StrictModel):
    """An action for ``rules.toml``."""

    name: GivenName
    action: Table


class ChangedAction(StrictModel):
    """The settings of an action; ``url``, ``secret`` and ``headers`` stay where they are not given."""

    action: Table


class DraftTrial(StrictModel):
    """A rule that is not written yet, and the period to try it on."""

    rule: Table
    since: Since = "7d"


_EXAMPLE = {"on": "tool.failed", "where": {"agent": ["codex"]}, "cooldown": "10m", "do": ["desktop"], "mode": "off"}
_ACTION = {"type": "webhook", "url": "${SLACK_URL}", "format": "slack"}


def rules_router(context: ServerContext) -> APIRouter:
    """The endpoints."""
    router = APIRouter(prefix="/api/v1", tags=["rules"])
    day_of = day_finder(context.settings.usage.timezone)

    async def make() -> RuleList:
        return await _listed(context, day_of(time.time_ns() // 1000))

    rules = Cached(make, _SECONDS)

    async def changed(request: Request, name: str) -> Response:
        await rules.invalidate()
        found = next((each for each in (await rules.get()).items if each.name == name), None)
        return answer(request, RuleChange(name) if found is None else found)

    async def switched(tables: RuleTables, rule: RuleSettings, mode: RuleMode | None) -> None:
        def change(store: RuleStore) -> None:
            switch(store, tables, rule, mode, home=context.settings.home, day_of=day_of)

        await change_beside(context.reader.source, change)

    async def written(request: Request, kind: Written, name: str, table: dict[str, Any], wish: Wish) -> RuleTables:
        async with audited(request, f"{kind.removesuffix('s')}.{wish}", name):
            tables = await asyncio.to_thread(write, context, kind, name, table, wish)
            await rules.invalidate()
            return tables

    @router.get("/rules", **endpoint("All rules, and how often they fired", RuleList, 401))
    async def show_rules(request: Request) -> Response:
        return answer(request, await rules.get())

    @router.post(
        "/rules",
        **endpoint("Write a new rule", Rule, *_ERRORS, for_admins=True),
        openapi_extra=documented_body(NewRule, {"name": "failed-tools", "rule": _EXAMPLE}),
    )
    async def add_rule(request: Request) -> Response:
        body = await read_body(request, NewRule)
        tables = await written(request, "rules", body.name, body.rule, "new")
        rule = tables.rules[body.name]
        # A rule of this name may have been switched before it was removed.
        await switched(tables, rule, rule.mode)
        return await changed(request, body.name)

    @router.post(
        "/rules/trial",
        **endpoint("What a rule that is not written yet would have done", RuleTrial, 400, 401, 422, for_admins=True),
        openapi_extra=documented_body(DraftTrial, {"rule": _EXAMPLE, "since": "7d"}),
    )
    async def try_draft(request: Request) -> Response:
        body = await read_body(request, DraftTrial)
        try:
            rule = parse_rule("draft", {"do": ["draft"], **body.rule}, "console")
        except BadRuleError as error:
            raise ProblemError(422, str(error)) from None
        return answer(request, await _tried(context, rule, body.since))

    @router.patch(
        "/rules/{name}",
        **endpoint("Switch a rule on, dry or off; a paused one goes on", Rule, *_ERRORS, for_admins=True),
        openapi_extra=documented_body(RuleSwitch, {"mode": "on"}, {"mode": "dry"}, {"mode": "off"}),
    )
    async def switch_rule(request: Request, name: Name) -> Response:
        mode = (await read_body(request, RuleSwitch)).mode
        async with audited(request, "rule.switch", f"{name}: {mode}"):
            tables = await asyncio.to_thread(tables_now, context)
            await switched(tables, named_rule(tables, name), mode)
            return await changed(request, name)

    @router.put(
        "/rules/{name}",
        **endpoint(
            "Change a rule of the console, or write one in place of a rule that ships", Rule, *_ERRORS, for_admins=True
        ),
        openapi_extra=documented_body(ChangedRule, {"rule": _EXAMPLE}),
    )
    async def change_rule(request: Request, name: Name) -> Response:
        body = await read_body(request, ChangedRule)
        tables = await written(request, "rules", name, body.rule, "changed")
        if "mode" in body.rule:
            await switched(tables, tables.rules[name], tables.rules[name].mode)
        return await changed(request, name)

    @router.delete("/rules/{name}", **endpoint("Remove a rule of the console", RuleChange, *_ERRORS, for_admins=True))
    async def remove_rule(request: Request, name: Name) -> Response:
        before = (await asyncio.to_thread(tables_now, context)).rules.get(name)
        tables = await written(request, "rules", name, {}, "removed")
        if before is not None:
            await switched(tables, before, None)
        return answer(request, RuleChange(name))

    @router.get("/rules/{name}/trial", **endpoint("What a rule would have done", RuleTrial, 400, 401, 404, 409, 422))
    async def try_saved(
        request: Request,
        name: Name,
        since: Annotated[str, Query(max_length=100, description="`7d`, `24h`, `2026-11-01` or an ISO time.")] = "7d",
    ) -> Response:
        rule = named_rule(await asyncio.to_thread(tables_now, context), name)
        return answer(request, await _tried(context, rule, since))

    @router.post(
        "/rules/actions",
        **endpoint("Write a new action; commands only in agenttrace.toml", RuleChange, *_ERRORS, for_admins=True),
        openapi_extra=documented_body(NewAction, {"name": "chat", "action": _ACTION}),
    )
    async def add_action(request: Request) -> Response:
        body = await read_body(request, NewAction)
        await written(request, "actions", body.name, body.action, "new")
        return answer(request, RuleChange(body.name))

    @router.put(
        "/rules/actions/{name}",
        **endpoint("Change an action of the console", RuleChange, *_ERRORS, for_admins=True),
        openapi_extra=documented_body(ChangedAction, {"action": _ACTION}),
    )
    async def change_action(request: Request, name: Name) -> Response:
        body = await read_body(request, ChangedAction)
        await written(request, "actions", name, body.action, "changed")
        return answer(request, RuleChange(name))

    @router.delete(
        "/rules/actions/{name}", **endpoint("Remove an action of the console", RuleChange, *_ERRORS, for_admins=True)
    )
    async def remove_action(request: Request, name: Name) -> Response:
        await written(request, "actions", name, {}, "removed")
        return answer(request, RuleChange(name))

    return router


async def _listed(context: ServerContext, day: str) -> RuleList:
    tables, problem = await asyncio.to_thread(_readable, context)
    home = context.settings.home

    def read(store: RuleStore) -> list[Rule]:
        return rules_of(store, tables, day=day, cashier=Cashier.load(context.settings))

    items = await context.reader.query_rules(read, empty=lambda: rules_of(None, tables, day=day))
    pid = owner(home)
    apps, apps_problem = await asyncio.to_thread(_apps, context)
    return RuleList(
        engine=RuleEngineState(pid is not None, pid),
        problem=problem,
        file=str(context.settings.file or FilePath(home) / "agenttrace.toml"),
        console_file=str(console_file(home)),
        items=items,
        actions=[action_of(each) for each in tables.actions.values()],
        apps=apps,
        apps_problem=apps_problem,
        events=event_kinds(),
    )


def _readable(context: ServerContext) -> tuple[RuleTables, str | None]:
    """The rules, and why those of the files cannot be read."""
    try:
        return merged(current_rules(context.settings, environ_of(context)), ready_tables()), None
    except SettingsError as error:
        return ready_tables(), str(error)


def _apps(context: ServerContext) -> tuple[list[RuleApp], str | None]:
    """The applications that chains can call; no database is asked."""
    if not availability.is_installed():
        return [], str(availability.NotInstalledError())
    from agenttrace.run.catalog.catalog import CatalogError, load_catalog

    try:
        apps = load_catalog(context.settings, environ_of(context)).apps.values()
    except CatalogError as error:
        return [], str(error)
    return [RuleApp(each.key, each.title, dict(each.titles), list(each.missing)) for each in apps], None


async def _tried(context: ServerContext, rule: RuleSettings, since: str) -> RuleTrial:
    begin, end = micros_of(since, context.settings) or 0, time.time_ns() // 1000
    tables, _ = await asyncio.to_thread(_readable, context)

    def read(store: SqliteStore) -> RuleTrial:
        trial = try_rule(store, context.settings, tables, rule, since=begin, until=end)
        return trial_of(trial, store, context.settings)

    def nothing() -> RuleTrial:
        raise ProblemError(422, "Nothing was recorded yet.")

    return await context.reader.query_machine(read, empty=nothing)
