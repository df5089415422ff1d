"""JSON in a text is masked by field, as well as a value is, and stays JSON."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agenttrace.masking import Mask
from test_masking_properties import json_values, shape, spent

MASK = Mask()
PASSPHRASE = "correct horse battery staple"


def read(text: str) -> object:
    return json.loads(text)


@given(json_values, st.sampled_from([None, 2]))
def test_a_document_is_masked_as_its_value(value: object, indent: int | None) -> None:
    """What the value does not show any more, the text does not show either; it has the same shape, and is JSON."""
    masked = MASK.text(json.dumps([value], indent=indent))
    told = read(masked)
    assert isinstance(told, list)
    assert shape(told) == shape(read(json.dumps([value])))
    assert MASK.value(told) == told


@given(json_values)
def test_a_document_without_secrets_is_left_byte_for_byte(value: object) -> None:
    """However it is written."""
    for text in (json.dumps([value]), json.dumps([value], indent=3, ensure_ascii=False)):
        masked = MASK.text(text)
        assert "[masked:" in masked or masked == text
        assert MASK.text(masked) == masked


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('{"password": "correct horse battery staple"}', '{"password": "[masked:password]"}'),
        ('{"p\\u0061ssword" :"ZqUbmkLCNPloWRlO"}', '{"p\\u0061ssword" :"[masked:password]"}'),
        (
            '{"password": "a b c", "password": "d e f"}',
            '{"password": "[masked:password]", "password": "[masked:password]"}',
        ),
        ('{"n": 1.50, "x": [1e5, -0], "pwd": "a\\u00e9 b"}', '{"n": 1.50, "x": [1e5, -0], "pwd": "[masked:password]"}'),
        ('{"a": "{\\"password\\": \\"one two three\\"}"}', '{"a": "{\\"password\\": \\"[masked:password]\\"}"}'),
        ('{"secrets": {"db": "one two three"}}', '{"secrets": {"db": "[masked:secret]"}}'),
        ('["mysql", "-pone|two", "shop"]', '["mysql", "-p[masked:password]", "shop"]'),
        ('["tool", "--password", "one two"]', '["tool", "--password", "[masked:password]"]'),
        ('Exit code 0\n{"password": "one two three"}\nDone', 'Exit code 0\n{"password": "[masked:password]"}\nDone'),
        ('{"a": 1}\n{"pwd": "one two three"}\n', '{"a": 1}\n{"pwd": "[masked:password]"}\n'),
        ('{"headers": [["x-api-key", "Xk39dLq0"]]}', '{"headers": [["x-api-key", "[masked:key]"]]}'),
        (
            '{"cookies": [{"name": "sid", "value": "Xk39dLq0"}]}',
            '{"cookies": [{"name": "sid", "value": "[masked:cookie]"}]}',
        ),
        ('{"Name": "DB_PASSWORD", "Value": "one two"}', '{"Name": "DB_PASSWORD", "Value": "[masked:password]"}'),
    ],
)
def test_documents(before: str, after: str) -> None:
    """Only the strings that had a secret are rewritten."""
    assert MASK.text(before) == after


@pytest.mark.parametrize("name", ["password", "client_secret", "api_key", "credentials"])
def test_results_of_tools_are_read_as_values(name: str) -> None:
    """Several words behind a name are a secret where it is certain that they belong to it."""
    for text in (json.dumps({name: PASSPHRASE}), json.dumps([{"x": {name: PASSPHRASE}}], indent=1)):
        assert PASSPHRASE not in MASK.text(text)


def test_a_secret_in_several_strings_does_not_break_the_document() -> None:
    """The lines of a key as a list: each is hidden by itself."""
    rows = ["-----BEGIN " + "PRIVATE KEY-----", *("Ab3/" * 16 for _ in range(4)), "-----END " + "PRIVATE KEY-----"]
    masked = MASK.text(json.dumps({"lines": rows, "n": 1}, indent=1))
    assert read(masked) == {"lines": ["[masked:private-key]"] * 6, "n": 1}


def nested(size: int) -> str:
    """JSON in a string in JSON, and so on."""
    text = '{"password": "one two three"}'
    while len(text) < size:
        text = json.dumps({"a": text})
    return text


HOSTILE: dict[str, Callable[[int], str]] = {
    "brackets": lambda size: "[" * size + "token",
    "brackets on lines": lambda size: "[1 token\n" * (size // 9),
    "lists that never end": lambda size: "[1,\n" * (size // 4) + "token",
    "strings that never end": lambda size: '{"token": "a\n' * (size // 13),
    "fields": lambda size: "{" + ",".join(['"token": "Xk3jd8fj2kd9"'] * (size // 24)) + "}",
    "documents": lambda size: '{"password": "Xk3jd8fj2kd9"}\n' * (size // 29),
    "documents in documents": nested,
    "arguments": lambda size: json.dumps(["mysql", "--password", "x1y2"] * (size // 32)),
    "colours": lambda size: "\x1b[31mpassword\x1b[0m=" * (size // 18),
    "ends of keys": lambda size: ("Ab3/" * 16 + "\n-----END " + "PRIVATE KEY-----\n") * (size // 92),
    "blocks": lambda size: "password: |\n  " * (size // 13),
    "logins": lambda size: "a:b@tcp(" * (size // 8),
    "options": lambda size: "htpasswd " + "-b " * (size // 3),
}


@pytest.mark.parametrize("build", HOSTILE.values(), ids=HOSTILE)
def test_hostile_documents_take_linear_time(build: Callable[[int], str]) -> None:
    """Four times the text takes about four times as long, whatever the text."""
    assert any(spent(build(40_000)) < 9 * spent(build(10_000)) + 0.002 for _ in range(5))
