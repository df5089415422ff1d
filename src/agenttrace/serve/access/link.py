"""The link that logs a browser of this machine in: a token made at every start, in a file that only its owner reads."""

from __future__ import annotations

import hmac
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.parse import quote

import msgspec

from agenttrace.locking import ProcessLock, held_text
from agenttrace.serve.access.logins import new_token

#: The parameter of the address.
PARAMETER = "token"

_DIRECTORY = "consoles"
#: A file exists an instant before its lock.
_YOUNG_SECONDS = 60.0


class StartToken:
    """The token of one start of a server. It is never shown by ``repr``."""

    def __init__(self) -> None:
        self._token = new_token()

    def matches(self, given: str) -> bool:
        """Whether it is the token; takes the same time for every wrong one."""
        return hmac.compare_digest(given.encode("utf-8", "surrogatepass"), self._token.encode())

    def link(self, url: str, path: str = "/") -> str:
        """The address that logs a browser in."""
        return f"{url}{path}?{PARAMETER}={self._token}"


class Console(msgspec.Struct, frozen=True, kw_only=True):
    """A console that runs for a data directory."""

    url: str
    #: With the token, where a link logs in.
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
    """Let ``agenttrace open`` find this console while the block runs and the process lives."""
    directory = home / _DIRECTORY
    directory.mkdir(mode=0o700, exist_ok=True)
    running_consoles(home)
    told = msgspec.json.encode(Console(url=url, link=link, started_at=time.time())).decode()
    path = directory / f"{secrets.token_hex(8)}.json"
    with ProcessLock(path, told):
        try:
            yield
        finally:
            with suppress(OSError):
                path.unlink()


def running_consoles(home: Path) -> list[Console]:
    """The consoles that run for a data directory, the newest first; files of dead ones are removed."""
    found = []
    for path in sorted((home / _DIRECTORY).glob("*.json")):
        text = held_text(path)
        if text is not None:
            with suppress(msgspec.MsgspecError):
                found.append(msgspec.json.decode(text, type=Console))
            continue
        with suppress(OSError):
            if time.time() - path.stat().st_mtime > _YOUNG_SECONDS:
                path.unlink()
    return sorted(found, key=lambda console: -console.started_at)
