"""Removing a person of a team, and retention by directory: texts go, sums stay."""

# ruff: noqa: ANN401 - answers are JSON

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

from agenttrace.serve.access.access_store import AccessStore
from agenttrace.serve.context import ServerContext
from agenttrace.serve.team.retention import prune_daily, prune_once

from .team_rig import Looker, Served, Team, served, word_of

API = "/api/v1"


async def removed(looker: Looker, person: str) -> tuple[int, Any]:
    async with looker.http.delete(f"{looker.url}{API}/persons/{person}", headers=looker.headers) as answer:
        return answer.status, await answer.json()


async def usage(looker: Looker) -> Any:
    return (await looker.json(f"{API}/usage", by="model"))["total"]


def test_a_person_is_removed(tmp_path: Path) -> None:
    """Access ends at once, no text is left in the files of the store or in an answer, and the sums stay."""
    team = Team.made(tmp_path)

    async def body(found: Served) -> None:
        access: AccessStore = found.app.state.access
        admin, amy = found.lookers["admin"], found.lookers["amy"]
        before, sessions = await usage(admin), len(team.sessions("amy"))
        for looker in (amy, found.lookers["viewer"]):
            assert (await removed(looker, "ben"))[0] == 403
        status, answer = await removed(admin, "amy")
        assert status == 200
        assert answer == {"person": "amy", "sessions": sessions, "machines": 1, "logins": 0, "tokens": 1}
        assert (await amy.get(f"{API}/sessions")).status == 401
        assert [each.revoked_at is not None for each in access.machines.all()] == [True, False, False]
        assert await usage(admin) == before
        listed = await admin.get(f"{API}/sessions", limit=500)
        assert word_of("amy").encode() not in listed.body
        assert word_of("ben").encode() in listed.body
        assert not (await admin.json(f"{API}/search", q=word_of("amy")))["items"]
        entry = access.audit.page(1)[0]
        assert (entry.action, entry.target, entry.outcome) == ("person.remove", f"amy: {sessions} sessions", "done")
        # Again: there is nothing left to end.
        status, answer = await removed(admin, "amy")
        assert (status, answer["machines"], answer["tokens"]) == (200, 0, 0)

    async def main() -> None:
        async with served(team) as found:
            await body(found)

    asyncio.run(main())


def test_an_admin_cannot_remove_themself(tmp_path: Path) -> None:
    """The last admin would be gone; another one can do it."""

    async def main() -> None:
        async with served(Team.made(tmp_path, owners=("ben",))) as found:
            access: AccessStore = found.app.state.access
            token, _ = access.tokens.create("bens", "admin", None, "ben")
            ben = Looker(found.lookers["admin"].url, found.lookers["admin"].http, token)
            status, problem = await removed(ben, "Ben")
            assert (status, problem["detail"]) == (409, "You cannot remove yourself; another admin can.")
            assert access.users.get("ben").role == "member"

    asyncio.run(main())


def test_retention_by_directory(tmp_path: Path) -> None:
    """Texts of sessions in directories of a glob go when they are old enough; the audit log has it; sums stay."""
    team = Team.made(tmp_path)

    async def main() -> None:
        async with served(team) as found:
            context: ServerContext = found.app.state.context
            admin = found.lookers["admin"]
            assert context.storing is not None
            before = await usage(admin)
            assert await prune_once(context.storing, context.access, {"/srv/shop*": 30}) == 0
            later = time.time() + 31 * 86_400
            number = await prune_once(context.storing, context.access, {"/srv/shop*": 30}, now=later)
            assert number == 6
            entry = context.access.audit.page(1)[0]
            assert (entry.user, entry.action, entry.target) == ("server", "retention", "/srv/shop*")
            assert entry.outcome == "6 sessions older than 30 days"
            found_texts = (await admin.json(f"{API}/search", q="so", limit=200))["items"]
            assert not [hit for hit in found_texts if (hit["session"]["project"] or "").startswith("/srv/shop")]
            assert await usage(admin) == before
            # A star means sessions without a directory as well.
            assert await prune_once(context.storing, context.access, {"*": 30}, now=later) > 0
            rest = (await admin.json(f"{API}/search", q=word_of("ben"), limit=200))["items"]
            assert all(hit["annotation_id"] for hit in rest)

    asyncio.run(main())


def test_retention_ends_with_the_server(tmp_path: Path) -> None:
    """It runs at once, then daily, and stops when the server does."""
    team = Team.made(tmp_path, owners=("ben",))

    async def main() -> None:
        async with served(team) as found:
            context: ServerContext = found.app.state.context
            assert context.storing is not None
            stop = asyncio.Event()
            running = asyncio.create_task(prune_daily(context.storing, context.access, {"*": 1}, stop))
            await asyncio.sleep(0)
            stop.set()
            await asyncio.wait_for(running, 30)
            await prune_daily(context.storing, context.access, {}, asyncio.Event())

    asyncio.run(main())
