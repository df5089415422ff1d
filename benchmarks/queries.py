"""Query times of a store with a million spans, through the functions that the product uses."""

from __future__ import annotations

import sqlite3
import statistics
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec

from agenttrace.store.insights import CacheQuery, FindingsQuery, InsightQuery
from agenttrace.store.questions import EventLine, SearchQuery, UsageQuery
from agenttrace.store.sqlite import sessions, span_rows, usage
from agenttrace.store.sqlite.store import SqliteStore
from benchmarks import ours
from benchmarks.claude_session import Source
from benchmarks.text import rare_word

_LARGE, _LARGE_SPANS, _SMALL_SPANS, _SPANS_A_TURN = 10, 10_000, 100, 10
_START, _SIXTY_DAYS = 1_789_200_000, 60 * 86_400
#: Microseconds.
_MONTH = 30 * 86_400 * 1_000_000
_FAILURES = 0.05
_MODELS = ("qwen-plus", "qwen-max", "kimi-k2", "deepseek-v3")

Json = dict[str, object]


def generate_spans(target: Path, spans: int, seed: int = 1) -> int:
    """Write sessions that fold into this many spans, a tenth of them in ten large sessions; returns lines."""
    source, lines = Source(seed), 0
    encode = msgspec.json.Encoder().encode
    large = min(_LARGE, spans // _LARGE_SPANS // 2)
    sizes = [_LARGE_SPANS] * large + [_SMALL_SPANS] * ((spans - large * _LARGE_SPANS) // _SMALL_SPANS)
    target.mkdir(parents=True, exist_ok=True)
    for first in range(0, len(sizes), 100):
        with (target / f"sessions-{first:06}.jsonl").open("wb") as out:
            for number, size in enumerate(sizes[first : first + 100], first):
                for line in _session(source, f"session-{number:06}", size // _SPANS_A_TURN):
                    out.write(encode(line) + b"\n")
                    lines += 1
    return lines


def _session(source: Source, name: str, turns: int) -> Iterator[Json]:
    moment = _START + source.rng.random() * _SIXTY_DAYS
    project = f"/home/dev/{source.text.names(1)[0]}"
    yield {"v": 1, "session": name, "type": "session.begin", "ts": moment, "cwd": project}
    model = source.rng.choice(_MODELS)
    for turn in range(1, turns + 1):
        moment += 60 * source.rng.random()
        place: Json = {"v": 1, "session": name, "turn": turn}
        yield place | {"type": "turn.begin", "ts": moment, "prompt": source.text.prose(80)}
        for step in range(1, 5):
            moment += source.rng.random()
            yield from _step(source, place | {"step": step}, model, moment, tools=2 if step == 4 else 1)
        yield place | {"type": "turn.end", "ts": moment + 1}


def _step(source: Source, place: Json, model: str, moment: float, *, tools: int) -> Iterator[Json]:
    spent = {"input_tokens": 40, "cache_read_tokens": 9_000, "output_tokens": source.between(20, 400)}
    answer = {"type": "usage", "ts": moment, "model": model, "usage": spent, "text": source.text.prose(60)}
    yield place | answer | {"role": "assistant", "response": source.token("resp_")}
    for number in range(tools):
        call = {"id": f"{place['turn']}.{place['step']}.{number}", "name": source.rng.choice(("Bash", "Read", "Edit"))}
        yield place | call | {"type": "tool.begin", "ts": moment + 0.1, "arguments": {"path": source.text.path()}}
        failed = {"status": "error", "error": "Exit code 1"} if source.rng.random() < _FAILURES else {}
        yield place | call | {"type": "tool.end", "ts": moment + 0.4, "result": source.text.prose(120)} | failed


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """The time of one query."""

    question: str
    median_ms: float
    worst_ms: float
    rows: int


def measure(connection: sqlite3.Connection) -> list[Answer]:
    """Run every query twenty times."""
    longest = max(sessions.list_sessions(connection), key=lambda session: session.steps + session.tools)
    day = connection.execute("SELECT max(day) FROM usage_rollup").fetchone()[0]

    store = SqliteStore(connection, Path())
    since = connection.execute("SELECT max(last_at) FROM sessions").fetchone()[0] - _MONTH
    month, findings = InsightQuery(since=since), FindingsQuery(since=since)

    def search(text: str) -> Callable[[], list[EventLine]]:
        query = SearchQuery(text=text, limit=50)
        return lambda: list(store.lines_by_number(store.search(query)))

    questions: dict[str, Callable[[], object]] = {
        "last 100 sessions": lambda: sessions.list_sessions(connection, limit=100),
        "a session of 10,000 spans": lambda: span_rows.session_spans(connection, longest),
        "usage by day and model": lambda: usage.usage_rows(connection, UsageQuery(by="day")),
        "usage of one day": lambda: usage.usage_rows(connection, UsageQuery(by="model", since_day=day)),
        "tools of 30 days": lambda: store.tool_figures(month),
        "models of 30 days": lambda: store.model_figures(month),
        "errors that repeat, 30 days": lambda: store.repeated_failures(findings),
        "lost caches, 30 days": lambda: store.cache_losses(CacheQuery(since=since)),
        "waits for the user, 30 days": lambda: store.user_waits(findings),
        "search, common word": search("file"),
        "search, rare word": search(rare_word()),
        "search, two words": search("circuit breaker"),
    }
    return [_ask(question, answer) for question, answer in questions.items()]


def _ask(question: str, answer: Callable[[], object]) -> Answer:
    taken, rows = [], 0
    for _ in range(20):
        began = time.perf_counter()
        found = answer()
        taken.append((time.perf_counter() - began) * 1000)
        rows = len(found) if isinstance(found, list) else 1
    return Answer(question=question, median_ms=statistics.median(taken), worst_ms=max(taken), rows=rows)


def build(logs: Path, work: Path, spans: int) -> sqlite3.Connection:
    """A store with this many spans and a full search index."""
    if not logs.exists():
        generate_spans(logs, spans)
    ours.record_once(logs, work, index=True)
    return ours.store(work)
