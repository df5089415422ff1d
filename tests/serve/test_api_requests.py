"""``/api/v1/sessions/{session}/requests``."""

from __future__ import annotations

import msgspec
import pytest

from agenttrace.serve.api.shapes.spans import RequestList

from .session_rig import DATA, Store, said, turn

COMPACTED = "b341ac93-9d28-4a5f-b743-edcd63b5a71f"
KIMI = "ffd361ad-fca8-46f8-982d-6f30e2f55fb4"


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    store = Store(tmp_path_factory.mktemp("store"))
    for sample in ("claude-code-2.1.325/projects", "kimi-cli-1.49.0"):
        store.record(DATA / sample)
    return store


def test_the_shape(store: Store) -> None:
    """The answer has the documented shape; what is exact says so."""
    with store.served() as client:
        answer = client.get(f"/sessions/{COMPACTED}/requests")
        found = msgspec.json.decode(answer.content, type=RequestList, strict=True)
        again = client.get(f"/sessions/{COMPACTED}/requests", headers={"If-None-Match": answer.headers["etag"]})
    assert again.status_code == 304
    assert [item.known_from for item in found.items] == ["request", "request", "request", "usage"]
    assert found.items[2].changes[0].dropped_messages == 3
    assert found.compactions == 1
    assert {tool.came for tool in found.tools} == {1}


def test_pages(store: Store) -> None:
    """Pages together are the whole; figures are those of all calls on every page."""
    with store.served() as client:
        whole = client.get(f"/sessions/{KIMI}/requests").json()
        items: list[object] = []
        cursor: str | None = ""
        while cursor is not None:
            asked = {"limit": 5} | ({"cursor": cursor} if cursor else {})
            page = client.get(f"/sessions/{KIMI}/requests", params=asked).json()
            assert (page["calls"], page["cache_breaks"]) == (14, 1)
            items += page["items"]
            cursor = page["next"]
    assert items == whole["items"]
    assert whole["next"] is None


def test_new_calls_are_seen(store: Store) -> None:
    """What is recorded later is in the next answer, though answers are cached."""
    store.write(turn(1, "Go."), said(1, 1, "one"))
    store.record()
    with store.served() as client:
        before = client.get("/sessions/s-1/requests").json()["calls"]
        store.write(turn(2, "Go on."), said(2, 1, "two"))
        store.record()
        assert client.get("/sessions/s-1/requests").json()["calls"] > before


def test_no_such_session(store: Store) -> None:
    """404, and 400 for a cursor of another list."""
    with store.served() as client:
        assert client.get("/sessions/zzz/requests").status_code == 404
        assert client.get(f"/sessions/{KIMI}/requests", params={"cursor": "x"}).status_code == 400
