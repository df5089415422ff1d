"""Whether a value can be read aloud: words and names of programs can, what a generator of passwords made cannot.

Where a name alone does not settle it (``token: string``), this does. Entropy cannot tell eight random letters from a
word of eight letters; how often letters follow each other in words can.
"""

from __future__ import annotations

import re

#: How often a letter (column) follows another (row) in the words and names of source code: 0 never, 5 as in random
#: letters, 9 forty times as often. Counted on the 23,000 commonest words of Python's library and its packages.
_FOLLOWS = (
    "36662351503767050768443341",
    "75657422741833631664610051",
    "73547317606632830557521030",
    "75458532821533631564532130",
    "63675541301657353876243530",
    "64557731801633730655601040",
    "62428356601546630763622132",
    "83238212702443720546511050",
    "54655550102668751567150305",
    "73448232635333852374735321",
    "63449343703535542474524241",
    "72358320802722730255531060",
    "85238210702452770353610030",
    "62667582613324630377441030",
    "44562451414668550766645321",
    "71337225602722760756512050",
    "52344324212744244553944233",
    "73558341704454740566432040",
    "51638326703543663368623040",
    "72438316800433630765513152",
    "56546440501768360777010200",
    "82339231800332631243221121",
    "82347336813526720664223200",
    "64657514701443482448332642",
    "54556442611666582477344234",
    "72239313722433630344323345",
)
_SCORE = {
    chr(97 + row) + chr(97 + column): int(digit)
    for row, digits in enumerate(_FOLLOWS)
    for column, digit in enumerate(digits)
}
#: What a word has at least, on average: 97 of 100 words do, one of 25 rows of eight random letters, one of 250 of 16.
_LEAST = 5.6
#: The same where the name is that of a secret: nine of ten words do, one of 100 rows of eight random letters.
_LEAST_CERTAIN = 6.2
#: Less is not judged: too many words are abbreviations.
_SHORTEST = 8
#: Longer values are judged by their beginning.
_ENOUGH = 96
PIECE = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_NUMBERED = re.compile(r"(?<=[a-z_-][a-z_-][a-z_-])[0-9]{1,2}$")
#: Abbreviations that programs use as words.
_KNOWN_TEXT = """
api auth authn aws cfg cli cmd config ctx db def dir env err fn func gcp gh git html http https id info ip json jwt key
msg num oauth obj proxy pwd req resp sdk sql src ssh str sys tcp tls tmp uid uri url usr utf uuid val var www xml yaml
"""
_KNOWN = frozenset(_KNOWN_TEXT.split())
_CAMEL = re.compile(r"(?:[A-Z][a-z]+)+")
SYMBOL = re.compile(r"[@!#$%^&*+=?~]")


def is_wordlike(value: str, *, certain: bool = False) -> bool:
    """Whether words, or names made of words, are all there is; ``certain``: the name says that it is a secret."""
    value = _NUMBERED.sub("", value[:_ENOUGH].strip("_-. "))
    pieces = PIECE.findall(value)
    letters = [piece.lower() for piece in pieces if piece.isalpha()]
    count = sum(map(len, letters))
    if len(value) < _SHORTEST and count == len(value):
        return True
    average = 3 if len(pieces) < 3 or value.islower() or value.isupper() or _CAMEL.fullmatch(value) else 3.5
    if count < average * len(pieces) or 3 * count < 2 * len(value) or 6 * len(SYMBOL.findall(value)) > len(value):
        return False
    unknown = [piece for piece in letters if piece not in _KNOWN]
    pairs = [piece[at : at + 2] for piece in unknown for at in range(len(piece) - 1)]
    return sum(map(_SCORE.__getitem__, pairs)) >= (_LEAST_CERTAIN if certain and value.isalnum() else _LEAST) * len(
        pairs
    )
