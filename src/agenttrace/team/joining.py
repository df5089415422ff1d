"""Joining a team: a code becomes a token of this machine, and a destination in its settings."""

from __future__ import annotations

import re
import secrets
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Literal, NamedTuple
from urllib.parse import urlsplit

import httpx
import msgspec

from agenttrace.config.team_file import team_file, write_team
from agenttrace.destinations import TEAM, is_address
from agenttrace.team import wire
from agenttrace.team.levels import Sharing
from agenttrace.team.membership import Membership, remove_membership, store_membership, stored_membership, this_host

_SECONDS = 15.0
_LOOPBACK = ("localhost", "::1")
_IS_LOOPBACK = re.compile(r"127(\.\d{1,3}){3}")


class JoinError(Exception):
    """Why this machine could not join, and what to do."""

    def __init__(self, problem: str, fix: str) -> None:
        super().__init__(problem)
        self.fix = fix


class Joined(NamedTuple):
    """What came of it."""

    membership: Membership
    team: str
    #: False where the machine had joined this server before, and keeps its name.
    is_new: bool


def checked_url(url: str, *, insecure: bool = False) -> str:
    """The address of a server, without a path; other machines need https."""
    if not is_address(url):
        raise JoinError(f"{url!r} is no address", "Give one such as https://team.example.com.")
    parts = urlsplit(url)
    host = parts.hostname or ""
    if parts.username or parts.query or parts.fragment:
        raise JoinError("the address has more than a host and a port", "Give one such as https://team.example.com.")
    is_here = host in _LOOPBACK or _IS_LOOPBACK.fullmatch(host) is not None
    if parts.scheme == "http" and not is_here and not insecure:
        fix = "Give its https:// address, or add --insecure where the network itself is encrypted."
        raise JoinError(f"{host} is another machine, and http:// is not encrypted", fix)
    return f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/')}"


def join(
    home: Path,
    url: str,
    code: str,
    *,
    name: str,
    person: str | None,
    sharing: Sharing,
    backfill: bool,
    share: Literal["full", "figures"] = "figures",
) -> Joined:
    """Exchange the code, and write token and settings; a machine that joined this server before keeps its name."""
    known = stored_membership(home)
    again = known if known is not None and known.url == url and known.host in ("", this_host()) else None
    headers = {} if again is None else {"Authorization": f"Bearer {again.token}"}
    request = wire.JoinRequest(code=code.strip(), name=name, person=person, share=share)
    reply = _asked(url, request, headers)
    is_same = again is not None and again.machine == reply.machine
    membership = Membership(
        url=url,
        token=reply.token,
        machine=reply.machine,
        person=reply.person,
        # Hashes stay what they are for as long as the data directory lasts.
        key=known.key if known is not None else secrets.token_hex(32),
        joined_at=again.joined_at if is_same and again is not None else time.time(),
        host=this_host(),
    )
    store_membership(home, membership)
    table: dict[str, object] = {"type": TEAM, "url": url, "level": sharing.level}
    if sharing.projects:
        table["project_levels"] = dict(sharing.projects)
    write_team(home, {**table, "start": "all" if backfill else "now"})
    return Joined(membership, reply.team, not is_same)


def leave(home: Path) -> bool:
    """Revoke the token and forget it; False where the server could not be told."""
    known = stored_membership(home)
    told = known is not None and _told(known)
    team_file(home).unlink(missing_ok=True)
    remove_membership(home)
    return told


def position_of(membership: Membership) -> tuple[str | None, bool]:
    """What is wrong with the connection, if anything, and whether rows of this machine are stored there."""
    try:
        answer = _ask("GET", membership.url + wire.POSITION, headers=_bearer(membership))
    except httpx.HTTPError as error:
        return f"{membership.url} is not reached ({_said(error)})", False
    if answer.status_code == 401:
        return "the server does not know this machine any more, or revoked it", False
    if answer.status_code != 200:
        return f"the server answered {answer.status_code}", False
    try:
        return None, msgspec.json.decode(answer.content, type=wire.PositionReply).position is not None
    except msgspec.DecodeError:
        return "no team server of AgentTrace answers there", False


def _asked(url: str, request: wire.JoinRequest, headers: Mapping[str, str]) -> wire.JoinReply:
    try:
        answer = _ask("POST", url + wire.JOIN, content=msgspec.json.encode(request), headers=headers)
    except httpx.HTTPError as error:
        raise JoinError(f"{url} is not reached ({_said(error)})", "Check the address, and that it runs.") from None
    if answer.status_code == 403:
        raise JoinError(
            _detail(answer), "A code is used once: ask for a new one, agenttrace team invite; and check the address."
        )
    if answer.status_code == 426:
        raise JoinError(_detail(answer), "Upgrade the older of the two: pip install --upgrade agenttrace")
    try:
        if answer.status_code == 200:
            return msgspec.json.decode(answer.content, type=wire.JoinReply)
    except msgspec.DecodeError:
        pass
    fix = "Start it there with: agenttrace team serve"
    raise JoinError(f"no team server of AgentTrace answers at {url} (status {answer.status_code})", fix)


def _told(known: Membership) -> bool:
    try:
        return _ask("POST", known.url + wire.LEAVE, headers=_bearer(known)).status_code in (200, 401)
    except httpx.HTTPError:
        return False


def _ask(method: str, url: str, *, content: bytes | None = None, headers: Mapping[str, str]) -> httpx.Response:
    # A redirect would take code and token to a server that was not named.
    return httpx.request(method, url, content=content, headers=dict(headers), timeout=_SECONDS, follow_redirects=False)


def _bearer(membership: Membership) -> dict[str, str]:
    return {"Authorization": f"Bearer {membership.token}"}


def _detail(answer: httpx.Response) -> str:
    try:
        text = msgspec.json.decode(answer.content, type=wire.Refusal).detail
    except msgspec.DecodeError:
        text = ""
    shown = "".join(char for char in text if char.isprintable())[:300].rstrip(". ")
    return f"{shown[:1].lower()}{shown[1:]}" or f"the server refused it ({answer.status_code})"


def _said(error: Exception) -> str:
    return str(error) or type(error).__name__
