"""Kimi Code: the real files give the golden numbers, mirrors count nothing, and odd lines do no harm."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agenttrace.model import Event, Usage
from agenttrace.record.formats.contract import Source, Unusable
from agenttrace.record.formats.kimi_cli import KimiCli
from agenttrace.record.formats.kimi_code import KimiCode
from agenttrace.record.ingest.acts import (
    Act,
    Note,
    ReportedTotals,
    ResponseUsage,
    SessionInfo,
    Spawned,
    StepBegin,
    StepEnd,
    ToolBegin,
    ToolEnd,
    TurnBegin,
    TurnEnd,
    Waiting,
)

DATA = Path(__file__).resolve().parents[2] / "data"
SHARED = Path(__file__).resolve().parents[4] / "shared" / "samples"
SESSION = DATA / "kimi-code-2.1.0/sessions/wd_work_792960bb58b3/session_23a8c988-f8e6-415e-8d14-214153980f20"
MAIN = SESSION / "agents/main/wire.jsonl"
OLD = DATA / "kimi-code-migration-fixtures/apps/vis/server/test/fixtures/sessions"

A = TypeVar("A", bound=Act)

agent = KimiCode()
bare = Source(agent="kimi-code", session_id="session_s")


def golden() -> list[Any]:
    """Every Kimi Code file with golden numbers: our copies, and the samples they come from where they are."""
    found: dict[Path, Any] = {}
    for folder in ("kimi-code-2.1.0", "kimi-code-migration-fixtures"):
        expected = json.loads((DATA / folder / "EXPECTED.json").read_text("utf-8"))
        found |= {DATA / folder / name: numbers for name, numbers in expected.items()}
    if SHARED.exists():
        expected = json.loads((SHARED / "EXPECTED.json").read_text("utf-8"))
        found |= {SHARED / name: numbers for name, numbers in expected.items() if name.startswith("kimi/")}
    return [
        pytest.param(path, numbers, id=f"{path.parts[-4]}/{path.parts[-2]}")
        for path, numbers in found.items()
        if "usage_record" in numbers
    ]


def recognised(path: Path) -> Source:
    source = agent.recognise(path, path.read_bytes()[:65536])
    assert source is not None
    return source


def decoded(path: Path) -> list[Event]:
    source = recognised(path)
    decoded = [agent.decode(raw, source) for raw in path.read_bytes().splitlines()]
    return [event for event in decoded if isinstance(event, Event)]


def acted(events: Iterable[Event], source: Source = bare) -> list[tuple[Event, list[Act]]]:
    memory: dict[str, Any] = {}
    return [(event, list(agent.acts(event, source, memory))) for event in events]


def acts_of(path: Path) -> list[Act]:
    return [act for _, acts in acted(decoded(path), recognised(path)) for act in acts]


def of(kind: type[A], acts: Iterable[Act]) -> list[A]:
    return [act for act in acts if isinstance(act, kind)]


def line(kind: str, time: float | None = None, /, **fields: object) -> bytes:
    record = {"type": kind, **fields}
    return json.dumps(record if time is None else {**record, "time": time}, separators=(",", ":")).encode()


def loop(kind: str, time: float | None = None, agent_id: str | None = "main", /, **fields: object) -> bytes:
    whose = {} if agent_id is None else {"agentId": agent_id}
    return line("context.append_loop_event", time, **whose, event={"type": kind, **fields})


def spent(output: int, time: float | None, scope: str | None = "turn", model: str = "alias") -> bytes:
    usage = {"inputOther": 1, "output": output, "inputCacheRead": 0, "inputCacheCreation": 0}
    return line("usage.record", time, model=model, usage=usage, **({} if scope is None else {"usageScope": scope}))


def event_of(raw: bytes, source: Source = bare) -> Event:
    event = agent.decode(raw, source)
    assert isinstance(event, Event)
    return event


def acts_of_lines(*lines: bytes, source: Source = bare) -> list[Act]:
    return [act for _, acts in acted([event_of(raw, source) for raw in lines], source) for act in acts]


# Golden numbers


@pytest.mark.parametrize(("path", "expected"), golden())
def test_every_line_is_an_event_or_the_header(path: Path, expected: dict[str, Any]) -> None:
    """No line of a real file is lost or broken, and types count as in the samples' golden numbers."""
    source = recognised(path)
    lines = path.read_bytes().splitlines()
    found = [agent.decode(raw, source) for raw in lines]
    types = [event.type.partition("/") for event in found if isinstance(event, Event)]
    assert len(lines) == expected["lines"]
    assert [item for item in found if not isinstance(item, Event)] == [Unusable("header", harmless=True)]
    assert Counter([kind for kind, _, _ in types] + ["metadata"]) == expected["types"]
    assert Counter(loop for _, _, loop in types if loop) == expected["loop_events"]


@pytest.mark.parametrize(("path", "expected"), golden())
def test_usage_is_counted_once(path: Path, expected: dict[str, Any]) -> None:
    """Of the four records of a step's usage one is counted, with a unique name for each response."""
    found = of(ResponseUsage, acts_of(path))
    assert len({act.response for act in found}) == len(found) == expected["types"].get("usage.record", 0)
    totals = {
        "inputOther": sum(act.usage.input_tokens for act in found),
        "output": sum(act.usage.output_tokens for act in found),
        "inputCacheRead": sum(act.usage.cache_read_tokens for act in found),
        "inputCacheCreation": sum(act.usage.cache_write_tokens for act in found),
    }
    assert totals == (expected["usage_record"] or dict.fromkeys(totals, 0))


@pytest.mark.parametrize(("path", "expected"), golden())
def test_every_call_has_its_result(path: Path, expected: dict[str, Any]) -> None:
    """Calls and results are as many as the loop events say, and find each other."""
    acts = acts_of(path)
    calls = [act.call for act in of(ToolBegin, acts)]
    assert len(calls) == expected["loop_events"].get("tool.call", 0)
    assert sorted(calls) == sorted(act.call for act in of(ToolEnd, acts))


@pytest.mark.parametrize(
    "session", [SESSION, OLD / "sample-main", OLD / "sample-compaction"], ids=lambda path: path.name
)
def test_every_event_has_a_unique_key(session: Path) -> None:
    """Type and key name each event of a session, all its agents together."""
    events = [event for path in session.rglob("wire.jsonl") for event in decoded(path)]
    assert None not in {event.key for event in events}
    assert len({(event.type, event.key) for event in events}) == len(events)


# What a file is


def test_homes_follow_the_environment(tmp_path: Path) -> None:
    """$KIMI_CODE_HOME moves the sessions; the desktop application has its own place besides."""
    desktop = tmp_path / "Library/Application Support/kimi-desktop/daimon-share/daimon/runtime/kimi-code/home/sessions"
    assert agent.homes({}, tmp_path) == [tmp_path / ".kimi-code/sessions", desktop]
    assert agent.homes({"KIMI_CODE_HOME": "/else"}, tmp_path)[0] == Path("/else/sessions")


def test_session_facts_come_from_the_state() -> None:
    """Session, agent, working directory and parent are found from the path and the state beside it."""
    main = recognised(MAIN)
    assert (main.session_id, main.stream, main.parent_stream) == (SESSION.name, "main", None)
    assert (main.cwd, main.copied) == ("/home/dev/work", False)
    sub = recognised(SESSION / "agents/agent-0/wire.jsonl")
    assert (sub.session_id, sub.stream, sub.parent_stream, sub.name) == (SESSION.name, "agent-0", "main", "coder")
    old = recognised(OLD / "sample-main/agents/main/wire.jsonl")
    assert (old.session_id, old.title) == ("sample-main", "fixture: hello world")


def test_a_fork_names_its_parent(tmp_path: Path) -> None:
    """The state of a fork says where it came from."""
    path = tmp_path / "session_2/agents/main/wire.jsonl"
    path.parent.mkdir(parents=True)
    (tmp_path / "session_2/state.json").write_text('{"forkedFrom": "session_1"}', "utf-8")
    source = agent.recognise(path, b'{"type":"metadata","protocol_version":"1.5","created_at":1}\n')
    assert source is not None
    assert (source.parent_session, source.copied) == ("session_1", True)


@pytest.mark.parametrize(
    "head",
    [
        b'{"type":"metadata","protocol_version":"1.4","created_at":1}\n',
        b'{"type":"metadata","protocol_version":"1.4"}\n' + line("turn.prompt", 1) + b"\n",
        line("context.append_message", message={}) + b"\n",
        b'"x"}\n' + line("usage.record", 1) + b"\n",
    ],
    ids=["header", "header of an old migration", "no header", "torn first line"],
)
def test_own_files_are_recognised(head: bytes) -> None:
    """A header with its time of creation, or the shape of the records, is enough."""
    assert agent.recognise(Path("sessions/wd/session_x/agents/main/wire.jsonl"), head) is not None


@pytest.mark.parametrize(
    "head",
    [
        b"",
        b"[]\n",
        b'{"type": "metadata", "protocol_version": "1.4"}\n',
        b'{"timestamp": 1.5, "message": {"type": "TurnEnd", "payload": {}}}\n',
        b'{"v":1,"session":"s","type":"turn.begin","ts":1.5}\n',
        b'{"type":"user","message":{"role":"user"},"uuid":"u","timestamp":"2026-01-01T00:00:00Z"}\n',
        b'{"timestamp":"2026-01-01T00:00:00Z","type":"event_msg","payload":{}}\n',
    ],
)
def test_other_formats_are_refused(head: bytes) -> None:
    """Content decides: Kimi CLI's header, our own format and others' are not taken."""
    assert agent.recognise(Path("sessions/wd/session_x/agents/main/wire.jsonl"), head) is None


def test_the_other_kimi_takes_none_of_these() -> None:
    """Kimi CLI's module refuses every file of Kimi Code."""
    for path in [*SESSION.rglob("wire.jsonl"), *OLD.rglob("wire.jsonl")]:
        assert KimiCli().recognise(path, path.read_bytes()[:65536]) is None


# Copies


def imported(root: Path, state: str | None) -> Source:
    path = root / "ses_1/agents/main/wire.jsonl"
    path.parent.mkdir(parents=True)
    if state is not None:
        (root / "ses_1/state.json").write_text(state, "utf-8")
    source = agent.recognise(path, b'{"type":"metadata","protocol_version":"1.0","created_at":1}\n')
    assert source is not None
    return source


COPY = Unusable("imported copy of a Kimi CLI session", harmless=True)


def test_imported_records_are_passed_over_and_their_continuation_is_not(tmp_path: Path) -> None:
    """What ``kimi migrate`` copied is recorded from the original; what was said since then is new."""
    state = '{"custom": {"imported_from_kimi_cli": true, "imported_at": "2026-06-01T00:00:00.000Z"}}'
    source = imported(tmp_path, state)
    moment = 1_780_272_000_000
    assert agent.decode(line("context.append_message", message={}), source) == COPY
    assert agent.decode(line("turn.prompt", moment - 1, input=[]), source) == COPY
    assert isinstance(agent.decode(line("turn.prompt", moment + 1, input=[]), source), Event)


def test_an_import_without_a_time_is_a_copy_all_of_it(tmp_path: Path) -> None:
    """An import without a time cannot be separated from its continuation."""
    source = imported(tmp_path, '{"custom": {"imported_from_kimi_cli": true}}')
    assert agent.decode(line("turn.prompt", 1_790_000_000_000, input=[]), source) == COPY


def test_an_import_under_way_is_a_copy(tmp_path: Path) -> None:
    """The migration writes the log before the state that says so; the state then decides."""
    source = imported(tmp_path, None)
    raw = line("turn.prompt", 1_790_000_000_000, input=[])
    assert agent.decode(raw, source) == COPY
    (tmp_path / "ses_1/state.json").write_text('{"custom": {}}', "utf-8")
    assert isinstance(agent.decode(raw, source), Event)


def test_a_fork_shares_the_names_of_its_responses() -> None:
    """A copied file names the same responses, and other events, in another session."""
    copy = msgspec.structs.replace(recognised(MAIN), session_id="session_fork")
    events = [event for raw in MAIN.read_bytes().splitlines() if isinstance(event := agent.decode(raw, copy), Event)]
    copied = [act for _, acts in acted(events, copy) for act in acts]
    assert of(ResponseUsage, copied) == of(ResponseUsage, acts_of(MAIN))


def test_a_migration_changes_neither_keys_nor_names() -> None:
    """A rewritten file has other bytes for a result and for usage; they stay the same events."""
    before = loop("tool.result", 5, None, parentUuid="u", toolCallId="t", result={"output": "x<system>1</system>"})
    after = loop("tool.result", 5, None, parentUuid="u", toolCallId="t", result={"output": "x", "note": "1"})
    assert event_of(before).key == event_of(after).key
    usage = json.loads(spent(7, 9))
    rewritten = json.dumps({**usage, "agentId": "main"}).encode()
    names = {act.response for act in of(ResponseUsage, acts_of_lines(spent(7, 9), rewritten))}
    assert len(names) == 1


def test_two_agents_at_one_moment() -> None:
    """Records without an agent's name, alike and of one millisecond, are different events in different files."""
    raw = b'{"turnId":0,"type":"agent.turn.started","time":1794733215881,"kind":"event"}'
    sources = [msgspec.structs.replace(bare, stream=stream) for stream in ("agent-0", "agent-1")]
    assert len({event_of(raw, source).key for source in sources}) == 2


def test_usage_without_a_time_has_a_name_that_a_fork_shares() -> None:
    """Nothing but its place names such a record; the same place in a copy is the same response."""
    lines = (loop("step.begin", uuid="s1", turnId="0", step=1), spent(1, None), spent(1, None))
    first, second = of(ResponseUsage, acts_of_lines(*lines))
    assert first.response != second.response
    assert of(ResponseUsage, acts_of_lines(*lines)) == [first, second]


# Turns


def test_turns_of_a_session() -> None:
    """Eight prompts, eight turns, each with its number, its origin and its end."""
    acts = acts_of(MAIN)
    begun = [(act.turn, act.origin) for act in of(TurnBegin, acts)]
    ended = [(act.turn, act.status, act.error) for act in of(TurnEnd, acts)]
    assert begun == [(str(n), "task" if n == 4 else "user") for n in range(8)]
    assert ended == [(str(n), *(("error", "400 simulated") if n in (5, 6) else ("ok", None))) for n in range(8)]
    sub = of(TurnBegin, acts_of(SESSION / "agents/agent-1/wire.jsonl"))
    assert sub == [TurnBegin("SCENARIO sub two: print date", "subagent", "0")]


def test_a_turn_without_a_prompt() -> None:
    """A goal goes on by itself: the step says that another turn has begun."""
    acts = acts_of_lines(
        line("turn.prompt", 1, input=[{"type": "text", "text": "go"}], origin={"kind": "user"}, turnId=0),
        loop("step.begin", 2, uuid="s1", turnId="0", step=1),
        line("turn.ended", 3, turnId=0, reason="completed"),
        loop("step.begin", 4, uuid="s2", turnId="1", step=1),
        loop("step.begin", 5, uuid="s3", turnId="2", step=1),
    )
    assert [(act.turn, act.origin) for act in of(TurnBegin, acts)] == [("0", "user"), ("1", "system"), ("2", "system")]


def test_a_prompt_that_does_not_name_its_turn() -> None:
    """Before 2.1.0 the first step names the turn that the prompt began: it is one turn."""
    acts = acts_of_lines(
        line("turn.prompt", 1, agentId="main", input=[{"type": "text", "text": "a"}], origin={"kind": "user"}),
        loop("step.begin", 2, uuid="s1", turnId="t1", step=0),
        loop("step.begin", 3, uuid="s2", turnId="t1", step=1),
        line("turn.ended", 4, agentId="main", turnId="t1", reason="completed"),
        line("turn.prompt", 5, agentId="main", input=[], origin={"kind": "hook_result"}),
    )
    assert [act for act in acts if isinstance(act, TurnBegin | TurnEnd)] == [
        TurnBegin("a"),
        TurnEnd("ok", None, "t1"),
        TurnBegin(None, "hook"),
    ]


def test_turns_of_the_first_engine_end_with_their_last_step() -> None:
    """Without ``turn.ended`` the model's last word ends the turn; usage that follows still finds its step."""
    assert acts_of(OLD / "sample-main/agents/main/wire.jsonl") == [
        SessionInfo(cwd="/tmp/work"),
        TurnBegin("hi"),
        StepBegin("s1", 0),
        StepEnd("s1", finish_reason="end_turn"),
        TurnEnd(turn="t1"),
        ResponseUsage(
            "kimi-code:main:1779256800302000:10:5:0:0",
            Usage(input_tokens=10, output_tokens=5),
            model="kimi-k2",
            step="s1",
        ),
    ]


def test_a_turn_of_the_first_engine_that_goes_on() -> None:
    """A hook may send the model back to work after its last word: the same turn is opened again."""
    acts = acts_of_lines(
        loop("step.begin", 1, None, uuid="s1", turnId="0", step=1),
        loop("step.end", 2, None, uuid="s1", turnId="0", finishReason="end_turn"),
        loop("step.begin", 3, None, uuid="s2", turnId="0", step=2),
        line("turn.cancel", 4, turnId=0),
        line("turn.cancel", 5, turnId=0),
    )
    assert [act for act in acts if isinstance(act, TurnBegin | TurnEnd)] == [
        TurnBegin(origin="system", turn="0"),
        TurnEnd(turn="0"),
        TurnBegin(origin="system", turn="0"),
        TurnEnd("cancelled", turn="0"),
    ]


@pytest.mark.parametrize(
    ("reason", "status", "error"),
    [
        ("completed", "ok", None),
        ("cancelled", "cancelled", "cancelled"),
        ("blocked", "cancelled", "blocked"),
        ("failed", "error", "failed"),
    ],
)
def test_how_turns_end(reason: str, status: str, error: str | None) -> None:
    """The reason of the end is the turn's status, and its error where nothing says more."""
    assert acts_of_lines(line("turn.ended", 1, turnId=3, reason=reason)) == [TurnEnd(status, error, "3")]


# Steps, tools, tokens


def test_a_retried_step_is_two_steps() -> None:
    """A failed attempt is a separate step, ended as an error, with a note of the retry."""
    found = acted(decoded(MAIN), recognised(MAIN))
    acts = [act for _, acts in found for act in acts]
    place = acts.index(Note("retry"))
    failed = acts[place - 1]
    assert isinstance(failed, StepEnd)
    assert failed.status == "error"
    assert isinstance(acts[place + 1], StepBegin)


def test_an_interrupted_step_says_why() -> None:
    """The record after a failed step has the message that the step's own end lacks."""
    errors = [act for act in of(StepEnd, acts_of(MAIN)) if act.error]
    assert [(act.status, act.error) for act in errors] == [("error", "[provider.api_error] 400 simulated")] * 2
    cancelled = acts_of_lines(
        loop("step.begin", 1, uuid="s", turnId="0", step=1),
        line("turn.step.interrupted", 2, turnId=0, step=1, reason="aborted"),
    )
    assert cancelled[-1] == StepEnd("s", "cancelled")


def test_the_model_is_the_one_behind_the_alias() -> None:
    """Usage names an alias; the request before it names the model."""
    acts = acts_of(MAIN)
    assert {act.model for act in of(ResponseUsage, acts)} == {"kimi-mock"}
    assert [act for act in of(SessionInfo, acts) if act.model] == [SessionInfo(model="kimi-mock")]
    assert of(ResponseUsage, acts_of_lines(spent(1, 1, model="k2")))[0].model == "k2"


def test_usage_finds_its_step() -> None:
    """A step's usage is given to the step, between its beginning and its end or after it."""
    acts = acts_of(MAIN)
    begun = {act.step for act in of(StepBegin, acts)}
    steps = [act.step for act in of(ResponseUsage, acts)]
    assert len(set(steps)) == len(steps)
    assert set(steps) < begun


@pytest.mark.parametrize("scope", ["session", None])
def test_calls_outside_a_turn_are_separate(scope: str | None) -> None:
    """Compaction uses tokens of no step: in a turn they are a separate call, between turns a turn."""
    (between,) = of(ResponseUsage, acts_of_lines(spent(1, 1, scope)))
    assert (between.step, between.detached) == (None, True)
    assert acts_of_lines(spent(1, 1, scope)) == [TurnBegin(origin="system"), between, TurnEnd()]
    step = loop("step.begin", 0.5, uuid="s", turnId="0", step=1)
    assert acts_of_lines(step, spent(1, 1, scope))[2:] == [between]


def test_results_find_their_call_by_either_name() -> None:
    """A result names the call, or the record of the call, or both."""
    call = loop("tool.call", 1, uuid="u", stepUuid="s", toolCallId="t", name="Agent", args={})
    begin = ToolBegin("t", "Agent", "s", subagent=True)
    for names in ({"parentUuid": "u"}, {"toolCallId": "t"}, {"parentUuid": "t", "toolCallId": "t"}):
        result = loop("tool.result", 2, result={"output": "x", "durationMs": 12.5}, **names)
        assert acts_of_lines(call, result) == [begin, ToolEnd("t", duration=12_500)]


def test_a_failed_tool_says_why() -> None:
    """An error's output is its message."""
    failed = [act for act in of(ToolEnd, acts_of(MAIN)) if act.status == "error"]
    assert [(act.error, act.duration) for act in failed] == [
        ("Process exited with code 3\nCommand failed with exit code: 3.", 44_000)
    ]


def test_subagents_are_linked_to_their_calls() -> None:
    """Foreground and background alike; a subagent of another agent is that one's to tell."""
    calls = [act.call for act in of(ToolBegin, acts_of(MAIN)) if act.subagent]
    assert of(Spawned, acts_of(MAIN)) == [Spawned(call, f"agent-{n}", "coder") for n, call in enumerate(calls)]
    foreign = line("subagent.spawned", 1, subagentId="agent-9", parentToolCallId="t", parentAgentId="agent-3")
    assert acts_of_lines(foreign) == []


def test_mirrors_mean_nothing() -> None:
    """What repeats other records is no work: else everything would be there twice or three times."""
    mirrors = ("context.append_message", "agent.message.appended", "agent.turn.started", "subagent.completed")
    found = acted(decoded(MAIN), recognised(MAIN))
    seen = [acts for event, acts in found if event.type in mirrors]
    assert len(seen) == 50
    assert all(isinstance(act, ReportedTotals) for acts in seen for act in acts)


def test_the_wait_goes_on_until_the_answer() -> None:
    """Other results do not end the wait for a person; the answer does. A program's answer is not waited for."""
    acts = acts_of_lines(
        line("interaction.request", 1, id="i", kind="approval", toolCallId="t", request={}),
        loop("tool.result", 2, toolCallId="other", result={"output": ""}),
        line("interaction.resolved", 3, id="i", response={"decision": "approved"}),
        loop("tool.result", 4, toolCallId="t", result={"output": ""}),
        line("interaction.request", 5, id="j", kind="user_tool", request={}),
    )
    assert acts == [Waiting(), ToolEnd("other"), Waiting(), Note("answer"), ToolEnd("t")]


@pytest.mark.parametrize(
    ("raw", "note"),
    [
        (line("context.apply_compaction", 1, summary="s"), Note("compaction")),
        (line("micro_compaction.apply", 1, cutoff=3), Note("micro compaction")),
        (line("full_compaction.cancel", 1), Note("compaction cancelled")),
        (line("context.clear", 1), Note("clear")),
        (line("context.undo", 1, count=1), Note("undo")),
        (line("turn.steer", 1, input=[{"type": "text", "text": "left"}]), Note("steer")),
        (line("permission.record_approval_result", 1, result={"decision": "rejected"}), Note("approval")),
    ],
)
def test_notes(raw: bytes, note: Note) -> None:
    """What has no span is noted on the open one."""
    assert acts_of_lines(raw) == [note]


# Texts


def test_texts_are_said_once() -> None:
    """Each text of the first turn comes out once, though the file has it up to three times."""
    source = recognised(MAIN)
    until = next(n for n, event in enumerate(decoded(MAIN)) if event.type == "turn.ended")
    found = [item for event in decoded(MAIN)[:until] for item in agent.content(event, source)]
    assert Counter(item.kind for item in found) == {
        "prompt": 1,
        "note": 2,
        "thinking": 2,
        "text": 2,
        "arguments": 3,
        "result": 2,
        "error": 1,
    }
    assert {item.text for item in found if item.kind == "arguments"} == {
        '{"command":"echo first"}',
        '{"command":"sleep 0.3; echo second"}',
        '{"command":"exit 3"}',
    }
    assert {item.call for item in found if item.kind == "result"} == {
        "tool_uvSwMFLZDe1f8rESQedUStPK",
        "tool_R0CsTy4Qwb8DwkNhFdnXsiVp",
    }


def test_other_texts() -> None:
    """Summaries, errors and questions are found as well."""
    lines = {
        line("context.apply_compaction", 1, summary="short"): "short",
        line("turn.ended", 1, reason="failed", error={"message": "boom"}): "boom",
        line("turn.step.retrying", 1, errorMessage="again"): "again",
        line("interaction.request", 1, kind="question", request={"questions": [{"question": "Which?"}]}): "Which?",
    }
    for raw, text in lines.items():
        assert [item.text for item in agent.content(event_of(raw), bare)] == [text]


# Odd lines


def test_half_an_emoji_costs_nothing_but_itself() -> None:
    """JavaScript cuts texts in the middle of a character and writes the half: the line is whole all the same."""
    raw = loop("tool.result", 5, parentUuid="u", toolCallId="t", result={"output": "cut \ud83d"})
    event = event_of(raw)
    assert event.type == "context.append_loop_event/tool.result"
    assert event.key == "main:tool.result:u:5"
    assert [item.text for item in agent.content(event, bare)] == ["cut ?"]


def test_a_torn_line_gives_back_the_whole_one_in_it() -> None:
    """Two processes that write at once tear a line; whole records are salvaged, parts of the torn one are not."""
    torn = line("context.append_message", 1, message={"content": [{"type": "text", "text": "hi"}], "role": "user"})[:-9]
    whole = spent(5, 2)
    assert agent.decode(torn + whole, bare) == Unusable("not a JSON object", harmless=False, salvaged=(whole,))


@pytest.mark.parametrize(
    ("raw", "kind"),
    [
        (b"{}", "unknown"),
        (b'{"type":5,"time":1}', "unknown"),
        (b'{"type":"brand.new","time":"soon"}', "brand.new"),
        (b'{"type":"context.append_loop_event","event":"gone","time":1}', "context.append_loop_event"),
        (b'{"type":"context.append_loop_event","event":{"type":1},"time":1}', "context.append_loop_event/unknown"),
        (b'{"type":"turn.ended","reason":{"a":1},"turnId":[2],"time":1}', "turn.ended"),
        (b'{"type":"metadata"}', "metadata"),
    ],
)
def test_unexpected_shapes_are_still_events(raw: bytes, kind: str) -> None:
    """An object of another shape is recorded under its type."""
    assert event_of(raw).type == kind


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text()
    | st.text(st.characters(categories=["Cs", "Lu"]), max_size=3),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=12), inner, max_size=4),
    max_leaves=12,
)
loop_types = st.sampled_from(["step.begin", "step.end", "content.part", "tool.call", "tool.result", "new"])
fields = st.sampled_from(
    re.findall(
        r"\w+",
        "type time agentId event turnId stepId reason error errorName errorMessage input origin message summary kind "
        "id toolCallId request response result model modelAlias usage usageScope subagentId subagentName cwd "
        "parentAgentId parentToolCallId environmentDisclosure",
    )
)
loop_fields = st.sampled_from(
    re.findall(r"\w+", "uuid turnId step stepUuid parentUuid toolCallId name finishReason args part result")
)
loops = st.builds(lambda more, kind: {**more, "type": kind}, st.dictionaries(loop_fields, json_values), loop_types)
types = st.sampled_from(
    re.findall(
        r"[\w.]+",
        "turn.prompt turn.steer turn.cancel turn.ended turn.step.interrupted turn.step.retrying subagent.spawned "
        "llm.request usage.record config.update profile.bind interaction.request interaction.resolved context.undo "
        "permission.record_approval_result context.apply_compaction context.append_message brand.new",
    )
)
records = st.builds(
    lambda more, kind, time: {**more, "type": kind, "time": time},
    st.dictionaries(fields, json_values, max_size=6),
    types,
    st.integers(1, 2**41) | json_values,
) | st.builds(
    lambda event, time: {"type": "context.append_loop_event", "event": event, "time": time}, loops, json_values
)


def survive(raw: bytes, memory: dict[str, Any]) -> None:
    """Everything that is done with a line is done; what comes of it can be stored."""
    event, again = agent.decode(raw, bare), agent.decode(raw, bare)
    if isinstance(event, Unusable):
        assert event == again
        return
    assert isinstance(again, Event)
    assert (event.type, event.key, event.at) == (again.type, again.key, again.at)
    assert all(isinstance(act, Act) for act in agent.acts(event, bare, memory))
    assert all(content.text for content in agent.content(event, bare))
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(memory)) == memory


@given(st.binary())
def test_any_bytes_are_borne(raw: bytes) -> None:
    """No bytes make the reader raise."""
    survive(raw, {})


@given(json_values)
def test_any_json_is_borne(value: object) -> None:
    """Any JSON object is an event, any other JSON is not, and neither raises."""
    raw = json.dumps(value).encode()
    survive(raw, {})
    assert isinstance(agent.decode(raw, bare), Event) == isinstance(value, dict)


@given(st.lists(records, max_size=30))
def test_any_records_are_borne(lines: list[dict[str, Any]]) -> None:
    """Records with any fields, in any order, are folded without raising; memory can always be stored."""
    memory: dict[str, Any] = {}
    for record in lines:
        survive(json.dumps(record).encode(), memory)


@given(st.binary())
def test_any_head_is_borne(head: bytes) -> None:
    """No beginning of a file makes recognition raise."""
    assert agent.recognise(Path("sessions/w/s/agents/main/wire.jsonl"), head) is None


def test_memory_stays_small() -> None:
    """However many calls, models and questions a session leaves open, memory forgets the oldest."""
    memory: dict[str, Any] = {}
    for n in range(500):
        survive(loop("tool.call", n + 1, uuid=f"u{n}", toolCallId=f"t{n}", name="Bash", args={}), memory)
        survive(line("llm.request", n + 1, kind="loop", model=f"m{n}", modelAlias=f"a{n}"), memory)
        survive(line("interaction.request", n + 1, id=f"i{n}", kind="approval", toolCallId=f"t{n}"), memory)
    assert len(msgspec.msgpack.encode(memory)) < 8192
