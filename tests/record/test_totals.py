"""Our count of a session against its agent's own, and calls that no message has, whatever is read first."""

from __future__ import annotations

import json
import sqlite3
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agenttrace.config import ensure_home, load_settings
from agenttrace.ids import session_number
from agenttrace.record.formats.codex_lines import CodexTokens
from agenttrace.record.formats.codex_usage import running_total
from agenttrace.record.recorder import Recorder
from agenttrace.store.questions import Agreement, Reason
from agenttrace.store.sqlite.agreement import check
from agenttrace.store.sqlite.span_rows import NOT_IN_LOG

DATA = Path(__file__).resolve().parents[1] / "data"
SHARED = Path(__file__).resolve().parents[3] / "shared" / "samples"

PARENT, FORK = "aaaaaaaa-0000-4000-8000-000000000001", "bbbbbbbb-0000-4000-8000-000000000002"
#: When the process of the parent's first leg began, in milliseconds.
BEGAN = 1_794_789_660_000


# -- lines as Claude Code 2.1.325 writes them ------------------------------------------------------------------


def _time(second: int) -> str:
    return datetime.fromtimestamp(BEGAN / 1000 + second, UTC).strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z"


def line(
    kind: str, uuid: str, second: int, *, session: str = PARENT, agent: str | None = None, **more: object
) -> bytes:
    found = {"isSidechain": agent is not None, "type": kind, "uuid": uuid, "timestamp": _time(second)}
    return json.dumps(found | ({"agentId": agent} if agent else {}) | {"sessionId": session} | more).encode()


def prompt(uuid: str, second: int, session: str = PARENT) -> bytes:
    return line("user", uuid, second, session=session, message={"role": "user", "content": f"ask {uuid}"})


def answer(uuid: str, second: int, used: int, session: str = PARENT, agent: str | None = None) -> bytes:
    """A response of ``used`` input and output tokens each, and as many read from the cache."""
    usage = {"input_tokens": used, "output_tokens": used, "cache_read_input_tokens": used}
    message = {
        "id": f"msg_{uuid}",
        "role": "assistant",
        "model": "claude-x",
        "content": [{"type": "text", "text": "so"}],
    }
    return line(
        "assistant",
        uuid,
        second,
        session=session,
        agent=agent,
        message={**message, "stop_reason": "end_turn", "usage": usage},
    )


def cost_state(used: int, session: str = PARENT, began: int = BEGAN, model: str = "claude-x", output: int = 0) -> bytes:
    told = {
        "inputTokens": used,
        "outputTokens": used + output,
        "cacheReadInputTokens": used,
        "cacheCreationInputTokens": 0,
    }
    state = {"type": "cost-state", "sessionId": session, "startTime": began, "modelUsage": {model: told}}
    return json.dumps(state).encode()


def forked(lines: Sequence[bytes]) -> list[bytes]:
    """Lines as a fork has them: those with a uuid, under another session, after its first line."""
    own = {"type": "queue-operation", "operation": "dequeue", "timestamp": _time(29), "sessionId": FORK}
    return [json.dumps(own).encode(), *(raw.replace(PARENT.encode(), FORK.encode()) for raw in lines)]


# -- stores --------------------------------------------------------------------------------------------------------


@contextmanager
def recorded(*paths: Path) -> Iterator[Recorder]:
    with tempfile.TemporaryDirectory() as home:
        found = load_settings({"HOME": home, "AGENTTRACE_HOME": f"{home}/data"})
        ensure_home(found)
        recorder = Recorder(found, paths=[str(path) for path in paths], environ={})
        recorder.run_once()
        try:
            yield recorder
        finally:
            recorder.close()


def checked(recorder: Recorder, session: str = PARENT) -> Agreement:
    return check(recorder.connection, session_number("claude-code", session))


def unlogged(connection: sqlite3.Connection) -> dict[str, int]:
    """Input tokens of calls that are not in the log, by session."""
    rows = connection.execute(
        "SELECT sessions.session_id, sum(responses.input_tokens) FROM spans JOIN responses USING (response) "
        "JOIN sessions ON sessions.id = responses.session_id AND sessions.id = spans.session_id "
        "WHERE stream = ? GROUP BY 1",
        (NOT_IN_LOG,),
    )
    return dict(rows.fetchall())


def rows(connection: sqlite3.Connection) -> dict[str, list[tuple[Any, ...]]]:
    """Everything that is a function of what the logs say."""
    spans = 'session_id, span_id, trace_id, parent_id, stream, kind, name, start, "end", status, response, attributes'
    columns = {"spans": spans, "responses": _columns(connection, "responses"), "totals": _columns(connection, "totals")}
    columns["usage_rollup"] = "*"
    return {name: sorted(connection.execute(f"SELECT {what} FROM {name}"), key=repr) for name, what in columns.items()}


def _columns(connection: sqlite3.Connection, table: str) -> str:
    """All but the revision, which says when a row was written."""
    names = (row[1] for row in connection.execute(f"PRAGMA table_info({table})"))
    return ", ".join(f'"{name}"' for name in names if name != "revision")


def write(folder: Path, files: dict[str, list[bytes]]) -> None:
    for name, lines in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"".join(raw + b"\n" for raw in lines))


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    return tmp_path / "logs"


# -- Claude's totals -------------------------------------------------------------------------------------------


def test_calls_that_no_line_has_are_counted_once(logs: Path) -> None:
    """What the total has beyond the lines is counted, at the first count that has it, and marked."""
    write(logs, {f"{PARENT}.jsonl": [prompt("p1", 1), answer("r1", 2, 10), cost_state(13), cost_state(13)]})
    with recorded(logs) as found:
        assert unlogged(found.connection) == {PARENT: 3}
        assert checked(found) == Agreement(
            status="agree",
            checked=1,
            claimed={"input_tokens": 13, "output_tokens": 13, "cache_read_tokens": 13, "cache_write_tokens": 0},
            counted={"input_tokens": 13, "output_tokens": 13, "cache_read_tokens": 13, "cache_write_tokens": 0},
            unlogged={"input_tokens": 3, "output_tokens": 3, "cache_read_tokens": 3, "cache_write_tokens": 0},
        )


def _family() -> dict[str, list[bytes]]:
    """A session with a subagent, resumed once, and a fork of its first leg; all three used more than lines tell."""
    first = [prompt("p1", 1), answer("r1", 2, 10)]
    return {
        f"{PARENT}.jsonl": [
            *first,
            cost_state(10 + 4 + 3),
            prompt("p2", 10),
            answer("r2", 11, 20),
            cost_state(10 + 4 + 3 + 20 + 5),
        ],
        f"{PARENT}/subagents/agent-a1.jsonl": [answer("s1", 3, 4, agent="a1")],
        f"{FORK}.jsonl": [
            *forked(first),
            prompt("f1", 30, FORK),
            answer("r3", 31, 40, FORK),
            cost_state(10 + 3 + 40 + 7, FORK),
        ],
    }


@pytest.mark.parametrize("order", list(permutations(range(3))))
def test_the_order_of_files_does_not_matter(logs: Path, order: tuple[int, ...]) -> None:
    """Rows are the same when files come one after the other in any order, and when they come at once."""
    files = list(_family().items())
    write(logs, dict(files))
    with recorded(logs) as whole:
        expected = rows(whole.connection)
        assert unlogged(whole.connection)[PARENT] == 3 + 5
    for path in logs.rglob("*.jsonl"):
        path.unlink()
    with recorded(logs) as found:
        for place in order:
            write(logs, dict([files[place]]))
            found.scan()
            found.drain()
        assert rows(found.connection) == expected


@settings(max_examples=12, deadline=None)
@given(st.data())
def test_where_batches_end_does_not_matter(data: st.DataObject) -> None:
    """Rows are the same wherever a file was cut when it was read."""
    files = {name: b"".join(raw + b"\n" for raw in lines) for name, lines in _family().items()}
    with tempfile.TemporaryDirectory() as folder:
        logs = Path(folder)
        write(logs, _family())
        with recorded(logs) as whole:
            expected = rows(whole.connection)
    with tempfile.TemporaryDirectory() as folder, recorded(Path(folder)) as found:
        cuts = st.tuples(st.sampled_from(sorted(files)), st.integers(0, max(map(len, files.values()))))
        grown = dict.fromkeys(files, 0)
        for name, cut in [*data.draw(st.lists(cuts, max_size=5)), *((name, len(raw)) for name, raw in files.items())]:
            grown[name] = max(grown[name], min(cut, len(files[name])))
            path = Path(folder) / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(files[name][: grown[name]])
            found.scan()
            found.drain()
        assert rows(found.connection) == expected


def test_a_fork_goes_on_from_its_parents_count(logs: Path) -> None:
    """What the parent used beyond its lines is in the fork's total too, and counts in the parent alone."""
    first = [prompt("p1", 1), answer("r1", 2, 10)]
    fork = [*forked(first), prompt("f1", 30, FORK), answer("r3", 31, 40, FORK), cost_state(10 + 3 + 40 + 7, FORK)]
    write(logs, {f"{FORK}.jsonl": fork})
    with recorded(logs) as found:
        assert unlogged(found.connection) == {FORK: 3 + 7}
        write(logs, {f"{PARENT}.jsonl": [*first, cost_state(13)]})
        found.scan()
        found.drain()
        assert unlogged(found.connection) == {PARENT: 3, FORK: 7}
        assert checked(found).status == checked(found, FORK).status == "agree"


def test_a_killed_process_is_missing_in_the_total(logs: Path) -> None:
    """A process that was killed wrote no total, and the next one goes on from the one before it."""
    lines = [prompt("p1", 1), answer("r1", 2, 10), cost_state(10)]
    lines += [prompt("p2", 20), answer("r2", 21, 7), prompt("p3", 40), answer("r3", 41, 5), cost_state(15)]
    write(logs, {f"{PARENT}.jsonl": lines})
    with recorded(logs) as found:
        agreement = checked(found)
        assert (agreement.status, agreement.checked) == ("agree", 2)
        assert agreement.reasons == [Reason("killed", 1)]
        assert unlogged(found.connection) == {}


def test_what_the_agent_does_not_count_is_a_difference(logs: Path) -> None:
    """More than the agent counted is never explained away; nor is output alone, which no call is."""
    write(logs, {f"{PARENT}.jsonl": [prompt("p1", 1), answer("r1", 2, 10), cost_state(8)]})
    write(
        logs,
        {
            f"{FORK}.jsonl": [
                prompt("p2", 1, FORK),
                answer("r2", 2, 10, FORK),
                cost_state(10, FORK, BEGAN + 1, output=9),
            ]
        },
    )
    with recorded(logs) as found:
        assert checked(found).status == checked(found, FORK).status == "differ"
        assert checked(found).difference["input_tokens"] == -2
        assert checked(found, FORK).difference["output_tokens"] == 9
        assert checked(found).reasons == [Reason("unknown")]
        assert unlogged(found.connection) == {}


def test_models_with_a_larger_context_are_the_same_models(logs: Path) -> None:
    """``claude-x[1m]`` in the total is ``claude-x`` in the lines."""
    write(logs, {f"{PARENT}.jsonl": [prompt("p1", 1), answer("r1", 2, 10), cost_state(12, model="claude-x[1m]")]})
    with recorded(logs) as found:
        assert unlogged(found.connection) == {PARENT: 2}


def test_a_pruned_sessions_usage_stays(logs: Path) -> None:
    """What a session used beyond its lines stays when its lines are pruned, and nothing is checked any more."""
    from agenttrace.store.sqlite.retention import Retention

    write(logs, _family())
    with recorded(logs) as found:
        before = found.connection.execute("SELECT * FROM usage_rollup ORDER BY 1, 2, 3").fetchall()
        Retention(found.connection).prune(4e9)
        assert found.connection.execute("SELECT * FROM usage_rollup ORDER BY 1, 2, 3").fetchall() == before


# -- Codex's totals ----------------------------------------------------------------------------------------------


@given(st.lists(st.tuples(st.integers(1, 9), st.booleans(), st.booleans()), min_size=1))
def test_codex_runs_add_up(calls: list[tuple[int, bool, bool]]) -> None:
    """However often a total is repeated or begins anew, its runs together are what the calls used."""
    memory: dict[str, Any] = {}
    told: dict[str, int] = {}
    total = 0
    for used, resumed, repeated in calls:
        # A process that begins anew counts from nothing; equal counts at once would be a repetition.
        total = used if resumed and used != total else total + used
        for _ in range(1 + repeated):
            tokens = CodexTokens(output_tokens=total), CodexTokens(output_tokens=used)
            act = running_total(*tokens, memory, stream="main", counted=True)
            told[act.segment] = act.usage[""].output_tokens
    assert sum(told.values()) == sum(used for used, _, _ in calls)


# -- all samples ---------------------------------------------------------------------------------------------------

SAMPLES = [
    *(path for path in sorted(DATA.iterdir()) if path.is_dir()),
    *(path for kind in ("claude", "codex", "kimi", "other") for path in sorted((SHARED / kind).glob("*"))),
]


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda path: path.name)
def test_every_sample_agrees(sample: Path) -> None:
    """No session of any log we have differs from what its agent says it used."""
    with recorded(sample) as found:
        numbers = [row[0] for row in found.connection.execute("SELECT id FROM sessions WHERE events > 0")]
        checks = [check(found.connection, number) for number in numbers]
    assert [each for each in checks if each.status == "differ"] == []
