"""``agenttrace insights`` as users run it."""

from __future__ import annotations

import time

from .conftest import Program


def _work(program: Program) -> None:
    """A session in which a tool fails again and again."""
    now = time.time() - 60
    lines = [{"type": "turn.begin", "id": "t", "turn": 1, "prompt": "build it", "ts": now}]
    for step in range(1, 5):
        place = {"turn": 1, "step": step, "ts": now + step}
        usage = {"input_tokens": 1_000, "output_tokens": 50}
        lines += [
            {"type": "step.begin", "id": f"b{step}", "model": "gpt-5", **place, "ts": now + step - 0.5},
            {"type": "usage", "id": f"u{step}", "model": "gpt-5", "response": f"r{step}", "usage": usage, **place},
            {"type": "tool.begin", "id": f"c{step}", "name": "Bash", "arguments": {"command": "make"}, **place},
            {"type": "tool.end", "id": f"c{step}", "error": "no rule", **place, "ts": now + step + 0.25},
        ]
    program.log("loop", *lines)
    program.run("record", "--once")


def test_findings_tools_and_models(program: Program) -> None:
    """Inside of 80 columns, and the same as JSON."""
    _work(program)
    shown = program.run("insights", env={"COLUMNS": "80"}).stdout
    assert "Bash failed 4 times with the same arguments in turn 1" in shown
    found = program.json("insights", "findings", "--kind", "retry_loop")["items"]
    assert [(each["count"], each["tokens"], each["duration_ms"]) for each in found] == [(4, 3 * 1_050, 1_000)]
    tools = program.run("insights", "tools", env={"COLUMNS": "80"}).stdout.splitlines()
    assert tools[-1].split()[:6] == ["Bash", "4", "4", "100.0%", "250", "ms"]
    assert program.json("insights", "tools", "--by", "model")["items"][0]["part"] == "gpt-5"
    models = program.json("insights", "models")["items"]
    assert [(each["model"], each["calls"], each["p50_ms"]) for each in models] == [("gpt-5", 4, 500)]
    assert models[0]["output_tokens_per_second"] == 100
    assert max(map(len, tools)) <= 80
    assert "Nothing stands out" in program.run("insights", "--until", "2001-01-01", "--since", "all").stdout


def test_what_does_not_fit_together(program: Program) -> None:
    """Each with its fix."""
    _work(program)
    for arguments, problem in (
        (("findings", "--by", "model"), "--by is for tools"),
        (("tools", "--kind", "long_wait"), "--kind is for findings"),
        (("tools", "--sort", "speed"), "no figure 'speed'"),
        (("models", "--by", "model"), "cannot be divided"),
        (("tools", "--since", "soon"), "not a time"),
    ):
        refused = program.run("insights", *arguments, code=2)
        assert problem in refused.stderr
