"""Full text search: filled after recording, from the raw lines, and resumable at any line.

In the recording transaction it would triple the cost of a batch. SQLite's tokenizer takes a run of Chinese for one
word; every Chinese, Japanese or Korean character is therefore indexed as a word of its own, and a query for several
of them becomes a phrase.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable

from agenttrace.record.agents.contract import Content
from agenttrace.record.contents import Interpreter
from agenttrace.store.sqlite.database import transaction
from agenttrace.store.sqlite.reading import raw_lines

#: Of one piece of text, this much is indexed: conversations nearly whole, of long tool outputs beginning and end.
INDEXED_CHARACTERS = 8_000
INDEXED_OF_RESULTS = 1_500
_PORTION = 5_000
_CURSOR = "search_event_no"
#: Since when the index holds words of sessions that were pruned; searching does not find them.
_STALE = "search_stale_since"
_CJK = re.compile("([\u2e80-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff])")
_TERM = re.compile(r'"([^"]*)"|(\S+)')


def segmented(text: str) -> str:
    """The text with each CJK character standing alone."""
    return text if text.isascii() else _CJK.sub(r" \1 ", text)


def match_expression(text: str) -> str:
    """What a user typed as an FTS5 expression: all words, quoted phrases, ``word*`` for a beginning."""
    terms = []
    text = text.encode("utf-8", "replace").decode().replace("\0", " ")
    for phrase, word in _TERM.findall(text):
        prefix = word.endswith("*") and len(word) > 1
        words = segmented((phrase or word).rstrip("*") if prefix else phrase or word).replace('"', " ").split()
        # Signs alone are no word to FTS5, and what has no word matches nothing.
        if any(map(str.isalnum, "".join(words))):
            terms.append('"' + " ".join(words) + '"' + ("*" if prefix else ""))
    return " AND ".join(terms)


def backlog(connection: sqlite3.Connection) -> int:
    """How many events wait to be indexed."""
    query = "SELECT count(*) FROM processed_events WHERE event_no > ? AND block_id IS NOT NULL"
    return int(connection.execute(query, (_position(connection),)).fetchone()[0])


def index_portion(connection: sqlite3.Connection, interpreter: Interpreter) -> int:
    """Index the next events; 0 when there are none left."""
    start = _position(connection)
    rows, last, count = [], start, 0
    for line in raw_lines(connection, after=start, limit=_PORTION):
        count += 1
        last = line.event_no
        said = interpreter.said(line)
        if said is not None and said.contents:
            rows.append((line.event_no, segmented("\n".join(map(_indexed, said.contents)))))
    if count == 0:
        return 0
    with transaction(connection):
        if _position(connection) != start:
            return count  # somebody else indexed these meanwhile
        connection.executemany("INSERT INTO search (rowid, text) VALUES (?, ?)", rows)
        connection.execute("INSERT OR REPLACE INTO meta (key, value) VALUES (?, ?)", (_CURSOR, str(last)))
    return count


def _indexed(content: Content) -> str:
    text = content.text
    if content.kind in ("result", "thinking") and len(text) > 2 * INDEXED_OF_RESULTS:
        return f"{text[:INDEXED_OF_RESULTS]}\n{text[-INDEXED_OF_RESULTS:]}"
    return text[:INDEXED_CHARACTERS]


def index_all(connection: sqlite3.Connection, *, stop: Callable[[], bool] = lambda: False) -> int:
    """Index everything that waits."""
    interpreter, total = Interpreter(connection), 0
    while not stop() and (count := index_portion(connection, interpreter)):
        total += count
    return total


def reset(connection: sqlite3.Connection) -> None:
    """Empty the index, to be filled anew (after pruning)."""
    with transaction(connection):
        connection.execute("INSERT INTO search (search) VALUES ('delete-all')")
        connection.execute("DELETE FROM meta WHERE key IN (?, ?)", (_CURSOR, _STALE))


def mark_stale(connection: sqlite3.Connection, at: float) -> None:
    """Something was pruned at that time; an earlier mark stays."""
    with transaction(connection):
        connection.execute("INSERT OR IGNORE INTO meta (key, value) VALUES (?, ?)", (_STALE, str(at)))


def stale_since(connection: sqlite3.Connection) -> float | None:
    """When the first session was pruned whose words the index still holds."""
    row = connection.execute("SELECT value FROM meta WHERE key = ?", (_STALE,)).fetchone()
    return float(row[0]) if row else None


def _position(connection: sqlite3.Connection) -> int:
    row = connection.execute("SELECT value FROM meta WHERE key = ?", (_CURSOR,)).fetchone()
    return int(row[0]) if row else 0
