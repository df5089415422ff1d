"""URLs with credentials: passwords and tokens before the host, signed parameters, webhooks."""

from __future__ import annotations

import re

from agenttrace.masking.rule import Rule, Secret
from agenttrace.masking.surroundings import is_parameter, name_start
from agenttrace.masking.values import is_placeholder, looks_random

#: Between ``://`` and ``@``. An @ inside a password should be written as %40, and often is not.
_LOGIN = re.compile(r"(?P<user>[^\s/?#\"'`<>\\@:\[]{0,256}+)(?P<word>:[^\s/?#\"'`<>\\]{1,512})?@(?=[A-Za-z0-9\[$<{])")
_LOGIN_CHARS = 256
_LAST_WORD = re.compile(r"(?<![^\s\"'`])[^\s\"'`]{1,256}+$")
_SIGNATURE = re.compile(r"[A-Za-z0-9%+/_=~.-]{8,}+")
_HOOK = re.compile(r"[A-Za-z0-9_/-]{16,}+")


def _look_login(text: str, start: int, end: int) -> Secret | None:
    found = _LOGIN.match(text, end)
    if found is None:
        return None
    if not found["word"]:
        return _user(text, found)
    word = found["word"][1:]
    if not word or is_placeholder(word):
        return None
    return Secret(found.start("word") + 1, found.end("word"), "url-password")


def _user(text: str, found: re.Match[str]) -> Secret | None:
    """A token in the place of the user: ``https://TOKEN@host``, and Sentry's addresses."""
    user = found["user"]
    if len(user) < 20 or not looks_random(user) or is_placeholder(user):
        return None
    kind = "sentry-dsn" if "sentry" in text[found.end() : found.end() + 64] else "url-token"
    return Secret(*found.span("user"), kind)


def _look_signature(text: str, start: int, end: int) -> Secret | None:
    """The parameter that makes a signed URL valid: ``sig=``, ``X-Amz-Signature=``."""
    if not is_parameter(text, name_start(text, start)):
        return None
    found = _SIGNATURE.match(text, end)
    if found is None or is_placeholder(found.group()) or not looks_random(found.group()):
        return None
    return Secret(found.start(), found.end(), "signature")


def _look_hook(text: str, start: int, end: int) -> Secret | None:
    found = _HOOK.match(text, end)
    if found is None or is_placeholder(found.group()):
        return None
    return Secret(found.start(), found.end(), "webhook")


def _look_go(text: str, start: int, end: int) -> Secret | None:
    """``user:word@tcp(host:3306)/db``, as Go's MySQL driver has it."""
    head = text[max(0, start - _LOGIN_CHARS) : start]
    login = _LAST_WORD.search(head)
    if login is None or "://" in login.group():
        return None
    user, colon, word = login.group().partition(":")
    if not colon or not user or not word or is_placeholder(word):
        return None
    return Secret(start - len(word), start, "url-password")


_HOOKS = (
    *("hooks.slack.com/services/", "hooks.slack.com/workflows/", "hooks.slack.com/triggers/"),
    *("discord.com/api/webhooks/", "discordapp.com/api/webhooks/"),
    *("/open-apis/bot/v2/hook/", ".webhook.office.com/webhookb2/", "outlook.office.com/webhook/"),
)
RULES = (
    Rule(("://",), _look_login),
    Rule(("@tcp(", "@unix(", "@tcp6("), _look_go),
    Rule(("sig=", "ignature=", "auth=", "sign="), _look_signature),
    Rule(_HOOKS, _look_hook),
)
