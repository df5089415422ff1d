"""Damaged lines of all formats, recorded for real: every line is counted, and everything that reads the store works.

A few hundred lines run with the other tests. For more, in portions of 2,500 damaged lines, each with its own seed::

    AGENTTRACE_FUZZ_LINES=50000 python -m pytest tests/record/test_fuzz.py

``AGENTTRACE_FUZZ_SEED`` names the first seed (1). A portion that fails names its seed; it alone is tried again with
that seed and ``AGENTTRACE_FUZZ_LINES=2500``.
"""

from __future__ import annotations

import asyncio
import os
import sqlite3
from collections import Counter
from contextlib import closing
from itertools import cycle
from pathlib import Path
from typing import Any

import pytest
from line_mutations import DATABASE, write_logs, write_sources
from mcp import types
from typer.testing import CliRunner

from agenttrace.cli.program import app
from agenttrace.config import RecordSettings, Settings, ensure_home
from agenttrace.export.cozeloop_spans import described as cozeloop_span
from agenttrace.export.genai import described as genai_span
from agenttrace.export.jsonl_files import JsonlDestination
from agenttrace.export.langfuse_span import described as langfuse_span
from agenttrace.export.langsmith import multipart
from agenttrace.export.langsmith_runs import run_of
from agenttrace.export.otlp_encoding import request_bytes
from agenttrace.mcp.server import Desk
from agenttrace.mcp.tool_runner import ToolRunner
from agenttrace.record.recorder import Recorder, Summary
from agenttrace.record.texts.search_index import index_all
from agenttrace.store.sqlite.database import connect
from export.rig import Shelf, World, target
from faults.rig import check_sum
from faults.store_rig import Rows, differences, rows
from serve.session_rig import Store
from store_on import store_on

_PORTION = 2500
_LINES = int(os.environ.pop("AGENTTRACE_FUZZ_LINES", "400"))
_SEED = int(os.environ.pop("AGENTTRACE_FUZZ_SEED", "1"))
PORTIONS = [(_SEED + place, min(_PORTION, _LINES - done)) for place, done in enumerate(range(0, _LINES, _PORTION))]


class User:
    """A home with logs of all agents, and as many stores of them as a test needs."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def settings(self, name: str, **record: Any) -> Settings:  # noqa: ANN401 - any setting
        found = Settings(home=self.root / name, record=RecordSettings(**record))
        ensure_home(found)
        return found

    def recorder(self, settings: Settings, share: tuple[int, int] | None = None) -> Recorder:
        """One that finds the logs where users have them, in whatever store it puts them."""
        made = Recorder(settings, environ={"HOME": str(self.root)}, share=share)
        others = Recorder(settings, paths=[str(self.root / "logs"), str(self.root / ".agenttrace" / "logs")])
        with closing(others):
            made.roots = [root for root in made.roots if settings.home not in root.path.parents] + others.roots
        return made

    def record(self, settings: Settings, *, backwards: bool = False) -> Summary:
        with closing(self.recorder(settings)) as recorder:
            recorder.scan()
            if backwards:
                recorder.dirty = dict(reversed(recorder.dirty.items()))
            recorder.drain(fair=False)
            summary = recorder.finish(0.0)
        check_sum(summary)
        return summary

    def record_by_turns(self, settings: Settings, count: int = 2) -> None:
        """As the workers of a parallel import do it, a few pieces each in turn; a last pass takes what is left."""
        workers = [self.recorder(settings, (index, count)) for index in range(count)]
        for worker in workers:
            worker.scan()
        waiting = list(workers)
        for worker in cycle(workers):
            pieces = iter(range(3))
            if worker in waiting and worker.drain(fair=False, stop=lambda left=pieces: next(left, None) is None):  # type: ignore[misc]
                waiting.remove(worker)
            if not waiting:
                break
        for worker in workers:
            worker.close()
        self.record(settings)

    def lines(self) -> int:
        """Complete lines, and a last one without a newline."""
        found = 0
        for path in self.root.rglob("*.jsonl"):
            *whole, rest = path.read_bytes().split(b"\n")
            found += len(whole) + bool(rest)
        return found


@pytest.fixture(params=PORTIONS, ids=lambda portion: f"seed-{portion[0]}")
def user(request: pytest.FixtureRequest, tmp_path: Path) -> User:
    seed, lines = request.param
    found = User(tmp_path)
    write_logs(found.root, seed=seed, mutated=lines)
    for age, path in enumerate(sorted(found.root.rglob("*.jsonl"))):
        os.utime(path, (1.7e9 + age, 1.7e9 + age))
    return found


def test_damaged_lines(user: User, monkeypatch: pytest.MonkeyPatch) -> None:
    """Counted, stored the same however they are read, and no reader stumbles over what became of them."""
    settings = user.settings("home")
    summary = user.record(settings)
    assert summary.lines == user.lines()
    assert summary.recorded > summary.lines / 5
    whole = rows(settings.home)
    assert not [row for row in whole["quarantine"] if "cannot be recorded" in str(row)]
    small, shared = user.settings("small", batch_lines=7), user.settings("shared", batch_lines=50)
    user.record(small)
    user.record_by_turns(shared)
    assert differences(_settled(rows(small.home)), _settled(whole)) == {}
    assert differences(_settled(rows(shared.home)), _settled(whole)) == {}
    _read_again(user, settings, whole)
    monkeypatch.setenv("AGENTTRACE_HOME", str(settings.home))
    _index(settings)
    _commands(settings)
    _console(settings)
    asyncio.run(_tools(settings))
    _exports(user, settings)


@pytest.mark.parametrize("seed", [seed for seed, _ in PORTIONS])
def test_damaged_rows_and_documents(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows with any value in any column and documents of any shape: counted, the same however they are read."""
    user = User(tmp_path)
    write_sources(user.root, seed=seed)
    for age, path in enumerate(sorted(path for path in user.root.rglob("*") if path.is_file())):
        os.utime(path, (1.7e9 + age, 1.7e9 + age))
    settings = user.settings("home")
    summary = user.record(settings)
    with closing(sqlite3.connect(user.root / DATABASE)) as database:
        (total,) = database.execute("SELECT count(*) FROM event").fetchone()
    with closing(connect(settings.home / "agenttrace.db")) as connection:
        query = "SELECT lines FROM file_offsets WHERE filepath LIKE '%.db'"
        assert connection.execute(query).fetchall() == [(total,)]
    assert summary.recorded > summary.lines / 3
    whole = rows(settings.home)
    assert not [row for row in whole["quarantine"] if "cannot be recorded" in str(row)]
    small, shared = user.settings("small", batch_lines=7), user.settings("shared", batch_lines=50)
    user.record(small)
    user.record_by_turns(shared)
    assert differences(rows(small.home), whole) == {}
    assert differences(rows(shared.home), whole) == {}
    monkeypatch.setenv("AGENTTRACE_HOME", str(settings.home))
    _index(settings)
    _commands(settings)
    _console(settings)
    asyncio.run(_tools(settings))
    _exports(user, settings)


def _settled(found: Rows) -> Rows:
    """Without the size that a file had at the last commit: a last line without newline may be read again."""
    return found | {"file_offsets": [(*row[:4], *row[5:]) for row in found["file_offsets"]]}


def _read_again(user: User, settings: Settings, whole: Rows) -> None:
    """In another order, with no memory of the files: nothing is new, and nothing changes."""
    with closing(connect(settings.home / "agenttrace.db")) as connection:
        connection.execute("DELETE FROM file_offsets")
    again = user.record(settings, backwards=True)
    assert again.lines == user.lines()
    assert (again.recorded, again.quarantined) == (0, 0), again
    found = differences(rows(settings.home), whole)
    assert found.keys() <= {"file_offsets", "streams"}, found


def _index(settings: Settings) -> None:
    with closing(connect(settings.home / "agenttrace.db")) as connection:
        index_all(store_on(connection))
        connection.execute("INSERT INTO search(search) VALUES ('integrity-check')")


def _commands(settings: Settings) -> None:
    """What users type."""
    for command in (
        *(
            ["sessions", "--json"],
            ["sessions", "--limit", "1000"],
            ["usage"],
            ["usage", "--json"],
            ["usage", "--check"],
        ),
        *(["status", "--json"], ["quarantine", "list", "--json"], ["search", "the"], ["search", "--json", "a"]),
    ):
        done = CliRunner().invoke(app, command)
        assert done.exception is None or isinstance(done.exception, SystemExit), (command, done.exception)
        assert done.exit_code in (0, 1), (command, done.output)


def _console(settings: Settings) -> None:
    """Every page of every session, and its downloads."""
    statuses: Counter[int] = Counter()
    with Store.of(settings).served() as client:

        def get(path: str, **query: str) -> Any:  # noqa: ANN401 - JSON
            answer = client.get(path, params=query)
            statuses[answer.status_code] += 1
            assert answer.status_code == 200, (path, query, answer.text[:500])
            return answer.json() if "json" in answer.headers["content-type"].partition("x-")[0] else answer.content

        for path in ("/overview", "/usage", "/usage.csv", "/files", "/quarantine", "/sessions/facets"):
            get(path)
        get("/search", q="the")
        cursor: dict[str, str] = {}
        while True:
            page = get("/sessions", limit="50", **cursor)
            for session in page["items"]:
                _pages(get, session)
            if page["next"] is None:
                break
            cursor = {"cursor": page["next"]}
    assert set(statuses) == {200}


def _pages(get: Any, session: dict[str, Any]) -> None:  # noqa: ANN401 - a function
    name = session["key"]
    for path in ("", "/spans", "/texts", "/timeline", "/requests"):
        get(f"/sessions/{name}{path}")
    for kind in ("html", "md", "jsonl"):
        assert get(f"/sessions/{name}/export", format=kind)


async def _tools(settings: Settings) -> None:
    """What agents ask over MCP."""
    desk = Desk(ToolRunner())

    async def ask(tool: str, **arguments: Any) -> Any:  # noqa: ANN401 - JSON
        params = types.CallToolRequestParams(name=tool, arguments=arguments)
        found = await desk.call_tool(None, params)  # type: ignore[arg-type]  # it uses no context
        # Two agents may have a session of the same id by now; then it is said how to tell them apart.
        assert not found.is_error or "is the beginning of" in str(found.content), (tool, arguments, found.content)
        return found.structured_content

    for tool in ("usage", "status", "errors"):
        await ask(tool)
    await ask("search", query="the")
    cursor: dict[str, str] = {}
    while True:
        page = await ask("list_sessions", **cursor)
        for session in page["sessions"]:
            await ask("read_session", session=session["session"])
            await ask("read_requests", session=session["session"])
        if not page.get("next_cursor"):
            return
        cursor = {"cursor": page["next_cursor"]}


def _exports(user: User, settings: Settings) -> None:
    """Every span is put together once, and every destination's encoding takes it."""
    (user.root / "export").mkdir()
    world = World(user.root / "export", target(), home=settings.home, quiet=0.0)
    world.record()  # the recorder enters the destination
    world.passed = 2.5e11  # a damaged line may say that a session was busy in the year 9000
    while world.seal():
        pass
    shelf = Shelf()
    world.deliver(shelf)
    assert shelf.ids.keys() == world.span_ids()
    assert set(shelf.ids.values()) <= {1}
    for describe in (genai_span, lambda span: langfuse_span(span, None, None), lambda span: cozeloop_span(span, None)):
        assert request_bytes(shelf.spans, describe, {})
    assert multipart((run_of(span, target(type="langsmith")) for span in shelf.spans), "x")
    files = JsonlDestination(target(type="jsonl", path=str(user.root / "export" / "spans")))
    assert asyncio.run(files.send(shelf.spans)).verdict == "accepted"
