"""The Host header: which names the console answers to.

A page from elsewhere can have its own name resolved to this machine (DNS rebinding); to the browser its requests are
then "same origin", and only the name they ask for tells them apart. An address in numbers cannot be rebound.
"""

from __future__ import annotations

import ipaddress
import re
import socket
from collections.abc import Iterable
from dataclasses import dataclass

_HOST = re.compile(r"(?:\[([0-9a-f:.]+)\]|([^\s:/\\@\[\]?#%]+))(?::([0-9]{0,5}))?")
_LOOPBACK_NAME = "localhost"


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


def _address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        return None


def is_loopback_bind(bind: str) -> bool:
    """Whether a server that listens there can be reached from this machine alone."""
    host = parse_host(f"[{bind}]" if ":" in bind else bind)
    return host is not None and host.is_loopback


def machine_names() -> set[str]:
    """What this machine is called in its own network."""
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
        """Whether a request for this host is meant for us."""
        return host.is_address or host.name in self._any_port or (host.name, host.port) in self._one_port


def _in_ascii(entry: str) -> str:
    """A name of other letters as browsers send it."""
    try:
        return entry if entry.isascii() else entry.encode("idna").decode()
    except UnicodeError:
        return entry
