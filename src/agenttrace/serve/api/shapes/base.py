"""What all shapes have in common."""

from __future__ import annotations

import msgspec


class Shape(msgspec.Struct):
    """An object of the API, where ``views/`` does not define it."""
