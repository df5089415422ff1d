"""Texts of recorded lines, and the search index."""

from __future__ import annotations
