"""Masking hides secrets in texts and values, changes nothing else, and never fails."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from agenttrace.config import SettingsError, load_settings
from agenttrace.masking import Mask
from masking_examples import jwt, made_up, private_key, tokens

MASK = Mask()
KEY = next(str(token) for token in tokens() if token.kind == "anthropic-key")
GUIDE = Path(__file__).parents[1] / "docs" / "masking.md"
GITHUB = next(str(token) for token in tokens() if token.kind == "github-token")


def test_a_text_without_secrets_is_itself() -> None:
    """Not even a copy is made."""
    text = "Nothing to see here: the token count was 5, the key is under the mat. 没有什么。"
    assert MASK.text(text) is text


def test_several_secrets_in_one_text() -> None:
    """Each becomes a marker of its kind; adjacent ones stay separate."""
    text = f"{KEY} {GITHUB}\n{jwt()},{jwt(2)} password=hunter2 {private_key()}"
    expected = (
        "[masked:anthropic-key] [masked:github-token]\n[masked:jwt],[masked:jwt] password=[masked:password] "
        "[masked:private-key]"
    )
    assert MASK.text(text) == expected


def test_a_marker_is_not_a_name() -> None:
    """The text after a marker is not the value of the kind in the marker."""
    value = made_up(32)
    for text in (f"[masked:github-token]: {value}", f"[masked:password] = {value}", f"https://[masked:token]@{value}"):
        assert MASK.text(text) == text


def test_half_a_character_is_no_reason_to_fail() -> None:
    """Texts that were cut inside a character are masked like others, and stay as broken as they were."""
    assert MASK.text(f"\ud83d {KEY} \udc00") == "\ud83d [masked:anthropic-key] \udc00"
    assert MASK.text("\udfff" * 20) == "\udfff" * 20


def test_long_texts_are_read_in_parts() -> None:
    """A secret is found wherever a part ends, and once."""
    for place in range(1_048_560, 1_048_600, 3):
        text = "." * place + f" {KEY} ghp_" + "." * 1_048_576 + f"password=hunter2 {GITHUB}"
        expected = text.replace(KEY, "[masked:anthropic-key]").replace(GITHUB, "[masked:github-token]")
        assert MASK.text(text) == expected.replace("hunter2", "[masked:password]")


# Values


def test_fields_named_like_secrets_are_hidden_whole() -> None:
    """Whatever the value looks like, several words included."""
    given = {
        "password": "correct horse battery staple",
        "api_key": "short",
        "clientSecret": "word",
        "Authorization": "Bearer abc",
        "cookie": "a=b; c=d",
        "token": "abc-123",
        "credentials": ["one", "two"],
    }
    assert MASK.value(given) == {
        "password": "[masked:password]",
        "api_key": "[masked:key]",
        "clientSecret": "[masked:secret]",
        "Authorization": "[masked:authorization]",
        "cookie": "[masked:cookie]",
        "token": "[masked:token]",
        "credentials": ["[masked:credential]", "[masked:credential]"],
    }


def test_values_of_any_shape() -> None:
    """Texts at any depth are masked; numbers, names, order and everything else stay."""
    given = {
        "command": f"curl -H 'x-api-key: {KEY}'",
        "env": {"GITHUB_TOKEN": GITHUB, "PATH": "/usr/bin", "DEBUG": None},
        "list": [1, 2.5, True, None, "x", [KEY, {"deep": [f"see {KEY}"]}]],
        "tokens": 5,
        "token": "hello",
        "max_tokens": 4096,
        "key": "Enter",
        "password": {"type": "string"},
    }
    masked = MASK.value(given)
    assert masked == {
        "command": "curl -H 'x-api-key: [masked:anthropic-key]'",
        "env": {"GITHUB_TOKEN": "[masked:github-token]", "PATH": "/usr/bin", "DEBUG": None},
        "list": [1, 2.5, True, None, "x", ["[masked:anthropic-key]", {"deep": ["see [masked:anthropic-key]"]}]],
        "tokens": 5,
        "token": "hello",
        "max_tokens": 4096,
        "key": "Enter",
        "password": {"type": "string"},
    }
    assert isinstance(masked, dict)
    assert list(masked) == list(given)


def test_placeholders_in_fields_stay() -> None:
    """A field named like a secret that has none stays as it is."""
    given: dict[str, object] = {
        "password": "",
        "api_key": "${API_KEY}",
        "secret": None,
        "token": 5,
        "authorization": "Bearer <token>",
        "client_secret": "[masked:secret]",
    }
    assert MASK.value(given) == given


def test_names_and_values_apart() -> None:
    """A list of variables, as in the files of Kubernetes and the settings of agents."""
    given = [
        {"name": "DB_PASSWORD", "value": "abc"},
        {"key": "API_KEY", "value": "abc"},
        {"name": "PORT", "value": "1"},
    ]
    assert MASK.value(given) == [
        {"name": "DB_PASSWORD", "value": "[masked:password]"},
        {"key": "API_KEY", "value": "[masked:key]"},
        {"name": "PORT", "value": "1"},
    ]


def test_secrets_as_names_of_fields() -> None:
    """They are hidden, too, and no field vanishes because two names became alike."""
    given = {KEY: 1, KEY[:-1] + "b": 2, 5: 3}
    assert MASK.value(given) == {"[masked:anthropic-key]": 1, "[masked:anthropic-key] 2": 2, 5: 3}


def test_the_given_value_does_not_change() -> None:
    """Masking makes a new value; the old one does not change."""
    given = {"password": "hunter2", "list": [{"token": GITHUB}]}
    before = copy.deepcopy(given)
    MASK.value(given)
    assert given == before


def test_depth_is_no_reason_to_fail() -> None:
    """A value nested deeper than Python's stack is masked to its bottom."""
    value: Any = KEY
    for _ in range(50_000):
        value = [value]
    masked: Any = MASK.value(value)
    for _ in range(50_000):
        (masked,) = masked
    assert masked == "[masked:anthropic-key]"


@pytest.mark.parametrize("value", [None, 5, 2.5, True, "", "text", [], {}, b"bytes"])
def test_a_value_without_secrets_stays_equal(value: object) -> None:
    """Whatever it is."""
    assert MASK.value(value) == value


# The user's own patterns


def test_own_patterns() -> None:
    """What they match becomes a marker, groups or not; the known secrets are still found."""
    mask = Mask([r"corp-[0-9a-f]{8}", r"(id|no)\.(\d{4})", r"\b\d{3}-\d{2}-\d{4}\b"])
    text = f"corp-0123abcd id.1234 no.5678 123-45-6789 {KEY} corp-nothing"
    assert mask.text(text) == "[masked:own] [masked:own] [masked:own] [masked:own] [masked:anthropic-key] corp-nothing"
    assert mask.value({"a": ["id.1234"]}) == {"a": ["[masked:own]"]}


def test_a_group_named_secret_says_which_part_to_hide() -> None:
    """The rest of the match stays."""
    mask = Mask([r"X-Corp: (?P<secret>\S+)", r"(?P<secret>never)?ending"])
    assert mask.text("X-Corp: abc; ending neverending") == "X-Corp: [masked:own] ending [masked:own]ending"


def test_own_patterns_and_known_secrets_overlap() -> None:
    """Nothing of either is left over, whichever begins first."""
    assert Mask([r"api03-\w{5}"]).text(f"x {KEY} y") == "x [masked:anthropic-key] y"
    assert Mask([r"x sk-ant"]).text(f"x {KEY} y") == "[masked:own] y"
    assert Mask([r"\w+ y"]).text(f"x {KEY[:-10]}9876543210 y") == "x [masked:anthropic-key]"


def test_own_patterns_leave_markers_whole() -> None:
    """A pattern that matches part of a marker does not tear it apart."""
    mask = Mask(["key", "masked", "own", r"\[", "anthropic"])
    assert mask.text(f"a {KEY} b") == "a [masked:anthropic-key] b"
    assert mask.text("monkey") == "mon[masked:own]"
    assert Mask([r"a \[masked:[^]]*\] b"]).text(f"a {KEY} b") == "[masked:own]"


def test_patterns_come_from_the_settings(tmp_path: Path) -> None:
    """The settings refuse what is no pattern or matches nothing at all, so the mask never meets one."""
    file = tmp_path / "agenttrace.toml"
    file.write_text("[export]\nmask = ['corp-[0-9]{4}']\n", encoding="utf-8")
    environ = {"AGENTTRACE_CONFIG": str(file), "HOME": str(tmp_path)}
    assert Mask(load_settings(environ).export.mask).text("see corp-1234") == "see [masked:own]"
    for wrong in ("(", "x*"):
        file.write_text(f"[export]\nmask = ['{wrong}']\n", encoding="utf-8")
        with pytest.raises(SettingsError):
            load_settings(environ)


# The guide


def examples() -> list[tuple[str, str]]:
    """The rows of the guide's first table, without the marks of Markdown."""
    table = GUIDE.read_text(encoding="utf-8").split("| before | after |")[1].split("\n\n")[0]
    rows = [row.strip("| ").replace("\\|", "\0").split(" | ") for row in table.strip().splitlines()[1:]]
    return [(before.strip("`").replace("\0", "|"), after.strip("`").replace("\0", "|")) for before, after in rows]


@pytest.mark.parametrize(("before", "after"), examples())
def test_the_guide_tells_what_happens(before: str, after: str) -> None:
    """What the guide shows is what comes out."""
    assert MASK.text(before) == after


# Real logs

SAMPLES = Path(__file__).parents[2] / "shared" / "samples"
DATA = Path(__file__).parent / "data"


def texts(value: object) -> list[str]:
    if isinstance(value, str):
        return [value]
    parts = list(value.values()) if isinstance(value, dict) else value if isinstance(value, list) else []
    return [text for part in parts for text in texts(part)]


def lines(folder: Path) -> list[str]:
    return [
        line
        for path in sorted(folder.rglob("*.jsonl"))
        for line in path.read_text(encoding="utf-8", errors="replace").splitlines()
    ]


def test_the_projects_own_logs_have_no_secrets() -> None:
    """Nothing is masked in them, neither in their lines nor in the texts inside, whatever code and output they have."""
    for line in lines(DATA):
        assert MASK.text(line) == line
        try:
            value = json.loads(line)
        except ValueError:
            continue
        assert MASK.value(value) == value


@pytest.mark.skipif(not SAMPLES.exists(), reason="the masked real logs are not beside the project")
def test_of_real_logs_only_secrets_are_hidden() -> None:
    """In the logs of real sessions these are all: logins in URLs, whose letters had been replaced before."""
    hidden = set()
    for line in lines(SAMPLES):
        try:
            found = texts(json.loads(line))
        except ValueError:
            continue
        for text in found:
            masked = MASK.text(text)
            if masked != text:
                hidden |= {part.split("]")[0] for part in masked.split("[masked:")[1:]}
    assert hidden == {"url-password", "url-token"}
