"""The machines of a team: how far each is stored, and pages of their rows.

A page whose writing ended half way is stored again, as it was or with what came since then. A machine that was restored
from a backup does not have its rows any more, and could not replace them: it is told to begin anew, as another store.
So the end of a page is noted before its first row is written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import msgspec

from agenttrace.store.clickhouse import writing
from agenttrace.store.clickhouse.connection import Database
from agenttrace.store.clickhouse.numbers import NUMBERS
from agenttrace.store.clickhouse.relations import SHADOWS
from agenttrace.store.clickhouse.tables import Table, put
from agenttrace.store.rows import ChangesCursor, Row, StoredSession
from agenttrace.store.team import MachineFigures, Page, Position, WrongPositionError

_POSITIONS = Table.of("positions", "machine", "person", "store", "cursor", "received_at")
_PAGES = Table.of("pages", "machine", "store", "until", "sessions")
_LAST_PAGE = "SELECT store, until, sessions FROM pages FINAL WHERE machine = :machine"
_POSITION = "SELECT store, cursor, revision FROM positions FINAL WHERE machine = :machine"
_MACHINES = f"""
SELECT machine, person, ifNull(sessions, 0), ifNull(copies, 0), ifNull(events, 0), received_at FROM (
    SELECT machine, person, received_at FROM positions FINAL
) AS machines LEFT JOIN (
    SELECT name, sum(shown) AS sessions, count() - sum(shown) AS copies, sum(told) AS events FROM (
        SELECT assumeNotNull(machine) AS name, id, max(events) AS told, max((id, origin) NOT IN {SHADOWS}) AS shown
        FROM sessions FINAL WHERE events > 0 AND machine IS NOT NULL GROUP BY name, id
    ) GROUP BY name
) AS held ON held.name = machines.machine
ORDER BY machine
"""


def take(database: Database, rows: Iterable[Row], page: Page, *, day_of: Callable[[int], str]) -> None:
    """Store a page, and then the position of its machine; ``WrongPositionError``."""
    known, last = _stored_position(database, page.machine)
    if known == Position(store=page.store, cursor=page.until):
        return  # it came before
    if page.after != ChangesCursor() and known != Position(store=page.store, cursor=page.after):
        raise WrongPositionError(known)
    begun = _begun(database, page.machine)
    if begun is not None and begun.end != known and not begun.is_continued(page):
        writing.take_back(database, page.machine, begun.end.store, begun.sessions)
        if begun.end.store == page.store:
            raise WrongPositionError(known)
    rows = list(rows)
    _begin(database, page, rows)
    came = writing.take(database, rows, page, after=last, day_of=day_of)
    row = (page.machine, page.person, page.store, _encoded(page.until), writing.now(), came, 0, came)
    put(database, _POSITIONS, [row])


def position(database: Database, machine: str) -> Position | None:
    """How far the changes of a machine are stored; ``None`` where nothing is."""
    return _stored_position(database, machine)[0]


def _stored_position(database: Database, machine: str) -> tuple[Position | None, int]:
    """The position of a machine, and the number with which its last page came."""
    found = database.rows(_POSITION, machine=machine)
    if not found:
        return None, 0
    store, cursor, came = found[0]
    return Position(store=store, cursor=msgspec.json.decode(cursor, type=ChangesCursor)), came


class _Begun(NamedTuple):
    """The last page of a machine of which rows may be stored."""

    end: Position
    sessions: Sequence[int]

    def is_continued(self, page: Page) -> bool:
        """Whether a page has all rows of this one, or newer ones."""
        return self.end.store == page.store and self.end.cursor in (page.until, page.previous)


def _begun(database: Database, machine: str) -> _Begun | None:
    found = database.rows(_LAST_PAGE, machine=machine)
    if not found:
        return None
    store, until, sessions = found[0]
    end = Position(store=store, cursor=msgspec.json.decode(until, type=ChangesCursor))
    return _Begun(end, msgspec.json.decode(sessions, type=list[int]))


def _begin(database: Database, page: Page, rows: Iterable[Row]) -> None:
    number = NUMBERS.one()
    sessions = {row.session.id if isinstance(row, StoredSession) else getattr(row, "session", 0) for row in rows} - {0}
    told = msgspec.json.encode(sorted(sessions)).decode()
    put(database, _PAGES, [(page.machine, page.store, _encoded(page.until), told, number, 0, number)])


def _encoded(cursor: ChangesCursor) -> str:
    return msgspec.json.encode(cursor).decode()


def machines(database: Database) -> list[MachineFigures]:
    """The machines that sent something, by name."""
    names = MachineFigures.__struct_fields__
    return [MachineFigures(**dict(zip(names, row, strict=True))) for row in database.rows(_MACHINES)]
