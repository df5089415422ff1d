"""The limits of the machine in Python: each unavoidable part of recording alone."""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import zstandard

_CHUNK = 1 << 20


class _Envelope(msgspec.Struct):
    """The fields of a line that recording needs."""

    type: str = ""
    uuid: str = ""
    timestamp: str = ""
    message: msgspec.Raw = msgspec.Raw()


def _chunks(path: Path) -> Iterator[bytes]:
    with path.open("rb", buffering=0) as file:
        while chunk := file.read(_CHUNK):
            yield chunk


def read_and_split(path: Path, _: Path) -> None:
    """Read the file and split it into lines."""
    rest = b""
    for chunk in _chunks(path):
        *lines, rest = (rest + chunk).split(b"\n")
        assert lines is not None


def decode(path: Path, _: Path) -> None:
    """The same, and decode each line into a struct of four fields."""
    decoder = msgspec.json.Decoder(_Envelope)
    rest = b""
    for chunk in _chunks(path):
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            decoder.decode(line)


def compress(path: Path, _: Path) -> None:
    """Read the file and compress it at level 1."""
    compressor = zstandard.ZstdCompressor(level=1)
    for chunk in _chunks(path):
        compressor.compress(chunk)


def insert(path: Path, work: Path) -> None:
    """Insert one narrow row with a unique 16-byte id for every line, in batches of 10,000."""
    count = sum(chunk.count(b"\n") for chunk in _chunks(path))
    store = work / "rows.db"
    store.unlink(missing_ok=True)
    connection = sqlite3.connect(store, isolation_level=None)
    connection.executescript("PRAGMA page_size = 16384; PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL")
    connection.execute("CREATE TABLE events (no INTEGER PRIMARY KEY, id BLOB UNIQUE, session INT, kind TEXT)")
    for first in range(0, count, 10_000):
        rows = [(number, os.urandom(16), 7, "assistant") for number in range(first, min(count, first + 10_000))]
        connection.execute("BEGIN")
        connection.executemany("INSERT INTO events VALUES (?, ?, ?, ?)", rows)
        connection.execute("COMMIT")
    connection.close()


LIMITS: dict[str, Callable[[Path, Path], None]] = {
    "read and split": read_and_split,
    "read, split, msgspec into a struct": decode,
    "zstd level 1": compress,
    "SQLite rows alone": insert,
}


def cpu_seconds(limit: Callable[[Path, Path], None], path: Path, work: Path) -> float:
    """CPU of one of them, in this process."""
    began = time.process_time()
    limit(path, work)
    return time.process_time() - began
