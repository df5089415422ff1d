"""``/api/v1/compare``: two sessions side by side."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path
from typing import Any

import pytest

from .session_rig import CLAUDE, DATA, Store, call, result, turn

TOKENS = ("input_tokens", "cache_read_tokens", "cache_write_tokens", "output_tokens", "reasoning_tokens")


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    store = Store(tmp_path_factory.mktemp("store"))
    for sample in ("claude-code-2.1.197", "kimi-code-2.1.0", "codex-0.166.0", "claude-code-2.1.325/projects"):
        store.record(DATA / sample)
    return store


def check_side(found: dict[str, Any], side: str, row: dict[str, Any]) -> None:
    """One side of a comparison is the session of the list, and its parts add up to it."""
    session = found[side]
    for name in ("key", "session_id", "agent", "title", "project", "turns", "steps", "tools", "errors", "state"):
        assert session[name] == row[name], name
    assert {name: session["spent"][name] for name in TOKENS} == {name: row["bill"][name] for name in TOKENS}
    assert session["spent"]["costs"] == row["bill"]["costs"]
    assert sum(tool[side]["calls"] for tool in found["tools"]) == row["tools"]
    assert sum(tool[side]["failed"] for tool in found["tools"]) <= row["errors"]
    for name in TOKENS:
        assert sum(model[side][name] for model in found["models"]) == row["bill"][name]
    turns = [each[side] for each in found["turns"] if each[side] is not None]
    assert len(turns) == row["turns"]
    assert sum(each["tools"] for each in turns) <= row["tools"]
    total = sum(row["bill"][name] for name in TOKENS if name != "reasoning_tokens")
    assert sum(each["tokens"] for each in turns) <= total
    assert sum(file[side] is not None for file in found["files"]) == session["files"]


def test_sides_are_the_sessions_and_their_parts_add_up(store: Store) -> None:
    """Each side has the figures of its session; the other way round, the same sides are exchanged."""
    with store.served() as client:
        rows = client.get("/sessions", params={"limit": 500}).json()["items"]
        assert len(rows) > 8
        for one, other in list(combinations(rows, 2))[::7]:
            found = client.get("/compare", params={"a": one["key"], "b": other["key"]}).json()
            check_side(found, "a", one)
            check_side(found, "b", other)
            turned = client.get("/compare", params={"a": other["session_id"], "b": one["key"]}).json()
            assert (turned["a"], turned["b"]) == (found["b"], found["a"])
            names = {"turns": "number", "tools": "name", "files": "path", "models": "model"}
            for part, name in names.items():
                mirrored = {each[name]: (each["b"], each["a"]) for each in turned[part]}
                assert mirrored == {each[name]: (each["a"], each["b"]) for each in found[part]}
        same = client.get("/compare", params={"a": CLAUDE, "b": CLAUDE}).json()
        assert same["a"] == same["b"]
        assert all(each["a"] == each["b"] for part in ("turns", "tools", "files", "models") for each in same[part])


def test_files_and_failures(tmp_path: Path) -> None:
    """What only one session did is there with what the other did not; failures are counted by tool."""
    store = Store(tmp_path)
    store.record(DATA / "claude-code-2.1.325" / "projects")
    store.write(turn(1, "ask"), call(1, 1, "Bash", "ls"), result(1, 1, "files"))
    store.record()
    with store.served() as client:
        found = client.get("/compare", params={"a": "feedbd99", "b": "s-1"}).json()
        assert found["files"] == [{"path": "app.py", "a": {"changes": 1, "added": 1, "removed": 1}, "b": None}]
        tools = {tool["name"]: (tool["a"]["calls"], tool["b"]["calls"]) for tool in found["tools"]}
        assert tools["Bash"][1] == 1
        assert found["turns"][0]["b"]["start_ms"] >= 0
        store.write(call(1, 2, "Bash", "rm"), result(1, 2, "no such file", status="error"))
        store.record()
        later = client.get("/compare", params={"a": "feedbd99", "b": "s-1"}).json()
        bash = next(tool["b"] for tool in later["tools"] if tool["name"] == "Bash")
        assert (bash["calls"], bash["failed"]) == (2, 1)
        assert later["a"] == found["a"]


def test_errors(store: Store) -> None:
    """A session that is not there is a 404, a missing name a 422."""
    with store.served() as client:
        assert client.get("/compare", params={"a": CLAUDE, "b": "nothing"}).status_code == 404
        assert client.get("/compare", params={"a": "nothing", "b": CLAUDE}).status_code == 404
        assert client.get("/compare", params={"a": CLAUDE}).status_code == 422
        assert client.get("/compare", params={"a": CLAUDE, "b": ""}).status_code == 422
