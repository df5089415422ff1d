"""``agenttrace share``."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from .conftest import CLAUDE, Program


def test_a_file(recorded: Program, tmp_path: Path) -> None:
    """A file of either format, chosen by its name or by --format; what is masked is said."""
    page = tmp_path / "a.html"
    told = recorded.run("share", CLAUDE[:8], "-o", str(page)).stdout
    assert "masked" in told
    assert str(page) in told
    text = page.read_text(encoding="utf-8")
    assert text.startswith("<!doctype html>")
    assert text.endswith("</html>\n")
    assert "SCENARIO parallel please" in text
    found = recorded.json("share", CLAUDE, "-o", str(tmp_path / "b.md"))
    assert (found["format"], found["bytes"]) == ("md", (tmp_path / "b.md").stat().st_size)
    assert (tmp_path / "b.md").read_text(encoding="utf-8").startswith("# ")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.html", "b.md"]


def test_default_name(recorded: Program, tmp_path: Path) -> None:
    """A directory gets a file that is named after the session; one with secrets is readable by its owner only."""
    found = recorded.json("share", CLAUDE, "-o", str(tmp_path), "--format", "markdown", "--with-secrets")
    path = Path(found["file"])
    assert path.parent == tmp_path
    assert path.name == f"claude-code-{CLAUDE}.md"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert found["masked"] == 0


def test_preview_writes_nothing(recorded: Program, tmp_path: Path) -> None:
    """A preview names what is masked and where, and leaves no file."""
    found = recorded.json("share", CLAUDE, "--preview", "--hide-paths", "-o", str(tmp_path / "a.html"))
    assert found["file"] is None
    assert found["kinds"]["user"] > 0
    assert found["places"]
    told = recorded.run("share", CLAUDE, "--preview", "--hide-paths")
    assert "[masked:user]" in told.stdout
    assert "Nothing was written" in told.stderr
    assert list(tmp_path.iterdir()) == []


def test_stdout(recorded: Program) -> None:
    """The file goes to stdout, and nothing else does."""
    told = recorded.run("share", CLAUDE, "--format", "markdown", "--no-tools", "-o", "-").stdout
    assert told.startswith("# ")
    assert "<summary><b>" not in told
    assert told.endswith("Recorded by AgentTrace.\n")


@pytest.mark.parametrize(
    ("arguments", "code", "word"),
    [
        (("none",), 1, "no session"),
        ((CLAUDE, "-o", "-", "--json"), 2, "stdout"),
        ((CLAUDE, "-o", "/no/such/directory/a.html"), 1, "cannot write"),
    ],
)
def test_refused(recorded: Program, arguments: tuple[str, ...], code: int, word: str) -> None:
    """What cannot be done is said in a sentence."""
    assert word in recorded.run("share", *arguments, code=code).stderr
