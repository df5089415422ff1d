"""Secrets with a known form: JSON web tokens, private keys, tokens that begin with a number.

Where a form has several parts, each part is read up to its end at most as often as there are parts.
"""

from __future__ import annotations

import base64
import binascii
import re

from agenttrace.masking.rule import ESCAPED, LEFT, RIGHT, Rule, Secret

_PART = r"[A-Za-z0-9_-]"
#: A part begins where no character of a part is before it, so that a long row of them is read once.
_JWT = re.compile(rf"(?:(?<!{_PART})|{ESCAPED})eyJ{_PART}{{8,}}+\.eyJ{_PART}{{8,}}+(?:\.{_PART}*+){{0,3}}")
_BEGIN = "-----BEGIN"
_PRIVATE = re.compile(r"-----BEGIN (?:[A-Z0-9]{1,16} ){0,4}PRIVATE KEY(?: BLOCK)?-----")
_END = re.compile(r"-----END (?:[A-Z0-9]{1,16} ){0,4}PRIVATE KEY(?: BLOCK)?-----")
_END_BEHIND = re.compile(rf"(?:\s|\\[nrt\"])*+{_END.pattern}")
_BETWEEN_ROWS = " \t\r\n\"'`+>|,\u2192\\"
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
#: The same read backwards, from the last line of a key whose first line is missing.
_BACKWARDS = re.compile(
    r"(?:(?:[\s\"'`+>|,\u2192\\]|[nrt](?=\\))*+(?:[A-Za-z0-9+/=]{16,}+|=++[A-Za-z0-9+/]{1,15}+|[0-9]{1,6}+(?=[\s\"'>|]|\Z)))*+"
)
#: How the body of a private key begins in base64: PKCS #8 and #1, elliptic curves, Ed25519, OpenSSH.
_BODY = re.compile(r"(?:(?<![A-Za-z0-9+/])|ESCAPED)[A-Za-z0-9+/]{40,}+".replace("ESCAPED", ESCAPED))
_BODIES = (b"\x02\x01\x00", b"\x02\x01\x01")
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


def _look_jwt(text: str, start: int, end: int) -> Secret | None:
    found = _JWT.match(text, start)
    # The full stop of a sentence is not part of it.
    return Secret(start, start + len(found.group().rstrip(".")), "jwt") if found else None


def _look_key(text: str, start: int, end: int) -> Secret | None:
    head = _PRIVATE.match(text, start)
    if head is None:
        return None
    limit = text.find(_BEGIN, head.end(), head.end() + _KEY_CHARS)
    limit = limit if limit >= 0 else head.end() + _KEY_CHARS
    closing = _END.search(text, head.end(), limit)
    if closing:
        inside = _ROW.search(text, head.end(), closing.start())
        return Secret(start, closing.end(), "private-key") if inside else None
    rest = _CUT_OFF.match(text, head.end(), limit)
    if rest is None or not _ROW.search(rest.group()):
        return None
    return Secret(start, rest.end(), "private-key")


def _look_end(text: str, start: int, end: int) -> Secret | None:
    """The last line of a key whose first line was cut off."""
    closing = _END.match(text, start)
    if closing is None:
        return None
    size = 256
    while True:
        head = text[max(0, start - size) : start][::-1]
        rows = _BACKWARDS.match(head)
        read = rows.end() if rows else 0
        # The text that was read belongs to this key alone, so all keys together are read a few times at most.
        if read < size // 2 or size >= _KEY_CHARS or size >= start:
            break
        size *= 2
    begin = start - len(head[:read].rstrip(_BETWEEN_ROWS))
    return Secret(begin, closing.end(), "private-key") if _ROW.search(text, begin, start) else None


def _look_body(text: str, start: int, end: int) -> Secret | None:
    """Rows of base64 that begin as private keys do, without the lines around them."""
    if not _BODY.match(text, start):
        return None
    told = base64.b64decode(text[start : start + 16])
    if not told.startswith(b"openssh") and told[_header_bytes(told) :][:3] not in _BODIES:
        return None
    rest = _CUT_OFF.match(text, start, start + _KEY_CHARS)
    closing = rest and _END_BEHIND.match(text, rest.end())
    return Secret(start, closing.end() if closing else rest.end(), "private-key") if rest else None


def _header_bytes(told: bytes) -> int:
    """How long the header of a sequence is in DER: its kind, and its length."""
    return 2 + (told[1] & 0x7F if told[1] & 0x80 else 0)


def _look_encoded_key(text: str, start: int, end: int) -> Secret | None:
    """A private key in base64, as Kubernetes keeps it; certificates begin alike."""
    found = _ENCODED.match(text, start)
    if found is None or b"PRIVATE KEY" not in base64.b64decode(text[start : start + 64]):
        return None
    return Secret(start, found.end(), "private-key")


def _look_telegram(text: str, start: int, end: int) -> Secret | None:
    found = _TELEGRAM.match(text, start + 1)
    number = _NUMBER_BEFORE.search(text, max(0, start - 16), start) if found else None
    return Secret(number.start(1), found.end(), "telegram-token") if found and number else None


def _look_discord(text: str, start: int, end: int) -> Secret | None:
    found = _DISCORD.match(text, start)
    if found is None or not _is_number(found["id"]):
        return None
    return Secret(start, found.end(), "discord-token")


def _is_number(encoded: str) -> bool:
    try:
        return base64.urlsafe_b64decode(encoded + "=" * (-len(encoded) % 4)).isdigit()
    except (binascii.Error, ValueError):
        return False


def _around(anchor: str, pattern: re.Pattern[str], before: int, kind: str) -> Rule:
    """A rule for what begins so many characters before its anchor."""

    def look(text: str, start: int, end: int) -> Secret | None:
        found = pattern.match(text, start - before) if start >= before else None
        return Secret(found.start(), found.end(), kind) if found else None

    return Rule((anchor,), look)


#: The first three characters of every number in base64.
_NUMBERS = tuple(base64.b64encode(f"{number}0".encode())[:3].decode() for number in range(10, 100))
RULES = (
    Rule(("eyJ",), _look_jwt),
    Rule((_BEGIN,), _look_key),
    Rule(("-----END",), _look_end),
    Rule(("MII", "MIG", "MHcC", "MC4C", "MFMC", "b3BlbnNzaC1rZXkt"), _look_body),
    Rule((base64.b64encode(_BEGIN.encode())[:13].decode(),), _look_encoded_key),
    Rule((":AA",), _look_telegram),
    Rule(_NUMBERS, _look_discord),
    _around("-us", _MAILCHIMP, 32, "mailchimp-key"),
    _around("Q~", _AZURE, 4, "azure-secret"),
    _around(".atlasv1.", _TERRAFORM, 14, "terraform-token"),
)
