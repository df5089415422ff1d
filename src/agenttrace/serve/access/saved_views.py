"""Saved views: the search part of a page's address under a name, of one user, who may share it with all."""

from __future__ import annotations

import secrets
import sqlite3
import unicodedata
from dataclasses import dataclass
from typing import Literal

from agenttrace.serve.access.database import AccessTable

#: The pages that have saved views.
ViewPage = Literal["sessions", "usage", "insights"]

LONGEST_NAME = 60
LONGEST_SEARCH = 2_000
#: Of one user.
MOST = 100

_COLUMNS = "id, owner, page, name, search, shared"


class SavedViewError(Exception):
    """A view that cannot be saved, and why."""


class TooManyViewsError(SavedViewError):
    """The user has as many views as fit."""

    def __init__(self) -> None:
        super().__init__(f"There are {MOST} saved views already. Remove one first.")


@dataclass(frozen=True, slots=True)
class SavedView:
    """A view as it is stored."""

    id: str
    owner: str
    page: ViewPage
    name: str
    search: str
    shared: bool


def checked_name(text: str) -> str:
    """A name as it is stored; raises for what cannot be one."""
    name = " ".join(text.split())
    if not 0 < len(name) <= LONGEST_NAME or not _is_storable(name):
        raise SavedViewError(f"A name has 1 to {LONGEST_NAME} characters, and no control characters.")
    return name


def checked_search(text: str) -> str:
    """The search part of an address as it is stored; raises for what cannot be one."""
    search = text.removeprefix("?")
    if len(search) > LONGEST_SEARCH or not _is_storable(search) or any(each in search for each in "#\\ "):
        raise SavedViewError(f"search is the part of an address after the ?, of at most {LONGEST_SEARCH} characters.")
    return search


def _is_storable(text: str) -> bool:
    return not any(unicodedata.category(character) in ("Cc", "Cs") for character in text)


class SavedViews(AccessTable):
    """The saved views of all users."""

    def visible_to(self, owner: str) -> list[SavedView]:
        """The views of a user, and those that others share; by page and name."""
        with self._database.reading() as connection:
            rows = connection.execute(
                f"SELECT {_COLUMNS} FROM views WHERE owner = ? OR shared ORDER BY page, name, owner", (owner,)
            ).fetchall()
        return [_view(row) for row in rows]

    def get(self, number: str) -> SavedView | None:
        """One view."""
        with self._database.reading() as connection:
            row = connection.execute(f"SELECT {_COLUMNS} FROM views WHERE id = ?", (number,)).fetchone()
        return None if row is None else _view(row)

    def put(self, owner: str, page: ViewPage, name: str, search: str, shared: bool) -> SavedView:
        """Save a view; one of the same name on the page is replaced."""
        name, search, now = checked_name(name), checked_search(search), self._now()
        with self._database.writing() as connection:
            known = connection.execute(
                "SELECT id FROM views WHERE owner = ? AND page = ? AND name = ?", (owner, page, name)
            ).fetchone()
            if known is None and _count(connection, owner) >= MOST:
                raise TooManyViewsError
            number = secrets.token_hex(8) if known is None else str(known[0])
            connection.execute(
                "INSERT OR REPLACE INTO views VALUES (?, ?, ?, ?, ?, ?, ?)",
                (number, owner, page, name, search, shared, now),
            )
        return SavedView(number, owner, page, name, search, shared)

    def change(
        self, view: SavedView, *, name: str | None = None, search: str | None = None, shared: bool | None = None
    ) -> SavedView:
        """Rename a view, give it another search, share it or not; another one of that name gives way."""
        changed = SavedView(
            view.id,
            view.owner,
            view.page,
            view.name if name is None else checked_name(name),
            view.search if search is None else checked_search(search),
            view.shared if shared is None else shared,
        )
        with self._database.writing() as connection:
            connection.execute(
                "DELETE FROM views WHERE owner = ? AND page = ? AND name = ? AND id <> ?",
                (view.owner, view.page, changed.name, view.id),
            )
            connection.execute(
                "UPDATE views SET name = ?, search = ?, shared = ?, changed_at = ? WHERE id = ?",
                (changed.name, changed.search, changed.shared, self._now(), view.id),
            )
        return changed

    def remove(self, number: str) -> None:
        """Remove a view, if it is there."""
        with self._database.writing() as connection:
            connection.execute("DELETE FROM views WHERE id = ?", (number,))


def _count(connection: sqlite3.Connection, owner: str) -> int:
    return int(connection.execute("SELECT count(*) FROM views WHERE owner = ?", (owner,)).fetchone()[0])


def _view(row: tuple[str, str, ViewPage, str, str, int]) -> SavedView:
    return SavedView(*row[:5], bool(row[5]))
