"""Has this event been recorded: looked up in the session's set, then in the recent ids, then in the store.

L0, a set for each session that is being read, answers nearly everything: as long as it is complete (the session is
new, or the set was never evicted) a miss there is final and no other tier is read. L1 is an LRU over all
sessions. L2 is the store's unique index on the ids of a session, queried for a whole chunk of lines at once.

Ids live as long as the data they guard; a time limit would bring duplicates back when an older file is read again.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

#: The most ids in all L0 sets together; the set of the session that was idle longest is evicted first.
SESSION_IDS_LIMIT = 200_000


class StoredIds(Protocol):
    """What L2 needs of a store."""

    def known_events(self, number: int, candidates: Iterable[bytes], /) -> set[bytes]:
        """Which of these events of a session are recorded already."""


class SessionIds:
    """L0 for one session."""

    __slots__ = ("complete", "ids", "number")

    def __init__(self, number: int, *, complete: bool) -> None:
        self.number = number
        self.ids: set[bytes] = set()
        #: True while every id of the session in the store is in ``ids``, too.
        self.complete = complete


class Tiers:
    """The three tiers over one store; ids are 16 bytes."""

    def __init__(self, stored: StoredIds, recent_size: int = 10_000) -> None:
        self._stored = stored
        self._sessions: dict[int, SessionIds] = {}
        self._recent: OrderedDict[bytes, None] = OrderedDict()
        #: Ids to be entered into L1 with its next lookup: a long import hardly ever needs one.
        self._young: deque[bytes] = deque(maxlen=recent_size)
        self.recent_size = recent_size
        self.hits = {"l0": 0, "l1": 0, "l2": 0}
        self.misses = 0

    def session(self, number: int, *, new: bool) -> SessionIds:
        """L0 of a session, moved to the young end; ``new``: the store has nothing of it."""
        known = self._sessions.pop(number, None)
        if known is None:
            known = SessionIds(number, complete=new)
        self._sessions[number] = known
        return known

    def known(self, session: SessionIds, candidates: Sequence[bytes]) -> set[bytes]:
        """Which candidates were recorded before, looked up tier by tier, with one query to the store."""
        found = session.ids.intersection(candidates)
        if session.complete and not found:
            self.misses += len(candidates)
            return found
        unsure: list[bytes] = []
        self._enter_young()
        for candidate in candidates:
            if candidate in session.ids:
                self.hits["l0"] += 1
            elif session.complete:
                self.misses += 1
            elif candidate in self._recent:
                self.hits["l1"] += 1
                self._refresh(candidate)
                found.add(candidate)
            else:
                unsure.append(candidate)
        if unsure:
            stored = self._stored.known_events(session.number, unsure)
            hits = sum(candidate in stored for candidate in unsure)
            self.hits["l2"] += hits
            self.misses += len(unsure) - hits
            self.remember(stored)
            found |= stored
        return found

    def repeated(self) -> None:
        """An id that was new when its chunk was looked up, met a second time in that chunk."""
        self.misses -= 1
        self.hits["l0"] += 1

    def _refresh(self, candidate: bytes) -> None:
        self._recent.move_to_end(candidate)

    def count_from(self, counted: Mapping[str, int]) -> None:
        """Reset the counters: the lookups since then are done again."""
        self.hits = {tier: counted.get(f"dedup_{tier}_hits", 0) for tier in self.hits}
        self.misses = counted.get("dedup_misses", 0)

    def remember_later(self, event_ids: Iterable[bytes]) -> None:
        """Enter ids into L1 with its next lookup."""
        self._young.extend(event_ids)

    def _enter_young(self) -> None:
        if self._young:
            self.remember(self._young)
            self._young.clear()

    def remember(self, event_ids: Iterable[bytes]) -> None:
        """Enter ids into L1; the least recently used leave."""
        recent = self._recent
        for event_id in event_ids:
            recent[event_id] = None
            recent.move_to_end(event_id)
        while len(recent) > self.recent_size:
            recent.popitem(last=False)

    def trim_sessions(self) -> None:
        """Keep L0 within its limit; evicted ids are still in the store."""
        total = sum(len(session.ids) for session in self._sessions.values())
        for number in list(self._sessions):
            if total <= SESSION_IDS_LIMIT:
                break
            total -= len(self._sessions.pop(number).ids)

    def end_session(self, number: int) -> None:
        """Free a session's set; later lines of it are looked up in L1 and L2."""
        self._sessions.pop(number, None)

    def forget(self) -> None:
        """Drop L0 and L1, after a batch was rolled back: they may have ids that were never stored."""
        self._sessions.clear()
        self._recent.clear()
        self._young.clear()

    @property
    def recent_count(self) -> int:
        """How many ids L1 has."""
        self._enter_young()
        return len(self._recent)

    def rates(self) -> dict[str, float]:
        """The hit rate of each tier, of all lookups."""
        asked = sum(self.hits.values()) + self.misses
        return {f"{tier}_hit_rate": (hits / asked if asked else 0.0) for tier, hits in self.hits.items()}
