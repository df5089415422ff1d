"""Commands that take a password as an argument: ``curl -u me:word``, ``mysql -pword``, ``["sshpass", "-p", ...]``."""

from __future__ import annotations

import re
from typing import NamedTuple

from agenttrace.masking.rule import LEFT, Rule, Secret
from agenttrace.masking.values import is_placeholder
from agenttrace.masking.words import is_wordlike

#: Between two arguments: a space, or the quotation marks and the comma of a list of arguments.
_NEXT = r"(?:[ \t]*+\\\r?\n[ \t]*+|[ \t]++|\\{0,7}[\"'],\s{0,40}+(?=\\{0,7}[\"']))"
#: What may be between a command and its option; the end of the command is not.
_GAP = r"(?:[^\r\n|;&\\]|\\\r?\n|\\[\"']){0,200}?"
#: An argument: with what closes it if it is in quotation marks.
_ARGUMENT = re.compile(
    r"""
      (?P<mark>\\{0,7}+["']) (?P<quoted>(?:(?!(?P=mark))[^\r\n]){1,256}+)
    | (?P<bare>(?:[^\s"'`\\,;|]|\\(?![nrtu"'\\/])|[,;](?=\S)){1,256}+)
    """,
    re.VERBOSE,
)
_REST = re.compile(r"[^\s\"'\\]*+")
_LOGIN = re.compile(r"(?P<user>[^\s:\"'/$<{]{1,128}+):(?P<mark>\\{0,7}[\"'])?(?P<word>.{2,}+)", re.DOTALL)
#: The programs whose ``-u`` is a login, and how far away they may be: options are often on separate lines.
_CALLER = re.compile(r"\b(?:curl|wget|https?|xh)(?:\.exe)?[ \t\"',]")
_FAR = 400
_WORD = re.compile(LEFT)
_AFTER_OPTION = re.compile(rf"{_NEXT}|=|(?=[^\s\"'=,-])")
_GLUED = re.compile(rf"(?:dump|admin|import|sh)?(?:\.exe)?{_NEXT}{_GAP}(?<=[ \t\"'])-p(?![0-9]+:)(?=\S{{3}})(?![\"'],)")
_IDENTIFIED = re.compile(r"[ \t]{1,4}\\{0,7}[\"'](?P<word>[^\s\"'\\]{1,128})")
_PASS = re.compile(r"(?P<word>[^\s\"'\\]{1,128})")
_PAIR = re.compile(r"[ \t]*[\"'][^\"'\r\n]{1,128}[\"'][ \t]*,[ \t]*[\"'](?P<word>[^\"'\r\n]{1,128})[\"']")
_ECHO = re.compile(
    r"(?:echo|printf)[ \t]+(?:-[a-z][ \t]+)?[\"']?(?P<word>[^\s\"'|\\]{1,64})(?:\\n)?[\"']?[ \t]*[|][ \t]*$"
)
_COOKIES = re.compile(r"[\w.%-]{1,64}+=(?P<word>[^\s;]{4,}+)")
_HTPASSWD = re.compile(rf"(?:\.exe)?(?P<options>(?:{_NEXT}\\{{0,7}}[\"']?-(?:C[ \t]?[0-9]+|[a-zA-Z0-9]+))++)")


class _Argument(NamedTuple):
    """An argument of a command, without its quotation marks."""

    start: int
    end: int

    def told(self, text: str) -> str:
        """Its text."""
        return text[self.start : self.end]


def _argument(text: str, at: int) -> _Argument | None:
    found = _ARGUMENT.match(text, at)
    if found is None:
        return None
    return _Argument(*found.span("quoted" if found["mark"] else "bare"))


def _look_sudo(text: str, start: int, end: int) -> Secret | None:
    """``echo word | sudo -S``."""
    return _password(_ECHO.search(text, max(0, start - 120), start))


def _password(found: re.Match[str] | None) -> Secret | None:
    """The word of a match, unless it is a placeholder."""
    if found is None or is_placeholder(found["word"]):
        return None
    return Secret(*found.span("word"), "password")


def _given(text: str, start: int, end: int) -> _Argument | None:
    """The argument of the option at this place."""
    if text[start - 1 : start] not in (" ", "\t", "\n", '"', "'"):
        return None
    after = _AFTER_OPTION.match(text, end)
    return after and _argument(text, after.end())


def _is_of_caller(text: str, option: int) -> bool:
    return _CALLER.search(text, max(0, option - _FAR), option) is not None


def _look_user(text: str, start: int, end: int) -> Secret | None:
    argument = _given(text, start, end)
    found = argument and _LOGIN.match(text, argument.start, argument.end)
    if not found or found["word"].isdigit() or is_placeholder(found["word"]) or not _is_of_caller(text, start):
        return None
    if found["mark"]:  # me:'word'
        inside = _argument(text, found.start("mark"))
        return inside and Secret(*inside, "password")
    return Secret(*found.span("word"), "password")


def _look_cookies(text: str, start: int, end: int) -> Secret | None:
    """``curl -b 'session=...'``; without ``=`` it is the name of a file."""
    argument = _given(text, start, end if text.startswith("--", start) else start + 2)
    found = argument and _COOKIES.match(text, argument.start, argument.end)
    if argument is None or not found or is_placeholder(found["word"]):
        return None
    if is_wordlike(found["word"], certain=True) or not _is_of_caller(text, start):
        return None
    return Secret(*argument, "cookie")


def _look_htpasswd(text: str, start: int, end: int) -> Secret | None:
    """``htpasswd -b file user word``, ``htpasswd -nb user word``."""
    found = _HTPASSWD.match(text, end) if _WORD.match(text, start) else None
    options = found["options"].replace("-C", "") if found else ""
    if found is None or "b" not in options:
        return None
    at, argument = found.end(), None
    for _ in range(2 if "n" in options else 3):
        after = _BETWEEN_ARGUMENTS.match(text, at)
        argument = after and _argument(text, after.end())
        if not argument:
            return None
        at = argument.end
    return Secret(*argument, "password") if argument and not is_placeholder(argument.told(text)) else None


_BETWEEN_ARGUMENTS = re.compile(rf"(?:\\{{0,7}}[\"'])?{_NEXT}")


def _option(anchors: tuple[str, ...], option: str, *, glued: bool = False) -> Rule:
    """A rule for a command with an option that takes a password; ``glued``: only without a space between."""
    opening = (
        _GLUED
        if glued
        else re.compile(
            rf"(?:\.exe)?{_NEXT}{_GAP}(?<=[ \t\"']){option}(?:{_BETWEEN_ARGUMENTS.pattern}|=|(?=[^\s\"',=-]))"
        )
    )

    def look(text: str, start: int, end: int) -> Secret | None:
        found = opening.match(text, end) if _WORD.match(text, start) else None
        argument = found and _argument(text, found.end())
        if not argument or is_placeholder(argument.told(text)):
            return None
        return Secret(*argument, "password")

    return Rule(anchors, look)


def _command(anchors: tuple[str, ...], pattern: re.Pattern[str]) -> Rule:
    def look(text: str, start: int, end: int) -> Secret | None:
        return _password(pattern.match(text, end) if _WORD.match(text, start) else None)

    return Rule(anchors, look)


def _look_identified(text: str, start: int, end: int) -> Secret | None:
    """``IDENTIFIED BY 'word'``; in a sentence, things are identified by a name."""
    found = _IDENTIFIED.match(text, end) if _WORD.match(text, start) else None
    if found and text[start].islower() and found["word"].isalpha() and is_wordlike(found["word"]):
        return None
    return _password(found)


RULES = (
    Rule(("-u", "--user", "--proxy-user"), _look_user),
    Rule(("-b ", "-b'", '-b"', "-b\\", "--cookie"), _look_cookies),
    _option(("mysql", "mariadb"), "-p", glued=True),
    _option(("sshpass",), "-p"),
    _option(("redis-cli",), "-a"),
    _option(("docker login", "podman login", "helm registry login"), "-p"),
    _option(("sqlcmd", "mosquitto_pub", "mosquitto_sub"), "-P"),
    _option(("ldapsearch", "ldapadd", "ldapmodify", "ldapdelete", "ldapwhoami", "ldappasswd"), "-w"),
    _option(("mongosh", "mongodump", "mongorestore"), "-p"),
    _option(("keytool",), "-(?:store|key)pass"),
    Rule(("htpasswd",), _look_htpasswd),
    _command(("-pass pass:", "-passin pass:", "-passout pass:"), _PASS),
    _command(("auth=(", "HTTPBasicAuth("), _PAIR),
    Rule(("sudo -S",), _look_sudo),
    Rule(("IDENTIFIED BY", "identified by"), _look_identified),
)
