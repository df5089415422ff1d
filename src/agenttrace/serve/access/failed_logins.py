"""Failed logins: five for each name and each address are free, then there is a pause that grows with each failure.

An attempt counts as failed from its beginning, so that a hundred at the same time are not all the first.
"""

from __future__ import annotations

import hashlib
import ipaddress
import sqlite3
from typing import NamedTuple

from agenttrace.serve.access.database import MICROS, AccessTable
from agenttrace.serve.problems import SlowDownError

FREE = 5
#: Older failures do not count.
WINDOW_SECONDS = 3600
#: The pause after the fifth failure; it doubles with each.
FIRST_PAUSE_SECONDS = 15
#: For a name it stays short: an attacker who fails on purpose must not lock its owner out.
LONGEST_FOR_NAME, LONGEST_FOR_ADDRESS = 60, 900
#: The most failures that are stored.
MOST_ROWS = 50_000


class LoginAttempt(NamedTuple):
    """An attempt that may be made."""

    name_key: bytes
    address_row: int


class FailedLogins(AccessTable):
    """The failed logins of an access store."""

    def begin(self, name: str, address: str) -> LoginAttempt:
        """Allow an attempt and count it, or raise 429 with how long it has to wait."""
        name_key, address_key = _key("name", name), _key("address", network_of(address))
        with self._database.writing() as connection:
            now = self._now()
            _expire(connection, now)
            waits = (
                _wait(connection, name_key, now, LONGEST_FOR_NAME),
                _wait(connection, address_key, now, LONGEST_FOR_ADDRESS),
            )
            if max(waits) <= 0:
                _count(connection, name_key, now)
                return LoginAttempt(name_key, _count(connection, address_key, now))
        raise SlowDownError("failed logins", max(waits) / MICROS)

    def succeeded(self, attempt: LoginAttempt) -> None:
        """Delete the failures of its name, and this one of its address: others may still be guessing from there."""
        with self._database.writing() as connection:
            connection.execute("DELETE FROM failures WHERE key = ?", (attempt.name_key,))
            connection.execute("DELETE FROM failures WHERE id = ?", (attempt.address_row,))


def pause_seconds(failures: int, longest: int) -> int:
    """How long the next attempt has to wait after the last of so many failures."""
    return 0 if failures < FREE else int(min(FIRST_PAUSE_SECONDS * 2 ** min(failures - FREE, 30), longest))


def _wait(connection: sqlite3.Connection, key: bytes, now: int, longest: int) -> int:
    count, last = connection.execute("SELECT count(*), max(at) FROM failures WHERE key = ?", (key,)).fetchone()
    return 0 if last is None else last + pause_seconds(count, longest) * MICROS - now


def _count(connection: sqlite3.Connection, key: bytes, now: int) -> int:
    row = connection.execute("INSERT INTO failures (key, at) VALUES (?, ?) RETURNING id", (key, now)).fetchone()
    return int(row[0])


def _expire(connection: sqlite3.Connection, now: int) -> None:
    # A failure far ahead was counted by a wrong clock.
    oldest, ahead = now - WINDOW_SECONDS * MICROS, now + LONGEST_FOR_NAME * MICROS
    connection.execute("DELETE FROM failures WHERE at <= ? OR at > ?", (oldest, ahead))
    connection.execute("DELETE FROM failures WHERE id <= (SELECT max(id) FROM failures) - ?", (MOST_ROWS,))


def _key(kind: str, text: str) -> bytes:
    return hashlib.sha256(f"{kind}:{text}".encode("utf-8", "surrogatepass")).digest()


def network_of(address: str) -> str:
    """The network of an address: a client with one IPv6 address has all of its network."""
    try:
        known = ipaddress.ip_address(address)
    except ValueError:
        return address
    if known.version == 4:
        return address
    return str(known.ipv4_mapped or ipaddress.ip_network((int(known) >> 64 << 64, 64)))
