"""Why a rule did not fire, or not yet: a code with its facts, which pages tell in their language, and a sentence."""

from __future__ import annotations

from typing import Literal

import msgspec

ReasonCode = Literal[
    "before_start",
    "sample",
    "session_removed",
    "caused",
    "demo",
    "history",
    "went_on",
    "fired_before",
    "fired_already",
    "cooling",
    "noted_before",
    "told",
    "most_messages",
    "most_tokens",
    "later_messages",
    "later_tokens",
    "switched_off",
    "collected",
    "is",
    "secret_by_name",
    "labels",
    "cost_unknown",
    "cost",
    "tokens",
    "turns",
    "minutes",
    "errors",
    "threshold",
    "above",
]

_MESSAGES = "the rule fired {count} times today, and max_per_day is {limit}"
_TOKENS = "the rule used {count} tokens today, and tokens_per_day is {limit}"
_SENTENCES: dict[ReasonCode, str] = {
    "before_start": "it happened before the rule's start",
    "sample": "not in the sample of {share}",
    "session_removed": "the session was removed",
    "caused": "the session was caused by a rule",
    "demo": "the session is demo data",
    "history": "the session ended, or waited for longer than record.waiting_hours",
    "went_on": "the session went on before it was silent long enough",
    "fired_before": "fired for this {once} before, in firing {firing}",
    "fired_already": "fired for this {once} before",
    "cooling": "held back: it is in the next message, when the cooldown is over",
    "noted_before": "noted for this {once} before",
    "told": "telemetry and log tell of the same; fired before, in firing {firing}",
    "most_messages": _MESSAGES,
    "most_tokens": _TOKENS,
    "later_messages": f"it waits for another day: {_MESSAGES}",
    "later_tokens": f"it waits for another day: {_TOKENS}",
    "switched_off": "the rule was switched off",
    "collected": "in the message of firing {firing}",
    "is": "{name} is {value}",
    "secret_by_name": "secret is {value}, which is told by its name alone",
    "labels": "labels are {value}",
    "cost_unknown": "cost is unknown",
    "cost": "cost is {value}",
    "tokens": "tokens are {value}",
    "turns": "turns are {value}",
    "minutes": "it took {value} minutes",
    "errors": "errors are {value}",
    "threshold": "the threshold is {value}",
    "above": "{value} was crossed at the same time: its message is for both",
}
#: What stands in a sentence for a value that is not known.
_NONE = {"labels": "none"}


class Reason(msgspec.Struct, frozen=True, kw_only=True):
    """Why; values that are not known are null."""

    code: ReasonCode
    facts: dict[str, str | int | None] = {}

    @property
    def sentence(self) -> str:
        """The reason in English."""
        shown = {
            name: _NONE.get(self.code, "unknown") if value is None else value for name, value in self.facts.items()
        }
        return _SENTENCES[self.code].format_map(shown)


def why(code: ReasonCode, **facts: str | int | None) -> Reason:
    """A reason."""
    return Reason(code=code, facts=facts)


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Reason).decode
_BEGIN = '{"code":'


def written(reason: Reason | str | None) -> str | None:
    """As it is stored; what an action failed with is a text."""
    return _encode(reason).decode() if isinstance(reason, Reason) else reason


def read(stored: str | None) -> tuple[str | None, Reason | None]:
    """The sentence, and the reason that it is of; a text that is no reason stays a text."""
    if stored is None or not stored.startswith(_BEGIN):
        return stored, None
    try:
        found = _decode(stored)
        return found.sentence, found
    except (msgspec.MsgspecError, LookupError, ValueError):
        # Of a later version, or the words of a server.
        return stored, None
