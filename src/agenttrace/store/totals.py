"""What agents say of their own usage beside the calls themselves, and which of our calls each statement covers.

Four scopes. A ``session`` count is cumulative over a session and its subagents, since a moment: what was used between
two of them is compared with the calls of that time. A ``stream`` count is of one stream; the latest of each name
holds, all of them together are the stream's. A ``meter`` is the same, and is the usage of a session without calls. A
``call`` is one model call that only telemetry tells.

Everything here is a function of the rows of a store, so it does not matter in which order files were read.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any, NamedTuple, Protocol

from agenttrace.model import USAGE_FIELDS, Usage

SCOPES = frozenset({"session", "stream", "meter", "call"})
#: The first fields are disjoint and are what counts are compared by; those after them are parts of them.
COMPARED = 4
_NEVER = 2**62

Tokens = tuple[int, ...]


class Told(NamedTuple):
    """What an agent said of its usage, as folding found it."""

    #: One of ``SCOPES``.
    scope: str
    #: The stream that a count is of; for a call, who made it.
    whose: str
    #: The name of the count, or of the call's response.
    name: str
    #: When it was told, and since when it was counted.
    at: int
    since: int
    trace_id: bytes
    parent_id: bytes | None
    turn_index: int
    by_model: dict[str, Usage]


class CountedCall(NamedTuple):
    """A model call as the ledger holds it."""

    response: bytes
    at: int
    model: str
    #: The session that it counts for: another one where it was copied.
    owner: int
    tokens: Tokens


class Count(NamedTuple):
    """A session's count as the agent told it at one moment."""

    name: str
    at: int
    since: int
    trace_id: bytes
    parent_id: bytes | None
    turn_index: int
    by_model: dict[str, Tokens]

    @property
    def tokens(self) -> Tokens:
        """Of all models together."""
        return added(self.by_model.values())


class Stretch(NamedTuple):
    """What the agent counted between two moments, and the calls of that time."""

    told: Count
    claimed: dict[str, Tokens]
    calls: list[CountedCall]
    #: Calls of a process that was killed: the agent's count forgets them.
    forgotten: list[CountedCall]
    #: What the agent used beyond the calls, by model: calls that no line has.
    unlogged: dict[str, Tokens]
    #: By how much the agent's count is above ours where that is no explanation.
    difference: Tokens


class CountedBy(Protocol):
    """What a store has of sessions' calls and of what agents say of them."""

    def counts(self, session: int) -> list[Count]:
        """What was told of a whole session, those of a name together, in order of time; of a pruned one nothing."""

    def counted_as(self, name: str, without: int) -> Iterable[int]:
        """The other sessions with counts of this name."""

    def calls(self, session: int, stream: str | None = None) -> list[CountedCall]:
        """The calls that lines of a session tell, or of one of its streams, in order of time."""

    def turn_starts(self, session: int) -> list[int]:
        """When the turns of the agent itself began, in order."""


def told_row(session: int, told: Told, model: str, usage: Usage) -> tuple[Any, ...]:
    """What was told as a row of a batch."""
    moment = told.at if told.scope == "session" else 0
    key = (session, told.scope, told.whose, told.name, moment, model)
    place = (told.at, told.since, told.trace_id, told.parent_id, told.turn_index)
    return (*key, *place, *(getattr(usage, field) for field in USAGE_FIELDS))


def counts_of(rows: Iterable[Sequence[Any]]) -> list[Count]:
    """Counts from rows of name, at, since, trace, parent, turn, model and tokens, in the order of the first two."""
    found = []
    for (name, at), models in groupby(rows, key=lambda row: (row[0], row[1])):
        told = list(models)
        since, trace_id, parent_id, turn_index = told[0][2:6]
        by_model = {row[6]: tuple(row[7:]) for row in told}
        found.append(Count(name, at, since, trace_id, parent_id, turn_index, by_model))
    return found


def calls_of(rows: Iterable[Sequence[Any]]) -> list[CountedCall]:
    """Calls from rows of response, time, model, owner and tokens."""
    return [CountedCall(response, at, model, owner, tuple(tokens)) for response, at, model, owner, *tokens in rows]


def added(tokens: Iterable[Tokens]) -> Tokens:
    """The sum, field by field."""
    return tuple(map(sum, zip(*tokens, strict=True))) or (0,) * len(USAGE_FIELDS)


def _less(more: Tokens, less: Tokens) -> Tokens:
    return tuple(a - b for a, b in zip(more, less, strict=True))


class Book:
    """The counts of sessions and their calls, each read once."""

    def __init__(self, source: CountedBy) -> None:
        self._source = source
        self._counts: dict[int, list[Count]] = {}
        self._calls: dict[int, list[CountedCall]] = {}
        self._turns: dict[int, list[int]] = {}

    def counts(self, session: int) -> list[Count]:
        """The counts of a session, those of a name together, in order of time."""
        if session not in self._counts:
            self._counts[session] = self._source.counts(session)
        return self._counts[session]

    def calls(self, session: int) -> list[CountedCall]:
        """The calls that its lines tell."""
        if session not in self._calls:
            self._calls[session] = self._source.calls(session)
        return self._calls[session]

    def _turn_starts(self, session: int) -> list[int]:
        if session not in self._turns:
            self._turns[session] = self._source.turn_starts(session)
        return self._turns[session]

    def _until(self, session: int, moment: int) -> int:
        """Up to when calls belong to a count of that moment: between two processes there is no turn."""
        starts = self._turn_starts(session)
        place = bisect_right(starts, moment)
        return starts[place] if place < len(starts) else _NEVER

    def _between(self, session: int, start: int, end: int) -> list[CountedCall]:
        return [call for call in self.calls(session) if start <= call.at < end]

    def stretches(self, session: int) -> Iterator[Stretch]:
        """What the agent counted in a session, from one count to the next."""
        for name, counts in groupby(self.counts(session), key=lambda count: count.name):
            before: Count | None = None
            for count in counts:
                before = before or self._inherited(session, name, count)
                start = count.since if before is None else self._until(session, before.at)
                yield self._stretch(session, before, count, start)
                before = count

    def _inherited(self, session: int, name: str, first: Count) -> Count | None:
        """The count a fork went on from: the latest of another session whose calls are all in this one."""
        found: list[tuple[int, int, Count]] = []
        mine = {call.response for call in self.calls(session)}
        for other in self._source.counted_as(name, session):
            for count in self.counts(other):
                older = (count.at, other) < (first.at, session)
                if count.name == name and older and all(more >= 0 for more in _less(first.tokens, count.tokens)):
                    theirs = self._between(other, count.since, self._until(other, count.at))
                    if all(call.response in mine for call in theirs):
                        found.append((count.at, other, count))
        return max(found, key=lambda entry: entry[:2])[2] if found else None

    def _stretch(self, session: int, before: Count | None, count: Count, start: int) -> Stretch:
        end = self._until(session, count.at)
        calls = self._between(session, start, end)
        known = before.by_model if before is not None else {}
        claimed = {
            model: _less(tokens, known[model]) if model in known else tokens for model, tokens in count.by_model.items()
        }
        total = added(claimed.values())
        difference = _less(total, added(call.tokens for call in calls))
        if _is_more(difference):
            return Stretch(count, claimed, calls, [], _by_model(claimed, calls, difference), (0,) * len(difference))
        cut = self._cut(session, calls, total, start, end) if any(difference[:COMPARED]) else None
        if cut is not None:
            kept = [call for call in calls if call.at >= cut]
            return Stretch(count, claimed, kept, [c for c in calls if c.at < cut], {}, (0,) * len(difference))
        return Stretch(count, claimed, calls, [], {}, difference)

    def _cut(self, session: int, calls: Sequence[CountedCall], total: Tokens, start: int, end: int) -> int | None:
        """The turn from which on the calls are what the agent counted: those before it were of a killed process."""
        for turn in self._turn_starts(session):
            if start < turn < end:
                rest = added(call.tokens for call in calls if call.at >= turn)
                if rest[:COMPARED] == total[:COMPARED]:
                    return turn
        return None


def _is_more(difference: Tokens) -> bool:
    """Whether it can be calls: nothing too few, and a prompt, which every call has."""
    usage = Usage(**dict(zip(USAGE_FIELDS, difference, strict=True)))
    return min(difference[:COMPARED]) >= 0 and usage.total > usage.output_tokens


def _by_model(claimed: Mapping[str, Tokens], calls: Sequence[CountedCall], difference: Tokens) -> dict[str, Tokens]:
    """What is left for each model; all of it for one where models are not called alike in both places."""
    left = {
        model: _less(tokens, added(call.tokens for call in calls if _same_model(call.model, model)))
        for model, tokens in claimed.items()
    }
    if (
        any(min(tokens[:COMPARED]) < 0 for tokens in left.values())
        or added(left.values())[:COMPARED] != difference[:COMPARED]
    ):
        return {max(left, key=lambda model: (sum(left[model][:COMPARED]), model)): _clipped(difference)}
    return {model: _clipped(tokens) for model, tokens in left.items() if any(tokens[:COMPARED])}


def _same_model(one: str, other: str) -> bool:
    """Whether two names are of one model: ``claude-opus-5[1m]`` is the same with a larger context."""
    return one.partition("[")[0] == other.partition("[")[0]


def _clipped(tokens: Tokens) -> Tokens:
    """Parts are never below nothing nor above what they are part of."""
    usage = Usage(**dict(zip(USAGE_FIELDS, tokens, strict=True)))
    long_kept = min(max(usage.cache_write_1h_tokens, 0), usage.cache_write_tokens)
    reasoning = min(max(usage.reasoning_tokens, 0), usage.output_tokens)
    parts = {"cache_write_1h_tokens": long_kept, "reasoning_tokens": reasoning}
    return tuple(max(parts.get(name, value), 0) for name, value in zip(USAGE_FIELDS, tokens, strict=True))
