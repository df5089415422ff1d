"""``agenttrace outcomes``."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from .conftest import DATA, Program


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Program:
    user = tmp_path_factory.mktemp("user")
    made = Program(user)
    # Not inside a repository, and not in one of this project.
    shutil.copytree(DATA / "aider-0.86.2" / "project", user / "project")
    made.run("record", "--once", str(user / "project"), str(DATA / "claude-code-2.1.325" / "projects"))
    return made


def test_one_session(program: Program) -> None:
    found = program.json("outcomes", "feedbd99")
    assert [(file["path"], file["added"], file["removed"]) for file in found["files"]] == [("app.py", 1, 1)]
    assert found["files"][0]["known_from"] == ["tool call"]
    assert "app.py" in program.run("outcomes", "feedbd99").stdout
    assert "Nothing came of" in program.run("outcomes", "b341ac93").stderr


def test_the_edits_as_a_patch(program: Program, tmp_path: Path) -> None:
    """The patch of a real session makes of the file before the one after; one file can be asked for alone."""
    (tmp_path / "app.py").write_text("def add(a, b):\n    return a - b\n\n\nprint(add(2, 3))\n")
    patch = program.run("outcomes", "feedbd99", "--patch").stdout
    subprocess.run(["git", "apply", "-"], cwd=tmp_path, input=patch.encode(), check=True)
    assert "return a + b" in (tmp_path / "app.py").read_text()
    assert program.run("outcomes", "feedbd99", "--patch", "--path", "app.py").stdout == patch
    found = program.json("outcomes", "feedbd99", "--path", "app.py")
    assert [edit["numbered"] for edit in found["files"][0]["edits"]] == [True]
    assert "did not change b.py" in program.run("outcomes", "feedbd99", "--patch", "--path", "b.py").stderr
    assert "of one session" in program.run("outcomes", "--patch", code=2).stderr


def test_the_list_has_the_figures_of_all(program: Program) -> None:
    rows = program.json("outcomes")
    assert len(rows) == len(program.json("sessions"))
    assert sum(row["commits"] for row in rows) == 1
    assert sum(row["files"] for row in rows) == 2
    lines = {row["agent"]: row["added"] for row in rows if row["files"]}
    assert lines == {"claude-code": 1, "aider": None}
    assert {row["commits_kept"] for row in rows} == {None}
    assert "Next: agenttrace outcomes SESSION" in program.run("outcomes", "--limit", "3").stderr
    assert program.json("outcomes", "--project", "claude-work", "--agent", "aider") == []


def test_a_list_does_not_call_unknown_outcomes_none(tmp_path: Path) -> None:
    """Sessions that were not examined yet have a question mark; where all are like that, the columns are left out."""
    made = Program(tmp_path)
    logs = [DATA / "claude-code-2.1.325" / "projects", DATA / "pi-0.87.1" / ".pi"]
    made.run("record", "--once", str(logs[0]))
    header = made.run("sessions", env={"COLUMNS": "200"}).stdout.splitlines()[0].split()
    assert "title" in header
    assert not {"changes", "commits", "PRs", "tests"} & set(header)
    made.run("record", "--once", "--index")
    made.run("record", "--once", str(logs[1]))
    rows = made.run("sessions", "--limit", "0", env={"COLUMNS": "200"}).stdout.splitlines()[2:]
    unknown = {row.split()[1]: row.count(" ? ") for row in rows}
    assert unknown == {"claude-code": 0, "pi": 4}


def test_lists_have_pull_requests_and_tests_and_can_be_filtered(tmp_path: Path) -> None:
    """As columns where there is room; by every outcome that is stored, and of the other it is said why not."""
    made = Program(tmp_path)
    made.run("record", "--once", "--index", str(_log_of_commands(tmp_path)))
    (row,) = made.json("sessions", "--with", "failed_tests")
    assert (row["outcomes"]["pull_requests"], row["outcomes"]["tests_failed"]) == (1, 1)
    lines = made.run("sessions", env={"COLUMNS": "200"}).stdout.splitlines()
    assert lines[0].split()[-3:] == ["PRs", "tests", "cost"]
    assert "1  3 ok, 1 failed" in lines[2]
    assert "PRs" not in made.run("sessions", env={"COLUMNS": "80"}).stdout
    assert [found["tests_failed"] for found in made.json("outcomes", "--with", "failed_tests")] == [1]
    assert made.json("outcomes", "--with", "commits") == []
    assert made.json("outcomes", "--with", "commits", "--by", "agent") == []
    for command in ("sessions", "outcomes"):
        refused = made.run(command, "--with", "kept", code=2).stderr
        assert "is not stored" in " ".join(refused.replace("│", " ").split())
        assert "failed_tests" in made.run(command, "--with", "else", code=2).stderr


def _log_of_commands(folder: Path) -> Path:
    """A session that ran tests and made a pull request."""
    outputs = ("===== 1 failed, 3 passed in 0.10s =====", "https://github.com/shop/web/pull/7")
    commands = ("pytest", "gh pr create --fill")
    lines: list[dict[str, object]] = [{"v": 1, "session": "s1", "type": "turn.begin", "ts": 1_794_732_814, "turn": 1}]
    for number, (command, output) in enumerate(zip(commands, outputs, strict=True)):
        about = {"v": 1, "session": "s1", "turn": 1, "step": 1, "id": f"c{number}", "ts": 1_794_732_815 + number}
        lines.append({**about, "type": "tool.begin", "name": "shell", "arguments": {"command": command}})
        lines.append({**about, "type": "tool.end", "status": "ok", "result": output})
    log = folder / "logs" / "s1.jsonl"
    log.parent.mkdir()
    log.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return log


def test_the_cost_of_a_commit(program: Program) -> None:
    groups = {group["agent"]: group for group in program.json("outcomes", "--by", "agent")}
    assert groups["claude-code"]["cost_per_commit"] is None
    aider = groups["aider"]
    assert aider["cost_per_commit"] == {"USD": pytest.approx(aider["cost"])}
    by_month = program.json("outcomes", "--by", "month")
    assert sum(group["sessions"] for group in by_month) == len(program.json("sessions"))
    assert "per commit" in program.run("outcomes", "--by", "project").stdout


def test_usage_with_the_cost_of_a_commit(program: Program) -> None:
    plain = program.json("usage", "--by", "agent")
    found = program.json("usage", "--by", "agent", "--commits")
    rows = {row["agent"]: row for row in found["rows"]}
    assert {row["agent"]: (row["commits"], row["known_from"]) for row in found["rows"]} == {
        "aider": (1, ["log"]),
        "claude-code": (0, ["tool call"]),
    }
    assert rows["aider"]["cost_per_commit"] == {"USD": pytest.approx(rows["aider"]["cost"])}
    assert rows["claude-code"]["cost_per_commit"] == {}
    assert (rows["claude-code"]["added"], rows["aider"]["added"]) == (1, None)
    assert found["total"]["commits"] == 1
    assert [set(row) for row in plain["rows"]] == [set(row) - set(EXTRA) for row in found["rows"]]
    shown = program.run("usage", "--by", "agent", "--commits")
    assert "per commit" in shown.stdout
    assert "known from: log, tool call" in shown.stderr


EXTRA = ("commits", "added", "removed", "cost_per_commit", "known_from")


def test_sessions_with_commits(program: Program) -> None:
    """Whether or not the background has examined them."""
    before = program.json("sessions", "--with-commits")
    assert [(session["agent"], session["commits"]) for session in before] == [("aider", 1)]
    program.run("record", "--once", "--index", str(DATA / "claude-code-2.1.325" / "projects"))
    assert program.json("sessions", "--with-commits") == before
    assert "commits" in program.run("sessions", "--with-commits").stdout


def test_sessions_with_other_outcomes(program: Program) -> None:
    found = program.json("sessions", "--with", "files")
    assert {session["agent"]: session["outcomes"]["added"] for session in found} == {"aider": None, "claude-code": 1}
    assert program.json("sessions", "--with", "tests", "--with-commits") == []
    assert "not one of" in program.run("sessions", "--with", "fame", code=2).stderr
    fields = program.json("sessions", "--limit", "1")[0]
    assert "outcomes" in fields
    shown = program.run("sessions", "--with", "files", env={"COLUMNS": "200"}).stdout
    assert "+1 -1" in shown


def test_a_session_and_filters_do_not_go_together(program: Program) -> None:
    assert "do not go together" in program.run("outcomes", "feedbd99", "--by", "month", code=2).stderr
    program.run("outcomes", "nothing", code=1)


def test_nothing_recorded(tmp_path: Path) -> None:
    assert "nothing recorded" in Program(tmp_path).run("outcomes", code=1).stderr
