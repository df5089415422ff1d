"""``/api/v1/sessions/{session}``, its spans and its recorded lines."""

from __future__ import annotations

import csv
from pathlib import Path

import httpx
import msgspec
import pytest

from agenttrace.ids import session_key
from agenttrace.model import Session
from agenttrace.record.outcome_updates import update_all
from agenttrace.record.texts.contents import span_contents
from agenttrace.run.results.trace_log import AGENT, TraceLog
from agenttrace.serve.api.sessions.session_detail import job_of
from agenttrace.store import open_store
from agenttrace.store.sqlite.span_rows import session_spans
from agenttrace.views.spans import span_fields
from store_on import store_on

from .session_rig import CLAUDE, CLAUDE_FORK, DATA, Store, call, result, said, turn


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    store = Store(tmp_path_factory.mktemp("store"))
    for sample in ("claude-code-2.1.197", "kimi-cli-1.49.0", "kimi-code-2.1.0", "codex-0.166.0"):
        store.record(DATA / sample)
    return store


def sessions_of(client: httpx.Client) -> list[dict[str, object]]:
    items: list[dict[str, object]] = client.get("/sessions", params={"limit": 500}).json()["items"]
    return items


def test_detail(store: Store) -> None:
    """A session is in detail what it is in the list, and its models' bills add up to its own."""
    with store.served() as client:
        rows = sessions_of(client)
        assert len(rows) >= 6
        for row in rows:
            detail = client.get(f"/sessions/{row['key']}").json()
            assert {name: detail[name] for name in row} == row
            for name in ("input_tokens", "output_tokens", "cache_read_tokens", "requests", "folded_copies"):
                assert sum(part["bill"][name] for part in detail["by_model"]) == detail["bill"][name]
            assert detail["files"]
            assert all(Path(file["path"]).stat().st_size == file["offset"] for file in detail["files"])
            assert detail["job_id"] is None
            assert detail["check"]["status"] == ("agree" if row["agent"] in ("codex", "kimi-code") else "nothing")


def test_resume(store: Store) -> None:
    """The line that goes on with a session; that its directory is not here is said."""
    with store.served() as client:
        for row in sessions_of(client):
            resume = client.get(f"/sessions/{row['key']}").json()["resume"]
            assert resume["command"].startswith("cd /home/dev/work && ")
            assert str(row["session_id"]) in resume["command"]
            assert (resume["limit"], resume["directory_gone"]) == (None, True)


def test_names(store: Store) -> None:
    """A session is found by its key, by its id and by a beginning of its id."""
    with store.served() as client:
        (session,) = (session for session in store.sessions() if session.session_id == CLAUDE)
        for name in (session_key(session.id), CLAUDE, CLAUDE[:8]):
            assert client.get(f"/sessions/{name}").json()["key"] == session_key(session.id)


def test_relatives(store: Store) -> None:
    """A fork names its origin and the origin its forks, whether the log says so or the shared responses do."""
    with store.served() as client:
        fork = client.get(f"/sessions/{CLAUDE_FORK}").json()
        origin = client.get(f"/sessions/{CLAUDE}").json()
        assert fork["parent_session"]["session_id"] == fork["parent"] == CLAUDE
        assert [each["session_id"] for each in origin["forks"]] == [CLAUDE_FORK]
        for row in sessions_of(client):
            detail = client.get(f"/sessions/{row['key']}").json()
            for each in detail["forks"]:
                assert client.get(f"/sessions/{each['key']}").json()["parent"] == row["session_id"]
            if detail["parent_session"] is not None:
                forks = client.get(f"/sessions/{detail['parent_session']['key']}").json()["forks"]
                assert row["key"] in [each["key"] for each in forks]


def test_job(tmp_path: Path) -> None:
    """The trace of a job names the job; a session of another agent with such an id does not."""
    store = Store(tmp_path)
    log = TraceLog(store.logs)
    for session_id in ("job_42_1794733000", "job_x_1794733000"):
        log.job_begin(session_id, site_id=1, event_type="order", chain="thanks", prompt="order 17")
    log.close()
    store.record()
    with store.served() as client:
        assert client.get("/sessions/job_42_1794733000").json()["job_id"] == 42
        assert client.get("/sessions/job_x_1794733000").json()["job_id"] is None
    assert job_of(Session(id=1, agent=AGENT, session_id="job_7_1")) == 7
    assert job_of(Session(id=1, agent="codex", session_id="job_7_1")) is None


def test_lines_of_spans(store: Store) -> None:
    """Every line of a span is in its file at the given offset, and has the texts of the span."""
    with store.served() as client:
        seen = 0
        for name in (CLAUDE, CLAUDE_FORK):
            for span in client.get(f"/sessions/{name}/timeline").json()["span_id"]:
                detail = client.get(f"/sessions/{name}/spans/{span}").json()
                assert detail["lines"]
                raw = b""
                for line in detail["lines"]:
                    data = Path(line["file"]).read_bytes()
                    raw += data[line["offset"] : line["offset"] + line["length"]] + b"\n"
                    assert data[line["offset"] + line["length"] :][:1] in (b"\n", b"")
                    event = client.get(f"/events/{line['event_no']}").json()
                    assert (event["type"], event["at"]) == (line["type"], line["at"])
                    assert event["session"] == detail["session"]
                for text in detail["texts"]:
                    seen += text["kind"] == "arguments"
                    assert text["kind"] != "arguments" or text["text"].encode() in raw
        assert seen >= 9


def test_span_facts(store: Store) -> None:
    """A span in detail is the span of the timeline, with a price that says where it comes from."""
    with store.served() as client:
        timeline = client.get(f"/sessions/{CLAUDE}/timeline").json()
        listed = client.get(f"/sessions/{CLAUDE}/spans", params={"limit": 500}).json()["items"]
        by_id = {span["span_id"]: span for span in listed}
        for place, span in enumerate(timeline["span_id"]):
            detail = client.get(f"/sessions/{CLAUDE}/spans/{span}").json()
            for name in ("parent_id", "kind", "name", "status", "model", "cost", "currency", "counted", "estimated"):
                assert detail[name] == timeline[name][place]
            for name in ("trace_id", "start", "end", "turn_index", "step_n", "usage"):
                assert detail[name] == by_id[span][name]
            assert detail["stream"] == timeline["streams"][timeline["stream"][place]]
            assert detail["attributes"]["gen_ai.conversation.id"] == CLAUDE
            assert (detail["price"] is None) == (detail["usage"] is None)
            if detail["price"] is not None:
                assert detail["price"]["source"].startswith("prices.toml ")
                assert detail["price"]["currency"] == detail["currency"] == "USD"
                assert detail["price"]["output"] > detail["price"]["input"] > 0


def test_spans_for_scripts(store: Store) -> None:
    """Pages of spans are what ``agenttrace show --json`` prints; without texts, no argument or result is among it."""
    with store.served() as client:
        for session in store.sessions():
            with store.reading() as connection:
                spans = session_spans(connection, session)
                contents = span_contents(store_on(connection), session, spans)
            expected = [span_fields(session, span, contents.get(span.span_id, ()), full=False) for span in spans]
            found: list[object] = []
            query: dict[str, str | int] = {"limit": 7, "texts": "true"}
            while True:
                page = client.get(f"/sessions/{session_key(session.id)}/spans", params=query).json()
                found += page["items"]
                if page["next"] is None:
                    break
                query["cursor"] = page["next"]
            assert found == msgspec.to_builtins(expected)
            bare = client.get(f"/sessions/{session_key(session.id)}/spans", params={"limit": 500})
            assert b"gen_ai.tool.call.arguments" not in bare.content
            assert b"gen_ai.tool.call.result" not in bare.content


def test_event(tmp_path: Path) -> None:
    """A recorded line is had byte for byte as a download that no browser shows, and cut where it is long as JSON."""
    store = Store(tmp_path)
    text = "<script>alert(1)</script>" + "x" * 1_100_000
    path = store.write(turn(1, "ask"), said(1, 1, text))
    store.record()
    lines = path.read_bytes().splitlines()
    with store.served() as client:
        assert client.get("/events/1").json()["raw"].encode() == lines[0]
        event = client.get("/events/2").json()
        assert event["cut"]
        assert (event["raw"], event["length"]) == (lines[1][:1_000_000].decode(), len(lines[1]))
        assert (event["file"], event["offset"]) == (str(path), len(lines[0]) + 1)
        assert event["span"] == "chat"
        raw = client.get("/events/2/raw")
        assert raw.content == lines[1]
        assert raw.headers["content-type"].startswith("text/plain")
        assert raw.headers["content-disposition"] == 'attachment; filename="event-2.txt"'
        assert raw.headers["x-content-type-options"] == "nosniff"
        for path_of_none in ("/events/3", "/events/3/raw", "/events/99999999999"):
            assert client.get(path_of_none).status_code == 404
        assert client.get(f"/events/{2**63}").status_code == 422


def test_pruned(tmp_path: Path) -> None:
    """A session whose texts were pruned is reported as pruned by every endpoint."""
    from agenttrace.store.sqlite.database import connect
    from agenttrace.store.sqlite.retention import Retention

    store = Store(tmp_path)
    store.write(turn(1, "ask"), call(1, 1, "Bash", "ls"), result(1, 1, "files"))
    store.record()
    with store.served() as client:
        (session,) = store.sessions()
        span = client.get("/sessions/s-1/timeline").json()["span_id"][0]
        connection = connect(store.settings.home / "agenttrace.db")
        Retention(connection).prune(cutoff=4e9)
        connection.close()
        for name in ("s-1", session_key(session.id)):
            for path in ("", "/timeline", "/spans", f"/spans/{span}", f"/texts?span={span}", "/export"):
                answer = client.get(f"/sessions/{name}{path}")
                assert answer.status_code == 404
        assert "pruned" in client.get("/sessions/s-1").json()["detail"]
        assert client.get("/events/1").status_code == 404


def test_outcomes(tmp_path: Path) -> None:
    """What came of a session is what the command prints; a session without any has empty lists."""
    store = Store(tmp_path)
    store.record(DATA / "claude-code-2.1.325" / "projects", DATA / "codex-0.166.0")
    with store.served() as client:
        found = client.get("/sessions/feedbd99/outcomes").json()
        assert [(file["path"], file["added"], file["removed"]) for file in found["files"]] == [("app.py", 1, 1)]
        assert found["files"][0]["known_from"] == ["tool call"]
        assert (found["added"], found["removed"], found["repository"]) == (1, 1, False)
        codex = next(row for row in sessions_of(client) if row["agent"] == "codex")
        empty = client.get(f"/sessions/{codex['key']}/outcomes").json()
        assert empty["files"] == empty["commits"] == empty["tests"] == empty["pull_requests"] == []
        assert client.get("/sessions/nothing/outcomes").status_code == 404


def test_figures_of_outcomes_in_lists(tmp_path: Path) -> None:
    """A list has figures once a session was examined, and is filtered by them."""
    store = Store(tmp_path)
    store.record(DATA / "aider-0.86.2" / "project")
    with store.served() as client:
        rows = sessions_of(client)
        assert {str(row["outcomes"]) for row in rows} == {"None"}
    with open_store(store.settings, read_only=False) as recorded:
        update_all(recorded)
    with store.served() as client:
        rows = sessions_of(client)
        assert all(row["outcomes"] for row in rows)
        found = client.get("/sessions", params={"commits": True}).json()["items"]
        assert [row["outcomes"]["commits"] for row in found] == [1]
        rest = client.get("/sessions", params={"commits": False, "limit": 500}).json()["items"]
        assert len(rest) == len(rows) - 1
        assert client.get(f"/sessions/{found[0]['key']}").json()["outcomes"] == found[0]["outcomes"]
        assert client.get("/sessions", params={"outcome": ["files", "commits"]}).json()["items"] == found
        assert client.get("/sessions", params={"outcome": ["files", "failed_tests"]}).json()["items"] == []
        assert client.get("/sessions", params={"sort": "commits"}).json()["items"][0] == found[0]
        assert client.get("/sessions", params={"outcome": "fame"}).status_code == 422
        usage = client.get("/usage", params={"by": "agent"}).json()
        cost = usage["total"]["cost"]
        assert usage["total_outcomes"] == usage["rows"][0]["outcomes"]
        assert (usage["total_outcomes"]["commits"], usage["not_examined"]) == (1, 0)
        assert usage["total_outcomes"]["cost_per_commit"] == {"USD": pytest.approx(cost)}
        assert usage["total_outcomes"]["known_from"] == ["log"]
        (table,) = csv.DictReader(client.get("/usage.csv", params={"by": "agent"}).text.splitlines())
        assert (table["commits"], table["lines_added"]) == ("1", "")
        assert float(table["per_commit_usd"]) == pytest.approx(cost, abs=1e-6)
        none = client.get("/usage", params={"by": "agent", "until": "2020-01-01"}).json()
        assert none["total_outcomes"]["cost_per_commit"] == {}
