"""Removing what sessions of a team's store said, for good: of a person, or of old sessions. Sums are kept."""

from __future__ import annotations

import sqlite3
import time
from fnmatch import fnmatchcase
from typing import NamedTuple

import msgspec

from agenttrace.store.batch import BLOCK_BITS
from agenttrace.store.rows import AnnotationRow, StoredSession
from agenttrace.store.sqlite import team_bag
from agenttrace.store.sqlite.annotations import ANNOTATION_ROWS, write_rows
from agenttrace.store.sqlite.database import transaction
from agenttrace.store.sqlite.removal import remove_words
from agenttrace.store.sqlite.retention import OLD_SESSIONS, empty_session
from agenttrace.store.sqlite.revisions import next_revision, note_removed, revise_sessions
from agenttrace.store.sqlite.rule_retention import forget_texts
from agenttrace.store.sqlite.team_copies import Copies
from agenttrace.store.sqlite.team_shown import REMOVE_BLOCKS
from agenttrace.store.sqlite.team_textless import Textless

_OF_PERSON = """
SELECT id, events > 0 OR EXISTS (SELECT 1 FROM team_textless WHERE session_id = id) FROM sessions WHERE person = ?
"""
_HELD = """
INSERT OR IGNORE INTO team_held (response, session_id, source)
SELECT DISTINCT response, session_id, ? FROM spans WHERE session_id = ? AND response IS NOT NULL
"""
_TEXTLESS = """
INSERT INTO team_textless (session_id, forgotten) VALUES (?, ?)
ON CONFLICT DO UPDATE SET forgotten = max(forgotten, excluded.forgotten)
"""
#: Files of which no line is left.
_FILES = f"""
DELETE FROM file_offsets WHERE NOT EXISTS (SELECT 1 FROM raw_blocks
    WHERE block_id BETWEEN file_id << {BLOCK_BITS} AND (file_id << {BLOCK_BITS}) + {(1 << BLOCK_BITS) - 1})
"""


class _Named(NamedTuple):
    """A session to empty, and whether there is something of it to see."""

    session: int
    counts: bool


def remove_texts(connection: sqlite3.Connection, person: str) -> int:
    """Empty the sessions of a person, and forget whose they were; how many."""
    found = {row[0]: bool(row[1]) for row in connection.execute(_OF_PERSON, (person,))}
    for session in _hidden_of(connection, person):
        found.setdefault(session, True)
    for session in sorted(found):
        _empty(connection, session, forget=True)
    _sweep(connection, bool(found))
    return sum(found.values())


def prune(connection: sqlite3.Connection, before: int, project: str | None) -> int:
    """Empty the sessions that ended before a moment; how many."""
    rows = connection.execute(OLD_SESSIONS, (before, before / 1_000_000)).fetchall()
    projects = dict(connection.execute("SELECT id, coalesce(project, '') FROM sessions").fetchall())
    old = [number for (number,) in rows if project is None or fnmatchcase(projects[number], project)]
    for session in old:
        _empty(connection, session, forget=False)
    _sweep(connection, bool(old))
    return len(old)


def _hidden_of(connection: sqlite3.Connection, person: str) -> set[int]:
    """The sessions of which a copy that is not shown belongs to a person."""
    query = "SELECT DISTINCT session_id, source FROM team_bag WHERE kind = 'session'"
    copies = [team_bag.Copy(*row) for row in connection.execute(query)]
    return {
        copy.session
        for copy in copies
        for row in team_bag.rows(connection, copy, "session")
        if isinstance(row, StoredSession) and row.session.person == person
    }


def _empty(connection: sqlite3.Connection, session: int, *, forget: bool) -> None:
    with transaction(connection):
        revision = next_revision(connection)
        _empty_copies(connection, session, forget=forget)
        connection.execute(REMOVE_BLOCKS, (session,))
        empty_session(connection, session)
        forget_texts(connection, session)
        if forget:
            connection.execute("UPDATE sessions SET project = NULL, person = NULL WHERE id = ?", (session,))
            _remove_annotations(connection, session, revision + 1)
            note_removed(connection, [("session", session, b"")], revision)
        revise_sessions(connection, [session], revision + 1)


def _empty_copies(connection: sqlite3.Connection, session: int, *, forget: bool) -> None:
    """Of each copy stays the session's row, without texts, and which responses it held."""
    connection.execute(_TEXTLESS, (session, int(forget)))
    textless = Textless(connection)
    for copy in Copies(connection).of_session(session):
        if copy.shown:
            connection.execute(_HELD, (copy.source, session))
        kept = list(textless.allowed(team_bag.rows(connection, copy.name), copy.source, session))
        team_bag.remove(connection, copy.name)
        team_bag.put(connection, copy.name, kept)
    # The one that is shown stays: its responses are counted.
    connection.execute("UPDATE team_copies SET told = 0, events = 0 WHERE session_id = ?", (session,))


def _remove_annotations(connection: sqlite3.Connection, session: int, revision: int) -> None:
    connection.execute("DELETE FROM team_annotations WHERE session_id = ?", (session,))
    now = time.time()
    rows = [AnnotationRow(*row) for row in connection.execute(f"{ANNOTATION_ROWS} WHERE session_id = ?", (session,))]
    write_rows(connection, (msgspec.structs.replace(r, text="", removed_at=now, revision=revision) for r in rows))


def _sweep(connection: sqlite3.Connection, anything: bool) -> None:
    if anything:
        with transaction(connection):
            connection.execute(_FILES)
            # The index keeps removed words until its parts are merged.
            connection.execute("INSERT INTO annotation_search (annotation_search) VALUES ('optimize')")
        remove_words(connection)
