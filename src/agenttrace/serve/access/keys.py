"""Random keys of an installation."""

from __future__ import annotations

import secrets

from agenttrace.serve.access.database import AccessTable

_KEY_BYTES = 32


class Keys(AccessTable):
    """Random keys, made when they are first needed."""

    def get(self, name: str) -> bytes:
        """The key of this name; the same in all servers that share the file."""
        with self._database.reading() as connection:
            row = connection.execute("SELECT value FROM keys WHERE name = ?", (name,)).fetchone()
        if row is not None:
            return bytes(row[0])
        with self._database.writing() as connection:
            connection.execute("INSERT OR IGNORE INTO keys VALUES (?, ?)", (name, secrets.token_bytes(_KEY_BYTES)))
            return bytes(connection.execute("SELECT value FROM keys WHERE name = ?", (name,)).fetchone()[0])
