"""The link that lets a browser of this machine in: a token made at every start, in a file for its owner alone."""

from __future__ import annotations

import contextlib
import hmac
import os
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

import msgspec

from agenttrace.locking import ProcessLock, held_text
from agenttrace.serve.access.logins import new_token

#: The parameter of the address.
PARAMETER = "token"

_DIRECTORY = "consoles"
#: A file is there an instant before its lock is.
_YOUNG_SECONDS = 60.0


class StartToken:
    """The token of one start of a server. It is never shown by ``repr``."""

    def __init__(self) -> None:
        self._token = new_token()

    def matches(self, given: str) -> bool:
        """Whether it is the token; takes the same time for every wrong one."""
        return hmac.compare_digest(given.encode("utf-8", "surrogatepass"), self._token.encode())

    def link(self, url: str, path: str = "/") -> str:
        """The address that lets a browser in."""
        return f"{url}{path}?{PARAMETER}={self._token}"


class Console(msgspec.Struct, frozen=True, kw_only=True):
    """A console that runs for a data directory."""

    url: str
    #: With the token, where a link lets in.
    link: str | None
    started_at: float

    def __repr__(self) -> str:
        return f"Console(url={self.url!r})"


def cleaned(path: str, query: str) -> str:
    """An address without its token, and never one of another site."""
    kept = "&".join(part for part in query.split("&") if part.partition("=")[0] != PARAMETER)
    # A second slash would make what follows a host.
    local = quote("/" + path.lstrip("/\\"))
    return f"{local}?{kept}" if kept else local


@contextmanager
def published(home: Path, url: str, link: str | None) -> Iterator[None]:
    """Let ``agenttrace open`` find this console until the block is left, or the process dies."""
    directory = home / _DIRECTORY
    directory.mkdir(mode=0o700, exist_ok=True)
    running_consoles(home)
    told = msgspec.json.encode(Console(url=url, link=link, started_at=time.time())).decode()
    path = directory / f"{secrets.token_hex(8)}.json"
    with ProcessLock(path, told):
        try:
            yield
        finally:
            with contextlib.suppress(OSError):
                os.unlink(path)


def running_consoles(home: Path) -> list[Console]:
    """The consoles that run for a data directory, the newest first; what dead ones left behind is removed."""
    found = []
    for path in sorted((home / _DIRECTORY).glob("*.json")):
        text = held_text(path)
        if text is None:
            _remove(path)
            continue
        with contextlib.suppress(msgspec.MsgspecError):
            found.append(msgspec.json.decode(text, type=Console))
    return sorted(found, key=lambda console: -console.started_at)


def _remove(path: Path) -> None:
    with contextlib.suppress(OSError):
        if time.time() - path.stat().st_mtime > _YOUNG_SECONDS:
            path.unlink()
