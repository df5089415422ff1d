"""Properties of masking for any text: once is enough, nothing is left over, and time is linear."""

from __future__ import annotations

import string
import time
from collections.abc import Callable
from typing import NamedTuple

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from agenttrace.masking import Mask, vendors
from agenttrace.masking.scanner import RULES
from masking_examples import HEX, Token, discord, jwt, private_key, tokens

MASK = Mask()
OWN = Mask([r"corp-\d+", r"(?P<secret>[a-z]+)@example\.com"])
EVERY_TOKEN = [*tokens(), Token("jwt", "", jwt()), Token("discord-token", "", discord())]
ANCHORS = [anchor for rule in RULES for anchor in rule.anchors]

#: Pieces of texts that rules look at, so that hypothesis puts them beside each other in unexpected ways.
pieces = st.one_of(
    st.sampled_from([str(token) for token in EVERY_TOKEN]),
    st.sampled_from(ANCHORS),
    st.sampled_from(
        [
            *(
                "=",
                ": ",
                '"',
                "'",
                '\\"',
                "\\n",
                "\n",
                " ",
                "://",
                "@",
                "&",
                "?",
                ";",
                ",",
                "-u ",
                "[",
                "]",
                "(",
                "-----",
            ),
            *("[masked:jwt]", "[masked:", "hunter2", "a1B2c3D4e5F6g7H8", "password", "api_key", "curl ", "Bearer "),
            *(
                private_key(lines=2),
                "密码",
                "，",
                "\ud800",
                "value: ",
                "name: ",
                "export ",
                "corp-77",
                "me@example.com",
            ),
        ]
    ),
    st.text(alphabet=string.ascii_letters + string.digits + "_-.=:/@\"'\\ \n", max_size=12),
    st.text(max_size=5),
)
mixtures = st.lists(pieces, max_size=14).map("".join)

#: Without three letters no name of a secret can be spelled.
words = st.text(alphabet=sorted(set(string.ascii_lowercase) - set("aew")), min_size=1, max_size=12)
ordinary = st.one_of(
    words,
    words.map(str.title),
    st.integers().map(str),
    st.floats(allow_nan=False).map(str),
    st.uuids().map(str),
    st.text(alphabet=HEX, min_size=40, max_size=40),
    st.text(alphabet="一二三四五六七八九十的是不了在人有我他这", min_size=1, max_size=8),
    st.sampled_from(
        [
            *("max_tokens=4096", '"input_tokens": 12,', "def f(key: str) -> None:", "for token in tokens:", "->", "{}"),
            *("https://example.com/a?b=c", "/usr/lib/x.py:12:", "f(api_key=api_key)", "TOKEN=$TOKEN;", "```python"),
            *(
                "f(password: str),",
                "import secrets",
                "assert key not in cache",
                "cookie jar",
                "Bearer tokens",
                "✓",
                "…",
            ),
        ]
    ),
)


@given(mixtures)
def test_once_is_enough(text: str) -> None:
    """What is masked already does not change any more."""
    masked = MASK.text(text)
    assert MASK.text(masked) == masked
    masked = OWN.text(text)
    assert OWN.text(masked) == masked


@given(mixtures)
def test_a_text_does_not_swell(text: str) -> None:
    """A marker is longer than some secrets, but each of those has a name that is left as it is."""
    assert len(MASK.text(text)) <= 4 * len(text) + 40


@given(
    st.sampled_from(EVERY_TOKEN),
    st.lists(ordinary, max_size=5),
    st.lists(ordinary, max_size=5),
    st.sampled_from([" ", "\n", ", ", '"', "'", "(", "`", "，", "\\n", '\\"']),
)
def test_nothing_of_a_token_is_left(token: Token, before: list[str], after: list[str], around: str) -> None:
    """In any text the token is gone, and everything beside it is still there."""
    left, right = " ".join(before), " ".join(after)
    masked = MASK.text(f"{left}{around}{token}{around}{right}")
    assert token.rest not in masked
    # Glued to the value of a field that is named like a secret, the token is part of that value, which is masked whole.
    assume(not before or "key=" not in before[-1])
    assert f"{around}[masked:{token.kind}]{around}" in masked
    assert masked.startswith(left)
    assert masked.endswith(right)


@given(st.lists(ordinary), st.sampled_from([" ", "\n", ", ", "\t", " = "]))
def test_text_without_secrets_is_left_byte_for_byte(parts: list[str], between: str) -> None:
    """Words, numbers, hashes, ids, programs, Chinese."""
    text = between.join(parts)
    assert MASK.text(text) == text


@given(st.text())
def test_arbitrary_text_never_fails(text: str) -> None:
    """And what no rule finds comes back as it was given."""
    masked = MASK.text(text)
    assert "[masked:" in masked or masked == text


names = mixtures | st.sampled_from(["token", "password", "name", "value", "api_key", "key"])
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | mixtures,
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(mixtures | st.sampled_from(["token", "password"]), inner)
    ),
    max_leaves=12,
)


def shape(value: object) -> object:
    """Everything but the texts."""
    if isinstance(value, dict):
        return [shape(each) for each in value.values()]
    if isinstance(value, list):
        return [shape(each) for each in value]
    return "text" if isinstance(value, str) else value


@given(json_values)
def test_values_keep_their_shape(value: object) -> None:
    """Nothing is added, nothing vanishes, numbers stay; and once is enough here, too."""
    masked = MASK.value(value)
    assert shape(masked) == shape(value)
    assert MASK.value(masked) == masked


# Time


class Hostile(NamedTuple):
    """A way to repeat an anchor so that a careless rule would read the same text again and again."""

    name: str
    build: Callable[[str, int], str]


def repeat(between: str) -> Callable[[str, int], str]:
    return lambda anchor, size: (anchor + between) * (size // (len(anchor) + len(between)) + 1)


def once(filling: str, before: str = "") -> Callable[[str, int], str]:
    return lambda anchor, size: anchor + before + filling * (size // len(filling) + 1)


HOSTILE = (
    Hostile("anchors", repeat("")),
    Hostile("anchors and dashes", repeat("a-")),
    Hostile("names without values", repeat("=")),
    Hostile("names, colons", repeat(": ")),
    Hostile("quotation marks", repeat('="')),
    Hostile("mixed quotation marks", repeat("='\\\"")),
    Hostile("escaped quotation marks", repeat('=\\"')),
    Hostile("one quoted value", once('\\"', '="')),
    Hostile("a long word", once("a")),
    Hostile("a long number", once("a1")),
    Hostile("spaces", once(" ")),
    Hostile("slashes", once("/", "=")),
    Hostile("many paths", repeat("=" + "/" * 300 + "!")),
    Hostile("many dots", repeat("=a" + ".a" * 150 + "!")),
    Hostile("many words", repeat("=" + "key_" * 70 + "! ")),
    Hostile("parts", repeat("a.")),
    Hostile("logins", repeat(" a:b@")),
    Hostile("options", repeat(" x -p")),
    Hostile("cookies", repeat("=a1b2c3d4;")),
    Hostile("lines", repeat("\n")),
    Hostile("markers", repeat("[masked:x]")),
)


#: For tokens, what assignments are afraid of is nothing special.
HOSTILE_TOKENS = [hostile for hostile in HOSTILE if "=" not in hostile.build("a", 4)]


def spent(text: str) -> float:
    """CPU seconds of masking a text."""
    began = time.process_time()
    MASK.text(text)
    return time.process_time() - began


def is_linear(build: Callable[[int], str], size: int) -> bool:
    """Four times the text takes about four times as long; what is quadratic takes sixteen times.

    Another program may disturb a measurement, but hardly five in a row.
    """
    return any(spent(build(4 * size)) < 9 * spent(build(size)) + 0.002 for _ in range(5))


@pytest.mark.slow
@pytest.mark.parametrize("hostile", HOSTILE, ids=lambda hostile: hostile.name)
def test_hostile_texts_take_linear_time(hostile: Hostile) -> None:
    """No rule reads the same text again and again, whatever the text."""
    for rule in [*RULES[len(vendors.RULES) - 1 :], vendors.RULES[0]]:
        anchor = rule.anchors[0]
        assert is_linear(lambda size, anchor=anchor: hostile.build(anchor, size), 8_000), anchor  # type: ignore[misc]


@pytest.mark.slow
@pytest.mark.parametrize("hostile", HOSTILE_TOKENS, ids=lambda hostile: hostile.name)
def test_hostile_tokens_take_linear_time(hostile: Hostile) -> None:
    """The same for every vendor, of whose rules most are alike."""
    for rule in vendors.RULES:
        anchor = rule.anchors[0]
        assert is_linear(lambda size, anchor=anchor: hostile.build(anchor, size), 4_000), anchor  # type: ignore[misc]


@pytest.mark.slow
def test_a_lot_of_everything_takes_linear_time() -> None:
    """All anchors of all rules in every hostile way at once."""

    def build(size: int) -> str:
        share = size // (len(ANCHORS) * len(HOSTILE)) + 1
        return "".join(hostile.build(anchor, share) for anchor in ANCHORS for hostile in HOSTILE)

    assert is_linear(build, 100_000)
