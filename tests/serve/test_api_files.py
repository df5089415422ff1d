"""``/api/v1/files`` and ``/quarantine``: how far logs are read, what was set aside, and the second try."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import pytest

from agenttrace.record.formats import AGENTS
from agenttrace.record.lock import RecorderLock, owner
from agenttrace.serve.access.access_store import AccessStore
from agenttrace.store import open_store
from agenttrace.store.sqlite.database import connect
from agenttrace.store.sqlite.events import raw_lines
from agenttrace.store.sqlite.quarantine import Quarantine
from agenttrace.store.sqlite.store import SqliteStore
from agenttrace.views.status import collected

from .servers import eventually
from .trace_rig import DATA, Logs
from .views_rig import Client, ask, found_logs

#: Lines above this are set aside; the long ones below are longer.
LIMIT = 1_200_000
LONG = "so much to say " * 100_000
#: The program as it was before it knew Claude Code.
OLDER = """
import agenttrace.record.formats as agents
agents.AGENTS = tuple(agent for agent in agents.AGENTS if agent.name != "claude-code")
from agenttrace.cli.main import main
main()
"""


@pytest.fixture
def logs(tmp_path: Path) -> Logs:
    return found_logs(tmp_path)


def counts(logs: Logs) -> tuple[Any, ...]:
    """Everything that tells whether each line was recorded, and recorded once."""
    with open_store(logs.settings) as store:
        found, connection = collected(store, logs.settings), store.connection
        events = connection.execute(
            "SELECT session_id, event_id, event_type FROM processed_events ORDER BY 1, 2"
        ).fetchall()
        usage = connection.execute("SELECT * FROM usage_rollup ORDER BY 1, 2, 3").fetchall()
        sessions = connection.execute("SELECT id, turns, steps, tools, events FROM sessions ORDER BY 1").fetchall()
        lines = sorted((line.offset, line.raw) for line in raw_lines(connection))
    return found["lines"], found["read_bytes"], found["behind_bytes"], events, usage, sessions, lines


def write_long_lines(logs: Logs, *names: str) -> None:
    """Sessions whose longest lines carry an answer and a note."""
    for at, name in enumerate(names):
        logs.append(name, "turn.begin", ts=1.0 + at, prompt="short")
        logs.append(name, "step.begin", ts=2.0 + at, id="s1", model="claude-sonnet-4-5")
        logs.append(name, "message", ts=3.0 + at, id="m1", role="assistant", text=f"{name} {LONG}")
        usage = {"input_tokens": 7, "output_tokens": 5}
        logs.append(name, "usage", ts=4.0 + at, response=f"r-{name}", usage=usage)
        logs.append(name, "note", ts=5.0 + at, id="n1", text=f"{name} {LONG}")


def record_narrowly(logs: Logs) -> None:
    """Record with a limit that sets the long lines aside."""
    wide = logs.settings
    narrow = msgspec.structs.replace(wide.record, max_line_bytes=LIMIT)
    logs.settings = msgspec.structs.replace(wide, record=narrow)
    logs.record()
    logs.settings = wide


def undisturbed(tmp_path: Path, logs: Logs) -> tuple[Any, ...]:
    """The counts of the same files when all of them are understood at once."""
    other = found_logs(tmp_path)
    shutil.rmtree(other.directory)
    shutil.copytree(logs.directory, other.directory)
    other.record()
    return counts(other)


# -- files --------------------------------------------------------------------------------------------------------


def test_files_are_those_of_the_status(logs: Logs) -> None:
    """On pages of any size every file is listed once, by path, as ``agenttrace status --files`` has it."""
    logs.use_samples()
    logs.record()
    (logs.directory / "fresh.jsonl").write_bytes(b"not read yet")

    async def body(client: Client) -> None:
        with open_store(logs.settings) as store:
            expected = sorted(collected(store, logs.settings)["files"], key=lambda file: file["path"])
        assert len(expected) > 10
        for limit in (1, 7, 500):
            assert await client.pages("/files", limit) == expected
        page = await client.json("/files", limit=3)
        assert page["total"] == len(expected) == page["recording"]["file_count"]

    ask(logs.settings, body)


def test_files_can_be_chosen(logs: Logs) -> None:
    """By what is the matter with them, and by a part of their path in any case; the sums stay those of all files."""
    for name in ("fine", "gone", "grown", "failing"):
        logs.append(name, "turn.begin", prompt="x")
    logs.record()
    (logs.directory / "gone.jsonl").unlink()
    logs.append("grown", "turn.end")
    with closing(connect(logs.store)) as connection:
        connection.execute("UPDATE file_offsets SET error = 'permission denied' WHERE filepath LIKE '%failing.jsonl'")

    async def body(client: Client) -> None:
        for state, names in (("all", {"fine", "gone", "grown", "failing"}), ("behind", {"grown"}), ("gone", {"gone"})):
            found = await client.json("/files", state=state)
            assert {Path(file["path"]).stem for file in found["items"]} == names
            assert found["total"] == len(names)
            assert found["recording"]["file_count"] == 4
        (failing,) = (await client.json("/files", state="error"))["items"]
        assert failing["error"] == "permission denied"
        assert [Path(file["path"]).stem for file in (await client.json("/files", q="FIN"))["items"]] == ["fine"]
        assert (await client.get("/files", state="lost")).status == 422
        assert (await client.get("/files", cursor="WzFd")).status == 400

    ask(logs.settings, body)


# -- the quarantine -----------------------------------------------------------------------------------------------


def spoil(logs: Logs, name: str, *lines: bytes) -> None:
    logs.append(name, "turn.begin", prompt="x")
    with (logs.directory / f"{name}.jsonl").open("ab") as stream:
        stream.writelines(line + b"\n" for line in lines)


def test_lines_set_aside_are_listed_without_and_shown_with_their_text(logs: Logs) -> None:
    """Newest first, page by page; each line whole where it was stored, cut where it is long, escaped if not UTF-8."""
    lines = [b"no JSON", b"{\xff}", b"[" * 300_000]
    spoil(logs, "broken", *lines)
    write_long_lines(logs, "long")
    record_narrowly(logs)

    async def body(client: Client) -> None:
        listed = await client.pages("/quarantine", 2)
        assert [row["id"] for row in listed] == sorted((row["id"] for row in listed), reverse=True)
        assert len(listed) == 5 == (await client.json("/quarantine"))["open"]
        assert all("line" not in row for row in listed)
        shown = {row["offset"]: await client.json(f"/quarantine/{row['id']}") for row in listed}
        data = (logs.directory / "broken.jsonl").read_bytes()
        for line, text, cut in zip(lines, ("no JSON", "{\\xff}", "[" * 200_000), (False, False, True), strict=True):
            found = shown[data.index(line)]
            assert (found["line"], found["cut"], found["length"]) == (text, cut, len(line))
        (unkept, _) = [found for found in shown.values() if found["reason"].startswith("line too long")]
        assert (unkept["line"], unkept["cut"]) == (None, True)
        assert (await client.get("/quarantine/99999")).status == 404
        assert (await client.get("/quarantine/0")).status == 422

    ask(logs.settings, body)


def test_without_a_store_there_is_no_quarantine(logs: Logs) -> None:
    """An empty list, nothing to try, and no store made by asking."""

    async def body(client: Client) -> None:
        assert await client.json("/quarantine") == {"items": [], "next": None, "open": 0, "counted_only": 0}
        assert (await client.json("/files"))["items"] == []
        assert (await client.get("/quarantine/1")).status == 404
        assert (await client.post("/quarantine/retry", {"ids": None})).json() == {"asked": 0}

    ask(logs.settings, body)
    assert not logs.store.exists()


def test_asking_changes_what_is_open_and_nothing_else(logs: Logs) -> None:
    """Entries that are resolved or do not exist are not asked for; an entry named twice counts once."""
    spoil(logs, "broken", b"one", b"two", b"three")
    logs.record()
    with closing(connect(logs.store)) as connection:
        first, second, third = sorted(entry.quarantine_id for entry in Quarantine(connection).entries())
        connection.execute("UPDATE quarantine SET resolved_at = 1 WHERE quarantine_id = ?", (third,))
        assert Quarantine(connection).request_retry([first, first, third, 99]) == 1
        assert [entry.quarantine_id for entry in Quarantine(connection).requested(50)] == [first]
        assert Quarantine(connection).request_retry([]) == 0
        assert Quarantine(connection).request_retry(None) == 2
        assert {entry.quarantine_id for entry in Quarantine(connection).requested(50)} == {first, second}


def test_a_retry_must_be_asked_for_rightly(logs: Logs) -> None:
    """Without the page's token, or with numbers that are none, nothing is asked for."""
    spoil(logs, "broken", b"one")
    logs.record()

    async def body(client: Client) -> None:
        assert (await client.post("/quarantine/retry", {"ids": None}, headers={})).status == 403
        wrong_ones: list[object] = [{"ids": wrong} for wrong in ("all", [0], [2**63], list(range(1, 10_002)))]
        for wrong in (*wrong_ones, []):
            assert (await client.post("/quarantine/retry", wrong)).status == 422
        (row,) = (await client.json("/quarantine"))["items"]
        assert (row["retry_asked_at"], row["retry_result"]) == (None, None)

    ask(logs.settings, body)


# -- without a recorder -------------------------------------------------------------------------------------------


def test_without_a_recorder_lines_are_retried_at_once(logs: Logs, tmp_path_factory: pytest.TempPathFactory) -> None:
    """When the answer is there, all is recorded as if never set aside, the lock is free, and the audit log has it."""
    write_long_lines(logs, "one", "two")
    record_narrowly(logs)

    async def body(client: Client) -> None:
        numbers = [row["id"] for row in (await client.json("/quarantine"))["items"]]
        assert len(numbers) == 4
        assert (await client.post("/quarantine/retry", {"ids": numbers[:1]})).json() == {"asked": 1}
        assert (await client.json("/quarantine"))["open"] == 3
        assert (await client.post("/quarantine/retry", {"ids": None})).json() == {"asked": 3}
        found = await client.json("/quarantine", resolved="true")
        assert {row["retry_result"] for row in found["items"]} == {"recorded"}
        assert all(row["resolved_at"] and row["retry_asked_at"] for row in found["items"])
        assert (await client.json("/quarantine"))["items"] == []

    ask(logs.settings, body)
    assert owner(logs.settings.home) is None
    assert counts(logs) == undisturbed(tmp_path_factory.mktemp("other"), logs)
    with AccessStore(logs.settings.home / "access.db") as access:
        log = [(row.action, row.outcome) for row in access.audit.page(10)]
    assert log == [("quarantine.retry", "done")] * 2


def test_what_is_still_not_understood_stays(logs: Logs) -> None:
    """Its result says why, and no line is counted twice."""
    spoil(logs, "broken", b"no JSON")
    logs.record()
    before = counts(logs)

    async def body(client: Client) -> None:
        assert (await client.post("/quarantine/retry", {})).json() == {"asked": 1}
        (row,) = (await client.json("/quarantine"))["items"]
        assert row["retry_result"].startswith("unchanged: ")
        assert row["resolved_at"] is None

    ask(logs.settings, body)
    assert counts(logs) == before


# -- with a recorder ----------------------------------------------------------------------------------------------


async def _results(client: Client) -> list[str | None]:
    return [row["retry_result"] for row in await client.pages("/quarantine", 500, resolved="true")]


async def _finished(client: Client) -> bool:
    return None not in await _results(client)


def test_a_recorder_retries_and_continues(logs: Logs, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Beside new lines of the same files, before, between and after: everything is recorded once, and counted right."""
    write_long_lines(logs, "one", "two")
    record_narrowly(logs)

    async def body(client: Client) -> None:
        for at, name in enumerate(("one", "two", "one")):
            logs.append(name, "message", ts=10.0 + at, role="assistant", text=f"before {at}")
        numbers = [row["id"] for row in (await client.json("/quarantine"))["items"]]
        assert (await client.post("/quarantine/retry", {"ids": numbers[::2]})).json() == {"asked": 2}
        logs.append("one", "message", ts=20.0, role="assistant", text="between")
        assert (await client.post("/quarantine/retry", {"ids": None})).status == 200
        await eventually(lambda: _finished(client))
        assert set(await _results(client)) == {"recorded"}
        logs.append("one", "turn.end", ts=30.0)
        logs.append("two", "note", ts=31.0, text="after")
        await eventually(lambda: _read_up(client))

    with RecorderLock(logs.settings.home), logs.watched():
        ask(logs.settings, body)
    assert counts(logs) == undisturbed(tmp_path_factory.mktemp("other"), logs)


async def _read_up(client: Client) -> bool:
    """Whether nothing is behind, by the files as they are at this moment."""

    def look(store: SqliteStore) -> bool:
        return bool(collected(store, client.context.settings)["behind_bytes"] == 0)

    return await client.context.reader.query_machine(look, empty=lambda: False)


@pytest.mark.parametrize("followed", [True, False])
def test_a_file_that_is_understood_now_is_read_from_its_start(tmp_path: Path, followed: bool) -> None:
    """Whether the recorder follows it or not; what is appended later is recorded where it is followed."""
    logs = found_logs(tmp_path)
    logs.append("other", "turn.begin", prompt="x")
    place = (logs.directory if followed else tmp_path) / "claude"
    shutil.copytree(DATA / "claude-code-2.1.197" / "projects", place)
    environment = {**os.environ, "AGENTTRACE_HOME": str(logs.settings.home)}
    older = [sys.executable, "-c", OLDER, "record", str(place), "--once"]
    subprocess.run(older, env=environment, check=True, capture_output=True)

    async def body(client: Client) -> None:
        held = (await client.json("/quarantine"))["items"]
        assert {row["reason"] for row in held} == {"format not recognised"}
        assert (await client.json("/usage"))["total"]["output_tokens"] == 0
        await client.post("/quarantine/retry", {"ids": None})
        await eventually(lambda: _finished(client))
        assert set(await _results(client)) == {"reread"}
        assert (await client.json("/usage"))["total"]["output_tokens"] == 442
        if followed:
            (log,) = place.rglob("bb1bce27*.jsonl")
            with log.open("ab") as stream:
                stream.write(b'{"type":"user","uuid":"u-new","sessionId":"s","message":{"content":"more"}}\n')
            await eventually(lambda: _read_up(client))
            assert (await client.json("/quarantine"))["open"] == 0

    with RecorderLock(logs.settings.home), logs.watched():
        ask(logs.settings, body)
    with open_store(logs.settings) as store:
        lines = collected(store, logs.settings)["lines"]
    assert lines["quarantined"] == 0
    assert lines["lines"] == sum(lines.values()) - lines["lines"]


def test_what_was_asked_for_before_a_recorder_began_is_done_by_it(logs: Logs) -> None:
    """A request outlives its recorder: the next one finds it, for any number of entries."""
    spoil(logs, "broken", *(b"no JSON %d" % number for number in range(120)))
    logs.record()
    with closing(connect(logs.store)) as connection:
        assert Quarantine(connection).request_retry(None) == 120

    async def body(client: Client) -> None:
        await eventually(lambda: _finished(client))
        found = await client.pages("/quarantine", 500)
        assert len(found) == 120
        assert all(row["retry_result"].startswith("unchanged: ") for row in found)

    with logs.watched():
        ask(logs.settings, body)


def test_a_line_that_the_program_cannot_cope_with_ends_no_recorder(logs: Logs, monkeypatch: pytest.MonkeyPatch) -> None:
    """It stays in quarantine with the kind of error, and the recorder continues with new lines."""
    write_long_lines(logs, "one")
    record_narrowly(logs)
    native = next(agent for agent in AGENTS if agent.name == "agenttrace")

    def fail(*_: object) -> object:
        raise ZeroDivisionError

    async def body(client: Client) -> None:
        with monkeypatch.context() as patch:
            patch.setattr(type(native), "decode", fail)
            await client.post("/quarantine/retry", {"ids": None})
            await eventually(lambda: _finished(client))
        assert set(await _results(client)) == {"unchanged: cannot be recorded: ZeroDivisionError"}
        logs.append("one", "turn.end", ts=40.0)
        await eventually(lambda: _read_up(client))
        await client.post("/quarantine/retry", {"ids": None})
        await eventually(lambda: _finished(client))
        assert set(await _results(client)) == {"recorded"}

    with RecorderLock(logs.settings.home), logs.watched():
        ask(logs.settings, body)


def test_many_ask_at_once(logs: Logs) -> None:
    """Twenty requests beside each other and a recorder: all are answered, and each entry has its result."""
    spoil(logs, "broken", b"one", b"two")
    logs.record()

    async def body(client: Client) -> None:
        answers = await asyncio.gather(*(client.post("/quarantine/retry", {"ids": None}) for _ in range(20)))
        assert {answer.json()["asked"] for answer in answers} == {2}
        await eventually(lambda: _finished(client))

    with RecorderLock(logs.settings.home), logs.watched():
        ask(logs.settings, body)
