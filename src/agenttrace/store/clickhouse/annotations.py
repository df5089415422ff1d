"""Notes, scores, labels and stars beside sessions: those that machines sent, and those that were written here.

What is written here about an annotation of a machine is newer than what the machine sent by then, and older than what
it sends later: see ``tables.annotation_version``.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext

from agenttrace.store.annotation_table import AnnotationTable
from agenttrace.store.annotations import Annotation, MarkRow, Marks, marks_of
from agenttrace.store.clickhouse import tables
from agenttrace.store.clickhouse.connection import Database
from agenttrace.store.clickhouse.literals import Values
from agenttrace.store.clickhouse.numbers import NUMBERS
from agenttrace.store.clickhouse.relations import ANNOTATIONS, SESSIONS, SHADOWS
from agenttrace.store.clickhouse.session_conditions import session_conditions
from agenttrace.store.clickhouse.sessions import RECORDED, whole_session
from agenttrace.store.clickhouse.tables import Stamp, annotation_values, annotation_version
from agenttrace.store.clickhouse.words import parts_of
from agenttrace.store.questions import SearchQuery
from agenttrace.store.rows import AnnotationRow

_FIELDS = Annotation.__struct_fields__
_SELECT = f"SELECT {', '.join(_FIELDS)} FROM {ANNOTATIONS}"
_ROWS = f"SELECT {', '.join(AnnotationRow.__struct_fields__)} FROM {ANNOTATIONS}"
_HERE = "removed_at IS NULL"
#: Growing with time, and told apart by the annotation's own id.
_PLACE = "toInt64(bitOr(bitShiftLeft(toUInt64(created_at * 1000), 20), bitAnd(sipHash64(annotation_id), 1048575)))"
_SOURCES = f"""
SELECT origin, ver FROM annotations FINAL
WHERE annotation_id = :key AND (origin = '' OR (session, origin) NOT IN {SHADOWS})
"""


def annotations_of(database: Database, numbers: Sequence[int]) -> dict[int, list[Annotation]]:
    """The annotations of these sessions, the oldest first; of pruned ones too."""
    found: dict[int, list[Annotation]] = {}
    query = f"{_SELECT} WHERE session IN :numbers AND {_HERE} ORDER BY created_at, annotation_id"
    for row in database.rows(query, numbers=list(numbers)) if numbers else []:
        found.setdefault(row[1], []).append(_annotation(row))
    return found


def marks_by_session(database: Database, numbers: Sequence[int]) -> dict[int, Marks]:
    """What lists show of these sessions, where they have annotations."""
    found: dict[int, list[MarkRow]] = {}
    query = f"SELECT session, {', '.join(MarkRow._fields)} FROM {ANNOTATIONS} WHERE session IN :numbers AND {_HERE}"
    for number, *row in database.rows(query, numbers=list(numbers)) if numbers else []:
        found.setdefault(number, []).append(MarkRow(*row))
    return {number: marks_of(rows) for number, rows in found.items()}


def annotation_by_id(database: Database, annotation_id: bytes) -> Annotation | None:
    """One annotation; ``None`` where there is none, or it was removed."""
    found = database.rows(f"{_SELECT} WHERE annotation_id = :key AND {_HERE}", key=annotation_id)
    return _annotation(found[0]) if found else None


def labels(database: Database) -> list[tuple[str, int]]:
    """The labels of all sessions that have events, and of how many."""
    query = f"""
    SELECT name, uniqExact(session) AS used FROM {ANNOTATIONS}
    WHERE kind = 'label' AND {_HERE} AND session IN (SELECT id FROM {SESSIONS} WHERE {RECORDED})
    GROUP BY name ORDER BY used DESC, name
    """
    return [(name, used) for name, used in database.rows(query)]


def search(database: Database, query: SearchQuery) -> list[tuple[int, Annotation]]:
    """The annotations that match, the latest written first, with the number that a further page goes before."""
    parts = parts_of(query.text)
    if not parts:
        return []
    found = session_conditions(query)
    found.add(RECORDED)
    tests = [_HERE, f"session IN (SELECT id FROM {SESSIONS} WHERE {found.where})"]
    values: Values = dict(found.values)
    for number, part in enumerate(parts):
        tests.append(f"position(words, :part{number}) > 0")
        values[f"part{number}"] = part
    for name, test in (
        ("session", "session = :session"),
        ("since", "changed_at * 1000000 >= :since"),
        ("until", "changed_at * 1000000 < :until"),
        ("before", "place < :before"),
    ):
        if getattr(query, name) is not None:
            tests.append(test)
            values[name] = getattr(query, name)
    asked = f"""
    SELECT {_PLACE} AS place, {", ".join(_FIELDS)} FROM {ANNOTATIONS}
    WHERE {" AND ".join(tests)} ORDER BY place DESC LIMIT {int(query.limit)}
    """
    return [(row[0], _annotation(row[1:])) for row in database.rows(asked, **values)]


def _annotation(row: Sequence[object]) -> Annotation:
    return Annotation(**dict(zip(_FIELDS, row, strict=True)))  # type: ignore[arg-type] # as they are stored


class ClickHouseAnnotations(AnnotationTable):
    """Writes annotations. Of two servers that write one at a time, one wins."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def _transaction(self) -> AbstractContextManager[None]:
        return nullcontext()

    def _next_revision(self) -> int:
        return NUMBERS.one()

    def _whole_session(self, session: int) -> int:
        return whole_session(self._database, session)

    def _row(self, key: bytes) -> AnnotationRow | None:
        found = self._database.rows(f"{_ROWS} WHERE annotation_id = :key", key=key)
        return AnnotationRow(*found[0]) if found else None

    def _named(self, session: int, kind: str, name: str) -> list[AnnotationRow]:
        query = f"{_ROWS} WHERE session = :session AND kind = :kind AND name = :name"
        return [AnnotationRow(*row) for row in self._database.rows(query, session=session, kind=kind, name=name)]

    def _counts(self, session: int) -> tuple[int, int] | None:
        if not self._database.rows(f"SELECT 1 FROM {SESSIONS} WHERE id = :session", session=session):
            return None
        query = f"SELECT count(), countIf({_HERE}) FROM {ANNOTATIONS} WHERE session = :session"
        rows, present = self._database.rows(query, session=session)[0]
        return rows, present

    def _write(self, rows: Sequence[AnnotationRow]) -> None:
        for row in rows:
            known = self._database.rows(_SOURCES, key=row.annotation_id)
            first = int(time.time() * 1000)
            values = [
                annotation_values(row, Stamp(origin, None, 0), ver + 1)
                for origin, ver in known or [("", annotation_version(first))]
            ]
            self._database.insert(tables.ANNOTATIONS.name, tables.ANNOTATIONS.columns, values)
