"""Secrets that are told by their form: JSON web tokens, private keys, tokens that begin with a number.

Where a form has several parts, each part is read up to its end at most as often as there are parts.
"""

from __future__ import annotations

import base64
import binascii
import re

from agenttrace.masking.rule import ESCAPED, LEFT, RIGHT, Found, Rule

_PART = r"[A-Za-z0-9_-]"
#: A part begins where no character of a part stands before it, so that a long row of them is read once.
_JWT = re.compile(rf"(?:(?<!{_PART})|{ESCAPED})eyJ{_PART}{{8,}}+\.eyJ{_PART}{{8,}}+(?:\.{_PART}*+){{0,3}}")
_BEGIN = "-----BEGIN"
_PRIVATE = re.compile(r"-----BEGIN (?:[A-Z0-9]{1,16} ){0,4}PRIVATE KEY(?: BLOCK)?-----")
_END = re.compile(r"-----END (?:[A-Z0-9]{1,16} ){0,4}PRIVATE KEY(?: BLOCK)?-----")
#: The longest of the usual keys, with line numbers and escapes.
_KEY_CHARS = 32_768
_ROW = re.compile(r"[A-Za-z0-9+/]{40}")
#: A key that was cut off: rows of base64, and what programs put between them.
_CUT_OFF = re.compile(
    r"""
    (?: (?: [\s"'`+>|,\u2192] | \\[nrt"'\\] | [0-9]{1,6}[\u2192:|\t]
          | (?:Proc-Type|DEK-Info|Version|Comment):[^\r\n\\]{0,100} )*+
        (?: [A-Za-z0-9+/=]{16,}+ | [A-Za-z0-9+/]{1,15}+=++ )
    )*+
    """,
    re.VERBOSE,
)
_ENCODED = re.compile(rf"(?:(?<![A-Za-z0-9+/])|{ESCAPED})[A-Za-z0-9+/]{{64,}}+={{0,2}}")
_TELEGRAM = re.compile(r"AA(?!x{8})[A-Za-z0-9_-]{33}(?![A-Za-z0-9_-])")
_NUMBER_BEFORE = re.compile(r"(?<![0-9])(?:(?<=\\u)[0-9]{4})?([0-9]{8,10})$")
_DISCORD = re.compile(
    rf"{LEFT}(?P<id>[A-Za-z0-9_-]{{23,28}})\.[A-Za-z0-9_-]{{6}}\.[A-Za-z0-9_-]{{27,40}}(?![A-Za-z0-9_-])"
)
_MAILCHIMP = re.compile(rf"{LEFT}[0-9a-f]{{32}}-us[0-9]{{1,2}}{RIGHT}")
_AZURE = re.compile(
    rf"(?:(?<![A-Za-z0-9_~.-])|{ESCAPED})[A-Za-z0-9_~.]{{3}}[0-9]Q~[A-Za-z0-9_~.-]{{30,33}}"
    r"[A-Za-z0-9_~-](?![A-Za-z0-9_~-])"
)
_TERRAFORM = re.compile(rf"{LEFT}[A-Za-z0-9]{{14}}\.atlasv1\.[A-Za-z0-9_-]{{60,}}+")


def _look_jwt(text: str, start: int, end: int) -> Found | None:
    found = _JWT.match(text, start)
    # The point of a sentence is no part of it.
    return Found(start, start + len(found.group().rstrip(".")), "jwt") if found else None


def _look_key(text: str, start: int, end: int) -> Found | None:
    head = _PRIVATE.match(text, start)
    if head is None:
        return None
    limit = text.find(_BEGIN, head.end(), head.end() + _KEY_CHARS)
    limit = limit if limit >= 0 else head.end() + _KEY_CHARS
    closing = _END.search(text, head.end(), limit)
    if closing:
        inside = _ROW.search(text, head.end(), closing.start())
        return Found(start, closing.end(), "private-key") if inside else None
    rest = _CUT_OFF.match(text, head.end(), limit)
    if rest is None or not _ROW.search(rest.group()):
        return None
    return Found(start, rest.end(), "private-key")


def _look_encoded_key(text: str, start: int, end: int) -> Found | None:
    """A private key in base64, as Kubernetes keeps it; certificates begin alike."""
    found = _ENCODED.match(text, start)
    if found is None or b"PRIVATE KEY" not in base64.b64decode(text[start : start + 64]):
        return None
    return Found(start, found.end(), "private-key")


def _look_telegram(text: str, start: int, end: int) -> Found | None:
    found = _TELEGRAM.match(text, start + 1)
    number = _NUMBER_BEFORE.search(text, max(0, start - 16), start) if found else None
    return Found(number.start(1), found.end(), "telegram-token") if found and number else None


def _look_discord(text: str, start: int, end: int) -> Found | None:
    found = _DISCORD.match(text, start)
    if found is None or not _is_number(found["id"]):
        return None
    return Found(start, found.end(), "discord-token")


def _is_number(encoded: str) -> bool:
    try:
        return base64.urlsafe_b64decode(encoded + "=" * (-len(encoded) % 4)).isdigit()
    except (binascii.Error, ValueError):
        return False


def _around(anchor: str, pattern: re.Pattern[str], before: int, kind: str) -> Rule:
    """A rule for what begins so many characters before its anchor."""

    def look(text: str, start: int, end: int) -> Found | None:
        found = pattern.match(text, start - before) if start >= before else None
        return Found(found.start(), found.end(), kind) if found else None

    return Rule((anchor,), look)


#: The first three characters of every number in base64.
_NUMBERS = tuple(base64.b64encode(f"{number}0".encode())[:3].decode() for number in range(10, 100))
RULES = (
    Rule(("eyJ",), _look_jwt),
    Rule((_BEGIN,), _look_key),
    Rule((base64.b64encode(_BEGIN.encode())[:13].decode(),), _look_encoded_key),
    Rule((":AA",), _look_telegram),
    Rule(_NUMBERS, _look_discord),
    _around("-us", _MAILCHIMP, 32, "mailchimp-key"),
    _around("Q~", _AZURE, 4, "azure-secret"),
    _around(".atlasv1.", _TERRAFORM, 14, "terraform-token"),
)
