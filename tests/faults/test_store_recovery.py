"""A damaged store: moved aside whole, and everything that can be had from the logs or from itself is there again."""

from __future__ import annotations

import os
import random
import shutil
import sqlite3
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from agenttrace.record.files import reader
from agenttrace.record.recovery import Recovery, recover
from agenttrace.store.annotations import NewAnnotation
from agenttrace.store.errors import CorruptStoreError
from agenttrace.store.questions import SearchQuery
from agenttrace.store.sqlite.database import connect, is_corruption
from agenttrace.store.sqlite.replacement import WORKSHOP, finish_interrupted
from agenttrace.store.sqlite.retention import Retention
from agenttrace.store.sqlite.schema import PAGE_SIZE
from agenttrace.store.sqlite.store import SqliteStore
from faults.store_rig import Rows, Writer, differences, record_once, recorder, rows, run, write_logs

Damage = Callable[[Path], None]


@pytest.fixture(autouse=True)
def _small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many blocks of a few lines each, so that damage hits some and not all."""
    monkeypatch.setattr(reader, "CHUNK_BYTES", 20_000)


class Scene:
    """Logs, a store of them, and how an undisturbed one looks."""

    def __init__(self, root: Path) -> None:
        self.home, self.logs = root / "home", root / "logs"
        self.store = self.home / "agenttrace.db"
        write_logs(self.logs, seed=8, turns=20, sessions=3)
        record_once(self.home, self.logs)
        self.expected = rows(self.home)

    def listing(self) -> list[str]:
        """The log files that are there."""
        return [str(path) for path in self.logs.rglob("*.jsonl")]

    def main_logs(self) -> list[Path]:
        """The main logs of the Claude sessions, oldest first."""
        return sorted(self.logs.glob("projects/*/*.jsonl"), key=lambda path: path.stat().st_mtime)

    def recover_and_record(self) -> tuple[Recovery, Rows]:
        report = recover(self.home, logs=self.listing())
        record_once(self.home, self.logs)
        return report, rows(self.home)

    def pages(self) -> int:
        return self.store.stat().st_size // PAGE_SIZE

    def root_of(self, table: str) -> int:
        """The first page of a table, counted from 0."""
        connection = sqlite3.connect(self.store)
        page = connection.execute("SELECT rootpage FROM sqlite_schema WHERE name = ?", (table,)).fetchone()[0]
        connection.close()
        return int(page) - 1


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path)


def overwrite(path: Path, place: int, data: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(place)
        file.write(data)


def noise(size: int) -> bytes:
    return random.Random(size).randbytes(size)


def zero_page(number: int) -> Damage:
    return lambda store: overwrite(store, number * PAGE_SIZE, bytes(PAGE_SIZE))


def cut_off(share: float) -> Damage:
    return lambda store: os.truncate(store, int(store.stat().st_size * share))


def several_pages(store: Path) -> None:
    for number in (4, 12, 20, 28, 36):
        zero_page(number)(store)


def replaced_by(data: bytes) -> Damage:
    def damage(store: Path) -> None:
        store.write_bytes(data)

    return damage


DAMAGES: dict[str, Damage] = {
    "corrupt header": lambda store: overwrite(store, 0, noise(100)),
    "corrupt first page": lambda store: overwrite(store, 0, noise(PAGE_SIZE)),
    "zeroed first page": zero_page(0),
    "zeroed page of files": zero_page(3),
    "zeroed page in the middle": zero_page(25),
    "zeroed page near the end": zero_page(40),
    "several pages": several_pages,
    "cut off in the middle": cut_off(0.5),
    "cut off early": cut_off(0.1),
    "cut off inside a page": cut_off(0.97),
    "garbage": replaced_by(noise(300_000)),
    "text": replaced_by(b"not a store at all\n" * 1000),
    "version lost": lambda store: overwrite(store, 60, bytes(4)),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_with_its_logs_nothing_is_lost(scene: Scene, damage: str) -> None:
    """Whatever happened to the store: after recovery and one recording it is that of an undisturbed import."""
    DAMAGES[damage](scene.store)
    broken = scene.store.read_bytes()
    report, found = scene.recover_and_record()
    assert differences(found, scene.expected) == {}
    assert report.damaged.read_bytes() == broken
    assert not (scene.home / WORKSHOP).exists()


@pytest.mark.parametrize("damage", ["corrupt header", "corrupt first page", "version lost"])
def test_sessions_whose_logs_are_gone_survive(scene: Scene, damage: str) -> None:
    """The agent deleted its logs, then the store was damaged: while the raw lines are readable, all is there."""
    gone = [*scene.main_logs()[::2], scene.logs / "own.jsonl", *scene.logs.glob("codex/*")]
    for log in gone:
        log.unlink()
    DAMAGES[damage](scene.store)
    report, found = scene.recover_and_record()
    assert differences(found, scene.expected) == {}
    assert (report.files_gone, report.blocks_lost) == (len(gone), 0)
    assert report.lines > 0


@pytest.mark.parametrize("share", [0.3, 0.5, 0.8])
def test_what_cannot_be_read_is_counted(scene: Scene, share: float) -> None:
    """Lost lines belong to logs that are gone, the report names their blocks, nothing is made up, costs stay."""
    kept = scene.logs / "own.jsonl"
    for log in scene.logs.rglob("*.jsonl"):
        if log != kept:
            log.unlink()
    raw_pages = leaves_of(scene, "raw_blocks")
    for page in raw_pages[: max(1, int(len(raw_pages) * share))]:
        zero_page(page)(scene.store)
    report, found = scene.recover_and_record()
    lost = Counter(scene.expected["raw lines"]) - Counter(found["raw lines"])
    assert lost
    assert not Counter(found["raw lines"]) - Counter(scene.expected["raw lines"])
    assert report.blocks_lost > 0
    assert f"Lost: {report.blocks_lost} blocks" in " ".join(report.told())
    assert not report.tables["raw_blocks"].complete
    assert tokens(found) == tokens(scene.expected)


def leaves_of(scene: Scene, table: str) -> list[int]:
    """Pages of a table that are not its root, counted from 0."""
    connection = sqlite3.connect(scene.store)
    query = "SELECT pageno FROM dbstat WHERE name = ? AND pagetype = 'leaf' ORDER BY pageno"
    try:
        return [row[0] - 1 for row in connection.execute(query, (table,))]
    except sqlite3.OperationalError:
        pytest.skip("this SQLite does not tell which page is whose")
    finally:
        connection.close()


def tokens(of: Rows) -> Counter[tuple[object, ...]]:
    """What each session used of each model on each day."""
    return Counter((row[:4], row[7:]) for row in of["usage_rollup"])


def test_a_file_that_comes_back(scene: Scene) -> None:
    """A log that was gone while its lines were lost is read from its start when it turns up again."""
    log = scene.main_logs()[0]
    aside = log.with_suffix(".aside")
    log.rename(aside)
    for page in leaves_of(scene, "raw_blocks"):
        zero_page(page)(scene.store)
    report, _ = scene.recover_and_record()
    assert report.blocks_lost > 0
    aside.rename(log)
    record_once(scene.home, scene.logs)
    found = rows(scene.home)
    assert found["raw lines"] == scene.expected["raw lines"]
    assert tokens(found) == tokens(scene.expected)


def test_rows_of_files_are_lost(scene: Scene) -> None:
    """Without its row a file is known by an index, its lines by their content: the sessions are all there."""
    for log in scene.main_logs()[::2]:
        log.unlink()
    zero_page(scene.root_of("file_offsets"))(scene.store)
    report, found = scene.recover_and_record()
    assert not report.tables["file_offsets"].complete
    for table in ("processed_events", "spans", "sessions", "responses", "raw lines"):
        assert differences({table: found[table]}, {table: scene.expected[table]}) == {}, table


def test_lines_of_earlier_generations_survive(scene: Scene) -> None:
    """A log that was rewritten still has its old lines in the store, and only there."""
    log = scene.main_logs()[0]
    session = log.stem
    log.write_bytes(b"".join(line for _ in range(3) for line in Writer(99).claude_turn(session)))
    record_once(scene.home, scene.logs)
    expected = rows(scene.home)
    assert len(expected["raw lines"]) > len(scene.expected["raw lines"])
    DAMAGES["corrupt header"](scene.store)
    _, found = scene.recover_and_record()
    # A file's row counts over all its generations; what of that was the last one's is not known.
    assert differences(found, expected).keys() <= {"file_offsets"}


# -- what the logs cannot give ------------------------------------------------------------------------------------


def test_what_other_versions_keep_in_the_store(scene: Scene) -> None:
    """Notes and export ledgers of other versions are copied as they are, indexes included."""
    connection = connect(scene.store)
    connection.execute("CREATE TABLE export_ledger (span_id BLOB PRIMARY KEY, destination TEXT NOT NULL, sent_at REAL)")
    connection.execute("CREATE INDEX export_ledger_sent ON export_ledger (sent_at)")
    ledger = [(bytes([number]) * 8, "langfuse", float(number)) for number in range(50)]
    connection.executemany("INSERT INTO export_ledger VALUES (?, ?, ?)", ledger)
    connection.execute("INSERT INTO meta VALUES ('mine', 'too')")
    counters = connection.execute("SELECT * FROM counters").fetchall()
    connection.close()
    DAMAGES["corrupt header"](scene.store)
    recover(scene.home, logs=scene.listing())
    connection = connect(scene.store, read_only=True)
    assert connection.execute("SELECT * FROM export_ledger").fetchall() == ledger
    plan = connection.execute("EXPLAIN QUERY PLAN SELECT 1 FROM export_ledger WHERE sent_at = 1").fetchone()
    assert "export_ledger_sent" in plan[3]
    assert connection.execute("SELECT value FROM meta WHERE key = 'mine'").fetchone() == ("too",)
    assert connection.execute("SELECT * FROM counters").fetchall() == counters
    connection.close()


def test_annotations_are_copied_and_found(scene: Scene) -> None:
    """What people wrote beside sessions is in no log: it is copied, and its words are indexed again."""
    with SqliteStore.open(scene.store, read_only=False) as store:
        number = store.sessions()[0].id
        for text in ("a note to keep", "another one"):
            store.annotation_table.put(
                NewAnnotation(session=number, kind="note", source="person", author="ann", text=text)
            )
        store.annotation_table.remove(store.annotations([number])[number][1].annotation_id)
        before = store.annotations([number])
    DAMAGES["corrupt header"](scene.store)
    scene.recover_and_record()
    with SqliteStore.open(scene.store) as store:
        assert store.annotations([number]) == before
        assert [each.text for _, each in store.search_annotations(SearchQuery(text="note"))] == ["a note to keep"]
        assert store.search_annotations(SearchQuery(text="another")) == []


def test_pruned_sessions_stay_pruned(scene: Scene) -> None:
    """Their lines do not come back from the logs that still hold them, and their cost is not forgotten."""
    connection = connect(scene.store)
    assert Retention(connection).prune(time.time() + 1e9).sessions > 0
    connection.close()
    expected = rows(scene.home)
    DAMAGES["corrupt header"](scene.store)
    report, found = scene.recover_and_record()
    assert found["raw lines"] == []
    assert report.tables["processed_events (pruned)"].rows == len(expected["processed_events"])
    for table in ("processed_events", "responses", "usage_rollup", "pruned", "spans"):
        assert differences({table: found[table]}, {table: expected[table]}) == {}, table
    assert {row[2] for row in found["sessions"]} == {row[2] for row in expected["sessions"]}


def test_quarantined_lines(scene: Scene) -> None:
    """Those of logs that are gone, and those that were dealt with, are kept; the others are found again, once."""
    connection = connect(scene.store)
    connection.execute("UPDATE quarantine SET resolved_at = 5 WHERE quarantine_id % 2")
    connection.close()
    expected = rows(scene.home)["quarantine"]
    (scene.logs / "own.jsonl").unlink()
    DAMAGES["corrupt header"](scene.store)
    _, found = scene.recover_and_record()
    assert found["quarantine"] == expected


def test_a_log_that_nobody_is_going_to_read(scene: Scene) -> None:
    """A file imported once from somewhere else is still there, but not in the listing: the store gives its lines."""
    other = scene.logs.parent / "elsewhere" / "backup.jsonl"
    other.parent.mkdir()
    shutil.copy(scene.logs / "own.jsonl", other)
    other.write_bytes(other.read_bytes().replace(b'"own-', b'"backup-'))
    record_once(scene.home, other)
    expected = rows(scene.home)
    DAMAGES["corrupt header"](scene.store)
    _, found = scene.recover_and_record()
    assert differences(found, expected) == {}


# -- the write-ahead log ------------------------------------------------------------------------------------------


@pytest.fixture
def crashed(scene: Scene, tmp_path: Path) -> Scene:
    """A store whose last batches are in the write-ahead log, as a killed recorder leaves it."""
    home = tmp_path / "running"
    with recorder(home, scene.logs) as made:
        made.run_once()
        for suffix in ("", "-wal", "-shm"):
            shutil.copy(home / f"agenttrace.db{suffix}", scene.home / f"agenttrace.db{suffix}")
    return scene


@pytest.mark.parametrize("place", [0.0, 0.3, 0.6, 0.99])
def test_a_damaged_write_ahead_log(crashed: Scene, place: float) -> None:
    """Batches behind the damage never happened: the logs are read on from where the readable rest ends."""
    log = crashed.home / "agenttrace.db-wal"
    size = log.stat().st_size
    assert size > 10 * PAGE_SIZE
    overwrite(log, int(size * place), noise(5_000)[: max(1, size - int(size * place))])
    record_once(crashed.home, crashed.logs)
    assert differences(rows(crashed.home), crashed.expected) == {}


def test_a_store_that_is_damaged_under_its_write_ahead_log(crashed: Scene) -> None:
    """What only the write-ahead log holds is saved too, and both are moved aside unchanged."""
    crashed.main_logs()[0].unlink()
    DAMAGES["corrupt header"](crashed.store)
    broken = {suffix: (crashed.home / f"agenttrace.db{suffix}").read_bytes() for suffix in ("", "-wal")}
    report, found = crashed.recover_and_record()
    assert differences(found, crashed.expected) == {}
    for suffix, data in broken.items():
        assert report.damaged.with_name(report.damaged.name + suffix).read_bytes() == data


# -- when and how it is called ------------------------------------------------------------------------------------


@pytest.mark.parametrize("damage", ["corrupt header", "garbage", "version lost", "cut off in the middle"])
def test_opening_a_damaged_store_says_so(scene: Scene, damage: str) -> None:
    """``connect`` tells damage from everything else, so that recovery is begun for nothing else."""
    DAMAGES[damage](scene.store)
    with pytest.raises(CorruptStoreError):
        connect(scene.store)


def test_damage_that_shows_while_recording(scene: Scene) -> None:
    """A page in the middle is found when it is touched: recording stops with an error that is known for what it is."""
    for page in leaves_of(scene, "idx_session"):
        zero_page(page)(scene.store)
    with (scene.logs / "own.jsonl").open("ab") as file:
        file.write(b"".join(Writer(77).own_turn("own-1")))
    with recorder(scene.home, scene.logs) as made, pytest.raises(sqlite3.DatabaseError) as error:
        made.run_once()
    assert is_corruption(error.value)
    _, found = scene.recover_and_record()
    record_once(scene.home.with_name("undisturbed"), scene.logs)
    assert differences(found, rows(scene.home.with_name("undisturbed"))) == {}


@pytest.mark.parametrize("damage", ["corrupt header", "garbage", "the index it needs"])
def test_the_command_recovers_by_itself(scene: Scene, damage: str) -> None:
    """``record --once`` on a damaged store says what it did, and ends as if nothing had happened."""
    if damage in DAMAGES:
        DAMAGES[damage](scene.store)
    else:
        for page in leaves_of(scene, "idx_session"):
            zero_page(page)(scene.store)
    with (scene.logs / "own.jsonl").open("ab") as file:
        file.write(b"".join(Writer(77).own_turn("own-1")))
    code, _, complaints = run(scene.home, "record", str(scene.logs), "--once", "--json")
    assert code == 0, complaints
    assert "Traceback" not in complaints
    record_once(scene.home.with_name("undisturbed"), scene.logs)
    assert differences(rows(scene.home), rows(scene.home.with_name("undisturbed"))) == {}
    assert "moved to" in complaints
    assert list(scene.home.glob("agenttrace.db.damaged-*"))


@pytest.mark.parametrize("step", range(1, 6))
def test_a_recovery_that_is_killed(scene: Scene, step: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Stopped before any of its renames, it is begun again or finished by the next start; the store is never half."""
    scene.main_logs()[0].unlink()
    DAMAGES["corrupt header"](scene.store)
    broken = scene.store.read_bytes()
    (scene.home / "agenttrace.db-wal").write_bytes(b"")
    renames = iter(range(1, 100))
    rename = os.replace

    def die(source: str, target: str) -> None:
        if next(renames) == step:
            raise KeyboardInterrupt
        rename(source, target)

    monkeypatch.setattr(os, "replace", die)
    try:
        recover(scene.home, logs=scene.listing())
    except KeyboardInterrupt:
        monkeypatch.undo()
        monkeypatch.setattr(reader, "CHUNK_BYTES", 20_000)
        if not finish_interrupted(scene.home):
            recover(scene.home, logs=scene.listing())
    record_once(scene.home, scene.logs)
    assert differences(rows(scene.home), scene.expected) == {}
    assert broken in [path.read_bytes() for path in scene.home.glob("agenttrace.db.damaged-*")]


def test_nothing_to_finish(scene: Scene) -> None:
    """Every start asks; a store that is whole is left alone."""
    assert not finish_interrupted(scene.home)
    assert differences(rows(scene.home), scene.expected) == {}


def test_damaged_again_and_again(scene: Scene) -> None:
    """Each damaged store is kept under a name of its own, also within one second."""
    for _ in range(3):
        DAMAGES["garbage"](scene.store)
        recover(scene.home)
    kept = [path for path in scene.home.glob("agenttrace.db.damaged-*") if not path.name.endswith(("-wal", "-shm"))]
    assert len(kept) == 3
    record_once(scene.home, scene.logs)
    assert differences(rows(scene.home), scene.expected) == {}


def test_the_report(scene: Scene) -> None:
    """It says where the damaged store is, how it was read, what was saved from where, and the store remembers it."""
    scene.main_logs()[0].unlink()
    DAMAGES["corrupt header"](scene.store)
    report = recover(scene.home, logs=scene.listing())
    assert (report.read, report.files_gone, report.files_to_read) == ("with a new header", 1, len(scene.listing()))
    told = " ".join(report.told())
    assert str(report.damaged) in told
    assert f"{report.lines} lines of 1 sessions" in told
    connection = connect(scene.store, read_only=True)
    (noted,) = connection.execute("SELECT value FROM meta WHERE key LIKE 'recovery %'").fetchone()
    connection.close()
    assert report.damaged.name in noted


def test_a_garbage_file_gives_nothing(scene: Scene) -> None:
    """Nothing of it is readable, and the report does not pretend otherwise."""
    DAMAGES["garbage"](scene.store)
    report = recover(scene.home)
    assert (report.read, report.lines, report.tables) == ("not at all", 0, {})
