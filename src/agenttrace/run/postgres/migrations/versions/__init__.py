"""One module a revision; what was released is never changed."""

from __future__ import annotations
