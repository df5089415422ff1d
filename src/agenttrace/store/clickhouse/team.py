"""The machines of a team: how far each is stored, and pages of their rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import msgspec

from agenttrace.store.clickhouse import writing
from agenttrace.store.clickhouse.connection import Database
from agenttrace.store.clickhouse.relations import SHADOWS
from agenttrace.store.clickhouse.tables import Table, put
from agenttrace.store.rows import ChangesCursor, Row
from agenttrace.store.team import MachineFigures, Page, Position, WrongPositionError

_POSITIONS = Table.of("positions", "machine", "person", "store", "cursor", "received_at")
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
    came = writing.take(database, rows, page, after=last, day_of=day_of)
    cursor = msgspec.json.encode(page.until).decode()
    row = (page.machine, page.person, page.store, cursor, writing.now(), came, 0, came)
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


def machines(database: Database) -> list[MachineFigures]:
    """The machines that sent something, by name."""
    names = MachineFigures.__struct_fields__
    return [MachineFigures(**dict(zip(names, row, strict=True))) for row in database.rows(_MACHINES)]
