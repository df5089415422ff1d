"""Lists: the same that the commands show, page by page, each once."""

from __future__ import annotations

import json
from typing import Any

import pytest

from agenttrace.views.cursors import to_cursor
from cli.conftest import CLAUDE, CLAUDE_FORK, KIMI_CLI, KIMI_CODE, Program

from .rig import Asker, ToolError, serving

#: A place in a transcript that no session has.
_GONE = to_cursor("0" * 16, 0, 0, 0, "short", 0, -1)


@pytest.fixture(scope="session")
def sessions(shared_store: Program) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = shared_store.json("sessions")
    return found


def named(page: list[dict[str, Any]]) -> list[str]:
    return [line["session"] for line in page]


def test_sessions_are_those_of_the_command(asker: Asker, sessions: list[dict[str, Any]]) -> None:
    """Same sessions, same order, same figures; what is nothing is left out."""
    found = asker.fields("list_sessions")["sessions"]
    assert named(found) == [each["session_id"] for each in sessions]
    for line, each in zip(found, sessions, strict=True):
        assert line["agent"] == each["agent"]
        assert line["state"] == each["state"]
        assert line["title"] == each["title"]
        assert line.get("turns", 0) == each["turns"]
        assert line.get("tool_calls", 0) == each["tools"]
        assert line.get("errors", 0) == each["errors"]
        assert line.get("cost", {}) == each["costs"]
        assert line.get("unpriced_tokens", 0) == each["unpriced_tokens"]
        assert line.get("output_tokens", 0) == each["usage"]["output_tokens"]


@pytest.mark.parametrize("limit", [1, 2, 3, 7, 8])
def test_pages_hold_every_session_once(asker: Asker, sessions: list[dict[str, Any]], limit: int) -> None:
    """Whatever the size of the pages."""
    pages = list(asker.listed("list_sessions", "sessions", limit=limit))
    assert [name for page in pages for name in named(page)] == [each["session_id"] for each in sessions]
    assert all(len(page) <= limit for page in pages)


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        ({"agent": "claude-code"}, {CLAUDE, CLAUDE_FORK}),
        ({"agent": "Claude_Code"}, {CLAUDE, CLAUDE_FORK}),
        ({"agent": "kimi-code", "query": "PARALLEL scenario"}, {KIMI_CODE}),
        ({"query": CLAUDE[:8]}, {CLAUDE}),
        ({"query": "sonnet"}, {CLAUDE, CLAUDE_FORK}),
        ({"query": "no such words"}, set()),
        ({"project": "dev/WORK", "agent": "kimi-code"}, {KIMI_CODE}),
        ({"project": "%"}, set()),
        ({"since": "2026-11-15T09:09:15Z"}, {CLAUDE_FORK}),
        ({"until": "2020-01-01"}, set()),
        ({"state": "working"}, set()),
    ],
)
def test_filters(asker: Asker, filters: dict[str, str], expected: set[str]) -> None:
    """All that are given must fit; signs of SQL are signs like others."""
    assert set(named(asker.fields("list_sessions", **filters)["sessions"])) == expected


@pytest.mark.parametrize("by", ["day", "month", "model", "agent", "project", "session"])
def test_usage_is_that_of_the_command(asker: Asker, shared_store: Program, by: str) -> None:
    """Every figure of the total and of every group."""
    expected = shared_store.json("usage", "--by", by)
    found = asker.fields("usage", by=by)
    assert _usage(found["total"]) == _usage(expected["total"])
    groups = {each.get("group"): _usage(each) for each in found["groups"]}
    assert groups == {each.pop(by): _usage(each) for each in expected["rows"]}
    assert "left_out" not in found


def _usage(fields: dict[str, Any]) -> dict[str, Any]:
    """The figures without what is nothing, and without what names them."""
    return {name: value for name, value in fields.items() if value and name not in ("group", "title")}


def test_usage_of_a_part(asker: Asker, shared_store: Program) -> None:
    """Filters choose sessions; the days before ``until`` and from ``since`` on count; the total is over all groups."""
    by_agent = {each["agent"]: each for each in shared_store.json("usage", "--by", "agent")["rows"]}
    one = asker.fields("usage", by="session", agent="kimi-cli", limit=1)
    assert one["total"]["requests"] == by_agent["kimi-cli"]["requests"]
    assert len(one["groups"]) == 1
    assert one["left_out"] == 1
    assert one["groups"][0]["title"]
    assert asker.fields("usage", project="dev/work")["total"] == asker.fields("usage")["total"]
    for nothing in ({"project": "nowhere"}, {"until": "2020-01-01"}, {"since": "2030-01-01"}):
        empty = {"requests": 0, "input_tokens": 0, "output_tokens": 0}
        assert asker.fields("usage", **nothing) == {"by": "day", "total": empty, "groups": []}


def test_insights_are_those_of_the_command(asker: Asker, shared_store: Program) -> None:
    """The same tools, models and findings; and what a finding names can be read."""
    for view in ("tools", "models"):
        expected = shared_store.json("insights", view, "--since", "all")["items"]
        found = asker.fields("insights", view=view, since="all", limit=100)[view]
        assert [(each["calls"], each.get("p95_ms")) for each in found] == [
            (each["calls"], each["p95_ms"]) for each in expected
        ]
    expected = shared_store.json("insights", "--since", "all", "--limit", "2")["items"]
    found = asker.fields("insights", since="all", limit=2)["findings"]
    assert [(each["kind"], each["count"]) for each in found] == [(each["kind"], each["count"]) for each in expected]
    assert found
    for each in found:
        place = each["spans"][0]
        assert asker.blocks("read_span", session=place["session"], span=place["span"])


def test_the_overview_is_that_of_the_command(asker: Asker, shared_store: Program) -> None:
    """The costs and tokens of each period and project, and what needs the user in words."""
    expected, found = shared_store.json("overview"), asker.fields("overview")
    assert [(each["period"], each["costs"], each["tokens"]) for each in found["periods"]] == [
        (each["period"], each["bill"]["costs"], each["tokens"]) for each in expected["periods"]
    ]
    assert [each["tokens"] for each in found["projects"]] == [each["tokens"] for each in expected["projects"]]
    assert len(found["attention"]) == len(expected["attention"])


def test_errors_are_the_spans_that_failed(asker: Asker, shared_store: Program, sessions: list[dict[str, Any]]) -> None:
    """All of them, of all sessions, the latest first, whatever the size of the pages."""
    expected = {
        (each["session_id"], span["span_id"]): span
        for each in sessions
        for span in shared_store.json("show", each["session_id"])["spans"]
        if span["status"] == "error"
    }
    for limit in (1, 2, 50):
        found = [each for page in asker.listed("errors", "errors", limit=limit) for each in page]
        assert len(found) == len(expected)
        assert {(each["session"], each["span"]) for each in found} == expected.keys()
        times = [expected[each["session"], each["span"]]["start"] for each in found]
        assert times == sorted(times, reverse=True)
    assert all(each["error"] for each in found if each["kind"] == "tool call")
    of_codex = asker.fields("errors", agent="codex")["errors"]
    assert [each["name"] for each in of_codex] == ["exec_command"]
    assert json.loads(of_codex[0]["asked"]) == {"cmd": "exit 3"}
    assert asker.fields("errors", session=CLAUDE[:6])["errors"][0]["error"] == "Exit code 3"
    assert asker.fields("errors", since="2030-01-01")["errors"] == []
    assert asker.fields("errors", project="nowhere")["errors"] == []


def test_the_latest_errors_of_overlapping_sessions(program: Program) -> None:
    """A session that went on for long after its errors does not hide those of one that ended before."""

    def failing(number: int, at: float) -> list[dict[str, object]]:
        place = {"turn": number, "step": 1, "ts": at}
        begin = {"type": "tool.begin", "id": f"c{number}", "name": f"tool-{number}", **place}
        return [begin, {"type": "tool.end", "id": f"c{number}", "status": "error", "error": "no", **place}]

    began = 1_794_733_000.0
    program.log("long", *failing(1, began), *failing(3, began + 20), {"type": "session.end", "ts": began + 900})
    program.log("short", *failing(2, began + 10), *failing(4, began + 30))
    program.run("record", "--once")
    with serving(program) as asker:
        for limit in (1, 2, 3, 4):
            found = [each for page in asker.listed("errors", "errors", limit=limit) for each in page]
            assert [each["name"] for each in found] == ["tool-4", "tool-3", "tool-2", "tool-1"]


def test_search_is_that_of_the_command(asker: Asker, shared_store: Program) -> None:
    """Same hits, same order, each with its session, kind and time, and a span where it belongs to one."""
    expected = [
        (each["session_id"], each["kind"], each["at"][:19], each["span_id"] is not None)
        for each in shared_store.json("search", "please", "--limit", "999")
    ]
    assert len(expected) > 10
    for limit in (3, 50):
        found = [each for page in asker.listed("search", "hits", query="please", limit=limit) for each in page]
        assert [(each["session"], each["kind"], each["at"][:19], "span" in each) for each in found] == expected
        assert all("please" in each["snippet"] for each in found)


def test_search_in_a_part(asker: Asker) -> None:
    """One session, one agent, one directory, a time."""

    def hits(**filters: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = asker.fields("search", query="please", limit=50, **filters)["hits"]
        return found

    assert {each["session"] for each in hits(session=CLAUDE[:6])} == {CLAUDE}
    assert {each["agent"] for each in hits(agent="kimi-cli")} == {"kimi-cli"}
    assert hits(project="/home/dev") == hits()
    assert hits(project="nowhere") == hits(since="2030-01-01") == hits(until="2020-01-01") == []
    late, early = hits(since="2026-11-15T09:00:00Z"), hits(until="2026-11-15T09:00:00Z")
    assert late
    assert early
    assert sorted(map(str, [*late, *early])) == sorted(map(str, hits()))


def test_what_a_hit_names_can_be_read(asker: Asker) -> None:
    """The span of a hit holds the text that was found."""
    for hit in asker.fields("search", query="echo", limit=20)["hits"]:
        text = "".join(asker.blocks("read_span", session=hit["session"], span=hit["span"]))
        assert "echo" in text


def test_status_names_what_filters_need(asker: Asker, sessions: list[dict[str, Any]]) -> None:
    """Agents and directories with their sessions, and that nothing is being recorded."""
    found = asker.fields("status")
    assert {each["name"]: each["sessions"] for each in found["agents"]} == {
        agent: sum(1 for each in sessions if each["agent"] == agent) for agent in {each["agent"] for each in sessions}
    }
    assert [each["name"] for each in found["projects"]] == ["/home/dev/work"]
    assert found["recording"] is False
    assert "not_indexed" not in found


@pytest.mark.parametrize(
    ("tool", "arguments", "words"),
    [
        ("list_sessions", {"agent": "claud-code"}, "Did you mean claude-code?"),
        ("list_sessions", {"since": "soon"}, "Give a span such as 30m"),
        ("list_sessions", {"state": "asleep"}, "state is one of ended, interrupted"),
        ("list_sessions", {"cursor": "x"}, "begin without one"),
        ("list_sessions", {"limit": 0}, "limit"),
        ("list_sessions", {"folder": "x"}, "It takes: query, state, limit"),
        ("search", {}, "query (needed)"),
        ("search", {"query": "!!"}, "Give words"),
        ("usage", {"by": "hour"}, "by is one of agent, day, machine, model"),
        ("usage", {"since": "soon"}, "Give a span such as 30m"),
        ("read_session", {"session": "zzz"}, "list_sessions and search give ids"),
        ("read_session", {"session": CLAUDE, "first_turn": 9}, "It has turns 1 to 2."),
        ("read_session", {"session": CLAUDE, "first_turn": 2, "last_turn": 1}, "Exchange them."),
        ("read_session", {"session": CLAUDE, "cursor": to_cursor(1, 2)}, "begin without one"),
        ("read_session", {"session": CLAUDE, "cursor": _GONE}, "Begin without a cursor"),
        ("read_span", {"session": CLAUDE, "span": "zz"}, "span"),
        ("read_span", {"session": CLAUDE, "span": "0" * 16}, "read_session shows its spans"),
    ],
)
def test_wrong_questions_are_answered_with_the_right_ones(
    asker: Asker, tool: str, arguments: dict[str, Any], words: str
) -> None:
    """What is wrong comes back as the tool's error, with what to do instead."""
    with pytest.raises(ToolError) as caught:
        asker.blocks(tool, **arguments)
    assert words in str(caught.value)
    assert "stderr" not in str(caught.value)


def test_a_beginning_of_several_names_them(program: Program) -> None:
    """And each of those names leads to one session, even where two agents have one id."""
    lines = [{"type": "turn.begin", "id": "t", "prompt": "hello", "ts": 1_794_733_000.0}]
    for name in ("alike-1", "alike-2"):
        program.log(name, *lines)
    program.log("alike-2b", {"agent": "another", **lines[0]})
    program.run("record", "--once")
    with serving(program) as asker:
        with pytest.raises(ToolError) as caught:
            asker.blocks("read_session", session="alike")
        names = [line.removeprefix("- ").split(" · ")[:2] for line in str(caught.value).splitlines()[1:]]
        assert {name for _, name in names} == {"alike-1", "alike-2", "alike-2b"}
        for key, name in names:
            assert f"Session: {name}\n" in asker.blocks("read_session", session=key)[0]


def test_too_much_is_cut_not_refused(asker: Asker) -> None:
    """A limit beyond all bounds gives as much as there may be; numbers may come as text."""
    assert len(asker.fields("list_sessions", limit=10**30)["sessions"]) == 7
    assert len(asker.fields("list_sessions", limit="2")["sessions"]) == 2
    assert len("".join(asker.blocks("read_session", session=CLAUDE, max_chars=10**12))) < 110_000


def test_requests_are_those_of_the_command(asker: Asker, shared_store: Program) -> None:
    """Pages together have every call once, with the sizes and tokens of ``agenttrace requests``."""
    expected = shared_store.json("requests", KIMI_CLI)["items"]
    found: list[dict[str, Any]] = []
    page = asker.fields("read_requests", session=KIMI_CLI, limit=4)
    found += page["requests"]
    while "next_cursor" in page:
        page = asker.fields("read_requests", session=KIMI_CLI, limit=4, cursor=page["next_cursor"])
        found += page["requests"]
    assert [each["call"] for each in found] == [each["call"] for each in expected]
    for line, each in zip(found, expected, strict=True):
        assert line.get("parts", {}) == {part: size for part, size in each["parts"].items() if size}
        assert line.get("cache_read_tokens") == each["cache_read_tokens"]
        assert len(line.get("changes", [])) == len(each["changes"])
    (broken,) = asker.fields("read_requests", session=KIMI_CLI, only_cache_breaks=True)["requests"]
    assert broken["cache_break"].endswith("tokens: compaction")


def test_two_sessions_are_compared_as_the_command_does(program: Program) -> None:
    """The figures of both sides, of tools and models are those of ``agenttrace compare``."""
    program.use_fixtures()
    program.run("record", "--once")
    told = program.json("compare", CLAUDE, KIMI_CLI)
    with serving(program) as asker:
        found = asker.fields("compare", a=CLAUDE, b=KIMI_CLI[:8])
    for side in ("a", "b"):
        assert found[side]["session"] == told[side]["session_id"]
        assert found[side].get("tool_calls", 0) == told[side]["tools"]
        assert found[side].get("output_tokens", 0) == told[side]["spent"]["output_tokens"]
        assert found[side].get("costs", {}) == told[side]["spent"]["costs"]
        calls = {tool["tool"]: tool.get(f"{side}_calls", 0) for tool in found["tools"]}
        assert calls == {tool["name"]: tool[side]["calls"] for tool in told["tools"]}
    assert [model["model"] for model in found["models"]] == [model["model"] for model in told["models"]]


def test_outcomes_are_those_of_the_log(program: Program) -> None:
    """Files with their lines, and commits; a secret in the subject of one is masked."""
    chats = program.user / "project" / ".aider.chat.history.md"
    chats.parent.mkdir()
    chats.write_text(
        "\n# aider chat started at 2026-11-16 00:47:42\n\n> Aider v0.86.2  \n\n#### fix it  \n\nDone.\n\n"
        "> Tokens: 2.4k sent, 8 received.  \n> Applied edit to app.py  \n"
        "> Commit b10ed62 use sk-ant-api03-" + "Ab1" * 31 + "AA  \n"
    )
    program.run("record", "--once", str(chats.parent))
    with serving(program) as asker:
        (line,) = asker.fields("list_sessions")["sessions"]
        assert "outcomes" not in line
        assert asker.fields("usage")["not_examined"] == 1
    program.run("record", "--once", "--index", str(chats.parent))
    with serving(program) as asker:
        (line,) = asker.fields("list_sessions", with_outcome="commits")["sessions"]
        assert line["outcomes"] == {"files_changed": 1, "commits": 1}
        assert asker.fields("list_sessions", with_outcome="tests")["sessions"] == []
        total = asker.fields("usage")["total"]
        assert (total["commits"], total["commits_known_from"]) == (1, ["log"])
        found = asker.fields("outcomes", session=line["session"])
        assert found["files"] == [{"path": "app.py", "known_from": ["log"]}]
        (commit,) = found["commits"]
        assert commit["hash"] == "b10ed62"
        assert commit["known_from"] == ["log"]
        assert "Ab1Ab1" not in str(found)
        edits = asker.fields("outcomes", session=line["session"], path="app.py")
        assert edits["patch"] == "# app.py: the log has no diff\n"
