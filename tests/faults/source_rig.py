"""Sources that are no append-only files, for the fault tests: databases and documents, written at once or live."""

from __future__ import annotations

import json
import os
import random
import sqlite3
import threading
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

from agent_homes import opencode_turn
from faults.store_rig import write_logs

_START = 1_794_789_900_000
_SCHEMA = """
CREATE TABLE session (id TEXT PRIMARY KEY, parent_id TEXT);
CREATE TABLE event (id TEXT PRIMARY KEY, aggregate_id TEXT NOT NULL, seq INTEGER NOT NULL, type TEXT NOT NULL,
    data TEXT NOT NULL);
"""


class DatabaseWriter:
    """A database of OpenCode: sessions of one turn each, every second one a subagent of the one before."""

    def __init__(self, root: Path, mode: str = "wal") -> None:
        root.mkdir(parents=True, exist_ok=True)
        self._connection = sqlite3.connect(root / "opencode.db", isolation_level=None, check_same_thread=False)
        self._connection.execute(f"PRAGMA journal_mode = {mode}")
        self._connection.execute("PRAGMA synchronous = OFF")
        self._connection.executescript(_SCHEMA)
        self._sessions = 0

    def write(self, chance: random.Random, pad: int = 400) -> None:
        """One more session, in one transaction or in one for each event."""
        number = self._sessions
        self._sessions += 1
        session, parent = f"ses_{number:05d}", f"ses_{number - 1:05d}" if number % 2 else None
        tokens = (chance.randint(1, 900), chance.randint(0, 900), chance.randint(0, 90), chance.randint(1, 400))
        events = opencode_turn(session, f"prompt {number}", number * 1000, tokens, "answer " * (pad // 7))
        whole = chance.random() < 0.5
        self._connection.execute("INSERT INTO session VALUES (?, ?)", (session, parent))
        if whole:
            self._connection.execute("BEGIN IMMEDIATE")
        for seq, (kind, data) in enumerate(events):
            row = (f"evt_{session}_{seq}", session, seq, f"{kind}.1", json.dumps(data))
            self._connection.execute("INSERT INTO event VALUES (?, ?, ?, ?, ?)", row)
        if whole:
            self._connection.execute("COMMIT")

    def disturb(self, chance: random.Random) -> None:
        """What agents do with a database between two writes."""
        self._connection.execute(chance.choice(["VACUUM", "PRAGMA wal_checkpoint(TRUNCATE)"]))

    def close(self) -> None:
        """As an agent that ends in good order."""
        self._connection.close()


class DocumentWriter:
    """Documents of Cline, each written anew with every message."""

    def __init__(self, root: Path, documents: int = 4) -> None:
        self._root = root
        self._messages: list[list[dict[str, Any]]] = [[] for _ in range(documents)]

    def write(self, chance: random.Random, pad: int = 400) -> None:
        """Two more messages of a document: in place, in place with a pause in the middle, or by rename."""
        number = chance.randrange(len(self._messages))
        messages = self._messages[number]
        messages += [self._message(number, len(messages) + each, chance, pad) for each in range(2)]
        self.save(number, chance.choice(["in place", "slowly", "renamed"]))

    def fill(self, chance: random.Random, messages: int, pad: int) -> None:
        """All documents with so many messages each."""
        for number, found in enumerate(self._messages):
            found += [self._message(number, each, chance, pad) for each in range(messages)]
            self.save(number, "in place")

    @staticmethod
    def _message(document: int, number: int, chance: random.Random, pad: int) -> dict[str, Any]:
        text = {"type": "text", "text": f"{document} {number} " + "word " * (pad // 5)}
        message: dict[str, Any] = {"id": f"m{document}-{number}", "content": [text], "ts": _START + number * 1000}
        if number % 2 == 0:
            return {**message, "role": "user"}
        kinds = ("inputTokens", "outputTokens", "cacheReadTokens", "cacheWriteTokens")
        model = {"id": "claude-sonnet-4-5", "provider": "anthropic"}
        return {
            **message,
            "role": "assistant",
            "modelInfo": model,
            "metrics": {kind: chance.randint(1, 900) for kind in kinds},
        }

    def save(self, number: int, how: str) -> None:
        """Write a document."""
        name = f"{_START + number}_abcde"
        path = self._root / "sessions" / name / f"{name}.messages.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        head = {"version": 1, "sessionId": name, "origin": {"mode": "user"}}
        whole = json.dumps({**head, "messages": self._messages[number]}, indent=1).encode()
        if how == "renamed":
            other = path.with_suffix(".tmp")
            other.write_bytes(whole)
            os.replace(other, path)
            return
        with path.open("wb", buffering=0) as file:
            half = len(whole) // 2 if how == "slowly" else 0
            file.write(whole[:half])
            if half:
                time.sleep(0.01)
            file.write(whole[half:])

    def disturb(self, chance: random.Random) -> None:
        """Written again as it is."""
        if any(self._messages):
            self.save(chance.choice([number for number, found in enumerate(self._messages) if found]), "slowly")

    def close(self) -> None:
        """Nothing is open."""


def write_database(root: Path, *, seed: int = 1, turns: int = 8, pad: int = 400) -> None:
    """A database that no program has open."""
    writer, chance = DatabaseWriter(root, "delete"), random.Random(seed)
    for _ in range(turns * 4):
        writer.write(chance, pad)
    writer.close()


def write_documents(root: Path, *, seed: int = 1, turns: int = 8, pad: int = 400) -> None:
    """Finished documents."""
    DocumentWriter(root).fill(random.Random(seed), turns * 8, pad)


#: How each kind of source is written at once.
SOURCES: dict[str, Callable[..., None]] = {
    "lines": write_logs,
    "database": write_database,
    "documents": write_documents,
}


class LiveSource(threading.Thread):
    """An agent at work on a database or on documents."""

    def __init__(self, root: Path, kind: str, seconds: float) -> None:
        super().__init__()
        self._writer = DatabaseWriter(root) if kind == "database" else DocumentWriter(root)
        self._seconds, self._chance = seconds, random.Random(5)

    def run(self) -> None:
        deadline = time.monotonic() + self._seconds
        with closing(self._writer) as writer:
            while time.monotonic() < deadline:
                writer.write(self._chance, 200)
                if self._chance.random() < 0.05:
                    writer.disturb(self._chance)
                time.sleep(self._chance.uniform(0, 0.02))
