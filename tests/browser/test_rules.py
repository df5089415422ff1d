"""The page of rules: switches, the log, the form that tries a rule before it is on, and notifications."""

from __future__ import annotations

import re
import time
import tomllib
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from cli.conftest import Program, eventually

from .conftest import (
    FAILING,
    Databases,
    Visit,
    key_of,
    new_user,
    overflow,
    running,
    settled,
    visiting,
    write_extra_logs,
)
from .test_actions import confirm
from .test_keyboard import here
from .test_looks import problems

RULES = """
[rules.tools]
title = "A tool has failed"
on = "tool.failed"
start = "all"
do = ["desktop"]

[rules.unreachable]
on = "tool.failed"
start = "all"
do = ["nowhere"]

[rules.others]
on = "tool.failed"
start = "all"
settle = "1s"
where = { agent = "another" }
do = ["desktop"]

[actions.nowhere]
type = "webhook"
url = "http://127.0.0.1:9/hidden-path"
"""
#: What becomes of a firing in the end.
FINAL = {"done", "failed", "skipped"}
#: Notifications that are counted instead of shown.
SHOWN = """
window.shown = [];
window.Notification = class {
  static permission = "default";
  static requestPermission() { this.permission = "granted"; return Promise.resolve("granted"); }
  constructor(title) { window.shown.push(title); }
  addEventListener() {}
  close() {}
};
"""


@pytest.fixture(scope="module")
def ruled(tmp_path_factory: pytest.TempPathFactory, databases: Databases, browser: Browser) -> Iterator[running]:
    """Two rules that a failed tool has fired: one was shown, the other refused to send; and one that did not fire."""
    program = new_user(tmp_path_factory, databases)
    (program.home / "agenttrace.toml").write_text(RULES)
    write_extra_logs(program)
    for name in ("DISPLAY", "WAYLAND_DISPLAY", "DBUS_SESSION_BUS_ADDRESS"):
        program.environment.pop(name, None)
    with running(program) as found:
        eventually(lambda: {each["state"] for each in log(program)} == FINAL, "the rules to fire")
        yield found


def log(program: Program) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = program.json("rules", "log")
    return found


@pytest.fixture
def look(browser: Browser, ruled: running) -> Iterator[Visit]:
    """A visitor; on this machine that is an admin."""
    yield from visiting(browser, ruled)


def card(page: Page, name: str) -> Locator:
    return page.get_by_role("article", name=name, exact=True)


def mode(page: Page, name: str, word: str) -> Locator:
    return card(page, name).get_by_role("radio", name=word, exact=True)


def fail_a_tool(program: Program, session: str) -> None:
    """A session in which a tool fails."""
    now = time.time()
    program.log(
        session,
        {"type": "session.begin", "id": "s", "ts": now, "agent": "helpdesk", "title": f"Work of {session}"},
        {"type": "turn.begin", "id": "t", "ts": now, "turn": 1, "prompt": "Go"},
        {"type": "step.begin", "id": "a", "ts": now, "turn": 1, "step": 1, "model": "qwen-max"},
        {"type": "tool.begin", "id": "c", "ts": now, "turn": 1, "step": 1, "name": "deploy"},
        {"type": "tool.end", "id": "c", "ts": now, "turn": 1, "status": "error", "error": "no"},
        {"type": "step.end", "id": "a", "ts": now, "turn": 1, "step": 1},
        {"type": "turn.end", "id": "t", "ts": now, "turn": 1},
    )


def test_rules_are_switched_and_keep_their_secrets(look: Visit, ruled: running) -> None:
    """Ready-made ones with one click; the change is that of the command line; the address of a webhook is not shown."""
    page = look.open("/rules")
    expect(mode(page, "tools", "On")).to_be_checked()
    expect(card(page, "unreachable")).to_contain_text("http://127.0.0.1:9/…")
    expect(page.get_by_text("hidden-path")).to_have_count(0)
    mode(page, "waiting", "Dry").click()
    expect(mode(page, "waiting", "Dry")).to_be_checked()
    known = {each["name"]: each["mode"] for each in ruled.program.json("rules", "list")}
    assert known["waiting"] == "dry"
    mode(page, "waiting", "Off").click()
    expect(page.get_by_role("region", name="Ready-made").get_by_role("article", name="waiting")).to_be_visible()
    expect(card(page, "tools").get_by_role("button", name="Edit…")).to_have_count(0)


def test_the_log_says_what_fired_and_why_not(look: Visit) -> None:
    """Filtered by the address; a firing with its attempts; and to the session and span it is about."""
    page = look.open("/rules?state=failed")
    rows = page.get_by_role("table", name="Log").locator("tbody tr")
    expect(rows).to_have_count(1)
    expect(rows.first).to_contain_text("unreachable")
    expect(rows.first).to_contain_text("allow_private")
    rows.first.get_by_role("button", name=re.compile("Firing")).click()
    drawer = page.get_by_role("dialog")
    expect(drawer.get_by_role("table", name="Attempts of nowhere")).to_contain_text("private")
    expect(drawer.get_by_role("button", name="Run again")).to_be_visible()
    page.go_back()
    expect(drawer).to_have_count(0)
    rows.first.get_by_role("link", name="span").click()
    expect(page).to_have_url(re.compile(rf"/sessions/{key_of('agenttrace', FAILING)}\?.*span="))
    page.get_by_role("button", name="Rules", exact=True).click()
    expect(page.get_by_role("dialog").get_by_role("table", name="Log").locator("tbody tr")).to_have_count(3)


def test_a_rule_is_written_tried_and_then_switched_on(look: Visit, ruled: running) -> None:
    """It cannot be switched on before it was tried; a change of the draft needs another trial."""
    page = look.open("/rules")
    page.get_by_role("button", name="New rule").click()
    form = page.get_by_role("dialog")
    form.get_by_label("Name", exact=True).fill("deploys")
    form.get_by_role("combobox", name="Event", exact=True).select_option("tool.failed")
    form.get_by_label("tool", exact=True).fill("nothing")
    form.get_by_role("button", name="New action…").click()
    form.get_by_label("Name of the action").fill("chat")
    form.get_by_label("Address", exact=True).fill("https://hooks.example.com/never-shown-again")
    form.get_by_role("combobox", name="Language").select_option("中文")
    form.get_by_role("button", name="Save the action").click()
    expect(form.get_by_role("listitem").filter(has_text="chat")).to_be_visible()
    form.get_by_role("combobox", name="Add an action").select_option("desktop")
    form.get_by_role("button", name="Remove chat").click()
    switch_on = form.get_by_role("button", name="Save and switch on")
    expect(switch_on).to_be_disabled()
    form.get_by_role("button", name="Try on the last 7 days").click()
    expect(form).to_contain_text("0 of")
    expect(form.get_by_role("table", name="Reasons")).to_contain_text("tool is deploy")
    expect(switch_on).to_be_enabled()
    form.get_by_label("tool", exact=True).fill("deploy")
    expect(switch_on).to_be_disabled()
    form.get_by_role("button", name="Try on the last 7 days").click()
    expect(form.get_by_role("table", name="Would have fired")).to_contain_text("Deploy the harbour")
    switch_on.click()
    expect(form).to_have_count(0)
    expect(mode(page, "deploys", "On")).to_be_checked()
    assert "never-shown-again" not in page.content()
    assert "never-shown-again" in (ruled.home / "rules.toml").read_text()
    assert 'language = "zh"' in (ruled.home / "rules.toml").read_text()
    assert (ruled.home / "agenttrace.toml").read_text() == RULES
    card(page, "deploys").get_by_role("button", name="Remove…").click()
    confirm(page, "Remove")
    expect(card(page, "deploys")).to_have_count(0)


def test_an_action_is_changed_and_its_secrets_stay(look: Visit, ruled: running) -> None:
    """What is not written anew stays as it is, and is not shown; a rule keeps what the form has no field for."""
    page = look.open("/rules")
    page.get_by_role("button", name="New rule").click()
    form = page.get_by_role("dialog")
    form.get_by_label("Name", exact=True).fill("leaks")
    form.get_by_role("combobox", name="Event", exact=True).select_option("secret.found")
    form.get_by_label("kind of secret", exact=True).fill("aws-*, github-token")
    form.get_by_role("button", name="New action…").click()
    form.get_by_label("Name of the action").fill("pager")
    form.get_by_label("Address", exact=True).fill("https://hooks.example.com/first-path")
    form.get_by_label("Secret for the signature").fill("signing-key")
    form.get_by_label("Headers").fill("X-Team: till\nX-Key: header-value")
    form.get_by_label("Time limit in seconds").fill("7")
    form.get_by_role("button", name="Save the action").click()
    form.get_by_role("button", name="Try on the last 7 days").click()
    expect(form.get_by_role("status")).to_contain_text("0 of")
    form.get_by_role("button", name="Save, off").click()
    expect(form).to_have_count(0)
    file = ruled.home / "rules.toml"
    written = tomllib.loads(file.read_text())
    assert written["rules"]["leaks"]["where"] == {"secret": ["aws-*", "github-token"]}
    first = written["actions"]["pager"]
    assert (first["headers"], first["timeout_seconds"]) == ({"X-Team": "till", "X-Key": "header-value"}, 7)
    file.write_text(file.read_text().replace("where = { secret", 'where = { budget = ["kept"], secret'))
    answer = f"{look.base}/api/v1/rules"
    eventually(lambda: '"budget":["kept"]' in page.request.get(answer).text(), "the page to be told of the file")
    page.reload()
    card(page, "leaks").get_by_role("button", name="Edit…").click()
    expect(form).to_contain_text('These filters stay as they are: budget = ["kept"]')
    form.get_by_role("button", name="Edit pager").click()
    action = form.get_by_role("group", name="Edit pager")
    expect(action.get_by_label("Time limit in seconds")).to_have_value("7")
    expect(action).to_contain_text("X-Team, X-Key")
    assert "header-value" not in page.content()
    action.get_by_role("combobox", name="Format").select_option("teams")
    action.get_by_label("Remove the secret").check()
    action.get_by_role("button", name="Save the action").click()
    expect(action).to_have_count(0)
    form.get_by_role("button", name="Save, off").click()
    expect(form).to_have_count(0)
    written = tomllib.loads(file.read_text())
    assert written["rules"]["leaks"]["where"] == {"budget": ["kept"], "secret": ["aws-*", "github-token"]}
    changed = dict(first) | {"format": "teams"}
    del changed["secret"]
    assert written["actions"]["pager"] == changed


def test_a_chain_has_its_language_and_limits(look: Visit, ruled: running) -> None:
    """Written, and there again when it is changed."""
    page = look.open("/rules")
    page.get_by_role("button", name="New rule").click()
    form = page.get_by_role("dialog")
    form.get_by_role("button", name="New action…").click()
    form.get_by_role("radio", name="applications").click()
    form.get_by_label("Name of the action").fill("review")
    form.get_by_role("combobox", name="Applications").select_option("session-review")
    form.get_by_role("combobox", name="Language").select_option("zh")
    form.get_by_label("Characters at most").fill("9000")
    form.get_by_role("button", name="Save the action").click()
    form.get_by_role("button", name="Edit review").click()
    action = form.get_by_role("group", name="Edit review")
    expect(action.get_by_role("combobox", name="Language")).to_have_value("zh")
    expect(action.get_by_label("Characters at most")).to_have_value("9000")
    action.get_by_label("Characters at most").fill("5")
    action.get_by_role("button", name="Save the action").click()
    expect(action.get_by_role("alert")).to_contain_text("max_chars")
    action.get_by_role("button", name="Cancel").click()
    expect(action).to_have_count(0)
    kept = tomllib.loads((ruled.home / "rules.toml").read_text())["actions"]["review"]
    assert (kept["language"], kept["max_chars"], kept["apps"]) == ("zh", 9000, ["session-review"])
    page.keyboard.press("Escape")


def test_what_the_server_refuses_is_said_in_the_form(look: Visit) -> None:
    page = look.open("/rules")
    page.get_by_role("button", name="New rule").click()
    form = page.get_by_role("dialog")
    form.get_by_label("Name", exact=True).fill("odd")
    form.get_by_label("Silence before").fill("soon")
    form.get_by_role("button", name="Try on the last 7 days").click()
    expect(form.get_by_role("alert")).to_contain_text("settle is 'soon'")
    page.keyboard.press("Escape")
    expect(form).to_have_count(0)


def test_a_notification_is_shown_once_by_one_of_two_pages(look: Visit, ruled: running) -> None:
    """The browser is asked on the button only; before that a message in the page leads to the session."""
    first = look.enter(fresh=True)
    first.add_init_script(SHOWN)
    first.goto("/rules")
    settled(first)
    fail_a_tool(ruled.program, "inside")
    toast = first.get_by_text("Work of inside").and_(first.locator("[class*=toast] *"))
    expect(toast.first).to_be_visible()
    assert first.evaluate("Notification.permission") == "default"
    first.get_by_role("link", name="Open the session").click()
    expect(first).to_have_url(re.compile(key_of("agenttrace", "inside")))
    first.goto("/rules")
    first.get_by_role("button", name="Notify in this browser").click()
    expect(first.get_by_role("button", name="Stop notifications")).to_be_visible()
    second = first.context.new_page()
    second.add_init_script(SHOWN + "; Notification.permission = 'granted'")
    second.goto("/rules")
    settled(second)
    fail_a_tool(ruled.program, "outside")
    for page in (first, second):
        expect(page.get_by_role("table", name="Log")).to_contain_text("Work of outside")

    def shown() -> int:
        return sum(page.evaluate("window.shown.length") for page in (first, second))

    eventually(shown, "the notification")
    time.sleep(0.5)
    assert shown() == 1


def test_the_log_lists_what_did_not_fire_where_it_is_asked_for(look: Visit, ruled: running) -> None:
    """At first only what became something; with the rest by a checkbox, which is in the address."""
    page = look.open("/rules")
    rows = page.get_by_role("table", name="Log").locator("tbody tr")
    eventually(lambda: {each["state"] for each in log(ruled.program)} <= FINAL, "what settles to be decided")
    decided = log(ruled.program)
    quiet = [each for each in decided if each["state"] == "skipped"]
    assert quiet
    expect(rows).to_have_count(len(decided) - len(quiet))
    expect(rows.filter(has_text="did not fire")).to_have_count(0)
    page.get_by_label("Show what did not fire").check()
    expect(rows).to_have_count(len(decided))
    expect(page).to_have_url(re.compile(r"skipped="))


def test_by_keys_alone(look: Visit) -> None:
    """The switch is a group of radio buttons; every control shows where one is."""
    page = look.open("/rules")
    settled(page)
    mode(page, "done", "Off").focus()
    here(page)
    page.keyboard.press("ArrowLeft")
    expect(mode(page, "done", "Dry")).to_be_checked()
    mode(page, "done", "Dry").focus()
    page.keyboard.press("ArrowRight")
    expect(mode(page, "done", "Off")).to_be_checked()
    page.get_by_role("button", name="New rule").focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("dialog")).to_be_visible()
    for _ in range(12):
        page.keyboard.press("Tab")
        here(page)
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)


@pytest.mark.parametrize("width", [1280, 390])
def test_looks(look: Visit, width: int) -> None:
    """Page, form and a firing: axe finds nothing serious in light or dark, nothing is too wide; Chinese is Chinese."""
    page = look.enter(width=width, height=844)
    page.goto("/rules")
    settled(page)
    expect(page.get_by_role("table", name="Log")).to_be_visible()
    assert problems(page) == []
    assert overflow(page) <= 0
    page.get_by_role("button", name="New rule").click()
    form = page.get_by_role("dialog")
    form.get_by_role("button", name="New action…").click()
    form.get_by_role("radio", name="applications").check(force=True)
    save = form.get_by_role("button", name="Save the action")
    form.get_by_label("Name of the action").fill("two")
    expect(save).to_be_disabled()
    for app in ("session-review", "session-score"):
        form.get_by_role("combobox", name="Applications").select_option(app)
    form.get_by_role("button", name="Move session-score up").click()
    expect(form.get_by_role("listitem")).to_have_text([re.compile("session-score"), re.compile("session-review")])
    expect(save).to_be_enabled()
    form.get_by_role("button", name="Try on the last 7 days").click()
    expect(form.get_by_text("would have fired")).to_be_visible()
    assert problems(page) == []
    assert overflow(page) <= 0
    page.goto("/rules?state=failed")
    page.get_by_role("button", name=re.compile("Firing")).first.click()
    expect(page.get_by_role("dialog").get_by_role("table")).to_be_visible()
    assert problems(page) == []
    chinese = look.open("/rules", width=width, language="zh-CN")
    expect(chinese.get_by_role("heading", level=1)).to_have_text("规则")
    expect(card(chinese, "tools")).to_contain_text("工具失败")
    assert overflow(chinese) <= 0
