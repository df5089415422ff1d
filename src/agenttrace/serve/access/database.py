"""The file ``access.db``, separate from the trace store: that can be rebuilt from logs, users and the audit log cannot.

Two connections: a request that reads never waits for one that writes.
"""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from agenttrace.store.errors import StoreError
from agenttrace.store.sqlite.database import create_private, is_corruption, transaction, use_write_ahead_log

BUSY_SECONDS = 5.0
#: Of a second; the tables have times in microseconds since the epoch.
MICROS = 1_000_000

#: Each entry migrates the file from the version before; times are microseconds since the epoch.
MIGRATIONS: tuple[tuple[str, ...], ...] = (
    (
        """
        CREATE TABLE users (
            name TEXT PRIMARY KEY,
            role TEXT NOT NULL CHECK (role IN ('viewer', 'admin')),
            password TEXT NOT NULL,
            created_at INTEGER NOT NULL,
            changed_at INTEGER NOT NULL
        ) STRICT, WITHOUT ROWID
        """,
        # The hash of a token only: the file alone lets no reader log in.
        """
        CREATE TABLE logins (
            digest BLOB PRIMARY KEY,
            user TEXT NOT NULL REFERENCES users (name) ON DELETE CASCADE,
            csrf TEXT NOT NULL,
            created_at INTEGER NOT NULL,
            seen_at INTEGER NOT NULL,
            expires_at INTEGER NOT NULL
        ) STRICT, WITHOUT ROWID
        """,
        "CREATE INDEX logins_of_user ON logins (user, created_at)",
        """
        CREATE TABLE audit (
            id INTEGER PRIMARY KEY AUTOINCREMENT,
            at INTEGER NOT NULL,
            user TEXT NOT NULL,
            address TEXT NOT NULL,
            action TEXT NOT NULL,
            target TEXT NOT NULL,
            outcome TEXT NOT NULL
        ) STRICT
        """,
        "CREATE INDEX audit_by_action ON audit (action, outcome)",
        # What was typed as a name may have been a password: only its hash is stored.
        "CREATE TABLE failures (id INTEGER PRIMARY KEY, key BLOB NOT NULL, at INTEGER NOT NULL) STRICT",
        "CREATE INDEX failures_of_key ON failures (key, at)",
        "CREATE INDEX failures_by_age ON failures (at)",
    ),
    (
        # Users, browsers that came by the link (local) and API tokens log in with a random token.
        """
        CREATE TABLE credentials (
            digest BLOB PRIMARY KEY,
            kind TEXT NOT NULL CHECK (kind IN ('user', 'local', 'token')),
            user TEXT NOT NULL,
            role TEXT CHECK (role IN ('viewer', 'admin')),
            csrf TEXT NOT NULL,
            created_at INTEGER NOT NULL,
            seen_at INTEGER,
            expires_at INTEGER,
            CHECK ((kind = 'user') = (role IS NULL))
        ) STRICT, WITHOUT ROWID
        """,
        """
        INSERT INTO credentials
        SELECT digest, 'user', user, NULL, csrf, created_at, seen_at, expires_at FROM logins
        """,
        "DROP TABLE logins",
        "ALTER TABLE credentials RENAME TO logins",
        "CREATE INDEX logins_of_user ON logins (user, created_at)",
        "CREATE UNIQUE INDEX names_of_tokens ON logins (user) WHERE kind = 'token'",
        "CREATE INDEX audit_by_user ON audit (user)",
    ),
    (
        # Saved views: the search part of an address under a name.
        """
        CREATE TABLE views (
            id TEXT PRIMARY KEY,
            owner TEXT NOT NULL,
            page TEXT NOT NULL,
            name TEXT NOT NULL,
            search TEXT NOT NULL,
            shared INTEGER NOT NULL,
            changed_at INTEGER NOT NULL,
            UNIQUE (owner, page, name)
        ) STRICT, WITHOUT ROWID
        """,
    ),
    (
        # The role of members. A user who logs in by OpenID Connect has a subject in place of a password.
        """
        CREATE TABLE people (
            name TEXT PRIMARY KEY,
            role TEXT NOT NULL CHECK (role IN ('viewer', 'member', 'admin')),
            password TEXT,
            created_at INTEGER NOT NULL,
            changed_at INTEGER NOT NULL,
            subject TEXT UNIQUE
        ) STRICT, WITHOUT ROWID
        """,
        "INSERT INTO people SELECT name, role, password, created_at, changed_at, NULL FROM users",
        "DROP TABLE users",
        "ALTER TABLE people RENAME TO users",
        # An API token may act for a person.
        """
        CREATE TABLE credentials (
            digest BLOB PRIMARY KEY,
            kind TEXT NOT NULL CHECK (kind IN ('user', 'local', 'token')),
            user TEXT NOT NULL,
            role TEXT CHECK (role IN ('viewer', 'member', 'admin')),
            csrf TEXT NOT NULL,
            created_at INTEGER NOT NULL,
            seen_at INTEGER,
            expires_at INTEGER,
            person TEXT,
            CHECK ((kind = 'user') = (role IS NULL))
        ) STRICT, WITHOUT ROWID
        """,
        """
        INSERT INTO credentials
        SELECT digest, kind, user, role, csrf, created_at, seen_at, expires_at, NULL FROM logins
        """,
        "DROP TABLE logins",
        "ALTER TABLE credentials RENAME TO logins",
        "CREATE INDEX logins_of_user ON logins (user, created_at)",
        "CREATE UNIQUE INDEX names_of_tokens ON logins (user) WHERE kind = 'token'",
        # Random keys of this installation, by what they are for.
        "CREATE TABLE keys (name TEXT PRIMARY KEY, value BLOB NOT NULL) STRICT, WITHOUT ROWID",
    ),
    (
        # The machines of a team, and the invitations that they join with. Names are never given again.
        """
        CREATE TABLE machines (
            name TEXT PRIMARY KEY,
            person TEXT NOT NULL,
            digest BLOB UNIQUE,
            created_at INTEGER NOT NULL,
            seen_at INTEGER,
            revoked_at INTEGER
        ) STRICT, WITHOUT ROWID
        """,
        """
        CREATE TABLE invites (
            digest BLOB PRIMARY KEY,
            person TEXT,
            created_at INTEGER NOT NULL,
            expires_at INTEGER NOT NULL
        ) STRICT, WITHOUT ROWID
        """,
    ),
    (
        # What a machine shares with all members of the team.
        """
        ALTER TABLE machines
        ADD COLUMN share TEXT NOT NULL DEFAULT 'figures' CHECK (share IN ('full', 'figures'))
        """,
    ),
)


def now_micros() -> int:
    """The time as the tables have it."""
    return time.time_ns() // 1000


class AccessDatabase:
    """The file, open; may be used from any thread."""

    def __init__(self, path: Path) -> None:
        try:
            self._writer = _opened(path)
            try:
                self._reader = _connected(path)
                self._reader.execute("PRAGMA query_only = 1")
            except BaseException:
                self._writer.close()
                raise
        except sqlite3.DatabaseError as error:
            if is_corruption(error):
                raise _damaged(path, str(error)) from error
            raise
        self._reading, self._writing = threading.Lock(), threading.Lock()

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """For a short query."""
        with self._reading:
            yield self._reader

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """For a change; all of it or, after an error, nothing."""
        with self._writing, transaction(self._writer):
            yield self._writer

    def close(self) -> None:
        """Close the file, once no thread uses it."""
        with self._reading, self._writing:
            self._reader.close()
            self._writer.close()


class AccessTable:
    """A part of the access store: its database, and the clock."""

    def __init__(self, database: AccessDatabase, now: Callable[[], int]) -> None:
        self._database, self._now = database, now


def _connected(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False)


def _opened(path: Path) -> sqlite3.Connection:
    create_private(path)
    connection = _connected(path)
    try:
        use_write_ahead_log(connection)
        # A login that was ended stays ended when the power fails.
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA foreign_keys = 1")
        _migrate(connection, path)
    except BaseException:
        connection.close()
        raise
    return connection


def _migrate(connection: sqlite3.Connection, path: Path) -> None:
    with transaction(connection):
        found = int(connection.execute("PRAGMA user_version").fetchone()[0])
        if found > len(MIGRATIONS):
            raise StoreError(
                f"{path} was written by a newer AgentTrace (schema {found}, this one knows {len(MIGRATIONS)}). "
                "Upgrade with: pip install --upgrade agenttrace"
            )
        if found == 0 and connection.execute("SELECT 1 FROM sqlite_schema").fetchone() is not None:
            raise _damaged(path, "it holds tables, but not the number of their version")
        for statements in MIGRATIONS[found:]:
            for statement in statements:
                connection.execute(statement)
        connection.execute(f"PRAGMA user_version = {len(MIGRATIONS)}")


def _damaged(path: Path, problem: str) -> StoreError:
    return StoreError(
        f"{path} is damaged: {problem}. Move it away, restart the server, and add the users again: agenttrace user add"
    )
