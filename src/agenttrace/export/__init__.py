"""Sealed spans on their way to other programs: each sent once, and remembered."""

from __future__ import annotations
