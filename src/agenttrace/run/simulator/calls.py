"""Requests to the simulator: how they are read, the log of calls, and the sessions they belong to."""

from __future__ import annotations

import time
import uuid
from collections import Counter, OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import msgspec

#: The most calls that the log has one by one; the counters have no limit.
MAX_CALLS = 100_000
#: The most sessions; the one that was not used for the longest time is dropped first.
_MAX_SESSIONS = 10_000

#: One turn of a dialogue: ``{"role": ..., "content": ...}``.
Message = dict[str, Any]


class RequestRefusedError(Exception):
    """The request is wrong: the HTTP status, the error code, and the message."""

    def __init__(self, http: int, code: str, message: str) -> None:
        super().__init__(message)
        self.http, self.code, self.message = http, code, message


@dataclass(frozen=True, kw_only=True, slots=True)
class AppRequest:
    """The parts of a request's body that the simulator uses."""

    #: The turns in this request, the last one included.
    turns: tuple[Message, ...]
    #: The session to continue; never together with ``messages``, because those take precedence.
    session_id: str | None = None
    biz_params: dict[str, Any] = field(default_factory=dict)
    parameters: dict[str, Any]

    @property
    def prompt(self) -> str:
        """The text of the last turn."""
        return str(self.turns[-1].get("content", ""))


def decoded(raw: bytes) -> dict[str, Any] | None:
    """The body, or None where it is no JSON object."""
    try:
        body = msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    return body if isinstance(body, dict) else None


def object_of(holder: dict[str, Any], name: str) -> dict[str, Any]:
    """The object under that name; an empty one where there is none."""
    value = holder.get(name)
    return value if isinstance(value, dict) else {}


def messages_of(value: object) -> tuple[Message, ...]:
    """The turns of a request; a RequestRefusedError where the value is not a list of turns."""
    if value is None:
        return ()
    if not isinstance(value, list) or not all(isinstance(turn, dict) and "role" in turn for turn in value):
        message = "messages has to be a list of objects with role and content."
        raise RequestRefusedError(400, "InvalidParameter", message)
    return tuple(value)


@dataclass(kw_only=True, slots=True)
class SimulatedCall:
    """One request and its outcome."""

    #: The application, or the model.
    app_id: str
    body: dict[str, Any]
    #: As sent, without the Authorization; names are case-insensitive.
    headers: Mapping[str, str]
    stream: bool
    #: Unix time of arrival.
    at: float = field(default_factory=time.time)
    #: ``running``, then ``answered``, ``refused`` (the request was wrong), ``hung_up`` (by the client), or the fault.
    outcome: str = "running"
    #: All turns that the model sees: those of the session and those of the request.
    context: tuple[Message, ...] = ()
    #: The session that the answer names.
    session_id: str = ""
    #: The text of the answer, also where only a part of it was sent.
    text: str = ""


class CallLog:
    """The last calls, oldest first, and the counts of all."""

    def __init__(self, limit: int = MAX_CALLS) -> None:
        self.calls: list[SimulatedCall] = []
        self._limit = limit
        self._counts: dict[str, Counter[str]] = {}

    def begin(self, call: SimulatedCall) -> None:
        """Add a call that has arrived."""
        if len(self.calls) >= self._limit:
            # A tenth at once: removing one from the front of a list each time would move all the others.
            del self.calls[: max(1, self._limit // 10)]
        self.calls.append(call)
        self._counts.setdefault(call.app_id, Counter())["calls"] += 1

    def end(self, call: SimulatedCall, outcome: str) -> None:
        """Set the outcome of a call and count it."""
        call.outcome = outcome
        self._counts.setdefault(call.app_id, Counter())[outcome] += 1

    def clear(self) -> None:
        """Remove calls and counts."""
        self.calls.clear()
        self._counts.clear()

    def counts(self) -> dict[str, dict[str, int]]:
        """By app id: how many calls, and how many of each outcome."""
        # A call that began before the counts were cleared has an outcome, but is not among these calls.
        return {app_id: {"calls": counter["calls"], **counter} for app_id, counter in self._counts.items()}


class _CloudSession(NamedTuple):
    messages: tuple[Message, ...]
    rounds: int
    used_at: float


class CloudSessions:
    """Dialogues by session id. The hour is counted from the last round; the vendor does not document it."""

    def __init__(self, *, seconds: float, rounds: int, clock: Callable[[], float]) -> None:
        self._seconds, self._rounds, self._clock = seconds, rounds, clock
        self._sessions: OrderedDict[str, _CloudSession] = OrderedDict()

    def history(self, session_id: str) -> tuple[Message, ...] | None:
        """The turns so far, or None where the session is unknown, expired or at its limit of rounds."""
        found = self._sessions.get(session_id)
        if found is None:
            return None
        if found.rounds >= self._rounds or self._clock() - found.used_at >= self._seconds:
            del self._sessions[session_id]
            return None
        return found.messages

    def add_round(self, session_id: str, context: Sequence[Message], answer: str) -> None:
        """Add one round to the session: the turns that the model saw, and its answer."""
        found = self._sessions.pop(session_id, None)
        messages = (*context, {"role": "assistant", "content": answer})
        rounds = 1 if found is None else found.rounds + 1
        self._sessions[session_id] = _CloudSession(messages, rounds, self._clock())
        if len(self._sessions) > _MAX_SESSIONS:
            self._sessions.popitem(last=False)

    def clear(self) -> None:
        """Remove all sessions: every session id is unknown from now on."""
        self._sessions.clear()


def new_session_id() -> str:
    """32 hex digits, as DashScope issues them."""
    return uuid.uuid4().hex
