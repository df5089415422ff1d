"""Logs that are recorded by the real recorder and indexed for search, and the store that holds them."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from agenttrace.config import Settings, ensure_home
from agenttrace.record.recorder import Recorder
from agenttrace.record.texts.search_index import index_all
from agenttrace.store.sqlite.store import SqliteStore

Line = dict[str, Any]
#: Lines of log files by the name of the file.
Logs = Mapping[str, Sequence[Line]]


class Machine:
    """Log files, and the store that they are recorded into."""

    def __init__(self, root: Path) -> None:
        self.logs = root / "logs"
        self.logs.mkdir()
        self.settings = Settings(home=root / "home")
        ensure_home(self.settings)

    def record(self, logs: Logs) -> None:
        """Append lines to the files, record and index them."""
        for name, lines in logs.items():
            with (self.logs / f"{name}.jsonl").open("a", encoding="utf-8") as file:
                file.writelines(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)
        recorder = Recorder(self.settings, paths=[str(self.logs)], environ={})
        try:
            recorder.run_once()
            index_all(recorder.store)
        finally:
            recorder.close()

    @contextmanager
    def store(self, **options: Any) -> Iterator[SqliteStore]:  # noqa: ANN401 - of the engine
        """The store, to ask."""
        with SqliteStore.open(self.settings.home / "agenttrace.db", **options) as store:
            yield store


@contextmanager
def machine() -> Iterator[Machine]:
    """A machine on which nothing is recorded yet."""
    with tempfile.TemporaryDirectory() as root:
        yield Machine(Path(root))


@contextmanager
def store_of(logs: Logs, **options: Any) -> Iterator[SqliteStore]:  # noqa: ANN401 - of the engine
    """A store that holds what these logs say."""
    with machine() as made:
        made.record(logs)
        with made.store(**options) as store:
            yield store
