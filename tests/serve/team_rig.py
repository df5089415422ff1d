"""A team's server on a store with the sessions of several persons, whose every text has a word of its owner."""

# ruff: noqa: ANN401 - answers are JSON

from __future__ import annotations

import json
import re
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
from fastapi import FastAPI

from agenttrace.calendar import day_finder
from agenttrace.config import ServeSettings, Settings, TeamSettings, ensure_home
from agenttrace.model import Session
from agenttrace.record.recorder import Recorder
from agenttrace.record.texts.search_index import index_all
from agenttrace.serve.access.access_store import AccessStore
from agenttrace.serve.app import create_app
from agenttrace.store.annotations import NewAnnotation
from agenttrace.store.current import StoreSource
from agenttrace.store.questions import SessionFilter
from agenttrace.store.rows import ChangesCursor
from agenttrace.store.rules import Attempt, RuleEvent, key_of
from agenttrace.store.sqlite.store import SqliteStore
from agenttrace.store.sqlite.team import SqliteTeamStore
from agenttrace.store.team import Page, TeamStore

from .servers import Answer, listening

DATA = Path(__file__).resolve().parents[1] / "data"
SAMPLES = ("claude-code-2.1.197/projects", "codex-0.166.0/sessions")
#: Amy looks at Ben's sessions, whose machine shares figures only, and at Cara's, whose machine shares everything.
OWNERS = ("amy", "ben", "cara")
_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
#: What stays as it is: what decides what a line is, and names that figures are told by.
_PLAIN = frozenset(
    ("type", "subtype", "role", "timestamp", "ts", "time", "created_at", "v", "kind", "status", "stop_reason")
) | {"name", "model", "version", "cli_version", "model_provider", "originator"}


def word_of(owner: str) -> str:
    """The word in every text of an owner."""
    return f"planted{owner}word"


def planted(value: Any, word: str, key: str = "") -> Any:
    """The same value with a word in every text, also of JSON inside of texts, which stays JSON."""
    if isinstance(value, dict):
        return {name: planted(each, word, name) for name, each in value.items()}
    if isinstance(value, list):
        return [planted(each, word, key) for each in value]
    if not isinstance(value, str) or not value or key in _PLAIN:
        return value
    if value[0] in "[{":
        try:
            return json.dumps(planted(json.loads(value), word))
        except ValueError:
            pass
    return f"{value} {word}"


class PersonsMachine:
    """The logs of one person, and the store that they are recorded into."""

    def __init__(self, root: Path, owner: str) -> None:
        self.owner, self.word = owner, word_of(owner)
        self.name = f"{owner}s-laptop"
        self.logs = root / f"logs {self.word}"
        self.settings = Settings(home=root / f"home-{owner}")
        ensure_home(self.settings)
        self._cursor = ChangesCursor()
        self._plant_samples()
        for number in (1, 2):
            self.append(f"s{number}", *self._failing_turns(f"s{number}"))

    def _plant_samples(self) -> None:
        for path in sorted(each for sample in SAMPLES for each in (DATA / sample).rglob("*.jsonl")):
            target = self.logs / self._with_own_ids(str(path.relative_to(DATA)))
            target.parent.mkdir(parents=True, exist_ok=True)
            lines = (planted(json.loads(self._with_own_ids(line)), self.word) for line in path.read_text().splitlines())
            target.write_text("".join(f"{json.dumps(line)}\n" for line in lines))

    def _with_own_ids(self, text: str) -> str:
        """The initials of all owners are hexadecimal digits."""
        return _UUID.sub(lambda found: self.owner[0] + found[0][1:], text)

    def _failing_turns(self, session: str) -> Iterator[dict[str, Any]]:
        """Turns with failing tools, always with the same arguments, so that findings have something to say."""
        at = time.time() - 600
        yield {"type": "session.begin", "id": "b", "title": f"title {session}", "project": "/srv/shop", "ts": at}
        for turn in (1, 2):
            yield {"type": "turn.begin", "turn": turn, "prompt": "why", "id": f"t{turn}", "ts": at}
            for step in range(4):
                place, call = {"turn": turn, "step": step}, f"c{turn}{step}"
                usage = {"input_tokens": 100, "output_tokens": 10}
                yield {"type": "step.begin", **place, "id": f"m{turn}{step}", "model": "kimi-k2.5", "ts": at}
                yield {"type": "message", **place, "id": f"w{turn}{step}", "role": "assistant", "text": "so", "ts": at}
                yield {"type": "tool.begin", **place, "id": call, "name": "Bash", "arguments": {"c": "ls"}, "ts": at}
                yield {"type": "tool.end", **place, "id": call, "status": "error", "error": "no", "ts": at + 1}
                yield {"type": "usage", **place, "id": f"u{turn}{step}", "usage": usage, "ts": at + 1}
                yield {"type": "step.end", **place, "id": f"m{turn}{step}", "ts": at + 1}
            yield {"type": "turn.end", "turn": turn, "id": f"t{turn}", "status": "error", "error": "no", "ts": at + 2}

    def append(self, session: str, *lines: Mapping[str, Any]) -> None:
        """Lines of our own format, with the word in every text."""
        path = self.logs / "native" / f"{session}.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("ab", buffering=0) as file:
            for line in lines:
                whole = {"v": 1, "session": f"{self.owner} {session}", **line}
                file.write(json.dumps(planted(whole, self.word)).encode() + b"\n")

    def push(self, store: TeamStore) -> None:
        """What was recorded since the last time comes into the team's store."""
        recorder = Recorder(self.settings, paths=[str(self.logs)], environ={})
        try:
            recorder.run_once()
            while (found := recorder.store.changes_since(self._cursor)).rows:
                page = Page(
                    machine=self.name,
                    person=self.owner,
                    store=f"store of {self.owner}",
                    after=self._cursor,
                    until=found.cursor,
                )
                store.take(found.rows, page, day_of=day_finder("UTC"))
                self._cursor = found.cursor
        finally:
            recorder.close()


@dataclass
class Team:
    """The store of a team, with the machines that fill it."""

    settings: Settings
    machines: dict[str, PersonsMachine]

    @classmethod
    def made(cls, root: Path, *, owners: tuple[str, ...] = OWNERS, **team: Any) -> Team:
        settings = Settings(home=root / "server", serve=ServeSettings(port=0), team=TeamSettings(**team))
        ensure_home(settings)
        found = cls(settings, {owner: PersonsMachine(root, owner) for owner in owners})
        for owner in owners:
            found.take(owner)
        with found.opened() as store:
            index_all(store)
            for owner in owners:
                _annotate(store, owner)
            if owners == OWNERS:
                _plant_firings(store)
        return found

    @contextmanager
    def opened(self) -> Iterator[SqliteTeamStore]:
        with SqliteTeamStore.open(Path(self.source.target), read_only=False) as store:
            yield store

    @property
    def source(self) -> StoreSource:
        return StoreSource(self.settings.home / "team.db", is_team=True)

    def take(self, owner: str) -> None:
        """What a machine recorded meanwhile comes into the store."""
        with self.opened() as store:
            self.machines[owner].push(store)

    def sessions(self, owner: str) -> list[Session]:
        with self.opened() as store:
            return store.sessions(SessionFilter(persons=frozenset((owner,))))


def _annotate(store: SqliteStore, owner: str) -> None:
    word = word_of(owner)
    for session in store.sessions(SessionFilter(persons=frozenset((owner,)))):
        about: Any = {"session": session.id, "source": "person", "author": word}
        store.annotation_table.put(NewAnnotation(kind="note", text=f"a note {word}", **about))
        store.annotation_table.put(NewAnnotation(kind="label", name=f"label {word}", **about))
        store.annotation_table.put(NewAnnotation(kind="score", name=f"score {word}", value=3, **about))


def _plant_firings(store: SqliteStore) -> None:
    """A firing of each owner's first session; Amy's message is about Ben's as well."""
    numbers: dict[str, int] = {}
    for owner in OWNERS:
        session = store.sessions(SessionFilter(persons=frozenset((owner,))))[0]
        event = RuleEvent(
            key=key_of("planted", owner), kind="tool.failed", at=1, session=session.id, facts={"tool": word_of(owner)}
        )
        store.rules.note([event])
        queued = [each.number for each in store.rules.events(100)]
        store.rules.decide(queued, [("planted", event.key, event, "queued", None, 0.0)])
        numbers[owner] = store.rules.firings(limit=1)[0].number
    for owner, others in (("amy", [numbers["ben"]]), ("cara", [])):
        number, words = numbers[owner], " ".join(map(word_of, ("amy", "ben") if others else (owner,)))
        store.rules.fire(number, others, actions=[("desktop", f"key-{owner}")], day="2026-11-18", now=1.0)
        answer = json.dumps({"title": words, "text": words})
        store.rules.end(Attempt(number, 0, 1.0, 0.1, "done", words), "done", answer=answer)


@dataclass(frozen=True)
class Looker:
    """A client of the team's server."""

    url: str
    http: aiohttp.ClientSession
    token: str

    @property
    def headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.token}"}

    async def get(self, path: str, headers: Mapping[str, str] | None = None, **query: Any) -> Answer:
        sent = {**self.headers, **(headers or {})}
        async with self.http.get(self.url + path, params=query, headers=sent) as response:
            return Answer(response.status, response.headers, await response.read())

    async def json(self, path: str, **query: Any) -> Any:
        answer = await self.get(path, **query)
        assert answer.status == 200, answer.body
        return answer.json()


@dataclass(frozen=True)
class Served:
    """The server, and who looks at it."""

    team: Team
    app: FastAPI
    lookers: dict[str, Looker]


@asynccontextmanager
async def served(team: Team) -> AsyncIterator[Served]:
    """The whole server of the team; its lookers are amy (a member), a viewer, and an admin."""
    app = create_app(None, team.settings, problem="not in this test", team=team.source)
    access: AccessStore = app.state.access
    for owner in team.machines:
        machine, share = team.machines[owner].name, "full" if owner == "cara" else "figures"
        access.machines.join(access.machines.invite(owner)[0], machine, None, share=share)  # type: ignore[arg-type]
    for owner in OWNERS:
        access.users.add(owner, "member", "no password")
    tokens = {
        "amy": access.tokens.create("amys", "member", None, "amy")[0],
        "viewer": access.tokens.create("viewers", "viewer", None)[0],
        "admin": access.tokens.create("admins", "admin", None)[0],
    }
    async with listening(app) as server, aiohttp.ClientSession() as http:
        yield Served(team, app, {name: Looker(server.url, http, token) for name, token in tokens.items()})
