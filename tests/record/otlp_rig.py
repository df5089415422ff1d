"""Lines as the intake writes them, recorded into a store."""

# ruff: noqa: ANN401 - attributes are anything

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from agenttrace.config import Settings, ensure_home
from agenttrace.model import Session
from agenttrace.record.recorder import Recorder, Summary

SECOND = 1_000_000_000
NOW = 1_794_732_814 * SECOND

#: Everything that does not depend on the order in which rows were written.
SPANS = (
    "SELECT session_id, span_id, trace_id, parent_id, stream, kind, name, start, end, status, model, response, "
    "attributes FROM spans ORDER BY session_id, span_id"
)
PLACES = "SELECT session_id, span_id, turn_index, step_n FROM spans ORDER BY session_id, span_id"
EVENTS = "SELECT session_id, event_id, event_type, span_id FROM processed_events ORDER BY session_id, event_id"
SESSIONS = f"SELECT {', '.join(Session.__struct_fields__)} FROM sessions ORDER BY id"
USAGE = "SELECT * FROM usage_rollup ORDER BY day, session_id, model"
RESPONSES = (
    "SELECT response, session_id, at, day, model, estimated, copies, terms, variant, input_tokens, output_tokens, "
    "cache_read_tokens, cache_write_tokens, cache_write_1h_tokens, reasoning_tokens, web_searches "
    "FROM responses ORDER BY response"
)


def trace_id(number: int) -> str:
    return f"{number:032x}"


def span_id(number: int) -> str:
    return f"{number:016x}"


def line(
    number: int = 1,
    *,
    trace: int = 1,
    parent: int | None = None,
    name: str = "work",
    start: int = 0,
    seconds: float = 1.0,
    attributes: Mapping[str, Any] | None = None,
    service: str = "shop",
    **more: Any,
) -> dict[str, Any]:
    """A span of the log; ids and times are small numbers."""
    begun = NOW + start * SECOND
    found = {
        "otlp": 1,
        "trace": trace_id(trace),
        "span": span_id(number),
        "name": name,
        "start": begun,
        "end": begun + round(seconds * SECOND),
        "attributes": dict(attributes or {}),
        "resource": {"service.name": service},
        **more,
    }
    return found if parent is None else found | {"parent": span_id(parent)}


def shared(trace: int, digest: str = "d1") -> dict[str, Any]:
    """A long resource of which lines of the trace have the digest only."""
    return {"otlp": 1, "trace": trace_id(trace), "digest": digest, "resource": {"service.name": "shop", "host": digest}}


def chat(number: int, tokens: int = 10, **more: Any) -> dict[str, Any]:
    """A model call that cost something."""
    attributes = {
        "gen_ai.operation.name": "chat",
        "gen_ai.request.model": "gpt-4o",
        "gen_ai.usage.input_tokens": tokens,
        "gen_ai.usage.output_tokens": 1,
        **more.pop("attributes", {}),
    }
    return line(number, name="chat gpt-4o", attributes=attributes, **more)


class Store:
    """A data directory: the intake's log, and the store that is made of it."""

    def __init__(self, root: Path) -> None:
        self.settings = Settings(home=root / "home")
        ensure_home(self.settings)
        self.log = self.settings.home / "logs" / "otlp" / "spans-2026-11-15.1.jsonl"
        self.log.parent.mkdir(parents=True)

    def append(self, *lines: Mapping[str, Any] | bytes) -> None:
        with self.log.open("ab") as file:
            for each in lines:
                file.write(each if isinstance(each, bytes) else json.dumps(each).encode() + b"\n")

    @contextmanager
    def recorder(self) -> Iterator[Recorder]:
        """A recorder that goes on while the test does."""
        found = Recorder(self.settings, environ={"HOME": str(self.settings.home.parent)})
        try:
            yield found
        finally:
            found.close()

    def record(self) -> Summary:
        with self.recorder() as recorder:
            return recorder.run_once()

    def recorded(self, *lines: Mapping[str, Any]) -> Store:
        """The same, with these lines recorded."""
        self.append(*lines)
        self.record()
        return self

    def rows(self, query: str, *values: Any) -> list[tuple[Any, ...]]:
        with closing(sqlite3.connect(self.settings.home / "agenttrace.db")) as connection:
            return connection.execute(query, values).fetchall()

    def tables(self, *queries: str) -> dict[str, list[tuple[Any, ...]]]:
        return {query: self.rows(query) for query in queries}

    def session(self, name: str) -> dict[str, Any]:
        with closing(sqlite3.connect(self.settings.home / "agenttrace.db")) as connection:
            connection.row_factory = sqlite3.Row
            found = connection.execute("SELECT * FROM sessions WHERE session_id = ?", (name,)).fetchone()
        return dict(found)

    def names(self) -> list[str]:
        """The sessions that a list shows."""
        return [row[0] for row in self.rows("SELECT session_id FROM sessions WHERE events > 0 ORDER BY 1")]

    def homes(self) -> dict[str, set[str]]:
        """The sessions in which spans of each trace are."""
        found: dict[str, set[str]] = {}
        query = "SELECT lower(hex(trace_id)), s.session_id FROM spans JOIN sessions s ON s.id = spans.session_id"
        for trace, session in self.rows(query):
            found.setdefault(trace, set()).add(session)
        return found

    def used(self) -> dict[str, tuple[int, int]]:
        """Requests and tokens by session."""
        query = (
            "SELECT s.session_id, sum(requests), sum(input_tokens + output_tokens + cache_read_tokens) "
            "FROM usage_rollup u JOIN sessions s ON s.id = u.session_id GROUP BY 1"
        )
        return {name: (requests, tokens) for name, requests, tokens in self.rows(query)}


def written(lines: Iterable[Mapping[str, Any]]) -> bytes:
    """Lines as a file has them."""
    return b"".join(json.dumps(each).encode() + b"\n" for each in lines)
