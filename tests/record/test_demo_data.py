"""Demo data in the user's own store: it comes and goes whole, and touches nothing else."""

from __future__ import annotations

import os
import signal
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from agenttrace.config import RecordSettings, Settings, ensure_home
from agenttrace.demo import writer
from agenttrace.demo.fake_session import LogLine
from agenttrace.projects import is_demo
from agenttrace.record import demo_data
from agenttrace.record.recorder import Recorder
from agenttrace.record.texts.search_index import index_all
from agenttrace.store import open_store
from agenttrace.store.annotations import NewAnnotation
from agenttrace.store.questions import SearchQuery, UsageQuery
from agenttrace.store.sqlite import removal
from agenttrace.store.sqlite.database import connect
from agenttrace.store.sqlite.removal import Removal
from agenttrace.store.sqlite.store import SqliteStore

OWN = Path(__file__).resolve().parents[1] / "data" / "claude-code-2.1.197" / "projects"
#: What counts across files, or says that something was removed.
_SUMS = ("counters", "removed", "meta", "sqlite_sequence")


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    """A data directory with sessions of the user's own."""
    found = Settings(home=tmp_path / "home", record=RecordSettings(paths=(str(OWN),)))
    ensure_home(found)
    record(found, tmp_path)
    return found


def record(settings: Settings, home: Path) -> None:
    recorder = Recorder(settings, environ={"HOME": str(home)})
    try:
        recorder.run_once()
        index_all(recorder.store)
    finally:
        recorder.close()


def rows(settings: Settings) -> dict[str, list[str]]:
    """Everything in the store but its sums; without events that have no line any more."""
    connection = connect(settings.home / "agenttrace.db", read_only=True)
    try:
        names = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY 1").fetchall()
        found = {
            name: sorted(map(repr, connection.execute(f"SELECT * FROM {name}")))
            for (name,) in names
            if name not in _SUMS and not name.startswith(("search_", "annotation_search_"))
        }
        found["processed_events"] = sorted(
            map(repr, connection.execute("SELECT * FROM processed_events WHERE block_id IS NOT NULL"))
        )
    finally:
        connection.close()
    return found


def demo_sessions(store: SqliteStore) -> list[str]:
    return [each.session_id for each in store.sessions() if is_demo(each.project)]


def test_what_was_there_before_is_there_afterwards(settings: Settings) -> None:
    """Sessions, usage, notes and search come with the demo data and go with it; nothing else changes."""
    before = rows(settings)
    assert demo_data.load(settings)
    assert not demo_data.load(settings)
    with open_store(settings, read_only=False) as store:
        demo = [each for each in store.sessions() if is_demo(each.project)]
        assert len(demo) > 20
        assert {each.agent for each in demo} == {
            *("claude-code", "codex", "kimi-cli", "kimi-code", "qwen-code", "agenttrace")
        }
        assert len(store.search(SearchQuery(text="scheduler"))) > 3
        store.annotation_table.put(
            NewAnnotation(session=demo[0].id, kind="note", text="lovely", author="me", source="person")
        )
        assert store.search_annotations(SearchQuery(text="lovely"))
        everything, real = store.usage(UsageQuery()), store.usage(UsageQuery(real=True))
        assert sum(row.requests for row in everything) > sum(row.requests for row in real) > 0
        assert not [each for each in store.provider_windows() if each.agent == "codex"]
    assert demo_data.remove(settings)
    assert demo_data.remove(settings)
    assert demo_data.state(settings.home) == "absent"
    assert rows(settings) == before
    with open_store(settings) as store:
        assert demo_sessions(store) == []
        assert not store.search(SearchQuery(text="scheduler pick the next"))
        assert not store.search_annotations(SearchQuery(text="lovely"))
    assert demo_data.load(settings)
    with open_store(settings) as store:
        # Ids of some agents begin with the time.
        again = {each.id: each.events for each in store.sessions_by_number([each.id for each in demo])}
        whole = {each.id: each.events for each in demo if each.id in again and each.state != "working"}
        assert len(whole) > 20
        assert whole.items() <= again.items()
        assert len(demo_sessions(store)) == len(demo)


def _kill() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _killed(work: Callable[[], object]) -> None:
    """Do the work in a process that is killed in the middle of it."""
    child = os.fork()
    if child == 0:
        try:
            work()
        finally:
            os._exit(0)
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status)


@pytest.mark.parametrize("at", [1, 300])
def test_a_load_that_is_killed_leaves_nothing(settings: Settings, tmp_path: Path, at: int) -> None:
    """Half written logs are not recorded; the next load begins anew."""
    written = iter(range(1, 10_000))
    real = writer.write

    def write(target_home: Path, line: LogLine) -> None:
        real(target_home, line)
        if next(written) == at:
            _kill()

    def work() -> None:
        writer.write = write
        demo_data.load(settings)

    before = rows(settings)
    _killed(work)
    assert demo_data.state(settings.home) == "absent"
    record(settings, tmp_path)
    assert rows(settings)["sessions"] == before["sessions"]
    assert demo_data.load(settings)
    assert demo_data.remove(settings)
    assert [each.name for each in settings.home.iterdir() if each.name.startswith("demo") and each.is_dir()] == []
    assert rows(settings) == before


@pytest.mark.parametrize("step", ["logs", "session", "file", "words"])
def test_a_removal_that_is_killed_is_finished_by_the_next_recorder(
    settings: Settings, tmp_path: Path, step: str
) -> None:
    """Whatever was removed by then: the recorder that comes next removes the rest."""
    before = rows(settings)
    demo_data.load(settings)

    def work() -> None:
        if step == "logs":
            import shutil

            def some_logs(path: Path, **_: object) -> None:
                for each in path.rglob("*.jsonl"):
                    each.unlink()
                    _kill()

            shutil.rmtree = some_logs  # type: ignore[assignment]
        elif step == "words":
            remove_words = removal.remove_words

            def words(connection: sqlite3.Connection) -> None:
                remove_words(connection)
                _kill()

            removal.remove_words = words
        else:
            name = {"session": "_remove_session", "file": "_remove_file"}[step]
            real, calls = getattr(Removal, name), iter(range(3))

            def once(self: Removal, *args: int) -> None:
                real(self, *args)
                if next(calls) == 1:
                    _kill()

            setattr(Removal, name, once)
        demo_data.remove(settings)

    _killed(work)
    assert demo_data.state(settings.home) == "removing"
    with pytest.raises(demo_data.DemoBusyError):
        demo_data.load(settings, seconds=0)
    record(settings, tmp_path)
    assert demo_data.state(settings.home) == "absent"
    assert rows(settings) == before


def test_a_directory_that_cannot_be_removed_holds_up_no_recording(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The request stays, and is tried again with the next scan."""
    demo_data.load(settings)

    def refuse(path: Path, ignore_errors: bool = False) -> None:
        if not ignore_errors:
            raise PermissionError(13, "Permission denied", str(path))

    with monkeypatch.context() as patch:
        patch.setattr("agenttrace.record.recorder.shutil.rmtree", refuse)
        assert not demo_data.remove(settings, seconds=0)
    assert demo_data.state(settings.home) == "removing"
    record(settings, tmp_path)
    assert demo_data.state(settings.home) == "absent"
