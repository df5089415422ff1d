"""Whatever the store is like: missing, old, new, damaged, held by another, or growing; tools say what to do."""

from __future__ import annotations

import hashlib
import os
import random
import sqlite3
from collections.abc import Callable
from typing import Any

import pytest

from agenttrace.mcp.server import TOOLS
from cli.conftest import CLAUDE, Program, eventually, stop

from .rig import Asker, ToolError, serving, texts

_PAGE = 16_384
ARGUMENTS: dict[str, dict[str, Any]] = {
    "search": {"query": "please"},
    "read_session": {"session": CLAUDE},
    "read_span": {"session": CLAUDE, "span": "0" * 16},
    "read_requests": {"session": CLAUDE},
    "outcomes": {"session": CLAUDE},
    "compare": {"a": CLAUDE, "b": CLAUDE},
}


def told(asker: Asker) -> set[str]:
    """What all tools say is wrong."""
    found = set()
    for tool in TOOLS:
        with pytest.raises(ToolError) as caught:
            asker.blocks(tool.name, **ARGUMENTS.get(tool.name, {}))
        found.add(str(caught.value))
    assert asker.call(asker.client.list_resources).resources == []
    return found


def test_nothing_recorded_yet(program: Program) -> None:
    """Every tool says how to begin; as soon as something is recorded, the same server shows it."""
    with serving(program, quiet=False) as asker:
        (said,) = told(asker)
        assert "Start with: agenttrace record --once" in said
        assert not program.home.exists()
        program.use_fixtures()
        program.run("record", "--once")
        assert len(asker.fields("list_sessions")["sessions"]) == 7
        assert asker.fields("search", query="please")["not_indexed"] > 0


def _old(program: Program) -> None:
    with sqlite3.connect(program.home / "agenttrace.db") as connection:
        connection.execute("PRAGMA user_version = 1")


def _new(program: Program) -> None:
    with sqlite3.connect(program.home / "agenttrace.db") as connection:
        connection.execute("PRAGMA user_version = 999")


def _no_database(program: Program) -> None:
    for ending in ("-wal", "-shm"):
        (program.home / f"agenttrace.db{ending}").unlink(missing_ok=True)
    (program.home / "agenttrace.db").write_bytes(b"this is no database " * 1_000)


def _empty(program: Program) -> None:
    for ending in ("-wal", "-shm"):
        (program.home / f"agenttrace.db{ending}").unlink(missing_ok=True)
    (program.home / "agenttrace.db").write_bytes(b"")
    # Long ago: of a new one it might be that somebody creates it.
    os.utime(program.home / "agenttrace.db", (0, 0))


def _directory(program: Program) -> None:
    _empty(program)
    (program.home / "agenttrace.db").unlink()
    (program.home / "agenttrace.db").mkdir()


def _settings(program: Program) -> None:
    (program.home / "agenttrace.toml").write_text("[usage]\ncurrencies = 1\n")


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (_old, "Run any recording command once"),
        (_new, "pip install --upgrade agenttrace"),
        (_no_database, "agenttrace record --once: the damaged file is kept"),
        (_empty, "Start with: agenttrace record --once"),
        (_directory, "Check the disk"),
        (_settings, "Did you mean usage.currency?"),
    ],
)
def test_a_store_that_cannot_be_used(own_recorded: Program, spoil: Callable[[Program], None], words: str) -> None:
    """Every tool says what is wrong and what to do; none is a crash."""
    spoil(own_recorded)
    with serving(own_recorded, quiet=False) as asker:
        (said,) = told(asker)
        assert words in said


def test_a_store_with_holes(own_recorded: Program) -> None:
    """Zeros or rubbish in the middle: each tool answers, or says that the store is damaged and how to rebuild it."""
    path = own_recorded.home / "agenttrace.db"
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    whole = path.read_bytes()
    rubbish = random.Random(7)
    damaged = 0
    with serving(own_recorded, quiet=False) as asker:
        for page in range(1, len(whole) // _PAGE, 2):
            start = page * _PAGE + rubbish.randrange(_PAGE // 2)
            hole = bytes(_PAGE) if page % 3 == 0 else rubbish.randbytes(rubbish.choice([8, 500]))
            path.write_bytes(whole[:start] + hole + whole[start + len(hole) :])
            for tool in TOOLS:
                found = asker.result(tool.name, ARGUMENTS.get(tool.name, {}))
                said = "".join(texts(found))
                damaged += "damaged" in said
                assert not found.is_error or "damaged" in said or "no span" in said, said
        path.write_bytes(whole)
        assert len(asker.fields("list_sessions")["sessions"]) == 7
    assert damaged


def test_rebuilt_under_the_server(own_recorded: Program) -> None:
    """A store that is replaced by another is the one that is asked from then on."""
    with serving(own_recorded) as asker:
        assert asker.blocks("read_session", session=CLAUDE)
        _no_database(own_recorded)
        with pytest.raises(ToolError, match="damaged"):
            asker.fields("list_sessions")
        own_recorded.run("record", "--once", "--index")
        assert len(asker.fields("list_sessions")["sessions"]) == 7
        assert asker.blocks("read_session", session=CLAUDE)


@pytest.mark.slow
def test_held_by_another(own_recorded: Program) -> None:
    """A store that is locked for long is reported as such."""
    holder = sqlite3.connect(own_recorded.home / "agenttrace.db", isolation_level=None)
    try:
        holder.execute("PRAGMA locking_mode = EXCLUSIVE")
        holder.execute("BEGIN EXCLUSIVE")
        holder.execute("INSERT INTO meta (key, value) VALUES ('held', '1')")
        with serving(own_recorded) as asker:
            with pytest.raises(ToolError, match="try again when it is done"):
                asker.fields("list_sessions")
            holder.execute("ROLLBACK")
            holder.close()
            assert len(asker.fields("list_sessions")["sessions"]) == 7
    finally:
        holder.close()


def test_looking_changes_nothing(own_recorded: Program) -> None:
    """After every tool was asked, the store and everything beside it is what it was."""

    def contents() -> dict[str, str]:
        return {
            str(path): hashlib.sha256(path.read_bytes()).hexdigest()
            for path in own_recorded.user.rglob("*")
            if path.is_file() and not path.name.endswith(("-shm", "-wal"))
        }

    before = contents()
    with serving(own_recorded) as asker:
        for tool in TOOLS:
            asker.result(tool.name, ARGUMENTS.get(tool.name, {}))
        asker.fields("search", query="please")
    after = contents()
    assert after == before


def test_two_servers_beside_a_recorder(program: Program, background: Callable[..., Any]) -> None:
    """While a recorder writes, both answer every question, never see less than before, and end up with everything."""
    turns = 60

    def line(number: int) -> dict[str, object]:
        place = {"turn": number, "ts": 1_794_733_000.0 + number}
        return {"type": "turn.begin", "id": f"p{number}", "prompt": f"prompt {number}", **place}

    program.log("busy", line(1))
    process = background("record")
    with serving(program, quiet=False) as one, serving(program, quiet=False) as other:
        eventually(lambda: not one.result("read_session", {"session": "busy"}).is_error, "a first session")
        seen = [0, 0]
        for number in range(2, turns + 1):
            program.log("busy", line(number))
            for place, asker in enumerate((one, other)):
                count = asker.fields("list_sessions")["sessions"][0]["turns"]
                assert count >= seen[place]
                seen[place] = count
                asker.blocks("read_session", session="busy", first_turn=-1)
                asker.fields("search", query="prompt")
                asker.fields("errors")
                assert asker.fields("status")["recording"] is True
        for asker in (one, other):
            eventually(
                lambda asker=asker: asker.fields("list_sessions")["sessions"][0]["turns"] == turns,  # type: ignore[misc]
                "all turns",
            )
            text = "".join(page[1] for page in asker.pages("read_session", session="busy", max_chars=5_000))
            assert [f"prompt {number}\n" in text for number in range(1, turns + 1)] == [True] * turns
    stop(process)
