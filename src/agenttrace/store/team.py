"""The store of a team: rows of many machines, each of which sends the changes of its own store.

A machine sends its changes in order, page by page, and names where each page begins and ends. The store remembers for
each machine how far that is: a page that comes again changes nothing, a page that does not continue the last one is
refused, and a machine whose store was lost, rebuilt or restored begins anew. Clocks of machines are compared with those
of the same machine only.

- **One copy is shown.** Several machines may hold one session, such as a home directory that was copied. The copy with
  the most events is shown, whole, with its machine and person; of equal ones that of the first machine by name. When
  another copy grows beyond it, that one is shown. Nothing of the others is in any answer, and nothing of them is lost.
- **A response counts once**, in the session that had it first: the shown sessions that hold it are compared as those
  of one machine are (see ``sqlite.ledger``), whichever machines they came from.
- **Numbers of events and spans** are those of the team's store, in the order in which rows came.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol

import msgspec

from agenttrace.store.rows import ChangesCursor, Row
from agenttrace.store.writable import WritableStore


class Position(msgspec.Struct, frozen=True, kw_only=True):
    """How far the changes of a machine are stored."""

    #: Names the store of the machine; a rebuilt one has another name.
    store: str
    cursor: ChangesCursor


class Page(msgspec.Struct, frozen=True, kw_only=True):
    """A page of changes: from which machine, and where it begins and ends."""

    machine: str
    person: str
    store: str
    #: Where the page begins; a new cursor: the machine begins anew, whatever is stored of it.
    after: ChangesCursor
    until: ChangesCursor


class WrongPositionError(Exception):
    """The page does not continue what is stored of its machine."""

    def __init__(self, position: Position | None) -> None:
        super().__init__("the page does not continue what is stored of its machine")
        #: What is stored.
        self.position = position


class MachineFigures(msgspec.Struct, frozen=True, kw_only=True):
    """What is stored of a machine."""

    machine: str
    person: str
    #: Sessions that are shown, and copies that are not.
    sessions: int
    copies: int
    events: int
    #: When something was last received, in seconds since the epoch.
    received_at: float


class TeamStore(WritableStore, Protocol):
    """A store that takes rows of many machines."""

    def take(self, rows: Iterable[Row], page: Page, *, day_of: Callable[[int], str]) -> None:
        """Store a page, all of it with the position of the machine, or nothing; ``WrongPositionError``.

        It is durable when this returns.
        """

    def position(self, machine: str) -> Position | None:
        """How far the changes of a machine are stored; ``None`` where nothing is."""

    def machines(self) -> list[MachineFigures]:
        """The machines that sent something, by name."""

    def remove_texts(self, person: str) -> int:
        """Remove texts, titles and directories of a person's sessions, and whose they were; keep sums.

        How many sessions that were. Rows that come later for these sessions bring no texts back.
        """

    def prune(self, before: int, project: str | None = None) -> int:
        """Remove texts of sessions that ended before a moment (microseconds), of a directory that matches a glob.

        Sums are kept. How many sessions that were.
        """
