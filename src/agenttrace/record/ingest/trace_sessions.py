"""Which session a trace is recorded in: the one that a span of it names, and until then a session for the trace alone.

Children arrive before their parents, minutes before in a long turn, and often only the root names the session. So a
trace is recorded as a separate session at first, and once one of its spans names another session, all of it is moved
there. The row of the separate session stays, without events, and names the other one; the first name counts, whatever
later spans say.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from agenttrace.model import Session
from agenttrace.record.formats.contract import Source

if TYPE_CHECKING:
    from agenttrace.record.ingest.pipeline import LiveSession, Pipeline

_MAIN = "main"
#: How long a chain of traces may be, each named as the session of the next.
_FURTHEST = 8


def is_joined(session: Session) -> bool:
    """Whether a row only says that a trace is part of another session; a row that retention emptied has times."""
    return session.parent is not None and session.events == 0 and session.started_at is None


class TraceSessions:
    """The sessions of traces, over the sessions of a pipeline."""

    def __init__(self, pipeline: Pipeline) -> None:
        self._pipeline = pipeline

    def of(self, agent: str, trace: str) -> LiveSession:
        """Where the trace is recorded as of now."""
        live = self._pipeline.looked_up(agent, trace)
        for _ in range(_FURTHEST):
            if not live.joined or live.session.parent is None:
                break
            live = self._pipeline.looked_up(agent, live.session.parent)
        return live

    def named(self, source: Source, trace: str, session: str | None) -> LiveSession:
        """Where it is recorded from now on, given the session that a span of it names."""
        own = self._pipeline.looked_up(source.agent, trace)
        home = self.of(source.agent, trace)
        if session is not None and not own.joined:
            whole = self.of(source.agent, session)
            if whole is not own:
                self._join(own, whole, trace, source)
                home = whole
        self._pipeline.sessions.add((source.agent, home.session.session_id))
        return home

    def _join(self, own: LiveSession, whole: LiveSession, trace: str, source: Source) -> None:
        if own.session.events or not own.new:
            self._absorb(own, whole, trace, source)
        # Its rank among the owners of a response is what it was: nothing is to be compared anew.
        own.session = Session(
            id=own.session.id,
            agent=own.session.agent,
            session_id=own.session.session_id,
            parent=whole.session.session_id,
            born=own.session.born,
        )
        own.joined = True
        self._pipeline.sessions.discard((source.agent, trace))

    def _absorb(self, own: LiveSession, whole: LiveSession, trace: str, source: Source) -> None:
        """Make all that was recorded of a trace part of another session, here and, with the batch, in the store."""
        pipeline = self._pipeline
        part, folder = (pipeline.folder(live, _MAIN, source) for live in (own, whole))
        for live in (own, whole):
            pipeline.summarise(live)
        _merge(whole.session, own.session)
        number = folder.absorb(part, trace)
        pipeline.absorb(own.session.id, whole.session.id, number)
        whole.ids.ids |= own.ids.ids
        whole.ids.complete = whole.ids.complete and own.ids.complete
        whole.parts += [own.ids, *own.parts]
        own.parts = []
        own.folders.clear()


def _merge(whole: Session, part: Session) -> None:
    """The row of a session with that of what became part of it."""
    for name in ("turns", "steps", "tools", "errors", "events"):
        setattr(whole, name, getattr(whole, name) + getattr(part, name))
    for name in ("project", "branch", "title", "first_prompt", "version", "model", "born"):
        if getattr(whole, name) is None:
            setattr(whole, name, getattr(part, name))
    times = [at for at in (whole.started_at, part.started_at) if at is not None]
    whole.started_at = min(times, default=None)
    whole.last_at = max((at for at in (whole.last_at, part.last_at) if at is not None), default=None)
