"""Whether the value of a name such as ``API_KEY`` is a secret, or a placeholder, a word, a piece of program.

Names are judged in :mod:`agenttrace.masking.names`, which says how much doubt a name leaves.
"""

from __future__ import annotations

import base64
import binascii
import re
from enum import Enum
from typing import NamedTuple

from agenttrace.masking.words import PIECE, SYMBOL, is_wordlike

#: Longer ones are judged by their beginning.
_ENOUGH = 512


class Doubt(Enum):
    """How much of a secret a value must look like, for the name that it has."""

    #: ``password``: people choose them, so nearly everything is one.
    PASSWORD = 1
    #: ``api_key``, ``client_secret``, ``access_token``.
    SECRET = 2
    #: ``token``, ``auth``, ``cookie``: secrets, unless the value is a word.
    TOKEN = 3
    #: ``layout_key``, ``parse_token``: names with a word before them that says nothing.
    UNSURE = 4
    #: ``key``, which is mostly that of a dictionary.
    KEY = 5


class Notation(NamedTuple):
    """How a value is written, which limits what else it could be."""

    #: In quotation marks: no piece of program.
    quoted: bool = False
    #: As in a file of environment variables: ``NAME=value``.
    environment: bool = False
    #: As a parameter of an address.
    query: bool = False
    #: Only near the name, as in ``("name", "value")``: whether it is its value is a guess.
    loose: bool = False


_WORDS_TEXT = """
none null nil undefined unset empty missing true false yes no on off string str text bytes byte char varchar number
int integer float double bool boolean object array list dict map any unknown never void optional required nullable
secretstr redacted masked hidden removed omitted filtered changeme example sample dummy placeholder todo tbd
default invalid valid value variable input prompt stdin inherit self this password passwd pass pwd passphrase secret
token key apikey credential credentials authorization bearer basic jwt auth username user email header cookie
"""
_WORDS = frozenset(_WORDS_TEXT.split())
_PLACEHOLDER = re.compile(
    r"""
    [$][A-Za-z_][A-Za-z0-9_]*+(?:[^A-Za-z0-9].*)? | [$][{(].*  # $TOKEN, ${TOKEN}, ${{ secrets.X }}, $(cat file)
    | %[A-Za-z_][A-Za-z0-9_]*% | %[sdrv] | %\(.*  # %TOKEN%, %s, %(token)s
    | [#]\{.* | @[A-Za-z_]+@ | [:&*][A-Za-z_]+    # #{token}, @TOKEN@, :token, &token
    | <.*> | \{.*\} | \[.*\] | \(.*\) | [<{\[(][A-Za-z_ ]*   # <your key>, {token}, [REDACTED], also cut off
    | [xX*.\u2022\u2026_?#=-]+ | (?P<same>.)(?P=same)+  # xxx, ***, ..., 00000000
    | .{0,12}(?:x{4}|X{4}|[*]{3}|[.]{3}|\u2026|\u2022{3}).{0,12}    # sk-xxxx, abc...xyz
    | (?:data|sha1|sha224|sha256|sha384|sha512|md5|arn|urn|file|env|vault|op):.*
    | [a-zA-Z][a-zA-Z0-9+.-]*+://.*               # addresses have rules of their own
    """,
    re.VERBOSE | re.DOTALL,
)
#: A template that a program fills in: f"{prefix}-{key}", "Bearer ${TOKEN}".
_TEMPLATE = re.compile(
    r"""
      \$\{[A-Za-z_][\w.:?/+ -]*+\} | \$\([a-z][^()]*+\) | \{\{[^{}]*+\}\}   # ${TOKEN}, $(cat file), {{ token }}
    | (?:^|(?<=\s))(?:\$[({]|\{\{).*                                # the same, cut off
    | \{[A-Z_0-9.]++\} | \{[a-z_][a-z0-9_.()\[\]]*+\} | \{[A-Za-z_][A-Za-z0-9_.()\[\]]{3,}+\}
    | %\([a-z_]++\)s | %s(?![A-Za-z0-9]) | <[a-z_ -]++>
    """,
    re.VERBOSE | re.DOTALL,
)
_PATH = re.compile(r"(?:~|\.{1,2}|[A-Za-z]:)?(?:[/\\]++[\w.@+ -]++)++[/\\]*+")
_FILE = re.compile(r"[\w./@-]+\.(?:pem|key|crt|cer|p12|pfx|json|ya?ml|toml|txt|env|ini|cfg|conf|py|js|ts|go|rs|md|sh)")
#: self.token, settings.api_key, process.env.TOKEN: names joined by dots.
_DOTTED = re.compile(r"[A-Za-z_$][\w$]*+(?:(?:\.|->|::|\?\.)[A-Za-z_$][\w$]*+)++")
_JOINT = re.compile(r"\.|->|::|\?\.")
#: SandboxProxySecret: what has such a word in it is the name of a type.
_NAMED = re.compile(r"(?:Key|Token|Secret|Password|Credential|Auth|Cookie)s?(?![a-z])")
#: get_token(), config["token"], Optional[str], also cut off at a space.
_CALL = re.compile(r"[A-Za-z_$][\w$.]*+[(\[]|(?:self|this|cls|os|process|settings|config|args|options|env)\.[A-Za-z_]")
_NUMBER = re.compile(
    r"""
      0x[0-9A-Fa-f]{1,16}
    | [-+]?(?:[0-9]{1,4}|[0-9]*\.[0-9]+)[eE][-+]?[0-9]{1,3}
    | [-+]?[0-9][0-9_.,:/%-]*+(?:[munk]?s|min|h|[KMGTkm]i?[Bb]?|px|em|%)?
    """,
    re.VERBOSE,
)
#: Signs of a regular expression: classes, groups, escapes.
_REGULAR = re.compile(r"\\[WwDdSsbB.()\[\]-]|\(\?|\[\^|\[[^\]]*(?:a-z|A-Z|0-9)|\]\{[0-9]|[\])][*+?]|\.[*+]\??[$)]")
_TECHNICAL = re.compile(
    r"(?:[a-z]+-)*(?:sha|md|base|utf|oauth|argon|pbkdf|bcrypt|aes|rsa|http|rfc|step|section|option|ipv|v)-?[0-9]+\.?[0-9]*"
    r"(?:-[a-z]+)*",
    re.I,
)
_PLEASE = re.compile(
    r"your|example|placeholder|change.?me|replace|insert|dummy|fake|redacted|todo|(?<![a-z0-9])x{3,}(?![a-z0-9])"
    r"|[-_ ]here$|^enter"
    r"|^(?:[a-z]+[-_ ])*(?:password|passwd|passphrase|secret|token|key)s?(?:[-_ ][a-z0-9]+)*$",
    re.I,
)
_HEX = re.compile(r"[0-9a-f]+|[0-9A-F]+")
_CHUNK = re.compile(r"[A-Za-z0-9]+")
_SPACE = re.compile(r"\s")
#: "The password of the user who signs in." in a description.
_SENTENCE = re.compile(r"[A-Z][a-z]*(?: [\w,;:'\"`*()/-]+){3,}\.?.*", re.DOTALL)
_CAPITALISED = re.compile(r"[A-Z][a-z]{2,}")
_STRONG = re.compile(r"[0-9@!#$%^&*+=?~]")
_ODD_WORD = re.compile(r"[A-Za-z][0-9@$!#*]+[A-Za-z]")

_SHAPE = {**dict.fromkeys(range(ord("a"), ord("z") + 1), "a"), **dict.fromkeys(range(ord("A"), ord("Z") + 1), "A")}
_SHAPE |= dict.fromkeys(range(ord("0"), ord("9") + 1), "0")


def is_secret(value: str, doubt: Doubt, place: Notation) -> bool:
    """Whether a value beside a name is a secret."""
    # Nearly all values are too short, or plain words: that is checked first.
    if len(value) < _least(doubt, place):
        return False
    value = value[:_ENOUGH]
    if doubt is Doubt.PASSWORD:
        told = _is_phrase(value) if place.quoted and _SPACE.search(value) else _is_password(value, place)
    else:
        told = not _SPACE.search(value) and not _is_number(value, doubt) and _is_made_up(value, doubt, place)
    return told and not is_placeholder(value) and (place.quoted or not _is_program(value))


def _least(doubt: Doubt, place: Notation) -> int:
    """How long a secret is at least."""
    if doubt is Doubt.PASSWORD:
        return 3 if place.quoted else 4
    if doubt is Doubt.SECRET and place.environment:
        return 6
    sure = doubt in (Doubt.SECRET, Doubt.TOKEN) and not place.loose
    return 8 if sure or place.query else 16


def _is_number(value: str, doubt: Doubt) -> bool:
    """Whether it counts or measures something, or names an algorithm; eight digits behind ``client_secret`` do not."""
    if doubt is Doubt.SECRET and value.isdigit():
        return False
    return bool(_NUMBER.fullmatch(value) or _TECHNICAL.fullmatch(value))


def _is_made_up(value: str, doubt: Doubt, place: Notation) -> bool:
    """Of a key or a token: where its name is clear, anything but a word; elsewhere only what looks random."""
    if doubt is Doubt.KEY and not place.query:
        return any(
            len(chunk) >= 16 and not _HEX.fullmatch(chunk) and _is_odd(chunk, strict=True)
            for chunk in _CHUNK.findall(value)
        )
    if place.environment and doubt is Doubt.SECRET:
        return True
    if doubt in (Doubt.UNSURE, Doubt.KEY) or place.loose:
        return looks_random(value, strict=doubt is not Doubt.SECRET and not place.query)
    return not is_wordlike(value, certain=value.isupper() or (doubt is Doubt.SECRET and place.quoted))


def is_whole_secret(value: str, doubt: Doubt) -> bool:
    """The same for the field of a record, where it is certain what belongs to the name."""
    if not value.strip() or is_placeholder(value[:_ENOUGH]):
        return False
    if doubt in (Doubt.TOKEN, Doubt.UNSURE):
        # A word is a token, too, and names are keys.
        if len(value) < 6 or _SPACE.search(value) or _NUMBER.fullmatch(value) or _TECHNICAL.fullmatch(value):
            return False
        if doubt is Doubt.UNSURE:
            return looks_random(value, strict=True)
        return not is_wordlike(value) or bool(re.search(r"[0-9]", value))
    if _SENTENCE.fullmatch(value):
        return False
    return doubt is not Doubt.KEY or is_secret(value, doubt, Notation(quoted=True))


def is_placeholder(value: str) -> bool:
    """Whether a value is a placeholder, or no value: ``$TOKEN``, ``<your key>``, ``xxx``, ``None``, a path."""
    if value.lower().rstrip("?!") in _WORDS or _PLACEHOLDER.fullmatch(value) or "[masked:" in value:
        return True
    if _TEMPLATE.search(value):
        rest = _TEMPLATE.sub("", value)
        return len(rest) < 8 or is_wordlike(rest)
    if _PATH.fullmatch(value) or _FILE.fullmatch(value):
        return not looks_random(value, strict=True)
    return bool(_PLEASE.search(value)) and not looks_random(value)


def is_regular(value: str) -> bool:
    """Whether it is a regular expression, as names such as ``IPV4_PAT`` and ``token`` have as well."""
    return len(_REGULAR.findall(value)) > 1 or value.startswith("[")


def looks_random(value: str, *, strict: bool = False) -> bool:
    """Whether it looks random: digits and letters in no order, or one long row of letters."""
    if any(_is_odd(chunk, strict=strict) for chunk in _CHUNK.findall(value)):
        return True
    shape = value.translate(_SHAPE)
    if not strict and len(value) >= 16 and len(SYMBOL.findall(value)) >= 4:
        return True
    return "0" in shape and _turns(shape) >= max(5, len(value) // 5)


def is_garbled(value: str) -> bool:
    """Whether letters, capitals, digits and signs change so often that no program would be written like this."""
    if len(value) < 8:
        return False
    kinds = (any(map(str.islower, value)), any(map(str.isupper, value)), any(map(str.isdigit, value)))
    return sum(kinds) + bool(SYMBOL.search(value)) >= 3 and 7 * len(PIECE.findall(value)) >= 2 * len(value)


def _is_odd(chunk: str, *, strict: bool) -> bool:
    """Whether letters and digits without anything between them are neither a word, nor a number, nor ``word123``."""
    length = len(chunk)
    if length < 8:
        return False
    shape = chunk.translate(_SHAPE)
    digits, turns = shape.count("0"), _turns(shape)
    if digits == length or _is_camel(chunk):
        return False
    if length >= 24 and not strict:
        return True
    if digits <= 4 and "0" not in shape[: length - digits]:
        return length >= 16 and turns > length // 4 + 1
    if strict:
        return (length >= 12 and turns >= max(4, length // 4)) or (length >= 20 and digits >= 4)
    return digits >= 2 or turns >= 3


def _is_camel(chunk: str) -> bool:
    """``Ed25519PrivateKey``: a name of something, with several words and hardly anything else."""
    return len(_CAPITALISED.findall(chunk)) >= 2 and len(chunk) >= 3 * len(PIECE.findall(chunk))


def _turns(shape: str) -> int:
    """How often letters, capitals and digits take turns, other than in ``CamelCase``: in random text all the time."""
    return sum(map(shape.count, ("a0", "0a", "A0", "0A", "aA", "AAa")))


def _is_program(value: str) -> bool:
    call = _CALL.match(value)
    name = call.group().rstrip("([") if call else value
    if call and len(name) < 3:
        return not is_garbled(value)
    if not call and not _DOTTED.fullmatch(name):
        return name.isalnum() and _names_a_type(name)
    return all(map(_is_identifier, _JOINT.split(name)))


def _is_identifier(name: str) -> bool:
    """``snake_case``, ``NAME``, ``apiKey``: words, and no capitals in the middle of them."""
    if name.islower() or name.isupper() or name.istitle():
        return len(name) < 8 or not looks_random(name, strict=True)
    pieces = PIECE.findall(name)
    return (sum(map(len, pieces)) >= 3 * len(pieces) and is_wordlike(name)) or _names_a_type(name)


def _names_a_type(name: str) -> bool:
    return _NAMED.search(name) is not None and 2 * len(name) >= 5 * len(PIECE.findall(name))


def _is_password(value: str, place: Notation) -> bool:
    if _TECHNICAL.fullmatch(value) or _SPACE.search(value):
        return False
    if place.loose:
        return looks_random(value)
    if value.isdigit() or place.environment:
        return True
    if _NUMBER.fullmatch(value):
        return place.quoted
    if value.replace("_", "").isalpha():
        # A word: a password where it is in quotation marks, elsewhere part of a sentence.
        chosen = place.query or (place.quoted and (value.islower() or (value.isupper() and "_" not in value)))
        return value.isascii() and (chosen or not is_wordlike(value, certain=value.isupper()))
    return place.quoted or bool(_STRONG.search(value)) or not is_wordlike(value)


def _is_phrase(value: str) -> bool:
    """Several words, one of which has digits or signs in it."""
    words = value.split()
    return len(words) <= 5 and any(_ODD_WORD.search(word) for word in words)


def is_basic(value: str) -> bool:
    """Whether it is the base64 of ``user:password``."""
    try:
        told = base64.b64decode(value + "=" * (-len(value) % 4), validate=True)
    except (binascii.Error, ValueError):
        return False
    user, colon, word = told.partition(b":")
    return bool(colon and word) and told.isascii() and all(32 <= byte < 127 for byte in user)
