"""What ``agenttrace team machines``, ``users`` and ``status`` print."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from agenttrace.cli import opening, output
from agenttrace.cli.access import access_store
from agenttrace.cli.columns import Column, print_list
from agenttrace.config import Settings
from agenttrace.destinations import TEAM, DestinationSettings
from agenttrace.store.errors import STORE_FAILURES
from agenttrace.views import figures, times
from agenttrace.views.places import store_path
from agenttrace.views.plain import one_line

if TYPE_CHECKING:
    from agenttrace.store.team import MachineFigures

Fields = dict[str, Any]

_NO_MACHINES = "No machine has joined yet. Invite one: agenttrace team invite"


def show_machines(settings: Settings, store: str | None, *, as_json: bool) -> None:
    """The machines of the team."""
    print_list(_machines(settings, store), _MACHINES, dict, as_json=as_json, empty=_NO_MACHINES)


def show_users(settings: Settings, store: str | None, *, as_json: bool) -> None:
    """The persons of the team."""
    print_list(_users(_machines(settings, store)), _USERS, dict, as_json=as_json, empty=_NO_MACHINES)


def show_status(settings: Settings, store: str | None, *, as_json: bool) -> None:
    """The membership of this machine, and the server where this is one."""
    found: Fields = {"member": _member(settings), "server": _server(settings, store)}
    if as_json:
        output.print_json(found)
        return
    if found["member"] is None and found["server"] is None:
        output.say("This machine is no member of a team, and no server of one.")
        output.note("Join one: agenttrace team join URL --code CODE; run one: agenttrace team serve")
    if found["member"] is not None:
        _show_member(found["member"])
    if found["server"] is not None:
        _show_server(found["server"])


# -- the server -----------------------------------------------------------------------------------------------------


def _machines(settings: Settings, store: str | None) -> list[Fields]:
    """The machines that joined, with what is stored of them."""
    stored = {each.machine: each for each in _stored(settings, store)}
    with access_store() as access:
        joined = access.machines.all()
    known = [
        {
            "machine": each.name,
            "person": each.person,
            "joined_at": times.iso(each.created_at),
            "seen_at": times.iso(each.seen_at),
            "revoked": each.revoked_at is not None,
            "share": each.share,
            **_figures(stored.pop(each.name, None)),
        }
        for each in joined
    ]
    # A store that was moved here has machines that never joined this server.
    rest = [
        {"machine": name, "person": each.person, "joined_at": None, "seen_at": None, "revoked": False}
        | {"share": "figures", **_figures(each)}
        for name, each in stored.items()
    ]
    return known + rest


def _figures(each: MachineFigures | None) -> Fields:
    if each is None:
        return {"sessions": 0, "copies": 0, "events": 0, "received_at": None}
    received = times.iso_seconds(each.received_at)
    return {"sessions": each.sessions, "copies": each.copies, "events": each.events, "received_at": received}


def _stored(settings: Settings, store: str | None) -> list[MachineFigures]:
    from agenttrace.store import open_team_store
    from agenttrace.store.team_place import source_of

    source = source_of(settings, store)
    if not source.exists():
        return []
    with open_team_store(source.target, read_only=True) as opened:
        return opened.machines()


def _users(machines: Iterable[Fields]) -> list[Fields]:
    with access_store() as access:
        found: dict[str, Fields] = {
            user.name: {"person": user.name, "role": user.role, "machines": [], "sessions": 0, "received_at": None}
            for user in access.users.all()
        }
    for each in machines:
        empty = {"person": each["person"], "role": None, "machines": [], "sessions": 0, "received_at": None}
        person = found.setdefault(each["person"], empty)
        person["machines"].append(each["machine"])
        person["sessions"] += each["sessions"]
        person["received_at"] = max(filter(None, (person["received_at"], each["received_at"])), default=None)
    return [found[name] for name in sorted(found)]


def _server(settings: Settings, store: str | None) -> Fields | None:
    """The server of a team with this data directory."""
    from agenttrace.destinations import shown_address
    from agenttrace.store.team_place import source_of

    source = source_of(settings, store)
    if not (settings.home / "access.db").exists() or not source.exists():
        return None
    shown = shown_address(source.target) if isinstance(source.target, str) else str(source.target)
    try:
        return {"store": shown, "machines": _machines(settings, store), "problem": None}
    except STORE_FAILURES as error:
        return {"store": shown, "machines": [], "problem": str(error)}


def _show_server(server: Fields) -> None:
    output.fact("team store", server["store"], "bold")
    if server["problem"]:
        output.complain(server["problem"])
    active = [each for each in server["machines"] if not each["revoked"]]
    sessions = sum(each["sessions"] for each in server["machines"])
    output.fact("machines", f"{figures.counted(len(active), 'machine')}, {figures.counted(sessions, 'session')}")


# -- a machine ------------------------------------------------------------------------------------------------------


def _member(settings: Settings) -> Fields | None:
    from agenttrace.team.joining import position_of
    from agenttrace.team.membership import NotJoinedError, membership_of, stored_membership

    known = stored_membership(settings.home)
    destination = next((each for each in settings.destinations if each.type == TEAM), None)
    if known is None and destination is None:
        return None
    problem: str | None = None
    try:
        known = membership_of(settings.home, None if destination is None else destination.url)
        problem, _ = position_of(known)
    except NotJoinedError as error:
        problem = str(error)
    return {
        "url": known.url if known else destination.url if destination else None,
        "machine": known and known.machine,
        "person": known and known.person,
        "joined_at": None if known is None else times.iso_seconds(known.joined_at),
        "level": destination and destination.level,
        "project_levels": dict(destination.project_levels) if destination else {},
        "problem": problem,
        **_progress(settings, destination),
    }


def _progress(settings: Settings, destination: DestinationSettings | None) -> Fields:
    """What was sent, and what waits."""
    found: Fields = {"rows": 0, "waiting": 0, "held_sessions": 0, "refused": 0, "lost": 0, "last_success_at": None}
    if destination is None or not store_path(settings).exists():
        return found
    with opening.opened_store(settings) as store:
        row = next((row for row in store.exports.destinations.rows() if row.name == destination.name), None)
        if row is None:
            return found
        state, left = store.exports.teams.state(row.destination_id), store.exports.teams.backlog(row.destination_id)
        found |= {"waiting": left.rows, "held_sessions": left.held}
        if state is not None:
            found |= {"rows": state.rows, "refused": state.refused, "lost": state.lost}
        return found | {"last_success_at": times.iso_seconds(row.last_success_at)}


def _show_member(member: Fields) -> None:
    output.fact("team", member["url"], "bold")
    if member["machine"]:
        output.fact("machine", f"{member['machine']} of {member['person']}")
    output.fact("shares", member["level"] or "nothing: its destination is not in the settings")
    for glob, level in member["project_levels"].items():
        output.fact("", f"{level} of {one_line(glob)}")
    output.note("What was sent before a level was lowered stays at the server; ask its admin to remove it.")
    output.fact("sent", figures.counted(member["rows"], "row"))
    output.fact("waiting", f"{figures.counted(member['waiting'], 'row')} or more" if member["waiting"] else "nothing")
    if member["held_sessions"]:
        held = figures.counted(member["held_sessions"], "session")
        output.fact("held", f"{held} from before joining; to send them: agenttrace export backfill team --since all")
    if member["refused"]:
        output.fact("refused", figures.counted(member["refused"], "row"), "bold red")
    if member["lost"]:
        output.fact("lost", f"{figures.counted(member['lost'], 'line')} pruned before they were sent", "yellow")
    if member["problem"]:
        output.complain(one_line(member["problem"]))


_MACHINES: tuple[Column[Fields], ...] = (
    Column("machine", lambda each: one_line(each["machine"]), least=8, style="cyan"),
    Column("person", lambda each: one_line(each["person"]), least=6),
    Column("sessions", lambda each: figures.count(each["sessions"]), right=True),
    Column("copies", lambda each: figures.count(each["copies"]), right=True, optional=3),
    Column("events", lambda each: figures.count(each["events"]), right=True, optional=2),
    Column("last sent", lambda each: _when(each["received_at"]), right=True),
    Column("joined", lambda each: _when(each["joined_at"]), right=True, optional=1),
    Column("state", lambda each: "revoked" if each["revoked"] else "", style={"revoked": "yellow"}),
)
_USERS: tuple[Column[Fields], ...] = (
    Column("person", lambda each: one_line(each["person"]), least=6, style="cyan"),
    Column("role", lambda each: each["role"]),
    Column("machines", lambda each: one_line(", ".join(each["machines"])), least=8),
    Column("sessions", lambda each: figures.count(each["sessions"]), right=True),
    Column("last sent", lambda each: _when(each["received_at"]), right=True, optional=1),
)


def _when(moment: str | None) -> str | None:
    return None if moment is None else figures.clock(times.parse_when(moment))
