"""``NAME=secret``, ``name: secret``, ``"name": "secret"`` and other notations of programs and people.

A name is read backwards and forwards from the word it ends in; the value after it is then judged by
:mod:`agenttrace.masking.values`. Only the value is masked.
"""

from __future__ import annotations

import re
from functools import cache
from typing import NamedTuple

from agenttrace.masking import names
from agenttrace.masking.names import Meaning
from agenttrace.masking.rule import Rule, Secret
from agenttrace.masking.surroundings import follows_login, indent, is_parameter, name_start, word_before
from agenttrace.masking.values import Doubt, Notation, is_garbled, is_regular, is_secret

#: A value is judged by as much of it.
_JUDGED_CHARS = 256

#: What may be between a name and its value. Escaped quotation marks are those of JSON inside a string of JSON.
_BETWEEN = re.compile(
    r"""
    (?:_BASE|_base|[_-]?[0-9]{1,2})?+ (?![A-Za-z0-9_-])
    (?:
      (?P<xml>>)
    | (?P<close>\\{0,7}+["'`])?+ \]?+ [ \t]{0,16}+
      (?:
        :[ \t]?[A-Za-z_][A-Za-z0-9_.\[\]|, ]{0,48}?[ ]=[ ]                          # token: str = "..."
      | (?P<sign>:=|=>|={1,3}|:|：)[ \t]{0,16}+
        (?: (?P<block>[|>][0-9+-]{0,2}+[ \t]{0,8}+)?+ (?P<break>\r?\n|(?:\\r)?\\n) [ \t]{1,40}+ )?+
      | (?P<chinese>[是为])[ \t]?
      | ,?(?:\s|\\[nrt]){0,40}+\\{0,7}+["']?[Vv]alue\\{0,7}+["']?[ \t]?[:=][ \t]?   # name: TOKEN, value: ...
      | (?P<comma>(?<=["']),\s{0,40}+)(?=[rbu]?\\{0,7}["'])                             # setenv("TOKEN", "...")
      | (?P<call>\([ \t]?)(?=\\{0,7}["'])                                             # withPassword("...")
      | (?P<is>(?<=[ \t])(?:is|was)[ \t]:?[ \t]?)
      | (?P<space>(?<=[ \t]))
      )
    )
    """,
    re.VERBOSE,
)
#: Most texts after a name are too short for a secret: for a password, or for anything else.
_LONG_ENOUGH = [re.compile(rf"(?:[rbuRBU]{{0,2}}\\{{0,7}}[\"'`])?(?:[^\s\"'`\\]|\\.){{{least}}}") for least in (6, 3)]
_OPENING = re.compile(r"(?:[rbuRBU]{1,2}(?=[\"']))?(\\{0,7}+[\"'`])")
_IN_QUOTES = {
    mark: re.compile(rf"[^{mark}\\\r\n]*+(?:\\[^\r\n][^{mark}\\\r\n]*+)*+(?={mark})") for mark in ('"', "'", "`")
}
#: What a value without quotation marks is made of; a backslash that begins an escape ends it.
_BARE = re.compile(r"(?:[!#$%*+\-./0-9:=?@A-Z^_a-z~\u00c0-\u024f]|\\(?![nrtu\"'\\/]))++")
_IN_QUERY = re.compile(r"[!$%*+\-./0-9:=?@A-Z^_a-z~]++")
_TO_THE_SPACE = re.compile(
    r"(?:[^\s\"'`\\<>;&,\u2000-\U0010ffff]|[;&,](?![A-Za-z_ ]{1,30}+=)|<(?!/|[a-z]{1,10}+[ />])|>(?!\s)"
    r"|\\(?![nrtu\"'\\/]))++"
)
#: The same on a separate line, where nothing else can follow.
_TO_THE_END = re.compile(
    r"(?:[^\s\"'`\\<;&\u2000-\U0010ffff]|;(?![A-Za-z_ ]{3,30}+=)|&(?![a-z_]{3,30}+=)|<(?!/)|\\(?![nrtu\"'\\/]))++"
)
_THE_LINE = re.compile(r"\S(?:[^\r\n]*\S)?")
_ALONE = re.compile(
    r"(?:[^\s\"'`\\]|\\(?![nrtu\"'\\/])){1,256}+(?<!:)[ \t]*+(?:[#;][^\r\n]*+)?(?=[\r\n]|\Z|\\[nr]|[\"'])"
)
_FOLLOWED = re.compile(r"\S{1,256}+(?<![,;(]) [a-z_]{2,20}+=\S")
#: The same in ``Server=h;Password=...;Database=d``.
_TO_THE_SEMICOLON = re.compile(r"(?:[^\s\"'`\\;\u2000-\U0010ffff]|\\(?![nrtu\"'\\/]))++")
#: What may follow a value that is a piece of program.
_GOING_ON = tuple(",;&()[]{}<>|#")
_IN_XML = re.compile(r"[^<>\s]++(?=</)")
_APART = (" ", "\t", '"', "'", "`", "]")
_CLOSING = (")", ",", ";", "]", "}")
_COOKIE = re.compile(r"[\w.-]{1,64}+=[^=]")
_VARIABLE = re.compile(r"[A-Z][A-Z0-9_]*")


class _Name(NamedTuple):
    """A name in a text, and what it means."""

    start: int
    end: int
    meaning: Meaning


class _NamedValue(NamedTuple):
    """The value of a name."""

    start: int
    end: int
    quoted: bool
    #: What reads it to its end, if that was too far away to look for. Only secrets are read that far, as a long row of
    #: names without values would otherwise be read again for each of them.
    rest: re.Pattern[str] | None = None

    def whole(self, text: str) -> int:
        """Where it ends."""
        rest = self.rest and self.rest.match(text, self.start)
        return rest.end() if rest else self.end


def _look(text: str, start: int, end: int) -> Secret | None:
    between = _BETWEEN.match(text, end)
    if between is None:
        return None
    word = text[start:end].lstrip("_-")
    if not _LONG_ENOUGH[word[0] in "pP"].match(text, between.end()):
        return None
    begin = name_start(text, start)
    if between["space"] is not None and begin == start and word[0] not in "pP":
        return None  # "the key to", "a secret that"
    before = text[begin : end - len(word)] or word_before(text, begin)
    meaning = names.meaning(before, word)
    if meaning and before.startswith("--") and (meaning.doubt is Doubt.TOKEN or word == "pat"):
        meaning = meaning._replace(doubt=Doubt.SECRET)  # a command is given nothing else by this name
    return meaning and _judged(text, _Name(begin, end, meaning), between)


def _look_chinese(text: str, start: int, end: int) -> Secret | None:
    between = _BETWEEN.match(text, end)
    if between is None or not (between["sign"] or between["chinese"]):
        return None
    return _judged(text, _Name(start, end, names.CHINESE[text[start:end]]), between)


def _judged(text: str, name: _Name, between: re.Match[str]) -> Secret | None:
    place = _place(text, name, between)
    value = place and _value(text, name, between, place)
    if place is None or value is None:
        return None
    told = text[value.start : min(value.end, value.start + _JUDGED_CHARS)]
    if name.meaning.kind == "cookie" and _COOKIE.match(told):
        rest = told.partition("=")[2]
        if len(rest) >= 8 or rest.isalpha() or not is_garbled(told):
            return None  # for the rule of headers
    if is_regular(told) and (text[value.start - 2] in "rR" or text[name.end - 3 : name.end].lower() == "pat"):
        return None
    if _repeats(told, text[name.start : name.end]) or (between["close"] and not value.quoted and told.isdigit()):
        return None
    if not is_secret(told, name.meaning.doubt, place._replace(quoted=value.quoted)):
        return None
    return Secret(value.start, value.whole(text), name.meaning.kind)


def _repeats(value: str, name: str) -> bool:
    """``api_key=api_key`` passes something on, ``TOKEN = "token"`` names it; ``first_pass=2`` counts."""
    if value.isdigit() and name[-5:].lower() in ("_pass", "-pass"):
        return True
    squeezed = value.replace("_", "").replace("-", "").lower()
    return name.replace("_", "").replace("-", "").lower().endswith(squeezed)


def _place(text: str, name: _Name, between: re.Match[str]) -> Notation | None:
    """How the value is written; None where this is no assignment."""
    if between["space"] is not None:
        return _beside(text, name, between.end())
    if between["is"]:
        return Notation() if name.meaning.doubt is Doubt.PASSWORD else None
    if between["xml"]:
        return Notation(quoted=True) if text[name.start - 1 : name.start] in ("<", ":") else None
    if text[between.end() - 1] == ":" and text[name.start - 1 : name.start] in (":", "/"):
        return None  # one of many parts: arn:aws:secretsmanager:...:secret:name, https://x-access-token:...
    if between["sign"] == "=" and is_parameter(text, name.start) and "." not in text[name.start : name.end]:
        return Notation(query=True)
    if between["break"] and not _is_continued(text, name, between):
        return None
    defined = between["comma"] and "define(" in text[max(0, name.start - 12) : name.start]
    option = between["comma"] and text.startswith("-", name.start)  # ["--password", "..."]
    loose = bool(between["comma"] or between["call"] or between["sign"] in ("==", "===")) and not (defined or option)
    return Notation(loose=loose, environment=_is_environment(text, name, between))


def _beside(text: str, name: _Name, value: int) -> Notation | None:
    """A value that only a space parts from its name: ``--password x``, ``PASSWORD 'x'``, ``login me password x``."""
    if text.startswith("-", name.start):
        return Notation()
    if name.meaning.doubt is Doubt.PASSWORD and not text.startswith(("_", "-"), name.end - 5):
        known = _OPENING.match(text, value) or follows_login(text, name.start)
        return Notation() if known else None
    compound = name.meaning.doubt is Doubt.SECRET and "_" in text[name.start : name.end]
    return Notation(loose=True) if compound else None


def _is_environment(text: str, name: _Name, between: re.Match[str]) -> bool:
    """A file of variables or a shell: ``NAME=value`` anywhere, ``name=value`` and ``NAME: value`` on their own line."""
    tight = between["sign"] == "=" and text[between.end() - 1] == "=" and text[between.start("sign") - 1] not in _APART
    capitals = _VARIABLE.fullmatch(text, name.start, name.end) is not None
    if tight and capitals:
        return True
    before = indent(text, name.start)
    if between["sign"] == ":":
        # Behind capitals, a type begins with one as well.
        return capitals and before is not None and text[between.end() : between.end() + 1].islower()
    return tight and before == ""


def _is_continued(text: str, name: _Name, between: re.Match[str]) -> bool:
    """Whether the value is on the next line: as in YAML, or in JSON."""
    if between["close"]:
        return between["sign"] == ":" and _OPENING.match(text, between.end()) is not None
    before = indent(text, name.start)
    if between["sign"] != ":" or before is None or between.end() - between.end("break") <= len(before):
        return False
    # Another field, or a piece of program, is no value.
    return bool(between["block"] or _ALONE.match(text, between.end()) or _OPENING.match(text, between.end()))


def _value(text: str, name: _Name, between: re.Match[str], place: Notation) -> _NamedValue | None:
    at = between.end()
    if between["xml"]:
        inside = _IN_XML.match(text, at)
        return _NamedValue(at, inside.end(), quoted=True) if inside else None
    if between["block"]:
        return _block(text, name, between)
    opening = _OPENING.match(text, at)
    if opening is None:
        return _bare(text, at, place, wide=_wide(text, name, between, place))
    if between["sign"] == ":" and not between["close"] and text.startswith(_CLOSING, opening.end()):
        return None  # the mark closes: label("Password:")
    return _quoted(text, opening)


def _block(text: str, name: _Name, between: re.Match[str]) -> _NamedValue | None:
    """The lines of YAML behind ``name: |``; all of them are one value, which is judged by the first."""
    escaped = "\\" in between["break"]
    first = (_TO_THE_END if escaped else _THE_LINE).match(text, between.end(), between.end() + _JUDGED_CHARS)
    if first is None:
        return None
    if escaped:
        return _NamedValue(first.start(), first.end(), quoted=True)
    return _NamedValue(first.start(), first.end(), quoted=True, rest=_lines(len(indent(text, name.start) or "") + 1))


@cache
def _lines(indented: int) -> re.Pattern[str]:
    """Lines that begin with so many spaces."""
    return re.compile(rf"[^\r\n]*+(?:\r?\n[ \t]{{{indented},}}+\S[^\r\n]*+)*+")


def _quoted(text: str, opening: re.Match[str]) -> _NamedValue:
    """A value in quotation marks; in marks that are never closed, as in a text that was cut off, up to the space."""
    mark, start = opening[1], opening.end()
    if len(mark) == 1:
        inside = _IN_QUOTES[mark].match(text, start)
        end = inside.end() if inside else -1
    else:
        end = text.find(mark, start)
        while end > start and text[end - 1] == "\\":  # the same mark, escaped once more
            end = text.find(mark, end + 1)
    if end < 0:
        rest = _TO_THE_SPACE.match(text, start)
        end = rest.end() if rest else start
    return _NamedValue(start, end, quoted=True)


def _bare(text: str, at: int, place: Notation, *, wide: re.Pattern[str] | None) -> _NamedValue | None:
    if text.startswith(("(", "[", "{", "<"), at):
        return None
    pattern = _IN_QUERY if place.query else wide or _BARE
    found = pattern.match(text, at, at + _JUDGED_CHARS)
    if found is None:
        return None
    if pattern is _BARE and text.startswith(_GOING_ON, found.end()):
        further = _TO_THE_SPACE.match(text, at, at + _JUDGED_CHARS)
        if further and not _is_plain(found.group()) and is_garbled(further.group()):
            pattern, found = _TO_THE_SPACE, further
        elif text.startswith(("(", "["), found.end()):
            return None  # a call
    if len(found.group()) == _JUDGED_CHARS:
        return _NamedValue(at, found.end(), quoted=False, rest=pattern)
    end = at + len(found.group().rstrip(".:" if pattern is _BARE else ".,:;)]}"))
    return _NamedValue(at, end, quoted=False) if end > at else None


def _is_plain(value: str) -> bool:
    """One word: ``str``, ``Foo``, ``NAME``."""
    return len(value) > 2 and value.isalpha() and (value.islower() or value.isupper() or value.istitle())


def _wide(text: str, name: _Name, between: re.Match[str], place: Notation) -> re.Pattern[str] | None:
    """The pattern that reads a value to its end where no program can follow; None where one can."""
    if name.meaning.doubt in (Doubt.UNSURE, Doubt.KEY):
        return _TO_THE_SPACE if place.environment else None
    if between["sign"] in (":", "=") and indent(text, name.start) is not None:
        # On a separate line, as in YAML, INI and headers.
        return _TO_THE_END if _ALONE.match(text, between.end()) else _TO_THE_SPACE
    before = text[name.start - 1 : name.start]
    if before in ('"', "'") and not between["close"] and between["sign"]:
        return _TO_THE_END  # 'X-Api-Key: ...', "--token=..."
    if before == ";" and between["sign"] == "=":
        return _TO_THE_SEMICOLON
    followed = between["sign"] == "=" and _FOLLOWED.match(text, between.end())  # user=me password=... dbname=d
    return _TO_THE_SPACE if place.environment or followed else None


def _cases(words: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(case for word in words for case in (word, word.title(), word.upper())))


def _look_pat(text: str, start: int, end: int) -> Secret | None:
    """``GITHUB_PAT``; the next character is part of the anchor, because paths and patterns are everywhere."""
    return _look(text, start, end - 1)


_PATS = tuple(f"{word}{mark}" for word in ("pat", "Pat", "PAT") for mark in "=: \"'\\>\n\r,")
RULES = (
    Rule(_cases(names.WORDS), _look),
    Rule(_PATS, _look_pat),
    Rule(tuple(names.CHINESE), _look_chinese),
)
