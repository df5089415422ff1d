"""Whatever a query or a path holds, every question of the API is answered, and never with a server's error."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

from agenttrace.config import Settings, ensure_home
from agenttrace.record.recorder import Recorder

from .harness import INTERNAL, Stack, run_with

#: Beyond what 64 bits hold on either side, at their ends, and no numbers at all.
_NUMBERS = (-(2**63) - 1, -(2**63), -1, 0, 2**63 - 1, 2**63, 10**30, 1e300, -1.5)
_TEXTS = ("", "x", "\x00", "%", "*", '"', "2026-13-01", "9999999d", "9999-12-31", "0001-01-01", "today", "[" * 300)
#: Streams, which do not end; and slow checks of the machine.
_LEFT_OUT = ("/api/v1/live", "/api/v1/doctor")


def cursors() -> Iterator[str]:
    """Places that no list has, written as places are."""
    places: list[Any] = [[number] for number in _NUMBERS]
    places += [[0, number] for number in _NUMBERS]
    places += [[], {}, None, "x", [None], [[]], ["last", "desc", False, 10**400, "k"], [[[0] * 5] * 5]]
    for place in places:
        yield base64.urlsafe_b64encode(json.dumps(place).encode()).rstrip(b"=").decode()
    yield "["
    yield "é"


def questions(document: dict[str, Any], known: dict[str, str]) -> Iterator[str]:
    """Each GET of the API with odd values in each of its parameters, everything else being right."""
    for path, methods in document["paths"].items():
        if "get" not in methods or path in _LEFT_OUT:
            continue
        given = methods["get"].get("parameters", [])
        names = [each["name"] for each in given if each["in"] == "path"]
        right = {name: known.get(name, "1") for name in names}
        required = "&".join(f"{each['name']}=queued" for each in given if each["in"] == "query" and each["required"])
        yield f"{path.format(**right)}?{required}"
        for name in names:
            for value in (*map(str, _NUMBERS), *_TEXTS[1:]):
                yield f"{path.format(**right | {name: quote(value, safe='')})}?{required}"
        for name in (each["name"] for each in given if each["in"] == "query"):
            values = cursors() if name == "cursor" else (*map(str, _NUMBERS), *_TEXTS)
            needed = "q=a&" if path.endswith("/search") and name != "q" else ""
            for value in values:
                yield f"{path.format(**right)}?{needed}{required}&{name}={quote(value)}"


def test_no_question_breaks_the_server(tmp_path: Path, database_url: str) -> None:
    """Every answer is one, or says what is wrong with the question."""
    home = tmp_path / ".agenttrace"
    settings = Settings(home=home)
    ensure_home(settings)
    log = home / "logs" / "s.jsonl"
    log.parent.mkdir(mode=0o700)
    lines: list[dict[str, Any]] = [
        {"type": "turn.begin", "turn": 1, "prompt": "a b"},
        {"type": "message", "id": "m", "text": "a"},
        {"x": 1},
    ]
    log.write_text("".join(json.dumps({"v": 1, "session": "s"} | line) + "\n" for line in lines))
    recorder = Recorder(settings, environ={"HOME": str(tmp_path)})
    recorder.run_once()
    recorder.close()

    async def body(stack: Stack) -> None:
        document = (await stack.request("GET", "/openapi.json")).json()
        spans = (await stack.request("GET", "/api/v1/sessions/s/spans")).json()["items"]
        known = {"session": "s", "span": spans[0]["span_id"], "index": "0", "name": "none"}
        limit = asyncio.Semaphore(8)

        async def asked(path: str) -> tuple[int, str]:
            async with limit:
                return (await stack.request("GET", path, headers=INTERNAL)).status, path

        found = await asyncio.gather(*(asked(path) for path in questions(document, known)))
        assert len(found) > 1000
        assert [path for status, path in found if status >= 500 and not path.startswith("/readyz")] == []

    run_with(home, database_url, body)
