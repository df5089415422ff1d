"""Files of changes: what is written of a store and imported is what the import of the store itself brings."""

from __future__ import annotations

import json
import random
import secrets
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
import zstandard
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner, Result

import clickhouse_on
from agenttrace.calendar import day_finder
from agenttrace.cli.errors import explained
from agenttrace.cli.program import app
from agenttrace.store import open_team_store
from agenttrace.store.rows import ChangesCursor, Row
from agenttrace.store.team import TeamStore
from agenttrace.team import changes_file, importing, wire
from agenttrace.team.changes_file import ChangesFile, ChangesWriter, Header
from agenttrace.team.file_import import Exported, export_store, import_file
from agenttrace.team.importing import Imported, NotImportableError, Source, import_store, sources
from faults.team_rig import Expected, Machine

from . import making

_DAY_OF = day_finder("UTC")
_CLICKHOUSE = pytest.mark.skipif(not clickhouse_on.has_clickhouse(), reason="needs chdb (make test-team)")
_ENGINES = [
    "sqlite",
    pytest.param("clickhouse", marks=[_CLICKHOUSE, pytest.mark.team, pytest.mark.xdist_group("clickhouse")]),
]


@pytest.fixture(params=_ENGINES)
def made(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], TeamStore]:
    """Makes empty stores of a team."""

    def store() -> TeamStore:
        name = secrets.token_hex(8)
        of_clickhouse = request.param == "clickhouse"
        target = (
            clickhouse_on.clickhouse_address(f"agenttrace_test_{name}") if of_clickhouse else tmp_path / f"{name}.db"
        )
        opened = open_team_store(target)
        request.addfinalizer(opened.close)
        return opened

    return store


@pytest.fixture
def team(tmp_path: Path) -> Iterator[TeamStore]:
    with open_team_store(tmp_path / "team.db") as store:
        yield store


@pytest.fixture(autouse=True)
def small_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importing, "PAGE_ROWS", 10)


@pytest.fixture
def desk(tmp_path: Path) -> Machine:
    found = Machine(tmp_path, "desk", 1)
    found.work(4)
    return found


def written(machine: Machine, path: Path) -> Path:
    """A file with everything of a machine's store."""
    assert isinstance(export_store(machine.home / "agenttrace.db", machine.name, path), Exported)
    return path


def from_file(team: TeamStore, path: Path, pages: int = 1000) -> Imported:
    """Import so many pages of a file at most."""
    (source,) = sources([path])
    left = iter(range(pages))
    person = f"person of {source.machine}"
    stop = lambda: next(left, None) is None  # noqa: E731
    return import_file(team, source, person=person, home=path.parent, day_of=_DAY_OF, stop=stop)


def from_store(team: TeamStore, machine: Machine) -> Imported:
    source = Source(path=machine.home / "agenttrace.db", machine=machine.name)
    return import_store(team, source, person=machine.person, day_of=_DAY_OF)


def all_rows(team: TeamStore) -> list[dict[str, Any]]:
    """Every row of a store; numbers that depend on when and under which name rows came are left out."""
    rows, page = list[dict[str, Any]](), team.changes_since(ChangesCursor(), 5000)
    while page.rows:
        rows += (msgspec.to_builtins(row) for row in page.rows)
        page = team.changes_since(page.cursor, 5000)
    for row in rows:
        for name in ("revision", "file_id", "number"):
            row.pop(name, None)
    return sorted(rows, key=lambda row: json.dumps(row, sort_keys=True))


def test_a_file_brings_what_its_store_does(made: Callable[[], TeamStore], desk: Machine, tmp_path: Path) -> None:
    """Row for row; the file is for its owner only, and any tool unpacks it."""
    path = written(desk, tmp_path / "desk.changes.zst")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    by_store, by_file = made(), made()
    assert from_store(by_store, desk).rows
    found = from_file(by_file, path)
    assert (found.machine, found.quarantined, found.problem) == ("desk", 0, None)
    assert all_rows(by_file) == all_rows(by_store) != []
    assert Expected([desk]).differences(by_file) == []
    with path.open("rb") as file, zstandard.ZstdDecompressor().stream_reader(file, read_across_frames=True) as reader:
        lines = reader.read().splitlines()
    assert json.loads(lines[0])["format"] == "agenttrace-changes"
    assert found.rows == json.loads(lines[-1])["rows"] == ChangesFile(path).expected_rows()


def test_files_and_their_store_continue_each_other(team: TeamStore, desk: Machine, tmp_path: Path) -> None:
    """In any order nothing is imported twice, and of a later file only what is new."""
    first = written(desk, tmp_path / "1.changes.zst")
    whole = from_file(team, first)
    assert from_file(team, first).known
    assert from_store(team, desk).known
    desk.work()
    assert 0 < from_file(team, written(desk, tmp_path / "2.changes.zst")).rows < whole.rows
    assert Expected([desk]).differences(team) == []
    desk.work()
    assert 0 < from_store(team, desk).rows < whole.rows
    assert from_file(team, written(desk, tmp_path / "3.changes.zst")).known
    assert Expected([desk]).differences(team) == []
    # An older file takes nothing away.
    from_file(team, first)
    assert Expected([desk]).differences(team) == []


def test_an_interrupted_import_goes_on(team: TeamStore, desk: Machine, tmp_path: Path) -> None:
    """The pages that were stored are not stored again."""
    path = written(desk, tmp_path / "desk.changes.zst")
    parts = [from_file(team, path, 3)]
    assert parts[0].problem == "interrupted"
    while not parts[-1].known:
        parts.append(from_file(team, path, 3))
    assert sum(each.rows for each in parts) == ChangesFile(path).expected_rows()
    assert Expected([desk]).differences(team) == []


@pytest.mark.parametrize("seed", range(8))
def test_what_is_damaged_is_listed_and_the_rest_taken(
    team: TeamStore, desk: Machine, tmp_path: Path, seed: int
) -> None:
    """Some bytes are others, missing, or too many: nothing fails, and a whole file makes good for it."""
    chance = random.Random(seed)
    whole = written(desk, tmp_path / "whole.changes.zst")
    data = bytearray(whole.read_bytes())
    place = chance.randrange(len(data) // 3, len(data) - 40)
    if seed % 4 == 0:
        del data[place:]
    elif seed % 4 == 1:
        data[place:place] = b'{"span_id":"of another program"}\n'
    elif seed % 4 == 2:
        del data[place : place + 60]
    else:
        data[place] ^= 0xFF
    damaged = tmp_path / "damaged.changes.zst"
    damaged.write_bytes(data)
    found = from_file(team, damaged)
    assert found.problem is None
    assert found.quarantined
    assert 0 < found.rows <= ChangesFile(whole).expected_rows()
    assert found.quarantine is not None
    listed = [json.loads(line) for line in Path(found.quarantine).read_text().splitlines()]
    assert listed[0] == {"file": str(damaged), "bad": found.quarantined}
    assert all(each["reason"] for each in listed[1:])
    again = from_file(team, damaged)
    assert (again.known, again.quarantined, again.quarantine) == (True, found.quarantined, found.quarantine)
    assert from_file(team, whole).rows
    assert Expected([desk]).differences(team) == []


def test_foreign_lines_are_quoted(
    team: TeamStore, desk: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A line that is no row, or one with a value that no store can hold, is left out; the lines around it are taken."""
    line = changes_file._line
    foreign = iter(
        [b'{"span_id":"00"}', b"no JSON", b'{"type":"link","session":-1,"stream":"","parent_stream":"","call":""}']
    )
    monkeypatch.setattr(changes_file, "_line", lambda row: next(foreign, None) or line(row))
    path = written(desk, tmp_path / "desk.changes.zst")
    found = from_file(team, path)
    assert (found.quarantined, found.rows) == (3, ChangesFile(path).expected_rows() - 3)
    listed = [json.loads(each) for each in Path(found.quarantine or "").read_text().splitlines()[1:]]
    assert [(each["line"], each["quoted"]) for each in listed][:2] == [(1, '{"span_id":"00"}'), (2, "no JSON")]


@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(pages=st.lists(st.lists(making.rows(states=st.just("ok")), max_size=6), max_size=4))
def test_all_rows_come_back(tmp_path: Path, pages: list[list[Row]]) -> None:
    """Whatever is in them, in the same pages; a row that no store could hold is a bad line."""
    path = tmp_path / "any.changes.zst"
    header = Header(format="agenttrace-changes", version=1, machine="m", mark="", created_at=1.0)
    with ChangesWriter(path, header) as writer:
        for number, rows in enumerate(pages, 1):
            writer.add(rows, ChangesCursor((-1, 0), (number, number)))
        writer.finish()
    found = list(ChangesFile(path).pages())
    assert [page.rows for page in found] == [list(filter(_can_be_stored, rows)) for rows in pages]
    assert [len(page.bad) for page in found] == [sum(not _can_be_stored(row) for row in rows) for rows in pages]
    assert [page.until and page.until.until[0] for page in found] == list(range(1, len(pages) + 1))


def _can_be_stored(row: Row) -> bool:
    try:
        wire.check_row(row)
    except wire.BadPageError:
        return False
    return True


def test_other_files_are_refused(desk: Machine, tmp_path: Path) -> None:
    """Files of other programs and of later versions, each with the reason."""
    other = tmp_path / "other.changes.zst"
    other.write_bytes(zstandard.compress(b"hello"))
    with pytest.raises(NotImportableError, match="no file of changes"):
        sources([tmp_path])
    header = ChangesFile(written(desk, other)).header
    for changed, problem in (({"version": 2}, "newer AgentTrace"), ({"format": "spans"}, "another kind")):
        with ChangesWriter(other, msgspec.structs.replace(header, **changed)) as writer:
            writer.finish()
        with pytest.raises(NotImportableError, match=problem):
            sources([other])


# -- the commands -------------------------------------------------------------------------------------------------


def call(home: Path, *words: str) -> Result:
    return CliRunner().invoke(app, ["team", *words], env={"AGENTTRACE_HOME": str(home)})


def test_a_directory_of_files_and_stores(tmp_path: Path) -> None:
    """Two files of one machine and the store of another one; the second time nothing is new."""
    desk, lap = (Machine(tmp_path / "machines", name, number) for number, name in enumerate(("desk", "lap"), 1))
    place = tmp_path / "history"
    place.mkdir()
    for number in (1, 2):
        desk.work(2)
        done = call(desk.home, "export", str(place / f"{number}.changes.zst"), "--machine", "desk", "--json")
        assert done.exit_code == 0, done.output
        assert json.loads(done.stdout)["rows"]
    lap.work(2)
    lap.home.rename(place / "lap")
    lap.home = place / "lap"
    done = call(tmp_path / "server", "import", str(place), "--json")
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)["machines"]
    assert sorted(each["machine"] for each in found) == ["desk", "desk", "lap"]
    with open_team_store(tmp_path / "server" / "team.db") as team:
        assert Expected([desk, lap]).differences(team) == []
    again = call(tmp_path / "server", "import", str(place))
    assert "lap: nothing new" in again.output
    assert call(tmp_path / "server", "import", str(place / "2.changes.zst")).output == "desk: nothing new\n"


def test_a_damaged_file_is_told(desk: Machine, tmp_path: Path) -> None:
    """The exit code says that something is missing, and the message where it is listed."""
    path = written(desk, tmp_path / "desk.changes.zst")
    path.write_bytes(path.read_bytes()[:-40])
    done = call(tmp_path / "server", "import", str(path))
    assert done.exit_code == 1
    assert "import-quarantine" in " ".join(done.output.split())


def test_what_cannot_be_exported(desk: Machine, tmp_path: Path) -> None:
    """A directory, and a store that is not there; no file is left."""
    for words, problem in (((str(tmp_path),), "is a directory"), ((str(tmp_path / "x.zst"),), "there is no store")):
        done = call(tmp_path / "nobody", "export", *words)
        known = explained(done.exception) if isinstance(done.exception, Exception) else None
        assert known is not None
        assert problem in known.problem
    stopped = export_store(desk.home / "agenttrace.db", "desk", tmp_path / "x.zst", stop=lambda: True)
    assert stopped is None
    assert not list(tmp_path.glob("x.zst*"))
