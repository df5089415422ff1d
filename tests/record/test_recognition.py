"""Files are recognised by their first lines, however long, or by lines that follow."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import zstandard

from agenttrace.config import ensure_home, load_settings
from agenttrace.record.ingest.quarantine import retry
from agenttrace.record.recorder import Recorder, Summary
from agenttrace.store.sqlite.database import connect
from agenttrace.store.sqlite.store import SqliteStore

SESSION = "0f4d6a51-7a1e-4f6a-9b0e-2f3a61f4c001"


class Rig:
    """A directory with logs that the user names, and a recorder for it."""

    def __init__(self, root: Path) -> None:
        self.logs = root / "logs"
        self.logs.mkdir()
        self.settings = load_settings({"HOME": str(root), "AGENTTRACE_HOME": str(root / "home")})
        ensure_home(self.settings)
        self.environ = {"HOME": str(root)}

    def recorder(self, agent: str | None = None) -> Recorder:
        return Recorder(self.settings, paths=[str(self.logs)], environ=self.environ, agent=agent)

    def once(self, agent: str | None = None) -> Summary:
        recorder = self.recorder(agent)
        try:
            return recorder.run_once()
        finally:
            recorder.close()

    def query(self, sql: str) -> list[tuple[Any, ...]]:
        connection = connect(self.settings.home / "agenttrace.db", read_only=True)
        try:
            return connection.execute(sql).fetchall()
        finally:
            connection.close()


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    return Rig(tmp_path)


def claude(number: int) -> bytes:
    line = {
        "parentUuid": None,
        "isSidechain": False,
        "type": "user",
        "message": {"role": "user", "content": f"question {number}"},
        "uuid": f"00000000-0000-4000-8000-{number:012d}",
        "timestamp": f"2026-01-02T03:04:{number:02d}.000Z",
        "cwd": "/srv/project",
        "sessionId": SESSION,
    }
    return json.dumps(line).encode() + b"\n"


def encoded(**line: object) -> bytes:
    return json.dumps(line).encode() + b"\n"


OPENINGS = {
    "a snapshot of files": encoded(
        type="file-history-snapshot", messageId="m", snapshot={"trackedFiles": "x" * 90_000}
    ),
    "a pasted prompt": encoded(type="queue-operation", operation="enqueue", sessionId=SESSION, content="x" * 300_000),
    "a summary": encoded(type="summary", summary="x" * 70_000, leafUuid="u"),
    "longer than is looked at": encoded(type="summary", summary="x" * 5_000_000, leafUuid="u"),
    "of no format": encoded(note="x" * 70_000),
    "many that say nothing": encoded(note="hello") * 300,
}


@pytest.mark.parametrize("opening", OPENINGS.values(), ids=OPENINGS.keys())
@pytest.mark.parametrize("compressed", [False, True])
def test_reading_goes_on_behind_what_says_nothing(rig: Rig, opening: bytes, compressed: bool) -> None:
    """All of it is recorded, and nothing refused."""
    data = opening + claude(1) + claude(2)
    path = rig.logs / f"{SESSION}.jsonl"
    if compressed:
        path = path.with_name(path.name + ".zst")
        data = zstandard.compress(data)
    path.write_bytes(data)
    summary = rig.once()
    assert (summary.quarantined, summary.recorded) == (0, summary.lines)
    assert ("claude-code", SESSION, "/srv/project") in rig.query("SELECT agent, session_id, project FROM sessions")


def test_a_refused_file_is_checked_again_when_it_grows(rig: Rig, tmp_path: Path) -> None:
    """The store is then as if it had been known from the start."""
    path = rig.logs / "log.jsonl"
    recorder = rig.recorder()
    path.write_bytes(encoded(note="hello"))
    recorder.scan()
    recorder.drain()
    assert rig.query("SELECT lines, recorded, quarantined FROM file_offsets") == [(1, 0, 1)]
    with path.open("ab") as file:
        file.write(claude(1) + claude(2))
    recorder.scan()
    recorder.drain()
    recorder.close()
    assert rig.query("SELECT lines, recorded, quarantined FROM file_offsets") == [(3, 3, 0)]
    assert rig.query("SELECT count(*) FROM quarantine WHERE resolved_at IS NULL") == [(0,)]
    assert rig.once().lines == 0


def test_a_refused_file_is_checked_again_when_retried(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that an earlier version refused for its long first line."""
    path = rig.logs / f"{SESSION}.jsonl"
    path.write_bytes(OPENINGS["a pasted prompt"] + claude(1))
    with monkeypatch.context() as patch:
        patch.setattr("agenttrace.record.recorder.openings", lambda file: [file.head()])
        assert rig.once().quarantined == 2
    with SqliteStore.open(rig.settings.home / "agenttrace.db", read_only=False) as store:
        assert [each.result for each in retry(store, rig.settings, store.quarantine.entries())] == ["reread"]
    assert rig.query("SELECT lines, recorded, quarantined FROM file_offsets") == [(2, 2, 0)]


def test_an_unknown_file_is_refused_once(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond some hundreds of lines it is not checked again, however it grows."""
    path = rig.logs / "log.jsonl"
    path.write_bytes(encoded(note="hello") * 500)
    assert rig.once().quarantined == 500
    monkeypatch.setattr("agenttrace.record.recorder.openings", lambda _: pytest.fail("looked at again"))
    with path.open("ab") as file:
        file.write(claude(1))
    assert rig.once().quarantined == 1
    assert rig.query("SELECT count(*) FROM quarantine") == [(1,)]


def test_another_agents_log_is_left_to_it(rig: Rig) -> None:
    """Even where it is known by a later line only."""
    (rig.logs / f"{SESSION}.jsonl").write_bytes(OPENINGS["a pasted prompt"] + claude(1))
    assert rig.once("codex").lines == 0
    assert rig.once().recorded == 2
