"""What formats share: tokens are counted once, memory stays small, directories are found, optional methods may fail."""

from __future__ import annotations

from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agenttrace.plugins import FORMATS, Plugin
from agenttrace.record.formats.base import agent_directory, remember, usage_of_prompt
from agenttrace.record.formats.contract import LogCleanup
from agenttrace.record.formats.plugins import PluginAgent

counts = st.integers(0, 1000)


@given(counts, counts, counts, counts, counts)
def test_no_token_of_a_prompt_is_in_two_fields(
    prompt: int, output: int, cached: int, written: int, reasoning: int
) -> None:
    """Whatever an agent reports as cached, the parts of the prompt add up to it."""
    usage = usage_of_prompt(prompt, output, cached, written, reasoning)
    assert usage.input_tokens + usage.cache_read_tokens + usage.cache_write_tokens == prompt
    assert min(usage.input_tokens, usage.cache_read_tokens, usage.cache_write_tokens) >= 0
    assert usage.reasoning_tokens <= usage.output_tokens == output


@given(st.lists(st.sampled_from("abcdefgh")), st.integers(1, 4))
def test_the_latest_entries_are_remembered(keys: list[str], most: int) -> None:
    """Each key once, in the order of its last entry, and never more than the limit."""
    known: dict[str, Any] = {}
    for key in keys:
        remember(known, key, key, most)
    latest = list(dict.fromkeys(reversed(keys)))[:most]
    assert list(known) == latest[::-1]


@pytest.mark.parametrize(
    ("environ", "found"),
    [
        ({}, "/home/me/.parrot"),
        ({"A": "", "B": ""}, "/home/me/.parrot"),
        ({"B": "/b"}, "/b"),
        ({"A": "~/a", "B": "/b"}, "/home/me/a"),
    ],
)
def test_a_variable_moves_the_directory(environ: dict[str, str], found: str) -> None:
    """The first variable that is set decides, else the default in the user's home."""
    assert agent_directory(environ, Path("/home/me"), "A", "B", default=".parrot") == Path(found)


class Minimal:
    """A format of a package that derives from nothing."""

    name = title = "minimal"


class Cleaning(Minimal):
    """One that deletes its logs."""

    def cleanups(self, logs: list[Path]) -> list[LogCleanup]:
        return [LogCleanup(directory=logs[0], days=1.0, origin="a setting")]


def test_a_plug_in_may_leave_out_what_is_optional() -> None:
    """The defaults hold for what it lacks and for what fails; what it has is used."""
    plugin = Plugin(FORMATS, "minimal", "minimal 1.0", EntryPoint("minimal", "minimal:Minimal", FORMATS))
    bare, cleaning = (PluginAgent(plugin, each()) for each in (Minimal, Cleaning))  # type: ignore[arg-type]
    assert bare.session_name(Path("x/one.log")) == "one"
    assert (bare.attributes(b"{}", lambda *_: None), bare.cleanups([])) == ({}, [])
    assert [each.days for each in cleaning.cleanups([Path("x")])] == [1.0]
    assert cleaning.cleanups([]) == []
