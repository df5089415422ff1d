"""Telemetry of agents becomes sessions with tokens, and counts nothing once a log of the session is recorded."""

# ruff: noqa: ANN401 - rows have anything

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from otlp_rig import RESPONSES, SPANS, USAGE, Store

from agenttrace.calendar import day_finder
from agenttrace.record.formats import AGENTS
from agenttrace.record.formats.contract import Source, Unusable
from agenttrace.record.recorder import Recorder
from agenttrace.record.texts.contents import session_lines
from agenttrace.store import open_store
from agenttrace.store.rows import ChangesCursor
from agenttrace.store.sqlite import agreement
from agenttrace.store.sqlite.store import SqliteStore
from agenttrace.store.totals import SCOPES
from scratch import quick
from telemetry_rig import (
    CUMULATIVE,
    NOW,
    SECOND,
    claude,
    codex,
    conversation,
    counter,
    event,
    lines,
    points,
)

DATA = Path(__file__).resolve().parents[1] / "data"
SAMPLES = {"claude-code": DATA / "claude-code-2.1.325" / "projects", "codex": DATA / "codex-0.166.0" / "sessions"}
#: What telemetry must not change of a session that has a log; it adds events, and perhaps a later time.
SESSIONS = (
    "SELECT agent, session_id, project, branch, title, first_prompt, version, model, parent, copied, born, state, "
    "turns, steps, tools, errors FROM sessions WHERE events > 0 ORDER BY id"
)
TABLES = (SESSIONS, SPANS, USAGE, RESPONSES)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path)


def test_a_session_of_claude_code(store: Store) -> None:
    """Prompt, model calls and tools of Claude Code's events are a session of Claude Code, with its tokens."""
    store.append(*lines(*conversation()))
    store.record()
    found = store.session("s1")
    facts = ("agent", "first_prompt", "model", "version", "turns", "steps", "tools", "errors", "state")
    assert [found[name] for name in facts] == [
        "claude-code", "Fix it", "claude-sonnet-4-5", "2.1.325", 1, 2, 1, 0, "waiting",
    ]  # fmt: skip
    used = "SELECT requests, input_tokens, output_tokens, cache_read_tokens, cache_write_tokens FROM usage_rollup"
    assert store.rows(used) == [(2, 30, 5, 200, 14)]
    spans = store.rows('SELECT kind, stream, name, ("end" - start) / 1000, status FROM spans ORDER BY start, kind')
    assert spans == [
        ("turn", "main", "invoke_agent claude-code", 20000, "ok"),
        ("step", "main", "chat claude-sonnet-4-5", 2000, "ok"),
        ("tool", "main", "execute_tool Bash", 1500, "ok"),
        ("step", "main", "chat claude-sonnet-4-5", 2000, "ok"),
    ]


@pytest.mark.parametrize("order", [(0, 1, 2), (0, 2, 1)])
def test_the_text_of_an_answer(order: tuple[int, ...], store: Store) -> None:
    """It is part of the model call that it names, whichever event is sent first, and adds no tokens."""
    call = {"request_id": "req_1", "model": "claude-sonnet-4-5"}
    told = lines(
        claude("user_prompt", 0, prompt="Fix it"),
        claude("api_request", 10, input_tokens=10, output_tokens=2, duration_ms=2000, **call),
        claude("assistant_response", 10, response="It is fixed.", response_length=12, **call),
    )
    for place in order:
        store.append(told[place])
        store.record()
    assert [row[2] for row in store.rows(COUNTED)] == [10]
    assert store.rows("SELECT kind, status FROM spans ORDER BY kind") == [("step", "ok"), ("turn", "ok")]
    with open_store(store.settings) as opened:
        (session,) = opened.sessions()
        ((step, texts),) = (
            (said.line.span_id, [content.text for content in said.contents])
            for said in session_lines(opened, session)
            if said.event.type.endswith("assistant_response")
        )
        assert (opened.spans(session)[1].span_id, ["It is fixed."]) == (step, texts)


def test_a_session_of_codex(store: Store) -> None:
    """Codex counts cached tokens in its input, reasoning in its output, and sends numbers as texts."""
    told = [
        codex("conversation_starts", 0),
        codex("user_prompt", 1, prompt="[REDACTED]", prompt_length=10),
        codex("api_request", 2, duration_ms=300, http__response__status_code=200, attempt=0),
        codex("sse_event", 2, event__kind="response.created", duration_ms=3),
        codex(
            "sse_event",
            3,
            **{"event.kind": "response.completed"},
            input_token_count=1000,
            output_token_count=50,
            cached_token_count=600,
            reasoning_token_count=20,
            tool_token_count=1050,
        ),
        codex("tool_decision", 4, tool_name="shell", call_id="call_1", decision="approved", source="Config"),
        codex("tool_result", 5, tool_name="shell", call_id="call_1", success="false", duration_ms=90, output="no"),
        codex("api_request", 6, duration_ms=30, http__response__status_code=503, error__message="overloaded"),
    ]
    store.append(*lines(*told, service="codex_cli_rs"))
    summary = store.record()
    found = store.session("c1")
    facts = ("agent", "first_prompt", "model", "version", "turns", "steps", "tools", "errors")
    assert [found[name] for name in facts] == ["codex", None, "gpt-5-codex", "0.166.0", 1, 2, 1, 2]
    used = "SELECT requests, input_tokens, cache_read_tokens, output_tokens, reasoning_tokens FROM usage_rollup"
    assert store.rows(used) == [(1, 400, 600, 50, 20)]
    assert (summary.recorded, summary.ignored, summary.quarantined) == (7, 1, 0)


@pytest.mark.parametrize(("prefix", "agent"), [("gemini_cli", "gemini-cli"), ("qwen-code", "qwen-code")])
def test_gemini_and_qwen(store: Store, prefix: str, agent: str) -> None:
    """Gemini CLI and Qwen Code: responses with their tokens, tools, failures."""
    own = {"session.id": "g1", "prompt_id": "g1########0"}

    def told(name: str, at: float, **attributes: Any) -> Any:
        return event("", at, **own, **{"event.name": f"{prefix}.{name}"}, **attributes)

    counts = {
        "input_token_count": 100,
        "output_token_count": 10,
        "cached_content_token_count": 40,
        "thoughts_token_count": 5,
        "total_token_count": 115,
    }
    events = [
        told("config", 0, model="m"),
        told("user_prompt", 1, prompt="Hello", prompt_length=5),
        told("api_request", 2, model="gemini-2.5-pro"),
        told("api_response", 3, model="gemini-2.5-pro", duration_ms=800, response_text="Hi", **counts),
        told("tool_call", 4, function_name="read_file", function_args="{}", duration_ms=9, success=True),
        told("api_error", 5, model="gemini-2.5-pro", error="quota", status_code=429, duration_ms=10),
    ]
    store.append(*lines(*events, service=agent))
    store.record()
    found = store.session("g1")
    facts = ("agent", "first_prompt", "turns", "steps", "tools", "errors")
    assert [found[name] for name in facts] == [agent, "Hello", 1, 2, 1, 1]
    used = "SELECT requests, input_tokens, cache_read_tokens, output_tokens, reasoning_tokens FROM usage_rollup"
    assert store.rows(used) == [(1, 60, 40, 15, 5)]


def test_the_session_of_a_process(store: Store) -> None:
    """A session that only the resource names is the session of the record."""
    told = event("claude_code.user_prompt", 0, prompt="Hi")
    store.append(*lines(told, **{"session.id": "by-resource"}))
    store.record()
    assert store.names() == ["by-resource"]


def test_sent_again(store: Store) -> None:
    """A record that is sent again, in another request, changes nothing."""
    told = lines(*conversation())
    store.append(*told)
    store.record()
    before = store.tables(*TABLES)
    store.append(*told, *told)
    summary = store.record()
    assert (summary.recorded, summary.duplicate) == (0, 2 * len(told))
    assert store.tables(*TABLES) == before


def test_other_programs(store: Store) -> None:
    """Records and metrics of other programs, and those without a session, are ignored and counted."""
    other = [
        event("user logged in", 0, user="u"),
        event("claude_code.api_request", 0, **{"event.name": "api_request", "input_tokens": 5}),
        claude("mcp_server_connection", 0),
    ]
    metrics = points(counter({("m", "input"): 5}, 1, name="claude_code.session.count"))
    store.append(*lines(*other, service="shop"), *metrics)
    summary = store.record()
    assert (summary.recorded, summary.ignored, summary.quarantined) == (0, 4, 0)
    assert store.names() == []


# -- a log of the same session ------------------------------------------------------------------------------------


@pytest.fixture(scope="module", params=sorted(SAMPLES))
def golden(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Golden:
    return Golden(request.param, tmp_path_factory.mktemp(request.param))


class Golden:
    """Golden sessions of an agent: their logs, and the telemetry that the agent would have sent."""

    def __init__(self, agent: str, root: Path) -> None:
        self.agent = agent
        self.logs = SAMPLES[agent]
        self.alone = Store(root / "alone")
        self.record(self.alone, logs=True)
        self.telemetry = list(self._telemetry())

    def record(self, store: Store, *, logs: bool) -> None:
        """Record the intake's log, and the agent's logs."""
        paths = [str(store.log.parent), *([str(self.logs)] if logs else [])]
        recorder = Recorder(store.settings, paths=paths, environ={})
        try:
            recorder.run_once()
        finally:
            recorder.close()

    def _telemetry(self) -> Iterator[bytes]:
        """Each response that a session owns as the event that reports it, after the prompt of its turn."""
        query = (
            "SELECT s.session_id, r.at, r.model, r.input_tokens, r.output_tokens, r.cache_read_tokens, "
            "r.cache_write_tokens, r.reasoning_tokens, hex(r.response) FROM responses r "
            "JOIN sessions s ON s.id = r.session_id ORDER BY s.session_id, r.at"
        )
        for session, calls in itertools.groupby(self.alone.rows(query), key=lambda row: row[0]):
            make = claude if self.agent == "claude-code" else codex
            service = "claude-code" if self.agent == "claude-code" else "codex_cli_rs"
            yield from lines(make("user_prompt", 0, session, prompt="told by telemetry"), service=service)
            for _, at, model, asked, written, read, cached, thought, name in calls:
                seconds = at / 1e6 - NOW / SECOND
                if self.agent == "claude-code":
                    counts = {"input_tokens": asked, "output_tokens": written, "cache_read_tokens": read}
                    more = {"cache_creation_tokens": cached, "request_id": f"req_{name}", "model": model}
                    yield from lines(claude("api_request", seconds, session, **counts, **more))
                else:
                    counts = {"input_token_count": asked + read + cached, "cached_token_count": read}
                    counts |= {"output_token_count": written, "reasoning_token_count": thought}
                    counts |= {"cache_write_token_count": cached}
                    kind = {"event.kind": "response.completed"}
                    yield from lines(codex("sse_event", seconds, session, **kind, **counts), service=service)


def test_telemetry_alone(golden: Golden, tmp_path: Path) -> None:
    """Telemetry of the golden sessions, without their logs, has the tokens of the logs, session by session."""
    store = Store(tmp_path)
    store.append(*golden.telemetry)
    golden.record(store, logs=False)
    query = (
        "SELECT s.agent, s.session_id, sum(requests), sum(input_tokens), sum(output_tokens), sum(cache_read_tokens), "
        "sum(cache_write_tokens) FROM usage_rollup u JOIN sessions s ON s.id = u.session_id GROUP BY 1, 2 ORDER BY 1, 2"
    )
    assert store.rows(query) == golden.alone.rows(query)
    assert {row[0] for row in store.rows("SELECT first_prompt FROM sessions")} == {"told by telemetry"}


def _log_first(golden: Golden, store: Store) -> None:
    golden.record(store, logs=True)
    store.append(*golden.telemetry)
    golden.record(store, logs=True)


def _telemetry_first(golden: Golden, store: Store) -> None:
    store.append(*golden.telemetry)
    golden.record(store, logs=False)
    assert store.rows("SELECT count(*) FROM responses") == golden.alone.rows("SELECT count(*) FROM responses")
    golden.record(store, logs=True)


def _together(golden: Golden, store: Store) -> None:
    store.append(*golden.telemetry)
    golden.record(store, logs=True)


def _around(golden: Golden, store: Store) -> None:
    half = len(golden.telemetry) // 2
    store.append(*golden.telemetry[:half])
    golden.record(store, logs=False)
    golden.record(store, logs=True)
    store.append(*golden.telemetry[half:])
    golden.record(store, logs=True)


@pytest.mark.parametrize("order", [_log_first, _telemetry_first, _together, _around])
def test_the_log_counts(golden: Golden, tmp_path: Path, order: Callable[[Golden, Store], None]) -> None:
    """A session with a log is what its log says, whether telemetry of it comes before, after or with it."""
    store = Store(tmp_path)
    order(golden, store)
    assert store.tables(*TABLES) == golden.alone.tables(*TABLES)
    shown = "SELECT count(*) FROM processed_events WHERE event_type LIKE 'telemetry/%' AND span_id IS NOT NULL"
    assert store.rows(shown) == [(0,)]


@pytest.mark.parametrize("again", [True, False])
def test_the_log_grows_beside_telemetry(tmp_path: Path, again: bool) -> None:
    """A log that is written line by line, with telemetry in between and before it; by one recorder, or many."""
    source = min(SAMPLES["claude-code"].rglob("*.jsonl"), key=lambda path: path.stat().st_size)
    session = json.loads(source.read_bytes().split(b"\n")[0]).get("sessionId") or source.stem
    written = source.read_bytes().splitlines(keepends=True)
    chance = random.Random(7)
    outcome: list[dict[str, Any]] = []
    for told in ([], lines(*conversation(session, [(5, 5)] * 12))):
        store = Store(tmp_path / str(len(outcome)))
        place = tmp_path / "logs" / str(len(outcome)) / source.name
        place.parent.mkdir(parents=True)
        steps = [(place, line) for line in written]
        for line in told:
            steps.insert(chance.randint(0, len(steps)), (store.log, line))
        steps = [*((store.log, line) for line in told[:3]), *steps]
        recorder = None
        for path, line in steps:
            with path.open("ab") as file:
                file.write(line)
            if recorder is None or again:
                if recorder is not None:
                    recorder.close()
                recorder = Recorder(store.settings, paths=[str(store.log.parent), str(place.parent)], environ={})
            recorder.run_once()
        assert recorder is not None
        recorder.close()
        outcome.append(store.tables(*TABLES))
    assert outcome[0] == outcome[1]


def test_copies_of_the_store(golden: Golden, tmp_path: Path) -> None:
    """A copy that is merged from changes in any order has neither spans nor tokens that were removed."""
    store, copy = Store(tmp_path / "store"), Store(tmp_path / "copy")
    copy.record()
    store.append(*golden.telemetry)
    rows: list[Any] = []
    cursor = ChangesCursor()
    for logs in (False, True):
        golden.record(store, logs=logs)
        with SqliteStore.open(store.settings.home / "agenttrace.db") as recorded:
            while (page := recorded.changes_since(cursor, 500)).rows:
                rows, cursor = rows + page.rows, page.cursor
    random.Random(3).shuffle(rows)
    with SqliteStore.open(copy.settings.home / "agenttrace.db", read_only=False) as merged:
        for start in range(0, len(rows), 300):
            merged.merge(rows[start : start + 300], day_of=day_finder(store.settings.usage.timezone))
    assert copy.tables(*TABLES) == golden.alone.tables(*TABLES)


# -- sessions that were pruned ------------------------------------------------------------------------------------


def _prune(store: Store) -> None:
    """Remove what every session said, and the ids of its events, as if its files were gone for long."""
    with SqliteStore.open(store.settings.home / "agenttrace.db", read_only=False) as opened:
        opened.retention.prune(2**40)
        list(opened.retention.expire_ids(2**40, lambda path: False))


def _usage(store: Store) -> dict[str, Any]:
    """What was used, however often the same was said again."""
    counts = "sum(input_tokens), sum(output_tokens), sum(cache_read_tokens), sum(cache_write_tokens)"
    return store.tables(
        f"SELECT session_id, sum(requests), {counts} FROM usage_rollup GROUP BY 1 ORDER BY 1",
        f"SELECT session_id, count(*), {counts} FROM responses GROUP BY 1 ORDER BY 1",
    )


@pytest.mark.parametrize(
    "steps", ["tpt", "tpl", "lpt", "tptpl", "tlpt", "ltpt", "tpltpt", "hpal", "lphpa", "hplpa", "tplpl"]
)
def test_a_pruned_session_counts_once(golden: Golden, tmp_path: Path, steps: str) -> None:
    """[t]elemetry, its [h]alf and what comes [a]fter it, the [l]og and [p]runing in any order: never double."""
    store, half = Store(tmp_path), len(golden.telemetry) // 2
    told = {"t": golden.telemetry, "h": golden.telemetry[:half], "a": golden.telemetry[half:]}
    for step in steps:
        if step == "p":
            _prune(store)
        else:
            store.append(*told.get(step, []))
            golden.record(store, logs=step == "l")
    assert _usage(store) == _usage(golden.alone)


# -- metrics ------------------------------------------------------------------------------------------------------


def _agreement(store: Store, session: str = "s1") -> Any:
    with store.recorder() as recorder:
        return agreement.check(recorder.connection, store.session(session)["id"])


CALLED = {"input": 30, "output": 5, "cacheRead": 200, "cacheCreation": 14}


def test_a_counter_is_a_total(store: Store) -> None:
    """Deltas of the token counter add up to a total that the calls are checked against; they add no tokens."""
    store.append(*lines(*conversation()))
    store.record()
    before = store.tables(USAGE, RESPONSES)
    for part in (1, 2):
        halves = {
            ("claude-sonnet-4-5", kind): count // 2 if part == 1 else count - count // 2
            for kind, count in CALLED.items()
        }
        told = points(counter(halves, 60.0 * part))
        store.append(*told, *told)
    store.record()
    assert store.tables(USAGE, RESPONSES) == before
    found = _agreement(store)
    assert (found.status, found.checked) == ("agree", 2)


def test_a_cumulative_counter(store: Store) -> None:
    """Of a cumulative counter the latest value of each series counts, in whatever order its points arrive."""
    store.append(*lines(*conversation()))
    values = [{("claude-sonnet-4-5", kind): count * part // 3 for kind, count in CALLED.items()} for part in (1, 3, 2)]
    for number, value in enumerate(values, start=1):
        store.append(*points(counter(value, 60.0 * number, temporality=CUMULATIVE)))
    store.record()
    assert _agreement(store).status == "agree"


def _values(part: int, rest: int = 0) -> dict[tuple[str, str], int]:
    """So many tenths of what was called, or what was called without so many tenths."""
    share = {kind: count * (rest or part) // 10 for kind, count in CALLED.items()}
    return {("claude-sonnet-4-5", kind): CALLED[kind] - count if rest else count for kind, count in share.items()}


@pytest.mark.parametrize("start", [True, False])
def test_a_counter_that_is_reset(store: Store, start: bool) -> None:
    """A process that was restarted counts from 0 again; it names another beginning, or none at all."""
    store.append(*lines(*conversation()))
    for at, begun, value in (
        (10, 1, _values(3)),
        (20, 1, _values(7)),
        (30, 25, _values(1)),
        (40, 25, _values(0, rest=7)),
        (40, 25, _values(0, rest=7)),
    ):
        since = begun if start else -NOW / SECOND
        store.append(*points(counter(value, at, temporality=CUMULATIVE, start=since)))
        # By one recorder after another: what is remembered outlives each of them.
        store.record()
    assert (_agreement(store).status, _agreement(store).checked) == ("agree", 2)


def test_points_without_a_beginning_in_any_order(store: Store) -> None:
    """A smaller point of an earlier time is late, and no reset."""
    store.append(*lines(*conversation()))
    for at, part in ((60, 10), (50, 5), (40, 2)):
        store.append(*points(counter(_values(part), at, temporality=CUMULATIVE, start=-NOW / SECOND)))
    store.record()
    assert _agreement(store).status == "agree"


COUNTED = "SELECT day, model, input_tokens, output_tokens, cache_read_tokens, cache_write_tokens FROM usage_rollup"
WHOLE = tuple(CALLED.values())


def test_metrics_alone(store: Store) -> None:
    """They are the usage of a session without model calls: by day and model, and shown as calls that no log has."""
    day = 24 * 3600.0
    for at, model, part in ((60, "claude-sonnet-4-5", 10), (120, "claude-haiku-4-5", 10), (day, "claude-haiku-4-5", 5)):
        told = points(counter({(model, kind): count for (_, kind), count in _values(part).items()}, at))
        store.append(*told, *told)
        # By one recorder after another: what is remembered outlives each of them.
        store.record()
    assert {scope for (scope,) in store.rows("SELECT scope FROM totals")} == {"meter"} < SCOPES
    half = tuple(count // 2 for count in WHOLE)
    assert sorted(store.rows(COUNTED)) == [
        ("2026-11-15", "claude-haiku-4-5", *WHOLE),
        ("2026-11-15", "claude-sonnet-4-5", *WHOLE),
        ("2026-11-16", "claude-haiku-4-5", *half),
    ]
    assert store.rows("SELECT stream, kind, model FROM spans ORDER BY start, model") == [
        ("not in the log", "step", "claude-sonnet-4-5"),
        ("not in the log", "step", "claude-haiku-4-5"),
        ("not in the log", "step", "claude-haiku-4-5"),
    ]
    found = _agreement(store)
    assert (found.status, found.checked) == ("agree", 0)
    assert found.unlogged["input_tokens"] == 2 * CALLED["input"] + CALLED["input"] // 2


def test_a_quarter_of_an_hour_of_a_counter_is_one_call(store: Store) -> None:
    """Points of one quarter of an hour add up in one call, whichever temporality they have."""
    for at, part in ((10, 2), (20, 5), (30, 10)):
        store.append(*points(counter(_values(part), at, temporality=CUMULATIVE)))
        store.record()
    assert store.rows(COUNTED) == [("2026-11-15", "claude-sonnet-4-5", *WHOLE)]
    assert store.rows("SELECT count(*) FROM spans") == store.rows("SELECT count(*) FROM responses") == [(1,)]


@pytest.mark.parametrize("order", list(itertools.permutations("mec")))
def test_metrics_add_nothing_to_calls(order: tuple[str, ...], tmp_path: Path) -> None:
    """[M]etrics, [e]vents before the calls and the [c]alls: the calls alone count, whatever arrives first."""
    alone, store = Store(tmp_path / "alone"), Store(tmp_path / "store")
    said = lines(*conversation())
    told = {"m": points(counter(_values(10), 60)), "e": said[:1], "c": said[1:]}
    alone.append(*told["e"], *told["c"])
    alone.record()
    for step in order:
        store.append(*told[step])
        store.record()
    assert store.tables(USAGE, RESPONSES) == alone.tables(USAGE, RESPONSES)
    assert _agreement(store).status == "agree"


@pytest.mark.parametrize("steps", ["ml", "lm", "mpl", "lpm", "mlpm", "mplpm"])
def test_metrics_add_nothing_to_a_log(steps: str, tmp_path: Path) -> None:
    """[M]etrics of a session, its [l]og and [p]runing in any order: once there is a log, it alone counts."""
    golden, store = Golden("claude-code", tmp_path / "golden"), Store(tmp_path / "store")
    ((session,),) = golden.alone.rows("SELECT session_id FROM sessions WHERE events > 0 ORDER BY id LIMIT 1")
    for step in steps:
        if step == "p":
            _prune(store)
        else:
            store.append(*(points(counter(_values(10), 60, session)) if step == "m" else ()))
            golden.record(store, logs=step == "l")
    assert _usage(store) == _usage(golden.alone)


def test_pruned_metrics_count_once(store: Store) -> None:
    """What a pruned session used stays known, and points that are read again change nothing."""
    for _ in range(2):
        store.append(*points(counter(_values(10), 60)))
        store.record()
        _prune(store)
    assert store.rows(COUNTED) == [("2026-11-15", "claude-sonnet-4-5", *WHOLE)]


def test_a_counter_that_differs(store: Store) -> None:
    """Events that did not arrive show as a difference."""
    store.append(*lines(*conversation()[:2]))
    store.append(*points(counter({("claude-sonnet-4-5", kind): count for kind, count in CALLED.items()}, 60)))
    store.record()
    found = _agreement(store)
    assert found.status == "differ"
    assert found.difference["input_tokens"] == 20


def test_a_counter_of_a_session_with_a_log(tmp_path: Path) -> None:
    """Once the log counts, the counter is not compared: calls are not told apart in it, and some are in no log."""
    golden = Golden("claude-code", tmp_path / "golden")
    ((session, number),) = golden.alone.rows("SELECT session_id, id FROM sessions WHERE events > 0 ORDER BY id LIMIT 1")
    told = points(counter({("m", "input"): 5}, 60, session))
    for place, logs in (("before", [False, True]), ("after", [True])):
        store = Store(tmp_path / place)
        store.append(*told)
        for each in logs:
            golden.record(store, logs=each)
        with store.recorder() as recorder, golden.alone.recorder() as alone:
            assert agreement.check(recorder.connection, number) == agreement.check(alone.connection, number)


# -- anything -----------------------------------------------------------------------------------------------------

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | st.text(max_size=12),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
NAMES = st.sampled_from(
    [
        *(
            f"claude_code.{name}"
            for name in ("user_prompt", "api_request", "api_error", "tool_result", "tool_decision")
        ),
        *(f"codex.{name}" for name in ("sse_event", "tool_result", "api_request", "conversation_starts")),
        *(f"{agent}.{name}" for agent in ("gemini_cli", "qwen-code") for name in ("api_response", "tool_call")),
        "claude_code.token.usage",
        "",
    ]
)
KEYS = st.sampled_from(
    [
        *("session.id", "conversation.id", "event.name", "event.timestamp", "event.kind", "type", "model", "prompt"),
        *("input_tokens", "output_tokens", "input_token_count", "total_token_count", "duration_ms", "success"),
        *("request_id", "tool_use_id", "tool_name", "error", "status_code", "error.message", "decision", "speed"),
    ]
)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.fixed_dictionaries(
            {"attributes": st.dictionaries(KEYS, VALUES, max_size=8)},
            optional={
                "log": NAMES,
                "metric": NAMES,
                "body": VALUES,
                "time": VALUES,
                "value": VALUES,
                "resource": VALUES,
            },
        ),
        max_size=12,
    )
)
def test_anything(told: list[dict[str, Any]]) -> None:
    """Whatever a record has, every line is recorded, ignored or quarantined, and again when it is read again."""
    with quick() as root:
        store = Store(root)
        store.append(*({"otlp": 1, **each} for each in told))
        summary = store.record()
        assert summary.lines == len(told)
        assert summary.recorded + summary.duplicate + summary.ignored + summary.quarantined == len(told)


def test_content() -> None:
    """Texts are those that the agent sent; a redacted prompt is none."""
    (otlp,) = (agent for agent in AGENTS if agent.name == "otlp")
    source = Source(agent="otlp", session_id="x")

    def said(*records: Any) -> list[tuple[str, str, str | None]]:
        found: list[tuple[str, str, str | None]] = []
        for raw in lines(*records):
            read = otlp.decode(raw.strip(), source)
            assert not isinstance(read, Unusable)
            found += [(each.kind, each.text, each.call) for each in otlp.content(read, source)]
        return found

    assert said(claude("user_prompt", prompt="Hi"), claude("user_prompt", prompt="<REDACTED>")) == [
        ("prompt", "Hi", None)
    ]
    assert said(
        codex("tool_result", tool_name="shell", call_id="c", arguments='{"a": 1}', output="done", success=True)
    ) == [("arguments", '{"a": 1}', "c"), ("result", "done", "c")]
