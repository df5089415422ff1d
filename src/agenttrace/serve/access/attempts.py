"""Failed logins: five for each name and each address are free, then there is a pause that grows with every further one.

An attempt counts as failed from its beginning, so that a hundred at the same time are not all the first.
"""

from __future__ import annotations

import hashlib
import ipaddress
import sqlite3
from collections.abc import Callable
from dataclasses import dataclass

from agenttrace.serve.access.database import AccessDatabase

FREE = 5
#: Older failures are forgotten.
WINDOW_SECONDS = 3600
#: The pause after the fifth failure; it doubles with each.
FIRST_PAUSE_SECONDS = 15
#: Of a name it stays short: whoever fails on purpose must not lock its owner out.
LONGEST_FOR_NAME, LONGEST_FOR_ADDRESS = 60, 900
#: The most failures that are remembered, whoever tries.
MOST_ROWS = 50_000

_MICROS = 1_000_000


class TooManyAttemptsError(Exception):
    """The next attempt has to wait."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"wait {seconds:.0f} s")
        self.seconds = seconds


@dataclass(frozen=True, slots=True)
class Attempt:
    """An attempt that was let through."""

    name_key: bytes
    address_row: int


class Attempts:
    """The failed logins of an access store."""

    def __init__(self, database: AccessDatabase, now: Callable[[], int]) -> None:
        self._database, self._now = database, now

    def begin(self, name: str, address: str) -> Attempt:
        """Let an attempt through and count it, or raise how long it has to wait."""
        name_key, address_key = _key("name", name), _key("address", network_of(address))
        with self._database.writing() as connection:
            now = self._now()
            _forget(connection, now)
            waits = (
                _wait(connection, name_key, now, LONGEST_FOR_NAME),
                _wait(connection, address_key, now, LONGEST_FOR_ADDRESS),
            )
            if max(waits) <= 0:
                _count(connection, name_key, now)
                return Attempt(name_key, _count(connection, address_key, now))
        raise TooManyAttemptsError(max(waits) / _MICROS)

    def succeeded(self, attempt: Attempt) -> None:
        """Forget the failures of its name, and of its address this one: others may still be guessing from there."""
        with self._database.writing() as connection:
            connection.execute("DELETE FROM failures WHERE key = ?", (attempt.name_key,))
            connection.execute("DELETE FROM failures WHERE id = ?", (attempt.address_row,))


def pause_seconds(failures: int, longest: int) -> int:
    """How long the next attempt has to wait after the last of so many failures."""
    return 0 if failures < FREE else int(min(FIRST_PAUSE_SECONDS * 2 ** min(failures - FREE, 30), longest))


def _wait(connection: sqlite3.Connection, key: bytes, now: int, longest: int) -> int:
    count, last = connection.execute("SELECT count(*), max(at) FROM failures WHERE key = ?", (key,)).fetchone()
    return 0 if last is None else last + pause_seconds(count, longest) * _MICROS - now


def _count(connection: sqlite3.Connection, key: bytes, now: int) -> int:
    row = connection.execute("INSERT INTO failures (key, at) VALUES (?, ?) RETURNING id", (key, now)).fetchone()
    return int(row[0])


def _forget(connection: sqlite3.Connection, now: int) -> None:
    # What lies far ahead was counted by a clock that went wrong; nobody is to wait for that.
    oldest, ahead = now - WINDOW_SECONDS * _MICROS, now + LONGEST_FOR_NAME * _MICROS
    connection.execute("DELETE FROM failures WHERE at <= ? OR at > ?", (oldest, ahead))
    connection.execute("DELETE FROM failures WHERE id <= (SELECT max(id) FROM failures) - ?", (MOST_ROWS,))


def _key(kind: str, text: str) -> bytes:
    return hashlib.sha256(f"{kind}:{text}".encode("utf-8", "surrogatepass")).digest()


def network_of(address: str) -> str:
    """Whom an address stands for: who has one of IPv6 has all of its network."""
    try:
        known = ipaddress.ip_address(address)
    except ValueError:
        return address
    if known.version == 4:
        return address
    return str(known.ipv4_mapped or ipaddress.ip_network((int(known) >> 64 << 64, 64)))
