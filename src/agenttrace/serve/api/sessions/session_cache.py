"""What takes a pass over all lines of a session, cached for the sessions that were asked for last."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from agenttrace.model import Session
    from agenttrace.store.store import Store

T = TypeVar("T")

#: Sessions in a cache: a page asks more than once.
_MOST = 4


class SessionCache(Generic[T]):
    """Values of sessions, made again when a session has changed, or what they ``depend`` on beside it."""

    def __init__(self, make: Callable[[Store, Session], T], depend: Callable[[], object] = lambda: None) -> None:
        self._make, self._depend = make, depend
        self._known: dict[int, tuple[object, T]] = {}
        self._lock = threading.Lock()

    def get(self, store: Store, session: Session) -> T:
        """The value of a session as of now."""
        revisions = (store.spans_revision(session.id), store.figures_revision(session.id))
        version = (session.events, session.state, store.shows(session.id), *revisions, self._depend())
        with self._lock:
            known = self._known.get(session.id)
        if known is not None and known[0] == version:
            return known[1]
        found = self._make(store, session)
        with self._lock:
            self._known.pop(session.id, None)
            self._known[session.id] = (version, found)
            if len(self._known) > _MOST:
                del self._known[next(iter(self._known))]
        return found
