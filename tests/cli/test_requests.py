"""``agenttrace requests``."""

from __future__ import annotations

import pytest

from agenttrace.cli.requests import _nothing_broke
from agenttrace.model import Usage
from agenttrace.record.texts.call_changes import ModelCall

from .conftest import CLAUDE, KIMI_CLI, KIMI_CODE, Program


def test_a_table(recorded: Program) -> None:
    """A row for each call, marked by where it is known from; parts that the log does not have are no zeros."""
    lines = recorded.run("requests", KIMI_CODE[:16]).stdout.splitlines()
    assert "system" in lines[1]
    assert "cache read" in lines[1]
    rows = lines[3:]
    assert len(rows) == len(recorded.json("requests", KIMI_CODE)["items"]) == 18
    assert all(" ~ " in row for row in rows)
    without = recorded.run("requests", CLAUDE)
    assert "system" not in without.stdout.splitlines()[1]
    assert "not in the log: system, tools" in without.stderr


def test_fields(recorded: Program) -> None:
    """JSON has the parts, their sum, tokens and what changed."""
    found = recorded.json("requests", KIMI_CLI)
    assert found["calls"] == len(found["items"]) == 14
    assert [item["call"] for item in found["items"]] == list(range(1, 15))
    assert all(item["characters"] == sum(item["parts"].values()) for item in found["items"])
    (change,) = found["items"][12]["changes"]
    assert (change["kind"], change["known_from"]) == ("compaction", "conversation")
    assert change["dropped_characters"]["results"] == 996
    assert (found["cache_breaks"], found["compactions"]) == (1, 1)


def test_cache_breaks(recorded: Program) -> None:
    """Only the calls where the cache broke, with the cause; a session without any says so."""
    (item,) = recorded.json("requests", KIMI_CLI, "--cache-breaks")["items"]
    assert (item["call"], item["causes"]) == (14, ["compaction"])
    assert "tokens: compaction" in recorded.run("requests", KIMI_CLI, "--cache-breaks").stdout
    assert "never broke" in recorded.run("requests", CLAUDE, "--cache-breaks").stdout


def test_breaks_are_listed(recorded: Program) -> None:
    """Below the table: at which call the cache broke, how many tokens that cost, and why."""
    text = recorded.run("requests", KIMI_CLI).stdout
    found = recorded.json("requests", KIMI_CLI)
    assert "The prompt cache broke once: 191 tokens were not read from it again." in text
    assert "call 14: 191 tokens; compaction" in text
    assert found["cache_lost_tokens"] == sum(item["cache_lost_tokens"] for item in found["items"]) == 191


def test_what_the_log_cannot_tell() -> None:
    """That the cache never broke is said only of calls that can be compared and used a cache."""
    call = ModelCall(stream="main", known_from="conversation", usage=Usage(input_tokens=5))
    cached = ModelCall(stream="main", known_from="conversation", usage=Usage(cache_read_tokens=5))
    counted = ModelCall(stream="main", known_from="usage", usage=Usage(cache_read_tokens=5))
    assert "not in the log" in _nothing_broke([counted, ModelCall(stream="main", known_from="request")])
    assert "No call read anything" in _nothing_broke([call, counted])
    assert _nothing_broke([call, cached]) == "The prompt cache never broke."


@pytest.mark.parametrize("width", [80, 120])
def test_tables_fit_the_terminal(recorded: Program, width: int) -> None:
    """No row is wider than the terminal, and what changed is in it."""
    lines = recorded.run("requests", KIMI_CLI, env={"COLUMNS": str(width)}).stdout.splitlines()
    table = lines[1 : lines.index("")]
    assert max(map(len, table)) <= width
    assert {"what", "changed", "agent"} <= set(table[0].split()), "whose call it is, too: there are subagents"


def test_an_unknown_session(recorded: Program) -> None:
    """Exit code 1 and a reason."""
    assert "no session" in recorded.run("requests", "zzz", code=1).stderr
