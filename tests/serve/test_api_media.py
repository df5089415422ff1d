"""Pictures of messages and results over real HTTP: shown with the type of their bytes, or said in words."""

# ruff: noqa: ANN401 - answers are JSON

from __future__ import annotations

import base64
from collections.abc import Iterator
from typing import Any

import httpx
import msgspec
import pytest

from .session_rig import Store

PNG = b"\x89PNG\r\n\x1a\n" + bytes(100)
SVG = b"<svg xmlns='http://www.w3.org/2000/svg'><script>alert(1)</script></svg>"
SESSION = "6f6f1f8e-1111-4222-8333-444455556666"


def block(data: str, media_type: str = "image/png") -> dict[str, Any]:
    return {"type": "image", "source": {"type": "base64", "media_type": media_type, "data": data}}


def encoded(data: bytes) -> str:
    return base64.b64encode(data).decode()


def line(number: int, kind: str, content: Any, **more: Any) -> bytes:
    message: dict[str, Any] = {"role": kind, "content": content}
    if kind == "assistant":
        message |= {
            "id": f"msg_{number}",
            "model": "claude-sonnet-4-5",
            "usage": {"input_tokens": 1, "output_tokens": 1},
        }
    facts = {"sessionId": SESSION, "isSidechain": False, "cwd": "/w", "version": "2.1.197", "parentUuid": None}
    entry = {"type": kind, "message": message, "uuid": f"u{number}", "timestamp": f"2026-11-15T09:00:{number:02}.000Z"}
    return msgspec.json.encode({**entry, **facts, **more}) + b"\n"


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    store = Store(tmp_path_factory.mktemp("media"))
    prompt = [
        {"type": "text", "text": "what is this?"},
        block(encoded(PNG)),
        block(encoded(SVG), "image/svg+xml"),
        block(encoded(SVG + b" ")),
        block("*** no base64 ***"),
        block(encoded(PNG[:90]) + "!!!!" + encoded(PNG[90:])),
        block(encoded(PNG + bytes(21 << 20))),
        {"type": "image", "source": {"type": "url", "url": "https://example.org/secret.png"}},
    ]
    use = {"type": "tool_use", "id": "toolu_1", "name": "Read", "input": {"file_path": "/w/a.png"}}
    answer = {"type": "tool_result", "tool_use_id": "toolu_1", "content": [block(encoded(PNG + b"2"))]}
    file = {"type": "image", "file": {"base64": encoded(PNG + b"2"), "type": "image/png"}}
    (store.logs / f"{SESSION}.jsonl").write_bytes(
        line(1, "user", prompt)
        + line(2, "assistant", [use])
        + line(3, "user", [answer], toolUseResult=file)
        + line(4, "assistant", [{"type": "text", "text": "a cat"}])
    )
    store.record()
    with store.served() as client:
        yield client


def pieces(client: httpx.Client, kind: str) -> list[dict[str, Any]]:
    timeline = client.get(f"/sessions/{SESSION}/timeline").json()
    span = timeline["span_id"][timeline["kind"].index(kind)]
    texts = client.get(f"/sessions/{SESSION}/texts", params={"span": span}).json()["spans"][span]
    detail = client.get(f"/sessions/{SESSION}/spans/{span}").json()["texts"]
    assert [each["media"] for each in texts] == [each["media"] for each in detail]
    return [each for each in texts if each["kind"] == "media"]


def test_pictures_of_a_prompt(client: httpx.Client) -> None:
    """Each picture has a place among the texts; those that cannot be shown say why."""
    found = pieces(client, "turn")
    assert [each["media"]["problem"] for each in found] == [
        None,
        "unsafe",
        "unsafe",
        "damaged",
        None,
        "too_large",
        "elsewhere",
    ]
    assert found[0]["text"] == "picture, PNG, 108 bytes"
    assert found[-1]["media"]["place"] == "https://example.org/secret.png"
    assert all((each["media"]["url"] is None) == (each["media"]["problem"] is not None) for each in found)


def test_picture_of_a_result(client: httpx.Client) -> None:
    """The picture of a result belongs to its tool call, once."""
    (found,) = pieces(client, "tool")
    answer = client.get(found["media"]["url"].removeprefix("/api/v1"))
    assert answer.content == PNG + b"2"


def test_served_strictly(client: httpx.Client) -> None:
    """A picture has the type of its bytes, and nothing in it may run."""
    answer = client.get(pieces(client, "turn")[0]["media"]["url"].removeprefix("/api/v1"))
    assert answer.status_code == 200
    assert answer.content == PNG
    assert answer.headers["content-type"] == "image/png"
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["content-security-policy"] == "default-src 'none'; sandbox"
    assert answer.headers["cross-origin-resource-policy"] == "same-origin"
    assert answer.headers["cache-control"] == "private, no-store"


@pytest.mark.parametrize(("number", "status"), [(1, 415), (2, 415), (3, 415), (4, 415), (5, 413), (6, 404), (7, 404)])
def test_refused(client: httpx.Client, number: int, status: int) -> None:
    """Programs, garbage, what is too large and what is not there are refused with a reason."""
    url = pieces(client, "turn")[0]["media"]["url"].removeprefix("/api/v1").removesuffix("/0")
    answer = client.get(f"{url}/{number}")
    assert answer.status_code == status
    assert answer.headers["content-type"] == "application/problem+json"


def test_not_for_visitors(client: httpx.Client) -> None:
    """Without a login there is no picture."""
    url = pieces(client, "turn")[0]["media"]["url"].removeprefix("/api/v1")
    with httpx.Client(base_url=client.base_url) as stranger:
        assert stranger.get(url).status_code == 401
