"""The tables of destinations: everything that can be wrong with one is said with the fix, and keys are never shown."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agenttrace.config import SettingsError, load_settings
from agenttrace.destinations import BadDestinationError, DestinationSettings, parse_destination

OTLP = {"type": "otlp", "url": "http://127.0.0.1:4318"}
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8) | st.sampled_from(["otlp", "off", "all", "${A}"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)


def write(home: Path, text: str) -> None:
    (home / "agenttrace.toml").write_text(text)


def test_a_destination_needs_little(home: Path) -> None:
    """Two lines are enough; secrets are masked, content is sent masked, and it begins now."""
    write(home, '[destinations.phoenix]\ntype = "otlp"\nurl = "http://127.0.0.1:6006/v1/traces"\n')
    (found,) = load_settings().destinations
    assert (found.name, found.type, found.start) == ("phoenix", "otlp", "now")
    assert {found.prompts, found.tool_inputs, found.tool_outputs} == {"masked"}
    assert load_settings().origin("destinations.phoenix").endswith("agenttrace.toml")


def test_a_key_may_stand_in_the_environment(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A variable that is not set makes the destination unusable, not the rest of the program."""
    write(home, '[destinations.a]\ntype = "langsmith"\napi_key = "${MY_KEY}"\nheaders = { X = "a ${MY_KEY} b" }\n')
    (found,) = load_settings().destinations
    assert found.missing == ("MY_KEY",)
    monkeypatch.setenv("MY_KEY", "value")
    (found,) = load_settings().destinations
    assert (found.missing, found.api_key, found.headers) == ((), "value", {"X": "a value b"})


def test_keys_are_not_shown() -> None:
    """Whoever prints the settings, or an address with a password in it, does not print a secret."""
    made = parse_destination(
        "a", OTLP | {"url": "https://me:hidden@example.com/x", "headers": {"Authorization": "hidden"}}, {}
    )
    assert "hidden" not in repr(made)
    assert made.address == "https://example.com/x"


@pytest.mark.parametrize(
    ("table", "key", "said"),
    [
        ({}, "type", "is missing"),
        ({"type": "otlp"}, "url", "is missing"),
        ({"type": "langfuse", "public_key": "a"}, "secret_key", "is missing"),
        ({"type": "cozeloop", "api_key": "a"}, "project", "is missing"),
        ({"type": "jsonl"}, "path", "is missing"),
        ({"type": "kafka"}, "type", "cannot be used"),
        (OTLP | {"url": "localhost:4318"}, "url", "is no address"),
        (OTLP | {"prompts": "some"}, "prompts", "cannot be used"),
        (OTLP | {"start": "yesterday"}, "start", "cannot be used"),
        (OTLP | {"states": ["done"]}, "states", "cannot be used"),
        (OTLP | {"batch_spans": 0}, "batch_spans", "cannot be used"),
        (OTLP | {"colour": "red"}, "colour", "is not a setting"),
        (OTLP | {"missing": ["A"]}, "missing", "is not a setting"),
    ],
)
def test_what_is_wrong_is_named(home: Path, table: dict[str, Any], key: str, said: str) -> None:
    """The error names the file, the destination and the setting, and says what to do."""
    with pytest.raises(BadDestinationError) as error:
        parse_destination("there", table, {})
    assert error.value.key == key
    assert said in error.value.problem
    assert error.value.fix.endswith(".")


def test_errors_in_the_file_are_settings_errors(home: Path) -> None:
    """They read like those of any other setting."""
    write(home, '[destinations.there]\ntype = "jsonl"\n')
    with pytest.raises(SettingsError, match=r"agenttrace.toml: destinations.there.path is missing. A destination of"):
        load_settings()
    write(home, "destinations = 3\n")
    with pytest.raises(SettingsError, match="is not made of tables"):
        load_settings()
    write(home, '[destinations."a/b"]\ntype = "jsonl"\npath = "x"\n')
    with pytest.raises(SettingsError, match=r"destinations\.a/b\.name cannot be used"):
        load_settings()


def test_relative_paths_begin_beside_the_file(home: Path) -> None:
    """As everywhere in the settings."""
    write(home, '[destinations.there]\ntype = "jsonl"\npath = "spans"\n')
    assert load_settings().destinations[0].path == str(home / "spans")


@given(st.dictionaries(st.sampled_from([*DestinationSettings.__struct_fields__, "x"]), values, max_size=6))
def test_any_table_is_taken_or_refused_with_a_reason(table: dict[str, Any]) -> None:
    """Nothing that TOML can hold raises anything else."""
    try:
        made = parse_destination("there", {"type": "otlp", "url": "http://127.0.0.1", **table}, {})
    except BadDestinationError as error:
        made, told = None, (error.problem, error.fix)
    else:
        told = ("", "")
    assert made is not None or all(told)


@pytest.mark.parametrize("pattern", ["(", ".*", ""])
def test_patterns_of_secrets_are_checked(home: Path, pattern: str) -> None:
    """A pattern that is none, or that would mask everything, is refused."""
    write(home, f"[export]\nmask = ['{pattern}']\n")
    with pytest.raises(SettingsError, match=r"export\.mask"):
        load_settings()


def test_patterns_from_the_environment_are_lines(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They may hold commas and colons."""
    monkeypatch.setenv("AGENTTRACE_EXPORT_MASK", "a{2,3}:b\ncorp-[0-9]+\n")
    assert load_settings().export.mask == ("a{2,3}:b", "corp-[0-9]+")
