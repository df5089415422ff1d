"""From a path as the store holds it back to the file on disk."""

from __future__ import annotations

import os
import re

#: How a byte of a name that is not UTF-8 is written in the store.
_ESCAPED = re.compile(rb"\\x([0-9a-f]{2})")


def path_on_disk(stored: str) -> bytes | None:
    """The file behind a path as the store holds it, or ``None``. Raises ``OSError`` where one may not look."""
    for path in (os.fsencode(stored), _ESCAPED.sub(lambda found: bytes.fromhex(found[1].decode()), stored.encode())):
        try:
            os.lstat(path)
        except (FileNotFoundError, NotADirectoryError, ValueError):
            continue
        return path
    return None


def still_there(stored: str) -> bool:
    """Whether a file is on disk, by its path as the store holds it; what cannot be looked at is not gone."""
    try:
        return path_on_disk(stored) is not None
    except OSError:
        return True
