"""What a machine knows of the team it joined: the server, its token, and the key of its hashes.

The token is in a file that only its owner can read, ``HOME/team.key``; the settings are in ``HOME/team.toml``.
"""

from __future__ import annotations

import hashlib
import platform
import uuid
from contextlib import suppress
from pathlib import Path

import msgspec

from agenttrace.config.toml_files import write_private

_NAME = "team.key"
#: Where systems keep what names a machine.
_MACHINE_IDS = ("/etc/machine-id", "/var/lib/dbus/machine-id")
_RANDOM = 1 << 40


class NotJoinedError(Exception):
    """This machine is no member of a team."""

    def __init__(self, problem: str) -> None:
        super().__init__(f"{problem}. Join it with a code from the team's admin: agenttrace team join URL --code CODE")


class Membership(msgspec.Struct, frozen=True, kw_only=True):
    """What was agreed when the machine joined."""

    url: str
    token: str
    machine: str
    person: str
    #: Hashes of names are made with it, and cannot be looked up without it.
    key: str
    #: Seconds since the epoch.
    joined_at: float
    #: Names the machine that joined, so that a copy of its data directory does not push under its name.
    host: str = ""

    def __repr__(self) -> str:
        return f"Membership(machine={self.machine!r})"


def membership_of(home: Path, url: str | None = None) -> Membership:
    """The membership of this data directory, checked; with a URL, that of this server."""
    found = stored_membership(home)
    if found is None:
        raise NotJoinedError("this machine has no token of the team")
    if url is not None and found.url.rstrip("/") != url.rstrip("/"):
        raise NotJoinedError(f"the token of this machine is one of another server, {found.url}")
    here = this_host()
    if found.host and here and found.host != here:
        raise NotJoinedError(f"this data directory was copied from the machine {found.machine}, whose token it has")
    return found


def stored_membership(home: Path) -> Membership | None:
    """The membership as it is stored; ``None`` where there is none that can be read."""
    try:
        return msgspec.json.decode((home / _NAME).read_bytes(), type=Membership)
    except (OSError, msgspec.DecodeError):
        return None


def store_membership(home: Path, membership: Membership) -> None:
    """Store it, readable by its owner only."""
    write_private(home / _NAME, msgspec.json.encode(membership))


def remove_membership(home: Path) -> None:
    """Forget token and key."""
    (home / _NAME).unlink(missing_ok=True)


def this_host() -> str:
    """A name of this machine that copies of a data directory do not have; empty where it has none that lasts."""
    found = ""
    for path in _MACHINE_IDS:
        with suppress(OSError):
            found = found or Path(path).read_text("utf-8", "replace").strip()
    if not found:
        node = uuid.getnode()
        # Without a network card Python invents a number, which is another one each time.
        found = "" if node & _RANDOM else f"{platform.node()}-{node}"
    return found and hashlib.sha256(f"agenttrace team {found}".encode()).hexdigest()[:16]
