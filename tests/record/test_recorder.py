"""A pass over the files that fails leaves everything as it was to be read."""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from agenttrace.config import ensure_home, load_settings
from agenttrace.record.recorder import Recorder


def line(number: int, session: str = "s") -> str:
    return json.dumps({"v": 1, "session": session, "type": "message", "id": number, "ts": 1.0, "text": "x"}) + "\n"


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    place = tmp_path / "logs"
    place.mkdir()
    return place


@pytest.fixture
def recorder(tmp_path: Path, logs: Path) -> Iterator[Recorder]:
    environ = {
        "HOME": str(tmp_path),
        "AGENTTRACE_HOME": str(tmp_path / "home"),
        "AGENTTRACE_RECORD_IDLE_CLOSE_SECONDS": "0.2",
    }
    settings = load_settings(environ)
    ensure_home(settings)
    made = Recorder(settings, paths=[str(logs)])
    yield made
    made.close()


def recorded(recorder: Recorder) -> int:
    count: int = recorder.connection.execute("SELECT count(*) FROM processed_events").fetchone()[0]
    return count


def refuse(recorder: Recorder, monkeypatch: pytest.MonkeyPatch) -> None:
    """The store takes nothing, as on a full disk."""

    def full() -> None:
        recorder.pipeline.roll_back()
        raise sqlite3.OperationalError("database or disk is full")

    monkeypatch.setattr(recorder.pipeline, "commit", full)


def test_a_file_moved_away_waits_for_the_store(
    recorder: Recorder, logs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its unread lines can still be read, however long the store refuses them."""
    log = logs / "a.jsonl"
    log.write_text(line(1))
    recorder.scan()
    recorder.drain()
    with log.open("a") as late:
        log.rename(tmp_path / "elsewhere.jsonl")
        log.write_text(line(2))
        recorder.scan()
        late.write(line(3))
    with monkeypatch.context() as patch:
        refuse(recorder, patch)
        for _ in range(3):
            recorder.scan()
            recorder.look_at_open()
            with pytest.raises(sqlite3.OperationalError):
                recorder.drain()
            time.sleep(0.3)
    recorder.scan()
    recorder.look_at_open()
    recorder.drain()
    assert recorded(recorder) == 3


def test_files_behind_a_failure_are_still_to_be_read(
    recorder: Recorder, logs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When a batch cannot be stored, the files that were not reached yet stay pending without another scan."""
    for number in range(4):
        (logs / f"{number}.jsonl").write_text(line(number, session=str(number)))
    recorder.scan()
    monkeypatch.setattr(recorder, "_batch_full", lambda: True)
    with monkeypatch.context() as patch:
        refuse(recorder, patch)
        with pytest.raises(sqlite3.OperationalError):
            recorder.drain()
    recorder.drain()
    assert recorded(recorder) == 4


def test_every_session_of_a_file_is_counted(recorder: Recorder, logs: Path) -> None:
    """A server's log has many sessions; the summary has them all."""
    (logs / "server.jsonl").write_text("".join(line(number, f"s{number % 5}") for number in range(20)))
    assert recorder.run_once().sessions == 5
