"""The edits of a session over real HTTP and as a patch that git applies; and its raw lines, by pages."""

# ruff: noqa: ANN401 - answers are JSON

from __future__ import annotations

import difflib
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agenttrace.record.formats.diffs import Hunk, Made, change_of, envelope_changes, hunks_of, text_change, written
from agenttrace.record.outcomes import Fact
from agenttrace.views.changes import changes_of, patch_of

from .session_rig import Store

SESSION = "6f6f1f8e-1111-4222-8333-444455556677"


class Named(msgspec.Struct):
    """As much of a session as the view needs."""

    session_id: str = "s"
    agent: str = "claude-code"
    project: str | None = "/w"


def hunk(before: list[str], after: list[str]) -> list[dict[str, Any]]:
    """The hunks of an edit as Claude Code writes them."""
    diff = "\n".join(difflib.unified_diff(before, after, lineterm=""))
    return [{"oldStart": each.old, "newStart": each.new, "lines": each.lines} for each in hunks_of(diff)]


def edit(number: int, path: str, **result: Any) -> list[dict[str, Any]]:
    """A call of a tool that edits, and its result."""
    facts = {"sessionId": SESSION, "isSidechain": False, "cwd": "/w", "version": "2.1.197", "parentUuid": None}
    use = {"type": "tool_use", "id": f"toolu_{number}", "name": "Edit", "input": {"file_path": path}}
    asked = {"id": f"msg_{number}", "role": "assistant", "model": "claude-sonnet-4-5", "content": [use]}
    answer = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": f"toolu_{number}", "content": "done"}]}
    return [
        {"type": "assistant", "message": asked, "uuid": f"a{number}", "timestamp": "2026-11-15T09:00:01Z", **facts},
        {
            "type": "user",
            "message": answer,
            "uuid": f"r{number}",
            "timestamp": "2026-11-15T09:00:02Z",
            "toolUseResult": {"filePath": path, **result},
            **facts,
        },
    ]


PROMPT = {
    "type": "user",
    "message": {"role": "user", "content": "go"},
    "uuid": "p1",
    "timestamp": "2026-11-15T09:00:00Z",
    "sessionId": SESSION,
    "isSidechain": False,
    "cwd": "/w",
    "version": "2.1.197",
    "parentUuid": None,
}
BEFORE = [f"line {number}" for number in range(40)]
AFTER = [*BEFORE[:5], "new", *BEFORE[5:30], *BEFORE[32:]]


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    store = Store(tmp_path_factory.mktemp("changes"))
    lines = [
        PROMPT,
        *edit(1, "/w/a.txt", structuredPatch=hunk(BEFORE, AFTER)),
        *edit(2, "/w/new file.txt", type="create", content="one\ntwo", structuredPatch=[]),
        *edit(3, "/w/a.txt", structuredPatch=hunk(AFTER, [*AFTER, "end"])),
        *edit(4, "/w/long.txt", type="create", content="x" * 900_000, structuredPatch=[]),
    ]
    (store.logs / f"{SESSION}.jsonl").write_bytes(b"".join(msgspec.json.encode(line) + b"\n" for line in lines))
    store.record()
    with store.served() as client:
        yield client


def test_files_in_order_of_their_edits(client: httpx.Client) -> None:
    """Every file with its lines; each edit with its span, and a diff unless it is too long."""
    found = client.get(f"/sessions/{SESSION}/changes").json()
    assert [(each["path"], each["added"], each["removed"]) for each in found["files"]] == [
        ("a.txt", 2, 2),
        ("new file.txt", 2, 0),
        ("long.txt", 1, 0),
    ]
    assert found["edits"] == 4
    first, last = found["files"][0]["edits"]
    assert (first["number"], last["number"]) == (1, 3)
    assert first["numbered"]
    assert first["diff"].startswith("@@ -3,6 +3,7 @@")
    assert found["files"][1]["edits"][0]["created"]
    assert found["files"][2]["edits"][0] | {"cut": True, "diff": ""} == found["files"][2]["edits"][0]
    spans = client.get(f"/sessions/{SESSION}/timeline").json()["span_id"]
    assert {edit["span_id"] for file in found["files"] for edit in file["edits"]} <= set(spans)
    outcomes = client.get(f"/sessions/{SESSION}/outcomes").json()
    assert (outcomes["added"], outcomes["removed"]) == (found["added"], found["removed"])


def test_one_file(client: httpx.Client) -> None:
    """A file can be asked for alone; one that was not changed is no error."""
    found = client.get(f"/sessions/{SESSION}/changes", params={"path": "a.txt"}).json()
    assert [each["path"] for each in found["files"]] == ["a.txt"]
    assert client.get(f"/sessions/{SESSION}/changes", params={"path": "b"}).json()["files"] == []
    assert client.get("/sessions/none/changes").status_code == 404


def test_patch(client: httpx.Client, tmp_path: Path) -> None:
    """The patch of the session makes of the files before those after."""
    answer = client.get(f"/sessions/{SESSION}/changes.patch")
    assert answer.headers["content-type"].startswith("text/plain")
    assert "# long.txt: the diff is too long" in answer.text
    (tmp_path / "a.txt").write_text("".join(f"{line}\n" for line in BEFORE))
    subprocess.run(["git", "apply", "-"], cwd=tmp_path, input=answer.content, check=True)
    assert (tmp_path / "a.txt").read_text() == "".join(f"{line}\n" for line in [*AFTER, "end"])
    assert (tmp_path / "new file.txt").read_text() == "one\ntwo"
    alone = client.get(f"/sessions/{SESSION}/changes.patch", params={"path": "new file.txt"}).text
    assert "a.txt" not in alone


_versions = st.lists(
    st.lists(st.sampled_from(["a", "b", "c", "", "+", "-x", "@@ -1 +1 @@"]), max_size=12), min_size=2, max_size=4
)


@settings(max_examples=12, suppress_health_check=[HealthCheck.too_slow])
@given(versions=_versions)
def test_any_edits_apply(versions: list[list[str]], tmp_path_factory: pytest.TempPathFactory) -> None:
    """Whatever a file was made to, one edit after the other: the patch does the same."""
    made = ["".join(f"{line}\n" for line in version) for version in versions]
    changes = list(text_change("/w/f", "", made[0], "0", Made(created=True))) if made[0] else []
    for before, after in zip(versions if made[0] else versions[:0], versions[1:], strict=False):
        hunks = [Hunk(each["oldStart"], each["newStart"], each["lines"]) for each in hunk(before, after)]
        changes += change_of("/w/f", hunks, "1") if before and after else []
        if not (before and after):
            made = made[: len(changes)]
            break
    facts = [Fact(what=change, known_from="tool call", at=None, span_id=None) for change in changes if change.diff]
    patch = "".join(patch_of(changes_of(Named(), facts)))  # type: ignore[arg-type]
    directory = tmp_path_factory.mktemp("applied")
    if patch:
        subprocess.run(["git", "apply", "-"], cwd=directory, input=patch.encode(), check=True)
        assert (directory / "f").read_text() == made[len(changes) - 1]


def test_edits_of_a_patch_as_a_patch() -> None:
    """What apply_patch adds and changes is a patch again, and says what is not known: places, and what was deleted."""
    patch = (
        "*** Begin Patch\n*** Add File: new.txt\n+one\n+two\n*** Update File: a.py\n"
        "@@ def f():\n x = 1\n-y = 2\n+y = 3\n*** Delete File: old.py\n*** End Patch"
    )
    changes = [*envelope_changes(patch), *written("w.txt", "whole\n", "c")]
    facts = [Fact(what=change, known_from="tool call", at=None, span_id=None) for change in changes]
    found = changes_of(Named(), facts)  # type: ignore[arg-type]
    assert [(file.path, file.added, file.removed) for file in found.files] == [
        ("new.txt", 2, 0),
        ("a.py", 1, 1),
        ("old.py", 0, 0),
        ("w.txt", 1, None),
    ]
    assert "".join(patch_of(found)) == (
        "diff --git a/new.txt b/new.txt\nnew file mode 100644\n"
        "--- /dev/null\n+++ b/new.txt\n@@ -0,0 +1,2 @@\n+one\n+two\n"
        "# the line numbers are not those of the file: the log does not have them\n"
        "diff --git a/a.py b/a.py\n--- a/a.py\n+++ b/a.py\n@@ -1,2 +1,2 @@\n x = 1\n-y = 2\n+y = 3\n"
        "# old.py: deleted; the log has no diff\n"
        "# written as a whole: what the file was before is not in the log\n"
        "diff --git a/w.txt b/w.txt\nnew file mode 100644\n--- /dev/null\n+++ b/w.txt\n@@ -0,0 +1,1 @@\n+whole\n"
    )


def test_lines_by_pages(client: httpx.Client) -> None:
    """All lines, numbered from 1, in pages; a page can begin at any number."""
    first = client.get(f"/sessions/{SESSION}/lines", params={"limit": 4, "chars": 50}).json()
    assert first["total"] == 9
    assert [each["number"] for each in first["items"]] == [1, 2, 3, 4]
    assert first["items"][0]["cut"]
    assert len(first["items"][0]["raw"]) == 50
    rest = client.get(f"/sessions/{SESSION}/lines", params={"cursor": first["next"], "limit": 100}).json()
    assert [each["number"] for each in rest["items"]] == [5, 6, 7, 8, 9]
    assert rest["next"] is None
    one = client.get(f"/sessions/{SESSION}/lines", params={"start": 7, "limit": 1}).json()["items"][0]
    assert one == {**rest["items"][2]}
    whole = client.get(f"/events/{one['event_no']}").json()
    assert whole["raw"].startswith(one["raw"])
    assert client.get(f"/sessions/{SESSION}/lines", params={"start": 10}).json()["items"] == []
    assert client.get(f"/sessions/{SESSION}/lines", params={"cursor": "x"}).status_code == 400
