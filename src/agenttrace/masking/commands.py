"""Commands that take a password as an argument: ``curl -u me:word``, ``mysql -pword``, ``sshpass -p word``."""

from __future__ import annotations

import re

from agenttrace.masking.rule import LEFT, Found, Rule
from agenttrace.masking.values import is_placeholder

_USER = re.compile(r"[\"']?(?:,[ ]?|[ =])?[\"']?(?P<user>[^\s:\"'/$<{]{1,128}):(?P<word>[^\s\"'\\]{2,256}+)")
#: The programs whose ``-u`` is a login, and how far away they may stand: options are often on lines of their own.
_CALLER = re.compile(r"\b(?:curl|wget|https?|xh)(?:\.exe)?[ \t\"',]")
_FAR = 400
_WORD = re.compile(LEFT)
_MYSQL = re.compile(
    r"(?:dump|admin|import|sh)?(?:\.exe)?[ \t][^\r\n|;&]{0,120}?(?<=[ \t])-p[\"']?"
    r"(?P<word>(?![0-9]+:)[^\s\"'\\]{3,128})"  # two numbers are the ports of a container
)
_SSHPASS = re.compile(r"[ \t]+-p[ \t]*[\"']?(?P<word>[^\s\"'\\]{1,128})")
_REDIS = re.compile(r"[ \t][^\r\n|;&]{0,120}?(?<=[ \t])-a[ \t]+[\"']?(?P<word>[^\s\"'\\]{3,128})")
_DOCKER = re.compile(r"[ \t][^\r\n|;&]{0,120}?(?<=[ \t])-p[ \t]+[\"']?(?P<word>[^\s\"'\\]{3,128})")
_IDENTIFIED = re.compile(r"[ \t]{1,4}\\{0,7}[\"'](?P<word>(?![A-Za-z]+[\"'])[^\s\"'\\]{1,128})")
_PASS = re.compile(r"(?P<word>[^\s\"'\\]{1,128})")
_PAIR = re.compile(r"[ \t]*[\"'][^\"'\r\n]{1,128}[\"'][ \t]*,[ \t]*[\"'](?P<word>[^\"'\r\n]{1,128})[\"']")
_ECHO = re.compile(
    r"(?:echo|printf)[ \t]+(?:-[a-z][ \t]+)?[\"']?(?P<word>[^\s\"'|\\]{1,64})(?:\\n)?[\"']?[ \t]*[|][ \t]*$"
)


def _look_sudo(text: str, start: int, end: int) -> Found | None:
    """``echo word | sudo -S``."""
    found = _ECHO.search(text, max(0, start - 120), start)
    if found is None or is_placeholder(found["word"]):
        return None
    return Found(*found.span("word"), "password")


def _look_user(text: str, start: int, end: int) -> Found | None:
    if text[start - 1 : start] not in (" ", "\t", "\n", '"', "'"):
        return None
    found = _USER.match(text, end)
    if found is None or found["word"].isdigit() or is_placeholder(found["word"]):
        return None
    if not _CALLER.search(text, max(0, start - _FAR), start):
        return None
    return Found(*found.span("word"), "password")


def _command(anchors: tuple[str, ...], pattern: re.Pattern[str]) -> Rule:
    def look(text: str, start: int, end: int) -> Found | None:
        found = pattern.match(text, end) if _WORD.match(text, start) else None
        if found is None or is_placeholder(found["word"]):
            return None
        return Found(*found.span("word"), "password")

    return Rule(anchors, look)


RULES = (
    Rule(("-u", "--user", "--proxy-user"), _look_user),
    _command(("mysql", "mariadb"), _MYSQL),
    _command(("sshpass",), _SSHPASS),
    _command(("redis-cli",), _REDIS),
    _command(("docker login",), _DOCKER),
    _command(("-pass pass:", "-passin pass:", "-passout pass:"), _PASS),
    _command(("auth=(", "HTTPBasicAuth("), _PAIR),
    Rule(("sudo -S",), _look_sudo),
    _command(("IDENTIFIED BY", "identified by"), _IDENTIFIED),
)
