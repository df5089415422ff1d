"""The commands of a team, on a machine and on its server."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

from agenttrace.cli.errors import explained
from agenttrace.cli.program import app

from .rig import Machine, Server, team_server


async def call(home: Path, *words: str) -> tuple[int, str]:
    """Exit code and output of a command with a data directory."""
    if words[:2] == ("export", "run"):
        # It listens to signals, which a thread cannot.
        return await process(home, *words)
    found = await asyncio.to_thread(CliRunner().invoke, app, list(words), env={"AGENTTRACE_HOME": str(home)})
    known = explained(found.exception) if isinstance(found.exception, Exception) else None
    return (found.exit_code, found.output) if known is None else (known.code, f"{known.problem} {known.fix}")


async def process(home: Path, *words: str) -> tuple[int, str]:
    """The same as a process."""
    command = (sys.executable, "-m", "agenttrace.cli.main", *words)
    environ = {**os.environ, "AGENTTRACE_HOME": str(home), "HOME": str(home.parent)}
    found = await asyncio.create_subprocess_exec(
        *command,
        env=environ,
        # A terminal would stop a process in the background that looks at it.
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL if "--json" in words else subprocess.STDOUT,
    )
    output, _ = await found.communicate()
    return found.returncode or 0, output.decode()


async def read(home: Path, *words: str) -> Any:  # noqa: ANN401 - any JSON
    """What a command prints as JSON."""
    code, text = await call(home, *words, "--json")
    assert code == 0, text
    return json.loads(text)


def test_a_team_from_the_invitation_to_the_revocation(tmp_path: Path) -> None:
    async def main() -> None:
        machine = Machine(tmp_path)
        machine.say("s1", "alpha", project="/projects/shop")
        machine.record()
        async with team_server(tmp_path) as server:
            await _join_and_push(server, machine)
            await _look(server, machine)
            await _end(server, machine)

    asyncio.run(main())


async def _join_and_push(server: Server, machine: Machine) -> None:
    code = (await read(server.home, "team", "invite", "--user", "amy"))["code"]
    options = ("--code", code, "--backfill", "--name", "desk", "--level", "masked", "--project", "*/shop=full")
    joined = await read(machine.home, "team", "join", server.url, *options)
    assert joined == {"machine": "desk", "person": "amy", "url": server.url, "team": "", "level": "masked"}
    (destination,) = machine.settings.destinations
    assert (destination.level, destination.project_levels) == ("masked", {"*/shop": "full"})
    exit_code, text = await call(machine.home, "export", "check")
    assert exit_code == 0, text
    sent = (await read(machine.home, "export", "run", "--once"))["destinations"]
    assert [(each["name"], each["left"], each["reason"]) for each in sent] == [("team", 0, None)]
    assert sent[0]["acknowledged"] > 5
    exit_code, text = await call(machine.home, "export", "run", "--once")
    assert (exit_code, "nothing new was sent" in text) == (0, True)


async def _look(server: Server, machine: Machine) -> None:
    status = (await read(machine.home, "team"))["member"]
    assert (status["machine"], status["waiting"], status["problem"]) == ("desk", 0, None)
    (found,) = await read(server.home, "team", "machines")
    assert (found["machine"], found["person"], found["sessions"], found["revoked"]) == ("desk", "amy", 1, False)
    (person,) = await read(server.home, "team", "users")
    assert (person["person"], person["machines"], person["sessions"]) == ("amy", ["desk"], 1)
    assert (await read(server.home, "team", "status"))["server"]["problem"] is None
    tokens = [
        (await read(server.home, "team", "token", "create", "--role", role))["token"] for role in ("admin", "viewer")
    ]
    for token in tokens:
        assert len((await server.get("sessions", token))["items"]) == 1
    (exported,) = (await read(machine.home, "export"))["destinations"]
    assert (exported["kind"], exported["queued"], exported["state"]) == ("team", 0, "stopped")
    for words in (("team",), ("team", "status"), ("export", "status", "team")):
        exit_code, text = await call(machine.home, *words)
        assert exit_code == 0, text
        assert "row" in text


async def _end(server: Server, machine: Machine) -> None:
    assert await read(server.home, "team", "machines", "revoke", "desk") == {"revoked": "desk"}
    machine.say("s1", "beta")
    machine.record()
    exit_code, text = await call(machine.home, "export", "run", "--once")
    assert (exit_code, "team join" in text) == (1, True)
    assert "revoked" in (await read(machine.home, "team"))["member"]["problem"]
    assert (await read(machine.home, "team", "leave"))["machine"] == "desk"
    assert await read(machine.home, "team") == {"member": None, "server": None}
    exit_code, text = await call(machine.home, "team", "leave")
    assert (exit_code, "no member" in text) == (1, True)


def test_wrong_codes_addresses_and_levels_say_what_to_do(tmp_path: Path) -> None:
    async def main() -> None:
        machine = Machine(tmp_path)
        async with team_server(tmp_path) as server:
            cases = [
                ((server.url, "--code", "wrong"), 1, "ask for a new one"),
                (("http://127.0.0.1:9", "--code", "x"), 1, "not reached"),
                (("http://team.example.com", "--code", "x"), 1, "--insecure"),
                ((server.url + "/elsewhere", "--code", "x"), 1, "check the address"),
                ((server.url, "--code", "x", "--project", "shop"), 2, "figures"),
                ((server.url, "--code", "x", "--level", "some"), 2, "some"),
            ]
            for words, code, expected in cases:
                found, text = await call(machine.home, "team", "join", *words)
                assert (found, expected in " ".join(text.split())) == (code, True), text
            assert machine.settings.destinations == ()

    asyncio.run(main())


def test_the_server_as_a_process_prints_its_address_and_stops(tmp_path: Path) -> None:
    """With a store of its own, which the other commands find by themselves."""
    environ = {**os.environ, "AGENTTRACE_HOME": str(tmp_path / "home"), "HOME": str(tmp_path)}
    words = ["team", "serve", "--port", "0", "--store", str(tmp_path / "own.db"), "--json"]
    command = [sys.executable, "-m", "agenttrace.cli.main", *words]
    with subprocess.Popen(command, env=environ, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        assert json.loads(server.stdout.readline())["url"].startswith("http://127.0.0.1:")
        server.terminate()
        assert server.wait(60) == 0
    assert (tmp_path / "own.db").exists()
    found = CliRunner().invoke(app, ["team", "status", "--json"], env={"AGENTTRACE_HOME": str(tmp_path / "home")})
    assert json.loads(found.output)["server"]["store"] == str(tmp_path / "own.db")
