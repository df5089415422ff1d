"""Questions to the store: in a thread, with an end, and called off when nobody waits for the answer."""

from __future__ import annotations

import sqlite3
import threading

import anyio
import pytest

from agenttrace.mcp import tool_runner
from agenttrace.mcp.masked_texts import MaskedTexts
from agenttrace.mcp.tool_runner import ToolContext, ToolRunner
from agenttrace.store.sqlite.store import SqliteStore
from agenttrace.views.trouble import TroubleError
from cli.conftest import Program

_FOR_EVER = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT count(*) FROM n"


@pytest.fixture
def asked(shared_store: Program, monkeypatch: pytest.MonkeyPatch) -> ToolRunner:
    monkeypatch.setenv("AGENTTRACE_HOME", str(shared_store.home))
    return ToolRunner()


def _connection(look: ToolContext) -> sqlite3.Connection:
    assert isinstance(look.store, SqliteStore)
    return look.store.connection


def test_a_cancelled_question_ends(asked: ToolRunner) -> None:
    """The thread that works on it stops, and the next question is answered."""
    begun, ended = threading.Event(), threading.Event()

    def endless(look: ToolContext) -> None:
        begun.set()
        try:
            _connection(look).execute(_FOR_EVER).fetchall()
        finally:
            ended.set()

    async def main() -> int:
        async with anyio.create_task_group() as group:
            for _ in range(8):  # more than are worked on at a time
                group.start_soon(asked.ask, endless)
            assert await anyio.to_thread.run_sync(begun.wait, 30)
            group.cancel_scope.cancel()
        assert await anyio.to_thread.run_sync(ended.wait, 30)
        return await asked.ask(lambda look: int(_connection(look).execute("SELECT 1").fetchone()[0]))

    assert anyio.run(main) == 1


def test_no_question_takes_for_ever(asked: ToolRunner, monkeypatch: pytest.MonkeyPatch) -> None:
    """After its time it is cancelled, and the error says to ask for less."""
    monkeypatch.setattr(tool_runner, "_SECONDS", 0.05)
    with pytest.raises(TroubleError) as caught:
        anyio.run(asked.ask, lambda look: look.store.connection.execute(_FOR_EVER).fetchall())
    assert "Ask for less" in caught.value.fix


def test_nothing_can_be_written(asked: ToolRunner) -> None:
    """Not even by a tool that tries."""
    with pytest.raises(sqlite3.OperationalError, match="readonly"):
        anyio.run(asked.ask, lambda look: look.store.connection.execute("DELETE FROM sessions"))


def test_what_is_shown_of_a_long_text() -> None:
    """Beginning and end, secrets masked wherever they are cut, and how much was left out."""
    shown = MaskedTexts(lambda text: text.replace("secret", "***"))
    assert shown.ends("a secret", 300) == "a ***"
    for length in (1_000, 500_000):
        text = "b" + "secret" * length + "e"
        cut = shown.ends(text, 300)
        assert cut.startswith("b***")
        assert cut.endswith("***e")
        assert "secret" not in cut
        assert "characters left out" in cut
        assert len(cut) < 400
    assert shown.line("a\nsecret\x1b[31m", 300) == "a ***"
