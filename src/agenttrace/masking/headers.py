"""HTTP headers with credentials: Authorization with its schemes, cookies; and Docker's and npm's ``auth``."""

from __future__ import annotations

import re

from agenttrace.masking.rule import LEFT, Rule, Secret
from agenttrace.masking.values import Doubt, Notation, is_basic, is_placeholder, is_secret, looks_random
from agenttrace.masking.words import is_wordlike

_CREDENTIALS = r"[A-Za-z0-9._~+/=:|%-]"
#: ``Authorization: Bearer abc``, ``"Authorization": "Basic abc"``, ``headers["Authorization"] = 'token abc'``.
_AUTHORIZATION = re.compile(
    r"""
    \\{0,7}+["'`]?+ \]?+ [ \t]{0,8}+ (?P<sign>=>|[:=,：]) [ \t]{0,8}+ (?:[rbu]?\\{0,7}+["'`])?+
    (?P<scheme>(?:bearer|basic|token|apikey|api-key|bot|key|oauth|pat|splunk|github)[ \t]++)?+
    (?P<value>CREDENTIALS{1,128}+)
    """.replace("CREDENTIALS", _CREDENTIALS),
    re.VERBOSE | re.IGNORECASE,
)
_SCHEME = re.compile(rf"[ \t]{{1,8}}+(?P<value>{_CREDENTIALS}{{6,128}}+)")
_REST = re.compile(rf"{_CREDENTIALS}*+")
_COOKIE = re.compile(
    r"""
    \\{0,7}+["'`]?+ \]?+ [ \t]{0,8}+ (?:(?P<sign>[:=,])|(?<=[ \t]))[ \t]{0,8}+ (?:\\{0,7}+["'`])?+
    (?P<first>[\w.-]{1,64}+=(?P<value>[^\s;,"'`\\]{4,128}+))
    """,
    re.VERBOSE,
)
_FURTHER_COOKIES = re.compile(r"[^\s;,\"'`\\]*+(?:;[ ]?[\w.-]{1,64}+=[^\s;,\"'`\\]*+)*+")
_AUTH = re.compile(r"""\\{0,7}+["']?+[ \t]{0,8}+[:=][ \t]{0,8}+\\{0,7}+["']?+(?P<value>[A-Za-z0-9+/]{6,4096}+={0,2})""")
_WORD = re.compile(LEFT)
_DOCUMENTED = re.compile(r"token|key|jwt|secret|credential|auth|value|string|header|access|realm", re.IGNORECASE)


def _look_authorization(text: str, start: int, end: int) -> Secret | None:
    found = _AUTHORIZATION.match(text, end)
    if found is None or not _WORD.match(text, start):
        return None
    value = found["value"]
    if found["scheme"]:
        secret = len(value) >= 6 and (looks_random(value) or not _DOCUMENTED.search(value))
    else:
        secret = found["sign"] != "," and looks_random(value)
    if not (secret or is_basic(value)) or is_placeholder(value):
        return None
    if text[found.end() : found.end() + 1] in ("(", "[", "{", "$", "<"):
        return None  # a template
    return _value(text, found, "authorization")


def _look_scheme(text: str, start: int, end: int) -> Secret | None:
    """``Bearer abc`` without a header before it: in a sentence, in a program."""
    found = _SCHEME.match(text, end)
    if found is None or not _WORD.match(text, start):
        return None
    value = found["value"]
    if text.startswith(("Ba", "ba"), start):
        return _value(text, found, "basic-auth") if is_basic(value) else None
    secret = is_secret(value, Doubt.TOKEN, Notation())
    return _value(text, found, "bearer-token") if secret else None


def _value(text: str, found: re.Match[str], kind: str) -> Secret:
    rest = _REST.match(text, found.end("value"))
    end = rest.end() if rest else found.end("value")
    return Secret(found.start("value"), end - (text[end - 1] in ".:"), kind)


def _look_cookie(text: str, start: int, end: int) -> Secret | None:
    found = _COOKIE.match(text, end)
    if found is None:
        return None
    value = found["value"]
    made_up = looks_random(value) or (found["sign"] != "," and len(value) >= 8 and not is_wordlike(value, certain=True))
    if not made_up or is_placeholder(value):
        return None
    further = _FURTHER_COOKIES.match(text, found.end())
    end = further.end() if further else found.end()
    if text[max(0, start - 4) : start].lower() != "set-":
        return Secret(found.start("first"), end, "cookie")
    # The attributes of the cookie follow.
    attributes = text.find(";", found.end(), end)
    return Secret(found.start("value"), end if attributes < 0 else attributes, "cookie")


def _look_auth(text: str, start: int, end: int) -> Secret | None:
    found = _AUTH.match(text, end)
    if found is None or not is_basic(found["value"]):
        return None
    return Secret(found.start("value"), found.end("value"), "basic-auth")


RULES = (
    Rule(("authorization", "Authorization", "AUTHORIZATION"), _look_authorization),
    Rule(("Bearer", "bearer", "BEARER", "Basic", "basic"), _look_scheme),
    Rule(("Cookie", "cookie", "COOKIE"), _look_cookie),
    Rule(('"auth', "_auth"), _look_auth),
)
