"""A process that writes spans to files until it is killed: ``python -m export.file_writing jsonl DIRECTORY FIRST``."""

from __future__ import annotations

import asyncio
import itertools
import sys
from pathlib import Path

from agenttrace.destinations import DestinationSettings
from agenttrace.export.destination import Destination
from agenttrace.export.jsonl_files import JsonlDestination
from agenttrace.export.parquet_files import ParquetDestination
from agenttrace.export.span import ExportSpan, Text
from export.span_making import make_span, some_id

KINDS: dict[str, type[JsonlDestination | ParquetDestination]] = {
    "jsonl": JsonlDestination,
    "parquet": ParquetDestination,
}


def destination_in(kind: str, path: Path, **changes: object) -> Destination:
    """A destination that writes files of a kind."""
    settings = DestinationSettings(name="files", type=kind, path=str(path), **changes)  # type: ignore[arg-type]
    return KINDS[kind](settings)


def portion(number: int) -> list[ExportSpan]:
    """The same spans for the same number, large enough that writing them takes a while."""
    root = make_span(span_id=some_id(("root", number)))
    said = (Text("text", f"{number} " * 5_000),)
    return [root, *(make_span(root, span_id=some_id((number, each)), texts=said) for each in range(30))]


async def _write(kind: str, path: Path, first: int) -> None:
    destination = destination_in(kind, path)
    for number in itertools.count(first):
        spans = portion(number)
        print(f"sending {number}", flush=True)  # noqa: T201 - read by the test that kills it
        delivery = await destination.send(spans)
        assert delivery.verdict == "accepted", delivery
        print(f"sent {number}", flush=True)  # noqa: T201 - read by the test that kills it


if __name__ == "__main__":
    asyncio.run(_write(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])))
