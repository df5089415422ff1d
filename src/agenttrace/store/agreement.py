"""Numbers that prove themselves: our count of a session against what its agent says it used."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple, Protocol

from agenttrace.model import USAGE_FIELDS
from agenttrace.store.questions import MAIN_STREAM, NOTHING, TELEMETRY, Agreement, Reason
from agenttrace.store.totals import COMPARED, Book, CountedBy, CountedCall, Tokens, added

#: The fields that are compared; every token is in exactly one of them.
FIELDS = USAGE_FIELDS[:COMPARED]


class Compared(CountedBy, Protocol):
    """The same, and what a session's streams said."""

    def streams(self, session: int) -> Iterable[Sequence[Any]]:
        """What was told of each stream of a session, by its name: name, time, tokens; of a pruned one nothing."""

    def estimated(self, responses: Sequence[bytes]) -> int:
        """Of how many of these responses the log holds no more than a placeholder of the tokens."""

    def quarantined(self, session: int) -> int:
        """How many lines of the files of a session could not be understood."""


class _Part(NamedTuple):
    """One comparison."""

    claimed: Tokens
    calls: list[CountedCall]
    unlogged: Tokens
    difference: Tokens
    reasons: list[Reason]


def check(source: Compared, session: int) -> Agreement:
    """Compare what we counted of a session with what its agent says."""
    parts = [*_whole(source, session), *_streams(source, session)]
    if not any(part.calls or any(part.claimed[:COMPARED]) for part in parts):
        return NOTHING
    difference = added(part.difference for part in parts)
    differ = [part for part in parts if any(part.difference[:COMPARED])]
    reasons = [reason for part in parts for reason in part.reasons]
    if differ:
        reasons += _explained(source, session, [call for part in differ for call in part.calls], bool(reasons))
    unlogged = added(part.unlogged for part in parts)
    counted = added([unlogged, *(call.tokens for part in parts for call in part.calls)])
    return Agreement(
        status="differ" if differ else "agree",
        checked=sum(len(part.calls) for part in parts),
        claimed=_named(added(part.claimed for part in parts)),
        counted=_named(counted),
        unlogged=_named(unlogged) if any(unlogged[:COMPARED]) else {},
        difference=_named(difference) if differ else {},
        reasons=reasons,
    )


def _named(tokens: Tokens) -> dict[str, int]:
    return dict(zip(FIELDS, tokens, strict=False))


def _whole(source: Compared, session: int) -> Iterator[_Part]:
    for stretch in Book(source).stretches(session):
        reasons = [Reason("killed", len(stretch.forgotten))] if stretch.forgotten else []
        unlogged = added(stretch.unlogged.values())
        yield _Part(added(stretch.claimed.values()), stretch.calls, unlogged, stretch.difference, reasons)


def _streams(source: Compared, session: int) -> Iterator[_Part]:
    for stream, at, *tokens in source.streams(session):
        if stream == TELEMETRY and not any(tokens):
            continue  # withdrawn: the log counts
        shown = MAIN_STREAM if stream == TELEMETRY else stream
        calls = [call for call in source.calls(session, shown) if call.at <= at]
        counted = added(call.tokens for call in calls)
        if stream == TELEMETRY and not calls:
            yield _Part(tuple(tokens), [], tuple(tokens), (0,) * len(tokens), [])
            continue  # metrics alone are the usage of the session
        difference = tuple(theirs - ours for theirs, ours in zip(tokens, counted, strict=True))
        own = [call for call in calls if call.owner == session]
        if any(difference[:COMPARED]) and added(call.tokens for call in own)[:COMPARED] == tuple(tokens[:COMPARED]):
            # Some agents count what a fork copied, some begin anew.
            nothing = (0,) * len(tokens)
            yield _Part(tuple(tokens), own, nothing, nothing, [Reason("copied", len(calls) - len(own))])
            continue
        reasons = [] if calls else [Reason("missing", name=stream)]
        yield _Part(tuple(tokens), calls, (0,) * len(tokens), difference, reasons)


def _explained(source: Compared, session: int, calls: Iterable[CountedCall], known: bool) -> Iterator[Reason]:
    estimated = source.estimated([call.response for call in calls])
    if estimated:
        yield Reason("placeholder", estimated)
    quarantined = source.quarantined(session)
    if quarantined:
        yield Reason("unread", quarantined)
    if not (estimated or quarantined or known):
        yield Reason("unknown")
