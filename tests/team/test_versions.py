"""Machines of several versions push to one server, side by side."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
import zstandard

from agenttrace.team import pusher, wire

from .rig import Machine, contents, team_server

#: Of the version before: what a session did not have yet.
_MISSING = ("machine", "person", "born", "copied", "parent")


def _older(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    for row in rows:
        if row["type"] == "session":
            row["session"] = {name: value for name, value in row["session"].items() if name not in _MISSING}
    return rows


def _newer(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [*({**row, "mood": "good"} for row in rows), {"type": "thought", "session": 1, "revision": 1}]


@pytest.mark.parametrize("versions", [(1, 2), (1, 3), (2, 3)])
def test_versions_push_side_by_side(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, versions: tuple[int, int]) -> None:
    """A server of version 2 takes rows of 1 and 2; a machine of version 3 speaks 2 with it. All rows arrive."""
    monkeypatch.setattr(wire, "PROTOCOL", 2)
    monkeypatch.setattr(wire, "OLDEST", 1)
    packed, make = wire.packed, pusher.Pusher.__init__
    spoken: list[int] = []

    def speak(version: int) -> None:
        changes: dict[int, Callable[[list[dict[str, Any]]], list[dict[str, Any]]]] = {1: _older, 2: list, 3: _newer}
        change = changes[version]

        def other(page: wire.SentPage) -> bytes:
            plain = msgspec.msgpack.decode(zstandard.ZstdDecompressor().decompressobj().decompress(packed(page)))
            plain["rows"] = change(plain["rows"])
            spoken.append(plain["protocol"])
            return zstandard.ZstdCompressor().compress(msgspec.msgpack.encode(plain))

        def init(self: pusher.Pusher, *given: Any, **options: Any) -> None:  # noqa: ANN401 - those of the pusher
            make(self, *given, **options)
            self._protocol = version

        monkeypatch.setattr(wire, "packed", other)
        monkeypatch.setattr(pusher.Pusher, "__init__", init)

    async def main() -> None:
        machines = [Machine(tmp_path, f"m{number}") for number in range(2)]
        async with team_server(tmp_path) as server:
            for machine in machines:
                machine.say(f"s of {machine.name}", "before")
                machine.record()
                await machine.join(server)
            for text in ("alpha", "beta"):
                for machine, version in zip(machines, versions, strict=True):
                    machine.say(f"s of {machine.name}", text)
                    machine.record()
                    speak(version)
                    assert await machine.push() == {}
            with server.store() as team:
                found = contents(team)
            expected: dict[str, Any] = {}
            for machine in machines:
                with machine.store() as store:
                    expected |= contents(store)
            assert found == expected

    asyncio.run(main())
    assert {version for version in spoken if version < 3} == {min(version, 2) for version in versions}
