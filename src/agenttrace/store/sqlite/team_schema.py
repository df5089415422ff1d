"""The tables that only a team's store has, beside those of a machine's: see ``store.team``."""

from __future__ import annotations

import sqlite3

from agenttrace.model import USAGE_FIELDS
from agenttrace.store.errors import NewerStoreError, StoreError
from agenttrace.store.sqlite.database import statements, transaction

_VERSION = "team_schema"
_TOKENS = ", ".join(f"{name} INTEGER NOT NULL" for name in USAGE_FIELDS)

#: Migrations in order; the n-th brings a file from version n to n + 1. Never edit one that was released.
_MIGRATIONS: tuple[str, ...] = (
    f"""
    -- How far the changes of each machine are stored.
    CREATE TABLE team_machines (
        machine     TEXT PRIMARY KEY,
        person      TEXT NOT NULL,
        -- The name of the machine's store, and a cursor as JSON.
        store       TEXT NOT NULL,
        cursor      TEXT NOT NULL,
        received_at REAL NOT NULL
    ) WITHOUT ROWID;

    -- Where rows came from: a store of a machine. One that was rebuilt is another source, with a larger number.
    CREATE TABLE team_sources (
        source  INTEGER PRIMARY KEY,
        machine TEXT NOT NULL,
        store   TEXT NOT NULL,
        UNIQUE (machine, store)
    );

    -- The copies of each session, one of which is shown.
    CREATE TABLE team_copies (
        session_id INTEGER NOT NULL,
        source     INTEGER NOT NULL,
        -- By what copies are compared: as of the last time that the changes of the source were complete.
        events     INTEGER NOT NULL DEFAULT 0,
        -- What the session's row says since then.
        told       INTEGER NOT NULL DEFAULT 0,
        -- The revision of the session's row in its first store.
        revision   INTEGER NOT NULL DEFAULT -1,
        shown      INTEGER NOT NULL DEFAULT 0,
        -- The last event there was when the first span was written of which no event came yet.
        spans_at   INTEGER,
        PRIMARY KEY (session_id, source)
    ) WITHOUT ROWID;
    CREATE INDEX team_copies_told ON team_copies(source) WHERE events <> told;

    -- Rows of copies that are not shown: MessagePack, compressed.
    CREATE TABLE team_bag (
        session_id INTEGER NOT NULL,
        source     INTEGER NOT NULL,
        kind       TEXT NOT NULL,
        key        BLOB NOT NULL,
        -- In this order they came.
        place      INTEGER NOT NULL,
        row        BLOB NOT NULL,
        PRIMARY KEY (session_id, source, kind, key)
    ) WITHOUT ROWID;

    -- What each source says of each response.
    CREATE TABLE team_claims (
        response   BLOB NOT NULL,
        source     INTEGER NOT NULL,
        session_id INTEGER NOT NULL,
        at         INTEGER NOT NULL,
        model      TEXT NOT NULL,
        estimated  INTEGER NOT NULL,
        copies     INTEGER NOT NULL,
        terms      TEXT NOT NULL,
        {_TOKENS},
        PRIMARY KEY (response, source)
    ) WITHOUT ROWID;
    CREATE INDEX team_claims_session ON team_claims(session_id);
    CREATE INDEX team_spans_response ON spans(response) WHERE response IS NOT NULL;

    -- All annotations that machines sent.
    CREATE TABLE team_annotations (
        annotation_id BLOB NOT NULL,
        source        INTEGER NOT NULL,
        session_id    INTEGER NOT NULL,
        row           BLOB NOT NULL,
        PRIMARY KEY (annotation_id, source)
    ) WITHOUT ROWID;
    CREATE INDEX team_annotations_session ON team_annotations(session_id);

    -- Sessions whose texts were removed, for good, and the responses that their spans had.
    CREATE TABLE team_textless (
        session_id INTEGER PRIMARY KEY,
        -- Also whose they were.
        forgotten  INTEGER NOT NULL
    );
    CREATE TABLE team_held (
        response   BLOB NOT NULL,
        session_id INTEGER NOT NULL,
        source     INTEGER NOT NULL,
        PRIMARY KEY (response, session_id, source)
    ) WITHOUT ROWID;
    """,
)


def prepare(connection: sqlite3.Connection) -> None:
    """Create or upgrade the tables."""
    if version(connection) == len(_MIGRATIONS):
        return
    with transaction(connection):
        # Asked again under the lock: another process may have done it meanwhile.
        for script in _MIGRATIONS[version(connection) :]:
            for statement in statements(script):
                connection.execute(statement)
        connection.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (_VERSION, str(len(_MIGRATIONS))))


def check(connection: sqlite3.Connection) -> None:
    """``StoreError`` where the file is not a team's store, or an older one."""
    if version(connection) < len(_MIGRATIONS):
        raise StoreError("this is not the store of a team, or one with an older schema; start: agenttrace team serve")


def version(connection: sqlite3.Connection) -> int:
    """The version of the tables that the file has; 0: it is not a team's store."""
    row = connection.execute("SELECT value FROM meta WHERE key = ?", (_VERSION,)).fetchone()
    found = 0 if row is None else int(row[0])
    if found > len(_MIGRATIONS):
        raise NewerStoreError("the team's store was written by a newer AgentTrace; upgrade this one")
    return found
