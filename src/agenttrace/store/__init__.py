"""The trace store: every question about traces and every write of them."""

from __future__ import annotations
