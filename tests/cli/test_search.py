"""``agenttrace search``."""

from __future__ import annotations

import subprocess
from collections.abc import Callable

import pytest

from .conftest import KIMI_CLI, Program, eventually, stop

FIELDS = {
    "event_no",
    "at",
    "agent",
    "session_id",
    "type",
    "span_id",
    "title",
    "project",
    "kind",
    "snippet",
    "file",
    "offset",
}


def test_words_are_found_in_all_agents(recorded: Program) -> None:
    """Newest first, with session, kind and a snippet."""
    hits = recorded.json("search", "parallel", "--limit", "100")
    assert {hit["agent"] for hit in hits} == {"claude-code", "codex", "kimi-cli", "kimi-code"}
    assert all(hit.keys() >= FIELDS for hit in hits)
    assert all("parallel" in hit["snippet"].lower() for hit in hits)
    numbers = [hit["event_no"] for hit in hits]
    assert numbers == sorted(numbers, reverse=True)
    assert any(hit["session_id"] == KIMI_CLI and hit["kind"] == "prompt" for hit in hits)


@pytest.mark.parametrize(
    ("query", "found"),
    [
        (["connection", "drops"], True),
        (["connection drops"], True),
        (['"connection drops"'], True),
        (['"drops connection"'], False),
        (["connectio"], False),
        (["connectio*"], True),
        (["connection", "OR", "zebra"], False),
        (["connection", "zebra"], False),
    ],
)
def test_how_to_ask(recorded: Program, query: list[str], found: bool) -> None:
    """All words, quoted phrases, beginnings with a star; no operators to trip over."""
    assert bool(recorded.json("search", *query)) is found


def test_chinese_words(program: Program) -> None:
    """A word inside a sentence without spaces is found, and a part of another word's characters is not."""
    program.log("zh", {"type": "turn.begin", "ts": 1.0, "prompt": "请帮我检查连接池的重试逻辑"})
    program.log("en", {"type": "turn.begin", "ts": 1.0, "prompt": "试重"})
    program.run("record", "--once")
    assert [hit["session_id"] for hit in program.json("search", "重试")] == ["zh"]
    assert [hit["session_id"] for hit in program.json("search", "连接池")] == ["zh"]
    assert "重试" in program.run("search", "重试").stdout


def test_what_waits_is_indexed_first(machine: Program) -> None:
    """After a recording without indexing, the first search finds everything all the same."""
    machine.run("record", "--once", "--no-index")
    assert machine.json("status")["search_backlog"] > 0
    assert machine.json("search", "parallel")
    assert machine.json("status")["search_backlog"] == 0


def test_while_a_recorder_runs(machine: Program, background: Callable[..., subprocess.Popen[str]]) -> None:
    """The recorder indexes in quiet moments; a search beside it works."""
    recorder = background("record")
    eventually(lambda: machine.recorder_pid() == recorder.pid, "the recorder")
    eventually(lambda: (machine.home / "agenttrace.db").exists(), "the store")
    eventually(lambda: machine.json("search", "parallel"), "hits")
    stop(recorder)


def test_filters(program: Program) -> None:
    """The same filters as the API and MCP: session, agent, directory and time, alone and together."""
    for name, project in (("first", "/projects/Shop"), ("second", "/projects/ÄPFEL")):
        for second in (1_700_000_000, 1_700_086_400):
            line: dict[str, object] = {
                "type": "message",
                "role": "user",
                "text": f"needle {name}",
                "ts": second,
                "id": str(second),
            }
            program.log(name, {"type": "session.begin", "project": project, "ts": 1_700_000_000.0}, line)
    program.run("record", "--once")

    def found(*filters: str) -> set[tuple[str, str]]:
        return {(hit["session_id"], hit["at"][:10]) for hit in program.json("search", "needle", *filters)}

    assert len(found()) == 4
    assert found("--session", "fir") == {("first", "2023-11-14"), ("first", "2023-11-15")}
    assert found("--project", "äpfel") == {("second", "2023-11-14"), ("second", "2023-11-15")}
    assert found("--project", "SHOP", "--since", "2023-11-15") == {("first", "2023-11-15")}
    assert found("--until", "2023-11-15") == {("first", "2023-11-14"), ("second", "2023-11-14")}
    assert len(found("--agent", "agenttrace")) == 4
    assert found("--agent", "codex") == set()
    assert "try fewer filters" in program.run("search", "needle", "--agent", "codex").stdout


@pytest.mark.parametrize(
    ("filters", "problem"),
    [
        (("--agent", "cortex"), "no agent named"),
        (("--since", "someday"), "someday"),
        (("--until", "someday"), "someday"),
    ],
)
def test_filters_that_mean_nothing(recorded: Program, filters: tuple[str, str], problem: str) -> None:
    """A wrong filter is a usage error with the reason."""
    assert problem in recorded.run("search", "parallel", *filters, code=2).stderr


def test_more_hits_than_shown(recorded: Program) -> None:
    """It says that there are more only where there are."""
    hits = recorded.json("search", "parallel", "--limit", "10000")
    assert "more with --limit" in recorded.run("search", "parallel", "--limit", str(len(hits) - 1)).stderr
    assert "more with --limit" not in recorded.run("search", "parallel", "--limit", str(len(hits))).stderr


def test_nothing_found(recorded: Program) -> None:
    """It says so, and that is no failure."""
    assert "Nothing recorded contains 'xylophone'" in recorded.run("search", "xylophone").stdout
    assert recorded.json("search", "xylophone") == []


def test_nothing_asked(recorded: Program) -> None:
    """A query without a word is a usage error."""
    assert "nothing to search for" in recorded.run("search", '""', code=2).stderr


def test_hits_are_highlighted_on_a_terminal(recorded: Program) -> None:
    """Colours only where they are wanted."""
    coloured = recorded.run("search", "parallel", env={"FORCE_COLOR": "1", "TERM": "xterm"}).stdout
    assert "\x1b[" in coloured
    plain = recorded.run("search", "parallel", env={"FORCE_COLOR": "1", "NO_COLOR": "1", "TERM": "dumb"}).stdout
    assert "\x1b[3" not in plain
