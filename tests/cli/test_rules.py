"""``agenttrace rules``: what a user sees of rules, switches them by, and is told when something is wrong."""

from __future__ import annotations

import json
import os
import sqlite3
import time
import tomllib
from contextlib import closing

import pytest

from agenttrace.config.rules import RuleSettings, parse_action

from .conftest import Program
from .test_doctor import checks

RULES = """
[rules.tools]
on = "tool.failed"
start = "all"
cooldown = "10m"
do = ["chat"]

[actions.chat]
type = "webhook"
url = "${RULE_TEST_URL}"
format = "slack"
"""


@pytest.fixture
def ruled(program: Program) -> Program:
    """A rule of the file, and two failed tools after it was written."""
    program.home.mkdir(mode=0o700)
    (program.home / "agenttrace.toml").write_text(RULES)
    now = time.time() - 60
    for number in range(2):
        program.log(
            f"s{number}",
            {"type": "session.begin", "id": "s", "ts": now, "agent": "helpdesk", "title": f"Session {number}"},
            {"type": "turn.begin", "id": "t", "ts": now, "turn": 1, "prompt": "Go"},
            {"type": "step.begin", "id": "a", "ts": now, "turn": 1, "step": 1, "model": "qwen-max"},
            {"type": "tool.begin", "id": "c", "ts": now, "turn": 1, "step": 1, "name": "deploy"},
            {"type": "tool.end", "id": "c", "ts": now, "turn": 1, "status": "error", "error": "no"},
            {"type": "step.end", "id": "a", "ts": now, "turn": 1, "step": 1},
            {"type": "turn.end", "id": "t", "ts": now, "turn": 1},
        )
    program.run("record", "--once")
    return program


def test_the_list_has_everything(ruled: Program) -> None:
    """In JSON all settings and figures of each rule, with those that ship; on a terminal, 80 columns."""
    found = {each["name"]: each for each in ruled.json("rules")}
    assert found.keys() == {"tools", "waiting", "done", "budget", "summary", "secret"}
    tools = found["tools"]
    assert (
        tools.items()
        >= {
            "on": "tool.failed",
            "mode": "on",
            "origin": "file",
            "cooldown_seconds": 600.0,
            "max_per_day": 200,
            "fired_today": 0,
            "paused": None,
            "start": "all",
        }.items()
    )
    assert tools["do"][0].items() >= {"address": "${RULE_TEST_URL}", "missing": ["RULE_TEST_URL"]}.items()
    text = ruled.run("rules", env={"COLUMNS": "80"})
    assert max(map(len, text.stdout.splitlines())) <= 80
    said = " ".join((text.stdout + text.stderr).split())
    assert "RULE_TEST_URL is not set" in said
    assert "agenttrace up" in said


def test_a_rule_is_tried_switched_and_its_firings_are_run_again(ruled: Program) -> None:
    """``test`` fires nothing; ``disable`` and ``enable`` last; only what can be run again is."""
    trial = ruled.json("rules", "test", "tools", "--since", "7d")
    assert (trial["events"], trial["fired"], trial["messages"]) == (2, 2, 2)
    assert "2 events of 2 would have fired tools" in ruled.run("rules", "test", "tools").stdout
    budget = ruled.json("rules", "test", "budget")
    assert (budget["events"], budget["tokens"], budget["cost"]) == (0, 0, None)
    assert budget["remarks"][0]["code"] == "budgets_of_now"
    assert "Budgets, prices and exchange rates are those of now." in ruled.run("rules", "test", "budget").stderr
    assert ruled.json("rules", "log") == []
    ruled.run("rules", "disable", "tools")
    ruled.run("rules", "enable", "done", "--dry")
    modes = {each["name"]: each["mode"] for each in ruled.json("rules", "list")}
    assert (modes["tools"], modes["done"]) == ("off", "dry")
    wrong = ruled.run("rules", "retry", "12", code=1)
    assert "agenttrace rules log" in wrong.stderr


def test_a_trial_says_what_it_would_have_cost(ruled: Program) -> None:
    """From the size of the input, at the price of the application's model; and that this is an estimate."""
    judged = '[rules.judge]\non = "tool.failed"\ndo = ["judge"]\nmode = "off"\ntokens_per_day = 1\n'
    judged += '[actions.judge]\ntype = "chain"\napps = ["session-review"]\ninput = "transcript"\n'
    judged += '[apps.session-review]\nprovider = "openai"\nbase_url = "http://127.0.0.1:9/v1"\nmodel = "one-dollar"\n'
    judged += '[prices.one-dollar]\ncurrency = "USD"\ninput = 1\noutput = 1\n'
    (ruled.home / "agenttrace.toml").write_text(RULES + judged)
    found = ruled.json("rules", "test", "judge")
    assert (found["events"], found["fired"]) == (2, 1), "the cap of the day counts with the estimate"
    assert found["tokens"] == found["examples"][1]["tokens"] > 50
    assert found["cost"]["costs"] == {"USD": pytest.approx(found["tokens"] / 1e6, abs=1e-6)}
    assert [(each["action"], each["basis"]) for each in found["chains"]] == [("judge", "input")]
    said = ruled.run("rules", "test", "judge")
    assert "would have used about" in said.stdout
    assert "estimated from the size of the input" in " ".join(said.stderr.split())


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (("enable", "wating"), 2, "Did you mean waiting?"),
        (("test", "nothing"), 2, "there is no rule 'nothing'"),
        (("log", "nothing"), 2, "there is no rule 'nothing'"),
        (("log", "--state", "fired"), 2, "there is no state 'fired'"),
        (("show", "99"), 1, "agenttrace rules log"),
        (("new", "a", "--on", "tool.fail"), 2, "Did you mean tool.failed?"),
        (("new", "a", "--do", "desktp"), 2, "Did you mean desktop?"),
        (("new", "a/b"), 2, "name"),
        (("new", "tools"), 2, "already"),
    ],
)
def test_mistakes_are_named_with_what_to_do(ruled: Program, arguments: tuple[str, ...], code: int, says: str) -> None:
    assert says in " ".join(ruled.run("rules", *arguments, code=code).stderr.split())


def test_what_new_prints_is_a_rule(ruled: Program) -> None:
    """As it is, and with everything that is commented out; nothing is written."""
    before = (ruled.home / "agenttrace.toml").read_text()
    text = ruled.run("rules", "new", "ends", "--on", "session.ended", "--do", "desktop", "--do", "chat").stdout
    assert (ruled.home / "agenttrace.toml").read_text() == before
    rule = tomllib.loads(text)["rules"]["ends"]
    assert rule.items() >= {"on": "session.ended", "do": ["desktop", "chat"], "mode": "off"}.items()
    everything = text.replace("\n# ", "\n")
    (ruled.home / "agenttrace.toml").write_text(before + everything)
    assert next(each for each in ruled.json("rules") if each["name"] == "ends")["where"]["project"] == ["shop"]
    made = tomllib.loads(everything)
    assert {*made["rules"]["ends"], "name", "origin"} == {*RuleSettings.__struct_fields__}
    (name, action) = made["actions"].popitem()
    assert parse_action(name, action, {"HOOK_URL": "https://example.com/x"}).type == "webhook"


def test_what_doctor_says_of_a_rule_that_was_never_started(program: Program) -> None:
    """What happens before it is first run fires nothing, unless it looks back; afterwards nothing is lost."""
    program.home.mkdir(mode=0o700, exist_ok=True)
    rule = '[rules.%s]\non = "tool.failed"\ndo = ["desktop"]\nstart = "%s"\n'
    (program.home / "agenttrace.toml").write_text(rule % ("fresh", "now") + rule % ("past", "all"))

    def found() -> list[str]:
        return [each["found"] for each in program.json("doctor")["checks"] if each["name"] == "rules"]

    past, fresh = found()
    assert past.startswith("past: ")
    assert past.endswith("what happens now fires once one does")
    assert fresh.startswith("fresh: ")
    assert fresh.endswith("will not fire")
    program.run("record", "--once")
    (both,) = found()
    assert both.startswith("fresh, past: ")
    assert both.endswith("what happens now fires once one does")


def test_doctor_and_status_say_which_rules_are_on_and_what_is_wrong(ruled: Program) -> None:
    """Missing variables, no engine, paused; nothing where no rule is on."""
    found = [each for each in ruled.json("doctor")["checks"] if each["name"] == "rules"]
    assert [each["state"] for each in found] == ["warn", "warn"]
    assert "RULE_TEST_URL" in found[0]["found"]
    assert "no process runs the rules" in found[1]["found"]
    assert ruled.json("status")["rules"] == {"running": False, "pid": None, "on": ["tools"], "dry": [], "paused": []}
    with closing(sqlite3.connect(ruled.home / "agenttrace.db")) as connection, connection:
        connection.execute("UPDATE rule_states SET paused = '10 firings in a row have failed' WHERE rule = 'tools'")
    assert ruled.json("status")["rules"]["paused"] == ["tools"]
    assert "tools paused" in ruled.run("status").stdout
    paused = [each for each in ruled.json("doctor")["checks"] if "is paused" in each["found"]]
    assert "agenttrace rules enable tools" in paused[0]["fix"]
    listed = ruled.run("rules")
    assert "tools is paused" in listed.stdout + listed.stderr
    ruled.run("rules", "enable", "tools")
    assert ruled.json("status")["rules"]["on"] == ["tools"]
    ruled.run("rules", "disable", "tools")
    assert "rules" not in checks(ruled)
    assert "none is on" in ruled.run("status").stdout


def test_a_chain_without_a_database_is_a_finding(ruled: Program) -> None:
    ruled.run("rules", "enable", "summary")
    env = {"AGENTTRACE_DATABASE_URL": "postgresql://nobody@127.0.0.1:1/none"}
    found = ruled.json("doctor", code=1, env=env)["checks"]
    assert any("summary waits: action session-summary" in each["found"] for each in found if each["name"] == "rules")


def test_a_webhook_is_delivered_and_its_log_is_shown(ruled: Program) -> None:
    """With the variable set the engine runs what waits: nothing listens there, so every attempt is in the log."""
    ruled.environment["RULE_TEST_URL"] = "http://127.0.0.1:9/key"
    process = ruled.start("rules", "run")
    try:
        deadline = time.monotonic() + 60
        while not (found := ruled.json("rules", "log", "--state", "failed")):
            assert time.monotonic() < deadline, ruled.json("rules", "log")
            time.sleep(0.1)
    finally:
        process.terminate()
        process.communicate(timeout=60)
    shown = ruled.json("rules", "show", str(found[0]["id"]))
    assert "allow_private" in shown["actions"][0]["attempts"][0]["detail"]
    text = ruled.run("rules", "show", str(found[0]["id"]), env={"COLUMNS": "80"}).stdout
    assert "/key" not in text + json.dumps(shown)
    assert shown["actions"][0]["idempotency_key"] in text
    log = ruled.run("rules", "log", env={"COLUMNS": "80"}).stdout
    assert max(map(len, log.splitlines())) <= 80
    assert ruled.json("rules", "log", "--session", "s0")[0]["session_id"] == "s0"
    assert os.stat(ruled.home / "rules" / "tools.fired").st_mode & 0o077 == 0
