"""The trace store: one SQLite file, one writer, roll-ups for everything a list shows."""

from __future__ import annotations
