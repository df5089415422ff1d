"""Notes, scores, labels and stars through the API: who may write them, written once, in lists, live."""

# ruff: noqa: ANN401 - answers are JSON

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from .servers import Answer
from .trace_rig import API, Logs
from .views_rig import Client, ask, found_logs


@pytest.fixture
def logs(tmp_path: Path) -> Logs:
    found = found_logs(tmp_path)
    for session in ("one", "two"):
        found.append(session, "turn.begin", turn=1, prompt="hello", id="t")
    found.record(index=False)
    return found


async def change(
    client: Client, method: str, path: str, body: object = None, headers: Mapping[str, str] | None = None
) -> Answer:
    """A change, as the page makes it."""
    token = {"X-CSRF-Token": (await client.json("/me"))["csrf"]} | dict(headers or {})
    async with client.http.request(method, client.url + API + path, json=body, headers=token) as response:
        return Answer(response.status, response.headers, await response.read())


def run(logs: Logs, body: Callable[[Client], Awaitable[None]]) -> None:
    ask(logs.settings, body)


ONE = "/sessions/one/annotations"


def test_added_changed_and_removed(logs: Logs) -> None:
    """Each change is in the answer, in the list, in the audit log, and in the lists of sessions."""

    async def body(client: Client) -> None:
        note = (await change(client, "POST", ONE, {"kind": "note", "text": " look "})).json()
        assert (note["kind"], note["text"], note["source"], note["author"]) == ("note", "look", "person", "local")
        for more in ({"kind": "label", "name": "bug"}, {"kind": "star"}, {"kind": "score", "name": "q", "value": 2}):
            assert (await change(client, "POST", ONE, more)).status == 200
        listed = (await client.json(ONE))["items"]
        assert [each["kind"] for each in listed] == ["note", "label", "star", "score"]
        changed = await change(client, "PATCH", f"{ONE}/{note['id']}", {"text": "look again"})
        assert changed.json()["text"] == "look again"
        rows = {row["session_id"]: row["marks"] for row in (await client.json("/sessions"))["items"]}
        assert rows["two"] == {"starred": False, "labels": [], "scores": {}, "notes": 0, "revision": 0}
        revision = rows["one"].pop("revision")
        assert revision > 0
        assert rows["one"] == {"starred": True, "labels": ["bug"], "scores": {"q": 2.0}, "notes": 1}
        left = await change(client, "DELETE", f"{ONE}/{listed[2]['id']}")
        assert [each["kind"] for each in left.json()["items"]] == ["note", "label", "score"]
        assert (await change(client, "DELETE", f"{ONE}/{listed[2]['id']}")).status == 404
        actions = {entry["action"] for entry in (await client.json("/audit"))["items"]}
        assert {"note.add", "label.add", "star.add", "score.add", "annotation.change", "annotation.remove"} <= actions

    run(logs, body)


def test_lists_are_filtered(logs: Logs) -> None:
    async def body(client: Client) -> None:
        await change(client, "POST", ONE, {"kind": "label", "name": "bug"})
        await change(client, "POST", ONE, {"kind": "score", "name": "q", "value": 2})
        await change(client, "POST", "/sessions/two/annotations", {"kind": "star"})

        async def found(query: str) -> list[str]:
            return [row["session_id"] for row in (await client.json(f"/sessions?{query}"))["items"]]

        assert await found("label=bug") == ["one"]
        assert await found("label=bug&label=other") == []
        assert await found("score=q%3C3") == ["one"]
        assert await found("score=q%3E%3D3") == []
        assert await found("starred=true") == ["two"]
        assert await found("starred=false") == ["one"]
        assert await found("noted=true") == []
        assert (await client.json("/sessions/facets"))["labels"] == [{"value": "bug", "count": 1}]
        assert (await client.get("/sessions?score=q")).status == 400

    run(logs, body)


def test_a_program_with_a_key_writes_once(logs: Logs) -> None:
    """The author is the name of the token; a repeated request is answered like the first one."""

    async def body(client: Client) -> None:
        token, _ = client.context.access.tokens.create("ci", "admin", None)
        headers = {"Authorization": f"Bearer {token}", "Idempotency-Key": "build-1"}
        first = (await change(client, "POST", ONE, {"kind": "note", "text": "built"}, headers)).json()
        again = (await change(client, "POST", ONE, {"kind": "note", "text": "built twice"}, headers)).json()
        assert again == first
        assert (first["source"], first["author"]) == ("program", "ci")
        other = headers | {"Idempotency-Key": "build-2"}
        assert (await change(client, "POST", ONE, {"kind": "note", "text": "built"}, other)).json() != first
        viewer, _ = client.context.access.tokens.create("reader", "viewer", None)
        refused = await change(client, "POST", ONE, {"kind": "star"}, {"Authorization": f"Bearer {viewer}"})
        assert refused.status == 403
        async with client.http.post(client.url + API + ONE, json={"kind": "star"}) as response:
            assert response.status == 403

    run(logs, body)


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"kind": "note"}, 422),
        ({"kind": "note", "text": "x" * 10_001}, 422),
        ({"kind": "note", "text": "a\u0000b"}, 422),
        ({"kind": "note", "text": "a", "value": 1}, 422),
        ({"kind": "score", "name": "q", "value": 1e300}, 422),
        ({"kind": "score", "name": "q", "value": "much"}, 422),
        ({"kind": "label", "name": "x" * 65}, 422),
        ({"kind": "other"}, 422),
        ({"kind": "star", "more": 1}, 422),
        ({"kind": "star", "span_id": "zz"}, 404),
        ({"kind": "star", "span_id": "0" * 16}, 404),
        ([], 422),
    ],
)
def test_what_is_wrong_is_refused(logs: Logs, body: Any, status: int) -> None:
    async def check(client: Client) -> None:
        refused = await change(client, "POST", ONE, body)
        assert refused.status == status, refused.body
        assert (await client.json(ONE))["items"] == []
        assert (await change(client, "POST", "/sessions/none/annotations", {"kind": "star"})).status == 404
        assert (await change(client, "PATCH", f"{ONE}/{'0' * 32}", {"text": "x"})).status == 404
        assert (await change(client, "DELETE", f"{ONE}/zz")).status == 404

    run(logs, check)
