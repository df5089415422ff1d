"""What the simulator was asked: every call, and how many there were."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

#: How many calls are stored; the counters count all.
MOST_CALLS = 100_000

#: One turn of a dialogue: ``{"role": ..., "content": ...}``.
Message = dict[str, Any]


@dataclass(kw_only=True, slots=True)
class ReceivedCall:
    """One request, and what became of it."""

    #: The application, or the model.
    app_id: str
    body: dict[str, Any]
    #: As sent, without the Authorization; names are found in any case.
    headers: Mapping[str, str]
    stream: bool
    #: Unix time of arrival.
    at: float = field(default_factory=time.time)
    #: ``running``, then ``answered``, ``refused`` (the request was wrong), ``hung_up`` (by the client), or the fault.
    outcome: str = "running"
    #: All that the model gets to see: the turns before this one, and this one.
    context: tuple[Message, ...] = ()
    #: The session that the answer names.
    session_id: str = ""
    #: The text of the answer, also where only a part of it was sent.
    text: str = ""


class CallLog:
    """The last calls, oldest first, and the counts of all."""

    def __init__(self, limit: int = MOST_CALLS) -> None:
        self.calls: list[ReceivedCall] = []
        self._limit = limit
        self._counts: dict[str, Counter[str]] = {}

    def begin(self, call: ReceivedCall) -> None:
        """A call has arrived."""
        if len(self.calls) >= self._limit:
            # A tenth at once: taking one from the front of a list each time would move all the others.
            del self.calls[: max(1, self._limit // 10)]
        self.calls.append(call)
        self._count(call.app_id)["calls"] += 1

    def end(self, call: ReceivedCall, outcome: str) -> None:
        """The call is over."""
        call.outcome = outcome
        self._count(call.app_id)[outcome] += 1

    def clear(self) -> None:
        """Forget calls and counts."""
        self.calls.clear()
        self._counts.clear()

    def counts(self) -> dict[str, dict[str, int]]:
        """By app id: how many calls, and how many of each outcome."""
        # A call that began before the counts were cleared has an outcome, but is no call of these.
        return {app_id: {"calls": counter["calls"], **counter} for app_id, counter in self._counts.items()}

    def _count(self, app_id: str) -> Counter[str]:
        found = self._counts.get(app_id)
        if found is None:
            found = self._counts[app_id] = Counter()
        return found
