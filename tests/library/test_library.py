"""``import agenttrace``: what the library answers is what the commands show, and the guide's examples run."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
from collections import Counter
from datetime import UTC, date, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import agenttrace
from agenttrace.store.session_state import SessionState
from cli.conftest import CLAUDE, Program, own_recorded, program, shared_store
from example_counts import COSTLY

ROOT = Path(__file__).resolve().parents[2]
GUIDE = ROOT / "docs" / "library.md"
BLOCKS = re.findall(r"```python\n(.*?)```", GUIDE.read_text(encoding="utf-8"), re.DOTALL)

STATES: list[SessionState | None] = [None, "ended", "waiting", "interrupted"]

__all__ = ["own_recorded", "program", "shared_store"]


@pytest.fixture(scope="session")
def home(shared_store: Program) -> Path:
    """A data directory with the sessions of four agents."""
    return shared_store.home


def test_annotations_of_a_session(own_recorded: Program) -> None:
    """What the commands wrote beside a session, with its author and time."""
    own_recorded.run("note", CLAUDE, "look at this")
    own_recorded.run("score", CLAUDE, "quality", "2")
    with agenttrace.open_store(own_recorded.home) as store:
        note, score = store.session(CLAUDE).annotations
        assert (note.kind, note.text, note.value, note.source) == ("note", "look at this", None, "person")
        assert (score.kind, score.name, score.value) == ("score", "quality", 2.0)
        assert note.created <= note.changed <= score.created
        assert isinstance(note, agenttrace.Annotation)
        assert list(store.sessions(starred=True)) == []
    own_recorded.run("star", CLAUDE)
    own_recorded.run("label", CLAUDE, "bug")
    with agenttrace.open_store(own_recorded.home) as store:
        assert [each.id for each in store.sessions(starred=True, label="bug")] == [CLAUDE]


def test_sessions_are_those_of_the_command(shared_store: Program) -> None:
    """The same sessions in the same order, with the same figures."""
    shown = shared_store.json("sessions", "--limit", "0")
    with agenttrace.open_store(shared_store.home) as store:
        found = store.sessions()
        assert [each.id for each in found] == [each["session_id"] for each in shown]
        for session, row in zip(found, shown, strict=True):
            assert (session.agent, session.state, session.title) == (row["agent"], row["state"], row["title"])
            assert (session.turns, session.model_calls, session.tool_calls) == (
                row["turns"],
                row["steps"],
                row["tools"],
            )
            assert (session.usage.cost, session.usage.currency) == (row["cost"], row["currency"])
            assert session.usage.requests == row["usage"]["requests"]


@COSTLY
@given(st.data())
def test_filters_leave_out_what_does_not_match(home: Path, data: st.DataObject) -> None:
    """Agent, part of the directory, state and times: what is found is what matches among all, in the same order."""
    with agenttrace.open_store(home) as store:
        everything = store.sessions()
        one = data.draw(st.sampled_from(list(everything)))
        agent = data.draw(st.sampled_from([None, one.agent, "nobody"]))
        state = data.draw(st.sampled_from(STATES))
        project = data.draw(st.sampled_from([None, (one.project or "x")[1:5], "nowhere"]))
        since = data.draw(st.sampled_from([None, one.last_active, datetime(2026, 1, 1, tzinfo=UTC), date(2030, 1, 1)]))
        found = store.sessions(agent=agent, state=state, project=project, since=since)
        expected = [
            each
            for each in everything
            if (agent is None or each.agent == agent)
            and (state is None or each.state == state)
            and (project is None or project.casefold() in (each.project or "").casefold())
            and (since is None or _is_since(each.last_active, since))
        ]
        assert list(found) == expected


def _is_since(last: datetime | None, since: datetime | date) -> bool:
    if last is None:
        return False
    return last >= since if isinstance(since, datetime) else last.astimezone().date() >= since


def test_a_session_whole(shared_store: Program) -> None:
    """Spans and conversation of a session found by the beginning of its id are those that ``show`` prints."""
    shown = shared_store.json("show", CLAUDE, "--full")
    with agenttrace.open_store(shared_store.home) as store:
        session = store.session(CLAUDE[:8])
        assert [span.id for span in session.spans] == [span["span_id"] for span in shown["spans"]]
        kinds = Counter(span.kind for span in session.spans)
        assert (kinds["step"], kinds["tool"]) == (session.model_calls, session.tool_calls)
        messages = session.conversation()
        assert messages[0].role == "user"
        assert {message.role for message in messages} >= {"user", "assistant", "tool"}
        assert all(message.tool for message in messages if message.role == "tool")
        assert sum(span.cost or 0 for span in session.spans) == pytest.approx(session.usage.cost or 0)


def test_sums_agree(home: Path) -> None:
    """Whatever usage is grouped by, the groups add up to the total; sessions too."""
    with agenttrace.open_store(home) as store:
        (total,) = store.usage()
        for by in ("day", "month", "model", "agent", "project", "session"):
            groups = store.usage(by=by)
            assert sum(group.total_tokens for group in groups) == total.total_tokens
            assert sum(group.requests for group in groups) == total.requests
        own = [session.usage for session in store.sessions()]
        assert sum(usage.total_tokens for usage in own) == total.total_tokens
        assert sum(usage.costs.get("USD", 0) for usage in own) == pytest.approx(total.costs["USD"], abs=1e-5)


def test_search_finds_what_was_said(home: Path) -> None:
    """A word of a prompt leads back to its session; the filters of the command line hold."""
    with agenttrace.open_store(home) as store:
        session = store.session(CLAUDE)
        prompt = next(message for message in session.conversation() if message.kind == "prompt")
        word = max(re.findall(r"[A-Za-z]{4,}", prompt.text), key=len)
        hits = store.search(word)
        assert session.id in {hit.session.id for hit in hits}
        assert all(word.casefold()[:4] in hit.snippet.casefold() for hit in hits if hit.kind == "prompt")
        assert {hit.session.agent for hit in store.search(word, agent="codex")} <= {"codex"}
        assert {hit.session for hit in store.search(word, session=session)} == {session}


def test_answers_become_tables(home: Path) -> None:
    """Dictionaries and Arrow have the same rows and columns, also where there is nothing."""
    with agenttrace.open_store(home) as store:
        spans, hits = store.session(CLAUDE).spans, store.search("the")
        for rows in (
            spans,
            hits,
            store.sessions(),
            store.usage(by="day"),
            store.sessions(agent="nobody"),
            store.usage(by="model"),
        ):
            table = rows.to_arrow()
            assert table.num_rows == len(rows) == len(rows.to_dicts())
            assert tuple(table.column_names) == rows.columns
            assert not any(name.startswith("_") for name in rows.columns)


def test_what_cannot_be_found(program: Program, tmp_path: Path) -> None:
    """No session of that name, several of them, and no store: errors that say so."""
    for name in ("twin-a", "twin-b"):
        program.log(name, {"type": "turn.begin", "ts": 1.0, "prompt": "x"})
    program.run("record", "--once")
    with agenttrace.open_store(program.home) as store:
        with pytest.raises(LookupError, match="there is no session"):
            store.session("nothing-like-this")
        with pytest.raises(LookupError, match="2 sessions have an id"):
            store.session("twin")
        with pytest.raises(ValueError, match="by is 'week': give one of total, day"):
            store.usage(by="week")  # type: ignore[arg-type]
        with pytest.raises(ValueError, match="state is 'busy'"):
            store.sessions(state="busy")  # type: ignore[arg-type]
        with pytest.raises(ValueError, match="nothing to search for"):
            store.search('"" *')
        with pytest.raises(ValueError, match="is not a time"):
            store.sessions(since="whenever")
        assert store.usage()[0].total_tokens == 0
    with pytest.raises(agenttrace.StoreError, match="nothing recorded yet"):
        agenttrace.open_store(tmp_path)


def test_objects_cannot_be_changed(home: Path) -> None:
    """Sessions, spans, messages, usage and hits are frozen."""
    with agenttrace.open_store(home) as store:
        session = store.session(CLAUDE)
        for each in (session, session.spans[0], session.conversation()[0], session.usage, *store.search("the")[:1]):
            with pytest.raises(AttributeError):
                setattr(each, "agent", "other")  # noqa: B010 - mypy knows that it cannot be


def test_recording_in_ones_own_process(program: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    """``once`` records everything once; a second one is refused; ``follow`` ends when ``stop`` is set."""
    for name, value in program.environment.items():
        monkeypatch.setenv(name, value)
    program.log("mine", {"type": "turn.begin", "ts": 1.0, "prompt": "hello"}, {"type": "turn.end", "ts": 2.0})
    recorder = agenttrace.Recorder(program.home)
    assert recorder.once().recorded == 2
    assert recorder.once().recorded == 0
    program.log("mine", {"type": "turn.begin", "ts": 3.0, "prompt": "again"})
    stop, refused = threading.Event(), []

    def committed() -> None:
        with pytest.raises(agenttrace.AlreadyRecordingError):
            agenttrace.Recorder(program.home).once()
        refused.append(True)
        stop.set()

    assert recorder.follow(stop, committed).recorded == 1
    assert refused
    with agenttrace.open_store(program.home) as store:
        assert store.session("mine").turns == 2


@pytest.mark.parametrize("block", BLOCKS, ids=range(len(BLOCKS)))
def test_the_examples_of_the_guide_run(own_recorded: Program, block: str) -> None:
    """Every example of the guide runs on recorded sessions and prints something."""
    code = block if block.startswith("import agenttrace") else f"import agenttrace\n{block}"
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        env={**os.environ, **own_recorded.environment},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()


def test_the_example_script_draws_a_chart(shared_store: Program, tmp_path: Path) -> None:
    """Without matplotlib the chart is printed, a line for each day with a cost."""
    hidden = tmp_path / "hidden"
    hidden.mkdir()
    (hidden / "matplotlib.py").write_text("raise ImportError", encoding="utf-8")
    done = subprocess.run(
        [sys.executable, str(ROOT / "examples" / "cost_by_day.py")],
        env={**os.environ, **shared_store.environment, "PYTHONPATH": str(hidden)},
        capture_output=True,
        text=True,
        cwd=tmp_path,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    days = shared_store.json("usage", "--by", "day")["rows"]
    assert done.stdout.count("█") > 0
    assert len(re.findall(r"^\d{4}-\d\d-\d\d ", done.stdout, re.MULTILINE)) == sum(len(row["costs"]) for row in days)


def test_importing_is_cheap() -> None:
    """``import agenttrace`` loads neither the store nor the recorder: a shell prompt may do it."""
    code = "import sys, agenttrace; print([n for n in sys.modules if n.startswith('agenttrace.')])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
