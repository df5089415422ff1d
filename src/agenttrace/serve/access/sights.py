"""What each visitor of a team's server sees of the sessions of others."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from agenttrace.config.types import Figures
from agenttrace.serve.access.visitor import Visitor
from agenttrace.store.sight import Sight

if TYPE_CHECKING:
    from agenttrace.serve.access.access_store import AccessStore

#: The name of the key that hides names.
_KEY = "names"
#: How long a machine that shares less is still shown as before.
_FRESH_SECONDS = 1.0


class Sights:
    """The sight of a visitor."""

    def __init__(self, access: AccessStore, figures: Figures) -> None:
        self._machines, self._figures = access.machines, figures
        self._key = access.keys.get(_KEY)
        self._shared, self._read_at = frozenset[str](), float("-inf")

    def __call__(self, visitor: Visitor | None) -> Sight | None:
        """``None`` for admins, who see everything. Before the login nothing is seen."""
        if visitor is None:
            return Sight(role="viewer", figures=False, key=self._key)
        if visitor.role == "admin":
            return None
        return Sight(
            role=visitor.role,
            person=visitor.person,
            shared=self._sharing() if visitor.role == "member" else frozenset(),
            figures=self._figures == "everyone",
            key=self._key,
        )

    def _sharing(self) -> frozenset[str]:
        """The machines that share everything; there may be thousands."""
        now = time.monotonic()
        if now - self._read_at >= _FRESH_SECONDS:
            self._shared, self._read_at = self._machines.shared(), now
        return self._shared
