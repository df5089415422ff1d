"""The ways in which a call can be made to go wrong, one function each, and which call gets which."""

from __future__ import annotations

import inspect
import random
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any

import msgspec


@dataclass(frozen=True, kw_only=True, slots=True)
class Fault:
    """What happens to one call instead of, or on top of, its answer."""

    kind: str
    #: DashScope's error code, HTTP status, message and ``Retry-After`` where the fault is an error answer.
    code: str = ""
    http: Annotated[int, msgspec.Meta(ge=200, le=599)] = 200
    message: str = ""
    retry_after: Annotated[float, msgspec.Meta(ge=0)] | None = None
    #: How many frames of a stream still arrive.
    chunks: Annotated[int, msgspec.Meta(ge=0)] = 0
    seconds: Annotated[float, msgspec.Meta(ge=0)] = 0.0


#: The codes that DashScope sends with these statuses.
_CODES = {
    400: "InvalidParameter",
    401: "InvalidApiKey",
    403: "AccessDenied",
    404: "ModelNotFound",
    408: "RequestTimeOut",
    413: "InvalidParameter",
    429: "Throttling.RateQuota",
    500: "InternalError",
    503: "ServiceUnavailable",
}


def status(
    code: str | int = "InternalError",
    http: int = 500,
    retry_after: float | None = None,
    message: str = "The simulator was ordered to refuse this call.",
) -> Fault:
    """An error answer: ``status("Throttling.RateQuota", 429)``, or for short ``status(503)``."""
    if isinstance(code, int):
        return status(_CODES.get(code, "InternalError"), code, retry_after, message)
    return Fault(kind="status", code=code, http=http, retry_after=retry_after, message=message)


def error_200(code: str = "InternalError", message: str = "The simulator was ordered to fail this call.") -> Fault:
    """HTTP 200, and inside it a code and a message instead of an output."""
    return Fault(kind="error_200", code=code, message=message)


def html(http: int = 502) -> Fault:
    """A proxy's error page instead of JSON."""
    return Fault(kind="html", http=http)


def hang(after_chunks: int = 0) -> Fault:
    """No answer, ever; of a stream the first frames still arrive."""
    return Fault(kind="hang", chunks=after_chunks)


def reset(after_chunks: int = 0) -> Fault:
    """The connection is reset; of a stream the first frames were sent."""
    return Fault(kind="reset", chunks=after_chunks)


def half_frame(after_chunks: int = 1) -> Fault:
    """The connection closes in the middle of a frame (or of the body, where nothing is streamed)."""
    return Fault(kind="half_frame", chunks=after_chunks)


def cut_after(chunks: int = 1) -> Fault:
    """The connection closes after so many whole frames (or in the middle of the body)."""
    return Fault(kind="cut_after", chunks=chunks)


def no_finish() -> Fault:
    """The stream ends properly, but its last frame, the one that says ``stop``, is missing."""
    return Fault(kind="no_finish")


def error_frame(code: str = "Throttling.RateQuota", http: int = 429, after_chunks: int = 1) -> Fault:
    """An ``event:error`` frame after so many good ones; an error answer where nothing is streamed."""
    message = "The simulator was ordered to fail in the middle."
    return Fault(kind="error_frame", code=code, http=http, chunks=after_chunks, message=message)


def bad_json() -> Fault:
    """An answer that is no JSON, billed all the same."""
    return Fault(kind="bad_json")


def empty_usage() -> Fault:
    """A good answer whose usage is ``{}``."""
    return Fault(kind="empty_usage")


def slow(seconds: float = 5.0) -> Fault:
    """A good answer that begins so much later."""
    return Fault(kind="slow", seconds=seconds)


def session_changed() -> Fault:
    """A good answer, but the session is a new one that remembers nothing."""
    return Fault(kind="session_changed")


def session_expired(http: int = 400) -> Fault:
    """Refuses a call that relies on a ``session_id``; calls without one are answered and do not use the fault up."""
    message = "The session_id does not exist or has expired."
    return Fault(kind="session_expired", code="InvalidParameter.SessionExpired", http=http, message=message)


def unicode_separators() -> Fault:
    """A good answer whose text holds U+2028, U+2029 and U+0085 unescaped: line ends to some, not to SSE."""
    return Fault(kind="unicode_separators")


#: All of them by name, for the command line and the control endpoint.
BY_NAME: dict[str, Callable[..., Fault]] = {
    name: make
    for name, make in list(globals().items())
    if inspect.isfunction(make) and make.__annotations__.get("return") == "Fault"
}


def named(name: str, options: Mapping[str, Any] | None = None) -> Fault:
    """The fault of that name with its options; a ValueError says what is wrong with either."""
    make = BY_NAME.get(name)
    if make is None:
        raise ValueError(f"no fault is called {name!r}; there are: {', '.join(BY_NAME)}")
    given = dict(options or {})
    try:
        inspect.signature(make).bind(**given)
    except TypeError:
        known = ", ".join(inspect.signature(make).parameters) or "none"
        raise ValueError(f"the fault {name!r} has no such options; its options are: {known}") from None
    return msgspec.convert(msgspec.to_builtins(make(**given)), Fault)


class Orders:
    """Faults by app id; ``None`` stands for any app. An app's own orders come before those for any."""

    def __init__(self, seed: int = 0) -> None:
        self._queues: dict[str | None, deque[Fault]] = {}
        self._standing: dict[str | None, tuple[Fault, float]] = {}
        self._random = random.Random(seed)  # noqa: S311 - decides which simulated call fails

    def queue(self, app_id: str | None, faults: tuple[Fault, ...]) -> None:
        """The next calls get these, one each."""
        self._queues.setdefault(app_id, deque()).extend(faults)

    def stand(self, app_id: str | None, fault: Fault | None, rate: float = 1.0) -> None:
        """Every call gets this one, or that share of the calls; None ends it."""
        if fault is None:
            self._standing.pop(app_id, None)
        else:
            self._standing[app_id] = (fault, rate)

    def clear(self) -> None:
        """All calls go well again."""
        self._queues.clear()
        self._standing.clear()

    def take(self, app_id: str, *, in_session: bool) -> Fault | None:
        """The fault of a call that has just arrived."""
        if not self._queues and not self._standing:
            return None
        for key in (app_id, None):
            for fault in self._queues.get(key, ()):
                if _fits(fault, in_session):
                    # Equal faults are as good as each other: it does not matter which of them goes.
                    self._queues[key].remove(fault)
                    return fault
        for key in (app_id, None):
            standing = self._standing.get(key)
            if standing is not None and _fits(standing[0], in_session):
                fault, rate = standing
                return fault if rate >= 1 or self._random.random() < rate else None
        return None


def _fits(fault: Fault, in_session: bool) -> bool:
    return in_session or fault.kind != "session_expired"
