"""A team's server on ClickHouse: what machines push is searched and examined there as on one machine."""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import os
import secrets
import shutil
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import clickhouse_on
from agenttrace.record.outcome_updates import update_all
from agenttrace.store import open_team_store
from agenttrace.store.clickhouse.connection import Database, Target, check_cluster
from agenttrace.store.clickhouse.schema import MIGRATIONS, filled
from agenttrace.store.current import StoreSource
from agenttrace.store.errors import StoreError
from agenttrace.store.rows import AnnotationRow, ChangesCursor
from agenttrace.store.team import Page

from . import rig
from .rig import Machine, Server, team_server

pytestmark = [
    pytest.mark.team,
    pytest.mark.xdist_group("clickhouse"),
    pytest.mark.skipif(
        not clickhouse_on.has_clickhouse(), reason="needs chdb (make test-team), or TEST_CLICKHOUSE_URL"
    ),
]
#: A session that edited one file.
EDITED = "feedbd99-a9af-4edf-8847-ea0806cea7ba"
LOG = f"claude-code-2.1.325/projects/-home-dev-claude-work/{EDITED}.jsonl"
_PATIENCE = 60.0


def address() -> str:
    """A database of its own."""
    return clickhouse_on.clickhouse_address(f"agenttrace_test_{secrets.token_hex(8)}")


async def eventually(look: Callable[[], Awaitable[Any]]) -> Any:  # noqa: ANN401 - what is found
    """What is found, as soon as it is something."""
    deadline = time.monotonic() + _PATIENCE
    while not (found := await look()):
        assert time.monotonic() < deadline, "it does not come"
        await asyncio.sleep(0.1)
    return found


async def _pushed(server: Server, machine: Machine) -> None:
    await machine.join(server)
    assert await machine.push() == {}


def test_what_is_pushed_is_found_and_examined(tmp_path: Path) -> None:
    """Words and Chinese texts are found, the backlog is counted down to nothing, and outcomes are shown."""
    machine = Machine(tmp_path)
    machine.say("s1", "the parser fails", "支付服务没有响应")
    log = machine.logs / "projects" / "-home-dev-claude-work" / f"{EDITED}.jsonl"
    log.parent.mkdir(parents=True)
    shutil.copyfile(Path(__file__).resolve().parents[1] / "data" / LOG, log)
    machine.record()

    async def main() -> None:
        async with team_server(tmp_path, database=address()) as server:
            assert (await server.get("search", q="parser"))["backlog"] == 0
            await _pushed(server, machine)

            async def indexed() -> bool:
                return bool((await server.get("search", q="parser"))["backlog"] == 0)

            await eventually(indexed)
            for words in ("parser fails", "没有响应", "支付"):
                found = (await server.get("search", q=words))["items"]
                assert {hit["session"]["session_id"] for hit in found} == {"s1"}, words

            rows = (await server.get("sessions"))["items"]
            assert {each["session_id"] for each in rows} == {"s1", EDITED}
            for row in rows:
                examined = await eventually(partial(_outcomes, server, row["key"]))
                assert examined["files"] == (row["session_id"] == EDITED)

    asyncio.run(main())


async def _outcomes(server: Server, key: str) -> dict[str, int] | None:
    return (await server.get(f"sessions/{key}"))["outcomes"]  # type: ignore[no-any-return]


def test_outcomes_are_news(tmp_path: Path) -> None:
    """A server that looks whether something changed sees outcomes, which come without events."""
    machine, database = Machine(tmp_path), address()
    machine.say("s1", "alpha")
    machine.record()
    with machine.store() as own, open_team_store(database) as team:
        found = own.changes_since(ChangesCursor(), 1000)
        page = Page(machine="m", person="amy", store="x", after=ChangesCursor(), until=found.cursor)
        team.take(found.rows, page, day_of=lambda _: "2026-11-19")
        current = StoreSource(database, is_team=True).current()
        before = current.version()
        update_all(team)
        time.sleep(0.3)  # it is asked now and then
        assert current.version() != before
        current.close()


def test_what_waits_for_the_index_is_told(tmp_path: Path) -> None:
    """Events that are stored and not indexed yet are the backlog that a search tells."""
    machine, database = Machine(tmp_path), address()
    machine.say("s1", "alpha")
    machine.record()
    with machine.store() as own, open_team_store(database) as team:
        found = own.changes_since(ChangesCursor(), 1000)
        page = Page(machine="m", person="amy", store="x", after=ChangesCursor(), until=found.cursor)
        team.take(found.rows, page, day_of=lambda _: "2026-11-19")
        assert team.search_index.backlog == own.last_event() > 0


def test_notes_are_written_through_the_api(tmp_path: Path) -> None:
    """Added, changed and removed as on one machine; what concerns a machine is still refused."""
    machine = Machine(tmp_path)
    machine.say("s1", "alpha")
    machine.record()

    async def main() -> None:
        async with team_server(tmp_path, database=address()) as server:
            await _pushed(server, machine)
            key = (await server.get("sessions"))["items"][0]["key"]
            place = f"sessions/{key}/annotations"
            status, note = await server.change("POST", place, {"kind": "note", "text": "look at this"})
            assert (status, note["text"]) == (200, "look at this")
            changed = await server.change("PATCH", f"{place}/{note['id']}", {"text": "again"})
            assert (changed[0], changed[1]["text"]) == (200, "again")
            assert [each["text"] for each in (await server.get(place))["items"]] == ["again"]
            assert (await server.change("DELETE", f"{place}/{note['id']}", None))[0] == 200
            assert (await server.get(place))["items"] == []

    asyncio.run(main())


def test_budgets_of_a_team_are_looked_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The overview says which are used up, and whose they are."""
    monkeypatch.setattr(rig, "BASE", time.time() - 60)
    machine = Machine(tmp_path)
    machine.say("s1", "alpha")
    machine.record()
    home = tmp_path / "server"
    home.mkdir(mode=0o700)
    (home / "agenttrace.toml").write_text('[budgets.amy]\nperiod = "session"\ntokens = 1\nwhere = { person = "amy" }\n')

    async def main() -> None:
        async with team_server(tmp_path, database=address()) as server:
            await _pushed(server, machine)
            assert (await server.get("limits"))["budgets"]

            async def warned() -> list[str]:
                found = (await server.get("overview"))["attention"]
                return [each["name"] for each in found if each["kind"] == "budget"]

            assert await eventually(warned) == ["amy"]

    asyncio.run(main())


def _made(database: str) -> list[tuple[str, ...]]:
    """Everything that changes when something is written or made."""
    with contextlib.closing(Database.open(database)) as opened:
        return opened.rows(
            "SELECT name, toString(uuid), ifNull(toString(total_rows), ''), toString(metadata_modification_time) "
            "FROM system.tables WHERE database = :name ORDER BY name",
            name=opened.target.database,
        )


def test_a_store_that_is_read_is_not_written(tmp_path: Path) -> None:
    """Reading makes no database and no tables, and cannot write; what is not there or too old says what to do."""
    database = address()
    with pytest.raises(StoreError, match="team serve makes it"):
        open_team_store(database, read_only=True)
    with contextlib.closing(Database.open(database)):
        pass  # an empty database
    with pytest.raises(StoreError, match="team serve makes it"):
        open_team_store(database, read_only=True)
    open_team_store(database).close()
    before = _made(database)
    with open_team_store(database, read_only=True) as store:
        assert store.sessions() == []
        with pytest.raises(StoreError, match=r"readonly|READONLY"):
            store.merge(
                [AnnotationRow(b"0" * 16, 1, None, "star", "", None, "", "person", "amy", 1.0, 1.0, None, 1)],
                day_of=str,
            )
    open_team_store(database).close()
    assert _made(database) == before


def test_a_directory_that_another_process_has_open_says_so(tmp_path: Path) -> None:
    """The engine in process has one process at a time: beside a server, the message says what to do."""
    if importlib.util.find_spec("chdb") is None:
        pytest.skip("needs chdb")
    place = tmp_path / "engine"
    holder = (
        "import sys; from agenttrace.store import open_team_store; s = open_team_store(sys.argv[1]); print(); input()"
    )
    command = [sys.executable, "-c", holder, f"chdb://{place}?database=team"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        for words in (("team", "now"), ("team", "machines"), ("sessions",)):
            done = run(tmp_path / "server", f"chdb://{place}?database=team", *words)
            assert done.returncode == 1
            assert "is open in another process" in " ".join(done.stderr.split()), done.stderr
            assert "Exception" not in done.stderr
        # A server that is started while another one ends waits for that.
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as second:
            time.sleep(1.5)
            process.communicate(b"\n")
            assert second.communicate(b"\n")[0] == b"\n"
    assert run(tmp_path / "server", f"chdb://{place}?database=team", "sessions").returncode == 0


def test_tables_of_a_cluster() -> None:
    """All are made and changed on every replica, and replicated; without a cluster none is. They need nothing else."""
    statements = [each for version in MIGRATIONS for each in version]
    for on_cluster in (" ON CLUSTER 'team'", ""):
        for statement in statements:
            made = filled(statement, on_cluster, (26, 9))
            assert (" ON CLUSTER 'team' " in made) == bool(on_cluster)
            if made.startswith("CREATE"):
                assert ("ENGINE = ReplicatedReplacingMergeTree(ver, deleted)" in made) == bool(on_cluster)
            assert "{" not in made.replace("{}", "")
            assert "PARTITION BY" not in made


def test_clusters_that_cannot_hold_a_store(tmp_path: Path) -> None:
    """One that is not there, and one with several shards, of which each server would see one, are refused."""
    check_cluster("team", 1)
    with pytest.raises(StoreError, match="3 shards"):
        check_cluster("team", 3)
    target = Target.of(address())._replace(cluster="nowhere")
    for read_only in (False, True):
        with pytest.raises(StoreError, match="no cluster named 'nowhere'" if not read_only else "makes it"):
            Database(target, read_only=read_only)
    with contextlib.closing(Database(target._replace(cluster=None))) as opened:
        assert not opened.value("SELECT count() FROM system.tables WHERE database = :name", name=target.database)


def run(home: Path, store: str, *words: str) -> subprocess.CompletedProcess[str]:
    """A command in the data directory of a server with this store."""
    environ = {**os.environ, "AGENTTRACE_HOME": str(home), "HOME": str(home), "AGENTTRACE_TEAM_STORE": store}
    command = [sys.executable, "-m", "agenttrace.cli.main", *words]
    return subprocess.run(command, env=environ, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
