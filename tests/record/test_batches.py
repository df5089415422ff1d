"""Where batches end changes nothing, and a second reading adds nothing: what damaged lines have shown."""

from __future__ import annotations

import json
import os
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from otlp_rig import chat, line

from agenttrace.store.sqlite.database import connect
from faults.rig import Rig, check_sum
from faults.store_rig import differences, record_once, rows

Line = dict[str, Any]
Files = dict[str, list[Line | bytes]]

CLAUDE = "391d60d7-dca3-490d-9054-c5aeb6c3f125"
THREAD = "01a1de77-9240-7233-b378-7a1872f63de7"


def write(logs: Path, files: Files) -> None:
    """Files in the order in which they are read."""
    for age, (name, lines) in enumerate(files.items()):
        path = logs / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"".join(_encoded(each) + b"\n" for each in lines))
        os.utime(path, (1.7e9 + age, 1.7e9 + age))


def _encoded(each: Line | bytes) -> bytes:
    return each if isinstance(each, bytes) else json.dumps(each).encode()


def native(kind: str, **more: object) -> Line:
    return {"v": 1, "session": "s", "type": kind, **more}


def claude(uuid: str, name: str, output: int) -> Line:
    message = {"id": name, "role": "assistant", "model": "claude-x", "content": [{"type": "text", "text": "so"}]}
    head = {"parentUuid": None, "isSidechain": False, "type": "assistant", "uuid": uuid, "sessionId": CLAUDE}
    usage = {"input_tokens": 3, "output_tokens": output}
    return {**head, "timestamp": "2026-04-17T04:33:02.000Z", "message": {**message, "usage": usage}}


#: A session in two files of which each names its agent; what ended is not held in memory.
NAMED: Files = {
    f"{name}.jsonl": [
        native("session.begin", id=f"{name}-b", ts=1000 + place, agent=name),
        *(native("turn.begin", id=f"{name}-{turn}", turn=f"{name}{turn}", ts=1001 + place) for turn in range(3)),
        native("session.end", id=f"{name}-e", ts=1002 + place),
    ]
    for place, name in enumerate(("alpha", "beta"))
}
#: The second line contradicts the first, which has the same id; the response it names is told of afterwards.
CONTRADICTED: Files = {
    f"{CLAUDE}.jsonl": [claude("u1", "msg_A", 5), claude("u1", "msg_B", 120), claude("u2", "msg_B", 85)],
}
#: A model call with two responses, in two sessions of which the later one ends first.
TWO_RESPONSES: Files = {
    f"{session}.jsonl": [
        {"v": 1, "session": session, "type": "step.begin", "turn": 1, "step": 1, "id": "a", "ts": 1000.0},
        *(
            {"v": 1, "session": session, "type": "usage", "turn": 1, "step": 1, "id": response, "ts": 1001.0}
            | {"response": response, "usage": {"output_tokens": 7}}
            for response in ("r1", "r2")
        ),
        {"v": 1, "session": session, "type": "message", "id": "z", "ts": end},
    ]
    for session, end in (("one", 1005.0), ("two", 1003.0), ("three", 1004.0))
}
#: A program that numbers its spans from 1 in every trace, of one session.
NUMBERED: Files = {
    "spans-2026-11-15.1.jsonl": [
        line(1, trace=1, attributes={"session.id": "x"}),
        chat(2, trace=1, parent=1, attributes={"session.id": "x"}),
        line(1, trace=2, start=5, attributes={"session.id": "x"}),
        chat(2, trace=2, parent=1, start=5, attributes={"session.id": "x"}),
    ]
}
#: Two logs of one session; the one that was begun first has no time in its first lines, and is read last.
UNTIMED: Files = {
    f"{place}/{CLAUDE}.jsonl": [
        *({"type": "summary", "summary": f"{place} {number}", "leafUuid": "x"} for number in range(4 - place)),
        claude(f"u{place}", f"msg_{place}", 5) | {"timestamp": f"2026-04-17T04:3{3 - place}:00.000Z"},
        claude(f"v{place}", f"msg_v{place}", 5) | {"timestamp": f"2026-04-17T04:3{4 - place}:00.000Z"},
    ]
    for place in range(2)
}


@pytest.mark.parametrize(
    "files",
    [NAMED, CONTRADICTED, TWO_RESPONSES, NUMBERED, UNTIMED],
    ids=["named", "contradicted", "responses", "numbered", "untimed"],
)
@pytest.mark.parametrize("batch", [1, 2, 3])
def test_batches_end_anywhere(files: Files, batch: int, tmp_path: Path) -> None:
    """The rows are those of one batch."""
    write(tmp_path / "logs", files)
    record_once(tmp_path / "whole", tmp_path / "logs", batch_lines=10_000)
    record_once(tmp_path / "parts", tmp_path / "logs", batch_lines=batch)
    assert differences(rows(tmp_path / "parts"), rows(tmp_path / "whole")) == {}


def test_every_response_has_a_separate_span(tmp_path: Path) -> None:
    """So the spans of a session tell what its usage is made of."""
    write(tmp_path / "logs", TWO_RESPONSES)
    record_once(tmp_path / "home", tmp_path / "logs")
    with closing(connect(tmp_path / "home" / "agenttrace.db", read_only=True)) as connection:
        query = "SELECT count(DISTINCT response) FROM spans GROUP BY session_id"
        assert connection.execute(query).fetchall() == [(2,)] * 3


def test_a_line_that_is_inside_a_torn_one_too(tmp_path: Path) -> None:
    """A second reading of the file finds nothing new."""
    said: Line = {"timestamp": "2026-11-15T09:00:05.000Z", "type": "event_msg"}
    said["payload"] = {"type": "agent_message", "message": "the same"}
    meta: Line = {
        "timestamp": "2026-11-15T09:00:00.000Z",
        "type": "session_meta",
        "payload": {"id": THREAD, "cwd": "/w"},
    }
    torn = b'{"timestamp": "2026-11-15T09' + _encoded(said)
    other = said | {"timestamp": "2026-11-15T09:00:09.000Z"}
    write(tmp_path / "logs", {f"rollout-{THREAD}.jsonl": [meta, other, torn, said]})
    first = record_once(tmp_path / "home", tmp_path / "logs")
    assert first.quarantined == 1
    with closing(connect(tmp_path / "home" / "agenttrace.db")) as connection:
        connection.execute("DELETE FROM file_offsets")
    assert record_once(tmp_path / "home", tmp_path / "logs").recorded == 0


def test_a_last_line_nested_too_deep_waits_for_its_end(tmp_path: Path) -> None:
    """Whether it is whole is not known; recording goes on."""
    rig = Rig(tmp_path)
    deep = b'{"v":1,"session":"s","type":"note","text":' + b"[" * 5_000 + b"]" * 5_000 + b"}"
    write(rig.logs, {"a.jsonl": [native("note", id="1")], "b.jsonl": [native("note", id="2")]})
    with (rig.logs / "a.jsonl").open("ab") as file:
        file.write(deep)
    os.utime(rig.logs / "a.jsonl", (1.7e9, 1.7e9))
    summary = rig.once()
    check_sum(summary)
    assert (summary.recorded, summary.pending) == (2, 1)
