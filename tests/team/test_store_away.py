"""A team's store that does not answer: when the server starts, while it runs, and addresses of what is none."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from typer.testing import CliRunner

from agenttrace.cli.errors import FAILED, USAGE, explained
from agenttrace.cli.program import app
from agenttrace.serve.team import waiting
from agenttrace.serve.team.waiting import await_store
from agenttrace.store import open_team_store
from agenttrace.store.clickhouse.connection import Target
from agenttrace.store.errors import StoreAwayError, StoreError
from agenttrace.store.team import TeamStore

from .rig import team_server

#: Nothing listens there.
AWAY = "clickhouse://amy:secret@127.0.0.1:9/team"


def failed(tmp_path: Path, *words: str) -> tuple[int, str]:
    """Exit code and message of a command that fails."""
    done = CliRunner().invoke(app, list(words), env={"AGENTTRACE_HOME": str(tmp_path / "home")})
    assert isinstance(done.exception, Exception)
    while isinstance(error := done.exception, BaseExceptionGroup):
        done.exception = error.exceptions[0]
    known = explained(done.exception)
    assert known is not None, done.exception
    return known.code, f"{known.problem} | {known.fix}"


def test_a_store_that_stays_away_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The server tries for a while and ends; a command says so at once. Neither tells the password."""
    monkeypatch.setattr(waiting, "PATIENCE_SECONDS", 0.1)
    for words in (("team", "serve", "--port", "0"), ("team", "machines"), ("team", "now")):
        code, said = failed(tmp_path, *words, "--store", AWAY)
        assert code == FAILED
        assert said.startswith("ClickHouse at 127.0.0.1:9 does not answer (Connection refused)"), said
        assert "check the address" in said
        assert "secret" not in said


def test_a_store_that_comes_back_is_waited_for(tmp_path: Path) -> None:
    """The wait is told once, and ends when the store answers, or when the server is stopped."""
    tries, told = list[int](), list[str]()

    def opened() -> TeamStore:
        tries.append(1)
        if len(tries) < 3:
            raise StoreAwayError("it is away", "Start it.")
        return open_team_store(tmp_path / "team.db")

    async def main() -> None:
        await await_store(opened, asyncio.Event(), on_wait=lambda error: told.append(error.problem))
        stop = asyncio.Event()
        stop.set()
        await await_store(opened, stop, on_wait=lambda error: told.append(error.problem))

    asyncio.run(main())
    assert (len(tries), told) == (3, ["it is away"])


def test_what_does_not_pass_is_not_waited_for() -> None:
    """A wrong password is wrong the second time, too."""

    def opened() -> TeamStore:
        raise StoreError("the password is wrong")

    with pytest.raises(StoreError, match="password"):
        asyncio.run(await_store(opened, asyncio.Event(), on_wait=lambda _: None))


@pytest.mark.parametrize(
    "address", ["postgres://db/agenttrace", "postgresql://db/x", "http://db:8123", "sqlite:///t.db"]
)
def test_other_addresses_are_no_paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, address: str) -> None:
    """They are refused with what a store can be, as an option and as a setting; no file of that name is made."""
    monkeypatch.chdir(tmp_path)
    for words in (("team", "serve"), ("team", "machines")):
        code, said = failed(tmp_path, *words, "--store", address)
        assert (code, "clickhouse://" in said) == (USAGE, True), said
    monkeypatch.setenv("AGENTTRACE_TEAM_STORE", address)
    assert failed(tmp_path, "sessions")[0] == USAGE
    assert {path.name for path in tmp_path.iterdir()} <= {"home"}


@pytest.mark.parametrize(
    ("address", "port", "secure"),
    [
        ("clickhouse://db/x", 8123, False),
        ("clickhouse://db/x?secure=1", 8443, True),
        ("clickhouses://db/x", 8443, True),
        ("clickhouses://amy:pw@db:9443/x", 9443, True),
    ],
)
def test_addresses_of_databases(address: str, port: int, secure: bool) -> None:
    """HTTPS by the scheme or by the parameter."""
    found = Target.of(address)
    assert (found.options["host"], found.options["port"], found.options["secure"]) == ("db", port, secure)
    assert found.database == "x"


def test_a_server_whose_store_is_gone_is_not_ready(tmp_path: Path) -> None:
    """``/readyz`` is 503 while the store does not answer; the process is alive all the same."""

    async def main() -> None:
        async with team_server(tmp_path) as server:

            async def ready() -> tuple[int, bool]:
                async with server.client.get(f"{server.url}/readyz") as answer:
                    return answer.status, (await answer.json())["store"]

            assert await ready() == (200, True)
            aside = server.path.rename(tmp_path / "aside.db")
            assert await ready() == (503, False)
            async with server.client.get(f"{server.url}/healthz") as answer:
                assert answer.status == 200
            aside.rename(server.path)
            assert await ready() == (200, True)

    asyncio.run(main())
