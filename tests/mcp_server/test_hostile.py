"""No question ends the server: it answers all of them, with an answer or with what is wrong with the question."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agenttrace.mcp.server import TOOLS
from agenttrace.mcp.tool import input_schema
from cli.conftest import CLAUDE, Program

from .rig import Asker, serving, texts

#: No answer is longer, whatever was asked for.
_LONGEST = 250_000

#: What JSON can hold; the client cannot send half a pair of surrogates.
_TEXT = st.text(alphabet=st.characters(exclude_categories=["Cs"]), max_size=50)
_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | _TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_TEXT, inner, max_size=3),
    max_leaves=5,
)
#: What tools are asked, so that not only their front door is knocked at.
_SENSIBLE = {
    "session": st.sampled_from([CLAUDE, "bb1", "", "session_", "%", "5bc45ad6"]),
    "a": st.sampled_from([CLAUDE, "bb1", "session_", "%"]),
    "b": st.sampled_from([CLAUDE, "5bc45ad6", "", "nothing"]),
    "span": st.from_regex(r"[0-9a-f]{16}", fullmatch=True),
    "agent": st.sampled_from(["claude-code", "codex", "nobody", ""]),
    "path": st.sampled_from(["README.md", "src/", "..", "%", ""]) | _TEXT,
    "project": st.sampled_from(["work", "%", "_", "\\", "'", ""]),
    "machine": st.sampled_from(["laptop", "%", ""]) | _TEXT,
    "person": st.sampled_from(["amy", "'", ""]) | _TEXT,
    "since": st.sampled_from(["7d", "2026-11-15", "2026-11-15T09:00Z", "999999w", "0001-01-01", "9999-12-31"]),
    "until": st.sampled_from(["today", "2026-11-16", "9999-12-31T23:59:59-23:59", "0001-01-01T00:00+23:59"]),
    "query": st.sampled_from(["please", '"', "* *", "a" * 1_000, "NEAR(a b)", "重试", "x AND OR", "-"]) | _TEXT,
    "limit": st.integers(-5, 10**40),
    "max_chars": st.integers(-5, 10**40),
    "cursor": st.lists(
        st.integers(-(10**30), 10**30) | st.booleans() | st.sampled_from(["short", "full", "0", "f" * 16]), max_size=8
    ).map(lambda place: base64.urlsafe_b64encode(json.dumps(place).encode()).rstrip(b"=").decode()),
    "first_turn": st.integers(-5, 10**40),
    "last_turn": st.integers(-(10**40), 5),
    "detail": st.sampled_from(["outline", "conversation", "short", "full", "everything"]),
    "by": st.sampled_from(["day", "month", "model", "agent", "project", "session", "person", "number"]),
    "state": st.sampled_from(["working", "waiting", "ended", "interrupted", "dead"]),
    "label": st.sampled_from(["bug", "", "%", "'"]) | _TEXT,
    "starred": st.booleans(),
    "score": st.sampled_from(["quality<3", "quality", "<", "a=b"]) | _TEXT,
    "thinking": st.booleans(),
    "rule": st.sampled_from(["waiting", "nothing", "%"]),
    "only_cache_breaks": st.booleans(),
    "view": st.sampled_from(["findings", "tools", "models", "weather"]),
    "kind": st.sampled_from(["retry_loop", "long_wait", "short_wait"]),
    "model": st.sampled_from(["gpt-5", "", "%", "'"]),
    "with_outcome": st.sampled_from(["files", "commits", "failed_tests", "fame"]),
}


def _arguments(name: str) -> st.SearchStrategy[dict[str, Any]]:
    """Arguments of a tool: those that it has, sensible and not, and some that it has not."""
    schema = input_schema(next(tool.arguments for tool in TOOLS if tool.name == name))
    own = {field: st.one_of(_SENSIBLE[field], _SENSIBLE[field], _VALUES) for field in schema["properties"]}
    needed = {field: own.pop(field) for field in schema.get("required", ())}
    return st.fixed_dictionaries(needed, optional=own) | st.dictionaries(
        st.sampled_from(list(_SENSIBLE)) | _TEXT, _VALUES, max_size=4
    )


@pytest.mark.parametrize("tool", [tool.name for tool in TOOLS])
def test_every_question_is_answered(asker: Asker, tool: str) -> None:
    """Any arguments: a valid answer of bounded size, or an error in words; never silence, never a bug."""

    @given(arguments=_arguments(tool))
    def ask(arguments: dict[str, Any]) -> None:
        found = asker.result(tool, arguments)
        said = "".join(texts(found))
        assert 0 < len(said) < _LONGEST
        if found.is_error:
            assert "stderr" not in said, said
        elif found.structured_content is not None:
            assert json.loads(said) == found.structured_content

    ask()


@settings(max_examples=30)
@given(tool=_TEXT, arguments=st.dictionaries(_TEXT, _VALUES, max_size=3))
def test_a_tool_that_is_none(asker: Asker, tool: str, arguments: dict[str, Any]) -> None:
    """Is an error of the protocol, and the next question is answered."""
    from mcp import MCPError

    if tool not in {each.name for each in TOOLS}:
        with pytest.raises(MCPError):
            asker.result(tool, arguments)
    assert asker.fields("status")


def test_answers_are_bounded(program: Program) -> None:
    """Titles, directories, names of tools and of sessions as long as a line may be do not make an answer long."""
    long = "long " * 400_000
    place = {"turn": 1, "step": 1, "ts": 1_794_733_000.0}
    program.log("long", {"session": "s" * 200_000, "type": "turn.begin", "id": "p", "prompt": long, **place})
    program.log(
        "bounded",
        {"type": "session.begin", "id": "b", "title": long, "project": long, "branch": long, "model": long},
        {"type": "turn.begin", "id": "p", "prompt": long, **place},
        {"type": "step.begin", "id": "s", "model": long, **place},
        {"type": "tool.begin", "id": "c", "name": long, "arguments": long, **place},
        {"type": "tool.end", "id": "c", "status": "error", "error": long, "result": long, **place},
        {"type": "usage", "id": "u", "response": "r", "model": long, "usage": {"input_tokens": 5}, **place},
    )
    program.run("record", "--once", "--index")
    with serving(program) as asker:
        listed = asker.fields("list_sessions")["sessions"]
        assert len(listed) == 2
        for each in listed:
            assert asker.blocks("read_session", session=each["session"])
        span = asker.fields("errors")["errors"][0]["span"]
        for tool, arguments in (
            ("list_sessions", {}),
            ("search", {"query": "long"}),
            ("errors", {}),
            ("status", {}),
            ("usage", {"by": "model"}),
            ("usage", {"by": "project"}),
            ("insights", {"view": "tools", "since": "all"}),
            ("insights", {"view": "models", "by": "project", "since": "all"}),
            ("insights", {"since": "all"}),
            ("read_session", {"session": "bounded", "detail": "full", "max_chars": 1_000}),
            ("read_session", {"session": "bounded", "detail": "outline", "max_chars": 1_000}),
            ("read_span", {"session": "bounded", "span": span, "max_chars": 1_000}),
            ("read_requests", {"session": "bounded"}),
            ("compare", {"a": "bounded", "b": "bounded"}),
        ):
            found = asker.result(tool, arguments)
            assert not found.is_error
            assert len("".join(texts(found))) < 12_000, tool
