from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agenttrace.model import Event, Usage
from agenttrace.record.formats.contract import Source, Unusable
from agenttrace.record.formats.qwen_code import QwenCode
from agenttrace.record.ingest.acts import (
    Act,
    Note,
    ResponseUsage,
    SessionInfo,
    SideCall,
    StepBegin,
    ToolBegin,
    ToolEnd,
    TurnBegin,
    TurnEnd,
)
from agenttrace.record.ingest.fold import Folder, StreamState

DATA = Path(__file__).resolve().parents[2] / "data"
REAL = DATA / "qwen-code" / "qwen_code.splitrail.jsonl"
CONTRACT = DATA / "qwen-code" / "qwen.chat-records.jsonl"
SESSION = "69f0814a-8bfc-4c8e-93d3-05757f17b96f"

A = TypeVar("A", bound=Act)

AGENT = QwenCode()
SOURCE = Source(agent="qwen-code", session_id="s")
SUB_SOURCE = Source(agent="qwen-code", session_id="s", stream="explore-1", parent_stream="main")


# -- playing files and lines -------------------------------------------------------------------------------


def recognised(path: Path) -> Source:
    source = AGENT.recognise(path, path.read_bytes()[:65_536])
    assert source is not None
    return source


def events(path: Path) -> list[Event]:
    found = [AGENT.decode(raw, recognised(path)) for raw in path.read_bytes().splitlines()]
    return [event for event in found if isinstance(event, Event)]


def fold(path: Path) -> Folder:
    folder = Folder("s", "main", "qwen-code", StreamState())
    for number, event in enumerate(events(path)):
        acts = AGENT.acts(event, recognised(path), folder.state.memory)
        folder.feed(number.to_bytes(16, "big"), event.at, acts)
    return folder


def event_of(line: dict[str, Any], source: Source = SOURCE) -> Event:
    event = AGENT.decode(json.dumps(line, separators=(",", ":")).encode(), source)
    assert isinstance(event, Event)
    return event


def played(*lines: dict[str, Any], source: Source = SOURCE) -> list[Act]:
    memory: dict[str, Any] = {}
    found: list[Act] = []
    for line in lines:
        found += AGENT.acts(event_of(line, source), source, memory)
        memory = msgspec.msgpack.decode(msgspec.msgpack.encode(memory))
    return found


def of_kind(acts: list[Act], kind: type[A]) -> list[A]:
    return [act for act in acts if isinstance(act, kind)]


def record(kind: str, *parts: dict[str, Any], uuid: str = "u1", **more: object) -> dict[str, Any]:
    base = {"uuid": uuid, "parentUuid": None, "sessionId": "s", "timestamp": "2026-08-16T00:00:00.000Z"}
    return {**base, "type": kind, "message": {"role": "x", "parts": list(parts)}, **more}


def noted(subtype: str, payload: dict[str, Any]) -> dict[str, Any]:
    line = record("system", subtype=subtype, systemPayload=payload)
    del line["message"]
    return line


def call(named: str = "call_1", name: str = "shell") -> dict[str, Any]:
    return {"functionCall": {"id": named, "name": name, "args": {"command": "ls"}}}


def response(of: str = "call_1", **body: object) -> dict[str, Any]:
    return {"functionResponse": {"id": of, "name": "shell", "response": body}}


# -- real records ------------------------------------------------------------------------------------------


def test_real_records_are_events_of_their_kind() -> None:
    """Every line of the real session is an event, named by type and subtype, under its own uuid."""
    found = events(REAL)
    assert Counter(event.type for event in found) == {
        "user": 1,
        "assistant": 2,
        "tool_result": 1,
        "system/attribution_snapshot": 1,
        "system/ui_telemetry": 3,
    }
    assert len({event.key for event in found}) == 8
    assert found[0].at == 1_781_534_422_832_000


def test_the_real_session_counts_each_response_once() -> None:
    """Usage comes from the responses, cached tokens taken out of the prompt; telemetry adds nothing."""
    memory: dict[str, Any] = {}
    acts = [act for event in events(REAL) for act in AGENT.acts(event, SOURCE, memory)]
    assert [(act.usage, act.model) for act in of_kind(acts, ResponseUsage)] == [
        (Usage(input_tokens=500, output_tokens=20), "coder-model"),
        (Usage(input_tokens=550, output_tokens=5, cache_read_tokens=50), "coder-model"),
    ]


def test_the_real_session_is_one_turn() -> None:
    """Two responses with a failed call between them, and then the session waits for the user."""
    folder = fold(REAL)
    spans = list(folder.changed.values())
    assert Counter((span.kind, span.status) for span in spans) == {
        ("turn", "ok"): 1,
        ("step", "ok"): 2,
        ("tool", "error"): 1,
    }
    assert folder.state.state == "waiting"


def test_text_before_a_call_is_not_the_end() -> None:
    """Where text and call are two records, the call belongs to the turn that the text seemed to end."""
    folder = fold(CONTRACT)
    assert (folder.new_turns, folder.new_steps, folder.new_tools) == (1, 2, 1)


# -- which file is this ------------------------------------------------------------------------------------


def test_the_session_is_the_one_in_the_records() -> None:
    """A file that is not named after its session belongs to the session its records name."""
    source = recognised(REAL)
    assert (source.session_id, source.stream, source.cwd, source.copied) == (SESSION, "main", "/tmp/qwentest", False)
    assert recognised(CONTRACT).session_id == "session-test"


def test_a_branch_is_a_copy_of_its_origin(tmp_path: Path) -> None:
    """Records that say where they were forked from make the file a copy, with the same response names."""
    origin = record("assistant", {"text": "hi"}, usageMetadata={"promptTokenCount": 5, "totalTokenCount": 5})
    copy = {**origin, "sessionId": SESSION, "forkedFrom": {"sessionId": "s", "messageUuid": "u1"}}
    path = tmp_path / f"{SESSION}.jsonl"
    path.write_text(json.dumps(copy) + "\n")
    source = recognised(path)
    assert (source.session_id, source.parent_session, source.copied) == (SESSION, "s", True)
    names = [of_kind(played(line), ResponseUsage)[0].response for line in (origin, copy)]
    assert names == ["qwen:u1", "qwen:u1"]


def test_a_subagents_file_says_who_started_it(tmp_path: Path) -> None:
    """Session, parent and call come from the file beside the transcript."""
    path = tmp_path / "subagents" / "s" / "agent-explore-1.jsonl"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps(record("user", {"text": "go"}, isSidechain=True, agentId="explore-1")) + "\n")
    assert recognised(path).session_id == "s"
    meta = {
        "agentId": "explore-1",
        "agentType": "Explore",
        "parentSessionId": "s",
        "toolUseId": "call_9",
        "parentAgentId": None,
        "model": "qwen3",
    }
    path.with_suffix(".meta.json").write_text(json.dumps(meta))
    assert recognised(path) == Source(
        agent="qwen-code",
        session_id="s",
        stream="explore-1",
        parent_stream="main",
        parent_call="call_9",
        name="Explore",
        model="qwen3",
        directory=str(path.parent),
    )


def test_a_first_line_longer_than_the_head_is_recognised(tmp_path: Path) -> None:
    """A session that opens with a huge paste is known by how that line begins."""
    path = tmp_path / "named.jsonl"
    path.write_text(json.dumps(record("user", {"text": "x" * 100_000}), separators=(",", ":")) + "\n")
    assert recognised(path).session_id == "s"


@pytest.mark.parametrize("path", sorted((DATA / "claude-code-2.1.197").rglob("*.jsonl")), ids=lambda p: p.stem)
def test_claude_codes_files_are_not_ours(path: Path) -> None:
    """The two formats look alike and are never taken for each other."""
    assert AGENT.recognise(path, path.read_bytes()) is None


def test_homes_follow_the_environment(tmp_path: Path) -> None:
    """The runtime directory wins over the home, which wins over the default."""
    assert AGENT.homes({}, tmp_path) == [tmp_path / ".qwen" / "projects", tmp_path / ".qwen" / "tmp"]
    assert AGENT.homes({"QWEN_HOME": "/h"}, tmp_path)[0] == Path("/h/projects")
    assert AGENT.homes({"QWEN_HOME": "/h", "QWEN_RUNTIME_DIR": "~/r"}, tmp_path)[0] == tmp_path / "r" / "projects"


def test_only_chats_and_subagents_are_logs() -> None:
    """Other JSONL files under the same directories are ignored."""
    assert AGENT.is_log(Path("projects/x/chats/s.jsonl"))
    assert AGENT.is_log(Path("projects/x/subagents/s/agent-1.jsonl"))
    assert not AGENT.is_log(Path("projects/x/other/s.jsonl"))
    assert not AGENT.is_log(Path("projects/x/subagents/s/agent-1.jsonl.stream"))


# -- usage -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("counts", "want"),
    [
        # OpenAI's interface: thoughts are inside the candidates, the total says so.
        ((100, 50, 30, 150, 0), Usage(input_tokens=100, output_tokens=50, reasoning_tokens=30)),
        # Gemini's: thoughts are counted apart.
        ((100, 50, 30, 180, 0), Usage(input_tokens=100, output_tokens=80, reasoning_tokens=30)),
        # No total: more thoughts than candidates cannot be inside them.
        ((100, 5, 30, None, 0), Usage(input_tokens=100, output_tokens=35, reasoning_tokens=30)),
        ((100, 50, 0, 150, 60), Usage(input_tokens=40, output_tokens=50, cache_read_tokens=60)),
        ((100, 50, 0, 150, 400), Usage(input_tokens=0, output_tokens=50, cache_read_tokens=100)),
    ],
)
def test_no_token_counts_twice(counts: tuple[int | None, ...], want: Usage) -> None:
    """Cached tokens are part of the prompt, and thoughts part of the output or not as the total tells."""
    names = ("prompt", "candidates", "thoughts", "total", "cachedContent")
    usage = {f"{name}TokenCount": value for name, value in zip(names, counts, strict=True)}
    (act,) = of_kind(played(record("assistant", usageMetadata=usage)), ResponseUsage)
    assert (act.usage, act.estimated) == (want, False)


def test_a_bare_total_is_an_estimate() -> None:
    """A provider that reports only a total is counted, and marked."""
    (act,) = of_kind(played(record("assistant", usageMetadata={"totalTokenCount": 9})), ResponseUsage)
    assert (act.usage, act.estimated) == (Usage(input_tokens=9), True)


# -- turns, tools, notes -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "want"),
    [
        (record("user", {"text": "hi"}), TurnBegin("hi", "user", "u1")),
        (record("user", {"text": "hi"}, promptId="p"), TurnBegin("hi", "user", "p")),
        (record("user", {"text": "long"}, systemPayload={"displayText": "hi"}), TurnBegin("hi", "user", "u1")),
        (record("user", {"text": "hi"}, subtype="cron"), TurnBegin("hi", "system", "u1")),
        (record("user", {"text": "hi"}, subtype="mid_turn_user_message"), Note("steer")),
        (record("user", {"text": "hi"}, subtype="notification"), Note("notification")),
        (
            record("user", {"text": "hi"}, subtype="notification", deliveredTurn=True),
            TurnBegin("hi", "task", "u1"),
        ),
    ],
)
def test_what_the_user_side_says(line: dict[str, Any], want: Act) -> None:
    """Prompts begin turns; what is only passed on to a running turn does not."""
    assert played(line) == [want]


@pytest.mark.parametrize(
    ("line", "want"),
    [
        (record("tool_result", response(output="x")), ToolEnd("call_1")),
        (
            record("tool_result", response(error="no"), toolCallResult={"callId": "call_1", "status": "error"}),
            ToolEnd("call_1", "error", "no"),
        ),
        (
            record("tool_result", toolCallResult={"callId": "c", "status": "cancelled", "resultDisplay": "stop"}),
            ToolEnd("c", "cancelled", "stop"),
        ),
        (
            record("tool_result", response(output="x"), toolCallResult={"callId": "call_1", "durationMs": 1.5}),
            ToolEnd("call_1", duration=1500),
        ),
    ],
)
def test_results_end_their_tools(line: dict[str, Any], want: ToolEnd) -> None:
    """A result tells how the call went and, where it is known, how long it took."""
    assert played(line) == [want]


def test_a_subagents_calls_belong_to_the_response_before_them() -> None:
    """A subagent's response is written in several records; after a result the next call is a new response."""
    more: dict[str, Any] = {"isSidechain": True, "agentId": "explore-1"}
    acts = played(
        record("user", {"text": "go"}, **more),
        record("assistant", {"text": "hm"}, uuid="a1", agentRunId="r", agentRound=1, usageMetadata={}, **more),
        record("assistant", call("c1"), uuid="a2", **more),
        record("assistant", call("c2"), uuid="a3", **more),
        record("tool_result", response("c1"), uuid="a4", **more),
        record("assistant", call("c3"), uuid="a5", **more),
        source=SUB_SOURCE,
    )
    assert [act.step for act in of_kind(acts, StepBegin)] == ["r:1", "r:1", "r:1", "a5"]
    assert [act.step for act in of_kind(acts, ToolBegin)] == ["r:1", "r:1", "a5"]
    assert of_kind(acts, TurnEnd) == []
    assert of_kind(acts, TurnBegin)[0].origin == "subagent"


def test_system_records_tell_about_the_session() -> None:
    """Titles, parents, compaction and how a turn ended; a title that is written again is not reported again."""
    given_title = noted("custom_title", {"customTitle": "mine", "titleSource": "manual"})
    assert played(
        noted("custom_title", {"customTitle": "made", "titleSource": "auto"}),
        given_title,
        given_title,
        noted("custom_title", {"customTitle": "made", "titleSource": "auto"}),
        noted("parent_session", {"parentSessionId": "p"}),
        noted("chat_compression", {"compressedHistory": []}),
        noted("turn_result", {"state": "cancelled"}),
        noted("ui_telemetry", {"uiEvent": {"event.name": "qwen-code.api_error", "error": "503"}}),
        noted("ui_telemetry", {"uiEvent": {"event.name": "qwen-code.api_response"}}),
    ) == [
        SessionInfo(title="made"),
        SessionInfo(title="mine"),
        SessionInfo(parent="p"),
        Note("compaction"),
        TurnEnd("cancelled"),
        Note("retry"),
    ]


def test_texts_are_whole() -> None:
    """Every text of a record is given, uncut, with its kind and its call."""
    line = record("assistant", {"text": "t", "thought": True}, {"text": "w" * 999}, call())
    found = [(piece.kind, piece.text, piece.call) for piece in AGENT.content(event_of(line), SOURCE)]
    assert found == [
        ("thinking", "t", None),
        ("text", "w" * 999, None),
        ("arguments", '{"command":"ls"}', "call_1"),
    ]
    kinds = [AGENT.content(event, SOURCE)[0].kind for event in events(REAL) if event.type in ("user", "tool_result")]
    assert kinds == ["prompt", "error"]


# -- whatever comes ----------------------------------------------------------------------------------------

WHOLE = json.dumps(record("user", {"text": "hello"}), separators=(",", ":")).encode()


@given(st.integers(0, 5), st.sampled_from([b"", b" ", WHOLE[:50], b"\x00\x00"]))
def test_glued_records_are_all_saved(many: int, before: bytes) -> None:
    """Several records on one line are cut apart, whatever is before them."""
    broken = AGENT.decode(before + WHOLE * (many + 2), SOURCE)
    assert isinstance(broken, Unusable)
    assert broken.salvaged == (WHOLE,) * (many + 2)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
WORDS = st.sampled_from(
    ["user", "assistant", "tool_result", "system", "custom_title", "turn_result", "notification", "ui_telemetry"]
)
CALLS = st.dictionaries(st.sampled_from(["id", "name", "args", "response"]), WORDS | JSON)
PARTS = st.dictionaries(st.sampled_from(["text", "thought", "functionCall", "functionResponse"]), CALLS | JSON)
LINE_KEYS = [
    *("uuid", "sessionId", "timestamp", "subtype", "cwd", "version", "promptId", "model", "usageMetadata"),
    *("toolCallResult", "systemPayload", "agentId", "agentRunId", "isSidechain", "deliveredTurn", "forkedFrom"),
]
LINES = st.builds(
    lambda rest, kind, parts: {**rest, "type": kind, "message": {"parts": parts}},
    st.dictionaries(st.sampled_from(LINE_KEYS), WORDS | JSON | CALLS),
    WORDS | JSON,
    st.lists(PARTS | JSON, max_size=3) | JSON,
)


def used_up(raw: bytes, source: Source) -> Event | Unusable:
    event = AGENT.decode(raw, source)
    if isinstance(event, Event):
        memory: dict[str, Any] = {}
        folder = Folder("s", "main", "qwen-code", StreamState())
        folder.feed(b"0" * 16, event.at, AGENT.acts(event, source, memory))
        for piece in AGENT.content(event, source):
            piece.text.encode()
        msgspec.msgpack.encode(memory)
    return event


@given(st.binary(max_size=200) | st.binary(max_size=60).map(lambda noise: WHOLE[:80] + noise + WHOLE))
def test_no_bytes_raise(raw: bytes) -> None:
    """Whatever the bytes of a file, reading them gives an event or a reason why not."""
    used_up(raw, SOURCE)
    AGENT.recognise(Path("x.jsonl"), raw)


@given(LINES | st.dictionaries(st.text(), JSON), st.sampled_from([SOURCE, SUB_SOURCE]))
def test_every_object_is_an_event(line: dict[str, Any], source: Source) -> None:
    """Any JSON object is an event with acts and texts, the same each time it is read."""
    raw = json.dumps(line).encode()
    first, second = used_up(raw, source), used_up(raw, source)
    assert isinstance(first, Event)
    assert isinstance(second, Event)
    assert (first.type, first.key, first.at, first.stream) == (second.type, second.key, second.at, second.stream)


def api(event: str, uuid: str, **facts: object) -> dict[str, Any]:
    return {**noted("ui_telemetry", {"uiEvent": {"event.name": f"qwen-code.{event}", **facts}}), "uuid": uuid}


COUNTS = {"input_token_count": 10, "output_token_count": 3, "cached_content_token_count": 4, "thoughts_token_count": 0}
USAGE = {"promptTokenCount": 10, "candidatesTokenCount": 3, "cachedContentTokenCount": 4, "thoughtsTokenCount": 0}


@pytest.mark.parametrize("telemetry_first", [True, False])
def test_telemetry_and_record_are_one_call(telemetry_first: bool) -> None:
    """In whatever order a call is logged twice, it has one name, or telemetry is ignored."""
    told = api("api_response", "t1", prompt_id="s########0", duration_ms=500, **COUNTS)
    line = record(
        "assistant", {"text": "so"}, uuid="a1", parentUuid="t1" if telemetry_first else None, usageMetadata=USAGE
    )
    acts = played(*([told, line] if telemetry_first else [line, told]))
    names = {act.response for act in of_kind(acts, SideCall)} | {act.response for act in of_kind(acts, ResponseUsage)}
    assert len(names) == 1
    if telemetry_first:
        (begin,) = of_kind(acts, StepBegin)
        at = event_of(told).at
        assert at is not None
        assert begin.start == at - 500_000


def test_a_subagents_call_is_named_alike_in_both_files() -> None:
    """Telemetry in the main log and the record in the subagent's: one name, whichever is read first."""
    told = api(
        "api_response", "t1", prompt_id="s#coder-call_1#0", subagent_name="coder", subagent_id="coder-call_1", **COUNTS
    )
    line = record("assistant", {"text": "so"}, isSidechain=True, agentId="coder-call_1", usageMetadata=USAGE)
    (side,) = of_kind(played(told), SideCall)
    (usage,) = of_kind(played(line, source=SOURCE), ResponseUsage)
    assert (side.response, side.usage) == (usage.response, usage.usage)


def test_copies_in_a_fork_have_the_names_of_their_originals() -> None:
    """A fork copies records and telemetry under new uuids, and names the originals."""

    def copied(line: dict[str, Any]) -> dict[str, Any]:
        return {**line, "uuid": f"f-{line['uuid']}", "forkedFrom": {"sessionId": "o", "messageUuid": line["uuid"]}}

    told = api("api_response", "t1", prompt_id="s########0", **COUNTS)
    line = record("assistant", {"text": "so"}, uuid="a1", usageMetadata=USAGE)
    for lines in ([told], [line], [told, line]):
        names = [getattr(act, "response", None) for act in played(*lines)]
        assert [getattr(act, "response", None) for act in played(*map(copied, lines))] == names


def test_a_failed_run_is_over() -> None:
    """An attempt that failed ends the turn with its reason until an answer takes it up again."""
    asked = record("user", {"text": "go"}, uuid="u1")
    failed = api("api_error", "t1", prompt_id="s########0", error_message="400 no")
    acts = played(asked, failed)
    assert of_kind(acts, Note) == [Note("retry")]
    assert of_kind(acts, TurnEnd) == [TurnEnd("error", "400 no")]
    again = played(asked, failed, record("assistant", {"text": "so"}, uuid="a1", usageMetadata=USAGE))
    assert of_kind(again, TurnBegin)[-1] == TurnBegin(turn="u1")
    assert of_kind(again, TurnEnd)[-1] == TurnEnd()


def test_an_earlier_turns_failure_is_not_this_ones() -> None:
    """A process that survived goes on trying at a turn that is no longer the last."""
    answered = api("api_response", "t2", prompt_id="s########2", **COUNTS)
    late = api("api_error", "t3", prompt_id="s########0", error_message="closed")
    first = [record("user", {"text": "a"}, uuid="u1"), api("api_response", "t1", prompt_id="s########0", **COUNTS)]
    for lines in (
        [*first, record("user", {"text": "b"}, uuid="u2"), late],
        [record("user", {"text": "b"}, uuid="u2"), answered, late],
    ):
        assert of_kind(played(*lines), TurnEnd) == []
