"""Who looks at a team's store, and what of other persons' sessions they see.

Without a sight everything is visible: on one machine, to admins of a team, and in the server's own work.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Literal

import msgspec

from agenttrace.model import Session
from agenttrace.store.questions import MAIN_STREAM, NOT_IN_LOG, TELEMETRY, SpanRow

#: ``full``: everything; ``figures``: counts, tokens, times, state; ``nothing``: not even that the session exists.
Level = Literal["full", "figures", "nothing"]

_HASH_DIGITS = 12
_STREAMS = frozenset((MAIN_STREAM, TELEMETRY, NOT_IN_LOG))
_TOOL = "execute_tool"


class Sight(msgspec.Struct, frozen=True, kw_only=True):
    """A member or viewer; equal ones see the same."""

    role: Literal["member", "viewer"]
    #: Whose sessions a member sees in full.
    person: str | None = None
    #: The machines that share their sessions with all members.
    shared: frozenset[str] = frozenset()
    #: Whether figures of other sessions are shown; where not, only sums that name no session, project or person.
    figures: bool = True
    #: Of the hashes in place of names.
    key: bytes = b""

    @property
    def persons(self) -> frozenset[str]:
        """The person whose sessions are shown in full, as a filter."""
        return frozenset((self.person,)) if self.role == "member" and self.person else frozenset()

    @property
    def machines(self) -> frozenset[str]:
        """The machines whose sessions are shown in full, as a filter."""
        return self.shared if self.role == "member" else frozenset()

    @property
    def others(self) -> Level:
        """What is shown of sessions that are not shown in full."""
        return "figures" if self.figures else "nothing"

    def level(self, session: Session) -> Level:
        """What is shown of a session."""
        is_full = session.person in self.persons or session.machine in self.machines
        return "full" if is_full else self.others

    def name(self, kind: str, text: str) -> str:
        """The hash that stands for a name: the same everywhere, and not to be guessed without the key."""
        digest = hmac.digest(self.key, f"{kind}\x1f{text}".encode("utf-8", "surrogatepass"), "sha256")
        return f"{kind}-{digest.hex()[:_HASH_DIGITS]}"

    def masked(self, session: Session) -> Session:
        """A session whose figures alone are shown."""
        return msgspec.structs.replace(
            session,
            session_id=self.name("session", session.session_id),
            project=session.project and self.name("project", session.project),
            branch=None,
            title=None,
            first_prompt=None,
            parent=None,
        )

    def masked_span(self, row: SpanRow) -> SpanRow:
        """A span of such a session."""
        stream = row.stream if row.stream in _STREAMS else self.name("stream", row.stream)
        return row._replace(stream=stream, name=span_name(row.kind, row.name, row.model), attributes=None)


def span_name(kind: str, name: str, model: str | None = None) -> str:
    """The name of a span of which figures alone are shown: programs name others after what they work on."""
    if kind == "tool":
        return name if name.startswith(f"{_TOOL} ") else _TOOL
    named = {"turn": "invoke_agent", "step": f"chat {model}" if model else "chat"}
    return named.get(kind, kind)


_current: ContextVar[Sight | None] = ContextVar("sight", default=None)
#: Asks for the sight again, for streams: what is shared may change while they are open.
_renewal: ContextVar[Callable[[], Sight | None]] = ContextVar("renewal", default=lambda: None)


def current_sight() -> Sight | None:
    """The sight of the request that is being answered; ``None``: everything is visible."""
    return _current.get()


def sight_renewal() -> Callable[[], Sight | None]:
    """What answers which sight the current request would have later."""
    return _renewal.get()


@contextmanager
def seeing(sight: Sight | None, renewal: Callable[[], Sight | None] = lambda: None) -> Iterator[None]:
    """What is asked inside is answered for this sight; ``renewal`` asks which one it is later."""
    before, before_renewal = _current.set(sight), _renewal.set(renewal)
    try:
        yield
    finally:
        _current.reset(before)
        _renewal.reset(before_renewal)
