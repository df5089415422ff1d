"""Which fault a call gets: those ordered one by one first, then the standing ones."""

from __future__ import annotations

import random
from collections import deque

from agenttrace.run.simulator.faults import Fault


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
