"""Whether a request is for this console, and from its own page: the headers Host, Origin and X-CSRF-Token.

A page of another site can have its name resolved to this machine (DNS rebinding); to the browser its requests are then
"same origin", and only the Host header differs. An address in numbers cannot be rebound.
"""

from __future__ import annotations

import hmac
import ipaddress
import re
import socket
from collections.abc import Iterable
from dataclasses import dataclass
from urllib.parse import urlsplit

from starlette.datastructures import Headers

from agenttrace.serve.problems import ProblemError

_HOST = re.compile(r"(?:\[([0-9a-f:.]+)\]|([^\s:/\\@\[\]?#%]+))(?::([0-9]{0,5}))?")
_LOOPBACK_NAME = "localhost"

HEADER = "X-CSRF-Token"
SAFE_METHODS = ("GET", "HEAD", "OPTIONS")

_OURS = ("same-origin", "none")
_PORTS = {"http": "80", "https": "443"}


@dataclass(frozen=True, slots=True)
class Host:
    """A host as a client names it: lower case, without brackets and without the dot of the root."""

    name: str
    #: Empty where the scheme's own is meant.
    port: str
    is_address: bool

    @property
    def is_loopback(self) -> bool:
        """Whether the name can only mean the machine that uses it."""
        return ipaddress.ip_address(self.name).is_loopback if self.is_address else self.name == _LOOPBACK_NAME

    def is_same(self, other: Host, port: str) -> bool:
        """Whether both are one host on one port; ``port`` is the one that is meant where none is named."""
        return self.name == other.name and (self.port or port) == (other.port or port)


def parse_host(text: str) -> Host | None:
    """A host with or without a port; None for anything else."""
    match = _HOST.fullmatch(text.lower())
    if match is None:
        return None
    bracketed, plain, port = match.groups()
    number = str(int(port)) if port else ""
    if bracketed:
        address = _address(bracketed)
        return None if address is None or address.version == 4 else Host(str(address), number, True)
    name = plain.removesuffix(".")
    address = _address(name)
    return Host(name if address is None else str(address), number, address is not None) if name else None


def host_of(headers: Headers) -> Host | None:
    """The host that a request names; None for several, and for anything else."""
    named = headers.getlist("host")
    return parse_host(named[0]) if len(named) == 1 else None


def _address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        return None


def is_loopback_bind(bind: str) -> bool:
    """Whether a server that listens there can be reached from this machine only."""
    host = parse_host(f"[{bind}]" if ":" in bind else bind)
    return host is not None and host.is_loopback


def machine_names() -> set[str]:
    """The names of this machine in its network."""
    name = socket.gethostname().lower().removesuffix(".")
    short = name.partition(".")[0]
    return {name, short, f"{short}.local"} - {"", ".local"}


class AllowedHosts:
    """The names the console answers to: this machine's, and those of ``serve.allowed_hosts``."""

    def __init__(self, bind: str, allowed: Iterable[str], machine: Iterable[str] | None = None) -> None:
        own = {_LOOPBACK_NAME, bind.lower().removesuffix("."), *(machine_names() if machine is None else machine)}
        self._any_port = own
        self._one_port: set[tuple[str, str]] = set()
        for entry in allowed:
            self._allow(entry)

    def _allow(self, entry: str) -> None:
        host = parse_host(_in_ascii(entry.strip()))
        if host is None:
            return
        if host.port:
            self._one_port.add((host.name, host.port))
        else:
            self._any_port.add(host.name)

    def allow(self, host: Host) -> bool:
        """Whether a request for this host is for this console."""
        return host.is_address or host.name in self._any_port or (host.name, host.port) in self._one_port


def _in_ascii(entry: str) -> str:
    """A name that is not ASCII as browsers send it."""
    try:
        return entry if entry.isascii() else entry.encode("idna").decode()
    except UnicodeError:
        return entry


# -- requests of our page -----------------------------------------------------------------------------------------


def check_origin(headers: Headers, host: Host) -> None:
    """Raise 403 where another site asks for a change."""
    if not _from_here(headers) or not all(_is_origin_of(origin, host) for origin in headers.getlist("origin")):
        raise _elsewhere()


def check_csrf(headers: Headers, token: str) -> None:
    """Raise 403 unless the request has the CSRF token, which other sites cannot read."""
    given = headers.getlist(HEADER)
    # As bytes: comparing text that is not ASCII would raise.
    if len(given) != 1 or not hmac.compare_digest(given[0].encode("latin-1"), token.encode()):
        detail = f"The header {HEADER} is missing or out of date; GET /api/v1/me has the right one."
        raise ProblemError(403, detail, reason="csrf")


def check_read(headers: Headers) -> None:
    """Raise 403 for a hidden request of another site: the time of an answer reveals something."""
    if not _from_here(headers) and headers.get("sec-fetch-mode") != "navigate":
        raise _elsewhere()


def _from_here(headers: Headers) -> bool:
    return all(value in _OURS for value in headers.getlist("sec-fetch-site"))


def _is_origin_of(origin: str, host: Host) -> bool:
    try:
        parts = urlsplit(origin)
    except ValueError:
        return False
    named = parse_host(parts.netloc)
    port = _PORTS.get(parts.scheme)
    return named is not None and port is not None and named.is_same(host, port)


def _elsewhere() -> ProblemError:
    return ProblemError(403, "This request comes from another site.", reason="origin")
