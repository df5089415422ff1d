"""A second try beside a recorder that has the same files and sessions in memory."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agenttrace.config import RecordSettings, Settings, ensure_home
from agenttrace.record.ingest.quarantine import requested, retry_requested
from agenttrace.record.recorder import Recorder
from agenttrace.store.sqlite.database import connect
from agenttrace.store.sqlite.events import raw_lines
from agenttrace.store.sqlite.store import SqliteStore
from example_counts import COSTLY

#: Of the lines below, the long ones are longer.
LIMIT = 1_200_000
LONG = "x" * (LIMIT + 1)


class Rig:
    """Two sessions in two files, and a recorder."""

    def __init__(self, root: Path) -> None:
        self.directory = root / "logs"
        self.directory.mkdir()
        self.settings = Settings(home=root / "home", record=RecordSettings(paths=(str(self.directory),)))
        ensure_home(self.settings)
        self._written = 0
        for session in ("one", "two"):
            # A file is recognised by its beginning.
            self.write(session, long=False)

    def write(self, session: str, *, long: bool) -> None:
        self._written += 1
        number = self._written
        line = {"v": 1, "session": session, "ts": float(number), "id": f"{number}"}
        line |= {"type": "message", "role": "assistant", "text": f"{number} {LONG if long else ''}"}
        with (self.directory / f"{session}.jsonl").open("a", encoding="utf-8") as stream:
            stream.write(json.dumps(line) + "\n")

    def recorder(self, *, limit: int | None = None) -> Recorder:
        record = self.settings.record
        if limit is not None:
            record = msgspec.structs.replace(record, max_line_bytes=limit)
        return Recorder(msgspec.structs.replace(self.settings, record=record), environ={})

    def kept(self) -> list[Any]:
        """What the store has in the end: each line under its event, and the counts of files and sessions."""
        with closing(connect(self.settings.home / "agenttrace.db", read_only=True)) as connection:
            names = dict(connection.execute("SELECT event_no, event_id FROM processed_events").fetchall())
            lines = sorted((names[line.event_no], line.offset, line.raw) for line in raw_lines(connection))
            files = connection.execute(
                "SELECT filepath, offset, lines, recorded, duplicate, ignored, quarantined FROM file_offsets ORDER BY 1"
            )
            sessions = connection.execute("SELECT id, turns, steps, events FROM sessions ORDER BY id")
            return [lines, [(Path(row[0]).name, *row[1:]) for row in files], sessions.fetchall()]


def drain(recorder: Recorder) -> None:
    recorder.scan()
    recorder.drain()


sessions = st.sampled_from(["one", "two"])
quiet = st.lists(sessions, max_size=2)


@COSTLY
@given(first=st.lists(st.tuples(sessions, st.booleans()), max_size=2), before=quiet, after=quiet)
def test_a_second_try_leaves_the_recorder_right(
    first: Sequence[tuple[str, bool]],
    before: Sequence[str],
    after: Sequence[str],
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    """Whatever it has read before and reads afterwards, in the end the store is as if no line had been set aside."""
    rig = Rig(tmp_path_factory.mktemp("rig"))
    for session, long in first:
        rig.write(session, long=long)
    narrow = rig.recorder(limit=LIMIT)
    narrow.run_once()
    narrow.close()
    recorder = rig.recorder()
    with SqliteStore.open(rig.settings.home / "agenttrace.db", read_only=False) as other:
        assert other.quarantine.request_retry(None) == sum(long for _, long in first)
    for session in before:
        rig.write(session, long=False)
    drain(recorder)
    tried = requested(recorder.store)
    retry_requested(recorder.store, recorder.settings, tried)
    recorder.reload({entry.file_id for entry in tried})
    for session in after:
        rig.write(session, long=False)
    drain(recorder)
    recorder.close()
    assert rig.kept() == _undisturbed(rig, tmp_path_factory.mktemp("other")).kept()


def _undisturbed(rig: Rig, root: Path) -> Rig:
    other = Rig(root)
    for path in rig.directory.iterdir():
        path.replace(other.directory / path.name)
    recorder = other.recorder()
    recorder.run_once()
    recorder.close()
    return other
