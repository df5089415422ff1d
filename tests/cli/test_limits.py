"""``agenttrace limits``, ``guard`` and ``hooks`` as users run them."""

from __future__ import annotations

import json
import os
import subprocess
import time

from agenttrace.hooks import json_text

from .conftest import Program
from .test_doctor import checks

MONTH = '[budgets.all-agents-of-this-machine]\nperiod = "month"\ntokens = 1_000\n'


def _spend(program: Program, tokens: int, *, model: str = "gpt-5") -> None:
    """Have an application of this machine use so much, now."""
    begin = {"type": "session.begin", "id": "s", "ts": time.time(), "project": "/home/dev/shop", "title": "a session"}
    turn = {"type": "turn.begin", "id": "t", "turn": 1, "prompt": "go", "ts": time.time()}
    usage = {"input_tokens": tokens, "output_tokens": 0}
    used = {"type": "usage", "id": "u", "turn": 1, "model": model, "response": "r", "usage": usage, "ts": time.time()}
    program.log("spent", begin, turn, used)
    program.run("record", "--once")


def _settings(program: Program, text: str) -> None:
    program.home.mkdir(mode=0o700, exist_ok=True)
    (program.home / "agenttrace.toml").write_text(text)


def test_budgets_and_windows_in_one_view(program: Program) -> None:
    """With a bar each, inside of 80 columns; and the same as JSON."""
    _settings(program, MONTH + '[budgets.each]\nperiod = "session"\ntokens = 500\n')
    _spend(program, 850)
    (program.home / "limits").mkdir()
    window = {"used_percent": 42.0, "resets_at": time.time() + 3_600, "at": time.time()}
    (program.home / "limits/claude-code.json").write_text(json.dumps({"five_hour": window}))
    shown = program.run("limits", env={"COLUMNS": "80"}).stdout
    assert max(map(len, shown.splitlines())) <= 80
    lines = [line for line in shown.splitlines() if "█" in line]
    assert ["85%" in lines[0], "850 of 1.0k" in lines[0], "170%" in lines[1]] == [True] * 3
    assert ["claude-code" in lines[2], "5 hours" in lines[2], "42%" in lines[2], "resets in" in lines[2]] == [True] * 4
    found = program.json("limits")
    assert [(each["name"], each["share"]) for each in found["budgets"]] == [
        ("all-agents-of-this-machine", 0.85),
        ("each", 1.7),
    ]
    assert found["budgets"][1]["session_title"] == "a session"
    assert [(each["agent"], each["name"], each["share"]) for each in found["windows"]] == [
        ("claude-code", "five_hour", 0.42)
    ]


def test_doctor_names_currencies_without_a_rate(program: Program) -> None:
    """And rates that have no effect; with a rate a budget of mixed currencies is computed, the originals beside."""
    text = '[usage]\ncurrency = "EUR"\n[budgets.b]\nlimit = 5\n'
    text += '[prices.gpt-5]\ncurrency = "USD"\ninput = 1\noutput = 1\n'
    _settings(program, text)
    _spend(program, 2_000_000)
    found = checks(program)["currency"]
    assert (found["state"], found["found"]) == ("warn", "costs in USD have no rate to EUR, and are not in sums")
    assert "[usage.rates]" in found["fix"]
    assert "usage.rates.USD" in program.json("limits")["budgets"][0]["problem"]
    _settings(program, text + "[usage.rates]\nUSD = 0.5\n")
    assert checks(program)["currency"]["state"] == "ok"
    (budget,) = program.json("limits")["budgets"]
    assert (budget["spent"], budget["currency"], budget["problem"]) == (1.0, "EUR", None)
    assert budget["amounts"] == {"USD": 2.0}
    _settings(program, "[usage.rates]\nUSD = 0.5\n")
    assert "no effect" in checks(program)["currency"]["found"]


def test_before_anything_was_recorded(program: Program) -> None:
    """It says how to set a budget; there is no error."""
    assert "[budgets.all]" in program.run("limits").stdout
    assert program.json("limits")["budgets"] == []
    assert "No budget is set" in program.run("guard").stdout


def test_a_refusal_can_be_lifted_for_a_while(program: Program) -> None:
    """What is refused and what is allowed is shown, and who allowed it is kept."""
    _settings(program, MONTH)
    _spend(program, 2_000)
    assert "Refused: budget all-agents" in program.run("guard").stdout
    assert [each["name"] for each in program.json("guard")["refused"]] == ["all-agents-of-this-machine"]
    assert "Every budget refuses nothing until" in program.run("guard", "--allow", "1h").stdout
    assert program.json("guard")["refused"] == []
    (line,) = (program.home / "guard/allowed.jsonl").read_text().splitlines()
    assert set(json.loads(line)) == {"at", "until", "budget", "by"}
    assert "Refused" in program.run("guard", "--revoke").stdout
    program.run("guard", "--allow", "soon", code=2)
    assert "there is no budget named 'x'" in program.run("guard", "--allow", "1h", "--budget", "x", code=2).stderr


def test_hooks_are_shown_before_they_are_written(program: Program) -> None:
    """A pipe must say yes beforehand; a dry run changes nothing."""
    file = program.user / ".claude/settings.json"
    assert "+" in program.run("hooks", "install", "claude", "--dry-run").stdout
    assert "--yes" in program.run("hooks", "install", "claude", code=2).stderr
    assert not file.exists()
    done = program.json("hooks", "install", "claude", "--yes", "--statusline")
    assert (done["changed"], done["path"]) == (True, str(file))
    assert set(json.loads(file.read_text())) == {"hooks", "statusLine"}
    assert program.json("hooks", "install", "claude", "--yes", "--statusline")["changed"] is False
    status = {each["agent"]: each for each in program.json("hooks", "status")}
    assert (status["claude-code"]["installed"], status["codex"]["installed"]) == (True, False)
    program.run("hooks", "uninstall", "claude-code", "--yes")
    assert not file.exists()
    assert "Agents: claude-code" in program.run("hooks", "install", "vim", code=2).stderr


def test_a_status_line_of_the_user_is_kept(program: Program) -> None:
    """It is called by AgentTrace's, and stands there again when that is taken out; hooks are installed in any case."""
    file = program.user / ".claude/settings.json"
    file.parent.mkdir()
    text = '{\n  "statusLine": { "type": "command", "command": "echo \\"it\'s mine\\"" } // keep\n}\n'
    file.write_text(text)
    program.run("hooks", "install", "claude", "--yes", "--statusline")
    command = json_text.parse(file.read_text()).value()["statusLine"]["command"]
    said = json.dumps({"session_id": "s", "model": {"display_name": "Opus"}})
    environment = {**os.environ, "AGENTTRACE_HOME": str(program.home)}
    done = subprocess.run(command, shell=True, input=said, env=environment, capture_output=True, text=True, check=True)
    assert done.stdout == "it's mine\nOpus\n"
    status = {each["agent"]: each for each in program.json("hooks", "status")}["claude-code"]
    assert (status["installed"], status["statusline"]) == (True, True)
    program.run("hooks", "uninstall", "claude", "--yes")
    assert file.read_text() == text
    file.write_text('{"statusLine": "off"}')
    refused = program.run("hooks", "install", "claude", "--yes", "--statusline", code=1)
    assert "agenttrace statusline --then" in " ".join(refused.stderr.split())
    status = {each["agent"]: each for each in program.json("hooks", "status")}["claude-code"]
    assert (status["installed"], status["statusline"]) == (True, False)


def test_doctor_names_budgets_that_cannot_be_computed(program: Program) -> None:
    """With the setting or the price that is missing."""
    _settings(program, "[budgets.money]\nlimit = 1\n[budgets.tokens]\ntokens = 10_000\n")
    _spend(program, 500, model="nobody-knows")
    findings = [each for each in program.json("doctor", code=0)["checks"] if each["name"] == "budget"]
    assert [each["state"] for each in findings] == ["warn", "ok"]
    assert "money" in findings[0]["found"]
    assert "nobody-knows" in findings[0]["found"]
