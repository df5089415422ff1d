"""From a path in the store to the file on disk."""

from __future__ import annotations

import os
import re

#: How a byte of a name that is not UTF-8 is written in the store.
_ESCAPED = re.compile(rb"\\x([0-9a-f]{2})")


def path_on_disk(stored: str) -> bytes | None:
    """The file of a path in the store, or ``None``. Raises ``OSError`` without permission to read its directory."""
    for path in (os.fsencode(stored), _ESCAPED.sub(lambda found: bytes.fromhex(found[1].decode()), stored.encode())):
        try:
            os.lstat(path)
        except (FileNotFoundError, NotADirectoryError, ValueError):
            continue
        return path
    return None


def still_there(stored: str) -> bool:
    """Whether the file of a path in the store is on disk; without permission to look, it counts as there."""
    try:
        return path_on_disk(stored) is not None
    except OSError:
        return True
