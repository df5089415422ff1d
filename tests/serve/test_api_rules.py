"""``/api/v1/rules``: what is shown of rules and firings, what can be switched and written, and what never is shown."""

# ruff: noqa: ANN401 - answers are JSON

from __future__ import annotations

import asyncio
import os
import stat
import time
import tomllib
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client import generate_latest

from agenttrace.calendar import day_finder
from agenttrace.config import SettingsError, current_rules, load_settings
from agenttrace.config.console_rules import toml_of
from agenttrace.config.rule_tables import RuleTables, console_file, merged, parse_tables, ready_tables
from agenttrace.config.rules import EVENT_KINDS
from agenttrace.prices.costing import Cashier
from agenttrace.rules.actions.contract import ActionResult, Message
from agenttrace.rules.actions.notify import Notify
from agenttrace.rules.engine import RuleEngine
from agenttrace.rules.runner import ActionRunner
from agenttrace.rules.service import run_once
from agenttrace.store import open_store

from .trace_rig import Logs, following
from .views_rig import Client, ask, found_logs

SECRETS = ("T000-B000-hidden-path", "hidden-signing-key", "hidden-header-value")
FILE = f"""# A comment that stays.
[rules.mine]
on = "tool.failed"
start = "all"
do = ["hook", "desktop"]

[actions.hook]
type = "webhook"
url = "https://me:pass@hooks.example.com/{SECRETS[0]}?key=1"
secret = "{SECRETS[1]}"
headers = {{ "X-Key" = "{SECRETS[2]}" }}

[actions.program]
type = "command"
argv = ["/bin/true"]
"""
RULE = {"on": "tool.failed", "do": ["desktop"], "mode": "off"}


class Answering:
    """An action that answers as a test wants."""

    def __init__(self, result: ActionResult) -> None:
        self.result = result

    async def run(self, message: Message) -> ActionResult:
        return self.result


def failing_turns(logs: Logs, session: str, count: int = 3) -> None:
    """Turns with a tool that failed, some minutes ago."""
    then = time.time() - 600
    for turn in range(1, count + 1):
        at = then + turn
        logs.append(session, "turn.begin", turn=turn, prompt=f"question {turn}", ts=at, id=f"t{turn}")
        logs.append(session, "step.begin", turn=turn, step=1, id=f"s{turn}", model="qwen-max", ts=at)
        logs.append(session, "tool.begin", turn=turn, step=1, id=f"c{turn}", name="Bash", ts=at)
        logs.append(session, "tool.end", turn=turn, id=f"c{turn}", status="error", ts=at)
        logs.append(session, "step.end", turn=turn, step=1, id=f"s{turn}", ts=at)
        logs.append(session, "turn.end", turn=turn, id=f"t{turn}", ts=at + 0.5)


def with_file(root: Path, text: str = FILE) -> Logs:
    """Logs, and settings from a real file."""
    logs = found_logs(root)
    file = logs.settings.home / "agenttrace.toml"
    file.write_text(text, encoding="utf-8")
    own = load_settings({"AGENTTRACE_HOME": str(logs.settings.home), "HOME": str(root)})
    kept = {kind: getattr(own, kind) for kind in ("rules", "actions", "budgets")}
    logs.settings = msgspec.structs.replace(logs.settings, file=file, **kept)
    return logs


def tables_of(logs: Logs) -> RuleTables:
    return merged(current_rules(logs.settings, {}), ready_tables())


DELIVERED = ActionResult("done", "HTTP 200")


def run_rules(logs: Logs, result: ActionResult = DELIVERED) -> None:
    """Decide and run everything that can be now; notifications are real ones, without a desktop."""
    with open_store(logs.settings, read_only=False) as store:
        cashier, home = Cashier.load(logs.settings), logs.settings.home
        engine = RuleEngine(store, tables_of(logs), home=home, cashier=cashier, day_of=day_finder("UTC"))
        actions = {"webhook": Answering(result), "notify": Notify(lambda value: value)}
        runner = ActionRunner(store, engine, home=home, cashier=cashier, actions=actions)  # type: ignore[arg-type]
        asyncio.run(run_once(engine, runner))


def register(logs: Logs) -> None:
    run_rules(logs)


@pytest.fixture(autouse=True)
def without_desktop(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("DISPLAY", "WAYLAND_DISPLAY", "DBUS_SESSION_BUS_ADDRESS"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def logs(tmp_path: Path) -> Logs:
    """A rule of the file that fired for three tools."""
    found = with_file(tmp_path)
    register(found)
    failing_turns(found, "one")
    found.record(index=False)
    run_rules(found)
    return found


async def rule(client: Client, name: str) -> dict[str, Any]:
    return next(each for each in (await client.json("/rules"))["items"] if each["name"] == name)


# -- what is shown --------------------------------------------------------------------------------------------------


def test_rules_are_listed_with_those_that_ship(logs: Logs) -> None:
    """Each with its mode, how often it fired, and where it is written."""

    async def body(client: Client) -> None:
        found = await client.json("/rules")
        assert {each["name"]: (each["mode"], each["origin"]) for each in found["items"]} == {
            "mine": ("on", "file"),
            **dict.fromkeys(("waiting", "done", "budget", "summary", "secret"), ("off", "ready")),
        }
        mine = await rule(client, "mine")
        assert (mine["fired_today"], mine["states"]) == (3, {"done": 3})
        assert [each["name"] for each in mine["do"]] == ["hook", "desktop"]
        assert found["engine"] == {"running": False, "pid": None}
        assert found["problem"] is None
        assert found["file"].endswith("agenttrace.toml")
        assert {each["kind"] for each in found["events"]} >= {"session.ended", "tool.failed"}
        apps = {each["name"]: each for each in found["apps"]}
        assert {"session-summary", "session-review", "session-score"} <= set(apps)
        assert apps["session-summary"]["missing"], "no key is set here"
        assert found["apps_problem"] is None

    ask(logs.settings, body)


def test_firings_are_paged_filtered_and_lead_to_their_session(logs: Logs) -> None:
    """The latest first; a page goes on where the one before ended; actions and attempts of each."""

    async def body(client: Client) -> None:
        rows = await client.pages("/rules/firings", limit=1)
        assert [each["id"] for each in rows] == sorted((each["id"] for each in rows), reverse=True)
        assert len(rows) == 3
        assert {each["session_id"] for each in rows} == {"one"}
        assert all(len(each["span_id"]) == 16 for each in rows)
        key = rows[0]["session"]
        for query, count in (
            ({"rule": "mine"}, 3),
            ({"rule": "other"}, 0),
            ({"state": "done"}, 3),
            ({"state": "failed"}, 0),
            ({"session": key}, 3),
            ({"session": "one"}, 3),
        ):
            assert len((await client.json("/rules/firings", **query))["items"]) == count, query
        detail = await client.json(f"/rules/firings/{rows[0]['id']}")
        assert [(each["name"], each["state"]) for each in detail["actions"]] == [("hook", "done"), ("desktop", "done")]
        assert [each["outcome"] for each in detail["actions"][0]["attempts"]] == ["done"]

    ask(logs.settings, body)


@pytest.mark.parametrize(
    ("path", "query", "status"),
    [
        ("/rules/firings", {"state": "odd"}, 422),
        ("/rules/firings", {"session": "nowhere"}, 404),
        ("/rules/firings", {"cursor": "odd"}, 400),
        ("/rules/firings/999", {}, 404),
        ("/rules/nothing/trial", {}, 404),
        ("/rules/mine/trial", {"since": "odd"}, 400),
    ],
)
def test_questions_without_an_answer_are_refused(logs: Logs, path: str, query: dict[str, str], status: int) -> None:
    async def body(client: Client) -> None:
        assert (await client.get(path, None, **query)).status == status

    ask(logs.settings, body)


def test_what_a_rule_would_have_done(logs: Logs) -> None:
    """A saved rule and a draft of the same answer alike; nothing is fired."""

    async def body(client: Client) -> None:
        saved = await client.json("/rules/mine/trial", since="7d")
        assert (saved["events"], saved["fired"], saved["messages"]) == (3, 3, 3)
        draft = {"on": "tool.failed", "where": {"tool": ["Read"]}, "cooldown": "1h"}
        none = (await client.post("/rules/trial", {"rule": draft})).json()
        why = {"code": "is", "facts": {"name": "tool", "value": "Bash"}}
        assert (none["fired"], none["reasons"]) == (0, [{"reason": "tool is Bash", "why": why, "events": 3}])
        cooled = (await client.post("/rules/trial", {"rule": draft | {"where": {}}})).json()
        assert (cooled["fired"], cooled["messages"]) == (3, 2)
        for kind in EVENT_KINDS:
            known = (await client.post("/rules/trial", {"rule": {"on": kind}})).json()
            assert known["fired"] + known["not_fired"] == known["events"]
            assert all(each["text"] for each in known["remarks"])
        for wrong in ({}, {"on": "odd"}, {"on": "tool.failed", "settle": "soon"}, {"on": "tool.failed", "argv": []}):
            assert (await client.post("/rules/trial", {"rule": wrong})).status == 422
        assert len(await client.pages("/rules/firings", limit=10)) == 3

    ask(logs.settings, body)


def test_secrets_are_in_no_answer(logs: Logs) -> None:
    """Addresses of webhooks are keys: only the host is shown, or the variable that it is written as."""

    async def body(client: Client) -> None:
        sent = {
            "type": "webhook",
            "url": f"https://127.0.0.1/{SECRETS[0]}",
            "secret": SECRETS[1],
            "headers": {"A": SECRETS[2]},
        }
        assert (await client.post("/rules/actions", {"name": "chat", "action": sent})).status == 200
        named = {"type": "webhook", "url": "${HOOK_URL}", "format": "slack"}
        assert (await client.post("/rules/actions", {"name": "named", "action": named})).status == 200
        texts = [(await client.get("/rules")).body]
        texts += [(await client.get(f"/rules/firings/{number}")).body for number in (1, 2, 3)]
        assert not [secret for secret in (*SECRETS, "pass@") for text in texts if secret.encode() in text]
        actions = {each["name"]: each for each in (await client.json("/rules"))["actions"]}
        assert actions["hook"]["address"] == "https://hooks.example.com/…"
        assert (actions["chat"]["address"], actions["chat"]["signed"], actions["chat"]["headers"]) == (
            "https://127.0.0.1/…",
            True,
            ["A"],
        )
        assert (actions["named"]["address"], actions["named"]["missing"]) == ("${HOOK_URL}", ["HOOK_URL"])
        # A change that does not name them leaves them as they are; null removes.
        assert (
            await client.send("PUT", "/rules/actions/chat", {"action": {"type": "webhook", "format": "teams"}})
        ).status == 200

    ask(logs.settings, body)
    written = tomllib.loads(console_file(logs.settings.home).read_text())["actions"]["chat"]
    assert (written["url"], written["secret"], written["format"]) == (
        f"https://127.0.0.1/{SECRETS[0]}",
        SECRETS[1],
        "teams",
    )


# -- what can be changed --------------------------------------------------------------------------------------------


def test_a_rule_is_written_switched_changed_and_removed(logs: Logs) -> None:
    """In a file of its own that only its owner reads; the user's file stays byte for byte."""
    path, before = console_file(logs.settings.home), Path(str(logs.settings.file)).read_bytes()

    async def body(client: Client) -> None:
        made = await client.post("/rules", {"name": "tools", "rule": RULE})
        assert made.status == 200, made.body
        assert (made.json()["mode"], made.json()["origin"]) == ("off", "console")
        assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
        assert (await client.send("PATCH", "/rules/tools", {"mode": "dry"})).json()["mode"] == "dry"
        changed = await client.send("PUT", "/rules/tools", {"rule": RULE | {"cooldown": "10m", "mode": "on"}})
        assert (changed.json()["mode"], changed.json()["cooldown_seconds"]) == ("on", 600)
        assert "tools" in tables_of(logs).rules
        assert (await client.send("DELETE", "/rules/tools")).status == 200
        assert "tools" not in tables_of(logs).rules
        # A new rule of the same name is not on because the old one was.
        assert (await client.post("/rules", {"name": "tools", "rule": RULE})).json()["mode"] == "off"
        # What is null is not set.
        unset = RULE | {"tokens_per_day": None, "where": {"min_cost": None, "agent": ["codex"]}}
        assert (await client.send("PUT", "/rules/tools", {"rule": unset})).json()["where"] == {"agent": ["codex"]}
        # One that ships can be changed, and comes back.
        done = {"on": "session.ended", "settle": "1m", "do": ["desktop"]}
        assert (await client.send("PUT", "/rules/done", {"rule": done})).json()["origin"] == "console"
        assert (await client.send("DELETE", "/rules/done")).status == 200
        assert (await rule(client, "done"))["origin"] == "ready"

    ask(logs.settings, body)
    assert Path(str(logs.settings.file)).read_bytes() == before


@pytest.mark.parametrize(
    ("method", "path", "sent", "status", "says"),
    [
        ("PUT", "/rules/mine", {"rule": RULE}, 409, "agenttrace.toml as [rules.mine]"),
        ("DELETE", "/rules/mine", None, 409, "agenttrace.toml as [rules.mine]"),
        ("DELETE", "/rules/waiting", None, 409, "ships"),
        ("DELETE", "/rules/nothing", None, 404, "no rule"),
        ("PUT", "/rules/nothing", {"rule": RULE}, 404, "no rule"),
        ("PATCH", "/rules/nothing", {"mode": "on"}, 404, "no rule"),
        ("PATCH", "/rules/mine", {"mode": "odd"}, 422, "mode"),
        ("POST", "/rules", {"name": "mine", "rule": RULE}, 409, "agenttrace.toml"),
        ("POST", "/rules", {"name": "waiting", "rule": RULE}, 409, "already"),
        ("POST", "/rules", {"name": "../up", "rule": RULE}, 422, "name"),
        ("POST", "/rules", {"name": "a", "rule": {"on": "odd", "do": ["desktop"]}}, 422, "session.ended"),
        ("POST", "/rules", {"name": "a", "rule": RULE | {"do": ["nothing"]}}, 422, "no action"),
        ("POST", "/rules", {"name": "a", "rule": RULE | {"origin": "file"}}, 422, "not a setting"),
        (
            "POST",
            "/rules/actions",
            {"name": "a", "action": {"type": "command", "argv": ["/bin/true"]}},
            422,
            "agenttrace.toml",
        ),
        ("POST", "/rules/actions", {"name": "program", "action": {"type": "notify"}}, 409, "[actions.program]"),
        ("PUT", "/rules/actions/hook", {"action": {"type": "notify"}}, 409, "[actions.hook]"),
        ("POST", "/rules/actions", {"name": "a", "action": {"type": "webhook", "url": "file:///etc"}}, 422, "address"),
        (
            "POST",
            "/rules/actions",
            {"name": "a", "action": {"type": "webhook", "url": "https://h/${A_KEY}"}},
            422,
            "variable",
        ),
        (
            "POST",
            "/rules/actions",
            {"name": "a", "action": {"type": "webhook", "url": "https://h/", "headers": {"a": "${A_KEY}"}}},
            422,
            "variable",
        ),
        ("POST", "/rules/firings/1/retry", None, 409, "Only firings"),
        ("POST", "/rules/firings/999/retry", None, 404, "no firing"),
    ],
)
def test_what_cannot_be_meant_is_refused_and_changes_nothing(
    logs: Logs, method: str, path: str, sent: Any, status: int, says: str
) -> None:
    async def body(client: Client) -> None:
        found = await client.send(method, path, sent)
        assert found.status == status, found.body
        assert says in found.json()["detail"]

    ask(logs.settings, body)
    assert not console_file(logs.settings.home).exists()


def test_an_action_that_a_rule_uses_is_not_removed(logs: Logs) -> None:
    async def body(client: Client) -> None:
        await client.post("/rules/actions", {"name": "chat", "action": {"type": "notify"}})
        await client.post("/rules", {"name": "tools", "rule": RULE | {"do": ["chat"]}})
        refused = await client.send("DELETE", "/rules/actions/chat")
        assert (refused.status, "rules.tools.do" in refused.json()["detail"]) == (422, True)
        assert (await client.send("DELETE", "/rules/tools")).status == 200
        assert (await client.send("DELETE", "/rules/actions/chat")).status == 200

    ask(logs.settings, body)


def test_changes_need_the_token_of_the_page_and_are_in_the_audit_log(logs: Logs) -> None:
    async def body(client: Client) -> list[tuple[str, str, str]]:
        for method, path, sent in (
            ("PATCH", "/rules/mine", {"mode": "off"}),
            ("POST", "/rules", {"name": "a", "rule": RULE}),
            ("DELETE", "/rules/mine", None),
            ("POST", "/rules/firings/1/retry", None),
        ):
            assert (await client.send(method, path, sent, headers={})).status == 403
        await client.send("PATCH", "/rules/mine", {"mode": "off"})
        await client.post("/rules", {"name": "a", "rule": RULE})
        await client.send("DELETE", "/rules/a")
        await client.post("/rules/firings/1/retry", None)
        rows = client.context.access.audit.page(4)
        return [(row.action, row.target, row.outcome) for row in reversed(rows)]

    told = ask(logs.settings, body)
    assert told[:3] == [("rule.switch", "mine: off", "done"), ("rule.new", "a", "done"), ("rule.removed", "a", "done")]
    assert told[3][:2] == ("rule.retry", "firing 1")
    assert "Only firings" in told[3][2]


def test_a_failed_firing_is_run_again_with_the_same_key(tmp_path: Path) -> None:
    logs = with_file(tmp_path)
    register(logs)
    failing_turns(logs, "one", 1)
    logs.record(index=False)
    run_rules(logs, ActionResult("failed", "HTTP 400"))

    async def keys(client: Client) -> list[tuple[str, str]]:
        found = await client.json("/rules/firings/1")
        return [(each["idempotency_key"], each["state"]) for each in found["actions"]]

    async def body(client: Client) -> list[tuple[str, str]]:
        before = await keys(client)
        assert [state for _, state in before] == ["failed", "done"]
        assert (await client.post("/rules/firings/1/retry", None)).json() == {"id": 1, "queued": True}
        return before

    before = ask(logs.settings, body)
    run_rules(logs)
    after = ask(logs.settings, keys)
    assert after == [(key, "done") for key, _ in before]


def test_before_anything_was_recorded_rules_can_be_switched(tmp_path: Path) -> None:
    logs = with_file(tmp_path)

    async def body(client: Client) -> None:
        assert (await rule(client, "waiting"))["mode"] == "off"
        assert (await client.json("/rules/firings"))["items"] == []
        assert (await client.send("PATCH", "/rules/waiting", {"mode": "on"})).json()["mode"] == "on"

    ask(logs.settings, body)


def test_files_that_cannot_be_read_are_named(logs: Logs) -> None:
    """The rules that ship are shown all the same; nothing is written over a file that the user has to correct."""
    path = console_file(logs.settings.home)
    path.write_text("[rules.broken\n")

    async def body(client: Client) -> None:
        found = await client.json("/rules")
        assert "rules.toml" in found["problem"]
        assert (await client.post("/rules", {"name": "a", "rule": RULE})).status == 409

    ask(logs.settings, body)
    assert path.read_text() == "[rules.broken\n"


def test_what_changes_in_the_file_is_shown_without_a_restart(logs: Logs) -> None:
    async def body(client: Client) -> None:
        Path(str(logs.settings.file)).write_text(FILE.replace("rules.mine", "rules.other"))
        await asyncio.sleep(0.6)
        assert (await rule(client, "other"))["origin"] == "file"

    ask(logs.settings, body)


# -- the file -------------------------------------------------------------------------------------------------------

TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\x00"), min_size=1, max_size=20)
NAMES = st.from_regex(r"\A[A-Za-z0-9][A-Za-z0-9_.-]{0,20}\Z")
RULES = st.fixed_dictionaries(
    {"on": st.just("session.ended"), "do": st.just(["desktop"])},
    optional={
        "title": TEXT,
        "settle": st.sampled_from(["2m", "1h 30m", 5]),
        "sample": st.floats(0.01, 1),
        "max_per_day": st.integers(1, 1000),
        "where": st.fixed_dictionaries(
            {},
            optional={"agent": st.lists(TEXT, max_size=3), "errors": st.booleans(), "min_cost": st.floats(0.01, 1e6)},
        ),
    },
)
ACTIONS = st.fixed_dictionaries(
    {"type": st.just("webhook"), "url": st.just("https://example.com/x")},
    optional={"secret": TEXT, "headers": st.dictionaries(TEXT, TEXT, max_size=3), "allow_private": st.booleans()},
)


@settings(max_examples=60)
@given(rules=st.dictionaries(NAMES, RULES, max_size=3), actions=st.dictionaries(NAMES, ACTIONS, max_size=3))
def test_what_is_written_is_what_is_read(rules: dict[str, Any], actions: dict[str, Any]) -> None:
    """Whatever the texts are."""
    text = toml_of({"rules": rules, "actions": actions})
    found = tomllib.loads(text)
    assert (found.get("rules", {}), found.get("actions", {})) == (rules, actions)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=10),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
KNOWN = ("on", "do", "where", "settle", "sample", "once", "cooldown", "max_per_day", "start", "mode", "title")
OF_ACTIONS = ("type", "url", "format", "secret", "headers", "apps", "input", "keep", "argv", "timeout_seconds")
TYPES = st.sampled_from(["webhook", "chain", "notify", "command"])


@settings(max_examples=300)
@given(
    rule=st.dictionaries(st.sampled_from(KNOWN), JSON | st.sampled_from(["tool.failed", "desktop"]), max_size=6),
    action=st.dictionaries(st.sampled_from(OF_ACTIONS), JSON | TYPES, max_size=6),
)
def test_any_table_is_a_rule_or_is_refused_with_a_reason(rule: dict[str, Any], action: dict[str, Any]) -> None:
    """What is taken can be written and read again; what is not is named."""
    for kind, table in (("rules", rule), ("actions", action)):
        wrong: SettingsError | None = None
        try:
            parse_tables({kind: {"a": table}}, Path("rules.toml"), {}, "console")
        except SettingsError as error:
            wrong = error
        if wrong is None:
            tables: Any = {"rules": {}, "actions": {}} | {kind: {"a": table}}
            assert tomllib.loads(toml_of(tables))[kind]["a"] == table
        else:
            assert wrong.key.startswith(f"{kind}.a")
            assert wrong.fix


def test_rules_of_the_console_and_of_the_file_are_one_set(tmp_path: Path) -> None:
    """A rule of the file wins over one of the console, which wins over one that ships."""
    logs = with_file(tmp_path)
    console_file(logs.settings.home).write_text(
        toml_of(
            {
                "rules": {
                    "mine": {"on": "session.ended", "do": ["desktop"]},
                    "done": {"on": "tool.failed", "do": ["desktop"]},
                },
                "actions": {},
            }
        )
    )
    found = tables_of(logs).rules
    assert (found["mine"].on, found["done"].on, found["waiting"].origin) == ("tool.failed", "tool.failed", "ready")


# -- notifications --------------------------------------------------------------------------------------------------


def test_notifications_come_with_the_live_stream_each_once(tmp_path: Path) -> None:
    """Of notify actions only, with the session they are about; after a break those that were missed."""
    logs = with_file(tmp_path)
    register(logs)
    logs.record(index=False)

    async def body(client: Client) -> None:
        async with client.live() as stream:
            hello = await following(stream)
            assert (hello.kind, hello.data["notice"]) == ("hello", 0)
            failing_turns(logs, "one", 2)
            await asyncio.to_thread(logs.record, index=False)
            await asyncio.to_thread(run_rules, logs)
            notices: list[Any] = []
            while len(notices) < 2:
                message = await following(stream)
                notices += message.data["items"] if message.kind == "notices" else []
            assert [each["rule"] for each in notices] == ["mine", "mine"]
            assert {each["title"] for each in notices} == {"A tool has failed"}
            assert len({each["id"] for each in notices}) == 2
            assert all(len(each["session"]) == 16 for each in notices)
        async with client.live(notices="0") as stream:
            await following(stream)
            while (message := await following(stream)).kind != "notices":
                pass
            assert [each["id"] for each in message.data["items"]] == [each["id"] for each in notices]
            last = message.data["notice"]
        async with client.live(notices=str(last)) as stream:
            assert (await following(stream)).data["notice"] == last

    ask(logs.settings, body)


def test_metrics_count_firings_by_rule_and_state(logs: Logs) -> None:
    async def body(client: Client) -> str:
        metrics = client.context.metrics
        await metrics.rules.refresh(client.context.reader)
        return generate_latest(metrics.registry).decode()

    text = ask(logs.settings, body)
    assert 'agenttrace_rule_firings{rule="mine",state="done"} 3.0' in text
    assert 'agenttrace_rule_paused{rule="mine"} 0.0' in text
