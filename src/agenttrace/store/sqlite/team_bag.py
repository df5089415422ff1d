"""Rows of copies of sessions that are not shown, as they came: see ``store.team``."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from typing import NamedTuple

import msgspec
import zstandard

from agenttrace.store.batch import COMPRESSION_LEVEL
from agenttrace.store.rows import EventRow, FileOfLines, LinkRow, StoredSession, StoredSpan, TotalRow
from agenttrace.store.sqlite.database import marks
from agenttrace.store.sqlite.merging import total_key

#: Rows of a session that go from one copy to another with it.
CopyRow = StoredSession | StoredSpan | LinkRow | TotalRow | EventRow
#: With the files that its events came from.
BagRow = CopyRow | FileOfLines

_PUT = """
INSERT INTO team_bag (session_id, source, kind, key, place, row) VALUES (?, ?, ?, ?, ?, ?)
ON CONFLICT DO UPDATE SET row = excluded.row WHERE kind <> 'event'
"""
_PLACE = "SELECT coalesce(max(place), 0) FROM team_bag WHERE session_id = ? AND source = ?"
_ROWS = "SELECT row FROM team_bag WHERE session_id = ?1 AND source = ?2 AND kind = coalesce(?3, kind) ORDER BY place"

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(BagRow).decode


class Copy(NamedTuple):
    """Which copy of which session."""

    session: int
    source: int


def session_of(row: CopyRow) -> int:
    """The number of the session that a row is of."""
    return row.session.id if isinstance(row, StoredSession) else row.session


def _key(row: BagRow) -> tuple[str, bytes]:
    match row:
        case StoredSession():
            return "session", b""
        case StoredSpan():
            return "span", row.span_id
        case LinkRow():
            return "link", row.stream.encode("utf-8", "surrogatepass")
        case TotalRow():
            return "total", _encode(total_key(row))
        case EventRow():
            return "event", row.event_id
        case FileOfLines():
            return "file", row.file_id.to_bytes(8, "big")


def put(connection: sqlite3.Connection, copy: Copy, rows: Iterable[BagRow]) -> None:
    """Keep rows of a copy; of those with one key the last, of an event the first."""
    pack = zstandard.ZstdCompressor(level=COMPRESSION_LEVEL).compress
    (place,) = connection.execute(_PLACE, copy).fetchone()
    numbered = enumerate(rows, place + 1)
    connection.executemany(_PUT, ((*copy, *_key(row), number, pack(_encode(row))) for number, row in numbered))


def rows(connection: sqlite3.Connection, copy: Copy, kind: str | None = None) -> list[BagRow]:
    """The rows of a copy, or those of a kind, in the order in which they came."""
    unpack = zstandard.ZstdDecompressor().decompress
    return [_decode(unpack(packed)) for (packed,) in connection.execute(_ROWS, (*copy, kind))]


def remove(connection: sqlite3.Connection, copy: Copy, kinds: Iterable[str] = (), key: bytes | None = None) -> None:
    """Remove rows of some kinds, or all; those with a key, or all."""
    where, values = "session_id = ? AND source = ?", list[object](copy)
    if named := list(kinds):
        where += f" AND kind IN {marks(named)}"
        values += named
    if key is not None:
        where += " AND key = ?"
        values.append(key)
    connection.execute(f"DELETE FROM team_bag WHERE {where}", values)
