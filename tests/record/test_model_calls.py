"""What model calls were sent: real logs against the requests in them, and properties of generated ones."""

from __future__ import annotations

import hashlib
import json
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import count, takewhile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agenttrace.config import ensure_home, load_settings
from agenttrace.model import Event, Usage
from agenttrace.record.formats.context import Piece
from agenttrace.record.formats.opencode import OpenCode
from agenttrace.record.recorder import Recorder
from agenttrace.record.texts.call_changes import ModelCall, ModelCalls, ToolPresence, lost_tokens
from agenttrace.record.texts.model_calls import model_calls
from agenttrace.store import open_store
from agenttrace.store.store import Store
from agenttrace.views.requests import Requests, changes_text

DATA = Path(__file__).resolve().parents[1] / "data"
HOMES = ("cline-3.0.65", "continue-cli-1.5.47", "copilot-1.0.102", "gemini-cli-0.61.0", "opencode-1.18.33", "pi-0.87.1")
PATHS = (
    "claude-code-2.1.325/projects",
    "claude-code-2.1.197",
    "codex-0.166.0",
    "codex-0.166.0-review",
    "kimi-cli-1.49.0",
    "kimi-code-2.1.0",
    "qwen-code-0.24.4/projects",
    "native",
)
CLAUDE = DATA / "claude-code-2.1.325" / "projects" / "-home-dev-claude-work"
KILLED, COMPACTED, REFUSED, FORK = "e64b9e82", "b341ac93", "fcc78218", "e4e7ac74"


@contextmanager
def recorded(*paths: Path, home: Path | None = None) -> Iterator[Store]:
    """A store of these logs."""
    with tempfile.TemporaryDirectory() as root:
        of = load_settings({"HOME": root, "AGENTTRACE_HOME": f"{root}/data"})
        ensure_home(of)
        environ = {} if home is None else {"HOME": str(home)}
        recorder = Recorder(of, paths=[str(path) for path in paths], environ=environ)
        recorder.run_once()
        recorder.close()
        with open_store(of) as store:
            yield store


def calls_of(store: Store, session: str) -> ModelCalls:
    return model_calls(store, store.session(session))


@pytest.fixture(scope="module")
def claude() -> Iterator[Store]:
    with recorded(CLAUDE) as store:
        yield store


@pytest.mark.parametrize("sample", [*PATHS, *HOMES])
def test_every_call_once(sample: str) -> None:
    """Every model call that the store has is there once, and its parts add up to the whole."""
    home = DATA / sample if sample in HOMES else None
    with recorded(*([] if home else [DATA / sample]), home=home) as store:
        assert store.sessions()
        for session in store.sessions():
            found = model_calls(store, session)
            steps = [row.span_id for row in store.span_rows(session) if row.kind == "step"]
            assert sorted(call.span_id for call in found.calls if call.span_id) == sorted(steps)
            times = [call.at or 0 for call in found.calls]
            assert times == sorted(times)
            fields = Requests(found).fields()
            for call, row in zip(found.calls, fields["items"], strict=True):
                assert row["characters"] == sum(row["parts"].values())
                assert set(row["parts"]).isdisjoint(row["unknown_parts"])
                assert min(call.parts.values(), default=0) >= 0
                assert call.known_from == "usage" or call.parts


def whole_requests(path: Path) -> dict[str, tuple[int, int, list[str]]]:
    """System, tools and messages of each request of a log, by time; put together without any shortcut."""
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    shapes = {each["shapeHash"]: each["shape"] for each in lines if each["type"] == "api-request-shape"}
    messages: dict[str, list[str]] = {}
    found = {}
    for line in lines:
        if line["type"] != "api-request":
            continue
        messages[line["id"]] = [*messages.get(line.get("base"), [])[: line["keep"]], *line["tail"]]
        shape = shapes[line["shapeHash"]]
        system = sum(len(block["text"]) for block in shape["system"])
        tools = sum(len(json.dumps(tool, separators=(",", ":"), ensure_ascii=False)) for tool in shape["tools"])
        found[line["timestamp"]] = (system, tools, messages[line["id"]])
    return found


def test_requests_of_the_log(claude: Store) -> None:
    """Where the log has the request, its parts are exactly those: every message is found, also answers of the model."""
    for path in CLAUDE.glob("*.jsonl"):
        calls = Requests(calls_of(claude, path.stem)).fields()["items"]
        sent = {call["at"]: call for call in calls if call["known_from"] == "request" and call["stream"] == "main"}
        whole = whole_requests(path)
        assert [at.replace("000Z", "Z") for at in sent] == list(whole)
        for call, (system, tools, messages) in zip(sent.values(), whole.values(), strict=True):
            assert (call["parts"]["system"], call["parts"]["tools"]) == (system, tools)
            assert (call["messages"], call["messages_not_in_log"]) == (len(messages), 0)


def test_growing_conversations_break_no_cache(claude: Store) -> None:
    """A request that only adds to the one before has no change, and its cache is whole."""
    for session in claude.sessions():
        if session.session_id.startswith((COMPACTED, REFUSED)):
            continue
        for call in model_calls(claude, session).calls:
            assert not call.changes
            assert not call.cache_lost


def test_compaction(claude: Store) -> None:
    """What a compaction threw away is known message by message."""
    calls = calls_of(claude, COMPACTED).calls
    (change,) = calls[2].changes
    assert (change.kind, change.known_from, change.messages, change.first) == ("compaction", "request", 3, 0)
    assert change.characters == {part: size for part, size in calls[1].parts.items() if size and part not in _SETTINGS}


_SETTINGS = ("system", "tools")


def test_attempts_and_tools(claude: Store) -> None:
    """Attempts without an answer are there; tools that came and went are named, and so are changed parameters."""
    found = calls_of(claude, REFUSED)
    assert [call.span_id for call in found.calls] == [None] * 6
    tools = next(change for change in found.calls[3].changes if change.kind == "tools")
    assert "CronCreate" in tools.added
    assert set(tools.removed) == {"DeferredToolPlaceholder", "ToolSearch"}
    went = {tool.name: (tool.came, tool.went) for tool in found.tools}
    assert went["ToolSearch"] == (0, 3)
    assert went["CronCreate"] == (3, None)
    assert [change.changed for change in found.calls[1].changes] == [("betas",)]
    assert "ToolSearch until call 3" in Requests(found).moved_tools()
    assert "CronCreate from call 4" in Requests(found).moved_tools()
    assert "tools +CronCreate +CronDelete" in changes_text(found.calls[3])


def test_calls_of_a_tool() -> None:
    """A tool that came and went has its first and its last call."""
    tools = [ToolPresence(name="a", stream="main", size=1, came=3, went=5, initial=False)]
    tools += [ToolPresence(name="b", stream="main", size=1, came=0, went=None, initial=True)]
    assert Requests(ModelCalls(calls=[], tools=tools)).moved_tools() == ["a calls 4–5"]


def test_copies_are_computed(claude: Store) -> None:
    """The requests of copied answers are in another log: their calls are computed, and say so."""
    assert [call.known_from for call in calls_of(claude, FORK).calls] == ["conversation", "conversation", "request"]


def test_an_unanswered_call(claude: Store) -> None:
    """A call that was killed has a context and no tokens."""
    calls = calls_of(claude, KILLED).calls
    assert [call.usage is not None for call in calls] == [True, False, True]
    assert calls[1].parts["files"] > 0


def test_system_prompts_and_tools_of_others() -> None:
    """Codex and Pi log the system prompt, Kimi Code and Pi the tools too; what a log does not have is unknown."""
    with recorded(DATA / "codex-0.166.0", DATA / "kimi-code-2.1.0") as store:
        by_agent = {session.agent: model_calls(store, session) for session in store.sessions()}
    log = next((DATA / "codex-0.166.0").rglob("*.jsonl")).read_text().splitlines()
    instructions = json.loads(log[0])["payload"]["base_instructions"]["text"]
    for call in by_agent["codex"].calls:
        assert call.parts["system"] == len(instructions)
        assert "tools" not in call.parts
    assert all(call.parts["tools"] and call.parts["system"] for call in by_agent["kimi-code"].calls)
    with recorded(home=DATA / "pi-0.87.1") as store:
        for session in store.sessions():
            assert all(call.parts["tools"] and call.parts["system"] for call in model_calls(store, session).calls)


def test_system_prompts_of_documents() -> None:
    """Cline writes it into the document of a session; those of its subagents have none."""
    documents = (DATA / "cline-3.0.65" / ".cline" / "data" / "sessions").glob("*/*.messages.json")
    sizes = {found["sessionId"]: len(found.get("system_prompt", "")) for found in map(_json, documents)}
    streams = set()
    with recorded(home=DATA / "cline-3.0.65") as store:
        for session in store.sessions():
            for call in model_calls(store, session).calls:
                main = call.stream == "main"
                assert call.parts.get("system") == (sizes[session.session_id] if main else None)
                streams.add(main)
    assert streams == {True, False}


def _json(path: Path) -> Any:  # noqa: ANN401
    return json.loads(path.read_text())


def test_parts_that_are_not_in_the_log() -> None:
    """A part that an agent sends and does not log is unknown, and not 0; what Gemini CLI logs of it is counted."""
    for sample in ("aider-0.86.2", "cline-3.0.65", "continue-cli-1.5.47", "opencode-1.18.33"):
        paths = [DATA / sample] if sample.startswith("aider") else []
        with recorded(*paths, home=None if paths else DATA / sample) as store:
            for session in store.sessions():
                for call in model_calls(store, session).calls:
                    assert "context" not in call.parts
                    assert ("files" in call.parts) != sample.startswith("aider")
    log = next((DATA / "gemini-cli-0.61.0").rglob("*-0f71985b.jsonl"))
    first = json.loads(log.read_text().splitlines()[1])["$set"]["messages"][0]["content"][0]["text"]
    with recorded(log) as store:
        assert [call.parts["context"] for call in model_calls(store, store.sessions()[0]).calls] == [len(first)] * 2


def test_reminders_before_claude_code_logged_its_requests(tmp_path: Path) -> None:
    """They and instruction files were sent and not logged: without a line of them their size is unknown, not 0."""
    common = {"sessionId": "5bc45ad6-0000-4000-8000-000000000001", "version": "2.0.1", "isSidechain": False}
    answer = {
        "id": "m1",
        "role": "assistant",
        "model": "claude-sonnet-4-5",
        "content": [{"type": "text", "text": "Hi"}],
    }
    log = tmp_path / f"{common['sessionId']}.jsonl"
    said = (("user", {"role": "user", "content": "go"}), ("assistant", answer | {"usage": {"output_tokens": 1}}))
    lines = [
        common | {"type": kind, "uuid": f"u{number}", "timestamp": f"2026-11-16T00:00:0{number}Z", "message": message}
        for number, (kind, message) in enumerate(said)
    ]
    log.write_text("".join(json.dumps(line) + "\n" for line in lines))
    with recorded(log) as store:
        (call,) = model_calls(store, store.sessions()[0]).calls
    assert (call.parts["user"], call.parts.get("context")) == (2, None)


def test_texts_that_opencode_adds() -> None:
    """A synthetic part of a message is sent with it: context, and no prompt."""
    text = "Called the Read tool"
    part = {"id": "p", "messageID": "m", "type": "text", "text": text, "synthetic": True}
    agent = OpenCode()
    event = Event("message.part.updated/text", "s:1", None, {"part": part})
    source = agent.source(Path("opencode.db"), "s")
    assert list(agent.context(event, source, {}, b"")) == [Piece("context", len(text))]


def test_thinking_that_is_not_in_the_log() -> None:
    """Tokens of thinking without a text of it: later calls may have been sent it, in a form that the log hides."""
    with recorded(DATA / "codex-0.166.0") as store:
        (session,) = store.sessions()
        whole = model_calls(store, session).calls
    assert [call.parts["thinking"] > 0 for call in whole] == [False, True, True]
    log = next((DATA / "codex-0.166.0").rglob("*.jsonl"))
    with tempfile.TemporaryDirectory() as root:
        lines = [
            line for line in log.read_text().splitlines() if '"reasoning"' not in line and "agent_reasoning" not in line
        ]
        (Path(root) / log.name).write_text("\n".join(lines) + "\n")
        with recorded(Path(root) / log.name) as store:
            calls = model_calls(store, store.sessions()[0]).calls
    assert ["thinking" in call.parts for call in calls] == [True, False, False]


def test_compactions_of_others(tmp_path: Path) -> None:
    """After a compaction Codex sends what the line keeps, Copilot the summary; what is gone is counted by part."""
    codex = tmp_path / "rollout-2026-11-15T09-09-00-01a1de77-9240-7233-b378-7a1872f63de7.jsonl"
    lines = next((DATA / "codex-0.166.0").rglob("*.jsonl")).read_text().splitlines()
    kept = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "kept"}]}
    at = "2026-11-15T09:09:01.111Z"
    compacted = {"timestamp": at, "type": "compacted", "payload": {"message": "", "replacement_history": [kept]}}
    place = next(number for number, line in enumerate(lines) if "function_call_output" in line)
    after = place + 2
    codex.write_text("\n".join([*lines[:after], json.dumps(compacted), *lines[after:]]) + "\n")
    home = tmp_path / "home"
    log = next((DATA / "copilot-1.0.102").rglob("16a59602*/events.jsonl"))
    copy = home / ".copilot" / "session-state" / log.parent.name / "events.jsonl"
    copy.parent.mkdir(parents=True)
    events = [json.loads(line) for line in log.read_text().splitlines()]
    second = [number for number, event in enumerate(events) if event["type"] == "user.message"][1]
    done = {**events[second], "type": "session.compaction_complete", "id": "c", "data": {"summaryContent": "so far"}}
    copy.write_text("".join(json.dumps(event) + "\n" for event in [*events[:second], done, *events[second:]]))
    with recorded(codex) as store:
        changed = [call for call in model_calls(store, store.sessions()[0]).calls if call.changes]
        assert [change.kind for change in changed[0].changes] == ["compaction"]
        assert changed[0].changes[0].characters["results"] > 0
        assert changed[0].parts["user"] == len("kept")
        assert changed[0].parts["system"] > 0
    with recorded(home=home) as store:
        calls = model_calls(store, store.sessions()[0]).calls
        assert [change.kind for call in calls for change in call.changes if change.kind != "system"] == ["compaction"]
        call = next(call for call in calls if any(change.kind == "compaction" for change in call.changes))
        assert call.parts["assistant"] == 0
        assert call.parts["context"] >= len("so far")


def _with_settings(root: Path, *told: tuple[str, dict[str, Any]]) -> Path:
    """The real log with fields of its second turn's context changed, or with lines before that."""
    source = next((DATA / "codex-0.166.0").rglob("*.jsonl"))
    lines = [json.loads(line) for line in source.read_text().splitlines()]
    place = [number for number, line in enumerate(lines) if line["type"] == "turn_context"][1]
    for kind, payload in told:
        if kind == "turn_context":
            lines[place]["payload"] |= payload
        else:
            lines.insert(place, {"timestamp": lines[place]["timestamp"], "type": kind, "payload": payload})
            place += 1
    log = root / source.name
    log.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return log


_MODE = {"mode": "plan", "settings": {"model": "gpt-5.2-codex", "developer_instructions": "Ask first."}}


@pytest.mark.parametrize(
    ("told", "names"),
    [
        ([], []),
        ([("turn_context", {"effort": "high", "summary": "auto"})], ["effort", "summary"]),
        (
            [("turn_context", {"approval_policy": "on-request", "sandbox_policy": {"type": "read-only"}})],
            ["approval_policy", "sandbox_policy"],
        ),
        (
            [("turn_context", {"collaboration_mode": _MODE, "user_instructions": "Be brief."})],
            ["collaboration_mode", "user_instructions"],
        ),
        # The turn says again what the thread was set to; a setting that it does not name is the default again.
        (
            [
                ("event_msg", {"type": "thread_settings_applied", "thread_settings": {"approval_policy": "untrusted"}}),
                ("turn_context", {"approval_policy": "untrusted"}),
            ],
            ["approval_policy"],
        ),
        (
            [("world_state", {"full": False, "state": {"environments": {"current_date": "2026-11-16"}}})],
            ["world_state.environments"],
        ),
        ([("world_state", {"full": False, "state": {"environments": {"current_date": "2026-11-15"}}})], []),
        ([("turn_context", {"model": "gpt-6", "turn_id": "another"})], []),
    ],
)
def test_settings_of_codex(tmp_path: Path, told: list[tuple[str, dict[str, Any]]], names: list[str]) -> None:
    """Settings that are not what they were are a change of the next call alone, known from the lines before it."""
    with recorded(_with_settings(tmp_path, *told)) as store:
        (session,) = store.sessions()
        calls = model_calls(store, session).calls
    changes = [[change for change in call.changes if change.kind == "parameters"] for call in calls]
    assert [len(found) for found in changes] == [0, 0, int(bool(names))]
    for change in changes[2]:
        assert (list(change.changed), change.known_from) == (names, "conversation")


# -- generated requests -------------------------------------------------------------------------------------------

SESSION = "00000000-0000-4000-8000-000000000000"
SHAPE = {"system": [{"type": "text", "text": "Be brief."}], "tools": []}


def digest(message: object) -> str:
    text = json.dumps(message, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()


def log_of(requests: Sequence[tuple[list[str], bool]], reads: Sequence[int]) -> Iterator[dict[str, Any]]:
    """A log of requests with these messages, each as a whole or as what changed since the one before."""
    yield {"type": "user", "uuid": "u", "isSidechain": False, "message": {"role": "user", "content": "go"}}
    yield {"type": "api-request-shape", "shapeHash": "s", "shape": SHAPE}
    before: list[str] = []
    for number, ((texts, whole), read) in enumerate(zip(requests, reads, strict=True)):
        messages = [{"role": "user", "content": text} for text in texts]
        for message in messages:
            yield {"type": "api-request-blob", "hash": digest(message), "message": message}
        names = [digest(message) for message in messages]
        based = {} if whole or not number else {"base": f"r{number - 1}"}
        same = takewhile(lambda pair: pair[0] == pair[1], zip(before, names, strict=False))
        keep = len(list(same)) if based else 0
        yield {"type": "api-request", "id": f"r{number}", **based, "keep": keep, "tail": names[keep:]} | {
            "shapeHash": "s",
            "params": {"model": "m"},
        }
        # The prompt grows, whatever is read from the cache.
        usage = {"input_tokens": 200 + number - read, "output_tokens": 1, "cache_read_input_tokens": read}
        content = [{"type": "text", "text": "yes"}]
        yield {"type": "assistant", "uuid": f"a{number}", "isSidechain": False, "requestRef": f"r{number}"} | {
            "message": {"id": f"m{number}", "model": "m", "content": content, "usage": usage, "stop_reason": "tool_use"}
        }
        before = names


def calls_in(lines: Iterable[dict[str, Any]]) -> list[ModelCall]:
    """The calls of a log; lines without a time are a millisecond apart."""
    with tempfile.TemporaryDirectory() as root:
        path = Path(root) / f"{SESSION}.jsonl"
        times = (f"2026-11-16T00:00:00.{number:03}Z" for number in count())
        stamped = ({"timestamp": at, **line, "sessionId": SESSION} for at, line in zip(times, lines, strict=False))
        path.write_text("".join(json.dumps(line) + "\n" for line in stamped))
        with recorded(path) as store:
            return calls_of(store, SESSION).calls


texts = st.lists(st.sampled_from(["", "a", "bb", "ccc", "Grüße", "猫" * 5]), min_size=1, max_size=5)


@settings(max_examples=25, deadline=None)
@given(st.lists(st.tuples(texts, st.booleans(), st.integers(0, 5)), min_size=1, max_size=7))
def test_any_requests(given_requests: list[tuple[list[str], bool, int]]) -> None:
    """Sizes are those of the messages; a change is told where the prefix changed, a break where the cache read fell."""
    requests = [(messages, whole) for messages, whole, _ in given_requests]
    reads = [read for _, _, read in given_requests]
    calls = calls_in(log_of(requests, reads))
    assert [call.known_from for call in calls] == ["request"] * len(requests)
    for number, (call, (messages, _)) in enumerate(zip(calls, requests, strict=True)):
        assert call.parts["user"] == sum(map(len, messages))
        assert (call.messages, call.unread) == (len(messages), 0)
        before = requests[number - 1][0] if number else []
        grew = messages[: len(before)] == before
        assert [change.kind for change in call.changes] == ([] if grew else ["messages"])
        assert call.cache_lost == (max(0, reads[number - 1] - reads[number]) if number else 0)
        assert call.causes == (["messages"] if call.cache_lost and not grew else [])


counts = st.builds(
    Usage,
    input_tokens=st.integers(0, 10_000),
    cache_read_tokens=st.integers(0, 100_000),
    cache_write_tokens=st.integers(0, 10_000),
)


@given(counts, counts)
def test_lost_tokens(before: Usage, now: Usage) -> None:
    """Never more than the prompt could have read; nothing where all that was there is read, or all of the prompt."""
    lost = lost_tokens(before, now)
    prompt = now.input_tokens + now.cache_read_tokens + now.cache_write_tokens
    there = before.cache_read_tokens + before.cache_write_tokens
    assert 0 <= lost <= prompt - now.cache_read_tokens
    if now.cache_read_tokens >= there or now.cache_read_tokens == prompt:
        assert lost == 0
    if now.cache_read_tokens > before.cache_read_tokens and 2 * now.cache_read_tokens >= there:
        assert lost == 0


def test_a_cache_that_is_written_and_never_read() -> None:
    """A prompt that begins differently each time reads the same few tokens each time: what was written is lost."""
    each = Usage(input_tokens=3, cache_read_tokens=500, cache_write_tokens=50_000)
    assert lost_tokens(each, each) == 50_000
    first, second = Usage(cache_write_tokens=20_000), Usage(cache_read_tokens=500, cache_write_tokens=20_000)
    assert lost_tokens(first, second) == 19_500


def test_errors_without_tokens_hide_no_break() -> None:
    """An error that the agent writes as an answer has no tokens: the next call is compared with the one before it."""
    lines = list(log_of([(["a"], True), (["a", "b"], False), (["a", "b", "c"], False)], [100, 0, 0]))
    error = next(line for line in lines if line.get("uuid") == "a1")
    error["message"]["usage"] = {"input_tokens": 0, "output_tokens": 0}
    assert [call.cache_lost for call in calls_in(lines)] == [0, 0, 100]


def test_a_long_pause_is_a_cause() -> None:
    """A cache that is not used for five minutes expires."""
    lines = list(log_of([(["a"], True), (["a", "b"], False)], [100, 0]))
    for line in lines[5:]:
        line["timestamp"] = "2026-11-16T00:06:00.000Z"
    call = calls_in(lines)[1]
    assert (call.cache_lost, call.causes) == (100, ["pause"])
    assert "cache lost 100 tokens: pause" in changes_text(call)


def test_missing_bases_are_no_exact_requests() -> None:
    """A request that refers to one that the log does not have is computed from the conversation."""
    lines = [line for line in log_of([(["a"], True), (["a", "b"], False)], [1, 2]) if line.get("id") != "r0"]
    assert [call.known_from for call in calls_in(lines)] == ["conversation", "conversation"]
