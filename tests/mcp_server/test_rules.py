"""What rules did, as agents are told it."""

from __future__ import annotations

import time

import pytest

from cli.conftest import Program

from .rig import ToolError, serving

RULES = """
[rules.tools]
on = "tool.failed"
where = { min_turns = 1 }
start = "all"
mode = "dry"
do = ["desktop"]
"""


def test_firings_of_a_session(program: Program) -> None:
    """Of one session or of all, with the session, the span and what is known of the event."""
    program.home.mkdir(mode=0o700)
    (program.home / "agenttrace.toml").write_text(RULES)
    now = time.time() - 60
    for name in ("one", "two"):
        program.log(
            name,
            {"type": "session.begin", "id": "s", "ts": now, "agent": "helpdesk", "title": f"Session {name}"},
            {"type": "turn.begin", "id": "t", "ts": now, "turn": 1, "prompt": "Go"},
            {"type": "step.begin", "id": "a", "ts": now, "turn": 1, "step": 1, "model": "qwen-max"},
            {"type": "tool.begin", "id": "c", "ts": now, "turn": 1, "step": 1, "name": "deploy"},
            {"type": "tool.end", "id": "c", "ts": now, "turn": 1, "status": "error", "error": "no"},
            {"type": "step.end", "id": "a", "ts": now, "turn": 1, "step": 1},
            {"type": "turn.end", "id": "t", "ts": now, "turn": 1},
        )
    program.run("record", "--once")
    process = program.start("rules", "run")
    try:
        deadline = time.monotonic() + 60
        while len(program.json("rules", "log", "--state", "dry")) < 2:
            assert time.monotonic() < deadline
            time.sleep(0.1)
    finally:
        process.terminate()
        process.communicate(timeout=60)
    with serving(program) as asker:
        everything = asker.fields("rules")
        assert {each["session"] for each in everything["firings"]} == {"one", "two"}
        (line,) = asker.fields("rules", session="one")["firings"]
        assert (
            line.items()
            >= {
                "rule": "tools",
                "event": "tool.failed",
                "state": "dry",
                "title": "Session one",
                "facts": {"tool": "deploy"},
            }.items()
        )
        assert "deploy" in "".join(asker.blocks("read_span", session="one", span=line["span"]))
        assert asker.fields("rules", limit=1)["more"] is True
        assert asker.fields("rules", rule="other").get("firings", []) == []
        with pytest.raises(ToolError):
            asker.fields("rules", session="nowhere")
