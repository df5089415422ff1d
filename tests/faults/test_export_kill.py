"""Exporters that are killed in the middle of their work: no span is lost, and none is sent twice without need."""

from __future__ import annotations

import asyncio
import json
import random
import subprocess
import sys
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import forked
from export.fake_langsmith import KEY, FakeLangSmith
from export.fake_otlp import FakeOtlp
from export.rig import World, target

KILLS = 8
TURNS = 270
CLI = (sys.executable, "-m", "agenttrace.cli.main")


@asynccontextmanager
async def exporter() -> AsyncIterator[subprocess.Popen[bytes]]:
    process = forked.popen([*CLI, "export", "run"], stderr=subprocess.DEVNULL)
    try:
        yield process
    finally:
        process.kill()
        await asyncio.to_thread(process.wait)


def written(directory: Path) -> Counter[bytes]:
    lines = [line for path in directory.glob("*.jsonl") for line in path.read_bytes().splitlines()]
    return Counter(bytes.fromhex(json.loads(line)["span_id"]) for line in lines)


def settings_file(world: World, otlp: str, langsmith: str) -> None:
    (world.settings.home / "agenttrace.toml").write_text(
        f"""
        [export]
        quiet_seconds = 0.1
        [destinations.otlp]
        type = "otlp"
        url = "{otlp}"
        start = "all"
        batch_spans = 5
        [destinations.langsmith]
        type = "langsmith"
        url = "{langsmith}"
        api_key = "{KEY}"
        start = "all"
        batch_spans = 5
        [destinations.files]
        type = "jsonl"
        path = "spans"
        start = "all"
        batch_spans = 5
        """
    )


def test_killed_exporters_lose_and_repeat_nothing(home: Path, tmp_path: Path) -> None:
    """SIGKILL at any instant, again and again, while recording goes on: a destination that can be read back has each
    span once; one that ignores repeats too; one that keeps them and cannot be asked has none twice, and each span that
    it may not have is one that the ledger calls unknown."""
    chance = random.Random(5)
    world = World(tmp_path, target("otlp"), target("langsmith"), target("files"), home=home)

    async def main() -> tuple[Counter[bytes], int]:
        async with FakeOtlp() as otlp, FakeLangSmith() as langsmith:
            settings_file(world, otlp.url, langsmith.url)
            for kill in range(KILLS + 1):
                for turn in range(TURNS // (KILLS + 1)):
                    world.turn(f"s{kill}", turn)
                await asyncio.to_thread(world.record)
                async with exporter() as process:
                    if kill < KILLS:
                        before = len(otlp.received)
                        while len(otlp.received) == before and process.poll() is None:
                            await asyncio.sleep(0.01)
                        await asyncio.sleep(chance.random() * 0.25)
                        continue
                    while world.rows("SELECT 1 FROM export_touched LIMIT 1"):
                        await asyncio.sleep(0.1)  # what was recorded last is not sealed yet
                    for name in ("otlp", "langsmith", "files"):
                        while await asyncio.to_thread(world.left, name) or not world.states(name)["acknowledged"]:
                            await asyncio.sleep(0.1)
                    await asyncio.sleep(1.0)
            return Counter(span.span_id for span in otlp.spans), len(langsmith.runs)

    otlp, runs = asyncio.run(main())
    everything = world.span_ids()
    assert written(home / "spans") == Counter(everything)
    # They are named by the span; the first of several is kept.
    assert runs == len(everything)
    assert set(otlp.values()) == {1}
    acknowledged = _in_state(world, "acknowledged")
    assert acknowledged <= otlp.keys()
    assert everything - otlp.keys() <= _in_state(world, "unknown")
    assert len(acknowledged) > len(everything) / 2


def _in_state(world: World, state: str) -> set[bytes]:
    query = """
    SELECT span_id FROM export_spans JOIN export_destinations USING (destination_id) WHERE name = 'otlp' AND state = ?
    """
    return {row[0] for row in world.rows(query, state)}
