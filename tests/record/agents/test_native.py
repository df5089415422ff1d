"""Our own format: what the documentation shows is what is read, and nothing in a line makes it raise."""

from __future__ import annotations

import json
import re
import sys
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agenttrace.model import Event, Usage
from agenttrace.record.formats.contract import Agent, Content, Source, Unusable
from agenttrace.record.formats.native import Native
from agenttrace.record.ingest import acts as a

ROOT = Path(__file__).resolve().parents[3]
SERVER = ROOT / "tests" / "data" / "native" / "server.jsonl"

native = Native()


class Play:
    """A log played through the module, as the pipeline does it: a memory for each session and stream."""

    def __init__(self, rows: Iterable[bytes | dict[str, Any]], agent: Agent = native, name: str = "x.jsonl") -> None:
        lines = [row if isinstance(row, bytes) else json.dumps(row).encode() for row in rows]
        source = agent.recognise(Path(name), b"\n".join(lines))
        assert source is not None
        self.source = source
        self.events: list[Event] = []
        self.acts: dict[tuple[str, str], list[a.Act]] = {}
        self.content: list[Content] = []
        memories: dict[tuple[str, str], Any] = {}
        known = set()
        for line in lines:
            event = agent.decode(line, source)
            assert isinstance(event, Event)
            place = (event.session or source.session_id, event.stream or source.stream)
            if event.key is not None and (place[0], event.type, event.key) in known:
                continue
            known.add((place[0], event.type, event.key))
            self.events.append(event)
            self.acts.setdefault(place, []).extend(agent.acts(event, source, memories.setdefault(place, {})))
            memories[place] = msgspec.msgpack.decode(msgspec.msgpack.encode(memories[place]))
            self.content += agent.content(event, source)

    def of(self, kind: type[a.Act], session: str | None = None, stream: str = "main") -> list[Any]:
        acts = self.acts[session or self.source.session_id, stream]
        return [act for act in acts if isinstance(act, kind)]


def line(type_: str, **fields: object) -> dict[str, Any]:
    return {"v": 1, "session": "s", "type": type_, **fields}


def documented(name: str, language: str) -> list[str]:
    """The examples in a document."""
    text = (ROOT / "docs" / name).read_text("utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


# -- the documentation ----------------------------------------------------------------------------------------


def examples() -> list[list[bytes]]:
    return [block.encode().splitlines() for block in documented("native-format.md", "jsonl")]


def test_the_documented_example_is_a_whole_session() -> None:
    """One turn, two steps, one tool, every text, and the tokens of the example."""
    played = Play(examples()[0])
    assert played.of(a.SessionInfo) == [
        a.SessionInfo(cwd="shop", title="Where is my parcel?", model="qwen-max"),
        a.SessionInfo(ended=True),
    ]
    assert played.of(a.TurnBegin) == [a.TurnBegin("Where is parcel 4711?", turn="1")]
    assert played.of(a.StepBegin) == [a.StepBegin("1/1", 1, "qwen-max"), a.StepBegin("1/2", 2, "qwen-max")]
    assert played.of(a.ToolBegin) == [a.ToolBegin("call-1", "track_parcel", "1/1")]
    assert played.of(a.ToolEnd) == [a.ToolEnd("call-1")]
    assert [(act.response, act.step, act.usage.total) for act in played.of(a.ResponseUsage)] == [
        ("agenttrace:resp-91", "1/1", 412 + 58 + 1024),
        ("agenttrace:resp-92", "1/2", 96 + 12 + 1436),
    ]
    assert [(act.step, act.finish_reason) for act in played.of(a.StepEnd)] == [("1/1", "tool_calls"), ("1/2", "stop")]
    assert played.of(a.TurnEnd) == [a.TurnEnd(turn="1")]
    assert played.content == [
        Content("prompt", "Where is parcel 4711?"),
        Content("thinking", "I have to ask the carrier."),
        Content("arguments", '{"parcel":4711}', "call-1"),
        Content("result", '{"state":"in delivery"}', "call-1"),
        Content("text", "It is being delivered today."),
    ]
    assert played.source.name == "helpdesk"
    assert played.events[0].at == 1_794_732_810_000_000


def test_the_documented_minimum_is_a_session() -> None:
    """A question and its usage are a turn with a response."""
    played = Play(examples()[1])
    assert [type(act) for act in played.acts["chat-8", "main"]] == [a.TurnBegin, a.ResponseUsage, a.TurnEnd]
    assert played.of(a.TurnBegin)[0].prompt == "Thank you!"
    assert played.of(a.ResponseUsage)[0].detached


def test_the_documented_subagent_is_connected() -> None:
    """The call names the stream, and the stream has its own turns and tokens."""
    played = Play(examples()[2])
    assert played.of(a.Spawned) == [a.Spawned("call-1", "researcher-1", "research")]
    assert played.of(a.ToolBegin)[0].subagent
    assert played.of(a.TurnBegin, stream="researcher-1") == [a.TurnBegin("find a carrier", "subagent", "1")]
    assert played.of(a.ResponseUsage, stream="researcher-1")[0].usage.total == 220


def test_every_documented_field_is_read() -> None:
    """The field tables and the module name the same fields."""
    from agenttrace.record.formats.native import NativeLine, NativeTokens

    text = (ROOT / "docs" / "native-format.md").read_text("utf-8")
    rows = [row for row in text.splitlines() if row.startswith("| `")]
    words = {word for row in rows for word in re.findall(r"`([a-z_0-9]+)`", "|".join(row.split("|")[1:3]))}
    known = {*NativeLine.__struct_fields__, *NativeTokens.__struct_fields__}
    assert known <= words


def test_the_documented_module_works(monkeypatch: pytest.MonkeyPatch) -> None:
    """The example of how to add a format runs as it is written and reads the log beside it."""
    code = documented("adding-a-format.md", "python")[0]
    module = ModuleType("parrot")
    monkeypatch.setitem(sys.modules, "parrot", module)
    exec(compile(code, "adding-a-format.md", "exec"), module.__dict__)
    log = documented("adding-a-format.md", "jsonl")[0].encode().splitlines()
    parrot: Agent = module.Parrot()
    played = Play(log, parrot, "polly.log")
    assert played.source.session_id == "polly"
    assert played.of(a.TurnBegin) == [a.TurnBegin("Polly?")]
    assert len(played.of(a.StepBegin)) == 2
    assert played.of(a.ToolEnd) == [a.ToolEnd("c1")]
    assert [act.usage for act in played.of(a.ResponseUsage)] == [
        Usage(input_tokens=20, cache_read_tokens=10, output_tokens=5),
        Usage(input_tokens=30, cache_read_tokens=30, output_tokens=3),
    ]
    assert played.of(a.TurnEnd) == [a.TurnEnd()]
    assert Content("arguments", '"me"', "c1") in played.content
    for odd in (b"", b"[]", b'{"n":"x"}', b'{"tokens":{"in":"x"}}'):
        assert isinstance(parrot.decode(odd, played.source), Event) is odd.startswith(b"{")


# -- several sessions in one file -----------------------------------------------------------------------------


def test_sessions_of_a_server_are_separate() -> None:
    """Interleaved lines go to their own sessions; equal call ids do not meet; a line sent again counts once."""
    played = Play(SERVER.read_bytes().splitlines())
    assert played.source.session_id == "conv-1"
    assert Counter(event.session for event in played.events) == {None: 11, "conv-2": 6}
    assert [act.name for act in played.of(a.ToolBegin, "conv-1")] == ["stock"]
    assert [act.name for act in played.of(a.ToolBegin, "conv-2")] == ["cancel_order"]
    assert played.of(a.ToolEnd, "conv-1") == [a.ToolEnd("k1")]
    assert played.of(a.ToolEnd, "conv-2") == [a.ToolEnd("k1", "error", "order 17 was shipped", 250_000)]
    assert played.of(a.TurnEnd, "conv-2") == [a.TurnEnd("error", "model overloaded", "1")]
    assert played.of(a.Error, "conv-2") == [a.Error("model overloaded", "turn")]
    growing = [(act.response, act.usage.output_tokens) for act in played.of(a.ResponseUsage, "conv-1")]
    assert growing == [("agenttrace:r-1", 10), ("agenttrace:r-2", 2), ("agenttrace:r-2", 8)]


def test_unknown_types_are_events_without_meaning() -> None:
    """They are recorded and counted, never dropped."""
    played = Play(SERVER.read_bytes().splitlines())
    unknown = next(event for event in played.events if event.type == "review.score")
    assert list(native.acts(unknown, played.source, {})) == []


# -- what may be left out -------------------------------------------------------------------------------------


def test_turns_and_steps_begin_by_themselves() -> None:
    """A line that names a new turn and step begins them; each once."""
    played = Play(
        [
            line("tool.begin", turn=1, step=1, id="a", name="x"),
            line("tool.begin", turn=1, step=1, id="b", name="y"),
            line("usage", turn=1, step=2, usage={"output_tokens": 1}),
            line("tool.end", turn=1, id="a"),
            line("message", turn=2, step=1, role="assistant", text="hi"),
            line("tool.begin", turn=1, step=1, id="late", name="z"),
        ]
    )
    assert [act.turn for act in played.of(a.TurnBegin)] == ["1", "2"]
    assert [act.step for act in played.of(a.StepBegin)] == ["1/1", "1/2", "2/1", "1/1"]
    assert [act.step for act in played.of(a.ToolBegin)] == ["1/1", "1/1", "1/1"]


def test_unnamed_turns_and_steps_follow_one_another() -> None:
    """Without names, a prompt belongs to the turn that waits for one, else it begins another."""
    played = Play(
        [
            line("turn.begin"),
            line("message", role="user", text="one"),
            line("step.begin", model="m"),
            line("usage", usage={"output_tokens": 1}),
            line("step.begin"),
            line("usage", usage={"output_tokens": 2}),
            line("turn.end"),
            line("message", role="user", text="two"),
            line("message", role="user", text="three"),
        ]
    )
    turns = [(act.turn, act.prompt) for act in played.of(a.TurnBegin)]
    assert turns == [("turn 1", None), ("turn 1", "one"), ("turn 2", "two"), ("turn 3", "three")]
    steps = [act.step for act in played.of(a.StepBegin)]
    assert len(set(steps)) == 2
    assert [act.step for act in played.of(a.ResponseUsage)] == steps
    assert len({act.response for act in played.of(a.ResponseUsage)}) == 2


def test_what_follows_a_turn_is_not_part_of_it() -> None:
    """After its end a turn waits for no prompt, and its step takes no more usage."""
    rows = [line("turn.begin"), line("step.begin"), line("turn.end")]
    assert [act.turn for act in Play([*rows, line("message", role="user", text="x")]).of(a.TurnBegin)] == [
        "turn 1",
        "turn 2",
    ]
    assert Play([*rows, line("usage", usage={"output_tokens": 1})]).of(a.ResponseUsage)[0].detached


def test_a_prompt_is_added_to_the_turn_it_names() -> None:
    """A user's message inside a named turn does not begin another."""
    played = Play([line("turn.begin", turn="a"), line("message", turn="a", role="user", text="hi")])
    assert played.of(a.TurnBegin) == [a.TurnBegin(turn="a"), a.TurnBegin("hi", turn="a")]


def test_responses_without_a_name_are_separate() -> None:
    """By step, by id, or one by one; never shared between sessions or streams."""
    rows = [
        line("usage", turn=1, step=1, usage={"output_tokens": 1}),
        line("usage", turn=1, step=1, usage={"output_tokens": 2}),
        line("usage", turn=2, usage={"output_tokens": 3}),
        line("usage", turn=2, usage={"output_tokens": 3}),
        line("usage", turn=2, id="u", usage={"output_tokens": 4}),
    ]
    others = [{**row, "session": "other"} for row in rows] + [{**row, "stream": "sub"} for row in rows]
    played = Play([*rows, *others])
    names = [act.response for act in played.of(a.ResponseUsage)]
    assert names[0] == names[1]
    assert len(set(names)) == 4
    assert names[-1] == "agenttrace:s:main:usage:u"
    everywhere = {act.response for acts in played.acts.values() for act in acts if isinstance(act, a.ResponseUsage)}
    assert len(everywhere) == 12


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, "ok"),
        ({"status": "cancelled"}, "cancelled"),
        ({"error": "no"}, "error"),
        ({"status": "ok", "error": "a warning"}, "ok"),
        ({"status": "strange", "error": "no"}, "error"),
    ],
)
def test_an_error_speaks_for_itself(fields: dict[str, str], expected: str) -> None:
    """The status that was given, else what the error says."""
    assert Play([line("tool.end", id="c", **fields)]).of(a.ToolEnd)[0].status == expected


def test_waiting_is_a_note_with_a_meaning() -> None:
    """Other notes are shown as they are."""
    played = Play([line("note", kind="waiting"), line("note", kind="retry", text="503")])
    assert played.acts["s", "main"] == [a.Waiting(), a.Note("retry")]


# -- lines ----------------------------------------------------------------------------------------------------

SOURCE = Source(agent="agenttrace", session_id="s")


def event(**fields: object) -> Event:
    found = native.decode(json.dumps(fields).encode(), SOURCE)
    assert isinstance(found, Event)
    return found


@pytest.mark.parametrize(
    ("ts", "expected"),
    [
        (1794732814.94, 1_794_732_814_940_000),
        (1794732814940, 1_794_732_814_940_000),
        (1794732814940001, 1_794_732_814_940_001),
        ("2026-11-15T09:00:00.5Z", 1_794_733_200_500_000),
        ("2026-11-15T09:00:00", 1_794_733_200_000_000),
        ("2026-11-15T10:00:00+01:00", 1_794_733_200_000_000),
        ("yesterday", None),
        ("0001-01-01T00:00:00+23:59", None),
        (-1, None),
        (1e300, None),
        (None, None),
        ([], None),
    ],
)
def test_times(ts: object, expected: int | None) -> None:
    """Seconds, milliseconds, microseconds and ISO 8601; anything else is no time."""
    assert event(type="note", ts=ts).at == expected


def test_keys() -> None:
    """Type, id and stream; without an id there is no key."""
    assert event(type="note", id="a").key == "note:a"
    assert event(type="note", id=7).key == "note:7"
    assert event(type="usage", id="a").key != event(type="note", id="a").key
    assert event(type="note", id="a").key != event(type="note", id="a", stream="sub").key
    assert event(type="note").key is None


def test_places() -> None:
    """The file's own session and stream need no mention; others are named."""
    assert (event(session="s").session, event(session="t").session, event().session) == (None, "t", None)
    assert (event(stream="main").stream, event(stream="sub").stream) == (None, "sub")


def test_an_odd_field_costs_that_field_alone() -> None:
    """The rest of the line is read."""
    odd = event(session="t", type="tool.begin", id="c", name=["?"], turn={"no": 1}, arguments={"a": 1}, v="one")
    assert (odd.session, odd.type, odd.key) == ("t", "tool.begin", "tool.begin:c")
    assert native.content(odd, SOURCE) == [Content("arguments", '{"a": 1}', "c")]
    partly = event(type="usage", step=1, usage={"input_tokens": -5, "output_tokens": 7})
    used = [act for act in native.acts(partly, SOURCE, {}) if isinstance(act, a.ResponseUsage)]
    assert [act.usage for act in used] == [Usage(output_tokens=7)]


@pytest.mark.parametrize("raw", [b"[1]", b"7", b'"text"', b'{"v":1', b"\xff\xfe"])
def test_what_is_no_object_is_set_aside(raw: bytes) -> None:
    """Broken lines are quarantined, not guessed at."""
    assert native.decode(raw, SOURCE) == Unusable("not a JSON object", harmless=False)


@pytest.mark.parametrize(
    "head",
    [
        b'{"session":"s","type":"note"}',
        b'{"v":2,"session":"s","type":"note"}',
        b'{"v":1,"type":"note"}',
        b'{"v":1,"session":"s"}',
        b'{"type":"user","sessionId":"s","version":"1"}',
        b"",
    ],
)
def test_other_files_are_not_claimed(head: bytes) -> None:
    """Version, session and type must be there."""
    assert native.recognise(Path("x.jsonl"), head) is None


def test_a_broken_first_line_does_not_hide_the_format() -> None:
    """The first lines are tried one after the other."""
    source = native.recognise(Path("x.jsonl"), b'{"v":1,"ses\n\n{"v":1,"session":"s","type":"note"}\n')
    assert source is not None
    assert source.session_id == "s"


def test_homes(tmp_path: Path) -> None:
    """Beside the store, wherever that is."""
    assert native.homes({}, tmp_path) == [tmp_path / ".agenttrace" / "logs"]
    assert native.homes({"AGENTTRACE_HOME": "/data"}, tmp_path) == [Path("/data/logs")]
    assert native.is_log(Path("a.jsonl"))
    assert not native.is_log(Path("a.json"))


# -- properties -----------------------------------------------------------------------------------------------


def run(raw: bytes, memory: dict[str, Any]) -> None:
    found = native.decode(raw, SOURCE)
    # Equal structs of equal lines; Raw compares by content.
    assert found == native.decode(raw, SOURCE)
    if isinstance(found, Event):
        list(native.acts(found, SOURCE, memory))
        native.content(found, SOURCE)
        msgspec.msgpack.encode(memory)
    native.recognise(Path("x.jsonl"), raw)


@given(st.binary(max_size=200))
def test_no_bytes_raise(raw: bytes) -> None:
    """Whatever the bytes of a line, it is an event or unusable, the same each time."""
    run(raw, {})


TYPES = ["session.begin", "session.end", "turn.begin", "turn.end", "step.begin", "step.end", "message"]
TYPES += ["tool.begin", "tool.end", "usage", "error", "note", "else"]
SCALARS = st.none() | st.booleans() | st.integers(-9, 9) | st.integers() | st.floats(allow_nan=False) | st.text()
VALUES = SCALARS | st.lists(SCALARS, max_size=2) | st.dictionaries(st.text(), SCALARS, max_size=2)
FIELDS = ["v", "session", "id", "ts", "turn", "step", "stream", "prompt", "role", "text", "name", "spawns", "error"]
FIELDS += ["arguments", "result", "status", "duration", "response", "usage", "estimated", "kind", "model"]


@st.composite
def odd_lines(draw: st.DrawFn) -> bytes:
    fields = draw(st.dictionaries(st.sampled_from(FIELDS), VALUES, max_size=8))
    return json.dumps({"type": draw(st.sampled_from(TYPES) | VALUES), **fields}).encode()


@given(st.lists(odd_lines(), max_size=8))
def test_no_object_raises(log: list[bytes]) -> None:
    """Lines of every type with any values, in any order, never raise; what is remembered can be stored."""
    memory: dict[str, Any] = {}
    for raw in log:
        run(raw, memory)


@given(st.lists(st.tuples(st.integers(1, 4), st.integers(1, 3), st.integers(0, 500)), max_size=20))
def test_a_step_is_one_response(log: list[tuple[int, int, int]]) -> None:
    """Without names, there are as many responses as steps, however often their usage is logged."""
    rows = [line("usage", turn=t, step=s, usage={"output_tokens": n}) for t, s, n in log]
    played = Play([line("session.begin"), *rows])
    assert len({act.response for act in played.of(a.ResponseUsage)}) == len({(t, s) for t, s, _ in log})
