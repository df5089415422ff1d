"""``agenttrace team import``: what it prints, and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from agenttrace.cli.errors import INTERRUPTED, USAGE, explained
from agenttrace.cli.program import app
from agenttrace.store import open_team_store
from agenttrace.team import importing
from faults.team_rig import Expected, Machine


def call(home: Path, *words: str) -> Result:
    return CliRunner().invoke(app, ["team", "import", *words], env={"AGENTTRACE_HOME": str(home)})


@pytest.fixture
def machines(tmp_path: Path) -> list[Machine]:
    made = [Machine(tmp_path / "stores", name, number) for number, name in enumerate(("desk", "lap"), 1)]
    for machine in made:
        machine.work(2)
    return made


def test_a_directory_of_stores_is_imported(tmp_path: Path, machines: list[Machine]) -> None:
    """The team's store is that of the server where none is named; the second time nothing is new."""
    home = tmp_path / "server"
    first = call(home, str(tmp_path / "stores"), "--person", "amy", "--json")
    assert first.exit_code == 0, first.output
    found = json.loads(first.stdout)
    assert [(each["machine"], each["known"], each["problem"]) for each in found["machines"]] == [
        ("desk", False, None),
        ("lap", False, None),
    ]
    with open_team_store(home / "team.db") as team:
        assert Expected(machines).differences(team) == []
        assert {session.person for session in team.sessions()} == {"amy"}
        assert team.search_index.backlog == 0
    again = call(home, str(tmp_path / "stores"))
    assert again.output.splitlines() == ["desk: nothing new", "lap: nothing new"]


def test_a_damaged_store_does_not_hold_up_others(tmp_path: Path, machines: list[Machine]) -> None:
    """It is named with the reason, and the exit code says that something is missing."""
    (machines[0].home / "agenttrace.db").write_bytes(b"SQLite format 3\0" + b"x" * 5000)
    done = call(tmp_path / "server", str(tmp_path / "stores"), "--store", str(tmp_path / "t.db"), "--json")
    assert done.exit_code == 1
    desk, lap = json.loads(done.stdout)["machines"]
    assert "damaged" in desk["problem"] or "not a database" in desk["problem"]
    assert lap["rows"]
    assert lap["problem"] is None


def test_what_cannot_be_imported_is_a_wrong_argument(tmp_path: Path) -> None:
    """The reason and what to do instead are told."""
    (tmp_path / "spans-2026-11-15.jsonl").write_text("{}\n")
    done = call(tmp_path / "server", str(tmp_path / "spans-2026-11-15.jsonl"))
    assert isinstance(done.exception, Exception)
    known = explained(done.exception)
    assert known is not None
    assert known.code == USAGE
    assert "exported spans" in known.problem
    assert "agenttrace record --once" in known.fix


def test_an_interrupted_import_says_so(
    tmp_path: Path, machines: list[Machine], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C ends it after the page that is being stored; the next one goes on from there."""
    import os
    import signal

    monkeypatch.setattr(importing, "PAGE_ROWS", 10)
    take = importing._Import.next

    def interrupted(self: importing._Import, day_of: object) -> tuple[int, int] | None:
        os.kill(os.getpid(), signal.SIGINT)
        return take(self, day_of)  # type: ignore[arg-type]

    monkeypatch.setattr(importing._Import, "next", interrupted)
    done = call(tmp_path / "server", str(tmp_path / "stores"), "--json")
    assert done.exit_code == INTERRUPTED
    (desk,) = json.loads(done.stdout)["machines"]
    assert desk["problem"] == "interrupted"
    assert 0 < desk["rows"] < 30
    monkeypatch.setattr(importing._Import, "next", take)
    assert call(tmp_path / "server", str(tmp_path / "stores")).exit_code == 0
    with open_team_store(tmp_path / "server" / "team.db") as team:
        assert Expected(machines).differences(team) == []
