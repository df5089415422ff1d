"""Arguments of tool calls as people write them."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agenttrace.views.calls import call_line, call_text, is_begun
from agenttrace.views.plain import one_line, safe

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=8,
)


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        ('{"description": "d", "command": "ls\\n  -l"}', "ls -l"),
        ('{"command": ["bash", "-lc", "make test"]}', "make test"),
        ('{"command": ["git", "status"]}', "git status"),
        ('{"cmd": "echo first"}', "echo first"),
        ('{"content": "x", "file_path": "/a/b"}', "/a/b"),
        ('{"pattern": "TODO", "path": "src"}', "TODO in src"),
        ("*** Begin Patch\n*** Update File: a.py\n@@\n*** Add File: b.py\n*** End Patch", "a.py, b.py"),
        ('{"input": "*** Begin Patch\\n*** Delete File: c.py\\n*** End Patch"}', "c.py"),
        (
            '{"todos": [{"content": "one", "done": true}, {"content": "two", "done": false}]}',
            "todos: content: one, done: yes; content: two, done: no",
        ),
        ('{"count": 1, "on": true, "of": null}', "count: 1, on: yes, of: none"),
        ('{"command": "pytest -q te', "pytest -q te"),
        ("{}", ""),
        ("[1]", "[1]"),
        ("plain words", "plain words"),
        ("", ""),
    ],
)
def test_a_call_is_one_line(arguments: str, line: str) -> None:
    """The command, the file, the pattern; lists of values where a call has none of these."""
    assert call_line(arguments) == line


def test_a_whole_call_has_every_argument() -> None:
    """What describes it best first, the others by name."""
    arguments = json.dumps({"old_string": "a\nb", "file_path": "/x.py", "new_string": "c", "all": True})
    assert call_text(arguments) == "/x.py\nold_string: a\nb\nnew_string: c\nall: yes"


@given(st.dictionaries(st.sampled_from(["command", "path", "query", "x", "y"]), values, max_size=4))
def test_no_arguments_are_too_strange(fields: dict[str, object]) -> None:
    """Any object, and any beginning of one, is a safe line."""
    arguments = json.dumps(fields)
    for text in (arguments, arguments[: len(arguments) // 2]):
        line = call_line(text)
        assert line == one_line(line) == safe(line)
        call_text(text)
    assert not is_begun(arguments)


def test_deep_arguments_are_cut() -> None:
    """Nesting beyond all measure neither fails nor hangs."""
    deep = '{"a":' * 5000 + "1" + "}" * 5000
    assert call_line(deep, 80)
    assert call_text(deep)


def test_escape_sequences_in_arguments_are_removed() -> None:
    """JSON can hold what a terminal acts upon."""
    assert call_line(json.dumps({"command": "a\x1b[2Jb\x1b]0;t\x07c\u202e"})) == "abc"
