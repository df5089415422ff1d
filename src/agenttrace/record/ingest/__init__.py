"""Lines become batches: deduplication, folding, quarantine."""

from __future__ import annotations
