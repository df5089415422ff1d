"""``agenttrace compare``."""

from __future__ import annotations

import pytest

from agenttrace.cli.compare import difference

from .conftest import DATA, Program


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Program:
    made = Program(tmp_path_factory.mktemp("user"))
    made.run("record", "--once", str(DATA / "claude-code-2.1.325" / "projects"))
    return made


def test_two_sessions(program: Program) -> None:
    found = program.json("compare", "feedbd99", "b341ac93")
    assert found["files"] == [{"path": "app.py", "a": {"changes": 1, "added": 1, "removed": 1}, "b": None}]
    assert found["a"]["session_id"].startswith("feedbd99")
    assert found["b"]["session_id"].startswith("b341ac93")
    rows = {row["session_id"]: row for row in program.json("sessions", "--limit", "0")}
    for side in ("a", "b"):
        row = rows[found[side]["session_id"]]
        assert (found[side]["turns"], found[side]["tools"]) == (row["turns"], row["tools"])
        assert found[side]["spent"]["output_tokens"] == row["usage"]["output_tokens"]
    text = program.run("compare", "feedbd99", "b341ac93").stdout
    assert "app.py" in text
    assert "difference" in text


def test_a_session_that_is_not_there(program: Program) -> None:
    refused = program.run("compare", "feedbd99", "nothing", code=1)
    assert "no session begins with 'nothing'" in refused.stderr


@pytest.mark.parametrize(("number", "text"), [(3, "▲ +3"), (-3, "▼ -3"), (0, "=")])
def test_differences_have_a_sign_and_a_symbol(number: int, text: str) -> None:
    assert difference(number, str) == text
