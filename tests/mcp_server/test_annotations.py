"""What is beside sessions, as agents read it: in lists, in transcripts, in searches; masked."""

from __future__ import annotations

import pytest

from cli.conftest import CLAUDE, DATA, Program

from .rig import serving

SECRET = "sk-ant-api03-" + "a1B2" * 20


@pytest.fixture(scope="module")
def annotated(tmp_path_factory: pytest.TempPathFactory) -> Program:
    made = Program(tmp_path_factory.mktemp("user"))
    made.run("record", "--once", str(DATA / "claude-code-2.1.197"))
    made.run("note", CLAUDE, f"the flaky test was the cause, not {SECRET}")
    made.run("label", CLAUDE, "bug")
    made.run("star", CLAUDE)
    made.run("score", CLAUDE, "quality", "2.5")
    return made


def test_agents_read_what_is_beside_sessions(annotated: Program) -> None:
    with serving(annotated) as asker:
        (line,) = asker.fields("list_sessions", label="bug", starred=True)["sessions"]
        assert line["session"] == CLAUDE
        assert (line["starred"], line["labels"], line["scores"], line["notes"]) == (True, ["bug"], {"quality": 2.5}, 1)
        assert asker.fields("list_sessions", label="other")["sessions"] == []
        assert [each["session"] for each in asker.fields("list_sessions", score="quality<3")["sessions"]] == [CLAUDE]
        assert asker.fields("list_sessions", score="quality>=3")["sessions"] == []
        head = asker.blocks("read_session", session=CLAUDE)[0]
        assert "Beside the session" in head
        assert "the flaky test was the cause" in head
        assert SECRET not in head
        (hit,) = asker.fields("search", query="flaky cause", limit=1)["hits"]
        assert (hit["session"], hit["kind"], hit["where"]) == (CLAUDE, "note", "beside the session")
        assert SECRET not in hit["snippet"]
