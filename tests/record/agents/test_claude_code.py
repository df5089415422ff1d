from __future__ import annotations

import itertools
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agenttrace.model import Event, Usage
from agenttrace.record.formats.claude_code import ClaudeCode
from agenttrace.record.formats.contract import Source, Unusable
from agenttrace.record.ingest.acts import (
    Act,
    Error,
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
from agenttrace.record.ingest.fold import Folder, StreamState

DATA = Path(__file__).resolve().parents[2] / "data"
SHARED = Path(__file__).resolve().parents[4] / "shared" / "samples"
GENERATED = DATA / "claude-code-2.1.197"
PROJECT = GENERATED / "projects" / "-home-dev-work"
ORIGINAL = PROJECT / "bb1bce27-aee4-45f3-aff7-ef5e31cd4b65.jsonl"
FORK = PROJECT / "5bc45ad6-a603-48ba-a47a-d3713edbd2f0.jsonl"
SUBAGENT = PROJECT / ORIGINAL.stem / "subagents" / "agent-a829eada2f7b6436b.jsonl"

A = TypeVar("A", bound=Act)

AGENT = ClaudeCode()
SOURCE = Source(agent="claude-code", session_id="s")
SUB_SOURCE = Source(agent="claude-code", session_id="s", stream="a1", parent_stream="main")

FOLDERS = [
    (GENERATED, "claude/generated-2.1.197/**"),
    (DATA / "claude-code-log-testdata", "claude/claude-code-log-testdata/**"),
    (SHARED / "claude" / "generated-2.1.197", "claude/generated-2.1.197/**"),
    (SHARED / "claude" / "claude-code-log-testdata", "claude/claude-code-log-testdata/**"),
    (SHARED / "claude" / "riemannian_flow_det-scrubbed", "claude/riemannian_flow_det-scrubbed/**"),
]


# -- playing files and lines -------------------------------------------------------------------------------


def recognised(path: Path) -> Source:
    source = AGENT.recognise(path, path.read_bytes()[:65_536])
    assert source is not None
    return source


def decoded(path: Path) -> list[tuple[Source, Event | Unusable]]:
    source = recognised(path)
    return [(source, AGENT.decode(raw, source)) for raw in path.read_bytes().splitlines()]


def events(path: Path) -> list[Event]:
    return [event for _, event in decoded(path) if isinstance(event, Event)]


def acts_of(path: Path) -> list[Act]:
    memory: dict[str, Any] = {}
    return [act for event in events(path) for act in AGENT.acts(event, recognised(path), memory)]


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


def folded(*lines: dict[str, Any]) -> Folder:
    folder = Folder("s", "main", "claude-code", StreamState())
    for number, line in enumerate(lines):
        event = event_of(line)
        folder.feed(number.to_bytes(16, "big"), event.at, AGENT.acts(event, SOURCE, folder.state.memory))
    return folder


# -- lines as Claude Code writes them ----------------------------------------------------------------------


def said(text: str | list[Any], *, uuid: str = "u1", **more: object) -> dict[str, Any]:
    return {
        "parentUuid": None,
        "isSidechain": False,
        "type": "user",
        "message": {"role": "user", "content": text},
        "uuid": uuid,
        "timestamp": "2026-04-17T04:33:35.284Z",
        "sessionId": "s",
        **more,
    }


def answered(
    *blocks: dict[str, Any], name: str = "msg_1", stop: str | None = None, output: int = 50, **more: object
) -> dict[str, Any]:
    return {
        "isSidechain": False,
        "message": {
            "id": name,
            "role": "assistant",
            "model": "claude-x",
            "content": list(blocks),
            "stop_reason": stop,
            "usage": {"input_tokens": 3, "cache_read_input_tokens": 5, "output_tokens": output},
        },
        "type": "assistant",
        "uuid": "a1",
        "timestamp": "2026-04-17T04:33:36.284Z",
        "sessionId": "s",
        **more,
    }


def text(words: str = "ok") -> dict[str, Any]:
    return {"type": "text", "text": words}


def thinking() -> dict[str, Any]:
    return {"type": "thinking", "thinking": "hm", "signature": "x"}


def call(named: str = "toolu_1", name: str = "Bash") -> dict[str, Any]:
    return {"type": "tool_use", "id": named, "name": name, "input": {"command": "ls"}}


def result(
    of: str = "toolu_1", content: object = "out", *, is_error: bool = False, uuid: str = "r1", **more: object
) -> dict[str, Any]:
    block = {"tool_use_id": of, "type": "tool_result", "content": content, "is_error": is_error}
    return said([block], uuid=uuid, **more)


# -- golden numbers ----------------------------------------------------------------------------------------


def expected_of(folder: Path, name: str) -> dict[str, Any]:
    own = folder / "expected.json"
    if own.exists():
        return dict(json.loads(own.read_text()))
    return dict(json.loads((SHARED / "EXPECTED.json").read_text())[name])


def summed(usages: list[Usage]) -> dict[str, int]:
    return {
        "input_tokens": sum(usage.input_tokens for usage in usages),
        "output_tokens": sum(usage.output_tokens for usage in usages),
        "cache_read_input_tokens": sum(usage.cache_read_tokens for usage in usages),
        "cache_creation_input_tokens": sum(usage.cache_write_tokens for usage in usages),
    }


def _by_output(usage: Usage) -> tuple[int, int]:
    return usage.output_tokens, -usage.total


@pytest.mark.parametrize(("folder", "name"), FOLDERS, ids=lambda value: str(value)[-40:])
def test_counts_are_the_golden_ones(folder: Path, name: str) -> None:
    """Lines, types, distinct ids and tokens of every sample folder are exactly those counted independently."""
    if not folder.exists():
        pytest.skip("samples are not here")
    want = expected_of(folder, name)
    files = sorted(folder.rglob("*.jsonl"))
    lines = [event for path in files for _, event in decoded(path)]
    found = [event for event in lines if isinstance(event, Event)]
    types = Counter("None" if event.type == "unknown" else event.type for event in found)
    assert (len(files), len(lines), len(lines) - len(found)) == (want["files"], want["lines"], want["unparsable"])
    assert types == want["types"]
    assert len({event.key for event in found if event.key}) == want["distinct_uuid"]
    messages = [event.body.message for event in found if event.type == "assistant"]
    assert len({message.id for message in messages}) == want["distinct_message_id"]

    usages = [act for path in files for act in acts_of(path) if isinstance(act, ResponseUsage)]
    best: dict[str, Usage] = {}
    for act in usages:
        # The hand-made ids stand for two responses each, some with equal output: the smaller was counted then.
        best[act.response] = max(best.get(act.response, Usage()), act.usage, key=_by_output)
    assert summed(list(best.values())) == want["usage_dedup_by_message_id"]
    assert summed([act.usage for act in usages]) == want["usage_naive_sum"]


def test_a_fork_names_the_same_responses() -> None:
    """Every response of the original is named the same in its fork, whose own responses come on top."""
    original, fork = ({act.response for act in of_kind(acts_of(path), ResponseUsage)} for path in (ORIGINAL, FORK))
    assert len(original) == 4
    assert original < fork
    assert fork - original == {"claude:msg_01n3dwHjhxCiQADMqOLRAxXV"}


def test_a_fork_is_a_separate_session() -> None:
    """The fork belongs to the session its file is named after and is known to have come later."""
    assert recognised(FORK).session_id == FORK.stem
    copied = [[act.copied for act in of_kind(acts_of(path), SessionInfo) if act.copied] for path in (ORIGINAL, FORK)]
    assert copied == [[], [True]]


def test_a_generated_session_folds_into_its_turns() -> None:
    """The real session has two turns of two calls each, all closed, and then waits for the user."""
    folder = Folder("s", "main", "claude-code", StreamState())
    source = recognised(ORIGINAL)
    for number, event in enumerate(events(ORIGINAL)):
        folder.feed(number.to_bytes(16, "big"), event.at, AGENT.acts(event, source, folder.state.memory))
    spans = list(folder.changed.values())
    assert [(span.kind, span.status) for span in spans if span.kind == "turn"] == [("turn", "ok")] * 2
    assert Counter(span.status for span in spans if span.kind == "step") == {"ok": 4}
    assert Counter(span.status for span in spans if span.kind == "tool") == {"ok": 3, "error": 1}
    assert folder.state.state == "waiting"
    assert folder.spawned == [Spawned("toolu_u57mnXm4gi4piUfqygB18AIY", "a829eada2f7b6436b", "general-purpose")]


# -- which file is this ------------------------------------------------------------------------------------


def test_a_subagent_file_says_who_started_it() -> None:
    """Session, stream, kind and the call that started it come from the path and the file beside it."""
    source = recognised(SUBAGENT)
    assert source == Source(
        agent="claude-code",
        session_id=ORIGINAL.stem,
        stream="a829eada2f7b6436b",
        parent_stream="main",
        parent_call="toolu_u57mnXm4gi4piUfqygB18AIY",
        name="general-purpose",
        directory=str(SUBAGENT.parent),
    )
    assert {event.stream for event in events(SUBAGENT)} == {None}


def test_an_old_subagent_file_beside_its_session_belongs_to_it(tmp_path: Path) -> None:
    """Without the ``subagents`` directory the session is the one its lines name."""
    path = tmp_path / "agent-1234abcd.jsonl"
    path.write_text(json.dumps(said("go", isSidechain=True, agentId="1234abcd", sessionId="parent")) + "\n")
    assert (recognised(path).session_id, recognised(path).stream) == ("parent", "1234abcd")


@pytest.mark.parametrize("more", [{"sessionId": "other"}, {"forkedFrom": {"sessionId": "other"}}])
def test_copied_lines_name_the_session_they_came_from(tmp_path: Path, more: dict[str, Any]) -> None:
    """Lines that keep their old session, or say where they were forked from, make the file a copy of it."""
    path = tmp_path / f"{FORK.stem}.jsonl"
    path.write_text(json.dumps(said("go", **{"sessionId": FORK.stem, **more})) + "\n")
    source, (told, *_) = recognised(path), [*of_kind(acts_of(path), SessionInfo), SessionInfo()]
    assert (source.session_id, source.parent_session or told.parent) == (FORK.stem, "other")
    assert source.copied or told.copied


def test_a_first_line_longer_than_the_head_is_recognised(tmp_path: Path) -> None:
    """A session that opens with a huge paste is known by how that line begins."""
    path = tmp_path / "named.jsonl"
    path.write_text(json.dumps(said("x" * 100_000, cwd="/w")) + "\n")
    assert recognised(path).session_id == "named"


@pytest.mark.parametrize(
    "head",
    [
        b"",
        b"not json\n",
        b"[1]\n",
        b'{"type":"session_meta","payload":{"id":"x"}}\n',
        b'{"timestamp":1.5,"message":{"type":"TurnBegin","payload":{}}}\n',
        b'{"v":1,"session":"s","type":"turn.begin"}\n',
        b'{"sessionId":"s","projectHash":"p","startTime":"2026-01-01T00:00:00Z"}\n',
        (DATA / "qwen-code" / "qwen_code.splitrail.jsonl").read_bytes(),
    ],
)
def test_other_logs_are_not_ours(head: bytes) -> None:
    """No other format is taken for Claude Code's, whatever its file is called."""
    assert AGENT.recognise(FORK, head) is None


def test_homes_follow_the_environment(tmp_path: Path) -> None:
    """The default places, every directory of ``CLAUDE_CONFIG_DIR`` instead, and the desktop app's always."""
    default = AGENT.homes({}, tmp_path)
    assert default[:2] == [tmp_path / ".claude" / "projects", tmp_path / ".config" / "claude" / "projects"]
    named = AGENT.homes({"CLAUDE_CONFIG_DIR": "/a, ~/b", "APPDATA": "/roaming"}, tmp_path)
    assert named[:2] == [Path("/a/projects"), tmp_path / "b" / "projects"]
    assert Path("/roaming/Claude/local-agent-mode-sessions") in named
    assert default[2:] == named[2:4]


def test_files_that_are_no_logs_are_ignored() -> None:
    """Lists of typed prompts, workflow journals and mirrors of a session are not read."""
    assert AGENT.is_log(ORIGINAL)
    assert AGENT.is_log(SUBAGENT)
    assert not any(map(AGENT.is_log, map(Path, ("history.jsonl", "x/journal.jsonl", "audit.jsonl", "a.txt"))))


# -- broken lines ------------------------------------------------------------------------------------------


WHOLE = json.dumps(said("hello"), separators=(",", ":")).encode()


@pytest.mark.parametrize("raw", [b'"massive error"', b"42", b"[1]", b"null", b"true"])
def test_json_that_is_no_object_is_quarantined(raw: bytes) -> None:
    """A line of JSON that is no object is set aside, with its reason."""
    assert AGENT.decode(raw, SOURCE) == Unusable("not a JSON object", harmless=False)


@pytest.mark.parametrize("raw", [b"", b"  ", b"\r"])
def test_blank_lines_are_harmless(raw: bytes) -> None:
    """Nothing is missing when a line is blank."""
    assert AGENT.decode(raw, SOURCE) == Unusable("blank line", harmless=True)


@pytest.mark.parametrize("cut", range(1, len(WHOLE), 7))
def test_a_line_written_into_another_is_saved(cut: int) -> None:
    """However much of one line is before another, the whole one is cut out, byte for byte."""
    torn = AGENT.decode(WHOLE[:cut] + WHOLE, SOURCE)
    assert isinstance(torn, Unusable)
    assert (torn.harmless, torn.salvaged) == (False, (WHOLE,))


@pytest.mark.parametrize("raw", [b'-mixing-swan"}', WHOLE[:-1], WHOLE[40:]])
def test_a_half_line_gives_nothing(raw: bytes) -> None:
    """What is left of a torn line is not taken for a line, nor are the blocks inside it."""
    torn = AGENT.decode(raw, SOURCE)
    assert isinstance(torn, Unusable)
    assert not torn.harmless
    assert torn.salvaged == ()


def test_a_message_inside_a_torn_progress_line_is_not_a_line() -> None:
    """A subagent's message embedded in a progress line would count its tokens twice if it were cut out."""
    inner = {"type": "assistant", "message": answered(text())["message"], "uuid": "x", "timestamp": "t"}
    line = {"parentUuid": None, "type": "progress", "data": {"message": inner}, "sessionId": "s"}
    torn = AGENT.decode(json.dumps(line).encode()[:-20], SOURCE)
    assert isinstance(torn, Unusable)
    assert torn.salvaged == ()


def test_glued_lines_are_all_saved() -> None:
    """Two whole lines without a newline between them are both cut out."""
    torn = AGENT.decode(WHOLE + WHOLE, SOURCE)
    assert isinstance(torn, Unusable)
    assert torn.salvaged == (WHOLE, WHOLE)


def test_half_a_surrogate_pair_costs_one_character() -> None:
    """A prompt cut in the middle of an emoji is still a prompt, under the same key."""
    raw = WHOLE.replace(b"hello", b"hello \\ud83d")
    event = AGENT.decode(raw, SOURCE)
    assert isinstance(event, Event)
    assert event.key == "u1"
    assert [piece.text for piece in AGENT.content(event, SOURCE)] == ["hello ?"]


def test_bytes_that_are_no_text_cost_those_bytes() -> None:
    """A byte that is no UTF-8 in a text leaves the line an event."""
    event = AGENT.decode(WHOLE.replace(b"hello", b"hello \xff"), SOURCE)
    assert isinstance(event, Event)
    assert of_kind(list(AGENT.acts(event, SOURCE, {})), TurnBegin)[0].prompt == "hello \ufffd"


@pytest.mark.parametrize("field", ["isSidechain", "promptId", "cwd", "timestamp", "requestId", "isMeta"])
def test_a_field_of_another_type_costs_that_field(field: str) -> None:
    """One field that is not what it should be leaves the others as they are."""
    event = event_of({**said("hello"), field: {"odd": [1]}})
    assert (event.type, event.key) == ("user", "u1")
    assert of_kind(list(AGENT.acts(event, SOURCE, {})), TurnBegin)[0].prompt == "hello"


def test_odd_blocks_do_not_hide_good_ones() -> None:
    """A message with something else among its blocks still begins its tools and counts its tokens."""
    line = answered(call())
    line["message"]["content"] += ["wow error", 5, {"type": 3}]
    line["message"]["usage"]["cache_creation"] = "odd"
    acts = played(line)
    assert [act.call for act in of_kind(acts, ToolBegin)] == ["toolu_1"]
    assert of_kind(acts, ResponseUsage)[0].usage.output_tokens == 50


@pytest.mark.parametrize(
    ("written", "at"),
    [
        ("1970-01-01T00:00:01Z", 1_000_000),
        ("1970-01-01T00:00:01.000001Z", 1_000_001),
        ("1970-01-01T00:00:01", 1_000_000),
        ("1970-01-01T01:00:01+01:00", 1_000_000),
        (1_700_000_000_123, 1_700_000_000_123_000),
        ("yesterday", None),
        (None, None),
    ],
)
def test_times_are_read_as_written(written: object, at: int | None) -> None:
    """ISO times, with or without a zone, and epoch milliseconds give exact microseconds; others give none."""
    assert event_of({**said("x"), "timestamp": written}).at == at


def test_a_known_uuid_is_the_key_and_nothing_else_is() -> None:
    """Lines without a uuid have no key: two equal ones in one millisecond are two events."""
    assert event_of(said("x")).key == "u1"
    operation = {"type": "queue-operation", "operation": "dequeue", "timestamp": "2026-01-01T00:00:00Z"}
    assert event_of(operation).key is None


def test_subagents_inside_the_main_file_are_streams_of_their_own() -> None:
    """Old versions wrote subagents' lines between the session's own; their mark separates them."""
    assert event_of(said("x", isSidechain=True)).stream == "sidechain"
    assert event_of(said("x", isSidechain=True, agentId="a1")).stream == "a1"
    assert event_of(said("x", isSidechain=True, agentId="a1"), SUB_SOURCE).stream is None


# -- turns -------------------------------------------------------------------------------------------------


def test_a_prompt_begins_a_turn() -> None:
    """Prompts, also those in blocks behind what an editor put before them, begin a turn named by the prompt."""
    assert played(said("do it", promptId="p")) == [TurnBegin("do it", "user", "p")]
    assert played(said([text("<ide_opened_file>f</ide_opened_file>"), text("do it")])) == [
        TurnBegin("do it", "user", "u1")
    ]


@pytest.mark.parametrize(
    "line",
    [
        said("Base directory for this skill: …", isMeta=True),
        said("This session is being continued …", isCompactSummary=True),
        said("<local-command-stdout>done</local-command-stdout>"),
        said("<command-name>/clear</command-name>\n<command-message>clear</command-message>"),
        said([text("Caveat: The messages below were generated by the user while running local commands.")]),
        said("<bash-input>ls</bash-input>"),
        said([], toolUseResult="done"),
        {"type": "user", "uuid": "u", "message": "error"},
    ],
)
def test_injected_lines_begin_no_turn(line: dict[str, Any]) -> None:
    """Injected lines, summaries and the traces of local commands are no prompts."""
    assert of_kind(played(line), TurnBegin) == []


def test_a_command_that_is_a_prompt_begins_a_turn() -> None:
    """A custom command is shown as it was typed."""
    words = "<command-message>fix</command-message>\n<command-name>/fix</command-name>\n<command-args>it</command-args>"
    assert played(said(words)) == [TurnBegin("/fix it", "user", "u1")]


@pytest.mark.parametrize(
    ("line", "source", "origin"),
    [
        (said("<task-notification>done</task-notification>"), SOURCE, "task"),
        (said("hi", origin={"kind": "peer"}), SOURCE, "task"),
        (said("hi", origin={"kind": "human"}), SOURCE, "user"),
        (said("hi", isSidechain=True), SOURCE, "subagent"),
        (said("hi", isSidechain=True), SUB_SOURCE, "subagent"),
    ],
)
def test_turns_say_who_asked(line: dict[str, Any], source: Source, origin: str) -> None:
    """A turn that a task or another agent set off is not shown as the user's."""
    assert of_kind(played(line, source=source), TurnBegin)[0].origin == origin


def test_a_step_begins_when_the_line_before_it_was_written() -> None:
    """Lines are written when a block is complete: the model has worked since the prompt or the last result."""
    folder = folded(said("go"), answered(call(), stop="tool_use"))
    (step,) = [span for span in folder.changed.values() if span.kind == "step"]
    assert (step.end or 0) - step.start == 1_000_000


def test_a_response_that_stops_ends_the_turn_once() -> None:
    """Each line of the last response repeats the end; all belong to one turn, which ends with the last of them."""
    folder = folded(
        said("go", promptId="p"),
        answered(thinking(), stop="end_turn"),
        answered(text(), stop="end_turn", uuid="a2", timestamp="2026-04-17T04:33:38.284Z"),
    )
    turns = [span for span in folder.changed.values() if span.kind == "turn"]
    assert [(span.status, (span.end or 0) - span.start) for span in turns] == [("ok", 3_000_000)]
    assert (folder.new_turns, folder.new_steps, folder.state.state) == (1, 1, "waiting")


def test_a_stop_hook_sends_the_same_turn_on() -> None:
    """What the agent does after a hook refused its stop belongs to the turn that the hook prolonged."""
    folder = folded(
        said("go", promptId="p"),
        answered(text(), stop="end_turn"),
        said("Stop hook feedback:\nrun the tests", isMeta=True, uuid="u2"),
        answered(call(), name="msg_2", stop="tool_use", uuid="a2"),
    )
    assert (folder.new_turns, folder.new_steps, folder.state.state) == (1, 2, "working")


def test_work_after_a_local_command_is_not_the_old_turns() -> None:
    """A built-in command that makes the model work begins a turn."""
    folder = folded(
        said("go", promptId="p"),
        answered(text(), stop="end_turn"),
        said("<command-name>/init</command-name>", uuid="u2"),
        answered(call(), name="msg_2", stop="tool_use", uuid="a2"),
    )
    assert folder.new_turns == 2


def test_a_second_line_of_one_prompt_stays_in_its_turn() -> None:
    """Lines that share a prompt id are one turn, however many they are."""
    folder = folded(said("go", promptId="p"), said("[Image: a.png]", promptId="p", uuid="u2"))
    assert folder.new_turns == 1


def test_an_interruption_cancels_the_turn() -> None:
    """The note that the user pressed escape is no prompt; the turn's time message after it changes nothing."""
    duration = {"type": "system", "subtype": "turn_duration", "durationMs": 5, "uuid": "d", "sessionId": "s"}
    folder = folded(said("go"), said([text("[Request interrupted by user]")], uuid="u2"), duration)
    assert [span.status for span in folder.changed.values()] == ["cancelled"]
    assert folder.state.state == "interrupted"


def test_a_turn_duration_ends_a_turn_that_nothing_else_ended() -> None:
    """Old versions write no stop reason; the time message is then the end."""
    duration = {"type": "system", "subtype": "turn_duration", "durationMs": 5, "uuid": "d", "sessionId": "s"}
    assert of_kind(played(said("go"), answered(text()), duration), TurnEnd) == [TurnEnd()]


def test_a_failed_request_ends_the_turn_in_error() -> None:
    """A message made up by the agent to show an error is no model call and costs nothing."""
    line = answered(text("Not logged in"), stop="stop_sequence", output=0, isApiErrorMessage=True)
    line["message"]["model"] = "<synthetic>"
    assert played(said("go"), line)[1:] == [
        Error("Not logged in", "turn"),
        TurnEnd("error", "Not logged in"),
    ]


def test_a_synthetic_message_means_nothing() -> None:
    """``No response requested.`` was never said by a model."""
    line = answered(text("No response requested."), stop="stop_sequence")
    line["message"]["model"] = "<synthetic>"
    assert played(line) == []


def test_a_question_waits_for_the_user() -> None:
    """The session waits while the agent's question is open, and works again when it is answered."""
    folder = folded(said("go"), answered(call(name="AskUserQuestion"), stop="tool_use"))
    assert folder.state.state == "waiting"
    assert played(answered(call(name="AskUserQuestion")))[-1] == Waiting()
    folder = folded(said("go"), answered(call(name="AskUserQuestion"), stop="tool_use"), result())
    assert folder.state.state == "working"


# -- usage: three eras -------------------------------------------------------------------------------------


def usages(*lines: dict[str, Any]) -> list[tuple[int, bool]]:
    return [(act.usage.output_tokens, act.estimated) for act in of_kind(played(*lines), ResponseUsage)]


def test_placeholders_of_the_first_era_are_estimates() -> None:
    """Up to 2.1.39 no line has a stop reason and output is a placeholder: it is marked as such."""
    assert usages(answered(thinking(), output=8), answered(text(), output=8)) == [(8, True), (8, True)]


def test_the_last_line_of_the_second_era_is_final() -> None:
    """Around 2.1.63 only the last line has the final numbers; a late repetition does not make them a guess."""
    lines = [answered(thinking(), output=2), answered(text(), output=3), answered(call(), stop="tool_use", output=315)]
    assert usages(*lines, answered(text(), output=3)) == [(2, True), (3, True), (315, False), (3, False)]


def test_every_line_of_the_third_era_is_final() -> None:
    """Since 2.1.112 each line repeats the final numbers under one response name."""
    lines = [answered(block, stop="tool_use", output=140) for block in (thinking(), text(), call())]
    assert usages(*lines) == [(140, False)] * 3
    assert {act.response for act in of_kind(played(*lines), ResponseUsage)} == {"claude:msg_1"}


CLOCK = "msg_20251030084941"


def names(*lines: dict[str, Any], known: Sequence[bool] = ()) -> list[str]:
    """What the responses in the lines are called; ``known`` ones were recorded before."""
    memory: dict[str, Any] = {}
    found: list[str] = []
    for line, repeated in zip(lines, itertools.chain(known, itertools.repeat(False)), strict=False):
        event = event_of(line)
        if repeated:
            usage = AGENT.repeated_usage(event, SOURCE, memory)
            found += [] if usage is None else [usage.response]
        else:
            found += [act.response for act in of_kind(list(AGENT.acts(event, SOURCE, memory)), ResponseUsage)]
        memory = msgspec.msgpack.decode(msgspec.msgpack.encode(memory))
    return found


@pytest.mark.parametrize(
    "name",
    [
        "msg_016JqtQy9235Nnt2j9IHrKFm",
        "msg_bdrk_01ANb7qiSXbcmjoaRsuUwpNF",
        "a1554107-dcb4-4148-b406-77fa2626e679",
        "chatcmpl-9f3c1a7be2d04c5e8a1b2c3d4e5f6071",
        "gen-1762345678-hGQ2nYbXw0pLkZtR5sVd",
        "202510300849418f3c2b1a7e6d4c5b",
        "msg_001",
    ],
)
def test_ids_that_are_unique_name_their_responses(name: str) -> None:
    """Whatever else is in a line, so that the responses in existing stores keep their names."""
    lines = [answered(text(), name=name, uuid="a1", parentUuid="u1"), answered(text(), name=name, uuid="b1")]
    assert names(*lines) == [f"claude:{name}"] * 2


def test_one_response_under_an_id_made_from_a_clock() -> None:
    """Its lines hang on each other, or on the result of a call between them; some logs do not say on what."""
    lines = [
        answered(thinking(), name=CLOCK, uuid="a1", parentUuid="u1"),
        answered(call(), name=CLOCK, uuid="a2", parentUuid="a1"),
        result(uuid="r1", parentUuid="a2"),
        answered(call("toolu_2"), name=CLOCK, uuid="a3", parentUuid="r1"),
        answered(text(), name=CLOCK, uuid="a4", parentUuid=None),
    ]
    assert len(set(names(*lines))) == 1
    assert len(set(names(*lines, known=[True, True, True]))) == 1


@pytest.mark.parametrize(
    "other",
    [
        {"parentUuid": "u2"},
        {"parentUuid": "a1", "model": "claude-y"},
        {"parentUuid": "a1", "requestId": "req_011CSHoEeqs5C35K2UUqR7Fy"},
    ],
)
def test_responses_that_share_an_id_made_from_a_clock(other: dict[str, str]) -> None:
    """Another model, another request, another chain of lines: another response, with another step."""
    second = answered(text(), name=CLOCK, uuid="b1", parentUuid=other["parentUuid"])
    second |= {"requestId": other["requestId"]} if "requestId" in other else {}
    second["message"]["model"] = other.get("model", "claude-x")
    first = answered(text(), name=CLOCK, uuid="a1", parentUuid="u1")
    assert len(set(names(first, second))) == 2
    assert len({span.span_id for span in folded(first, second).changed.values() if span.kind == "step"}) == 2


@given(st.data())
def test_names_do_not_depend_on_what_was_recorded_before(data: st.DataObject) -> None:
    """A copy names its responses as the original does, whichever of its lines are known already."""
    lines: list[dict[str, Any]] = []
    for number in range(data.draw(st.integers(1, 8))):
        name = data.draw(st.sampled_from([CLOCK, "msg_20251030084942", f"msg_01{number}AbCdEfGhIjKlMnOpQrSt"]))
        above = "u1" if not lines else data.draw(st.sampled_from([line["uuid"] for line in lines] + ["u1"]))
        for part in range(data.draw(st.integers(1, 3))):
            uuid = f"{number}-{part}"
            lines.append(answered(call(uuid), name=name, uuid=uuid, parentUuid=above))
            above = uuid
        lines.append(result(of=above, uuid=f"{number}-r", parentUuid=above))
    known = data.draw(st.lists(st.booleans(), max_size=len(lines)))
    assert names(*lines, known=known) == names(*lines)


def test_large_output_without_a_stop_reason_is_no_placeholder() -> None:
    """Backends that never tell why they stopped are believed."""
    assert usages(answered(text(), output=500)) == [(500, False)]


def test_cache_writes_of_an_hour_are_counted_apart() -> None:
    """All counts are disjoint, and the hour's share is part of what was written."""
    line = answered(text())
    line["message"]["usage"] |= {
        "cache_creation_input_tokens": 30,
        "cache_creation": {"ephemeral_1h_input_tokens": 20, "ephemeral_5m_input_tokens": 10},
    }
    assert of_kind(played(line), ResponseUsage)[0].usage == Usage(
        input_tokens=3, output_tokens=50, cache_read_tokens=5, cache_write_tokens=30, cache_write_1h_tokens=20
    )


@pytest.mark.parametrize("odd", [-5, 2**70, 1.5, "7", None])
def test_counts_that_are_none_count_nothing(odd: object) -> None:
    """What cannot be a number of tokens is not summed."""
    line = answered(text())
    line["message"]["usage"]["input_tokens"] = odd
    assert of_kind(played(line), ResponseUsage)[0].usage.input_tokens == 0


def test_a_subagents_progress_links_and_counts_nothing() -> None:
    """The embedded message's usage stays uncounted, and the link is made once."""
    data = {"type": "agent_progress", "agentId": "a9", "message": answered(text())}
    line = {"type": "progress", "data": data, "parentToolUseID": "toolu_1", "uuid": "p", "sessionId": "s"}
    assert played(line, line) == [Spawned("toolu_1", "a9")]


# -- steps, tools, notes -----------------------------------------------------------------------------------


def test_parallel_calls_belong_to_one_step() -> None:
    """The lines of one message are one model call, with results in between or not."""
    folder = folded(
        said("go"),
        answered(call("t1"), stop="tool_use"),
        result("t1"),
        answered(call("t2"), stop="tool_use", uuid="a2"),
        result("t2", uuid="r2"),
    )
    assert (folder.new_steps, folder.new_tools) == (1, 2)
    assert {span.status for span in folder.changed.values() if span.kind == "tool"} == {"ok"}


@pytest.mark.parametrize(
    ("line", "end"),
    [
        (result(), ToolEnd("toolu_1")),
        (result(content="Exit code 3", is_error=True), ToolEnd("toolu_1", "error", "Exit code 3")),
        (result(content=[text("a"), text("b")], is_error=True), ToolEnd("toolu_1", "error", "a\nb")),
        (
            result(content="The user doesn't want to proceed with this tool use.", is_error=True),
            ToolEnd("toolu_1", "cancelled", "The user doesn't want to proceed with this tool use."),
        ),
        (result(content="half", toolUseResult={"interrupted": True}), ToolEnd("toolu_1", "cancelled", "half")),
    ],
)
def test_results_end_their_tools(line: dict[str, Any], end: ToolEnd) -> None:
    """A result tells how the call went, and the error."""
    assert played(line) == [end]


def test_tools_of_the_provider_begin_and_end_in_the_answer() -> None:
    """Searches that the provider runs itself have call and result in the same message."""
    acts = played(
        answered(
            {"type": "server_tool_use", "id": "srv_1", "name": "web_search", "input": {}},
            {"type": "web_search_tool_result", "tool_use_id": "srv_1", "content": []},
        )
    )
    assert of_kind(acts, ToolBegin) == [ToolBegin("srv_1", "web_search", "msg_1")]
    assert of_kind(acts, ToolEnd) == [ToolEnd("srv_1")]


def test_subagent_calls_are_marked() -> None:
    """Both names that the tool has had are known."""
    acts = played(answered(call("t1", "Task"), call("t2", "Agent"), call("t3", "TaskCreate")))
    assert [act.subagent for act in of_kind(acts, ToolBegin)] == [True, True, False]


def test_steps_end_with_their_reason() -> None:
    """Only a line with a stop reason ends a step."""
    assert of_kind(played(answered(text())), StepEnd) == []
    assert of_kind(played(answered(call(), stop="tool_use")), StepEnd) == [StepEnd("msg_1", finish_reason="tool_use")]


def test_retries_compactions_and_steering_are_noted() -> None:
    """What happened beside the conversation is counted, not folded."""
    system = {"type": "system", "uuid": "x", "sessionId": "s"}
    assert played(
        {**system, "subtype": "api_error", "retryAttempt": 1, "error": {"error": {"message": "overloaded"}}},
        {**system, "subtype": "compact_boundary", "compactMetadata": {"trigger": "auto", "preTokens": 5}},
        {"type": "attachment", "attachment": {"type": "queued_command", "prompt": "also this"}},
        {"type": "attachment", "attachment": {"type": "skill_listing", "content": "- x"}},
    ) == [Note("retry"), Note("compaction"), Note("steer")]


def test_facts_are_reported_when_they_change() -> None:
    """Directory, branch, version and model are said once, and of the main stream only."""
    line = answered(text(), cwd="/w", gitBranch="main", version="2.1.197")
    assert of_kind(played(line, line, {**line, "cwd": "/v"}), SessionInfo) == [
        SessionInfo(cwd="/w", branch="main", version="2.1.197"),
        SessionInfo(model="claude-x"),
        SessionInfo(cwd="/v", branch="main", version="2.1.197"),
    ]
    assert of_kind(played(line, source=SUB_SOURCE), SessionInfo) == []


def test_the_users_title_wins() -> None:
    """A generated title never replaces the one the user gave."""
    titles = of_kind(
        played(
            {"type": "summary", "summary": "old", "leafUuid": "x"},
            {"type": "ai-title", "aiTitle": "made", "sessionId": "s"},
            {"type": "custom-title", "customTitle": "given", "sessionId": "s"},
            {"type": "ai-title", "aiTitle": "made", "sessionId": "s"},
        ),
        SessionInfo,
    )
    assert [act.title for act in titles] == ["old", "made", "given"]


def test_every_answer_begins_its_step() -> None:
    """A response without an id still has a step and a name, from the line itself."""
    line = answered(text())
    del line["message"]["id"]
    acts = played(line)
    assert of_kind(acts, StepBegin) == [StepBegin("a1", None, "claude-x", implied=True)]
    assert of_kind(acts, ResponseUsage)[0].response == "claude:a1"


# -- texts -------------------------------------------------------------------------------------------------


def texts(line: dict[str, Any]) -> list[tuple[str, str, str | None]]:
    return [(piece.kind, piece.text, piece.call) for piece in AGENT.content(event_of(line), SOURCE)]


@pytest.mark.parametrize(
    ("line", "want"),
    [
        (said("do it"), [("prompt", "do it", None)]),
        (said([text("a"), text("b")]), [("prompt", "a", None), ("prompt", "b", None)]),
        (said("skill body", isMeta=True), [("note", "skill body", None)]),
        (answered(text("words"), thinking()), [("text", "words", None), ("thinking", "hm", None)]),
        (answered(call()), [("arguments", '{"command":"ls"}', "toolu_1")]),
        (result(content="x" * 9999), [("result", "x" * 9999, "toolu_1")]),
        (result(content=[text("a"), {"type": "image"}]), [("result", "a\n[image]", "toolu_1")]),
        (result(content="no", is_error=True), [("error", "no", "toolu_1")]),
        ({"type": "system", "content": "note"}, [("note", "note", None)]),
        ({"type": "ai-title", "aiTitle": "t"}, [("note", "t", None)]),
        ({"type": "attachment", "attachment": {"type": "queued_command", "prompt": "p"}}, [("note", "p", None)]),
        ({"type": "mode", "mode": "normal"}, []),
    ],
)
def test_texts_are_whole(line: dict[str, Any], want: list[tuple[str, str, str | None]]) -> None:
    """Every text of a line is given, uncut, with its kind and its call."""
    assert texts(line) == want


# -- whatever comes ----------------------------------------------------------------------------------------

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
WORDS = st.sampled_from(
    ["user", "assistant", "system", "progress", "attachment", "summary", "tool_use", "tool_result", "text", "end_turn"]
)
BLOCK_KEYS = ["type", "id", "name", "tool_use_id", "is_error", "text", "thinking", "input", "content"]
BLOCKS = st.dictionaries(st.sampled_from(BLOCK_KEYS), WORDS | JSON, max_size=9)
MESSAGE_KEYS = ["id", "model", "stop_reason", "usage"]
MESSAGES = st.dictionaries(st.sampled_from(MESSAGE_KEYS), WORDS | JSON).flatmap(
    lambda rest: st.builds(lambda content: {**rest, "content": content}, st.lists(BLOCKS | JSON) | JSON)
)
LINE_KEYS = [
    *("isSidechain", "promptId", "agentId", "attachment", "requestId", "subtype", "content", "isMeta"),
    *("uuid", "timestamp", "toolUseResult", "origin", "data", "parentToolUseID", "error", "compactMetadata"),
    *("summary", "aiTitle", "customTitle", "cwd", "version", "gitBranch", "isApiErrorMessage", "sessionId"),
]
LINES = st.builds(
    lambda rest, kind, message: {**rest, "type": kind, "message": message},
    st.dictionaries(st.sampled_from(LINE_KEYS), WORDS | JSON),
    WORDS | JSON,
    MESSAGES | JSON,
)


def used_up(raw: bytes, source: Source) -> Event | Unusable:
    event = AGENT.decode(raw, source)
    if isinstance(event, Event):
        memory: dict[str, Any] = {}
        folder = Folder("s", "main", "claude-code", StreamState())
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


def real_lines() -> Iterator[bytes]:
    for path in sorted(GENERATED.rglob("*.jsonl")):
        yield from path.read_bytes().splitlines()


@given(st.sampled_from(sorted(set(real_lines()))), st.data())
def test_a_line_cut_anywhere_is_never_half_an_event(raw: bytes, data: st.DataObject) -> None:
    """Half a real line is no event, and the whole line behind it is found again."""
    cut = data.draw(st.integers(1, len(raw) - 1))
    half = AGENT.decode(raw[:cut], SOURCE)
    assert isinstance(half, Unusable)
    assert half.salvaged == ()
    torn = AGENT.decode(raw[:cut] + raw, SOURCE)
    assert isinstance(torn, Unusable)
    assert raw in torn.salvaged


# -- newer and older lines ---------------------------------------------------------------------------------


def turns_of(folder: Folder) -> list[tuple[str, str | None]]:
    """Status and prompt of each turn."""
    turns = [span for span in folder.changed.values() if span.kind == "turn"]
    return [(turn.status, turn.attributes.get("prompt")) for turn in sorted(turns, key=lambda turn: turn.turn_index)]


def test_an_answer_ends_a_turn_without_a_stop_reason() -> None:
    """Old logs never say why the model stopped: its words end the turn, unless a call is open or follows."""
    assert folded(said("do"), answered(text())).state.state == "waiting"
    assert turns_of(folded(said("do"), answered(text()))) == [("ok", "do")]
    goes_on = [said("do"), answered(text()), answered(call(), uuid="a2")]
    assert folded(*goes_on).state.state == "working"
    assert turns_of(folded(*goes_on)) == [("open", "do")]
    done = [*goes_on, result(), answered(text(), name="msg_2", uuid="a3")]
    assert turns_of(folded(*done)) == [("ok", "do")]
    assert turns_of(folded(*done, said("more", uuid="u2"))) == [("ok", "do"), ("open", "more")]
    # While another call is open, words are no end.
    parallel = [said("do"), answered(call("t1"), call("t2")), result("t1"), answered(text(), name="msg_2", uuid="a4")]
    assert turns_of(folded(*parallel)) == [("open", "do")]


def test_prompts_of_a_fork_are_turns_although_they_share_an_id() -> None:
    """A fork gives all prompts one prompt id; a prompt after an answer, or at another place, is another turn."""
    one: dict[str, Any] = {"promptId": "p", "turnPosition": {"turnIndex": 1}}
    two: dict[str, Any] = {"promptId": "p", "turnPosition": {"turnIndex": 2}}
    folder = folded(
        said("first", **one),
        answered(text(), stop="end_turn"),
        said("second", uuid="u2", **two),
        said("third", uuid="u3", promptId="q"),
    )
    assert [prompt for _, prompt in turns_of(folder)] == ["first", "second", "third"]
    killed = folded(said("first", **one), said("second", uuid="u2", **two))
    assert [prompt for _, prompt in turns_of(killed)] == ["first", "second"]
    old = folded(said("a", promptId="p"), answered(text(), stop="end_turn"), said("b", uuid="u2", promptId="p"))
    assert [prompt for _, prompt in turns_of(old)] == ["a", "b"]


def test_a_scheduled_task_begins_a_turn() -> None:
    """``/loop``: the turn begins when the task fires; its prompt is in the next line."""
    fired = {**said("", uuid="f1"), "type": "system", "subtype": "scheduled_task_fire", "content": "Running task"}
    del fired["message"]
    before = [said("start"), answered(text(), stop="end_turn")]
    for asked in (said("check the build", uuid="u2", isMeta=True), said("check the build", uuid="u2", promptId="z")):
        folder = folded(*before, fired, asked, answered(text(), name="msg_2", stop="end_turn", uuid="a2"))
        assert turns_of(folder) == [("ok", "start"), ("ok", "check the build")]


@pytest.mark.parametrize(
    "line",
    [
        {
            "type": "api-request-blob",
            "sessionId": "s",
            "hash": "h",
            "message": {"role": "user", "content": "hello there"},
        },
        {"type": "api-request-shape", "sessionId": "s", "shape": {"system": ["be good"]}, "content": "hello"},
        {"type": "api-request", "sessionId": "s", "id": "x", "params": {"model": "m"}, "content": "hello"},
        {"type": "tools-used", "sessionId": "s", "tools": ["Read"], "content": "hello"},
        {"type": "atis-latch", "sessionId": "s", "atis": "", "content": "hello"},
    ],
    ids=lambda line: line["type"],
)
def test_requests_have_no_texts(line: dict[str, Any], tmp_path: Path) -> None:
    """What was sent to the model is recorded, and is no message, prompt or text to be found; it tells a file, too."""
    event = event_of(line)
    assert event.type == line["type"]
    assert AGENT.content(event, SOURCE) == []
    assert played(line) == []
    log = tmp_path / "copied.jsonl"
    log.write_text(json.dumps(line) + "\n")
    assert recognised(log).session_id == "s"


def test_the_agents_own_total() -> None:
    """``cost-state`` tells what was used since the process, or the one it went on from, began."""
    counts = {
        "inputTokens": 5,
        "outputTokens": 4,
        "thinkingTokens": 3,
        "cacheReadInputTokens": 2,
        "cacheCreationInputTokens": 1,
    }
    state = {
        "type": "cost-state",
        "sessionId": "s",
        "startTime": 1_794_789_643_017,
        "modelUsage": {"m": counts, "odd": 3},
    }
    usage = Usage(input_tokens=5, output_tokens=4, reasoning_tokens=3, cache_read_tokens=2, cache_write_tokens=1)
    want = ReportedTotals(segment="claude:1794789643017", usage={"m": usage}, since=1_794_789_643_017_000)
    assert played(state) == [want]
    assert played(state | {"modelUsage": None}) == played(state | {"startTime": -1}) == []
    assert played(state, source=SUB_SOURCE) == []


def test_reasoning_and_searches_are_counted() -> None:
    """What was thought, and how often the web was searched, where usage tells it."""
    line = answered(text(), stop="end_turn")
    line["message"]["usage"]["output_tokens_details"] = {"thinking_tokens": 20}
    line["message"]["usage"]["server_tool_use"] = {"web_search_requests": 2, "web_fetch_requests": 1}
    (usage,) = of_kind(played(line), ResponseUsage)
    assert (usage.usage.output_tokens, usage.usage.reasoning_tokens, usage.usage.web_searches) == (50, 20, 2)


def test_agents_of_a_workflow_hang_under_its_call(tmp_path: Path) -> None:
    """They are one level deeper, in the directory of the run, which the outcome of the call names."""
    run = "wf_8ca2332b-21c"
    path = tmp_path / ORIGINAL.stem / "subagents" / "workflows" / run / "agent-ab84.jsonl"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps(said("go", isSidechain=True, agentId="ab84")) + "\n")
    source = recognised(path)
    assert (source.session_id, source.stream, source.parent_call) == (ORIGINAL.stem, "ab84", run)
    assert AGENT.is_log(path)
    assert not AGENT.is_log(path.with_name("journal.jsonl"))
    started = result(toolUseResult={"status": "async_launched", "runId": run})
    assert of_kind(played(started), Spawned) == [Spawned("toolu_1", run)]
    # A tool that only printed such a name started nothing.
    assert of_kind(played(result(toolUseResult={"stdout": f"{run} done"})), Spawned) == []


def test_when_transcripts_are_deleted(tmp_path: Path) -> None:
    """Each configuration directory has its period; one below a directory that is called ``projects`` is found, too."""
    plain, nested, broken = tmp_path / "plain", tmp_path / "projects" / "mine", tmp_path / "broken"
    logs = [base / "projects" / "-work" / "session.jsonl" for base in (plain, nested, broken)]
    for base in (plain, nested, broken):
        base.mkdir(parents=True)
    (nested / "settings.json").write_text('{"cleanupPeriodDays": 90}')
    (nested / "settings.local.json").write_text('{"cleanupPeriodDays": 7.5}')
    (broken / "settings.json").write_bytes(b'{"cleanupPeriodDays": true}')
    (broken / "settings.local.json").write_bytes(b"\xff[[[")
    agent = ClaudeCode()
    found = {each.directory: (each.days, each.origin) for each in agent.cleanups([*logs, tmp_path / "elsewhere.jsonl"])}
    default = (30.0, "its default; cleanupPeriodDays is not set")
    assert found == {
        plain: default,
        broken: default,
        nested: (7.5, f"cleanupPeriodDays in {nested / 'settings.local.json'}"),
    }
