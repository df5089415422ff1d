"""``agenttrace show``."""

from __future__ import annotations

import json
import re
from collections import Counter

from .conftest import CLAUDE, CLAUDE_FORK, KIMI_CLI, KIMI_CODE, Program

CONTRACT = [
    "trace_id",
    "span_id",
    "parent_id",
    "kind",
    "name",
    "start",
    "end",
    "status",
    "model",
    "usage",
    "attributes",
]


def test_fields_of_the_contract(recorded: Program) -> None:
    """Session and spans with the contract's fields first, ids in hex, times in ISO 8601 UTC."""
    found = recorded.json("show", CLAUDE)
    assert list(found) == ["session", "spans", "annotations"]
    assert found["session"]["session_id"] == CLAUDE
    for span in found["spans"]:
        assert list(span)[: len(CONTRACT)] == CONTRACT
        assert re.fullmatch(r"[0-9a-f]{32}", span["trace_id"])
        assert re.fullmatch(r"[0-9a-f]{16}", span["span_id"])
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", span["start"])


def test_spans_form_a_tree(recorded: Program) -> None:
    """Every parent is there, in the same trace; steps are in turns, tools in steps, subagents in tools."""
    for session in (CLAUDE, CLAUDE_FORK, KIMI_CLI, KIMI_CODE):
        spans = {span["span_id"]: span for span in recorded.json("show", session)["spans"]}
        for span in spans.values():
            if span["parent_id"] is None:
                assert span["kind"] == "turn"
                continue
            parent = spans[span["parent_id"]]
            assert parent["trace_id"] == span["trace_id"]
            assert (parent["kind"], span["kind"]) in {("turn", "step"), ("step", "tool"), ("tool", "turn")}


def test_golden_counts(recorded: Program) -> None:
    """Turns, steps and tools of the scripted sessions, subagents included."""
    kinds = Counter(span["kind"] for span in recorded.json("show", KIMI_CLI)["spans"])
    assert kinds == {"turn": 9 + 2, "step": 10 + 4, "tool": 6 + 2}
    kinds = Counter(span["kind"] for span in recorded.json("show", CLAUDE)["spans"])
    assert kinds["tool"] == 5


def test_names_of_the_conventions(recorded: Program) -> None:
    """GenAI attribute names beside ours; input tokens there include the cached ones."""
    spans = recorded.json("show", CLAUDE)["spans"]
    operations = {"turn": "invoke_agent", "step": "chat", "tool": "execute_tool"}
    for span in spans:
        attributes = span["attributes"]
        assert attributes["gen_ai.operation.name"] == operations[span["kind"]]
        assert attributes["gen_ai.conversation.id"] == CLAUDE
        assert attributes["gen_ai.provider.name"] == "anthropic"
    step = next(span for span in spans if span["kind"] == "step" and span["usage"])
    usage = step["usage"]
    assert step["attributes"]["gen_ai.request.model"] == step["model"] == "claude-sonnet-4-5"
    assert step["attributes"]["gen_ai.usage.input_tokens"] == (
        usage["input_tokens"] + usage["cache_read_tokens"] + usage["cache_write_tokens"]
    )
    tool = next(span for span in spans if span["name"] == "execute_tool Bash")
    assert tool["attributes"]["gen_ai.tool.name"] == "Bash"
    assert tool["attributes"]["gen_ai.tool.call.id"].startswith("toolu_")
    assert json.loads(tool["attributes"]["gen_ai.tool.call.arguments"])["command"] == "echo first"
    assert tool["attributes"]["gen_ai.tool.call.result"] == "first"


def test_usage_stands_on_model_calls_only(recorded: Program) -> None:
    """Parents carry no sums, so that adding up all spans counts every token once."""
    spans = recorded.json("show", KIMI_CODE)["spans"]
    assert all(span["usage"] is None for span in spans if span["kind"] != "step")
    counted = [span["usage"] for span in spans if span["usage"] and span["counted"]]
    assert sum(usage["output_tokens"] for usage in counted) == 212 + 3 * 148


def test_errors_are_marked(recorded: Program) -> None:
    """A failed tool is an error in the JSON and stands out in the tree."""
    failed = [span for span in recorded.json("show", CLAUDE)["spans"] if span["status"] == "error"]
    assert [span["name"] for span in failed] == ["execute_tool Bash"]
    assert failed[0]["attributes"]["error.type"] == "_OTHER"
    assert re.search(r"✗ Bash .*Exit code 3", recorded.run("show", CLAUDE).stdout)


def test_the_tree_for_people(recorded: Program) -> None:
    """Header, turns with their prompts, model calls with tokens, tools with their arguments, subagents inside."""
    text = recorded.run("show", KIMI_CLI[:8]).stdout
    assert text.startswith("SCENARIO parallel please\n")
    assert "agent        Kimi CLI" in text
    assert re.search(r"✓ Turn 2 .*Σ 25\.7k in \(15\.4k cached\), 359 out  SCENARIO agent please", text)
    assert "├─ ✓ Shell  28 ms  echo first" in text
    assert re.search(r"│  │  └─ ✓ Turn 1 · coder", text)
    assert re.search(r"^\? Turn 3 ", text, re.MULTILINE)


def test_copies_are_shown_and_not_counted(recorded: Program) -> None:
    """Responses a fork copied are marked, and the remark says where they count."""
    done = recorded.run("show", CLAUDE_FORK)
    assert done.stdout.count("⇠") == 4
    assert "4 responses copied from another session: shown here, counted there." in done.stderr
    spans = recorded.json("show", CLAUDE_FORK)["spans"]
    assert sum(1 for span in spans if not span["counted"]) == 4


def test_full_shows_what_was_said(recorded: Program) -> None:
    """Prompts, answers, arguments and results, whole; in JSON as messages of the conventions."""
    text = recorded.run("show", KIMI_CODE, "--full").stdout
    assert "prompt: SCENARIO parallel please" in text
    assert "text: Done. parallel" in text
    assert "Command failed with exit code: 3." in text
    spans = recorded.json("show", KIMI_CODE, "--full")["spans"]
    messages = [json.loads(text) for span in spans if (text := span["attributes"].get("gen_ai.output.messages"))]
    parts = [part for each in messages for message in each for part in message["parts"]]
    assert {"type": "text", "content": "Done. parallel"} in parts


def test_the_beginning_of_an_id_is_enough(recorded: Program) -> None:
    """Also without Kimi Code's ``session_``."""
    assert recorded.json("show", "23a8c988")["session"]["session_id"] == KIMI_CODE
    assert recorded.json("show", CLAUDE[:6])["session"]["session_id"] == CLAUDE


def test_an_ambiguous_beginning(program: Program) -> None:
    """The candidates are listed; exit code 2."""
    for name in ("same-one", "same-two"):
        program.log(name, {"type": "turn.begin", "ts": 1.0, "prompt": "x"})
    program.run("record", "--once")
    done = program.run("show", "same", code=2)
    assert "same-one" in done.stderr
    assert "same-two" in done.stderr
    assert "ambiguous" in done.stderr


def test_an_unknown_session(recorded: Program) -> None:
    """A clear line and the way to the list; exit code 1."""
    done = recorded.run("show", "nothing-like-it", code=1)
    assert "no session begins with 'nothing-like-it'" in done.stderr
    assert "agenttrace sessions" in done.stderr


def test_logs_cannot_command_the_terminal(program: Program) -> None:
    """Escape sequences, control characters and markup in a log are text at most, in every view."""
    evil = "\x1b[31mred\x1b[0m \x1b]0;title\x07\x9b2J \x00\x08[bold]not markup[/bold] \u202egnp.exe"
    program.log(
        "evil",
        {"type": "turn.begin", "ts": 1.0, "prompt": evil},
        {"type": "step.begin", "ts": 2.0, "id": "s", "model": evil},
        {"type": "tool.begin", "ts": 3.0, "id": "t", "name": evil, "arguments": evil},
        {"type": "tool.end", "ts": 4.0, "id": "t", "result": evil, "status": "error", "error": evil},
    )
    program.run("record", "--once")
    views = (
        ("show", "evil"),
        ("show", "evil", "--full"),
        ("sessions",),
        ("tail", "--no-follow"),
        ("search", "markup"),
        ("usage", "--by", "model"),
    )
    for view in views:
        text = program.run(*view).stdout
        assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e]", text), view
    assert "[bold]not markup[/bold]" in program.run("show", "evil").stdout
    assert program.json("show", "evil")["spans"]
