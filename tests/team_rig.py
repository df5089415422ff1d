"""A store with the sessions of several machines and persons, as a team's server has it."""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from agenttrace.calendar import day_finder
from agenttrace.config import Settings, ensure_home
from agenttrace.record.recorder import Recorder
from agenttrace.record.texts.search_index import index_all
from agenttrace.store import open_store
from agenttrace.store.rows import ChangesCursor, Row, StoredSession
from agenttrace.store.sqlite.store import SqliteStore

#: A model with a price.
MODEL = "gpt-5"
#: A time zone in which it is about noon: what happened some minutes ago is of this day and this week.
_AHEAD = 12 - time.gmtime().tm_hour
MIDDAY = f"Etc/GMT{-_AHEAD:+d}" if _AHEAD else "UTC"


@dataclass(frozen=True, kw_only=True)
class TeamSession:
    """A session of one turn, which may still go on."""

    name: str
    machine: str | None
    person: str | None
    project: str
    title: str
    state: str = "ended"
    minutes_ago: float = 30.0
    tokens: int = 100_000
    failed: bool = False


TEAM = (
    TeamSession(
        name="login",
        machine="laptop-amy",
        person="amy",
        project="/home/amy/shop",
        title="Repair the login form",
        state="working",
        minutes_ago=2,
    ),
    TeamSession(
        name="prices",
        machine="laptop-amy",
        person="amy",
        project="/home/amy/shop",
        title="Cache the prices",
        state="waiting",
        minutes_ago=12,
        failed=True,
    ),
    TeamSession(
        name="nightly",
        machine="desktop-amy",
        person="amy",
        project="/srv/reports",
        title="Speed up the nightly report",
        state="working",
        minutes_ago=5,
        tokens=900_000,
    ),
    TeamSession(
        name="parcels",
        machine="laptop-ben",
        person="ben",
        project="/home/ben/parcels",
        title="Track parcels of two carriers",
        state="waiting",
        minutes_ago=9,
        tokens=300_000,
    ),
    TeamSession(
        name="chen",
        machine="mac-chen",
        person="陈晨",
        project="/Users/chen/payment",
        title="重试失败的支付",
        state="working",
        minutes_ago=1,
        tokens=250_000,
    ),
    TeamSession(
        name="build",
        machine="build-7",
        person=None,
        project="/srv/ci",
        title="Why does the build fail?",
        minutes_ago=3 * 24 * 60,
        tokens=400_000,
    ),
)


def write_team(settings: Settings, sessions: Iterable[TeamSession] = TEAM) -> None:
    """Record all sessions, and merge them with their machines and persons into the store of these settings."""
    ensure_home(settings)
    with open_store(settings, read_only=False) as team:
        team.merge(team_rows(sessions), day_of=day_finder(settings.usage.timezone))
        index_all(team)


def team_rows(sessions: Iterable[TeamSession] = TEAM) -> list[Row]:
    """The rows of these sessions, with their machines and persons."""
    return list(_rows({each.name: each for each in sessions}))


def _rows(sessions: Mapping[str, TeamSession]) -> Iterator[Row]:
    with tempfile.TemporaryDirectory() as directory:
        logs = Path(directory, "logs")
        logs.mkdir()
        for session in sessions.values():
            (logs / f"{session.name}.jsonl").write_text("".join(map(_line, _lines(session))), encoding="utf-8")
        own = Settings(home=Path(directory, "home"))
        ensure_home(own)
        recorder = Recorder(own, paths=[str(logs)], environ={})
        try:
            recorder.run_once()
            yield from (_named(row, sessions) for row in _all_rows(recorder.store))
        finally:
            recorder.close()


def _named(row: Row, sessions: Mapping[str, TeamSession]) -> Row:
    if not isinstance(row, StoredSession):
        return row
    whose = sessions[row.session.session_id]
    return StoredSession(msgspec.structs.replace(row.session, machine=whose.machine, person=whose.person), row.revision)


def _all_rows(store: SqliteStore) -> Iterator[Row]:
    cursor = ChangesCursor()
    while (page := store.changes_since(cursor)).rows:
        yield from page.rows
        cursor = page.cursor


def _line(fields: dict[str, Any]) -> str:
    return json.dumps(fields, ensure_ascii=False) + "\n"


def _lines(session: TeamSession) -> Iterator[dict[str, Any]]:
    last = time.time() - session.minutes_ago * 60
    steps: list[dict[str, Any]] = [
        {"type": "session.begin", "agent": "helpdesk", "project": session.project, "title": session.title},
        {"type": "turn.begin", "turn": 1, "prompt": session.title},
        {"type": "step.begin", "turn": 1, "step": 1, "model": MODEL},
        {"type": "tool.begin", "turn": 1, "step": 1, "id": "call", "name": "Bash", "arguments": {"command": "make"}},
        {
            "type": "step.end",
            "turn": 1,
            "step": 1,
            "response": f"response-{session.name}",
            "usage": {"input_tokens": session.tokens, "output_tokens": 1000},
        },
        {"type": "tool.end", "turn": 1, "id": "call", "status": "error" if session.failed else "ok", "result": "made"},
    ]
    if session.state != "working":
        steps.append({"type": "turn.end", "turn": 1, "status": "ok"})
    if session.state == "ended":
        steps.append({"type": "session.end"})
    for number, step in enumerate(steps):
        at = last - 20 * (len(steps) - 1 - number)
        yield {"v": 1, "session": session.name, "id": f"{number}", "ts": at} | step
