"""The store of a team: the cost of rows that machines send, bytes on disk, and the questions of the console.

Pages are made while they are taken in; making them is not counted. CPU is that of the process, with the merges that
the ClickHouse engine does beside the statements.
"""

from __future__ import annotations

import os
import shutil
import statistics
import time
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, cast

from agenttrace.calendar import day_finder
from agenttrace.model import Session
from agenttrace.record.texts.search_index import index_all
from agenttrace.store import open_team_store
from agenttrace.store.clickhouse.store import ClickHouseStore
from agenttrace.store.questions import EventLine, SearchQuery, SessionFilter, UsageQuery
from agenttrace.store.rows import StoredSpan
from agenttrace.store.team import TeamStore
from benchmarks import team_rows
from benchmarks.measure import tree_bytes
from benchmarks.table import Result, Row
from benchmarks.text import rare_word

if TYPE_CHECKING:
    from agenttrace.store.sqlite.store import SqliteStore

#: What the questions that begin with these words may take on two cores, in milliseconds.
TARGETS = {"the last 100 sessions": 100, "a session of 10,000 spans": 400, "usage of a month": 200, "search": 300}
_ASKED = 9
_LIVE_PAGES = 40
#: Parts that were merged into others stay on the disk for minutes, and are not counted.
_PARTS = "SELECT sum(bytes_on_disk) FROM system.parts WHERE active AND database = currentDatabase()"
_DAY = 86_400_000_000
#: Stores by the beginning of their addresses.
NAMES = {"sqlite": "SQLite", "chdb": "ClickHouse (chdb)", "clickhouse": "ClickHouse (server)"}


class Taken(NamedTuple):
    """The cost of taking in everything."""

    spans: int
    rows: int
    wall_seconds: float
    cpu_seconds: float


def engines() -> list[str]:
    """The engines that are installed."""
    return ["sqlite", *(["chdb"] if find_spec("chdb") else [])]


def measure(work: Path, spans: int, targets: Sequence[str] = ()) -> Result:
    """Each store with this many spans; ``targets`` are ``sqlite``, ``chdb`` or addresses of servers."""
    columns = {}
    for target in targets or engines():
        name = NAMES[target.partition(":")[0]]
        columns[name] = _figures(work / name.split()[0].lower(), target, spans)
    names = list(dict.fromkeys(name for figures in columns.values() for name in figures))
    rows = [
        Row(name, {"target": _target(name)} | {who: figures.get(name, "") for who, figures in columns.items()})
        for name in names
    ]
    if not find_spec("chdb") and not targets:
        rows.append(Row("ClickHouse: chdb is not installed (make test-team installs it)", {}))
    load = ", ".join(f"{each:.1f}" for each in os.getloadavg())
    return Result(f"A team's store with {spans:,} spans (load of the machine: {load})", rows)


def _figures(work: Path, target: str, spans: int) -> dict[str, str]:
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    address = {"sqlite": str(work / "team.db"), "chdb": f"chdb://{work / 'chdb'}"}.get(target, target)
    store = open_team_store(address)
    with store:
        taken = take_all(store, spans)
        small = live(store)
        began = time.process_time()
        events = index_all(cast("SqliteStore", store))
        indexed = time.process_time() - began
        found = {
            "rows/s taken in": f"{taken.rows / taken.wall_seconds:,.0f}",
            "CPU µs a span": f"{taken.cpu_seconds / taken.spans * 1e6:.0f}",
            "CPU µs an event, search index": f"{indexed / max(1, events) * 1e6:.0f}",
        }
        found |= small
        if isinstance(store, ClickHouseStore):
            found["bytes a span on disk"] = f"{int(store.database.value(_PARTS)) / taken.spans:.0f}"
        asked = {question: _asked(question, ask) for question, ask in questions(store).items()}
    if target == "sqlite":
        found["bytes a span on disk"] = f"{tree_bytes(work) / taken.spans:.0f}"
    shutil.rmtree(work, ignore_errors=True)
    return found | asked


def take_all(store: TeamStore, spans: int) -> Taken:
    """Take in what all machines send."""
    day_of = day_finder("UTC")
    count = rows = 0
    wall, making = 0.0, 0.0
    cpu, begun = time.process_time(), time.thread_time()
    for page, found in team_rows.pages(spans):
        count += sum(isinstance(row, StoredSpan) for row in found)
        rows += len(found)
        making += time.thread_time() - begun
        began = time.perf_counter()
        store.take(found, page, day_of=day_of)
        wall += time.perf_counter() - began
        begun = time.thread_time()
    return Taken(count, rows, wall, time.process_time() - cpu - making)


def stored_bytes(address: str) -> int:
    """The size of a database of ClickHouse."""
    with ClickHouseStore.open(address) as store:
        return int(store.database.value(_PARTS))


def live(store: TeamStore) -> dict[str, str]:
    """The cost of small pages, each with what an agent did at once."""
    inserts = _inserts(store)
    day_of, walls, cpu = day_finder("UTC"), [], time.process_time()
    for page, rows in (pages := team_rows.live_pages(_LIVE_PAGES)):
        began = time.perf_counter()
        store.take(rows, page, day_of=day_of)
        walls.append((time.perf_counter() - began) * 1000)
    spent = (time.process_time() - cpu) / len(pages) * 1000
    found = {"a page of 20 rows": f"{statistics.median(walls):,.1f} ms ({spent:,.1f} CPU ms)"}
    if inserts is not None:
        found["inserts a page of 20 rows"] = f"{((_inserts(store) or 0) - inserts) / len(pages):.1f}"
    return found


def _inserts(store: TeamStore) -> int | None:
    """How many inserts ClickHouse has carried out; each makes a part, or more."""
    if not isinstance(store, ClickHouseStore):
        return None
    return int(store.database.value("SELECT value FROM system.events WHERE event = 'InsertQuery'") or 0)


def questions(store: TeamStore) -> dict[str, Callable[[], Sequence[object]]]:
    """The questions of the pages."""
    large = max(store.sessions(), key=lambda session: session.steps + session.tools)
    last = max(session.last_at or 0 for session in store.sessions(limit=1))
    month = day_finder("UTC")(last - 30 * _DAY)

    def search(text: str) -> Callable[[], list[EventLine]]:
        query = SearchQuery(text=text, limit=50)
        return lambda: list(store.lines_by_number(store.search(query)))

    def usage(query: UsageQuery) -> Callable[[], Sequence[object]]:
        return lambda: store.usage(query)

    def listed(wanted: SessionFilter) -> Callable[[], list[Session]]:
        return lambda: store.sessions(wanted, limit=100)

    return {
        "the last 100 sessions": listed(SessionFilter()),
        "the last 100 sessions of a person": listed(SessionFilter(persons=frozenset({"person-0000"}))),
        "a session of 10,000 spans": lambda: store.spans(large),
        "usage of a month by day and model": usage(UsageQuery(by="day", split="model", since_day=month)),
        "usage of a month by person": usage(UsageQuery(by="person", since_day=month)),
        "search, common word": search("file"),
        "search, rare word": search(rare_word()),
        "search, two words": search("circuit breaker"),
        "search, Chinese": search("数据库 连接"),
    }


def _asked(question: str, ask: Callable[[], Sequence[object]]) -> str:
    taken, rows, cpu = [], 0, time.process_time()
    for _ in range(_ASKED):
        began = time.perf_counter()
        rows = len(ask())
        taken.append((time.perf_counter() - began) * 1000)
    spent = (time.process_time() - cpu) / _ASKED * 1000
    median = statistics.median(taken)
    return f"{median:,.1f} ms {judged(question, median)} ({spent:,.1f} CPU ms, {rows:,} rows)"


def target_of(question: str) -> int:
    """What a question may take, in milliseconds."""
    return next(most for words, most in TARGETS.items() if question.startswith(words))


def judged(question: str, milliseconds: float) -> str:
    """Whether a question took less than its target."""
    return "ok" if milliseconds < target_of(question) else "MISSED"


def _target(name: str) -> str:
    return next((f"< {most} ms" for words, most in TARGETS.items() if name.startswith(words)), "")
