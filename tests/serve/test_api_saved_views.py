"""``/api/v1/views``: saved views of each user, shared with all where their owner wants it."""

from __future__ import annotations

from pathlib import Path

import pytest

from agenttrace.serve.access.saved_views import MOST
from agenttrace.serve.api.shapes.settings import Role

from .servers import Answer
from .trace_rig import Logs
from .views_rig import Client, ask, found_logs

VIEW = {"page": "sessions", "name": "Failed", "search": "errors=true&state=ended"}


@pytest.fixture
def logs(tmp_path: Path) -> Logs:
    return found_logs(tmp_path)


class Visitor:
    """A user of the API, by a token."""

    def __init__(self, client: Client, name: str, role: Role) -> None:
        self._client = client
        self._headers = {"Authorization": f"Bearer {client.context.access.tokens.create(name, role, None)[0]}"}

    async def send(self, method: str, path: str, body: object = None) -> Answer:
        return await self._client.send(method, path, body, self._headers)

    async def names(self) -> list[str]:
        return [each["name"] for each in (await self.send("GET", "/views")).json()["items"]]


def test_views_are_of_their_owner(logs: Logs) -> None:
    """Viewers save views, too; others see and use them once they are shared, and cannot change them."""

    async def body(client: Client) -> None:
        anna, ben = Visitor(client, "anna", "viewer"), Visitor(client, "ben", "viewer")
        admin = Visitor(client, "root", "admin")
        saved = (await anna.send("POST", "/views", VIEW)).json()
        assert saved == {**VIEW, "id": saved["id"], "shared": False, "owner": "token:anna", "mine": True}
        place = f"/views/{saved['id']}"
        assert await ben.names() == await admin.names() == []
        for other in (ben, admin):
            assert (await other.send("PATCH", place, {"name": "Mine"})).status == 404
            assert (await other.send("DELETE", place)).status == 404
        assert (await anna.send("PATCH", place, {"shared": True, "name": " All  failed "})).json()[
            "name"
        ] == "All failed"
        assert await ben.names() == ["All failed"]
        assert (await ben.send("GET", "/views")).json()["items"][0]["mine"] is False
        refused = await ben.send("PATCH", place, {"search": ""})
        assert (refused.status, "belongs to token:anna" in refused.json()["detail"]) == (403, True)
        assert (await ben.send("DELETE", place)).status == 403
        assert (await admin.send("DELETE", place)).status == 200
        assert await anna.names() == []
        assert (await anna.send("DELETE", place)).status == 404
        actions = [each["action"] for each in (await client.json("/audit"))["items"]]
        assert [each for each in actions if each.startswith("view.")] == ["view.remove", "view.change", "view.save"]

    ask(logs.settings, body)


def test_a_name_is_one_view(logs: Logs) -> None:
    """A second view of a name replaces the first, and so does one that is renamed to it; on each page by itself."""

    async def body(client: Client) -> None:
        first = (await client.post("/views", VIEW)).json()
        again = (await client.post("/views", VIEW | {"search": "state=ended"})).json()
        assert (again["id"], again["search"]) == (first["id"], "state=ended")
        await client.post("/views", VIEW | {"page": "usage", "search": "by=model"})
        other = (await client.post("/views", VIEW | {"name": "Other"})).json()
        await client.send("PATCH", f"/views/{other['id']}", {"name": "Failed"})
        found = [(each["page"], each["name"], each["search"]) for each in (await client.json("/views"))["items"]]
        assert found == [("sessions", "Failed", VIEW["search"]), ("usage", "Failed", "by=model")]

    ask(logs.settings, body)


HOSTILE: list[tuple[dict[str, object], int]] = [
    ({"name": ""}, 422),
    ({"name": "  "}, 422),
    ({"name": "x" * 61}, 422),
    ({"name": "a\u0000b"}, 422),
    ({"name": None}, 422),
    ({"page": "settings"}, 422),
    ({"search": "a=1#b"}, 422),
    ({"search": "a b"}, 422),
    ({"search": "x" * 2_001}, 422),
    ({"search": "x" * 100_000}, 422),
    ({"search": "a\nb"}, 422),
    ({"owner": "root"}, 422),
    ({"shared": "perhaps"}, 422),
    ({"name": "<script>alert(1)</script>"}, 200),
    ({"name": "../../etc"}, 200),
    ({"name": "轮转 🎉"}, 200),
    ({"search": "q=%00%2f&project=%2Fhome%2Fdev"}, 200),
]


def test_hostile_views(logs: Logs) -> None:
    """What cannot be a view is refused with a reason; names are any text, and stay what they are."""

    async def body(client: Client) -> None:
        for changes, status in HOSTILE:
            answer = await client.post("/views", VIEW | changes)
            assert answer.status == status, changes
            if status == 200:
                assert all(answer.json()[name] == value for name, value in changes.items())
        for place in ("/views/0", "/views/%00", "/views/" + "x" * 65):
            assert (await client.send("DELETE", place)).status in (404, 422)
        async with client.http.post(client.url + "/api/v1/views", json=VIEW) as response:
            assert response.status == 403

    ask(logs.settings, body)


def test_no_user_fills_the_store(logs: Logs) -> None:
    """So many views and no more; those that are there can still be changed."""

    async def body(client: Client) -> None:
        token = {"X-CSRF-Token": (await client.json("/me"))["csrf"]}
        views = client.context.access.views
        for number in range(MOST):
            views.put("local", "usage", f"view {number}", "", False)
        assert (await client.post("/views", VIEW, token)).status == 409
        assert (await client.post("/views", VIEW | {"page": "usage", "name": "view 7"}, token)).status == 200

    ask(logs.settings, body)


def test_views_go_with_their_user(logs: Logs) -> None:
    """A new user of the same name begins without them."""

    async def body(client: Client) -> None:
        access = client.context.access
        access.users.add("anna", "viewer", "hash")
        access.views.put("anna", "sessions", "mine", "", True)
        access.users.remove("anna")
        assert (await client.json("/views"))["items"] == []

    ask(logs.settings, body)


def test_words_of_a_session(logs: Logs) -> None:
    """The palette finds sessions by words of title, prompt and project, in any order."""

    async def body(client: Client) -> None:
        async def found(words: str) -> list[str]:
            return [each["session_id"] for each in (await client.json(f"/sessions?words={words}"))["items"]]

        assert await found("SHOP%20flaky") == ["one"]
        assert await found("checkout") == ["one"]
        assert await found("flaky%20nowhere") == []
        assert await found("%20") == ["one", "two"]

    logs.append("two", "turn.begin", prompt="hello", ts=1.0)
    logs.append("one", "session.begin", project="/home/shop", title="Flaky test", ts=2.0)
    logs.append("one", "turn.begin", prompt="see checkout.py", ts=2.0)
    logs.record()
    ask(logs.settings, body)
