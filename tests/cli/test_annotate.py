"""``agenttrace note``, ``label``, ``star`` and ``score``, and what ``sessions`` and ``show`` say of them."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from .conftest import CLAUDE, DATA, KIMI_CODE, Program


@pytest.fixture
def program(tmp_path: Path) -> Program:
    made = Program(tmp_path)
    made.run("record", "--once", str(DATA / "claude-code-2.1.197"), str(DATA / "kimi-code-2.1.0"))
    return made


def test_notes(program: Program) -> None:
    """Added, listed, shown with the session, and removed by the beginning of an id."""
    assert "Nothing is beside" in program.run("note", CLAUDE[:8]).stdout
    assert "Written" in program.run("note", CLAUDE[:8], "the retry loop\nwas wrong").stdout
    (found,) = program.json("note", CLAUDE)["annotations"]
    assert (found["kind"], found["text"], found["source"]) == ("note", "the retry loop\nwas wrong", "person")
    assert "was wrong" in program.run("note", CLAUDE).stdout
    assert "the retry loop" in program.run("show", CLAUDE[:8]).stdout
    assert program.json("show", CLAUDE)["annotations"] == [found]
    program.run("note", CLAUDE, "--remove", "zz", code=1)
    program.run("note", CLAUDE, "x", "--remove", found["id"], code=2)
    program.run("note", CLAUDE, "--remove", found["id"][:6])
    assert program.json("note", CLAUDE)["annotations"] == []


def test_a_note_from_stdin(program: Program) -> None:
    done = subprocess.run(
        program.command("note", CLAUDE, "-", "--json"),
        input="from a pipe\n",
        env=program.environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert "from a pipe" in done.stdout


def test_labels_stars_and_scores_filter_the_list(program: Program) -> None:
    program.run("label", CLAUDE, "bug", " needs review ")
    program.run("label", KIMI_CODE, "bug")
    program.run("star", CLAUDE)
    program.run("score", CLAUDE, "quality", "2.5", "--comment", "tests are red")
    program.run("score", KIMI_CODE, "quality", "4")

    def listed(*options: str) -> set[str]:
        return {session["session_id"] for session in program.json("sessions", *options)}

    assert listed("--label", "bug") == {CLAUDE, KIMI_CODE}
    assert listed("--label", "bug", "--label", "needs review") == {CLAUDE}
    assert listed("--starred") == {CLAUDE}
    assert listed("--score", "quality<3") == {CLAUDE}
    assert listed("--score", "quality >= 2.5", "--score", "quality<=4") == {CLAUDE, KIMI_CODE}
    assert listed("--with-notes") == set()
    (row,) = program.json("sessions", "--starred")
    marks = {name: row[name] for name in ("starred", "labels", "scores", "notes")}
    assert marks == {"starred": True, "labels": ["bug", "needs review"], "scores": {"quality": 2.5}, "notes": 0}
    assert "★ bug needs review quality=2.5" in program.run("sessions").stdout
    assert "tests are red" in program.run("show", CLAUDE).stdout
    program.run("star", CLAUDE, "--remove")
    program.run("label", CLAUDE, "bug", "--remove")
    assert listed("--starred") == set()
    assert listed("--label", "bug") == {KIMI_CODE}
    program.run("score", CLAUDE, "quality", "5")
    assert listed("--score", "quality<3") == set()


def test_search_finds_notes_and_labels(program: Program) -> None:
    """Before what sessions said; with the session, and who wrote it."""
    program.run("note", CLAUDE, "the hippopotamus test is flaky")
    program.run("label", KIMI_CODE, "hippopotamus")
    found = program.json("search", "hippopotamus")
    assert [(hit["kind"], hit["session_id"]) for hit in found] == [("label", KIMI_CODE), ("note", CLAUDE)]
    assert "flaky" in program.run("search", "hippopotamus", "test").stdout
    assert program.json("search", "hippopotamus", "--session", CLAUDE)[0]["type"] == "annotation"


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (("note", CLAUDE, ""), "needs a text"),
        (("note", CLAUDE, "a\x1b[31m"), "U+001B"),
        (("note", CLAUDE, "x" * 10_001), "at most 10,000"),
        (("label", CLAUDE, " "), "needs a name"),
        (("score", CLAUDE, "q", "nan"), "a score is a number"),
        (("score", CLAUDE, "q", "much"), "VALUE"),
        (("sessions", "--score", "quality"), "no condition on a score"),
        (("sessions", "--score", "quality<much"), "no condition on a score"),
    ],
)
def test_what_is_wrong_is_said(program: Program, arguments: tuple[str, ...], problem: str) -> None:
    assert problem in program.run(*arguments, code=2).stderr
    program.run("note", "nothing-like-it", "x", code=1)
