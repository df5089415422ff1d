"""What members and viewers of a team see: figures of all, contents of their own, and never a text of others."""

# ruff: noqa: ANN401 - answers are JSON

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from itertools import count, product
from typing import Any

import pytest

from agenttrace.ids import session_key
from agenttrace.store.questions import SessionFilter

from .servers import Outliving
from .team_rig import OWNERS, Looker, Served, Team, served, word_of
from .trace_rig import messages

API = "/api/v1"
#: The stream has a test of its own; the audit log is for admins.
_STREAM = f"{API}/live"
_FOR_ADMINS = {f"{API}/audit"}
#: Values that are tried for each parameter that an address needs; every combination is asked for.
_SESSIONS_OF_EACH = 3
#: Parameters that may be left out, and with which more is to be seen.
_MORE: dict[str, list[dict[str, Any]]] = {
    f"{API}/sessions": [
        {"q": "{word}"},
        {"words": "{word}"},
        {"label": "label {word}"},
        {"project": "/srv/shop {word}"},
    ],
    f"{API}/search": [{"q": "{word}"}, {"q": "so"}],
    f"{API}/usage": [{"by": by, "split": "project"} for by in ("project", "session", "model", "agent", "day")],
    f"{API}/usage.csv": [{"by": by} for by in ("project", "session")],
    f"{API}/insights/tools": [{"by": "project"}, {"project": "/srv/shop {word}"}],
    f"{API}/insights/models": [{"by": "project"}],
    f"{API}/insights/calls": [{"tool": "Bash"}],
    f"{API}/rules/firings": [{"session": "{session}"}],
    f"{API}/sessions/{{session}}/spans": [{"texts": "true"}],
    f"{API}/sessions/{{session}}/texts": [{"span": "{span}"}],
    f"{API}/sessions/{{session}}/export": [{"format": kind} for kind in ("html", "md", "jsonl")],
    f"{API}/files": [{"state": "all"}],
    f"{API}/quarantine": [{"resolved": "true"}],
}


class Rig:
    """The server for all tests of this file."""

    def __init__(self, root: Any) -> None:
        self.team = Team.made(root)
        self._running = Outliving(served(self.team))
        self.served: Served = self._running.value
        self.run = self._running.run
        self.close = self._running.close
        with self.team.opened() as store:
            self.places = {owner: _places(store, owner) for owner in OWNERS}

    def addresses(self, owner: str) -> Iterator[tuple[str, str, dict[str, Any]]]:
        """Every address of every endpoint that can be about an owner: path of the document, path, query."""
        for path, operations in self.served.app.openapi()["paths"].items():
            if "get" not in operations or path == _STREAM:
                continue
            needed = [each for each in operations["get"].get("parameters", []) if each.get("required")]
            for values in self._values(owner, [each["name"] for each in needed]):
                inside = {each["name"] for each in needed if each["in"] == "path"}
                address = path.format(**{name: values[name] for name in inside})
                query = {name: value for name, value in values.items() if name not in inside and name != "_span"}
                yield path, address, query
                for more in _MORE.get(path, ()):
                    known = {
                        "word": word_of(owner),
                        "session": values.get("session", ""),
                        "span": values.get("_span", ""),
                    }
                    asked = {name: value.format(**known) for name, value in more.items()}
                    if all(asked.values()):
                        yield path, address, {**query, **asked}

    def _values(self, owner: str, names: list[str]) -> Iterator[dict[str, Any]]:
        if not {"session", "a"} & set(names):
            known = {name: self._known(owner, name) for name in names}
            yield from (dict(zip(known, found, strict=True)) for found in product(*known.values()))
            return
        for key, spans in self.places[owner]["sessions"]:
            inside = {"session": [key], "a": [key], "b": [key], "span": spans, "index": ["0", "1"]}
            known = {name: inside.get(name) or self._known(owner, name) for name in names}
            for found in product(*known.values()):
                yield dict(zip(known, found, strict=True)) | {"_span": spans[0]}

    def _known(self, owner: str, name: str) -> list[str]:
        values: dict[str, list[str]] = {
            "event_no": self.places[owner]["events"],
            "number": ["0", *self.places[owner]["firings"]],
            "name": ["slow-turn", "planted"],
            "entry_id": ["1"],
            "job_id": ["1"],
            "run_id": ["1"],
            "result_id": ["1"],
            "state": ["refused"],
        }
        assert name in values, f"tell this test what to write for the parameter {name} of a new endpoint"
        return values[name]


def _places(store: Any, owner: str) -> dict[str, Any]:
    sessions = store.sessions(SessionFilter(persons=frozenset((owner,))))
    native = [each for each in sessions if each.agent == "native"][:1]
    chosen = list({each.id: each for each in (*native, *sessions)}.values())[:_SESSIONS_OF_EACH]
    spans = {each.id: [row.span_id.hex() for row in store.span_rows(each)] for each in chosen}
    events = [str(number) for each in chosen for number in store.newest_events(40, each.id)[::8]]
    firings = [str(each.number) for each in store.rules.firings() if each.event.session in {one.id for one in sessions}]
    return {
        "sessions": [(session_key(number), found[:: max(1, len(found) // 3)][:4]) for number, found in spans.items()],
        "events": events,
        "firings": firings,
    }


@pytest.fixture(scope="module")
def rig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    made = Rig(tmp_path_factory.mktemp("team"))
    yield made
    made.close()


async def walked(
    rig: Rig, looker: Looker, owner: str, *, after: Looker | None = None
) -> dict[str, list[tuple[str, dict[str, Any], int, bytes]]]:
    """The answers of every endpoint about an owner, by the path of the document; ``after`` asks each just before.

    The version that the other one got is sent along, as a browser does that two users share.
    """
    found: dict[str, list[tuple[str, dict[str, Any], int, bytes]]] = {}
    for path, address, query in rig.addresses(owner):
        before = None if after is None else await after.get(address, **query)
        tag = {} if before is None else {"If-None-Match": before.headers.get("ETag", "")}
        answer = await looker.get(address, headers=tag, **query)
        if before is not None and word_of(owner).encode() in before.body:
            assert answer.status != 304, address
        headers = repr(dict(answer.headers)).encode()
        found.setdefault(path, []).append((address, query, answer.status, answer.body + headers))
    return found


def paths_with(found: dict[str, list[tuple[str, dict[str, Any], int, bytes]]], word: str) -> set[str]:
    return {path for path, answers in found.items() if any(word.encode() in body for *_, body in answers)}


@pytest.mark.parametrize(("who", "hidden"), [("amy", ["ben"]), ("viewer", list(OWNERS))])
def test_no_text_of_others_is_in_any_answer(rig: Rig, who: str, hidden: list[str]) -> None:
    """Every endpoint of the document, asked about the sessions of others, with their words in filters as well."""
    for owner in hidden:
        found = rig.run(walked(rig, rig.served.lookers[who], owner, after=rig.served.lookers["admin"]))
        told = paths_with(found, word_of(owner))
        assert not told, [(a, q) for path in told for a, q, _, body in found[path] if word_of(owner).encode() in body]
        statuses = {status for answers in found.values() for *_, status, _ in answers}
        assert statuses <= {200, 304, 400, 403, 404, 409, 422, 503}
        # The figures are there.
        assert {status for *_, status, _ in found[f"{API}/sessions/{{session}}"]} == {200}
        assert {status for *_, status, _ in found[f"{API}/sessions/{{session}}/timeline"]} <= {200, 304}


def test_what_is_walked_has_the_texts(rig: Rig) -> None:
    """An admin meets the words in the same walk, so it would find them if members could see them."""
    found = rig.run(walked(rig, rig.served.lookers["admin"], "ben"))
    with_texts = {path.removeprefix(API) for path in paths_with(found, word_of("ben"))}
    assert with_texts >= {
        "/overview",
        "/sessions",
        "/sessions/facets",
        "/sessions/{session}",
        "/sessions/{session}/annotations",
        "/sessions/{session}/outcomes",
        "/sessions/{session}/changes",
        "/sessions/{session}/texts",
        "/sessions/{session}/spans/{span}/texts/{index}",
        "/sessions/{session}/spans",
        "/sessions/{session}/spans/{span}",
        "/sessions/{session}/lines",
        "/sessions/{session}/export",
        "/events/{event_no}",
        "/events/{event_no}/raw",
        "/compare",
        "/search",
        "/usage",
        "/usage.csv",
        "/insights/tools",
        "/insights/models",
        "/insights/calls",
        "/insights/findings",
        "/rules/firings",
        "/rules/firings/{number}",
    }


def test_own_sessions_and_shared_ones_are_whole(rig: Rig) -> None:
    """A member gets every answer about own sessions, and those of machines that share them, as an admin does."""
    for owner in ("amy", "cara"):
        mine = rig.run(walked(rig, rig.served.lookers["amy"], owner))
        all_of_it = rig.run(walked(rig, rig.served.lookers["admin"], owner))
        for path, answers in mine.items():
            if "{session}" in path or "{event_no}" in path:
                for (address, query, status, _), (*_, wanted, _) in zip(answers, all_of_it[path], strict=True):
                    assert (address, query, status) == (address, query, wanted)
        assert paths_with(mine, word_of(owner)) >= {
            path for path in paths_with(all_of_it, word_of(owner)) if "{session}" in path or "{event_no}" in path
        }


def test_figures_are_the_same_for_all(rig: Rig) -> None:
    """The sums, and the figures of each session, are those that an admin sees."""

    async def figures(looker: Looker) -> Any:
        usage = await looker.json(f"{API}/usage", by="model")
        sessions = await looker.json(f"{API}/sessions", limit=500)
        names = ("key", "agent", "state", "turns", "steps", "tools", "errors", "events", "bill")
        rows = sorted(tuple(repr(row[name]) for name in names) for row in sessions["items"])
        tools = await looker.json(f"{API}/insights/tools")
        return usage["total"], usage["rows"], sessions["total"], rows, tools["items"]

    seen = [rig.run(figures(looker)) for looker in rig.served.lookers.values()]
    assert seen[0] == seen[1] == seen[2]
    assert seen[0][2] == sum(len(rig.team.sessions(owner)) for owner in OWNERS)


def test_a_hidden_directory_is_a_hash_that_can_be_filtered_by(rig: Rig) -> None:
    """Sums by project have the directories of others under hashes, by which lists and sums can be filtered."""

    async def body() -> None:
        viewer, admin = rig.served.lookers["viewer"], rig.served.lookers["admin"]
        groups = {row["group"]: row["bill"] for row in (await viewer.json(f"{API}/usage", by="project"))["rows"]}
        assert groups
        assert all(name is None or name.startswith("project-") for name in groups)
        named = next(name for name in groups if name)
        one = await viewer.json(f"{API}/usage", by="model", project=named)
        assert one["total"] == groups[named]
        assert (await viewer.json(f"{API}/sessions", project=named))["total"] > 0
        real = f"/srv/shop {word_of('ben')}"
        assert (await admin.json(f"{API}/usage", by="model", project=real))["total"]["requests"] > 0
        assert (await viewer.json(f"{API}/usage", by="model", project=real))["total"]["requests"] == 0

    rig.run(body())


def test_the_id_of_a_hidden_session_cannot_be_guessed(rig: Rig) -> None:
    """It is found by its key, and neither by its id nor by the beginning of it."""

    async def body() -> None:
        amy, session = rig.served.lookers["amy"], rig.team.sessions("ben")[0]
        assert (await amy.get(f"{API}/sessions/{session_key(session.id)}")).status == 200
        for name in (session.session_id, session.session_id[:10]):
            assert (await amy.get(f"{API}/sessions/{name}")).status == 404

    rig.run(body())


def test_the_live_stream(rig: Rig) -> None:
    """Each subscriber gets what it may see: rows of all, texts of own sessions, and no notices about others."""
    native = {
        owner: session_key(next(each.id for each in rig.team.sessions(owner) if "s1" in each.session_id))
        for owner in ("amy", "ben")
    }

    async def heard(looker: Looker, owner: str) -> bytes:
        query = {"session": native[owner], "notices": "0"}
        async with looker.http.get(looker.url + _STREAM, params=query, headers=looker.headers) as response:
            stream, found = messages(response), list[str]()
            async with asyncio.timeout(30):
                async for message in stream:
                    found.append(repr(message))
                    if message.kind == "hello":
                        await asyncio.to_thread(write)
                    if message.kind == "texts" and message.data["session"] == native[owner]:
                        break
            # The rows follow the texts.
            found.append(repr(await anext(stream)))
            return "".join(found).encode()

    def write() -> None:
        number = str(next(numbers))
        for owner in ("amy", "ben"):
            line = {"type": "message", "turn": 3, "step": 9, "role": "user", "text": f"news {number}", "id": number}
            rig.team.machines[owner].append("s1", line)
            rig.team.take(owner)

    numbers = count()
    for who, owner in (("amy", "amy"), ("amy", "ben"), ("viewer", "ben"), ("admin", "ben")):
        found = rig.run(heard(rig.served.lookers[who], owner))
        assert (word_of("ben").encode() in found) == (who == "admin")
        assert (word_of("amy").encode() in found) == (who != "viewer")
        assert native[owner].encode() in found


def test_a_machine_that_shares_less(tmp_path_factory: pytest.TempPathFactory) -> None:
    """An open stream is told to load everything again, and what was shared before is hidden then."""
    team = Team.made(tmp_path_factory.mktemp("less"), owners=("cara",))
    key = session_key(team.sessions("cara")[0].id)

    async def body() -> None:
        async with served(team) as found:
            amy = found.lookers["amy"]
            assert (await amy.json(f"{API}/sessions/{key}"))["title"]
            async with amy.http.get(amy.url + _STREAM, headers=amy.headers) as response:
                stream = messages(response)
                async with asyncio.timeout(30):
                    assert (await anext(stream)).kind == "hello"
                    found.app.state.access.machines.set_share("caras-laptop", "figures")
                    while (await anext(stream)).kind != "reset":
                        pass
            assert (await amy.json(f"{API}/sessions/{key}"))["title"] is None

    asyncio.run(body())


def test_only_sums_where_figures_are_for_admins(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Sessions of others are not there at all; sums that name nothing are those of all sessions."""
    team = Team.made(tmp_path_factory.mktemp("sums"), figures="admins")

    async def body() -> None:
        async with served(team) as found:
            amy, viewer, admin = (found.lookers[name] for name in ("amy", "viewer", "admin"))
            everything = await admin.json(f"{API}/usage", by="model")
            own = {session_key(each.id) for owner in ("amy", "cara") for each in team.sessions(owner)}
            for looker, keys in ((amy, own), (viewer, set[str]())):
                assert (await looker.json(f"{API}/usage", by="model"))["total"] == everything["total"]
                listed = (await looker.json(f"{API}/sessions", limit=500))["items"]
                assert {row["key"] for row in listed} == keys
                hidden = session_key(team.sessions("ben")[0].id)
                assert (await looker.get(f"{API}/sessions/{hidden}")).status == 404
                for by in ("session", "project"):
                    names = repr((await looker.json(f"{API}/usage", by=by))["rows"])
                    assert word_of("ben") not in names
                    assert (word_of("amy") in names) == (looker is amy)

    asyncio.run(body())
