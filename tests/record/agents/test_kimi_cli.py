"""Kimi CLI: the real files give the golden numbers, and odd ones do no harm."""

from __future__ import annotations

import hashlib
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
from agenttrace.record.formats.base import REMEMBERED
from agenttrace.record.formats.contract import Source, Unusable
from agenttrace.record.formats.kimi_cli import KimiCli
from agenttrace.record.formats.kimi_code import KimiCode
from agenttrace.record.ingest.acts import (
    Act,
    Note,
    ResponseUsage,
    Spawned,
    StepBegin,
    StepEnd,
    ToolArguments,
    ToolBegin,
    ToolEnd,
    TurnBegin,
    TurnEnd,
    Waiting,
)

DATA = Path(__file__).resolve().parents[2] / "data"
SHARED = Path(__file__).resolve().parents[4] / "shared" / "samples"
SESSIONS = DATA / "kimi-cli-1.49.0/sessions/ec0a6c45a120a60cb2d2143ae908bc96"
FIXTURES = DATA / "kimi-code-migration-fixtures/packages/migration-legacy/test/fixtures"
LONG = SESSIONS / "ffd361ad-fca8-46f8-982d-6f30e2f55fb4/wire.jsonl"
ORIGINAL = SESSIONS / "183decbb-6477-494e-95bc-dfabc4c3cc32/wire.jsonl"
FORK = SESSIONS / "675e04d1-f6cf-41be-8bd2-82353f98e5ea/wire.jsonl"
TYPES = re.findall(
    r"\w+",
    "TurnBegin SteerInput TurnEnd StepBegin StepInterrupted StepRetry CompactionBegin CompactionEnd StatusUpdate "
    "ContentPart ToolCall ToolCallPart ToolResult ApprovalRequest ApprovalResponse ApprovalRequestResolved "
    "QuestionRequest Notification HookTriggered HookResolved BtwBegin BtwEnd PlanDisplay SubagentEvent Unheard",
)

A = TypeVar("A", bound=Act)

agent = KimiCli()
bare = Source(agent="kimi-cli", session_id="s")


def golden() -> list[Any]:
    """Every Kimi CLI file with golden numbers: our copies, and the samples they come from where they are."""
    found: dict[Path, Any] = {}
    for folder in ("kimi-cli-1.49.0", "kimi-code-migration-fixtures"):
        expected = json.loads((DATA / folder / "EXPECTED.json").read_text("utf-8"))
        found |= {DATA / folder / name: numbers for name, numbers in expected.items()}
    if SHARED.exists():
        expected = json.loads((SHARED / "EXPECTED.json").read_text("utf-8"))
        found |= {SHARED / name: numbers for name, numbers in expected.items() if name.startswith("kimi/")}
    return [
        pytest.param(path, numbers, id=f"{path.parts[-4]}/{path.parts[-3]}/{path.parts[-2]}")
        for path, numbers in found.items()
        if "root_usage" in numbers
    ]


def recognised(path: Path) -> Source:
    source = agent.recognise(path, path.read_bytes()[:65536])
    assert source is not None
    return source


def decoded(path: Path, source: Source | None = None) -> list[Event]:
    source = source or recognised(path)
    decoded = [agent.decode(raw, source) for raw in path.read_bytes().splitlines()]
    return [event for event in decoded if isinstance(event, Event)]


def acted(events: Iterable[Event], source: Source = bare) -> list[tuple[Event, list[Act]]]:
    """The acts of each event, with a memory for each stream, as the recorder keeps it."""
    memories: dict[str, dict[str, Any]] = {}
    result = []
    for event in events:
        memory = memories.setdefault(event.stream or source.stream, {})
        result.append((event, list(agent.acts(event, source, memory))))
    return result


def acts_of(path: Path, source: Source | None = None) -> list[Act]:
    source = source or recognised(path)
    return [act for _, acts in acted(decoded(path, source), source) for act in acts]


def total(usages: Iterable[Usage]) -> dict[str, int]:
    usages = list(usages)
    if not usages:
        return {}
    return {
        "input_other": sum(usage.input_tokens for usage in usages),
        "output": sum(usage.output_tokens for usage in usages),
        "input_cache_read": sum(usage.cache_read_tokens for usage in usages),
        "input_cache_creation": sum(usage.cache_write_tokens for usage in usages),
    }


def line(at: float, kind: str, **payload: object) -> bytes:
    return json.dumps({"timestamp": at, "message": {"type": kind, "payload": payload}}).encode()


def wrapped(at: float, kind: str, agent_id: str | None, call: str, **payload: object) -> bytes:
    event = {"type": kind, "payload": payload}
    if agent_id is None:
        return line(at, "SubagentEvent", task_tool_call_id=call, event=event)
    return line(at, "SubagentEvent", parent_tool_call_id=call, agent_id=agent_id, subagent_type="coder", event=event)


def acts_of_lines(*lines: bytes, source: Source = bare) -> list[Act]:
    events = [agent.decode(raw, source) for raw in lines]
    assert all(isinstance(event, Event) for event in events)
    found = acted([event for event in events if isinstance(event, Event)], source)
    return [act for _, acts in found for act in acts]


def of(kind: type[A], acts: Iterable[Act]) -> list[A]:
    return [act for act in acts if isinstance(act, kind)]


# Golden numbers


@pytest.mark.parametrize(("path", "expected"), golden())
def test_every_line_is_an_event_or_the_header(path: Path, expected: dict[str, Any]) -> None:
    """No line of a real file is lost or broken, and the types count as in the samples' golden numbers."""
    source = recognised(path)
    lines = path.read_bytes().splitlines()
    found = [agent.decode(raw, source) for raw in lines]
    events = [event for event in found if isinstance(event, Event)]
    assert len(lines) == expected["lines"]
    assert [item for item in found if not isinstance(item, Event)] == [Unusable("header", harmless=True)]
    assert Counter(event.type for event in events) == expected["types"]
    relayed = [event.body.message.type for event in events if event.type == "SubagentEvent"]
    assert Counter(relayed) == expected["subagent_types"]


@pytest.mark.parametrize(("path", "expected"), golden())
def test_usage_and_calls_of_the_own_stream(path: Path, expected: dict[str, Any]) -> None:
    """Tokens, tool calls and calls without result of the file's own stream are the golden ones."""
    acts = acts_of(path)
    calls = [act.call for act in of(ToolBegin, acts)]
    results = {act.call for act in of(ToolEnd, acts)}
    own = [
        act.usage
        for event, acts in acted(decoded(path), recognised(path))
        if event.stream is None
        for act in of(ResponseUsage, acts)
    ]
    assert total(own) == expected["root_usage"]
    assert len(calls) == expected["tool_calls"]
    assert len([call for call in calls if call not in results]) == expected["tool_calls_without_result"]


@pytest.mark.parametrize(("path", "expected"), golden())
def test_usage_of_wrapped_subagents(path: Path, expected: dict[str, Any], tmp_path: Path) -> None:
    """Where a subagent's own file is missing, its tokens come out of the wrapped events, all of them."""
    source = msgspec.structs.replace(recognised(path), directory=str(tmp_path))
    inline = [
        act.usage
        for event, acts in acted(decoded(path, source), source)
        if event.stream is not None
        for act in of(ResponseUsage, acts)
    ]
    assert total(inline) == expected["subagent_usage"]


@pytest.mark.parametrize(("path", "expected"), golden())
def test_every_event_has_a_unique_key(path: Path, expected: dict[str, Any]) -> None:
    """Type and key name each real event of a session, all its streams together, and nothing else."""
    session = path.parent.parent.parent if path.parent.parent.name == "subagents" else path.parent
    events = [event for file in session.rglob("wire.jsonl") for event in decoded(file)]
    assert None not in {event.key for event in events}
    assert len({(event.type, event.key) for event in events}) == len(events)


@pytest.mark.parametrize(("path", "expected"), golden())
def test_joined_arguments_are_json(path: Path, expected: dict[str, Any]) -> None:
    """A call's arguments and the parts that follow it in its stream make one JSON text."""
    source = recognised(path)
    arguments: dict[str, str] = {}
    latest = ""
    for event in decoded(path, source):
        for content in agent.content(event, source) if event.type in ("ToolCall", "ToolCallPart") else ():
            latest = content.call or latest
            arguments[latest] = arguments.get(latest, "") + content.text
    if path.parent.name == "with-subagent-collapsed":
        arguments.popitem()  # that fixture was cut off in the middle of the second call
    assert all(isinstance(json.loads(text), dict) for text in arguments.values())


# What a file is


def test_homes_follow_the_environment(tmp_path: Path) -> None:
    """$KIMI_SHARE_DIR moves the sessions; without it they are in the home directory."""
    assert agent.homes({}, tmp_path) == [tmp_path / ".kimi/sessions"]
    assert agent.homes({"KIMI_SHARE_DIR": "/elsewhere"}, tmp_path) == [Path("/elsewhere/sessions")]


def test_logs_are_found_by_name() -> None:
    """Only wire.jsonl is a log, and not in the copies that ``kimi vis`` makes."""
    assert agent.is_log(Path("sessions/h/s/wire.jsonl"))
    assert agent.is_log(Path("sessions/h/s/subagents/a1/wire.jsonl"))
    assert not agent.is_log(Path("sessions/h/s/context.jsonl"))
    assert not agent.is_log(Path(".kimi/imported_sessions/s/wire.jsonl"))


@pytest.mark.parametrize("path", sorted((DATA / "kimi-code-2.1.0").rglob("wire.jsonl")))
def test_kimi_code_is_another_format(path: Path) -> None:
    """Kimi Code's files have the same name and header type, and are not taken for Kimi CLI's."""
    assert agent.recognise(path, path.read_bytes()[:65536]) is None


@pytest.mark.parametrize(
    "head",
    [
        b"",
        b"not json\n",
        b"[1, 2]\n",
        b'{"role": "user", "content": "hi"}\n',
        b'{"timestamp": "2026-01-01T00:00:00Z", "type": "session_meta", "payload": {}}\n',
        b'{"type": "assistant", "timestamp": "2026-01-01T00:00:00Z", "message": {"type": "message"}}\n',
        b'{"type":"metadata","protocol_version":"1.4"}\n{"type":"turn.prompt","input":[],"time":1}\n',
        b'{"type":"metadata","protocol_version":"1.4","created_at":1}\n',
    ],
)
def test_other_formats_are_refused(head: bytes) -> None:
    """Content decides: a file of another format is refused whatever its name."""
    assert agent.recognise(Path("sessions/h/s/wire.jsonl"), head) is None


@pytest.mark.parametrize(
    "head",
    [
        b'{"type": "metadata", "protocol_version": "1.10"}\n',
        line(1.5, "TurnBegin", user_input="hi") + b"\n",
        b'sion": "x"}}\n' + line(1.5, "ToolResult", tool_call_id="t") + b"\n",
        line(1.5, "TurnBegin", user_input="long" * 20_000)[:65536],
    ],
    ids=["header", "no header", "torn first line", "first line longer than the head"],
)
def test_own_files_are_recognised(head: bytes) -> None:
    """A header alone, a file from before there were headers, a damaged beginning: all are ours."""
    source = agent.recognise(Path("sessions/h/some-session/wire.jsonl"), head)
    assert source is not None
    assert (source.session_id, source.stream) == ("some-session", "main")


def test_a_file_elsewhere_is_named_after_itself() -> None:
    """Without the directories around it, the file's own name is the session's."""
    source = agent.recognise(Path("backup/friday.jsonl"), line(1.5, "TurnEnd"))
    assert source is not None
    assert source.session_id == "friday"


def test_session_facts_come_from_the_files_beside() -> None:
    """Working directory, title and fork are not in the log, and are found."""
    source = recognised(ORIGINAL)
    assert source.session_id == "183decbb-6477-494e-95bc-dfabc4c3cc32"
    assert (source.cwd, source.title, source.copied) == ("/home/dev/work", "SCENARIO retry please", False)
    fork = recognised(FORK)
    assert (fork.title, fork.copied) == ("Fork: SCENARIO retry please", True)


def test_subagent_facts() -> None:
    """A subagent's file belongs to its session; a background one's task names the call that started it."""
    path = ORIGINAL.parent / "subagents/a7cf37b8f/wire.jsonl"
    source = recognised(path)
    assert (source.session_id, source.stream, source.name) == (ORIGINAL.parent.name, "a7cf37b8f", "coder")
    assert (source.parent_stream, source.parent_call) == ("main", "tool_JrTAwR4y9ojfljoQoaF1Llqs")


def test_broken_companions_are_no_obstacle() -> None:
    """A state file that is no JSON leaves the facts open, and the file is read all the same."""
    source = recognised(FIXTURES / "broken-state-json/wire.jsonl")
    assert (source.title, source.cwd, source.copied) == (None, None, False)


def test_remote_working_directories(tmp_path: Path) -> None:
    """A directory on another machine is found by its digest with the machine's name before it."""
    kimi = (FIXTURES / "multi-workdir/.kimi/kimi.json").read_bytes()
    (tmp_path / "kimi.json").write_bytes(kimi)
    for bucket, cwd in [
        (hashlib.md5(b"/proj-b").hexdigest(), "/proj-b"),
        ("kaos-foo_caaf674614e26c6365945408f85c9c9a", "/proj-c"),
        ("0" * 32, None),
    ]:
        source = agent.recognise(tmp_path / "sessions" / bucket / "s/wire.jsonl", line(1, "TurnEnd"))
        assert source is not None
        assert source.cwd == cwd


def test_the_model_is_guessed_from_the_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The log never names its model: it is that of the settings, or of the environment."""
    monkeypatch.delenv("KIMI_MODEL_NAME", raising=False)
    path = tmp_path / "sessions/h/s/wire.jsonl"
    found = [agent.recognise(path, line(1, "TurnEnd"))]
    (tmp_path / "config.toml").write_text('default_model = "k"\n[models.k]\nmodel = "kimi-k2"\n', "utf-8")
    found.append(agent.recognise(path, line(1, "TurnEnd")))
    monkeypatch.setenv("KIMI_MODEL_NAME", "kimi-next")
    found.append(agent.recognise(path, line(1, "TurnEnd")))
    assert [source.model if source else "?" for source in found] == [None, "kimi-k2", "kimi-next"]


# Turns


def test_turns_of_a_long_session() -> None:
    """Nine prompts, nine turns; the one whose process was killed never ends, errors end as errors."""
    acts = [act for act in acts_of(LONG) if isinstance(act, TurnBegin | TurnEnd)]
    story = [act.prompt if isinstance(act, TurnBegin) else act.status for act in acts]
    assert story == [
        "SCENARIO parallel please",
        "ok",
        "SCENARIO agent please",
        "ok",
        "SCENARIO retry please",
        "SCENARIO agentbg please",
        "ok",
        "SCENARIO fail please",
        "error",
        "error",
        "/compact",
        "ok",
        "SCENARIO todo please",
        "error",
        "error",
        "/clear",
        "ok",
        "SCENARIO plain please",
        "ok",
    ]


def test_a_turn_inside_a_turn_is_the_same_turn() -> None:
    """A flow begins turns inside the one it was called in: only the outer one is a turn."""
    acts = acts_of_lines(
        line(100.0, "TurnBegin", user_input="/flow:release"),
        line(100.01, "TurnBegin", user_input="first node"),
        line(100.02, "StepBegin", n=1),
        line(105.0, "StatusUpdate", token_usage={"output": 1}),
        line(105.1, "TurnEnd"),
        line(105.11, "TurnBegin", user_input="second node"),
        line(105.12, "StepBegin", n=1),
        line(109.0, "StatusUpdate", token_usage={"output": 1}),
        line(109.1, "TurnEnd"),
        line(109.2, "TurnEnd"),
        line(109.3, "TurnBegin", user_input="next"),
    )
    turns = [act for act in acts if isinstance(act, TurnBegin | TurnEnd)]
    assert turns == [TurnBegin("/flow:release"), TurnEnd(), TurnBegin("next")]
    assert len(of(StepBegin, acts)) == 2


def test_a_turn_after_a_killed_one_is_a_new_turn() -> None:
    """A prompt that follows an unfinished turn later on was typed by a person, even if no step came between."""
    acts = acts_of_lines(line(100.0, "TurnBegin", user_input="killed"), line(130.0, "TurnBegin", user_input="again"))
    assert acts == [TurnBegin("killed"), TurnBegin("again")]


def test_a_turn_that_ends_unanswered_was_cancelled() -> None:
    """A cancel leaves no line: the turn ends while a model call, or a tool, is pending."""
    begin = (line(1, "TurnBegin", user_input="x"), line(2, "StepBegin", n=1))
    call = line(3, "ToolCall", id="t", function={"name": "Shell", "arguments": "{}"})
    answered = line(4, "StatusUpdate", token_usage={"output": 1})
    assert acts_of_lines(*begin, line(9, "TurnEnd"))[-1] == TurnEnd("cancelled")
    assert acts_of_lines(*begin, call, answered, line(9, "TurnEnd"))[-1] == TurnEnd("cancelled")
    result = line(5, "ToolResult", tool_call_id="t", return_value={"is_error": False, "output": ""})
    assert acts_of_lines(*begin, call, answered, result, line(9, "TurnEnd"))[-1] == TurnEnd("ok")


def test_turns_without_a_user() -> None:
    """The turn after a background task is the task's; a subagent's is the subagent's."""
    origins = [act.origin for act in of(TurnBegin, acts_of(ORIGINAL))]
    assert origins == ["user", "user", "task", "user", "user"]
    own = of(TurnBegin, acts_of(ORIGINAL.parent / "subagents/a7cf37b8f/wire.jsonl"))
    assert [act.origin for act in own] == ["subagent"]
    reminder = line(1, "TurnBegin", user_input="<system-reminder>Go on.</system-reminder>")
    assert of(TurnBegin, acts_of_lines(reminder))[0].origin == "system"


def test_a_file_that_begins_in_mid_turn() -> None:
    """A re-created file begins anywhere: its lines are acts as they are."""
    acts = acts_of_lines(
        line(1, "ToolResult", tool_call_id="gone", return_value={"is_error": False, "output": "x"}),
        line(2, "StepBegin", n=28),
        line(3, "TurnEnd"),
    )
    assert acts == [ToolEnd("gone"), StepBegin(n=28), TurnEnd("cancelled")]


# Steps, tools, tokens


def test_a_step_ends_with_its_usage() -> None:
    """The status with usage ends the model call; one about the context alone does not."""
    acts = acts_of_lines(
        line(1, "StepBegin", n=1),
        line(2, "StatusUpdate", context_usage=0.5, token_usage=None, message_id=None),
        line(3, "StatusUpdate", token_usage={"input_other": 5, "output": 2}, message_id="chatcmpl-0123456789"),
    )
    usage = Usage(input_tokens=5, output_tokens=2)
    assert acts == [StepBegin(n=1), ResponseUsage("kimi:chatcmpl-0123456789", usage), StepEnd()]


def test_a_step_without_usage_ends_too() -> None:
    """Some providers send an id and no usage: the call is over, and nothing is counted."""
    acts = acts_of(FIXTURES / "recent-protocol-1.10/wire.jsonl")
    assert of(ResponseUsage, acts) == []
    assert len(of(StepEnd, acts)) == 1


def test_an_interrupted_step_ends_its_turn() -> None:
    """Before 1.30 a failed turn had no end; the interruption is its end."""
    acts = acts_of_lines(line(1, "TurnBegin", user_input="x"), line(2, "StepBegin", n=1), line(3, "StepInterrupted"))
    assert acts[2:] == [StepEnd(status="error"), TurnEnd("error", "the step was interrupted")]


def test_a_failed_tool_says_why() -> None:
    """A tool's error ends it as an error, with the message."""
    failed = [act for act in of(ToolEnd, acts_of(LONG)) if act.status == "error"]
    assert [act.error for act in failed] == ["Command failed with exit code: 3."]


def test_parts_of_arguments_belong_to_the_latest_call() -> None:
    """A part names no call; it is given as the latest one's."""
    acts = [act for act in acts_of(LONG) if isinstance(act, ToolBegin | ToolArguments)]
    place = acts.index(ToolArguments())
    assert acts[place - 1] == ToolBegin("tool_TeKdNnFRIBXuDL7DxtpYlSXp", "Shell")


def test_a_fork_shares_the_names_of_its_responses() -> None:
    """The copied steps of a fork name the same responses as the original's, so that they count once."""
    original = [act.response for act in of(ResponseUsage, acts_of(ORIGINAL))]
    fork = [act.response for act in of(ResponseUsage, acts_of(FORK))]
    assert len(fork) == 4
    assert fork == original[:4]
    assert len(set(original)) == len(original)


def test_responses_without_a_providers_id() -> None:
    """A counter or nothing for an id: copies of the line share a name, other lines do not."""
    usage = {"input_other": 1, "output": 1}
    for id_ in (None, "scripted-1", "chatcmpl-123"):
        first = line(1.25, "StatusUpdate", token_usage=usage, message_id=id_)
        later = line(2.25, "StatusUpdate", token_usage=usage, message_id=id_)
        names = [act.response for act in of(ResponseUsage, acts_of_lines(first, first, later))]
        assert names[0] == names[1] != names[2]


def test_counts_that_are_none() -> None:
    """A number of tokens that cannot be one counts as 0, and the rest of the line is used."""
    odd = {"input_other": -5, "output": "7", "input_cache_read": 3, "input_cache_creation": True}
    (act,) = of(ResponseUsage, acts_of_lines(line(1, "StatusUpdate", token_usage=odd)))
    assert act.usage == Usage(cache_read_tokens=3)


def test_the_wait_goes_on_until_the_answer() -> None:
    """Usage that arrives while an approval is open does not end the wait; the answer does."""
    found = acted(decoded(FIXTURES / "legacy-protocol-1.3/wire.jsonl"))
    ends = {event.type: isinstance(acts[-1], Waiting) for event, acts in found if acts}
    assert ends["ApprovalRequest"]
    assert ends["StatusUpdate"]
    assert not ends["ApprovalResponse"]
    assert Note("approval") in [act for _, acts in found for act in acts]


def test_a_question_waits_until_its_tool_answers() -> None:
    """A question has no line for its answer: the tool's result ends the wait."""
    acts = acts_of_lines(
        line(1, "QuestionRequest", id="q", tool_call_id="t", questions=[]),
        line(2, "ToolResult", tool_call_id="other", return_value={}),
        line(3, "ToolResult", tool_call_id="t", return_value={}),
    )
    assert acts == [Waiting(), ToolEnd("other"), Waiting(), ToolEnd("t")]


@pytest.mark.parametrize(
    ("raw", "note"),
    [
        (line(1, "SteerInput", user_input=[{"type": "text", "text": "faster"}]), Note("steer")),
        (line(1, "StepRetry", error_type="APIStatusError", status_code=429), Note("retry")),
        (line(1, "CompactionBegin"), Note("compaction")),
        (line(1, "Notification", title="done", body="long"), Note("notification")),
        (
            line(1, "HookResolved", event="PreToolUse", target="Shell", action="block"),
            Note("hook"),
        ),
        (line(1, "BtwBegin", id="b", question="why?"), Note("btw")),
        (line(1, "PlanDisplay", content="…", file_path="plan.md"), Note("plan")),
    ],
)
def test_notes(raw: bytes, note: Note) -> None:
    """What has no span is noted on the open one."""
    assert acts_of_lines(raw) == [note]


# Subagents


def test_a_mirrored_subagent_is_only_linked() -> None:
    """Where the subagents' own files are there, the wrapped events say who started whom, and nothing else."""
    source = recognised(LONG)
    relayed = [(event, acts) for event, acts in acted(decoded(LONG), source) if event.type == "SubagentEvent"]
    assert len(relayed) == 20
    assert {event.stream for event, _ in relayed} == {None}
    assert [act for _, acts in relayed for act in acts] == [
        Spawned("tool_9ojfljoQoaF1LlqsajAIxNKu", "a0482495e", "coder"),
        Spawned("tool_8iS2G8NPRVdD53X83RZJzzzz", "a75a6a98c", "coder"),
    ]
    assert all(agent.content(event, source) == [] for event, _ in relayed)


def test_a_wrapped_subagent_tells_the_same_as_its_file(tmp_path: Path) -> None:
    """Folded from the wrapped events or from its own file, a subagent does and costs the same."""
    source = msgspec.structs.replace(recognised(LONG), directory=str(tmp_path))
    for stream in ("a0482495e", "a75a6a98c"):
        inline = [acts for event, acts in acted(decoded(LONG, source), source) if event.stream == stream]
        relayed = [act for acts in inline for act in acts]
        assert isinstance(relayed[0], Spawned)
        assert relayed[1:] == acts_of(LONG.parent / "subagents" / stream / "wire.jsonl")


def test_old_subagents_are_named_after_their_call() -> None:
    """Until 1.24 a subagent has no id and no file: its call names its stream."""
    raw = wrapped(1, "TurnBegin", None, "tool_x", user_input="look")
    event = agent.decode(raw, bare)
    assert isinstance(event, Event)
    assert event.stream == "task:tool_x"
    assert acts_of_lines(raw) == [Spawned("tool_x", "task:tool_x"), TurnBegin("look", "subagent")]


def test_parallel_subagents_keep_their_own_counsel() -> None:
    """What one wrapped subagent leaves open does not touch the other, nor the parent, in one memory or in three."""
    lines = [
        line(1, "TurnBegin", user_input="go"),
        line(2, "StepBegin", n=1),
        wrapped(3, "TurnBegin", "a1", "t1", user_input="one"),
        wrapped(3.1, "TurnBegin", "a2", "t2", user_input="two"),
        wrapped(4, "StepBegin", "a1", "t1", n=1),
        wrapped(5, "TurnEnd", "a2", "t2"),
        line(6, "StatusUpdate", token_usage={"output": 1}),
        wrapped(7, "TurnEnd", "a1", "t1"),
        line(8, "TurnEnd"),
    ]
    shared: dict[str, Any] = {}
    events = [event for raw in lines if isinstance(event := agent.decode(raw, bare), Event)]
    together = [act for event in events for act in agent.acts(event, bare, shared)]
    assert together == acts_of_lines(*lines)
    assert [act.status for act in of(TurnEnd, together)] == ["ok", "cancelled", "ok"]


def test_a_background_subagent_is_linked_by_the_result_of_its_call() -> None:
    """A background subagent sends no events to its parent; the call's result names it."""
    assert of(Spawned, acts_of(ORIGINAL)) == [Spawned("tool_JrTAwR4y9ojfljoQoaF1Llqs", "a7cf37b8f")]


def test_a_resumed_subagent_is_linked_again() -> None:
    """A second call to the same subagent is carried out by it as well."""
    acts = acts_of_lines(
        wrapped(1, "TurnBegin", "a1", "t1", user_input="x"),
        wrapped(2, "TurnEnd", "a1", "t1"),
        wrapped(3, "TurnBegin", "a1", "t2", user_input="y"),
    )
    assert of(Spawned, acts) == [Spawned("t1", "a1", "coder"), Spawned("t2", "a1", "coder")]


def test_a_subagent_of_a_subagent() -> None:
    """A doubly wrapped event runs in the inner agent's stream, under the call of this file's own."""
    inner = {
        "type": "SubagentEvent",
        "payload": {"parent_tool_call_id": "t2", "agent_id": "a2", "event": {"type": "TurnEnd"}},
    }
    raw = line(1, "SubagentEvent", parent_tool_call_id="t1", agent_id="a1", event=inner)
    event = agent.decode(raw, bare)
    assert isinstance(event, Event)
    assert event.stream == "a2"
    assert acts_of_lines(raw) == [Spawned("t1", "a2"), TurnEnd()]


def test_a_subagents_usage_is_named_alike_in_both_files(tmp_path: Path) -> None:
    """Without a provider's id the two records of one response still share a name: their payload is the same."""
    payload = {"token_usage": {"output": 3}, "message_id": None}
    own = msgspec.structs.replace(bare, stream="a1")
    (plain,) = of(ResponseUsage, acts_of_lines(line(1.5, "StatusUpdate", **payload), source=own))
    (inline,) = of(ResponseUsage, acts_of_lines(wrapped(1.502, "StatusUpdate", "a1", "t", **payload)))
    assert plain.response == inline.response


# Texts


def test_texts_of_the_kinds_of_lines() -> None:
    """Prompts, thoughts, answers, arguments and results are separate texts, and whole."""
    source = recognised(LONG)
    found = [(item.kind, item.text, item.call) for event in decoded(LONG)[:11] for item in agent.content(event, source)]
    first, second = "tool_ocJ2isAjIhKtJ0RlgLKOmxgJ", "tool_TeKdNnFRIBXuDL7DxtpYlSXp"
    assert found == [
        ("prompt", "SCENARIO parallel please", None),
        ("thinking", "I will run two commands at the same time.", None),
        ("text", "Running both.", None),
        ("arguments", '{"command": "echo first"}', first),
        ("arguments", '{"command": "sleep 0.3; ', second),
        ("result", "first\n", first),
        ("arguments_part", 'echo second"}', None),
        ("arguments", '{"command": "exit 3"}', "tool_fKtHF4vUCsMehGAkWvj7FAc9"),
        ("error", "Command failed with exit code: 3.", "tool_fKtHF4vUCsMehGAkWvj7FAc9"),
    ]


def test_pictures_have_no_text() -> None:
    """A prompt with a picture gives its words."""
    (first, *_) = decoded(FIXTURES / "with-image/wire.jsonl")
    assert [item.text for item in agent.content(first, bare)] == ["Describe this image."]


# Odd lines


def test_a_torn_line_gives_back_the_whole_one_in_it() -> None:
    """Two processes that write at once tear a line; what is whole in it is salvaged."""
    whole = line(2.5, "TurnEnd")
    torn = line(1.5, "ContentPart", type="text", text="half")[:60]
    assert agent.decode(torn + whole, bare) == Unusable("not a JSON object", harmless=False, salvaged=(whole,))
    assert agent.decode(whole + whole, bare) == Unusable("not a JSON object", harmless=False, salvaged=(whole, whole))
    assert agent.decode(torn, bare) == Unusable("not a JSON object", harmless=False)


def test_half_an_emoji_costs_nothing_but_itself() -> None:
    """A lone surrogate in a text is no reason to lose the line."""
    raw = b'{"timestamp": 1.5, "message": {"type": "TurnBegin", "payload": {"user_input": "cut \\ud83d"}}}'
    event = agent.decode(raw, bare)
    assert isinstance(event, Event)
    assert (event.type, event.at) == ("TurnBegin", 1_500_000)
    assert [item.text for item in agent.content(event, bare)] == ["cut ?"]


@pytest.mark.parametrize(
    ("raw", "kind"),
    [
        (b'{"timestamp": "later", "message": {"type": "TurnEnd", "payload": {}}}', "TurnEnd"),
        (b'{"timestamp": 1, "message": {"type": 7, "payload": {}}}', "unknown"),
        (b'{"timestamp": 1, "message": "text"}', "unknown"),
        (b'{"type": "future"}', "future"),
        (b'{"timestamp": 1, "message": {"type": "NewThing", "payload": {"a": 1}}}', "NewThing"),
        (b"{}", "unknown"),
    ],
)
def test_unexpected_shapes_are_still_events(raw: bytes, kind: str) -> None:
    """An object of another shape is recorded under its type."""
    event = agent.decode(raw, bare)
    assert isinstance(event, Event)
    assert event.type == kind


def test_a_blank_line_is_harmless() -> None:
    """Nothing on a line is nothing lost."""
    for raw in (b"", b"  \r"):
        event = agent.decode(raw, bare)
        assert isinstance(event, Unusable)
        assert event.harmless


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
payload_fields = st.sampled_from(
    re.findall(
        r"\w+",
        "user_input n token_usage message_id id function tool_call_id return_value request_id response title event "
        "agent_id parent_tool_call_id task_tool_call_id subagent_type questions arguments_part type text think",
    )
)
payloads = st.dictionaries(payload_fields, json_values, max_size=6)
messages = st.fixed_dictionaries({"type": st.sampled_from(TYPES), "payload": payloads | json_values})
relays = st.builds(
    lambda message, more: {"type": "SubagentEvent", "payload": {**more, "event": message}},
    messages,
    st.fixed_dictionaries(
        {}, optional={"agent_id": st.sampled_from(["a1", "a2"]), "parent_tool_call_id": st.just("t")}
    ),
)
stamps = st.floats(min_value=1, max_value=2e9) | json_values
wire_lines = st.builds(
    lambda stamp, message: json.dumps({"timestamp": stamp, "message": message}).encode(), stamps, messages | relays
)


def survive(raw: bytes, memory: dict[str, Any]) -> None:
    """Everything that is done with a line is done; what comes of it can be stored."""
    event = agent.decode(raw, bare)
    assert event == agent.decode(raw, bare) or not isinstance(event, Unusable)
    if isinstance(event, Event):
        again = agent.decode(raw, bare)
        assert isinstance(again, Event)
        assert (event.type, event.key, event.at, event.stream) == (again.type, again.key, again.at, again.stream)
        assert all(isinstance(act, Act) for act in agent.acts(event, bare, memory))
        assert all(content.text or content.kind == "arguments" for content in agent.content(event, bare))
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
    header = isinstance(value, dict) and value.get("type") == "metadata"
    assert isinstance(agent.decode(raw, bare), Event) == (isinstance(value, dict) and not header)


@given(st.lists(wire_lines, max_size=30))
def test_any_messages_are_borne(lines: list[bytes]) -> None:
    """Messages with any payload, in any order, are folded without raising; memory can always be stored."""
    memory: dict[str, Any] = {}
    for raw in lines:
        survive(raw, memory)


@given(st.binary(), st.text(max_size=30))
def test_any_head_is_borne(head: bytes, name: str) -> None:
    """No beginning of a file makes recognition raise."""
    source = agent.recognise(Path("sessions", "h", "s", "wire.jsonl"), head)
    assert source is None or source.session_id == "s"


def test_memory_stays_small() -> None:
    """However many subagents, calls and questions a session leaves open, memory forgets the oldest."""
    memory: dict[str, Any] = {}
    for n in range(4 * REMEMBERED):
        for raw in (
            wrapped(10 * n + 1, "TurnBegin", f"a{n}", f"t{n}", user_input="x"),
            line(10 * n + 2, "ToolCall", id=f"t{n}", function={"name": "Agent"}),
            line(10 * n + 3, "ApprovalRequest", id=f"r{n}", tool_call_id=f"t{n}"),
        ):
            survive(raw, memory)
    assert len(msgspec.msgpack.encode(memory)) < 64 * 4 * REMEMBERED


def test_the_other_kimi_takes_none_of_these() -> None:
    """Kimi Code's module refuses every file of Kimi CLI."""
    for path in (LONG, ORIGINAL, FORK, *FIXTURES.glob("*/wire.jsonl")):
        assert KimiCode().recognise(path, path.read_bytes()[:65536]) is None
