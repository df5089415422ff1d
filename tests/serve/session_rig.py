"""Sessions on a store that the real recorder fills, and the whole server in front of it, without the run half."""

# ruff: noqa: ANN401 - answers are JSON

from __future__ import annotations

import asyncio
import sqlite3
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import msgspec

from agenttrace.config import RecordSettings, ServeSettings, Settings, ensure_home
from agenttrace.model import Session
from agenttrace.prices.costing import Cashier
from agenttrace.record.recorder import Recorder
from agenttrace.serve.app import create_app
from agenttrace.serve.server import serve
from agenttrace.store.sqlite.database import connect
from agenttrace.store.sqlite.sessions import list_sessions
from console_login import login_headers

REPOSITORY = Path(__file__).resolve().parents[2]
DATA = REPOSITORY / "tests" / "data"
SHARED = REPOSITORY.parent / "shared" / "samples"
CLAUDE, CLAUDE_FORK = "bb1bce27-aee4-45f3-aff7-ef5e31cd4b65", "5bc45ad6-a603-48ba-a47a-d3713edbd2f0"


class Store:
    """A store, and the logs it is recorded from."""

    def __init__(self, root: Path) -> None:
        self.logs = root / "logs"
        self.logs.mkdir(parents=True)
        self.settings = Settings(home=root / "home", record=RecordSettings(), serve=ServeSettings(port=0))
        ensure_home(self.settings)

    @classmethod
    def of(cls, settings: Settings) -> Store:
        """A store that another process has filled."""
        found = cls.__new__(cls)
        found.settings = msgspec.structs.replace(settings, serve=ServeSettings(port=0))
        return found

    def write(self, *lines: Mapping[str, Any], name: str = "a.jsonl") -> Path:
        """Append lines of our own format."""
        path = self.logs / name
        with path.open("ab") as file:
            for line in lines:
                file.write(msgspec.json.encode({"v": 1, "session": "s-1", "ts": 1_794_733_000.0, **line}) + b"\n")
        return path

    def record(self, *paths: Path) -> None:
        """Record these paths, or all logs, as far as they are written."""
        recorder = Recorder(self.settings, paths=[str(path) for path in paths or (self.logs,)], environ={})
        try:
            recorder.run_once()
        finally:
            recorder.close()

    @property
    def prices(self) -> Cashier:
        return Cashier.load(self.settings)

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        connection = connect(self.settings.home / "agenttrace.db", read_only=True)
        try:
            yield connection
        finally:
            connection.close()

    def sessions(self) -> list[Session]:
        with self.reading() as connection:
            return list_sessions(connection)

    @contextmanager
    def served(self) -> Iterator[httpx.Client]:
        """A client of the server at ``/api/v1``."""
        with _serving(self.settings) as url:
            headers = login_headers(self.settings.home)
            with httpx.Client(base_url=f"{url}/api/v1", timeout=60, headers=headers) as client:
                yield client


@contextmanager
def fresh_store() -> Iterator[Store]:
    """A store for one example of a test that has many."""
    with tempfile.TemporaryDirectory() as root:
        yield Store(Path(root))


@contextmanager
def _serving(settings: Settings) -> Iterator[str]:
    listening, address = threading.Event(), list[str]()
    ends: list[Callable[[], object]] = []

    async def main() -> None:
        stop, loop = asyncio.Event(), asyncio.get_running_loop()
        ends.append(lambda: loop.call_soon_threadsafe(stop.set))

        def told(url: str) -> None:
            address.append(url)
            listening.set()

        app = create_app(None, settings, problem="not in this test")
        await serve(app, "127.0.0.1", 0, stop, drain_seconds=1, on_listening=told)

    thread = threading.Thread(target=asyncio.run, args=(main(),))
    thread.start()
    try:
        assert listening.wait(30), "the server did not start"
        yield address[0]
    finally:
        ends[0]()
        thread.join()


def samples() -> list[Path]:
    """Every sample log: those of the project, and the masked real ones where they are beside it."""
    found = [path for path in sorted(DATA.iterdir()) if path.is_dir()]
    if SHARED.is_dir():
        found += sorted(SHARED.glob("*/*-scrubbed"))
    return found


def log_files(sample: Path) -> list[Path]:
    """The logs of a sample."""
    return [sample] if sample.is_file() else sorted(path for path in sample.rglob("*.jsonl") if path.is_file())


def turn(number: int, prompt: str, *, at: float = 0.0) -> dict[str, Any]:
    """The beginning of a turn."""
    return {"type": "turn.begin", "id": f"t{number}", "turn": number, "prompt": prompt, "ts": 1_794_733_000.0 + at}


def call(number: int, step: int, name: str, arguments: object, **more: Any) -> dict[str, Any]:
    """The beginning of a tool call."""
    line = {"type": "tool.begin", "id": f"c{number}-{step}", "turn": number, "step": step, "name": name}
    return {**line, "arguments": arguments, **more}


def result(number: int, step: int, text: str, **more: Any) -> dict[str, Any]:
    """The answer of a tool call."""
    return {"type": "tool.end", "id": f"c{number}-{step}", "turn": number, "result": text, **more}


def said(number: int, step: int, text: str, **more: Any) -> dict[str, Any]:
    """What the model said."""
    line = {"type": "message", "role": "assistant", "turn": number, "step": step, "text": text}
    return {**line, "id": f"m{number}-{step}-{hash(text)}", **more}


def columns(timeline: Any) -> dict[str, dict[str, Any]]:
    """The spans of a timeline by id, streams by name."""
    names = [
        field.name
        for field in msgspec.structs.fields(type(timeline))
        if field.name not in ("session", "cursor", "complete", "next", "streams")
    ]
    rows = [
        dict(zip(names, values, strict=True))
        for values in zip(*(getattr(timeline, name) for name in names), strict=True)
    ]
    return {row["span_id"]: row | {"stream": timeline.streams[row["stream"]]} for row in rows}
