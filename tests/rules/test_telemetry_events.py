"""Events that telemetry tells of first and the agent's own log later: each fires once, and none is lost."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from agenttrace.record.recorder import Recorder
from rules.rig import Rig
from rules.test_events import DATA, KINDS, tables
from telemetry_rig import NOW, SECOND, claude, codex, event, lines

LOGS = {
    "claude-code": DATA / "claude-code-2.1.325" / "projects",
    "codex": DATA / "codex-0.166.0" / "sessions",
    "gemini-cli": DATA / "gemini-cli-0.61.0",
}
_SPANS = """
SELECT sessions.agent, sessions.session_id, spans.kind, spans.name, spans.status, spans.attributes, spans.start,
    coalesce(spans."end", spans.start) FROM spans JOIN sessions ON sessions.id = spans.session_id
WHERE stream = 'main' AND sessions.agent = ? ORDER BY spans.start, spans.span_no
"""


def spans_of(root: Path, agent: str) -> list[tuple[Any, ...]]:
    """What an undisturbed import of the logs has."""
    made = Rig(root, tables("all", **KINDS))
    recorder = Recorder(made.settings, paths=[str(LOGS[agent])])
    recorder.run_once()
    found = made.store.connection.execute(_SPANS, (agent,)).fetchall()
    recorder.close()
    made.close()
    return found


def telemetry(spans: list[tuple[Any, ...]]) -> list[bytes]:
    """The same as an agent tells it over OTLP: prompts, model calls, tools."""
    found = []
    for agent, session, kind, name, status, attributes, start, end in spans:
        at = (end * 1000 - NOW) / SECOND
        known = json.loads(attributes or "{}")
        if kind == "turn":
            found.append(
                (start, agent, "user_prompt", (start * 1000 - NOW) / SECOND, session, {"prompt.id": f"p{start}"})
            )
        elif kind == "step":
            found.append((end, agent, "response", at, session, {"model": "m", "request_id": f"r{start}"}))
        elif kind == "tool":
            facts = {"tool_name": name.removeprefix("execute_tool "), "success": str(status != "error").lower()}
            names = {"claude-code": "tool_use_id", "codex": "call_id"}
            if agent in names:
                facts[names[agent]] = known["call"]
            found.append((end, agent, "tool", at, session, facts))
    return [line for _, *each in sorted(found, key=lambda each: each[0]) for line in _told(*each)]


def _told(agent: str, what: str, at: float, session: str, facts: dict[str, Any]) -> list[bytes]:
    facts = {name.replace(".", "__"): value for name, value in facts.items()}
    if agent == "claude-code":
        names = {"response": "api_request", "tool": "tool_result"}
        return lines(claude(names.get(what, what), at, session, **facts, input_tokens=1, output_tokens=1))
    if agent == "codex":
        facts |= {"event__kind": "response.completed", "input_token_count": 1} if what == "response" else {}
        facts.pop("model", None)
        names = {"response": "sse_event", "tool": "tool_result"}
        return lines(codex(names.get(what, what), at, session, **facts), service="codex_cli_rs")
    names = {"response": "api_response", "tool": "tool_call"}
    if what == "tool":
        facts["function_name"] = facts.pop("tool_name")
    own = {"session__id": session, "event__name": f"gemini_cli.{names.get(what, what)}"}
    return lines(event("", at, **own, **facts, input_token_count=1), service="gemini-cli")


def put_telemetry(made: Rig, told: list[bytes]) -> None:
    (made.logs / "otlp").mkdir(exist_ok=True)
    with (made.logs / "otlp" / "spans-2026-11-15.1.jsonl").open("ab") as file:
        file.writelines(told)
    made.record()


def put_logs(made: Rig, agent: str) -> None:
    shutil.copytree(LOGS[agent], made.logs / agent, dirs_exist_ok=True)
    made.record()


def fired(made: Rig) -> Counter[tuple[str, str]]:
    """How often each rule fired for each session."""
    found: Counter[tuple[str, str]] = Counter()
    for message in made.noting.messages:
        for facts in message.events:
            assert facts.session is not None
            found[message.rule.name, facts.session.session_id] += 1
    return found


def settle(made: Rig) -> None:
    for _ in range(3):
        made.look()
        made.wait(120)


@pytest.mark.parametrize("agent", LOGS)
@pytest.mark.parametrize("order", [("log",), ("telemetry", "log"), ("log", "telemetry")])
def test_each_failed_tool_fires_once(tmp_path: Path, agent: str, order: tuple[str, ...]) -> None:
    """Whichever comes first, and after the store was lost; sessions wait and end as often as their log says."""
    told = spans_of(tmp_path / "alone", agent)
    made = Rig(tmp_path / "both", tables("all", **KINDS))

    def put(first: str) -> None:
        put_logs(made, agent) if first == "log" else put_telemetry(made, telemetry(told))
        settle(made)

    for each in order:
        put(each)
    failed = Counter(session for _, session, kind, _, status, *_ in told if (kind, status) == ("tool", "error"))
    assert failed, "the sample has failed calls"
    found = fired(made)
    assert {session: found["tool", session] for session in failed} == failed
    sessions = {session for _, session, *_ in told}
    assert all(found["ended", session] == 1 for session in sessions)
    assert all(found["waiting", session] <= 1 for session in sessions)
    assert sum(found["waiting", session] for session in sessions) > 0
    made.close()
    for path in made.settings.home.glob("agenttrace.db*"):
        path.unlink()
    again = Rig(tmp_path / "both", tables("all", **KINDS))
    again.now, again.steady = made.now, made.steady
    again.record()
    settle(again)
    if agent != "gemini-cli" or order[0] == "log":
        assert not [each for each in fired(again) if each[0] in ("tool", "ended")]
    again.close()


def test_a_wait_after_telemetry_is_not_lost(tmp_path: Path) -> None:
    """Telemetry counts a wait after every answer of a model: the waits of the log are others."""
    made = Rig(tmp_path, tables(waiting={"on": "session.waiting", "settle": "10s"}))
    agent, session = "claude-code", "b341ac93-9d28-4a5f-b743-edcd63b5a71f"
    moment = (made.now * 1e9 - NOW) / SECOND
    for number in range(6):
        put_telemetry(made, _told(agent, "user_prompt", moment + number * 60, session, {"prompt.id": f"p{number}"}))
        put_telemetry(made, _told(agent, "response", moment + number * 60 + 1, session, {"request_id": f"r{number}"}))
        made.wait(60)
        made.look()
    before = fired(made)["waiting", session]
    assert before == 6
    log = made.logs / agent / "projects" / f"{session}.jsonl"
    log.parent.mkdir(parents=True)
    for number in range(3):
        made.wait(3600)
        stamp = _iso(made.now)
        common = {
            "parentUuid": None,
            "isSidechain": False,
            "userType": "external",
            "sessionId": session,
            "version": "2.1.325",
            "timestamp": stamp,
            "cwd": "/work",
        }
        user = {"type": "user", "uuid": f"u{number}", "message": {"role": "user", "content": "Go on."}}
        answer = {
            "type": "assistant",
            "uuid": f"a{number}",
            "message": {
                "id": f"msg_{number}",
                "role": "assistant",
                "model": "claude-sonnet-4-5",
                "content": [{"type": "text", "text": "Done."}],
                "stop_reason": "end_turn",
                "usage": {"input_tokens": 1, "output_tokens": 1},
            },
        }
        with log.open("a") as file:
            file.writelines(json.dumps({**common, **each}) + "\n" for each in (user, answer))
        made.record()
        made.wait(60)
        made.look()
        assert fired(made)["waiting", session] == before + number + 1, made.store.quarantine.entries(limit=3)
    made.close()


def _iso(seconds: float) -> str:
    from datetime import UTC, datetime

    return datetime.fromtimestamp(seconds, UTC).isoformat().replace("+00:00", "Z")
