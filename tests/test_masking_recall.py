"""How many secrets are found: random values in every usual form. And how much else is hidden: real code and manuals."""

from __future__ import annotations

import os
import random
import re
import string
import sysconfig
from collections.abc import Iterator
from pathlib import Path

import pytest

from agenttrace.masking import Mask
from masking_forms import ALPHABETS, COMMANDS, FORMS, NAMES, Form, leaks, samples

MASK = Mask()
#: Every name with every alphabet, twice.
COUNT = 2 * len(NAMES) * len(ALPHABETS)
#: What may be left of the values of one form.
SHARE = 0.005


@pytest.mark.parametrize("form", [*FORMS, *COMMANDS], ids=lambda form: form.name)
def test_random_values_are_hidden(form: Form) -> None:
    """At most one of 200 can still be read, whatever the name, the alphabet and the length."""
    left = [text for _, _, given, text in samples(form, COUNT) if leaks(given, MASK.text(text))]
    assert len(left) <= SHARE * COUNT, left


@pytest.mark.parametrize("form", [*FORMS, *COMMANDS], ids=lambda form: form.name)
def test_markers_of_all_forms_stay(form: Form) -> None:
    """Masking again changes nothing, wherever the marker is."""
    for _, _, _, text in samples(form, 86, seed="again"):
        masked = MASK.text(text)
        assert MASK.text(masked) == masked


def test_values_of_letters_behind_certain_names() -> None:
    """By entropy, letters of one case are a word; the name decides first."""
    dice = random.Random(11)
    for alphabet in (string.ascii_lowercase, string.ascii_uppercase, string.ascii_letters):
        for length in (8, 12, 16):
            given = ["".join(dice.choices(alphabet, k=length)) for _ in range(200)]
            for place in ('{"password": "§"}', '{"client_secret": "§"}', '"password": "§"', "DB_PASSWORD=§"):
                assert sum(value in MASK.text(place.replace("§", value)) for value in given) <= 1


# False alarms

ROOT = Path(__file__).parents[1]
SUFFIXES = (
    *(".py", ".pyi", ".md", ".txt", ".rst", ".json", ".toml", ".yaml", ".yml"),
    *(".cfg", ".ini", ".js", ".ts", ".html"),
)
SKIPPED = {"test", "tests", "node_modules", "site-packages"}
#: So much is read of each tree, at most.
TREE_BYTES = 25_000_000
#: Passwords and keys of the manuals that are read here. What looks like a secret there is meant to.
EXAMPLES = re.compile(
    r"tiger|hunter2|foo|bar|test|spam|word|secret|pass(?:word)?[0-9]*|my_pass[0-9]*|somepass|token1234|abc123|geheim"
    r"|s3cr3t|n0t-a-r34l-k3y|deadbeef|account-b|2Yotn|tGzv3|mF_9|h480djs|[a-z0-9]*4k3l03|hh5s93|kkk9d7|nnch734|hdhd02|pfkkdh"
    r"|9djdj8|45ghiu|A3ddj3w|czZCaGRS|dXNlcjp|QWxhZGRpbj|[A-Z][a-z]+:|chips|keebler|258EAFA5"
)
#: Values of no manual that may be hidden in a megabyte. Measured: 0.06.
ALARMS = 0.2
_MARKER = re.compile(r"\[masked:([a-z0-9-]+)\]")


def code(tree: Path) -> Iterator[str]:
    """The texts of a tree, in the same order on every machine."""
    size = 0
    for path in _files(tree):
        try:
            text = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError):
            continue
        size += len(text)
        if size > TREE_BYTES:
            return
        yield text


def _files(tree: Path) -> Iterator[Path]:
    for folder, below, names in os.walk(tree):
        below[:] = sorted(set(below) - SKIPPED)
        yield from (Path(folder, name) for name in sorted(names) if name.endswith(SUFFIXES))


def hidden(text: str) -> Iterator[str]:
    """What was hidden in a text, other than in addresses, whose passwords are all examples."""
    masked = MASK.text(text)
    if masked == text:
        return
    at = 0
    parts = _MARKER.split(masked)
    for before, kind, after in zip(parts[::2], parts[1::2], parts[2::2], strict=False):
        at += len(before)
        end = text.find(after[:40], at) if after else len(text)
        value = text[at:end]
        at = end
        if kind not in ("url-password", "own") and not value.startswith("[masked:"):
            yield value


@pytest.mark.parametrize("tree", ["stdlib", "purelib", "project"])
def test_real_code_stays_readable(tree: str) -> None:
    """In libraries, manuals and this project hardly anything but made-up credentials is hidden."""
    roots = (
        [ROOT / "src", ROOT / "docs", ROOT / "web" / "src"] if tree == "project" else [Path(sysconfig.get_path(tree))]
    )
    size, alarms = 0, []
    for text in (text for root in roots if root.exists() for text in code(root)):
        size += len(text)
        alarms += [value for value in hidden(text) if not EXAMPLES.match(value)]
    assert len(alarms) <= ALARMS * max(size / 1e6, 5), alarms


@pytest.mark.parametrize(
    "text",
    [
        "token = get_token()",
        '"max_tokens": 4096',
        "password: string",
        "tokenizer = load()",
        '"input_tokens": 12',
        'api_key=os.environ["X"]',
        "type: password",
        "API_KEY=<your-key>",
        "password: changeme",
        '{"password": "changeme", "token": "xxxxxxxx", "api_key": "<your-key>"}',
        "auth = HTTPBasicAuth(user, word)",
        "if password:\n    return check(password)",
        "secrets:\n  db_password:\n    file: ./db_password.txt",
        '{"secrets": {"type": "object", "description": "all of them", "properties": {}}}',
        '{"credentials": {"username": "me", "expires_at": "2026-01-01"}}',
        '{"cookies": {"theme": "dark", "lang": "en"}}',
        '{"bypass": {"help": "Page must have a way around"}}',
        '{"args": ["--token-file", "/run/secrets/token1"], "path": ["cookie", "jar"]}',
        "PATH=/usr/bin:/bin and pattern = 'a-z'",
        'IPV4_PAT = r"(?:[0-9]{1,3}\\.){3}[0-9]{1,3}"',
        "\x1b[32mtoken\x1b[0m: \x1b[31mstring\x1b[0m",
        "password: >-\n  Enter your password",
        "docker run -b 10.0.0.1/24 image, git checkout -b feature=1",
        "sort -u, mysql -p shop, sqlcmd -P $PORT",
    ],
)
def test_what_only_sounds_like_a_secret(text: str) -> None:
    """Calls, counts, types, placeholders, words, descriptions."""
    assert MASK.text(text) == text
