"""Importing the stores of machines into the store of a team."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from agenttrace.calendar import day_finder
from agenttrace.store import open_team_store
from agenttrace.store.questions import UsageQuery
from agenttrace.store.rows import ChangesCursor
from agenttrace.store.sqlite.database import statements
from agenttrace.store.sqlite.schema import MIGRATIONS
from agenttrace.store.sqlite.store import SqliteStore
from agenttrace.store.team import Page, TeamStore
from agenttrace.team import importing
from agenttrace.team.importing import (
    Imported,
    NotImportableError,
    Source,
    import_store,
    opened,
    rows_to_import,
    sources,
)
from faults.team_rig import Expected, Machine

_DAY_OF = day_finder("UTC")


@pytest.fixture
def team(tmp_path: Path) -> Iterator[TeamStore]:
    with open_team_store(tmp_path / "team.db") as store:
        yield store


@pytest.fixture
def desk(tmp_path: Path) -> Machine:
    made = Machine(tmp_path, "desk", 1)
    made.work(4)
    return made


def source_of(machine: Machine) -> Source:
    return Source(path=machine.home / "agenttrace.db", machine=machine.name)


def imported(team: TeamStore, machine: Machine, pages: int = 1000) -> Imported:
    """Import so many pages at most."""
    left = iter(range(pages))
    return import_store(
        team, source_of(machine), person=machine.person, day_of=_DAY_OF, stop=lambda: next(left, None) is None
    )


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("amy-laptop/agenttrace.db", "amy-laptop"),
        ("amy-laptop/.agenttrace/agenttrace.db", "amy-laptop"),
        ("amy-laptop/.local/share/agenttrace/agenttrace.db", "amy-laptop"),
        ("amy laptop/agenttrace.db", "amy-laptop"),
        ("agenttrace.db", "stores"),
        (".agenttrace/agenttrace.db", "stores"),
    ],
)
def test_directories_name_the_machines(tmp_path: Path, path: str, name: str) -> None:
    """The first directory below the given one that is not a plain place is the machine."""
    place = tmp_path / "stores" / path
    place.parent.mkdir(parents=True)
    place.write_bytes(b"SQLite format 3\0")
    assert sources([tmp_path / "stores"]) == [Source(path=place, machine=name)]
    assert sources([place], "other")[0].machine == "other"


def test_two_stores_of_one_name_are_refused(tmp_path: Path) -> None:
    """Which store is whose cannot be guessed; neither can one name be for several stores."""
    for name in ("a/lap", "b/lap"):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "agenttrace.db").touch()
    paths = [tmp_path / "a" / "lap", tmp_path / "b" / "lap"]
    with pytest.raises(NotImportableError, match="would both be the machine lap"):
        sources(paths)
    with pytest.raises(NotImportableError, match="names one machine"):
        sources(paths, "lap")


@pytest.mark.parametrize(
    ("name", "content", "problem"),
    [
        ("spans-2026-11-15.jsonl", b'{"span_id":"00"}\n', "exported spans"),
        ("spans.parquet", b"PAR1", "exported spans"),
        ("notes.txt", b"hello", "no agenttrace.db"),
    ],
)
def test_files_that_hold_too_little_are_refused(tmp_path: Path, name: str, content: bytes, problem: str) -> None:
    """Exports have no lines and no keys of responses; the reason is told."""
    (tmp_path / name).write_bytes(content)
    with pytest.raises(NotImportableError, match=problem):
        sources([tmp_path])
    with pytest.raises(NotImportableError, match=r"exported spans|not a store"):
        sources([tmp_path / name])
    with pytest.raises(NotImportableError, match="does not exist"):
        sources([tmp_path / "other"])


def test_an_import_brings_what_is_new(team: TeamStore, desk: Machine) -> None:
    """The second import of a store brings nothing, a later one what was recorded since."""
    first = imported(team, desk)
    assert first.rows
    assert first.events
    assert Expected([desk]).differences(team) == []
    again = imported(team, desk)
    assert (again.rows, again.known) == (0, True)
    desk.work()
    assert 0 < rows_to_import(team, [source_of(desk)]) <= imported(team, desk).rows < first.rows
    assert Expected([desk]).differences(team) == []


def test_an_interrupted_import_goes_on(team: TeamStore, desk: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was stored of a store is not sent again."""
    monkeypatch.setattr(importing, "PAGE_ROWS", 10)
    with desk.store() as store:
        rows = len(store.changes_since(limit=10_000).rows)
    parts = [imported(team, desk, 3)]
    assert parts[0].problem == "interrupted"
    while not parts[-1].known:
        parts.append(imported(team, desk, 3))
    # The file of lines is told on each page of it.
    assert rows <= sum(part.rows for part in parts) <= rows + 3 * len(parts)
    assert Expected([desk]).differences(team) == []


def test_a_backup_begins_anew(team: TeamStore, desk: Machine) -> None:
    """A store that went on differently since it was copied is imported as a whole."""
    backup = desk.back_up()
    desk.work(3)
    imported(team, desk)
    desk.restore(backup, sent=True)
    desk.work(5)
    assert imported(team, desk).rows
    assert Expected([desk]).differences(team) == []


def test_a_machine_that_joins_later_is_not_there_twice(team: TeamStore, desk: Machine) -> None:
    """It pushes all of its sessions, in a store of another name: they are those that were imported."""
    imported(team, desk)
    before = (len(team.sessions()), team.usage(UsageQuery()))
    with desk.store() as store:
        found = store.changes_since(limit=10_000)
    page = Page(machine="desk", person="amy", store="joined", after=ChangesCursor(), until=found.cursor)
    team.take(found.rows, page, day_of=_DAY_OF)
    assert (len(team.sessions()), team.usage(UsageQuery())) == before
    assert [(each.machine, each.sessions) for each in team.machines()] == [("desk", before[0])]
    # Under another name as well: its sessions are copies.
    page = Page(machine="laptop", person="amy", store="joined", after=ChangesCursor(), until=found.cursor)
    team.take(found.rows, page, day_of=_DAY_OF)
    assert (len(team.sessions()), team.usage(UsageQuery())) == before


def test_a_store_of_an_older_version_is_upgraded_in_a_copy(tmp_path: Path) -> None:
    """The file itself stays as it was."""
    path = tmp_path / "agenttrace.db"
    connection = sqlite3.connect(path)
    for script in MIGRATIONS[:-2]:
        for statement in statements(script):
            connection.execute(statement)
    connection.execute(f"PRAGMA user_version = {len(MIGRATIONS) - 2}")
    connection.commit()
    connection.close()
    before = path.read_bytes()
    with opened(path) as store:
        assert store.sessions() == []
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_a_copy_without_its_log_is_read(team: TeamStore, desk: Machine, tmp_path: Path) -> None:
    """A store that was copied with its write-ahead log is whole; one that is damaged says so."""
    with SqliteStore.open(desk.home / "agenttrace.db", read_only=False) as store:
        wal = desk.home / "agenttrace.db-wal"
        store.connection.execute("CREATE TABLE note (a)")
        target = tmp_path / "copied" / "lap"
        target.mkdir(parents=True)
        for path in (desk.home / "agenttrace.db", wal):
            shutil.copyfile(path, target / path.name)
    (found,) = sources([tmp_path / "copied"])
    outcome = import_store(team, found, person="", day_of=_DAY_OF)
    assert (outcome.machine, outcome.known) == ("lap", False)
