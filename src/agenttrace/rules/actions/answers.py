"""What applications answered, read for people: a text, a score, labels. A score that cannot be read is not guessed."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

#: Scores are from 0 to this.
MOST_SCORE = 10
MOST_LABELS = 5
_LABEL_CHARACTERS = 64
#: Objects in an answer that are looked at.
_CANDIDATES = 50
#: Fields that are not text for people.
_FIGURES = ("score", "labels", "label")
_FENCE = re.compile(r"\A\s*```[\w-]*\n(.*?)\n?```\s*\Z", re.DOTALL)
_FRACTION = re.compile(r"\s*(\d+(?:\.\d+)?)\s*(?:/\s*10(?:\.0+)?)?\s*")

_decoder = json.JSONDecoder()


class Score(NamedTuple):
    """A score, and why."""

    value: float
    reason: str


def answered_object(answer: str) -> dict[str, Any]:
    """The JSON object of an answer, also inside a code fence or between words; empty where there is none."""
    for found in _objects(answer):
        return found
    return {}


def answered_text(answer: str) -> str:
    """The answer for people: the texts of its object, or else all of it."""
    found = answered_object(answer)
    lines = list(_lines(found))
    if lines:
        return "\n".join(lines)
    return "" if found and set(found) <= set(_FIGURES) else _unfenced(answer).strip()


def answered_score(answer: str) -> Score | None:
    """The score of an answer; ``None`` where it has none from 0 to 10, or several that differ."""
    found = [object_ for object_ in _objects(answer) if "score" in object_]
    values = [_score_value(object_["score"]) for object_ in found]
    if not values or values[0] is None or any(value != values[0] for value in values):
        return None
    return Score(values[0], "\n".join(_lines(found[0])))


def answered_labels(answer: str) -> list[str]:
    """The labels of an answer."""
    found = answered_object(answer)
    given = found.get("labels", found.get("label"))
    names = given if isinstance(given, list) else [given]
    lines = (" ".join(name.split()) for name in names if isinstance(name, str))
    return list(dict.fromkeys(line for line in lines if 0 < len(line) <= _LABEL_CHARACTERS))[:MOST_LABELS]


def _score_value(value: object) -> float | None:
    """A number from 0 to 10, or a text that is one, such as ``7`` or ``7/10``."""
    if isinstance(value, str):
        match = _FRACTION.fullmatch(value)
        value = float(match[1]) if match else None
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if math.isfinite(value) and 0 <= value <= MOST_SCORE else None


def _lines(found: Mapping[str, Any]) -> Iterator[str]:
    for name, value in found.items():
        if name in _FIGURES:
            continue
        if isinstance(value, str) and value.strip():
            yield value.strip()
        elif isinstance(value, list) and (points := [each.strip() for each in value if isinstance(each, str)]):
            yield f"{name.replace('_', ' ').capitalize()}:"
            yield from (f"- {point}" for point in points if point)


def _unfenced(answer: str) -> str:
    fence = _FENCE.match(answer)
    return fence[1] if fence else answer


def _objects(answer: str) -> Iterator[dict[str, Any]]:
    """The outermost JSON objects in a text."""
    place, seen = answer.find("{"), 0
    while place >= 0 and seen < _CANDIDATES:
        seen += 1
        try:
            found, end = _decoder.raw_decode(answer, place)
        except (ValueError, RecursionError):
            end = place + 1
        else:
            if isinstance(found, dict):
                yield found
        place = answer.find("{", end)
